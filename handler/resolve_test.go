package handler_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/flows/targettest"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// answer closes a review as a person does.
func (w *effectWorld) answer(v idempotency.Review, as idempotency.Resolution, number string) {
	w.t.Helper()
	answered, err := v.Answer(as, "li", "looked at the target", number, time.Now())
	must(w.t, err)
	must(w.t, idempotency.NewReviews(w.store).Close(w.ctx(), v, answered))
}

// resolve calls the function to carry an answer out.
func (w *effectWorld) resolve(id string) outcome {
	ctx, cancel := context.WithTimeout(w.ctx(), w.limit)
	defer cancel()
	r, err := w.instance().Resolve(ctx, handler.Envelope{Oncegate: handler.EnvelopeResolve, Review: id}, handler.Delivery{FunctionName: "gate"})
	var re *handler.RetryError
	if err != nil && !errors.As(err, &re) {
		w.t.Errorf("an error of type %T", err)
	}
	return outcome{r, err}
}

// resolved fails the test unless the answer was carried out.
func (w *effectWorld) resolved(id string) {
	w.t.Helper()
	if o := w.resolve(id); o.err != nil || o.Decision != handler.DecisionResolved || o.ErrorCode != "" || o.Key != w.task().Key {
		w.t.Fatalf("got %v\n%s", o, w.logs)
	}
}

// refused fails the test unless the answer was refused and changed nothing.
func (w *effectWorld) refused(id, why string) {
	w.t.Helper()
	before := w.everything()
	o := w.resolve(id)
	if o.err != nil || o.ErrorCode != idempotency.CodeInvalidRequest || !strings.Contains(o.Reason, why) || !reflect.DeepEqual(before, w.everything()) {
		w.t.Fatalf("got %v, want it refused with %q", o, why)
	}
}

func (w *effectWorld) everything() string {
	var all []any
	for _, table := range []string{idempotency.TaskTable.Name, idempotency.ReviewTable.Name, letter.LetterTable.Name} {
		all = append(all, w.tables.Rows(table))
	}
	return fmt.Sprint(all)
}

// doubted is a task whose opaque effect may have happened.
func (w *effectWorld) doubted(raw []byte, phase cloudtest.Phase) idempotency.Review {
	w.t.Helper()
	w.targets.Faults.Add(cloudtest.Fault{Op: "Robot", Phase: phase, Kind: cloudtest.Drop})
	w.acked(w.deliver(w.instance(), raw), handler.DecisionOutcomeUnknown)
	return w.awaitsAPerson("alarm", raw)
}

func TestS37_AfterAPersonsAnswerTheSecondEffectStillRuns(t *testing.T) {
	for as, c := range map[idempotency.Resolution]struct {
		number  string
		phase   cloudtest.Phase
		state   idempotency.EffectState
		outcome idempotency.Outcome
		robot   int // requests in all
	}{
		idempotency.ResolvedDone:        {"msg-7", cloudtest.After, idempotency.EffectSettled, idempotency.OutcomeConfirmedDone, 1},
		idempotency.ResolvedNotDone:     {"", cloudtest.Before, idempotency.EffectRefused, idempotency.OutcomeConfirmedRetryable, 2},
		idempotency.ResolvedCompensated: {"", cloudtest.After, idempotency.EffectSettled, idempotency.OutcomeCompensated, 1},
	} {
		t.Run(string(as), func(t *testing.T) {
			inEffectWorld(t, targettest.Options{}, []string{alarm, notice}, func(t *testing.T, w *effectWorld) {
				raw := place("e1", "17", 5)
				v := w.doubted(raw, c.phase)
				if w.targets.Faults.Calls()["Notify"] != 0 {
					t.Fatal("the second effect ran before the first was known")
				}
				time.Sleep(time.Hour)
				w.answer(v, as, c.number)
				w.resolved(v.ID)
				row := w.row("alarm", c.state)
				if row.Outcome != c.outcome || row.TargetRecordID != c.number || row.Reviewer != "li" {
					t.Errorf("row %+v", row)
				}
				r := w.stands(idempotency.StatusFailedRetryable, 1)
				if r.AttemptBudget != 3 || r.Reviewer != "li" || r.Effects[0] != row.In() || r.NotBefore.After(time.Now()) {
					t.Errorf("task %+v", r)
				}
				w.acked(w.deliver(w.instance(), raw), handler.DecisionExecuted)
				w.stands(idempotency.StatusSucceeded, 2)
				calls := w.targets.Faults.Calls()
				if calls["Robot"] != c.robot || calls["Notify"] != 1 || len(w.targets.RobotMessages()) != 1 || w.row("alarm", idempotency.EffectSettled).Key != row.Key {
					t.Errorf("calls %v, messages %v", calls, w.targets.RobotMessages())
				}
				// Whoever calls again changes nothing.
				before := w.everything()
				w.resolve(v.ID)
				if before != w.everything() {
					t.Error("a repeated call changed something")
				}
			})
		})
	}
}

func TestAnAnswerWhoseCallNeverCameIsCarriedOutByTheNextDelivery(t *testing.T) {
	inEffectWorld(t, targettest.Options{}, []string{alarm, notice}, func(t *testing.T, w *effectWorld) {
		raw := place("e1", "17", 5)
		v := w.doubted(raw, cloudtest.After)
		w.answer(v, idempotency.ResolvedDone, "msg-7")
		w.retried(w.deliver(w.instance(), raw), idempotency.CodeTemporaryUnavailable)
		if e := w.row("alarm", idempotency.EffectSettled); e.TargetRecordID != "msg-7" || e.Reviewer != "li" {
			t.Errorf("row %+v", e)
		}
		w.stands(idempotency.StatusFailedRetryable, 1)
		w.acked(w.deliver(w.instance(), raw), handler.DecisionExecuted)
		w.stands(idempotency.StatusSucceeded, 2)
		if w.happened() != 2 || w.targets.Faults.Calls()["Robot"] != 1 {
			t.Errorf("%d effects, calls %v", w.happened(), w.targets.Faults.Calls())
		}
	})
}

func TestRepeatedAnswersChangeNothing(t *testing.T) {
	inEffectWorld(t, targettest.Options{}, []string{alarm}, func(t *testing.T, w *effectWorld) {
		v := w.doubted(place("e1", "17", 5), cloudtest.After)
		w.answer(v, idempotency.ResolvedDone, "msg-7")
		w.resolved(v.ID)
		before := w.everything()
		for range 3 {
			time.Sleep(time.Minute)
			w.resolved(v.ID)
			if before != w.everything() {
				t.Fatal("a repeated call changed something")
			}
		}
	})
}

func TestAnAnswerWhoseWritesAreLostIsCarriedOutByTheNextCall(t *testing.T) {
	for _, write := range []string{"the effect's", "the task's"} {
		for _, phase := range []cloudtest.Phase{cloudtest.Before, cloudtest.After} {
			for _, kind := range []cloudtest.Kind{cloudtest.Drop, cloudtest.Status} {
				for _, times := range []int{1, 3} {
					t.Run(fmt.Sprintf("%s %s %s %d times", write, phase, kind, times), func(t *testing.T) {
						inEffectWorld(t, targettest.Options{}, []string{alarm}, func(t *testing.T, w *effectWorld) {
							raw := place("e1", "17", 5)
							v := w.doubted(raw, cloudtest.After)
							w.answer(v, idempotency.ResolvedDone, "msg-7")
							target := v.EffectKey
							if write == "the task's" {
								target = v.Key
							}
							w.tables.Faults.Add(cloudtest.Fault{Op: "UpdateRow", Target: target, Phase: phase, Kind: kind, Status: 503, Code: "OTSTimeout", Times: times})
							if o := w.resolve(v.ID); o.err != nil {
								w.retried(o, idempotency.CodeTemporaryUnavailable)
								w.resolved(v.ID)
							}
							w.row("alarm", idempotency.EffectSettled)
							w.stands(idempotency.StatusFailedRetryable, 1)
							w.acked(w.deliver(w.instance(), raw), handler.DecisionExecuted)
							if w.happened() != 1 {
								t.Errorf("%d messages", w.happened())
							}
						})
					})
				}
			}
		}
	}
	t.Run("as is one whose reads fail", func(t *testing.T) {
		inEffectWorld(t, targettest.Options{}, []string{alarm}, func(_ *testing.T, w *effectWorld) {
			v := w.doubted(place("e1", "17", 5), cloudtest.After)
			w.answer(v, idempotency.ResolvedDone, "msg-7")
			for _, target := range []string{v.ID, v.Key, v.EffectKey} {
				before := w.everything()
				w.tables.Faults.Add(drop("GetRow", target, 1))
				w.retried(w.resolve(v.ID), idempotency.CodeTemporaryUnavailable)
				if before != w.everything() {
					w.t.Errorf("without %s it changed something", target)
				}
			}
			w.resolved(v.ID)
		})
	})
}

func TestWithTwoEffectsInDoubtTheTaskWaitsForBothAnswers(t *testing.T) {
	inEffectWorld(t, targettest.Options{}, []string{alarm, notice}, func(t *testing.T, w *effectWorld) {
		raw := place("e1", "17", 5)
		first := w.doubted(raw, cloudtest.After)
		// A second one, as another version of the code might leave it.
		w.forged = true
		r := w.task()
		ledger := idempotency.NewLedger(w.store, policy)
		sent, err := ledger.Send(w.ctx(), nil, idempotency.Sending{
			Key: idempotency.Key{Hex: r.Effects[1].Key}, Spec: idempotency.EffectSpec{Name: "notice", Kind: idempotency.TargetIdempotent},
			Task: r, OutputRef: w.row("alarm", idempotency.EffectUnknown).OutputRef, Now: time.Now(),
		})
		must(t, err)
		second, err := ledger.Doubt(w.ctx(), sent, "owner", time.Now())
		must(t, err)
		columns, err := r.Knows(second.In()).Columns()
		must(t, err)
		must(t, w.store.Update(w.ctx(), idempotency.TaskTable, r.Key, aliyun.Row{"effects": columns["effects"], "revision": r.Revision + 1}, r.Revision))
		v, err := idempotency.NewReviews(w.store).Open(w.ctx(), idempotency.Review{
			ID: idempotency.OutcomeID(second.Key, second.Attempt), Kind: idempotency.ReviewOutcome, Key: r.Key,
			EffectKey: second.Key, EffectName: "notice", Attempt: second.Attempt,
		})
		must(t, err)
		w.answer(first, idempotency.ResolvedDone, "msg-7")
		w.resolved(first.ID)
		w.row("alarm", idempotency.EffectSettled)
		w.stands(idempotency.StatusOutcomeUnknown, 1)
		w.acked(w.deliver(w.instance(), raw), handler.DecisionOutcomeUnknown)
		w.answer(v, idempotency.ResolvedNotDone, "")
		w.resolved(v.ID)
		if r := w.stands(idempotency.StatusFailedRetryable, 1); r.Effects[0].State != idempotency.EffectSettled || r.Effects[1].State != idempotency.EffectRefused {
			t.Errorf("the task knows %+v", r.Effects)
		}
		w.acked(w.deliver(w.instance(), raw), handler.DecisionExecuted)
		if w.happened() != 2 {
			t.Errorf("%d effects", w.happened())
		}
	})
}

func TestAnAnswerGivenBeforeTheTaskSaysItWaitsIsNotLost(t *testing.T) {
	for as, number := range map[idempotency.Resolution]string{idempotency.ResolvedDone: "msg-7", idempotency.ResolvedNotDone: ""} {
		inEffectWorld(t, targettest.Options{}, []string{alarm}, func(t *testing.T, w *effectWorld) {
			raw := place("e1", "17", 5)
			w.targets.Faults.Add(cloudtest.Fault{Op: "Robot", Kind: cloudtest.Drop})
			w.onTables(once("PutRow", letter.LetterTable.Name, cloudtest.After, w.kill))
			w.retried(w.deliver(w.instance(), raw), idempotency.CodeTemporaryUnavailable)
			w.revive()
			w.stands(idempotency.StatusRunning, 1)
			v := w.openReview()
			w.answer(v, as, number)
			w.resolved(v.ID)
			w.acked(w.deliver(w.instance(), raw), handler.DecisionExecuted)
			if n := len(w.targets.RobotMessages()); (n == 1) != (as == idempotency.ResolvedNotDone) {
				t.Errorf("%s: %d messages", as, n)
			}
		})
	}
}

func TestAnAnswerToAnOlderQuestionIsRefused(t *testing.T) {
	inEffectWorld(t, targettest.Options{}, []string{alarm}, func(t *testing.T, w *effectWorld) {
		raw := place("e1", "17", 5)
		first := w.doubted(raw, cloudtest.Before)
		w.answer(first, idempotency.ResolvedNotDone, "")
		w.resolved(first.ID)
		w.targets.Faults.Add(cloudtest.Fault{Op: "Robot", Phase: cloudtest.After, Kind: cloudtest.Drop})
		w.acked(w.deliver(w.instance(), raw), handler.DecisionOutcomeUnknown)
		second := w.openReview()
		if second.ID == first.ID || second.Attempt != 2 {
			t.Fatalf("the second question is %+v", second)
		}
		w.refused(first.ID, "moved on")
		w.row("alarm", idempotency.EffectUnknown)
		w.answer(second, idempotency.ResolvedDone, "msg-7")
		w.resolved(second.ID)
		w.refused(first.ID, "moved on")
		w.acked(w.deliver(w.instance(), raw), handler.DecisionExecuted)
	})
}

func TestAnAnswerMeetsTheRunThatTookTheTaskOverMeanwhile(t *testing.T) {
	inEffectWorld(t, targettest.Options{}, []string{alarm}, func(t *testing.T, w *effectWorld) {
		raw := place("e1", "17", 5)
		_, _, key, _ := w.identity(w.flows(w.text(), nil), raw)
		w.targets.Faults.Add(cloudtest.Fault{Op: "Robot", Phase: cloudtest.After, Kind: cloudtest.Drop})
		w.onTables(once("UpdateRow", key, cloudtest.Before, w.kill)) // the doubt is noted, and the task has not heard of it
		w.deliver(w.instance(), raw)
		w.revive()
		w.stands(idempotency.StatusRunning, 1)
		v := w.openReview()
		w.answer(v, idempotency.ResolvedDone, "msg-7")
		w.onTables(once("UpdateRow", v.EffectKey, cloudtest.Before, func() {
			w.acked(w.deliver(w.instance(), raw), handler.DecisionOutcomeUnknown)
		}))
		if o := w.resolve(v.ID); o.err != nil || o.Status != idempotency.StatusFailedRetryable {
			t.Errorf("got %v", o)
		}
		w.acked(w.deliver(w.instance(), raw), handler.DecisionExecuted)
		if n := len(w.targets.RobotMessages()); n != 1 {
			t.Errorf("%d messages", n)
		}
	})
}
