package main

import (
	"fmt"
	"sync"
	"testing"

	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/handler/fctest"
	"github.com/oncegate/oncegate/idempotency"
)

func TestConcurrentDeliveriesOfOneBusinessHaveOneResult(t *testing.T) {
	t.Parallel()
	const deliveries, processes = 200, 20
	w := newWorld(t, options{instances: processes})
	b := business{"concurrent", "[[model delay=1s]] Order 17 is late."}

	answers := make([]fctest.Response, deliveries)
	var all sync.WaitGroup
	for i := range answers {
		all.Go(func() {
			resp, err := w.fn.Invoke(t.Context(), fctest.Request{Payload: b.event(fmt.Sprintf("evt-%03d", i))})
			if err != nil {
				t.Error(err)
			}
			answers[i] = resp
		})
	}
	all.Wait()

	executed, again := 0, []int(nil)
	ref := w.record().ResultRef.Object
	for i, resp := range answers {
		if resp.Ending != fctest.Returned {
			if resp.ErrorType != string(idempotency.CodeInProgress) {
				t.Errorf("delivery %d: %s %s", i, resp.Ending, resp.Payload)
			}
			again = append(again, i)
			continue
		}
		r := result(t, resp)
		if r.Decision == handler.DecisionExecuted {
			executed++
		} else if r.Decision != handler.DecisionDuplicate {
			t.Errorf("delivery %d: %s", i, r.Decision)
		}
		if r.ResultRef != ref {
			t.Errorf("delivery %d names %q, the record %q", i, r.ResultRef, ref)
		}
	}
	if executed != 1 {
		t.Errorf("%d deliveries executed, want 1", executed)
	}
	if len(again) == 0 {
		t.Error("no delivery met a running one: nothing was contended")
	}
	for _, i := range again {
		if r := w.redeliver(b.event(fmt.Sprintf("evt-%03d", i))); r.Decision != handler.DecisionDuplicate || r.ResultRef != ref {
			t.Errorf("redelivery %d: %+v", i, r)
		}
	}

	rec := w.record()
	if rec.Status != idempotency.StatusSucceeded || rec.Attempt != 1 || rec.Revision != 2 || rec.ResultRef.Object != ref {
		t.Errorf("record %+v", rec)
	}
	if n := w.model.Calls(); n != 1 {
		t.Errorf("%d model calls, want 1", n)
	}
	if n := len(w.versions("output.json")); n != 1 {
		t.Errorf("%d outputs stored, want 1", n)
	}
	if n := w.fn.Stats().Starts; n < 2 || n > processes {
		t.Errorf("%d processes ran", n)
	}
}
