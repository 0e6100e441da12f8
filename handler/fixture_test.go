package handler_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

const flowsText = `
schema_version: 1
flows:
  - {name: order.create, owner: order-team, number_owner: shop, match: {type: demo:order}, processor: work, processor_version: "1", max_attempts: 3,
     key: {order_no: {path: $.data.order_no}, op: {const: order.create}}, input: {ignore: [$.data.sent_at]},
     sample: '{"specversion":"1.0","id":"e","source":"shop","type":"demo:order","aliyuneventbusname":"test","data":{"order_no":"1","amount":5,"sent_at":"x"}}'}
  - {name: note.summary, owner: note-team, number_owner: desk, match: {type: demo:note}, processor: summary, processor_version: "1", max_attempts: 6,
     key: {note: {path: $.subject}, op: {const: note.summary}},
     sample: '{"specversion":"1.0","id":"e","source":"desk","type":"demo:note","aliyuneventbusname":"test","subject":"n","data":"text"}'}
  - {name: blob.keep, owner: note-team, number_owner: desk, match: {type: demo:blob}, processor: work, processor_version: "1",
     key: {blob: {path: $.subject}, op: {const: blob.keep}},
     sample: '{"specversion":"1.0","id":"e","source":"desk","type":"demo:blob","aliyuneventbusname":"test","subject":"n"}'}
  - {name: message.send, owner: message-team, number_owner: shop, match: {type: demo:message}, processor: summary, processor_version: "1",
     key: {phone: {path: $.data.phone, sensitive: true}, op: {const: message.send}},
     sample: '{"specversion":"1.0","id":"e","source":"shop","type":"demo:message","aliyuneventbusname":"test","data":{"phone":"1","content":"c"}}'}
`

// off turns every flow of an instance off.
func off(o *handler.Options) {
	for _, f := range o.Flows.Flows {
		f.Enabled = false
	}
}

// claimOf is what a run would bring for an event.
func (w *world) claimOf(raw []byte) idempotency.Claim {
	w.t.Helper()
	e, err := events.Decode(raw)
	must(w.t, err)
	f := w.flows(flowsText, nil).Find(e)
	in, err := f.Input(e)
	must(w.t, err)
	key, err := f.Key(in, []byte(keySecret))
	must(w.t, err)
	return idempotency.Claim{
		Key: key, InputDigest: f.Digest(in), Owner: "dead-owner-token", Now: time.Now(), Deadline: time.Now().Add(timeLimit), Budget: f.MaxAttempts,
		Target: "fc:gate", Flow: f.Name, Environment: environment, Source: e.Source(), EventID: e.ID(),
		ConsumerVersion: "7", ProcessorVersion: "1.w1",
	}
}

// seed writes a record of an event as a run left it that died after its claim.
func (w *world) seed(raw []byte, edit func(*idempotency.Record)) idempotency.Record {
	w.t.Helper()
	r := policy.First(w.claimOf(raw))
	if edit != nil {
		edit(&r)
	}
	row, err := r.Columns()
	must(w.t, err)
	must(w.t, w.store.Insert(w.ctx(), idempotency.TaskTable, r.Key, row))
	return r
}

func event(id, kind, subject, data string) []byte {
	raw := fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"shop","type":%q,"aliyuneventbusname":%q,"subject":%q`, id, kind, environment, subject)
	if data != "" {
		raw += `,"data":` + data
	}
	return []byte(raw + "}")
}

func order(id, no string, amount int) []byte {
	return event(id, "demo:order", "s", fmt.Sprintf(`{"order_no":%q,"amount":%d,"sent_at":%q}`, no, amount, id))
}

func note(id, subject, text string) []byte {
	data, _ := json.Marshal(text)
	return event(id, "demo:note", subject, string(data))
}

// work is a processor that does what a test says.
type work struct {
	version string
	mu      sync.Mutex
	tasks   []flows.Task
	do      func(ctx context.Context, t flows.Task) (map[string]any, error) // nil: answers at once
}

func (p *work) Version() string { return p.version }

func (p *work) Process(ctx context.Context, t flows.Task) (map[string]any, error) {
	p.mu.Lock()
	p.tasks = append(p.tasks, t)
	do := p.do
	p.mu.Unlock()
	if do != nil {
		return do(ctx, t)
	}
	return map[string]any{"answer": "done", "made_in": t.Attempt}, nil
}

func (p *work) runs() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.tasks)
}

func (p *work) set(do func(ctx context.Context, t flows.Task) (map[string]any, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.do = do
}

// failing is a processor's work that always fails.
func failing(f idempotency.Failure) func(context.Context, flows.Task) (map[string]any, error) {
	return func(context.Context, flows.Task) (map[string]any, error) { return nil, &flows.Error{Failure: f} }
}

var unavailable = idempotency.Failure{Code: idempotency.CodeTemporaryUnavailable, Target: "model:m", Summary: "HTTP 503"}

type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func drop(op, target string, times int) cloudtest.Fault {
	return cloudtest.Fault{Op: op, Target: target, Phase: cloudtest.Before, Kind: cloudtest.Drop, Times: times}
}
