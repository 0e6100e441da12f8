package main

import (
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/handler/fctest"
	"github.com/oncegate/oncegate/idempotency"
)

// limit is how long a test waits for what must come. It is far beyond what a
// slow machine needs.
const limit = 2 * time.Minute

// business is one action; events of the same business differ in their id alone.
type business struct {
	version string // the business number
	content string
}

func (b business) event(id string) []byte {
	return b.changed(id, func(map[string]any, map[string]any) {})
}

// changed is the event after a change of its attributes and its data.
func (b business) changed(id string, change func(event, data map[string]any)) []byte {
	data := map[string]any{
		"tenant_id": "opc_demo", "task_type": "content_review", "operation": "generate_summary",
		"input_version": b.version, "requested_at": "2026-08-04T10:00:00Z", "content": b.content,
	}
	event := map[string]any{
		"specversion": "1.0", "id": id, "source": "demo.producer", "type": "demo:task:content_review",
		"time": "2026-08-04T10:00:00Z", "datacontenttype": "application/json", "aliyuneventbusname": environment, "data": data,
	}
	change(event, data)
	raw, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	return raw
}

// key is the idempotency key of the business, as the example in flows.yaml makes it.
func (b business) key() string {
	return idempotency.HashOf(map[string]string{
		"tenant_id": "opc_demo", "task_type": "content_review", "input_version": b.version, "operation": "generate_summary",
	})
}

// deliver invokes the function once, and holds an acknowledgement against its
// promise: a result, or an open letter with these bytes.
func (w *world) deliver(raw []byte) fctest.Response {
	w.t.Helper()
	w.mu.Lock()
	clear(w.seen)
	w.armed = true
	w.mu.Unlock()
	resp, err := w.fn.Invoke(w.t.Context(), fctest.Request{Payload: raw})
	if err != nil {
		w.t.Fatal(err)
	}
	w.mu.Lock()
	w.answers = append(w.answers, resp)
	w.mu.Unlock()
	if resp.Ending == fctest.Returned && !handler.IsBatch(raw) {
		w.checkAcknowledged(raw, result(w.t, resp))
	}
	return resp
}

// redeliver delivers until the function acknowledges, as the platform does.
func (w *world) redeliver(raw []byte) handler.Result {
	w.t.Helper()
	for end := time.Now().Add(limit); time.Now().Before(end); waitABit() {
		if resp := w.deliver(raw); resp.Ending == fctest.Returned {
			return result(w.t, resp)
		}
	}
	w.t.Fatalf("not acknowledged; last answers %s", w.lastAnswers())
	return handler.Result{}
}

func (w *world) lastAnswers() (texts []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, a := range w.answers[max(0, len(w.answers)-5):] {
		texts = append(texts, string(a.Ending)+" "+string(a.Payload))
	}
	return texts
}

// spare counts the answers that neither a kill nor a live lease explains: runs
// that a slow machine cut short.
func (w *world) spare() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := int64(0)
	for _, a := range w.answers {
		if a.Ending != fctest.Returned && a.Ending != fctest.Crashed && a.ErrorType != string(idempotency.CodeInProgress) {
			n++
		}
	}
	return n
}

func result(t testing.TB, resp fctest.Response) (r handler.Result) {
	t.Helper()
	if resp.FunctionError != "" {
		t.Fatalf("not acknowledged: %s", resp.Payload)
	}
	if err := json.Unmarshal(resp.Payload, &r); err != nil {
		t.Fatalf("result %s: %v", resp.Payload, err)
	}
	return r
}

// until waits for what must come.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(limit); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never seen: %s", what)
		}
	}
}

// each runs the cases as subtests, several at a time: they wait for leases more
// than they work.
func each[C any](t *testing.T, cases []C, name func(C) string, test func(*testing.T, C)) {
	t.Helper()
	const atOnce = 12
	places := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for _, c := range slices.Clone(cases) {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			t.Run(name(c), func(t *testing.T) { test(t, c) })
		})
	}
	all.Wait()
}

// patient delivers until the function acknowledges, in any goroutine; again hears
// of every error before that.
func (w *world) patient(raw []byte, wait time.Duration, again func(errorType string)) (r handler.Result, ok bool) {
	for end := time.Now().Add(limit); time.Now().Before(end); time.Sleep(wait) {
		resp, err := w.fn.Invoke(w.t.Context(), fctest.Request{Payload: raw})
		if err != nil {
			w.t.Error(err)
			return r, false
		}
		if resp.Ending == fctest.Returned {
			if err := json.Unmarshal(resp.Payload, &r); err != nil {
				w.t.Errorf("result %s: %v", resp.Payload, err)
			}
			return r, err == nil
		}
		again(resp.ErrorType)
	}
	w.t.Error("not acknowledged")
	return r, false
}

// waitABit is the time between two deliveries of one event.
func waitABit() { time.Sleep(200 * time.Millisecond) }
