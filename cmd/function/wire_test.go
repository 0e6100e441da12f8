package main

import (
	"encoding/json"
	"testing"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/flows/modeltest"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/handler/fctest"
	"github.com/oncegate/oncegate/idempotency"
)

func TestWire(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})

	t.Run("a success is answered with its result as JSON", func(t *testing.T) {
		b := business{"wire-success", "Order 17 is late."}
		resp := w.deliver(b.event("evt-1"))
		var got map[string]any
		if err := json.Unmarshal(resp.Payload, &got); err != nil {
			t.Fatalf("%s: %v", resp.Payload, err)
		}
		name := artifacts.OutputName(b.key(), 1)
		for field, want := range map[string]any{
			"decision": "executed", "event_id": "evt-1", "event_source": "demo.producer", "flow": "content_review.generate_summary",
			"idempotency_key": b.key(), "status": "SUCCEEDED", "attempt": 1.0, "result_ref": "tasks/" + b.key() + "/attempt-001/output.json",
		} {
			if got[field] != want {
				t.Errorf("%s: got %v, want %v", field, got[field], want)
			}
		}
		o, ok := w.object(name, "")
		var output map[string]any
		if err := json.Unmarshal(o.Body, &output); !ok || err != nil || output["summary"] != modeltest.Summary(b.content) {
			t.Errorf("output %s: %v", o.Body, err)
		}
	})

	t.Run("a duplicate on the same process and on a new one names the same result", func(t *testing.T) {
		b := business{"wire-success", "Order 17 is late."}
		for _, id := range []string{"evt-2", "evt-3"} {
			r := result(t, w.deliver(b.event(id)))
			if r.Decision != handler.DecisionDuplicate || r.ResultRef != artifacts.OutputName(b.key(), 1) || r.EventID != id {
				t.Errorf("got %+v", r)
			}
			w.fn.KillAll()
		}
	})

	for _, c := range []struct {
		directive string
		code      idempotency.Code
	}{
		{"[[model status=503]]", idempotency.CodeTemporaryUnavailable},
		{"[[model status=429]]", idempotency.CodeRateLimited},
		{"[[model status=408]]", idempotency.CodeTimeout},
		{"[[model cut]]", idempotency.CodeTemporaryUnavailable},
		{"[[model garbage]]", idempotency.CodeUnclassified},
		{"[[model empty]]", idempotency.CodeUnclassified},
		{"[[model nochoices]]", idempotency.CodeUnclassified},
	} {
		t.Run("a failure to be tried again is an error whose type is the code: "+c.directive, func(t *testing.T) {
			b := business{"wire " + c.directive, c.directive + " Order 18 is late."}
			resp := w.deliver(b.event("evt-4"))
			if resp.Ending != fctest.Failed || resp.FunctionError != fctest.UnhandledInvocationError ||
				resp.ErrorType != string(c.code) || resp.ErrorMessage != "not done yet; deliver again" {
				t.Errorf("got %s %s", resp.Ending, resp.Payload)
			}
			if r := w.redeliver(b.event("evt-4")); r.Decision != handler.DecisionExecuted || r.Attempt != 2 {
				t.Errorf("then %+v", r)
			}
		})
	}
}

func TestUndecodable(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	for _, c := range []struct{ name, payload string }{
		{"text that is no JSON", "order 17 is late"},
		{"an empty payload", ""},
		{"a JSON string", `"{}"`},
		{"null", "null"},
		{"cut JSON", `{"specversion":"1.0","id":"e`},
		{"no UTF-8", "{\"id\":\"\xff\"}"},
		{"an object that is no CloudEvent", `{"id":"e"}`},
		{"two ids", `{"specversion":"1.0","id":"a","id":"b","source":"s","type":"t"}`},
	} {
		t.Run(c.name+" is acknowledged with an open letter that holds it", func(t *testing.T) {
			for range 2 {
				r := result(t, w.deliver([]byte(c.payload)))
				if r.Decision != handler.DecisionDeadLetter || r.LetterID == "" || r.Reason == "" {
					t.Errorf("got %+v", r)
				}
			}
		})
	}
	if n := len(w.letters()); n != 8 {
		t.Errorf("%d letters, want one of each event", n)
	}
	if n := len(w.records()); n != 0 {
		t.Errorf("%d records", n)
	}
}
