package handler_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
)

func TestS15_TheBudgetOutlivesAnOutageOfTenMinutes(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		raw, h := note("e1", "n1", "[[model status=503 times=-1]] hello"), w.instance()
		began := time.Now()
		attempts, early := 0, 0
		// EventBridge waits 1, 2, 4, ... 512 s.
		for wait := time.Second; time.Since(began) < 10*time.Minute; wait = min(2*wait, 512*time.Second) {
			before, calls := w.tables.Rows(idempotency.TaskTable.Name), w.model.Calls()
			w.tables.Faults.ResetCalls()
			w.objects.Faults.ResetCalls()
			w.retried(w.deliver(h, raw), idempotency.CodeTemporaryUnavailable)
			if w.model.Calls() > calls {
				attempts++
			} else {
				early++
				if after := w.tables.Rows(idempotency.TaskTable.Name); !reflect.DeepEqual(before, after) {
					t.Errorf("an early delivery wrote: %+v", after)
				}
				if got := w.tables.Faults.Calls(); got["UpdateRow"] != 0 || len(w.objects.Faults.Calls()) != 0 {
					t.Errorf("an early delivery called %v %v", got, w.objects.Faults.Calls())
				}
			}
			time.Sleep(wait)
		}
		if attempts < 2 || early < 3 {
			t.Errorf("%d attempts and %d early deliveries", attempts, early)
		}
		r := w.stands(idempotency.StatusFailedRetryable, int64(attempts))
		if r.AttemptBudget-r.Attempt < 2 {
			t.Errorf("%d of %d attempts were used up by the outage", r.Attempt, r.AttemptBudget)
		}
		// The outage is over: the next attempt gets an answer.
		fixed := w.instance(func(o *handler.Options) { o.Processors["summary"] = answering{o.Processors["summary"]} })
		time.Sleep(time.Until(r.NotBefore))
		w.acked(w.deliver(fixed, raw), handler.DecisionExecuted)
		w.stands(idempotency.StatusSucceeded, int64(attempts)+1)
		if len(w.letters()) != 0 {
			t.Error("there is a letter")
		}
	})
}

// answering is a processor that is back.
type answering struct{ flows.Processor }

func (answering) Process(context.Context, flows.Task) (map[string]any, error) {
	return map[string]any{"summary": "s"}, nil
}

func TestFailuresAreSpacedByBackOffOrByWhatTheTargetAsksFor(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		raw := note("e1", "n1", "[[model status=429 times=2]] [[model status=429 retry_after=600 times=2]] [[model status=429 retry_after=9999999]] hello")
		h := w.instance()
		for i, want := range []time.Duration{10 * time.Second, 40 * time.Second, 600 * time.Second, 640 * time.Second, 24 * time.Hour} {
			w.retried(w.deliver(h, raw), idempotency.CodeRateLimited)
			r := w.stands(idempotency.StatusFailedRetryable, int64(i)+1)
			if got := r.NotBefore.Sub(r.UpdatedAt); got != want {
				t.Errorf("after attempt %d the wait is %s, want %s", i+1, got, want)
			}
			time.Sleep(time.Until(r.NotBefore) - time.Millisecond)
			w.retried(w.deliver(h, raw), idempotency.CodeRateLimited)
			w.stands(idempotency.StatusFailedRetryable, int64(i)+1)
			time.Sleep(time.Millisecond)
		}
		w.acked(w.deliver(h, raw), handler.DecisionExecuted)
		w.stands(idempotency.StatusSucceeded, 6)
	})
}

func TestAnEventWhoseBudgetIsUsedUpEndsInALetter(t *testing.T) {
	t.Run("by failures", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			raw, h := order("e1", "17", 5), w.instance()
			w.work.set(failing(unavailable))
			for range 2 {
				w.retried(w.deliver(h, raw), unavailable.Code)
				time.Sleep(time.Hour)
			}
			w.acked(w.deliver(h, raw), handler.DecisionFinal)
			w.stands(idempotency.StatusFailedFinal, 3)
			if l := w.openLetter(letter.CodeUpstream5xx, raw); l.Target != "model:m" || l.Fingerprint != letter.Fingerprint(l.Code, "model:m") {
				t.Errorf("letter %+v", l)
			}
			time.Sleep(time.Hour)
			w.acked(w.deliver(h, raw), handler.DecisionFinal)
			if w.work.runs() != 3 {
				t.Errorf("%d runs", w.work.runs())
			}
		})
	})
	t.Run("by runs that die without a word", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			raw := order("e1", "17", 5)
			w.seed(raw, func(r *idempotency.Record) { r.Attempt = 3 })
			time.Sleep(time.Hour)
			o := w.deliver(w.instance(), raw)
			w.acked(o, handler.DecisionFinal)
			r := w.stands(idempotency.StatusFailedFinal, 3)
			l := w.openLetter(letter.CodeTimeout, raw)
			if r.LastErrorCode != idempotency.CodeTimeout || l.Target != "fc:gate" || l.ID != o.LetterID || w.work.runs() != 0 {
				t.Errorf("record %+v, letter %+v, %d runs", r, l, w.work.runs())
			}
		})
	})
	t.Run("and keeps the last error's code", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			raw := order("e1", "17", 5)
			w.seed(raw, func(r *idempotency.Record) {
				r.Attempt, r.Status, r.LastErrorCode, r.LastErrorTarget = 3, idempotency.StatusFailedRetryable, idempotency.CodeRateLimited, "model:q"
			})
			w.acked(w.deliver(w.instance(), raw), handler.DecisionFinal)
			if l := w.openLetter(letter.CodeThrottled, raw); l.Target != "model:q" {
				t.Errorf("letter %+v", l)
			}
		})
	})
}

func TestAFinalFailureMakesSureOfItsLetterOnEveryRedelivery(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		raw, h := order("e1", "17", 5), w.instance()
		w.seed(raw, func(r *idempotency.Record) {
			r.Status, r.LeaseUntil = idempotency.StatusFailedFinal, time.Time{}
			r.LastErrorCode, r.LastErrorTarget = idempotency.CodeTargetNotFound, "model:q"
		})
		before := w.record()
		var id string
		for i := range 3 {
			o := w.again(h, raw)
			w.acked(o, handler.DecisionFinal)
			l := w.openLetter(letter.CodeTargetNotFound, raw)
			if id == "" {
				id = l.ID
			}
			if l.ID != id || o.LetterID != id || l.DeliveryAttempts != int64(i)+1 {
				t.Errorf("letter %+v, answered %s, first id %s", l, o.LetterID, id)
			}
			time.Sleep(time.Minute)
		}
		if after := w.record(); !reflect.DeepEqual(before, after) {
			t.Errorf("the record changed to %+v", after)
		}
		// Without it there is no acknowledgement.
		w.objects.Faults.Add(drop("PutObject", "dead-letters/", 1))
		w.retried(w.deliver(h, raw), idempotency.CodeTemporaryUnavailable)
		w.tables.Faults.Add(drop("", "dead_letters", -1))
		w.retried(w.deliver(h, raw), idempotency.CodeTemporaryUnavailable)
	})
}
