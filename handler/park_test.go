package handler_test

import (
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestAFlowThatIsOffParksAndRunsOnceItIsOn(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		raw, h := order("e1", "17", 5), w.instance(off)
		for i := range 3 {
			o := w.deliver(h, raw)
			w.acked(o, handler.DecisionParked)
			w.stands(idempotency.StatusReceived, 0)
			if l := w.openLetter(letter.CodeParked, raw); l.ID != o.LetterID || l.DeliveryAttempts != int64(i)+1 {
				t.Errorf("letter %+v", l)
			}
			time.Sleep(time.Hour)
		}
		if r := w.record(); r.Revision != 1 || w.work.runs() != 0 {
			t.Errorf("record %+v, %d runs", r, w.work.runs())
		}
		w.acked(w.deliver(w.instance(), raw), handler.DecisionExecuted)
		w.stands(idempotency.StatusSucceeded, 1)
		w.acked(w.deliver(h, raw), handler.DecisionDuplicate)
	})
	t.Run("its letter comes before its record", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.tables.Faults.Add(drop("", "dead_letters", -1))
			w.retried(w.deliver(w.instance(off), order("e1", "17", 5)), idempotency.CodeTemporaryUnavailable)
			if len(w.records()) != 0 {
				t.Error("a record without its letter")
			}
		})
	})
	t.Run("what is known is answered as ever", func(t *testing.T) {
		for status, want := range map[idempotency.Status]handler.Decision{
			idempotency.StatusSucceeded: handler.DecisionDuplicate, idempotency.StatusFailedFinal: handler.DecisionFinal,
			idempotency.StatusOutcomeUnknown: handler.DecisionOutcomeUnknown, idempotency.StatusFailedRetryable: handler.DecisionParked,
		} {
			inWorld(t, func(_ *testing.T, w *world) {
				raw := order("e1", "17", 5)
				w.seed(raw, inStatus(status))
				w.acked(w.deliver(w.instance(off), raw), want)
				w.stands(status, 1)
			})
		}
		inWorld(t, func(_ *testing.T, w *world) {
			raw := order("e1", "17", 5)
			w.seed(raw, nil)
			w.retried(w.deliver(w.instance(off), raw), idempotency.CodeInProgress)
		})
	})
	t.Run("another input that succeeds meanwhile shows no result", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			raw := order("e2", "17", 500)
			w.onTables(once("GetRow", "task_records", cloudtest.After, func() {
				w.acked(w.deliver(w.instance(), order("e1", "17", 5)), handler.DecisionExecuted)
			}))
			o := w.deliver(w.instance(off), raw)
			if o.ResultRef != "" || o.err != nil {
				t.Errorf("got %v", o)
			}
			w.openLetter(o.letterCode(), raw)
			if n := strings.Count(w.logs.String(), `"msg":"transition"`); n != 2 {
				t.Errorf("%d transitions logged, want those of the other run alone", n)
			}
		})
	})
}

func (o outcome) letterCode() letter.Code {
	if o.Decision == handler.DecisionParked {
		return letter.CodeParked
	}
	return letter.CodeConflict
}
