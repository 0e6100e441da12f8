package handler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/flows/targettest"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestADefiniteNoDecidesByItsClass(t *testing.T) {
	for kind, k := range kinds {
		for _, c := range []struct {
			status int
			code   idempotency.Code
			letter letter.Code // "" where the task goes on
		}{
			{400, idempotency.CodeInvalidRequest, letter.CodeInvalidSchema},
			{401, idempotency.CodePermissionDenied, letter.CodeAccessDenied},
			{403, idempotency.CodePermissionDenied, letter.CodeAccessDenied},
			{404, idempotency.CodeTargetNotFound, letter.CodeTargetNotFound},
			{429, idempotency.CodeRateLimited, ""},
		} {
			t.Run(fmt.Sprintf("%s, %d", kind, c.status), func(t *testing.T) {
				inEffectWorld(t, targettest.Options{}, []string{k.effect}, func(t *testing.T, w *effectWorld) {
					raw := place("e1", "17", 5)
					w.refuse(k.op, c.status, 1)
					o := w.deliver(w.instance(), raw)
					name := w.task().Effects[0].Name
					row := w.row(name, idempotency.EffectRefused)
					if row.LastErrorCode != c.code || row.Outcome != idempotency.OutcomeConfirmedRetryable || w.happened() != 0 {
						t.Errorf("row %+v, %d effects", row, w.happened())
					}
					if c.letter != "" {
						w.acked(o, handler.DecisionFinal)
						w.stands(idempotency.StatusFailedFinal, 1)
						w.openLetter(c.letter, raw)
						return
					}
					w.retried(o, c.code)
					w.stands(idempotency.StatusFailedRetryable, 1)
					w.acked(w.deliverUntilAcked(raw), handler.DecisionExecuted)
					if after := w.row(name, idempotency.EffectSettled); w.happened() != 1 || after.Key != row.Key || after.LastErrorCode != "" {
						t.Errorf("%d effects, row %+v", w.happened(), after)
					}
				})
			})
		}
	}
}

func TestARetryAfterOfTheTargetIsWaitedFor(t *testing.T) {
	inEffectWorld(t, targettest.Options{}, []string{notice}, func(t *testing.T, w *effectWorld) {
		raw := event("e1", "demo:place", "s", `{"order_no":"17","number":"R","phone":"[[target status=429 retry_after=900]]","amount":5}`)
		w.retried(w.deliver(w.instance(), raw), idempotency.CodeRateLimited)
		time.Sleep(15*time.Minute - time.Second)
		w.retried(w.deliver(w.instance(), raw), idempotency.CodeRateLimited)
		w.stands(idempotency.StatusFailedRetryable, 1)
		time.Sleep(2 * time.Second)
		w.acked(w.deliver(w.instance(), raw), handler.DecisionExecuted)
	})
}

func TestS36_OfTwoEffectsOnlyTheRefusedOneComesAgain(t *testing.T) {
	inEffectWorld(t, targettest.Options{}, []string{alarm, notice}, func(t *testing.T, w *effectWorld) {
		raw := place("e1", "17", 5)
		w.refuse("Notify", 429, 1)
		w.retried(w.deliver(w.instance(), raw), idempotency.CodeRateLimited)
		if e := w.task().Effects; e[0].State != idempotency.EffectSettled || e[1].State != idempotency.EffectRefused {
			t.Errorf("the task knows %+v", e)
		}
		w.acked(w.deliverUntilAcked(raw), handler.DecisionExecuted)
		calls := w.targets.Faults.Calls()
		if calls["Robot"] != 1 || calls["Notify"] != 2 || w.happened() != 2 || w.work.runs() != 1 {
			t.Errorf("calls %v, %d effects, %d runs", calls, w.happened(), w.work.runs())
		}
	})
}

func TestALookUpThatFailsBeforeTheWriteSendsNothing(t *testing.T) {
	inEffectWorld(t, targettest.Options{}, []string{entry}, func(t *testing.T, w *effectWorld) {
		raw := place("e1", "17", 5)
		w.targets.Faults.Add(cloudtest.Fault{Op: "FindRecord", Kind: cloudtest.Drop, Times: 2})
		for range 2 {
			w.retried(w.deliver(w.instance(), raw), idempotency.CodeTemporaryUnavailable)
			w.row("entry", idempotency.EffectRefused)
			time.Sleep(time.Hour)
		}
		if n := w.targets.Faults.Calls()["CreateRecord"]; n != 0 {
			t.Fatalf("%d writes without a look-up", n)
		}
		w.acked(w.deliver(w.instance(), raw), handler.DecisionExecuted)
		if calls := w.targets.Faults.Calls(); calls["FindRecord"] != 4 || calls["CreateRecord"] != 1 {
			t.Errorf("calls %v: each write that is not a copy needs its look-up before and its reading back after", calls)
		}
	})
}

func TestARefusedCopySaysNothingOfTheFirstOne(t *testing.T) {
	for _, status := range []int{400, 401, 409, 429} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			ttl := 24 * time.Hour
			inEffectWorld(t, targettest.Options{KeyTTL: ttl}, []string{withTTL(notice, "24h")}, func(t *testing.T, w *effectWorld) {
				raw := place("e1", "17", 5)
				w.targets.Faults.Add(cloudtest.Fault{Op: "Notify", Phase: cloudtest.After, Kind: cloudtest.Drop})
				w.retried(w.deliver(w.instance(), raw), idempotency.CodeTemporaryUnavailable)
				first := w.row("notice", idempotency.EffectSent).FirstSentAt
				time.Sleep(time.Hour)
				w.refuse("Notify", status, 1)
				if o := w.deliver(w.instance(), raw); o.err == nil {
					t.Fatalf("the task is over: %v", o)
				}
				if row := w.row("notice", idempotency.EffectSent); !row.FirstSentAt.Equal(first) {
					t.Errorf("row %+v", row)
				}
				time.Sleep(ttl)
				w.acked(w.deliver(w.instance(), raw), handler.DecisionOutcomeUnknown)
				w.awaitsAPerson("notice", raw)
				if w.happened() != 1 {
					t.Errorf("%d notifications", w.happened())
				}
			})
		})
	}
}

func TestWithoutAttemptsLeftAnEffectIsFoundOut(t *testing.T) {
	for kind, k := range kinds {
		for name, c := range map[string]struct {
			phase cloudtest.Phase
			then  func(w *effectWorld)
			want  map[idempotency.TargetKind]idempotency.Status
			state map[idempotency.TargetKind]idempotency.EffectState
		}{
			"it has happened": {
				cloudtest.After, nil,
				map[idempotency.TargetKind]idempotency.Status{"idempotent": "FAILED_FINAL", "readable": "FAILED_FINAL", "opaque": "OUTCOME_UNKNOWN"},
				map[idempotency.TargetKind]idempotency.EffectState{"idempotent": "SETTLED", "readable": "SETTLED", "opaque": "UNKNOWN"},
			},
			"it has not happened": {
				cloudtest.Before, nil,
				map[idempotency.TargetKind]idempotency.Status{"idempotent": "FAILED_FINAL", "readable": "FAILED_FINAL", "opaque": "OUTCOME_UNKNOWN"},
				map[idempotency.TargetKind]idempotency.EffectState{"idempotent": "SETTLED", "readable": "REFUSED", "opaque": "UNKNOWN"},
			},
			"the target refuses the copy for good": {
				cloudtest.After, func(w *effectWorld) { w.refuse("Notify", 401, -1) },
				map[idempotency.TargetKind]idempotency.Status{"idempotent": "OUTCOME_UNKNOWN", "readable": "FAILED_FINAL", "opaque": "OUTCOME_UNKNOWN"},
				map[idempotency.TargetKind]idempotency.EffectState{"idempotent": "UNKNOWN", "readable": "SETTLED", "opaque": "UNKNOWN"},
			},
		} {
			t.Run(fmt.Sprintf("%s, %s", kind, name), func(t *testing.T) {
				inEffectWorld(t, targettest.Options{}, []string{k.effect}, func(t *testing.T, w *effectWorld) {
					w.budget = 1
					raw := place("e1", "17", 5)
					w.targets.Faults.Add(cloudtest.Fault{Op: k.op, Phase: c.phase, Kind: cloudtest.Drop})
					// It dies with its answer lost, and leaves no word in the task's row.
					w.targets.Faults.Hook(once(k.op, "", c.phase, w.kill))
					if o := w.deliver(w.instance(), raw); o.err == nil {
						t.Fatalf("got %v", o)
					}
					w.revive()
					if c.then != nil {
						c.then(w)
					}
					o := w.deliverUntilAcked(raw)
					r := w.stands(c.want[kind], 1)
					w.row(r.Effects[0].Name, c.state[kind])
					if r.Effects[0].State != c.state[kind] || w.happened() > 1 {
						t.Errorf("answered %v, the task knows %+v, %d effects", o, r.Effects, w.happened())
					}
					if r.Status == idempotency.StatusOutcomeUnknown {
						w.awaitsAPerson(r.Effects[0].Name, raw)
					} else {
						w.openLetter(letter.CodeTimeout, raw)
					}
				})
			})
		}
	}
	t.Run("and a lost answer is no end", func(t *testing.T) {
		inEffectWorld(t, targettest.Options{}, []string{notice}, func(t *testing.T, w *effectWorld) {
			w.budget = 1
			raw := place("e1", "17", 5)
			w.targets.Faults.Add(cloudtest.Fault{Op: "Notify", Phase: cloudtest.After, Kind: cloudtest.Drop, Times: 4})
			for range 4 {
				w.retried(w.deliver(w.instance(), raw), idempotency.CodeTemporaryUnavailable)
				w.stands(idempotency.StatusFailedRetryable, 1)
				time.Sleep(time.Hour)
			}
			w.acked(w.deliver(w.instance(), raw), handler.DecisionFinal)
			w.row("notice", idempotency.EffectSettled)
		})
	})
	t.Run("nor are rows that cannot be read", func(t *testing.T) {
		inEffectWorld(t, targettest.Options{}, []string{alarm}, func(t *testing.T, w *effectWorld) {
			w.budget = 2
			raw := place("e1", "17", 5)
			key := w.effectKeys(raw)["alarm"]
			w.targets.Faults.Hook(once("Robot", "", cloudtest.After, w.kill))
			w.deliver(w.instance(), raw)
			w.revive()
			w.tables.Faults.Add(drop("GetRow", key, -1))
			w.retried(w.deliver(w.instance(), raw), idempotency.CodeTemporaryUnavailable)
			if s := w.task().Status; s == idempotency.StatusFailedFinal {
				t.Fatal("the task ended without a look at its effects")
			}
			time.Sleep(time.Hour)
			w.retried(w.deliver(w.instance(), raw), idempotency.CodeTemporaryUnavailable)
			w.tables.Faults.Clear()
			w.acked(w.deliverUntilAcked(raw), handler.DecisionOutcomeUnknown)
			w.awaitsAPerson("alarm", raw)
		})
	})
}
