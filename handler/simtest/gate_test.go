package simtest

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"
)

// service is one stand-in behind the gate.
type service string

const (
	tablestore service = "tablestore"
	oss        service = "oss"
	model      service = "model"
	target     service = "target"
)

// call is one HTTP call that waits for the driver.
type call struct {
	worker  *worker
	service service
	op      string // what the driver sorts by and the trace shows: no owner, no time
	about   string
	req     *http.Request
	body    []byte
	reply   chan reply

	arrived time.Time
	held    time.Time // not to be released before
	early   *reply    // the effect is there, the answer is held back
	gone    bool      // the caller has left; the call may still be on its way
	late    bool      // it is, and arrives when held is over
}

type reply struct {
	resp *http.Response
	err  error
}

var errEnd = errors.New("the schedule is over")

// gate parks the calls of one worker to one service.
type gate struct {
	world   *world
	worker  *worker
	service service
}

func (g gate) RoundTrip(req *http.Request) (*http.Response, error) {
	w := g.world
	c := &call{worker: g.worker, service: g.service, req: req, reply: make(chan reply, 1)}
	if req.Body != nil {
		var err error
		if c.body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		req.Body.Close()
	}
	c.op, c.about = describe(g.service, req, c.body)
	if !w.park(c) {
		<-w.end
		return nil, errEnd
	}
	select {
	case r := <-c.reply:
		return r.resp, r.err
	case <-g.worker.dead:
	case <-req.Context().Done():
		if w.leave(c) {
			return nil, req.Context().Err()
		}
	case <-w.end:
		return nil, errEnd
	}
	<-w.end
	return nil, errEnd
}

// park queues a call; false means that its worker is dead.
func (w *world) park(c *call) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.worker.crashed || w.over {
		return false
	}
	c.arrived = time.Now()
	w.parked = append(w.parked, c)
	w.nudge()
	return true
}

// leave notes that the caller has given up; false means that its worker is dead.
func (w *world) leave(c *call) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	c.gone = true
	w.nudge()
	return !c.worker.crashed
}

var (
	hexKey    = regexp.MustCompile(`[0-9a-f]{64}`)
	tableName = regexp.MustCompile(`task_records|dead_letters|reviews|replay_plans|replay_approvals`)
)

func describe(s service, req *http.Request, body []byte) (op, about string) {
	switch s {
	case tablestore:
		return strings.TrimPrefix(req.URL.Path, "/"), string(tableName.Find(body)) + "/" + string(hexKey.Find(body))
	case oss:
		return req.Method, strings.TrimPrefix(req.URL.Path, "/"+bucketName) + req.URL.Query().Get("prefix")
	case model:
		return "Complete", req.Header.Get("X-Request-Id")
	default:
		about = req.Header.Get("Idempotency-Key") + req.URL.RawQuery
		if about == "" {
			about = string(hexKey.Find(body))
		}
		return req.Method + " " + req.URL.Path, about
	}
}

// write reports whether the call changes anything.
func (c *call) write() bool {
	switch c.service {
	case tablestore:
		return c.op == "PutRow" || c.op == "UpdateRow"
	case oss:
		return c.req.Method == http.MethodPut
	default:
		return c.req.Method == http.MethodPost
	}
}

// carryOut lets the call reach its service, in the driver's goroutine.
func (c *call) carryOut(base http.RoundTripper) reply {
	req := c.req.Clone(c.worker.world.background)
	req.Body, req.GetBody = io.NopCloser(bytes.NewReader(c.body)), nil
	resp, err := base.RoundTrip(req)
	return reply{resp, err}
}

func compareCalls(a, b *call) int {
	return cmp.Or(cmp.Compare(a.worker.id, b.worker.id), cmp.Compare(a.service, b.service), cmp.Compare(a.op, b.op),
		cmp.Compare(a.about, b.about), a.arrived.Compare(b.arrived))
}

// waiting returns the parked calls in an order that repeats.
func (w *world) waiting() []*call {
	w.mu.Lock()
	defer w.mu.Unlock()
	slices.SortStableFunc(w.parked, compareCalls)
	return slices.Clone(w.parked)
}

func (w *world) unpark(c *call) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.parked = slices.DeleteFunc(w.parked, func(p *call) bool { return p == c })
}
