package handler_test

import (
	"bytes"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/flows/targettest"
	"github.com/oncegate/oncegate/handler"
)

var update = flag.Bool("update", false, "write the golden files anew")

// traffic counts calls and the bytes of their bodies by kind.
type traffic struct {
	mu    sync.Mutex
	kinds map[string]*flow
}

// flow is what went out and came back in calls of one kind.
type flow struct{ calls, sent, received int }

func (t *traffic) through(next http.RoundTripper) http.RoundTripper { return metered{t, next} }

func (t *traffic) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kinds = map[string]*flow{}
}

func (t *traffic) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for _, kind := range slices.Sorted(maps.Keys(t.kinds)) {
		f := t.kinds[kind]
		fmt.Fprintf(&b, "  %-32s %3d calls %6d sent %6d received\n", kind, f.calls, f.sent, f.received)
	}
	if b.Len() == 0 {
		return "  nothing\n"
	}
	return b.String()
}

type metered struct {
	t    *traffic
	next http.RoundTripper
}

func (m metered) RoundTrip(r *http.Request) (*http.Response, error) {
	kind, sent := kindOf(r), int(max(r.ContentLength, 0))
	resp, err := m.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	// An answer that is cut is cut for the client too.
	resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), cut{err}))
	received := len(body)
	m.t.mu.Lock()
	defer m.t.mu.Unlock()
	f := m.t.kinds[kind]
	if f == nil {
		f = new(flow)
		if m.t.kinds == nil {
			m.t.kinds = map[string]*flow{}
		}
		m.t.kinds[kind] = f
	}
	f.calls++
	f.sent += sent
	f.received += received
	return resp, nil
}

// cut ends a body with the error that its reader met, if any.
type cut struct{ err error }

func (c cut) Read([]byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	return 0, io.EOF
}

// kindOf names a call as its service does, and for objects what it is about.
func kindOf(r *http.Request) string {
	switch {
	case r.Method == http.MethodPost:
		return "tablestore " + path.Base(r.URL.Path)
	case r.URL.Query().Has("list-type"):
		return "oss ListObjects"
	case r.Method == http.MethodPut:
		return "oss PutObject " + path.Base(r.URL.Path)
	default:
		return "oss " + r.Method + " " + path.Base(r.URL.Path)
	}
}

// roads are the ways that a delivery goes. Each prepares a world and returns what
// is measured.
var roads = []struct {
	name string
	of   func(w *effectWorld) func()
}{
	{"fresh", func(w *effectWorld) func() {
		h := w.world.instance()
		return func() { w.acked(w.deliver(h, order("e1", "17", 5)), handler.DecisionExecuted) }
	}},
	{"fresh with one effect", func(w *effectWorld) func() {
		h := w.instance()
		return func() { w.acked(w.deliver(h, place("e1", "17", 5)), handler.DecisionExecuted) }
	}},
	{"finished duplicate, warm", func(w *effectWorld) func() {
		h := w.world.instance()
		w.acked(w.deliver(h, order("e1", "17", 5)), handler.DecisionExecuted)
		return func() { w.acked(w.deliver(h, order("e2", "17", 5)), handler.DecisionDuplicate) }
	}},
	{"finished duplicate, cold", func(w *effectWorld) func() {
		w.acked(w.deliver(w.world.instance(), order("e1", "17", 5)), handler.DecisionExecuted)
		h := w.world.instance()
		return func() { w.acked(w.deliver(h, order("e2", "17", 5)), handler.DecisionDuplicate) }
	}},
	{"finished duplicate, said to be a retry", func(w *effectWorld) func() {
		w.acked(w.deliver(w.world.instance(), order("e1", "17", 5)), handler.DecisionExecuted)
		h := w.world.instance()
		return func() { w.acked(w.again(h, order("e1", "17", 5)), handler.DecisionDuplicate) }
	}},
	{"in progress", func(w *effectWorld) func() {
		w.seed(order("e1", "17", 5), nil)
		h := w.world.instance()
		return func() { w.deliver(h, order("e2", "17", 5)) }
	}},
	{"a run that fails and comes again", func(w *effectWorld) func() {
		h := w.world.instance()
		w.work.set(failing(unavailable))
		return func() { w.retried(w.deliver(h, order("e1", "17", 5)), unavailable.Code) }
	}},
	{"the run after it", func(w *effectWorld) func() {
		h := w.world.instance()
		w.work.set(failing(unavailable))
		w.retried(w.deliver(h, order("e1", "17", 5)), unavailable.Code)
		w.work.set(nil)
		time.Sleep(time.Hour)
		return func() { w.acked(w.again(h, order("e1", "17", 5)), handler.DecisionExecuted) }
	}},
	{"a run that fails for good", func(w *effectWorld) func() {
		h := w.world.instance()
		w.work.set(failing(denied))
		return func() { w.acked(w.deliver(h, order("e1", "17", 5)), handler.DecisionFinal) }
	}},
	{"conflict", func(w *effectWorld) func() {
		w.acked(w.deliver(w.world.instance(), order("e1", "17", 5)), handler.DecisionExecuted)
		h := w.world.instance()
		return func() { w.acked(w.deliver(h, order("e2", "17", 6)), handler.DecisionConflict) }
	}},
	{"no event", func(w *effectWorld) func() {
		h := w.world.instance()
		return func() { w.acked(w.deliver(h, []byte("no event")), handler.DecisionDeadLetter) }
	}},
	{"batch of 10 fresh ones", func(w *effectWorld) func() {
		h := w.world.instance()
		var members [][]byte
		for i := range 10 {
			members = append(members, order(fmt.Sprint("e", i), fmt.Sprint(10+i), 5))
		}
		return func() {
			if _, err := h.HandleBatch(w.ctx(), batchOf(members...), handler.Delivery{RequestID: "request", FunctionName: "gate", Version: "7"}); err != nil {
				w.t.Error(err)
			}
		}
	}},
	{"replay of one that failed for good", func(w *effectWorld) func() {
		raw := order("e1", "17", 5)
		e := w.approved(raw, w.failedFinal(raw))
		h := w.world.instance()
		return func() { w.acked(w.call(h, e), handler.DecisionExecuted) }
	}},
}

// TestEachRoadCostsTheCallsAndBytesOfTheGolden holds what a delivery costs on any
// machine. Bytes are those of the bodies. Where a change is meant, write the file
// anew and look at the difference:
//
//	go test ./handler -run TestEachRoadCosts -update
func TestEachRoadCostsTheCallsAndBytesOfTheGolden(t *testing.T) {
	const golden = "testdata/traffic.golden"
	var all strings.Builder
	for _, road := range roads {
		inEffectWorld(t, targettest.Options{}, []string{notice}, func(_ *testing.T, w *effectWorld) {
			measured := road.of(w)
			w.traffic.reset()
			measured()
			fmt.Fprintf(&all, "%s\n%s", road.name, w.traffic.String())
		})
	}
	if *update {
		must(t, os.MkdirAll(path.Dir(golden), 0o755))
		must(t, os.WriteFile(golden, []byte(all.String()), 0o644))
	}
	want, err := os.ReadFile(golden)
	must(t, err)
	if got := all.String(); got != string(want) {
		t.Errorf("deliveries cost\n%s\nand were to cost\n%s", got, want)
	}
}
