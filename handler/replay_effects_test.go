package handler_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/flows/targettest"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// migrated is the call that replays a child in its parent's place; the parent's
// letter is closed.
func (w *effectWorld) migrated(parent, child []byte) plan.Envelope {
	w.t.Helper()
	set := w.flows(w.text(), nil)
	l := w.leave(set, child)
	e := w.approved(child, l)
	if !e.Item.Migrated() {
		w.t.Fatalf("the item %+v migrates nothing", e.Item)
	}
	source, id, _, digest := w.identity(set, parent)
	must(w.t, letter.NewTable(w.store).Close(w.ctx(), letter.ID(source, id, digest), letter.FinalMigrated, "li", "repaired", time.Now()))
	return e
}

func TestS44_AMigratedChildOpensTheTaskAndTheParentIsASighting(t *testing.T) {
	for name, fault := range map[string]cloudtest.Fault{
		"before any effect": {},
		"by an effect's no": {Op: "Notify", Kind: cloudtest.Status, Status: 400},
	} {
		t.Run(name, func(t *testing.T) {
			inEffectWorld(t, targettest.Options{}, []string{notice}, func(t *testing.T, w *effectWorld) {
				parent, child := place("e1", "17", 500), place("e1-child", "17", 5)
				if fault.Op == "" {
					w.work.set(failing(denied))
				}
				w.targets.Faults.Add(fault)
				w.acked(w.deliver(w.instance(), parent), handler.DecisionFinal)
				w.targets.Faults.Clear()
				w.work.set(nil)
				before := w.task()
				e := w.migrated(parent, child)
				w.acked(w.call(w.instance(), e), handler.DecisionExecuted)
				r := w.stands(idempotency.StatusSucceeded, 2)
				if r.InputDigest != e.Item.InputDigest || strings.Join(r.SupersededDigests, ",") != before.InputDigest || r.ReplayBatchID != e.Batch || r.EventID != "e1-child" {
					t.Errorf("task %+v", r)
				}
				var body struct {
					Event json.RawMessage `json:"event"`
				}
				input, ok := w.object("tasks/" + r.Key + "/attempt-002/input.json")
				if err := json.Unmarshal(input, &body); !ok || err != nil || string(body.Event) != string(child) {
					t.Errorf("the child's input is %s", input)
				}
				runs, letters := w.work.runs(), len(w.letters())
				for range 2 {
					time.Sleep(time.Hour)
					o := w.deliver(w.instance(), parent)
					w.acked(o, handler.DecisionConflict)
					if l := w.letterByID(o.LetterID); l.FinalStatus != letter.FinalMigrated || o.ResultRef != "" {
						t.Errorf("the parent's letter %+v, answered %v", l, o)
					}
				}
				w.acked(w.call(w.instance(), e), handler.DecisionDuplicate)
				if w.happened() != 1 || w.work.runs() != runs || len(w.letters()) != letters || len(w.reviews()) != 0 {
					t.Errorf("%d effects, %d runs, letters %+v, %d reviews", w.happened(), w.work.runs(), w.letters(), len(w.reviews()))
				}
			})
		})
	}
}

func TestAMigratedChildIsRefusedOnceAnythingMayHaveHappened(t *testing.T) {
	parent, child := place("e1", "17", 500), place("e2", "17", 5)
	for name, c := range map[string]struct {
		effects []string
		prepare func(w *effectWorld)
		why     string
	}{
		"an effect is SENT": {[]string{notice}, func(w *effectWorld) {
			w.targets.Faults.Add(cloudtest.Fault{Op: "Notify", Kind: cloudtest.Drop})
			w.deliver(w.instance(), parent)
			time.Sleep(time.Hour)
		}, "of the old input may have happened"},
		"an effect is SENT, and the task has not heard of it": {[]string{notice}, func(w *effectWorld) {
			w.targets.Faults.Hook(once("Notify", "", cloudtest.After, w.kill))
			w.deliver(w.instance(), parent)
			w.revive()
		}, "effect notice of the old input may have happened"},
		"an effect is SETTLED": {[]string{notice, alarm}, func(w *effectWorld) {
			w.refuse("Robot", 400, 1)
			w.acked(w.deliver(w.instance(), parent), handler.DecisionFinal)
		}, "of the old input may have happened"},
		"a lease lives": {nil, func(w *effectWorld) {
			w.onObjects(once("PutObject", "/output.json", cloudtest.Before, func() { w.held.Revoke(w.cred.AccessKeyID) }))
			w.deliver(w.instance(), parent)
			w.cred = w.held.Issue(time.Time{})
		}, "holds the lease"},
	} {
		t.Run(name, func(t *testing.T) {
			inEffectWorld(t, targettest.Options{}, c.effects, func(_ *testing.T, w *effectWorld) {
				c.prepare(w)
				e := w.migrated(parent, child)
				w.unchanged(func() outcome { return w.call(w.instance(), e) }, handler.DecisionReplayRefused, c.why)
			})
		})
	}
}

func TestAMigrationFencesTheEffectsOfADeadRun(t *testing.T) {
	inEffectWorld(t, targettest.Options{}, []string{notice}, func(t *testing.T, w *effectWorld) {
		parent, child := place("e1", "17", 500), place("e2", "17", 5)
		w.work.set(func(context.Context, flows.Task) (map[string]any, error) {
			w.kill()
			return map[string]any{"a": 1}, nil
		})
		w.deliver(w.instance(), parent)
		w.work.set(nil)
		w.revive()
		e := w.migrated(parent, child)
		fenced := false
		w.onTables(once("UpdateRow", e.Item.Key, cloudtest.Before, func() {
			row := w.row("notice", idempotency.EffectRefused)
			fenced = row.Revision == 1 && row.Outcome == idempotency.OutcomeConfirmedRetryable
		}))
		w.acked(w.call(w.instance(), e), handler.DecisionExecuted)
		if !fenced || w.happened() != 1 {
			t.Errorf("fenced before the task was opened: %v; %d effects", fenced, w.happened())
		}
	})
}

// Each target's effect happens once at most whatever call of a replay is the last
// one of its process, or loses its answer; a redelivery or another plan goes on.
func TestARunThatDiesAtAnyCallOfAReplayRunsNothingTwice(t *testing.T) {
	raw, child := place("e1", "17", 500), place("e2", "17", 5)
	for kind, target := range kinds {
		for _, migrate := range []bool{false, true} {
			prepare := func(w *effectWorld) (plan.Envelope, []byte) {
				w.work.set(failing(denied))
				w.acked(w.deliver(w.instance(), raw), handler.DecisionFinal)
				w.work.set(nil)
				if migrate {
					return w.migrated(raw, child), child
				}
				return w.approved(raw, w.leave(w.flows(w.text(), nil), raw)), raw
			}
			var counts [3]int
			inEffectWorld(t, targettest.Options{}, []string{target.effect}, func(_ *testing.T, w *effectWorld) {
				e, _ := prepare(w)
				all := []*cloudtest.Faults{w.tables.Faults, w.objects.Faults, w.targets.Faults}
				for _, f := range all {
					f.ResetCalls()
				}
				w.acked(w.call(w.instance(), e), handler.DecisionExecuted)
				for n, f := range all {
					for _, calls := range f.Calls() {
						counts[n] += calls
					}
				}
			})
			if counts[0] < 7 || counts[1] < 2 || counts[2] < 1 {
				t.Fatalf("a replay makes %v calls", counts)
			}
			for n, service := range []string{"tablestore", "oss", "target"} {
				for nth := range counts[n] {
					for _, phase := range []cloudtest.Phase{cloudtest.Before, cloudtest.After} {
						for _, dies := range []bool{true, false} {
							t.Run(fmt.Sprintf("%s, migrated %v, %s call %d, %s its effect, dies %v", kind, migrate, service, nth+1, phase, dies), func(t *testing.T) {
								inEffectWorld(t, targettest.Options{}, []string{target.effect}, func(t *testing.T, w *effectWorld) {
									e, now := prepare(w)
									strike := func(f *cloudtest.Faults, hook func(func(cloudtest.Call, cloudtest.Phase))) {
										if !dies {
											f.Add(cloudtest.Fault{Skip: nth, Phase: phase, Kind: cloudtest.Drop})
											return
										}
										f.ResetCalls()
										done := false
										hook(func(c cloudtest.Call, p cloudtest.Phase) {
											if c.Seq == nth+1 && p == phase && !done {
												done = true
												f.Add(cloudtest.Fault{Phase: phase, Kind: cloudtest.Drop})
												w.kill()
											}
										})
									}
									switch service {
									case "tablestore":
										strike(w.tables.Faults, w.onTables)
									case "oss":
										strike(w.objects.Faults, w.onObjects)
									default:
										strike(w.targets.Faults, w.targets.Faults.Hook)
									}
									w.call(w.instance(), e)
									for _, f := range []*cloudtest.Faults{w.tables.Faults, w.objects.Faults, w.targets.Faults} {
										f.Clear()
									}
									w.revive()
									w.call(w.instance(), e) // the sender's second copy, if it sends one
									w.endsOnce(now, e)
								})
							})
						}
					}
				}
			}
		}
	}
}

// endsOnce brings a replayed task to its end, with redeliveries, a person and one
// more plan, and checks that its effect has happened once.
func (w *effectWorld) endsOnce(raw []byte, e plan.Envelope) {
	w.t.Helper()
	for round := range 3 {
		if w.task().Status == idempotency.StatusSucceeded {
			break
		}
		time.Sleep(2 * time.Hour)
		if w.task().Status == idempotency.StatusOutcomeUnknown {
			v := w.openReview()
			as := idempotency.ResolvedNotDone
			if w.happened() > 0 {
				as = idempotency.ResolvedDone
			}
			w.answer(v, as, "seen-1")
			w.resolved(v.ID)
		}
		if round == 0 && w.task().Revision == e.Item.RecordRevision {
			w.call(w.instance(), e)
			continue
		}
		w.deliver(w.instance(), raw)
	}
	if r := w.task(); r.Status != idempotency.StatusSucceeded || r.InputDigest != e.Item.InputDigest || r.ReplayBatchID != e.Batch {
		w.t.Errorf("the task is %+v\n%s", r, w.logs)
	}
	if w.happened() != 1 {
		w.t.Errorf("the effect has happened %d times\n%s", w.happened(), w.logs)
	}
}
