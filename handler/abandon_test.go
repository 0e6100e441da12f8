package handler_test

import (
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/flows/targettest"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// discard closes a letter as a person does who gives it up.
func (w *world) discard(id string) { w.t.Helper(); w.end(id, letter.FinalDiscarded) }

func (w *world) end(id string, as letter.FinalStatus) {
	w.t.Helper()
	must(w.t, letter.NewTable(w.store).Close(w.ctx(), id, as, "li", "nobody needs it any more", time.Now()))
}

func abandonCall(id string) handler.Envelope {
	return handler.Envelope{Oncegate: handler.EnvelopeAbandon, Letter: id}
}

func TestAnAbandonedTaskRunsNothingAndItsLetterStaysClosed(t *testing.T) {
	raw, other := order("e1", "17", 5), order("e2", "17", 5)
	for name, seed := range map[string]func(*idempotency.Record){
		"FAILED_FINAL":    inStatus(idempotency.StatusFailedFinal),
		"FAILED_RETRY":    inStatus(idempotency.StatusFailedRetryable),
		"RECEIVED":        inStatus(idempotency.StatusReceived),
		"RUNNING expired": func(*idempotency.Record) {},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.seed(raw, seed)
				l := w.leave(w.flows(flowsText, nil), raw)
				time.Sleep(timeLimit + policy.Margin + time.Second)
				w.discard(l.ID)
				o := w.call(w.instance(), abandonCall(l.ID))
				if w.acked(o, handler.DecisionAbandoned); o.ErrorCode != "" || o.Key != l.Key || o.Status != idempotency.StatusFailedFinal {
					t.Errorf("got %v", o)
				}
				r := w.record()
				if r.Status != idempotency.StatusFailedFinal || !r.Abandoned {
					t.Errorf("record %+v", r)
				}
				w.unchanged(func() outcome { return w.call(w.instance(), abandonCall(l.ID)) }, handler.DecisionAbandoned, "")
				for i := range 3 {
					time.Sleep(time.Hour)
					o := w.deliver(w.instance(), raw)
					w.acked(o, handler.DecisionFinal)
					if l := w.letterByID(o.LetterID); l.Open() || l.FinalStatus != letter.FinalDiscarded || l.DeliveryAttempts != int64(i)+2 {
						t.Errorf("letter %+v", l)
					}
				}
				w.acked(w.deliver(w.instance(off), raw), handler.DecisionFinal)
				o = w.deliver(w.instance(), other)
				w.acked(o, handler.DecisionFinal)
				if l := w.letterByID(o.LetterID); l.EventID != "e2" || l.FinalStatus != letter.FinalDiscarded {
					t.Errorf("another event of it: letter %+v", l)
				}
				if after := w.record(); after.Revision != r.Revision || w.work.runs() != 0 || len(w.letters()) != 2 {
					t.Errorf("record %+v, %d runs, letters %+v", after, w.work.runs(), w.letters())
				}
			})
		})
	}
}

func TestWhatWasDoneElsewhereDoesNotRunWhenItsEventComesAgain(t *testing.T) {
	raw := order("e1", "17", 5)
	inWorld(t, func(t *testing.T, w *world) {
		w.acked(w.deliver(w.instance(off), raw), handler.DecisionParked)
		l := w.letters()[0]
		w.end(l.ID, letter.FinalSkippedCompleted)
		w.acked(w.call(w.instance(), abandonCall(l.ID)), handler.DecisionAbandoned)
		w.acked(w.deliver(w.instance(), raw), handler.DecisionFinal)
		if l := w.letterByID(l.ID); w.work.runs() != 0 || l.Open() || l.FinalStatus != letter.FinalSkippedCompleted {
			t.Errorf("%d runs, letter %+v", w.work.runs(), l)
		}
	})
}

func TestAbandoningIsRefusedWhileAnythingMayStillHappen(t *testing.T) {
	raw := place("e1", "17", 5)
	for name, c := range map[string]struct {
		effects []string
		prepare func(w *effectWorld)
		letter  func(w *effectWorld, id string)
		why     string
	}{
		"the letter is open":      {nil, func(w *effectWorld) { w.work.set(failing(denied)); w.deliver(w.instance(), raw) }, func(*effectWorld, string) {}, "letter is open"},
		"the letter went well":    {nil, func(w *effectWorld) { w.work.set(failing(denied)); w.deliver(w.instance(), raw) }, closedAs(letter.FinalSucceeded), "was not discarded"},
		"the letter was migrated": {nil, func(w *effectWorld) { w.work.set(failing(denied)); w.deliver(w.instance(), raw) }, closedAs(letter.FinalMigrated), "was not discarded"},
		"a lease lives": {nil, func(w *effectWorld) {
			w.onObjects(once("PutObject", "/output.json", cloudtest.Before, func() { w.held.Revoke(w.cred.AccessKeyID) }))
			w.deliver(w.instance(), raw)
			w.cred = w.held.Issue(time.Time{})
		}, nil, "holds the lease until"},
		"the task succeeded": {nil, func(w *effectWorld) { w.acked(w.deliver(w.instance(), raw), handler.DecisionExecuted) }, nil, "has succeeded"},
		"an effect is SENT": {[]string{notice}, func(w *effectWorld) {
			w.targets.Faults.Add(cloudtest.Fault{Op: "Notify", Kind: cloudtest.Drop})
			w.deliver(w.instance(), raw)
		}, nil, "an effect may have happened"},
		"an effect is SENT, and the task has not heard of it": {[]string{notice}, func(w *effectWorld) {
			w.targets.Faults.Hook(once("Notify", "", cloudtest.After, w.kill))
			w.deliver(w.instance(), raw)
			w.revive()
		}, nil, "an effect may have happened"},
		"an effect is UNKNOWN": {[]string{alarm}, func(w *effectWorld) {
			w.targets.Faults.Add(cloudtest.Fault{Op: "Robot", Kind: cloudtest.Drop})
			w.acked(w.deliver(w.instance(), raw), handler.DecisionOutcomeUnknown)
		}, nil, "an effect may have happened"},
	} {
		t.Run(name, func(t *testing.T) {
			inEffectWorld(t, targettest.Options{}, c.effects, func(_ *testing.T, w *effectWorld) {
				c.prepare(w)
				l := w.leave(w.flows(w.text(), nil), raw)
				if c.letter == nil {
					c.letter = closedAs(letter.FinalExpired)
				}
				c.letter(w, l.ID)
				w.unchanged(func() outcome { return w.call(w.instance(), abandonCall(l.ID)) }, handler.DecisionAbandonRefused, c.why)
				w.unchanged(func() outcome { return w.call(w.instance(), abandonCall("nothing")) }, handler.DecisionAbandonRefused, "no such letter")
			})
		})
	}
}

func closedAs(end letter.FinalStatus) func(*effectWorld, string) {
	return func(w *effectWorld, id string) {
		must(w.t, letter.NewTable(w.store).Close(w.ctx(), id, end, "li", "because", time.Now()))
	}
}

func TestAbandoningWhereNothingHasEverRunIsFine(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		l := w.leave(w.flows(flowsText, nil), order("e1", "17", 5))
		w.end(l.ID, letter.FinalExpired)
		w.unchanged(func() outcome { return w.call(w.instance(), abandonCall(l.ID)) }, handler.DecisionAbandoned, "there is no task")
	})
}

func TestWhatAPersonHasEndedBeforeItRanDoesNotRunWhenItComesLate(t *testing.T) {
	raw, changed := order("e1", "17", 5), order("e2", "17", 6)
	for _, end := range []letter.FinalStatus{letter.FinalDiscarded, letter.FinalSkippedCompleted} {
		t.Run(string(end), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				l := w.leave(w.flows(flowsText, nil), raw)
				w.end(l.ID, end)
				o := w.call(w.instance(), abandonCall(l.ID))
				if w.acked(o, handler.DecisionAbandoned); o.Status != idempotency.StatusFailedFinal || o.Key != l.Key || o.LetterID != l.ID {
					t.Errorf("got %v", o)
				}
				w.unchanged(func() outcome { return w.call(w.instance(), abandonCall(l.ID)) }, handler.DecisionAbandoned, "")
				r := w.record()
				if !r.Abandoned || r.Attempt != 0 || r.Revision != 1 || r.InputDigest != l.InputDigest || r.Flow != l.Flow || r.KeyRule != l.KeyRule || r.EventID != "e1" {
					t.Errorf("record %+v", r)
				}
				w.acked(w.deliver(w.instance(), raw), handler.DecisionFinal)
				if l := w.letterByID(l.ID); l.Open() || l.FinalStatus != end || w.work.runs() != 0 {
					t.Errorf("%d runs, letter %+v", w.work.runs(), l)
				}
				// Another input is a question, as ever.
				w.acked(w.deliver(w.instance(), changed), handler.DecisionConflict)
			})
		})
	}
}

func TestADeliveryThatComesWhileItsBusinessIsGivenUpIsNotOverwritten(t *testing.T) {
	raw := order("e1", "17", 5)
	inWorld(t, func(t *testing.T, w *world) {
		l := w.leave(w.flows(flowsText, nil), raw)
		w.discard(l.ID)
		w.tables.Faults.Hook(once("PutRow", "task_records", cloudtest.Before, func() { w.acked(w.deliver(w.instance(), raw), handler.DecisionExecuted) }))
		if o := w.call(w.instance(), abandonCall(l.ID)); o.err == nil {
			t.Errorf("got %v", o)
		}
		w.unchanged(func() outcome { return w.call(w.instance(), abandonCall(l.ID)) }, handler.DecisionAbandonRefused, "has succeeded")
	})
}

func TestGivingUpWhatNeverRanIsRecognisedWhereItsAnswerIsLost(t *testing.T) {
	eachLost(t, "PutRow", func(t *testing.T, w *world, _ string, f cloudtest.Fault) {
		l := w.leave(w.flows(flowsText, nil), order("e1", "17", 5))
		w.discard(l.ID)
		f.Target = "task_records"
		w.tables.Faults.Add(f)
		w.call(w.instance(), abandonCall(l.ID))
		w.acked(w.call(w.instance(), abandonCall(l.ID)), handler.DecisionAbandoned)
		if r := w.record(); !r.Abandoned || r.Revision != 1 {
			t.Errorf("record %+v", r)
		}
	})
}

func TestAnAbandonmentWhoseAnswerIsLostIsRecognised(t *testing.T) {
	for _, op := range []string{"GetRow", "UpdateRow"} {
		eachLost(t, op, func(t *testing.T, w *world, _ string, f cloudtest.Fault) {
			raw := order("e1", "17", 5)
			l := w.failedFinal(raw)
			w.discard(l.ID)
			w.tables.Faults.Add(f)
			w.call(w.instance(), abandonCall(l.ID))
			w.acked(w.call(w.instance(), abandonCall(l.ID)), handler.DecisionAbandoned)
			if r := w.record(); !r.Abandoned || r.Revision != 3 {
				t.Errorf("record %+v", r)
			}
		})
	}
}
