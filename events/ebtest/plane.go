package ebtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

// Plane answers the reading calls of two control planes in RPC style, all at
// POST /, with signature (ACS3-HMAC-SHA256) and policies checked:
//
//	2020-04-01 EventBridge  ListEventBuses, ListRules, GetRule, ListEventStreamings
//	2022-01-19 MNS          GetQueueAttributes
//
// ListEventStreamings takes its parameters as a form, all others in the query.
// The lists have pages of PageSize at most. What is not there is a 200 whose
// Success is false, with EventBusNotExist, EventRuleNotExisted or QueueNotExist:
// the service's pages name no status for it.
type Plane struct {
	// Faults plans disturbances; an operation is the name of the call, its target
	// the bus, rule or queue.
	Faults   *cloudtest.Faults
	PageSize int // default 100

	gate     cloudtest.OpenAPI
	service  *cloudtest.Service
	listener *cloudtest.Listener

	mu    sync.Mutex
	setup Setup
}

// NewPlane returns a control plane; now nil means time.Now.
func NewPlane(creds *cloudtest.Credentials, now func() time.Time, s Setup) (*Plane, error) {
	if creds == nil {
		return nil, errors.New("control plane needs credentials")
	}
	if now == nil {
		now = time.Now
	}
	p := &Plane{Faults: new(cloudtest.Faults), PageSize: 100, gate: cloudtest.OpenAPI{Credentials: creds, Now: now}, setup: s}
	p.service = &cloudtest.Service{Name: "eventbridge", Engine: planeEngine{p}, Faults: p.Faults, Now: now}
	return p, nil
}

// Change alters what the plane knows.
func (p *Plane) Change(change func(*Setup)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.setup)
}

// Handler serves the plane, faults included.
func (p *Plane) Handler() http.Handler { return p.service.Handler() }

// Transport reaches the plane without a socket.
func (p *Plane) Transport() http.RoundTripper { return p.service.Transport() }

// Start listens on a free port of 127.0.0.1.
func (p *Plane) Start() error {
	l, err := cloudtest.Listen(p.Handler())
	if err != nil {
		return fmt.Errorf("listen for control plane: %w", err)
	}
	p.listener = l
	return nil
}

// Endpoint is http://127.0.0.1:port, "" before Start.
func (p *Plane) Endpoint() string {
	if p.listener == nil {
		return ""
	}
	return p.listener.URL
}

// Close stops the listener.
func (p *Plane) Close() error {
	if p.listener == nil {
		return nil
	}
	return p.listener.Close()
}

// planeCall is one call that may be made.
type planeCall struct {
	version string
	service string // of RAM
	form    bool   // parameters come as a form
	about   func(url.Values) (target, resource string)
	answer  func(*Plane, url.Values) (data any, code string)
}

func onBus(v url.Values) (string, string) {
	return v.Get("EventBusName"), "eventbus/" + v.Get("EventBusName")
}

func onRule(v url.Values) (string, string) {
	return v.Get("EventBusName") + "/" + v.Get("RuleName"), "eventbus/" + v.Get("EventBusName") + "/rule/" + v.Get("RuleName")
}

func onQueue(v url.Values) (string, string) {
	return v.Get("QueueName"), "/queues/" + v.Get("QueueName")
}

func onAll(resource string) func(url.Values) (string, string) {
	return func(url.Values) (string, string) { return "", resource }
}

// planeCalls are the calls, with the resources that their pages name.
var planeCalls = map[string]planeCall{
	"ListEventBuses":      {"2020-04-01", "eventbridge", false, onAll("eventbus/*"), (*Plane).listBuses},
	"ListRules":           {"2020-04-01", "eventbridge", false, onBus, (*Plane).listRules},
	"GetRule":             {"2020-04-01", "eventbridge", false, onRule, (*Plane).getRule},
	"ListEventStreamings": {"2020-04-01", "eventbridge", true, onAll("*"), (*Plane).listStreams},
	"GetQueueAttributes":  {"2022-01-19", "mns", false, onQueue, (*Plane).getQueue},
}

func (p *Plane) listBuses(v url.Values) (any, string) {
	type bus struct{ EventBusName string }
	var all []bus
	for _, name := range p.setup.Buses {
		all = append(all, bus{name})
	}
	return listed(p, v, "EventBuses", all)
}

func (p *Plane) has(bus string) bool {
	for _, name := range p.setup.Buses {
		if name == bus {
			return true
		}
	}
	return false
}

func (p *Plane) listRules(v url.Values) (any, string) {
	if !p.has(v.Get("EventBusName")) {
		return nil, "EventBusNotExist"
	}
	type rule struct{ EventBusName, RuleName, FilterPattern, Status string } // targets are given in part only: GetRule has them
	var all []rule
	for _, r := range p.setup.Rules {
		if r.EventBusName == v.Get("EventBusName") {
			all = append(all, rule{r.EventBusName, r.RuleName, r.FilterPattern, r.Status})
		}
	}
	return listed(p, v, "Rules", all)
}

func (p *Plane) getRule(v url.Values) (any, string) {
	for _, r := range p.setup.Rules {
		if r.EventBusName == v.Get("EventBusName") && r.RuleName == v.Get("RuleName") {
			return r, ""
		}
	}
	return nil, "EventRuleNotExisted"
}

func (p *Plane) listStreams(v url.Values) (any, string) {
	return listed(p, v, "EventStreamings", p.setup.Streams)
}

func (p *Plane) getQueue(v url.Values) (any, string) {
	for _, q := range p.setup.Queues {
		if q.QueueName == v.Get("QueueName") {
			return q, ""
		}
	}
	return nil, "QueueNotExist"
}

// listed is one page of a list.
func listed[T any](p *Plane, v url.Values, name string, all []T) (any, string) {
	from := 0
	if token := v.Get("NextToken"); token != "" {
		var err error
		if from, err = strconv.Atoi(token); err != nil || from < 0 || from > len(all) {
			return nil, "InvalidNextToken"
		}
	}
	limit, err := strconv.Atoi(v.Get("Limit"))
	if err != nil || limit < 1 || limit > p.PageSize {
		limit = p.PageSize
	}
	to := min(len(all), from+limit)
	data := map[string]any{name: append([]T{}, all[from:to]...), "Total": len(all)}
	if to < len(all) {
		data["NextToken"] = strconv.Itoa(to)
	}
	return data, ""
}

// planeEngine is the plane as cloudtest.Service reaches it.
type planeEngine struct{ p *Plane }

func parametersOf(r *http.Request, body []byte, form bool) url.Values {
	if !form {
		return r.URL.Query()
	}
	v, err := url.ParseQuery(string(body))
	if err != nil || r.Header.Get("Content-Type") != "application/x-www-form-urlencoded" {
		return url.Values{}
	}
	return v
}

func (e planeEngine) Name(r *http.Request, body []byte) (op, target string) {
	op = r.Header.Get("x-acs-action")
	if c, ok := planeCalls[op]; ok {
		target, _ = c.about(parametersOf(r, body, c.form))
	}
	return op, target
}

// planeRefusals are the codes of the OpenAPI gateway.
var planeRefusals = map[cloudtest.Refusal]string{
	cloudtest.NotSigned: "MissingSignature", cloudtest.UnknownKey: "InvalidAccessKeyId.NotFound",
	cloudtest.BadToken: "InvalidSecurityToken.Malformed", cloudtest.ExpiredToken: "InvalidSecurityToken.Expired",
	cloudtest.BadDate: "InvalidTimeStamp.Expired", cloudtest.BadSignature: "SignatureDoesNotMatch",
	cloudtest.RepeatedNonce: "SignatureNonceUsed",
}

func (e planeEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxCallBytes))
	if err != nil {
		e.Fail(w, http.StatusBadRequest, "InvalidParameter")
		return
	}
	cred, refusal := e.p.gate.Accept(r, body)
	if refusal != cloudtest.Accepted {
		e.Fail(w, http.StatusBadRequest, planeRefusals[refusal])
		return
	}
	c, ok := planeCalls[r.Header.Get("x-acs-action")]
	switch {
	case !ok, r.Method != http.MethodPost, r.URL.Path != "/", c.version != r.Header.Get("x-acs-version"):
		e.Fail(w, http.StatusNotFound, "InvalidAction.NotFound")
		return
	case !strings.Contains(r.Header.Get("Accept"), "json"):
		e.Fail(w, http.StatusBadRequest, "NotModelled") // the service would answer with XML
		return
	}
	parameters := parametersOf(r, body, c.form)
	_, resource := c.about(parameters)
	if resource != "*" {
		resource = "acs:" + c.service + ":" + cloudtest.Region + ":" + cloudtest.AccountID + ":" + resource
	}
	if !cred.Allows(cloudtest.Access{Action: c.service + ":" + r.Header.Get("x-acs-action"), Resource: resource}) {
		e.Fail(w, http.StatusForbidden, "NoPermission")
		return
	}
	e.p.mu.Lock()
	data, code := c.answer(e.p, parameters)
	answer, _ := json.Marshal(map[string]any{"Success": code == "", "RequestId": requestID(), "Data": data, "Code": said(code)})
	e.p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json;charset=utf-8")
	_, _ = w.Write(answer)
}

func said(code string) string {
	if code == "" {
		return "Success"
	}
	return code
}

// Fail implements cloudtest.Engine.
func (e planeEngine) Fail(w http.ResponseWriter, status int, code string) {
	if code == "" {
		w.WriteHeader(max(status, http.StatusOK))
		return
	}
	reply(w, status, map[string]string{"Code": code, "Message": "The call was refused.", "RequestId": requestID()})
}
