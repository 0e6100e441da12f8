package handler_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/flows/targettest"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// conflicting delivers an input that another one of its key stands against.
func (w *effectWorld) conflicting(raw []byte) idempotency.Review {
	w.t.Helper()
	w.acked(w.deliver(w.instance(), raw), handler.DecisionConflict)
	return w.openReview()
}

func TestS38_TheRightInputRunsAfterAWrongOneFailedForGood(t *testing.T) {
	for name, fault := range map[string]cloudtest.Fault{
		"before any effect":       {},
		"by an effect's no":       {Op: "Notify", Kind: cloudtest.Status, Status: 400},
		"and its answers are old": {Op: "Notify", Kind: cloudtest.Status, Status: 404},
	} {
		t.Run(name, func(t *testing.T) {
			inEffectWorld(t, targettest.Options{}, []string{notice}, func(t *testing.T, w *effectWorld) {
				wrong, right := place("e1", "17", 500), place("e2", "17", 5)
				if fault.Op == "" {
					w.work.set(failing(idempotency.Failure{Code: idempotency.CodeInvalidRequest, Target: "model:m"}))
				}
				w.targets.Faults.Add(fault)
				w.acked(w.deliver(w.instance(), wrong), handler.DecisionFinal)
				w.targets.Faults.Clear()
				w.work.set(nil)
				v := w.conflicting(right)
				before := w.task()
				w.answer(v, idempotency.ResolvedUseNew, "")
				w.resolved(v.ID)
				w.resolved(v.ID)
				r := w.stands(idempotency.StatusFailedRetryable, 1)
				if r.Revision != before.Revision+1 || r.InputDigest != v.EventDigest || strings.Join(r.SupersededDigests, ",") != before.InputDigest || r.AttemptBudget != 3 {
					t.Errorf("task %+v", r)
				}
				w.acked(w.deliver(w.instance(), right), handler.DecisionExecuted)
				r = w.stands(idempotency.StatusSucceeded, 2)
				var body struct {
					Event json.RawMessage `json:"event"`
				}
				input, ok := w.object("tasks/" + r.Key + "/attempt-002/input.json")
				if err := json.Unmarshal(input, &body); !ok || err != nil || string(body.Event) != string(right) {
					t.Errorf("the input of the right run is %s", input)
				}
				if first, _ := w.object("tasks/" + r.Key + "/input.json"); !strings.Contains(string(first), `"amount":500`) {
					t.Errorf("the first input is %s", first)
				}
				runs, letters := w.work.runs(), len(w.letters())
				for range 2 {
					time.Sleep(time.Hour)
					o := w.deliver(w.instance(), wrong)
					if o.err != nil || o.ResultRef != "" {
						t.Errorf("the wrong input's duplicate: %v", o)
					}
				}
				if w.happened() != 1 || w.work.runs() != runs || len(w.letters()) != letters || len(w.reviews()) != 1 {
					t.Errorf("%d effects, %d runs, letters %+v, %d reviews", w.happened(), w.work.runs(), w.letters(), len(w.reviews()))
				}
				for _, d := range []string{"e1", "e2"} {
					if w.acked(w.deliver(w.instance(), place(d, "17", 5)), handler.DecisionDuplicate); w.happened() != 1 {
						t.Errorf("%d effects", w.happened())
					}
				}
			})
		})
	}
}

func TestUseNewIsRefusedOnceAnythingMayHaveHappened(t *testing.T) {
	wrong, right := place("e1", "17", 500), place("e2", "17", 5)
	for name, c := range map[string]struct {
		effects []string
		prepare func(w *effectWorld)
		why     string
	}{
		"an effect is SENT": {[]string{notice}, func(w *effectWorld) {
			w.targets.Faults.Add(cloudtest.Fault{Op: "Notify", Kind: cloudtest.Drop})
			w.deliver(w.instance(), wrong)
		}, "effect notice"},
		"an effect is SENT, and the task has not heard of it": {[]string{notice}, func(w *effectWorld) {
			w.targets.Faults.Hook(once("Notify", "", cloudtest.After, w.kill))
			w.deliver(w.instance(), wrong)
			w.revive()
			if e := w.task().Effects[0]; e.State != "" {
				w.t.Fatalf("the task knows %+v", e)
			}
		}, "effect notice"},
		"an effect is UNKNOWN": {[]string{alarm}, func(w *effectWorld) {
			w.targets.Faults.Add(cloudtest.Fault{Op: "Robot", Kind: cloudtest.Drop})
			w.acked(w.deliver(w.instance(), wrong), handler.DecisionOutcomeUnknown)
			id := w.openReview()
			w.answer(id, idempotency.ResolvedNotDone, "") // answered, not carried out
		}, "effect alarm"},
		"an effect is SETTLED": {[]string{notice, alarm}, func(w *effectWorld) {
			w.refuse("Robot", 400, 1)
			w.acked(w.deliver(w.instance(), wrong), handler.DecisionFinal)
		}, "effect notice"},
		"the task succeeded": {nil, func(w *effectWorld) {
			w.acked(w.deliver(w.instance(), wrong), handler.DecisionExecuted)
		}, "status is SUCCEEDED"},
		"a lease lives": {nil, func(w *effectWorld) {
			w.onObjects(once("PutObject", "/output.json", cloudtest.Before, func() { w.held.Revoke(w.cred.AccessKeyID) }))
			w.deliver(w.instance(), wrong)
			w.cred = w.held.Issue(time.Time{})
		}, "lease"},
	} {
		t.Run(name, func(t *testing.T) {
			inEffectWorld(t, targettest.Options{}, c.effects, func(_ *testing.T, w *effectWorld) {
				c.prepare(w)
				v := w.conflicting(right)
				w.answer(v, idempotency.ResolvedUseNew, "")
				w.refused(v.ID, c.why)
			})
		})
	}
}

func TestUseNewAfterTheLeaseOfADeadRun(t *testing.T) {
	inEffectWorld(t, targettest.Options{}, []string{notice}, func(t *testing.T, w *effectWorld) {
		wrong, right := place("e1", "17", 500), place("e2", "17", 5)
		w.work.set(func(context.Context, flows.Task) (map[string]any, error) {
			w.kill()
			return map[string]any{"a": 1}, nil
		})
		w.deliver(w.instance(), wrong)
		w.work.set(nil)
		w.revive()
		v := w.conflicting(right)
		w.answer(v, idempotency.ResolvedUseNew, "")
		w.resolved(v.ID)
		if e := w.row("notice", idempotency.EffectRefused); e.Owner != v.ID {
			t.Errorf("the dead run can still send: the row is %s's", e.Owner)
		}
		w.acked(w.deliver(w.instance(), right), handler.DecisionExecuted)
		w.acked(w.deliver(w.instance(), wrong), handler.DecisionConflict)
		if w.happened() != 1 {
			t.Errorf("%d effects", w.happened())
		}
	})
}

func TestARejectedInputsLetterIsClosedAndStaysClosed(t *testing.T) {
	for _, as := range []idempotency.Resolution{idempotency.ResolvedKeepOld, idempotency.ResolvedDiscard} {
		for _, phase := range []cloudtest.Phase{cloudtest.Before, cloudtest.After} {
			t.Run(string(as)+", first write lost "+phase.String(), func(t *testing.T) {
				inEffectWorld(t, targettest.Options{}, nil, func(t *testing.T, w *effectWorld) {
					right, wrong := place("e1", "17", 5), place("e2", "17", 500)
					w.acked(w.deliver(w.instance(), right), handler.DecisionExecuted)
					v := w.conflicting(wrong)
					w.answer(v, as, "")
					w.tables.Faults.Add(cloudtest.Fault{Op: "UpdateRow", Target: letter.LetterTable.Name, Phase: phase, Kind: cloudtest.Drop})
					w.resolved(v.ID)
					closed := w.letters()
					if len(closed) != 1 || closed[0].FinalStatus != letter.FinalDiscarded || closed[0].ClosedAt.IsZero() {
						t.Fatalf("letters %+v", closed)
					}
					before := w.everything()
					w.resolved(v.ID)
					if before != w.everything() {
						t.Error("a repeated call changed something")
					}
					time.Sleep(time.Hour)
					w.acked(w.deliver(w.instance(), wrong), handler.DecisionConflict)
					if l := w.letters(); len(l) != 1 || l[0].Open() || l[0].DeliveryAttempts != 2 || w.work.runs() != 1 {
						t.Errorf("letters %+v, %d runs", l, w.work.runs())
					}
				})
			})
		}
	}
}

func TestACallThatCannotBeCarriedOutIsRefused(t *testing.T) {
	inEffectWorld(t, targettest.Options{}, []string{alarm}, func(t *testing.T, w *effectWorld) {
		raw := place("e1", "17", 5)
		v := w.doubted(raw, cloudtest.After)
		w.refused(v.ID, "open")
		w.refused("nobody", "no such review")
		w.refused("", "no such review")
		set := func(row aliyun.Row) {
			stored, _, err := idempotency.NewReviews(w.store).Get(w.ctx(), v.ID)
			must(t, err)
			row["revision"] = stored.Revision + 1
			must(t, w.store.Update(w.ctx(), idempotency.ReviewTable, v.ID, row, stored.Revision))
		}
		set(aliyun.Row{"state": "closed", "resolution": "keep_old"})
		w.refused(v.ID, "none that this version knows")
		set(aliyun.Row{"resolution": "confirmed_done", "kind": "guess"})
		w.refused(v.ID, "none that this version knows")
		set(aliyun.Row{"kind": "outcome_unknown", "effect_key": "nothing"})
		w.refused(v.ID, "effect is gone")
		set(aliyun.Row{"effect_key": v.EffectKey, "idempotency_key": "nothing"})
		w.refused(v.ID, "task is gone")
		o, err := w.instance().Resolve(w.ctx(), handler.Envelope{Oncegate: "dance", Review: v.ID}, handler.Delivery{})
		if err != nil || o.ErrorCode != idempotency.CodeInvalidRequest {
			t.Errorf("got %+v %v", o, err)
		}
		set(aliyun.Row{"idempotency_key": v.Key})
		for _, row := range []aliyun.Row{{"record_version": int64(2)}, {"record_version": int64(1), "status": "PAUSED"}} {
			r := w.task()
			row["revision"] = r.Revision + 1
			must(t, w.store.Update(w.ctx(), idempotency.TaskTable, r.Key, row, r.Revision))
			before := w.everything()
			w.retried(w.resolve(v.ID), idempotency.CodeTemporaryUnavailable)
			if before != w.everything() {
				t.Errorf("a record that says %v was changed", row)
			}
		}
	})
}

func TestOnlyAnEnvelopeIsNoEvent(t *testing.T) {
	if e, ok := handler.ParseEnvelope([]byte(`{"oncegate":"resolve","review":"r1"}`)); !ok || e != (handler.Envelope{Oncegate: "resolve", Review: "r1"}) {
		t.Errorf("got %+v %v", e, ok)
	}
	if e, ok := handler.ParseEnvelope([]byte(` {"letter":"l1","oncegate":"abandon"} `)); !ok || e != (handler.Envelope{Oncegate: "abandon", Letter: "l1"}) {
		t.Errorf("got %+v %v", e, ok)
	}
	for _, raw := range []string{
		"", "null", `{"oncegate":"replay","specversion":"1.0"}`, `{"oncegate":"replay","specversion":null}`, `{"oncegate":["replay"]}`,
		`{"data":{"oncegate":"replay"}}`, `{"oncegate":"replay"} {}`, `{"oncegate":"replay","oncegate":"replay"}`, `{"Oncegate":"replay"}`, "[]", `"oncegate"`, "{}", `{"oncegate":null,"review":"r"}`, `{"oncegate":5,"review":"r"}`, `{"oncegate":"resolve","review":7}`,
		`{"oncegate":"resolve","oncegate":"replay"}`, `{"oncegate":"resolve"`, `{"oncegate":"resolve"} x`, "{\"oncegate\":\"\xff\"}",
		string(place("e1", "17", 5)), strings.Replace(string(place("e1", "17", 5)), `{"spec`, `{"oncegate":"resolve","review":"r","spec`, 1),
		`{"oncegate":"resolve","review":"` + strings.Repeat("r", 5000) + `"}`,
	} {
		if e, ok := handler.ParseEnvelope([]byte(raw)); ok {
			t.Errorf("%.80s: got %+v", raw, e)
		}
	}
}
