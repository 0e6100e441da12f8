//go:build unix

package main

import (
	"syscall"
	"testing"

	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/handler/fctest"
	"github.com/oncegate/oncegate/idempotency"
)

func TestS35FrozenProcessIsKilledAtItsDeadlineAndTheNextGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{timeout: short})
	b := business{"frozen", "[[model delay=10m]] Order 17 is late."}
	running := w.inBackground(b.event("evt-1"))
	until(t, "the model call", w.modelCalled(1))
	for _, in := range w.fn.Stats().Instances {
		if err := syscall.Kill(in.PID, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	if resp := <-running; resp.Ending != fctest.TimedOut || resp.FunctionError != fctest.UnhandledInvocationError {
		t.Errorf("got %s %s", resp.Ending, resp.Payload)
	}
	if rec := w.record(); rec.Status != idempotency.StatusRunning || rec.Attempt != 1 {
		t.Errorf("record %+v", rec)
	}
	if r := w.redeliver(b.event("evt-1")); r.Decision != handler.DecisionExecuted || r.Attempt != 2+w.spare() {
		t.Errorf("then %+v", r)
	}
	w.settledOnce(t, 1)
	if s := w.fn.Stats(); s.Timeouts < 1 || s.Starts < 2 {
		t.Errorf("got %+v", s)
	}
}
