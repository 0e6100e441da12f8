package handler_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/flows/targettest"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// newer makes the next instances another version of flow and processor.
func (w *effectWorld) newer(effects ...string) {
	w.version, w.work = "2", &work{version: "w2"}
	w.effects = effects
}

func TestOnceAnEffectIsSentItsOutputIsAdoptedWhateverTheVersion(t *testing.T) {
	for name, c := range map[string]struct {
		fault cloudtest.Fault
		runs  int // of the newer processor
	}{
		"sent": {cloudtest.Fault{Op: "Notify", Phase: cloudtest.After, Kind: cloudtest.Drop}, 0},
		// The first effect is settled, and the second one was not sent.
		"settled": {cloudtest.Fault{Op: "Robot", Kind: cloudtest.Status, Status: 429}, 0},
		// Nothing has happened, so the newer version may say it better.
		"refused": {cloudtest.Fault{Op: "Notify", Kind: cloudtest.Status, Status: 429}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			inEffectWorld(t, targettest.Options{}, []string{notice, alarm}, func(t *testing.T, w *effectWorld) {
				raw := place("e1", "17", 5)
				w.targets.Faults.Add(c.fault)
				if o := w.deliver(w.instance(), raw); o.err == nil {
					t.Fatalf("got %v", o)
				}
				first := w.outputs()[0]
				w.newer(notice, alarm)
				w.acked(w.deliverUntilAcked(raw), handler.DecisionExecuted)
				r := w.task()
				if w.work.runs() != c.runs || (r.ResultRef.Object == first) != (c.runs == 0) {
					t.Errorf("%d runs of the newer version, result %s, first output %s", w.work.runs(), r.ResultRef, first)
				}
				n := w.targets.Notifications()
				if len(n) != 1 || w.row("notice", idempotency.EffectSettled).OutputRef != r.ResultRef || w.row("alarm", idempotency.EffectSettled).OutputRef != r.ResultRef {
					t.Errorf("notifications %+v, result %s", n, r.ResultRef)
				}
			})
		})
	}
}

func TestEffectsAreThoseOfTheFirstClaim(t *testing.T) {
	for name, c := range map[string]struct {
		phase cloudtest.Phase
		want  handler.Decision
	}{
		"where nothing arrived yet it is sent under the first key": {cloudtest.Before, handler.DecisionExecuted},
		// The target knows the key with another body, and says no to the copy.
		"where it did, and its body is another one now, a person looks": {cloudtest.After, handler.DecisionOutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			inEffectWorld(t, targettest.Options{}, []string{notice}, func(t *testing.T, w *effectWorld) {
				raw := place("e1", "17", 5)
				key := w.effectKeys(raw)["notice"]
				w.targets.Faults.Add(cloudtest.Fault{Op: "Notify", Phase: c.phase, Kind: cloudtest.Drop})
				w.retried(w.deliver(w.instance(), raw), idempotency.CodeTemporaryUnavailable)
				// The newer version would derive another key, and has one effect more.
				w.newer(strings.Replace(notice, "const: placed", "const: renamed", 1), alarm)
				if w.effectKeys(raw)["notice"] == key {
					t.Fatal("the newer version derives the same key")
				}
				w.acked(w.deliverUntilAcked(raw), c.want)
				r, n := w.task(), w.targets.Notifications()
				if len(r.Effects) != 1 || r.Effects[0].Key != key || w.happened() != 1 || n[0].Key != key {
					t.Errorf("effects %+v, notifications %+v", r.Effects, n)
				}
			})
		})
	}
}

func TestAnEffectThatTheNewVersionNoLongerDeclares(t *testing.T) {
	lose := cloudtest.Fault{Op: "Notify", Phase: cloudtest.After, Kind: cloudtest.Drop}
	for name, c := range map[string]struct {
		fault cloudtest.Fault
		want  handler.Decision
		state idempotency.EffectState
	}{
		"is nothing to do once it is settled": {cloudtest.Fault{Op: "Robot", Kind: cloudtest.Status, Status: 429}, handler.DecisionExecuted, idempotency.EffectSettled},
		"is a final failure before it":        {cloudtest.Fault{Op: "Notify", Kind: cloudtest.Status, Status: 429}, handler.DecisionFinal, idempotency.EffectRefused},
		"is in doubt where it was sent":       {lose, handler.DecisionOutcomeUnknown, idempotency.EffectUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			inEffectWorld(t, targettest.Options{}, []string{notice, alarm}, func(t *testing.T, w *effectWorld) {
				raw := place("e1", "17", 5)
				w.targets.Faults.Add(c.fault)
				w.deliver(w.instance(), raw)
				w.newer(alarm)
				w.acked(w.deliverUntilAcked(raw), c.want)
				w.row("notice", c.state)
				switch c.want {
				case handler.DecisionFinal:
					w.openLetter(letter.CodeTargetNotFound, raw)
				case handler.DecisionOutcomeUnknown:
					w.stands(idempotency.StatusOutcomeUnknown, 2)
					w.awaitsAPerson("notice", raw)
				}
			})
		})
	}
	t.Run("is in doubt without attempts too", func(t *testing.T) {
		inEffectWorld(t, targettest.Options{}, []string{notice}, func(t *testing.T, w *effectWorld) {
			w.budget = 1
			raw := place("e1", "17", 5)
			w.targets.Faults.Add(lose)
			w.deliver(w.instance(), raw)
			w.newer()
			w.acked(w.deliverUntilAcked(raw), handler.DecisionOutcomeUnknown)
			w.awaitsAPerson("notice", raw)
		})
	})
}

func TestAnEffectWhoseTargetIsOfAnotherKindNow(t *testing.T) {
	for name, c := range map[string]struct {
		from, op, to string
		want         handler.Decision
	}{
		"idempotent, now opaque":   {notice, "Notify", strings.Replace(alarm, "alarm", "notice", 1), handler.DecisionOutcomeUnknown},
		"opaque, now idempotent":   {alarm, "Robot", strings.Replace(notice, "notice", "alarm", 1), handler.DecisionOutcomeUnknown},
		"readable, now idempotent": {entry, "CreateRecord", strings.Replace(notice, "notice", "entry", 1), handler.DecisionOutcomeUnknown},
	} {
		t.Run(name+" is never sent twice", func(t *testing.T) {
			inEffectWorld(t, targettest.Options{}, []string{c.from}, func(t *testing.T, w *effectWorld) {
				raw := place("e1", "17", 5)
				w.targets.Faults.Hook(once(c.op, "", cloudtest.After, w.kill))
				w.deliver(w.instance(), raw)
				w.revive()
				w.newer(c.to)
				w.acked(w.deliverUntilAcked(raw), c.want)
				if w.happened() != 1 {
					t.Errorf("%d effects", w.happened())
				}
			})
		})
		t.Run(name+", after a definite no is sent as the new kind", func(t *testing.T) {
			inEffectWorld(t, targettest.Options{}, []string{c.from}, func(t *testing.T, w *effectWorld) {
				raw := place("e1", "17", 5)
				w.refuse(c.op, 429, 1)
				w.retried(w.deliver(w.instance(), raw), idempotency.CodeRateLimited)
				w.newer(c.to)
				for _, op := range []string{"Notify", "Robot"} {
					w.targets.Faults.Add(cloudtest.Fault{Op: op, Phase: cloudtest.After, Kind: cloudtest.Drop})
				}
				time.Sleep(time.Hour)
				w.deliver(w.instance(), raw)
				o := w.deliverUntilAcked(raw)
				if w.happened() != 1 || (o.Decision == handler.DecisionOutcomeUnknown) != (len(w.targets.RobotMessages()) == 1) {
					t.Errorf("%d effects, answered %v", w.happened(), o)
				}
			})
		})
	}
}

func TestADraftIsSavedOnceUnderOneName(t *testing.T) {
	inEffectWorld(t, targettest.Options{}, []string{saved}, func(t *testing.T, w *effectWorld) {
		raw := place("e1", "17", 5)
		w.work.set(func(context.Context, flows.Task) (map[string]any, error) { return map[string]any{"draft": "dear"}, nil })
		w.objects.Faults.Add(cloudtest.Fault{Op: "PutObject", Target: "/draft-", Phase: cloudtest.After, Kind: cloudtest.Drop})
		w.retried(w.deliver(w.instance(), raw), idempotency.CodeTemporaryUnavailable)
		w.acked(w.deliverUntilAcked(raw), handler.DecisionExecuted)
		names := map[string]bool{}
		for _, o := range w.objects.Objects(bucketName) {
			if strings.Contains(o.Key, "/draft-") {
				names[o.Key] = true
				if !strings.Contains(string(o.Body), `"draft":"dear"`) || o.Tags["class"] != "output" {
					t.Errorf("object %s: %s %v", o.Key, o.Body, o.Tags)
				}
			}
		}
		if row := w.row("saved", idempotency.EffectSettled); len(names) != 1 || !names[row.TargetRecordID] {
			t.Errorf("objects %v, row %+v", names, row)
		}
	})
}
