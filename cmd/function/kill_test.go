package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/handler/fctest"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// short is the time-out of invocations that are killed: their lease, which a
// redelivery has to wait for, ends little later.
const short = 3 * time.Second

const (
	claimCall  = "tablestore PutRow task_records"
	readCall   = "tablestore GetRow task_records"
	updateCall = "tablestore UpdateRow task_records"
	modelCall  = "model ChatCompletion"
	inputCall  = "oss PutObject input.json"
	outputCall = "oss PutObject output.json"
	adoptCall  = "oss GetObject output.json"
	listCall   = "oss ListObjects " + bucketName
	rawCall    = "oss PutObject event.bin"
	letterCall = "tablestore PutRow dead_letters"
)

// matrix is every call of a delivery, killed before and after its effect.
func matrix(calls []string) (all []strike) {
	seen := map[string]int{}
	for _, kind := range calls {
		seen[kind]++
		for _, p := range []cloudtest.Phase{cloudtest.Before, cloudtest.After} {
			all = append(all, strike{kind, seen[kind], p})
		}
	}
	return all
}

func (s strike) String() string { return fmt.Sprintf("killed %s %s %d", s.phase, s.kind, s.nth) }

// wantCalls compares without order: some calls run at the same time.
func wantCalls(t *testing.T, got []string, want ...string) {
	t.Helper()
	got = slices.Clone(got)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Fatalf("the delivery made the calls\n%q, want\n%q", got, want)
	}
}

// killed checks that all strikes hit, and that nothing else went wrong.
func (w *world) killed(t *testing.T, strikes int) {
	t.Helper()
	w.mu.Lock()
	left := slices.Clone(w.strikes)
	w.mu.Unlock()
	if len(left) > 0 {
		t.Errorf("never reached: %v", left)
	}
	if n := w.fn.Stats().Crashes; n != strikes {
		t.Errorf("%d invocations died, want %d", n, strikes)
	}
}

// settledOnce checks the end of a business whose runs were killed n times.
func (w *world) settledOnce(t *testing.T, n int64) {
	t.Helper()
	rec := w.record()
	succeeded, runs := 0, int64(0)
	for _, s := range rec.History {
		switch s.Status {
		case idempotency.StatusSucceeded:
			succeeded++
		case idempotency.StatusRunning:
			runs++
		}
	}
	if rec.Status != idempotency.StatusSucceeded || succeeded != 1 {
		t.Errorf("record ends %s, %d steps say SUCCEEDED", rec.Status, succeeded)
	}
	most := 1 + n + w.spare()
	if rec.Attempt != runs || rec.Attempt > most {
		t.Errorf("attempt %d, %d runs in the history, want %d at most", rec.Attempt, runs, most)
	}
	if !w.holds(rec.ResultRef) {
		t.Errorf("the bucket does not hold %s", rec.ResultRef)
	}
	if calls := int64(w.model.Calls()); calls > rec.Attempt {
		t.Errorf("%d model calls in %d attempts", calls, rec.Attempt)
	}
	if n := len(w.letters()); n != 0 {
		t.Errorf("%d letters of a business that succeeded", n)
	}
}

func TestKilledAtEveryCallOfAFreshDelivery(t *testing.T) {
	t.Parallel()
	b := business{"killed", "Order 17 is late."}
	w := newWorld(t, options{})
	if r := result(t, w.deliver(b.event("evt-1"))); r.Decision != handler.DecisionExecuted {
		t.Fatalf("undisturbed: %+v", r)
	}
	calls := w.calls(0)
	wantCalls(t, calls, claimCall, modelCall, inputCall, outputCall, updateCall)

	each(t, matrix(calls), strike.String, func(t *testing.T, s strike) {
		w := newWorld(t, options{timeout: short})
		w.strikes = []strike{s}
		if resp := w.deliver(b.event("evt-1")); resp.Ending != fctest.Crashed {
			t.Logf("the first answer is %s %s", resp.Ending, resp.Payload)
		}
		first := w.redeliver(b.event("evt-1"))
		again := result(t, w.deliver(b.event("evt-2")))
		if again.Decision != handler.DecisionDuplicate || again.ResultRef != first.ResultRef {
			t.Errorf("acknowledged as %+v, then as %+v", first, again)
		}
		w.killed(t, 1)
		w.settledOnce(t, 1)
		most := int64(2) + w.spare()
		if s.kind == updateCall || s.kind == outputCall && s.phase == cloudtest.After {
			most = 1 + w.spare()
		}
		if n := int64(w.model.Calls()); n > most {
			t.Errorf("%d model calls, want %d at most", n, most)
		}
	})
}

// afterOutput leaves a stored output that no record names.
var afterOutput = strike{outputCall, 1, cloudtest.After}

func TestKilledAtEveryCallOfARedeliveryThatAdopts(t *testing.T) {
	t.Parallel()
	b := business{"adopted", "Order 17 is late."}
	w := newWorld(t, options{timeout: short})
	w.strikes = []strike{afterOutput}
	if resp := w.deliver(b.event("evt-1")); resp.Ending != fctest.Crashed {
		t.Fatalf("got %s %s", resp.Ending, resp.Payload)
	}
	from := 0
	until(t, "an acknowledgement", func() bool {
		time.Sleep(200 * time.Millisecond)
		from = w.journalled()
		return w.deliver(b.event("evt-1")).Ending == fctest.Returned
	})
	calls := w.calls(from)
	wantCalls(t, calls, claimCall, readCall, updateCall, listCall, adoptCall, inputCall, updateCall)

	each(t, matrix(calls), strike.String, func(t *testing.T, s strike) {
		w := newWorld(t, options{timeout: short})
		w.strikes = []strike{afterOutput, s}
		w.deliver(b.event("evt-1"))
		first := w.redeliver(b.event("evt-1"))
		if again := result(t, w.deliver(b.event("evt-2"))); again.ResultRef != first.ResultRef {
			t.Errorf("acknowledged as %+v, then as %+v", first, again)
		}
		w.killed(t, 2)
		w.settledOnce(t, 2)
		if n := int64(w.model.Calls()); n > 1+w.spare() {
			t.Errorf("%d model calls, want 1", n)
		}
	})
}
