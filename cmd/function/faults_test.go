package main

import (
	"testing"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/handler/fctest"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestAnswersThatAreLostAndStoresThatFail(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	dropped := func(op string, p cloudtest.Phase) cloudtest.Fault { return cloudtest.Fault{Op: op, Phase: p} }
	refused := func(target string) cloudtest.Fault {
		return cloudtest.Fault{Op: "PutObject", Target: target, Kind: cloudtest.Status, Status: 503, Code: "ServiceUnavailable"}
	}
	for _, c := range []struct {
		name    string
		faults  *cloudtest.Faults
		fault   cloudtest.Fault
		again   bool // the first delivery fails
		attempt int64
		made    int64 // attempt whose output is the result
		calls   int   // of the model, in the first delivery and in all
		total   int
	}{
		{"S7 a claim that was stored and not answered is recognised", w.tables.Faults, dropped("PutRow", cloudtest.After), false, 1, 1, 1, 1},
		{"S9 a claim that was not stored starts no work", w.tables.Faults, dropped("PutRow", cloudtest.Before), true, 1, 1, 0, 1},
		{"S7 a settle that was stored and not answered is recognised", w.tables.Faults, dropped("UpdateRow", cloudtest.After), false, 1, 1, 1, 1},
		{"a settle that was not stored is sent again", w.tables.Faults, dropped("UpdateRow", cloudtest.Before), false, 1, 1, 1, 1},
		{"an input that is not stored keeps the record from SUCCEEDED", w.objects.Faults, refused("input.json"), true, 2, 1, 1, 1},
		{"an output that is not stored is made again", w.objects.Faults, refused("output.json"), true, 2, 2, 1, 2},
		{
			"an output that was stored and not answered is adopted", w.objects.Faults,
			cloudtest.Fault{Op: "PutObject", Target: "output.json", Phase: cloudtest.After},
			true, 2, 1, 1, 1,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := business{c.name, "Order 17 is late: " + c.name}
			before := w.model.Calls()
			c.faults.Add(c.fault)
			resp := w.deliver(b.event("evt-1"))
			if again := resp.Ending != fctest.Returned; again != c.again || again && resp.ErrorType != string(idempotency.CodeTemporaryUnavailable) {
				t.Errorf("the first answer is %s %s", resp.Ending, resp.Payload)
			}
			if n := w.model.Calls() - before; n != c.calls {
				t.Errorf("%d model calls in the first delivery, want %d", n, c.calls)
			}
			r := w.redeliver(b.event("evt-1"))
			if want := artifacts.OutputName(b.key(), c.made); r.Status != idempotency.StatusSucceeded || r.Attempt != c.attempt || r.ResultRef != want {
				t.Errorf("then %+v", r)
			}
			if c.again != (r.Decision == handler.DecisionExecuted) {
				t.Errorf("then %s", r.Decision)
			}
			if n := w.model.Calls() - before; n != c.total {
				t.Errorf("%d model calls, want %d", n, c.total)
			}
		})
	}
}
