package main

import (
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/handler/fctest"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// inBackground delivers once; the channel has the answer.
func (w *world) inBackground(raw []byte) <-chan fctest.Response {
	done := make(chan fctest.Response, 1)
	go func() {
		resp, err := w.fn.Invoke(w.t.Context(), fctest.Request{Payload: raw})
		if err != nil {
			w.t.Error(err)
		}
		done <- resp
	}()
	return done
}

func (w *world) modelCalled(n int) func() bool {
	return func() bool { return w.model.Calls() >= n }
}

func TestS35ProcessKilledDuringTheModelCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{timeout: short})
	b := business{"killed in the call", "[[model delay=10m]] Order 17 is late."}
	running := w.inBackground(b.event("evt-1"))
	until(t, "the model call", w.modelCalled(1))
	w.fn.KillAll()
	if resp := <-running; resp.Ending != fctest.Crashed || resp.ErrorType != "" {
		t.Errorf("got %s %s", resp.Ending, resp.Payload)
	}
	if rec := w.record(); rec.Status != idempotency.StatusRunning {
		t.Errorf("the record of a dead run says %s", rec.Status)
	}
	r := w.redeliver(b.event("evt-1"))
	if r.Decision != handler.DecisionExecuted || r.Status != idempotency.StatusSucceeded || r.ResultRef != artifacts.OutputName(b.key(), r.Attempt) {
		t.Errorf("then %+v", r)
	}
	w.settledOnce(t, 1)
}

// slowReserve leaves half of a four-second invocation to record a failure in.
var slowReserve = map[string]string{"ONCEGATE_RESERVE_MIN": "200s", "ONCEGATE_RESERVE_MAX": "200s"}

func TestS35TimeOutDuringTheModelCallIsRecordedBeforeTheDeadline(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{timeout: 4 * time.Second, env: slowReserve})
	b := business{"timed out", "[[model delay=10m]] Order 17 is late."}
	resp := w.deliver(b.event("evt-1"))
	if resp.Ending != fctest.Failed || resp.ErrorType != string(idempotency.CodeTimeout) || resp.ErrorMessage != "not done yet; deliver again" {
		t.Fatalf("got %s %s", resp.Ending, resp.Payload)
	}
	rec := w.record()
	if rec.Status != idempotency.StatusFailedRetryable || rec.LastErrorCode != idempotency.CodeTimeout ||
		rec.LastErrorTarget != "model:demo-model" || !rec.LeaseUntil.IsZero() || rec.NotBefore.IsZero() {
		t.Errorf("record %+v", rec)
	}
	if r := w.redeliver(b.event("evt-1")); r.Decision != handler.DecisionExecuted || r.Attempt != 2 {
		t.Errorf("then %+v", r)
	}
	w.settledOnce(t, 0)
	if s := w.fn.Stats(); s.Starts != 1 || s.Timeouts != 0 {
		t.Errorf("the process did not live on: %+v", s)
	}
}

func TestS5SettleThatArrivesAfterATakeoverChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{timeout: short, abandon: true})
	b := business{"late", "Order 17 is late."}
	held, release, gone := make(chan struct{}), make(chan struct{}), make(chan struct{})
	var first sync.Once
	w.tables.Faults.Hook(func(c cloudtest.Call, p cloudtest.Phase) {
		late := false
		if kindOf(c) == updateCall && p == cloudtest.Before {
			first.Do(func() { late = true })
		}
		if late {
			close(held)
			<-release
			defer close(gone) // the call's effect comes after this
		}
		w.hook(c, p)
	})
	running := w.inBackground(b.event("evt-1"))
	<-held
	r := w.redeliver(b.event("evt-1"))
	if r.Decision != handler.DecisionExecuted || r.Attempt != 2 || r.ResultRef != artifacts.OutputName(b.key(), 1) {
		t.Errorf("the takeover did not adopt the output of the first run: %+v", r)
	}
	before := w.record()
	close(release)
	<-gone
	<-running
	until(t, "the end of the late write", func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		begun, ended := 0, 0
		for _, s := range w.journal {
			switch s {
			case step{updateCall, cloudtest.Before}:
				begun++
			case step{updateCall, cloudtest.After}:
				ended++
			}
		}
		return begun == 3 && ended == 3
	})
	if after := w.record(); after.Revision != before.Revision || after.ResultRef != before.ResultRef || after.Owner != before.Owner {
		t.Errorf("before %+v, after %+v", before, after)
	}
	w.settledOnce(t, 1)
}
