package handler_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/flows/targettest"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// lostWay is one way in which nobody learns of an effect's answer.
type lostWay struct {
	name string
	plan func(w *effectWorld, op, effectKey string)
	// recovers says that the run finds out by itself, without another attempt.
	recovers bool
}

func atTarget(f cloudtest.Fault) func(*effectWorld, string, string) {
	return func(w *effectWorld, op, _ string) {
		f.Op = op
		w.targets.Faults.Add(f)
	}
}

func atSettle(f cloudtest.Fault) func(*effectWorld, string, string) {
	return func(w *effectWorld, _, key string) {
		f.Op, f.Target = "UpdateRow", key
		w.tables.Faults.Add(f)
	}
}

var lostWays = []lostWay{
	{"cut before the effect", atTarget(cloudtest.Fault{Phase: cloudtest.Before, Kind: cloudtest.Drop}), false},
	{"cut after the effect", atTarget(cloudtest.Fault{Phase: cloudtest.After, Kind: cloudtest.Drop}), false},
	{"answer truncated", atTarget(cloudtest.Fault{Phase: cloudtest.After, Kind: cloudtest.Truncate}), false},
	{"time-out before the effect", atTarget(cloudtest.Fault{Phase: cloudtest.Before, Kind: cloudtest.Delay, Delay: time.Minute}), false},
	{"time-out after the effect", atTarget(cloudtest.Fault{Phase: cloudtest.After, Kind: cloudtest.Delay, Delay: time.Minute}), false},
	{"503 without the effect", atTarget(cloudtest.Fault{Phase: cloudtest.Before, Kind: cloudtest.Status, Status: 503}), false},
	{"503 after the effect", atTarget(cloudtest.Fault{Phase: cloudtest.After, Kind: cloudtest.Status, Status: 503}), false},
	{"408 after the effect", atTarget(cloudtest.Fault{Phase: cloudtest.After, Kind: cloudtest.Status, Status: 408}), false},
	{"process gone between SENT and the request", func(w *effectWorld, _, key string) {
		w.onTables(once("PutRow", key, cloudtest.After, w.kill))
	}, false},
	{"process gone between the request and the settle", func(w *effectWorld, op, _ string) {
		w.targets.Faults.Hook(once(op, "", cloudtest.After, w.kill))
	}, false},
	{"settle never stored", atSettle(cloudtest.Fault{Phase: cloudtest.Before, Kind: cloudtest.Drop, Times: 3}), false},
	{"settle dropped once", atSettle(cloudtest.Fault{Phase: cloudtest.Before, Kind: cloudtest.Drop}), true},
	{"answer of the settle lost", atSettle(cloudtest.Fault{Phase: cloudtest.After, Kind: cloudtest.Drop}), true},
}

func TestS30_AnEffectWhoseAnswerIsLostHappensOnce(t *testing.T) {
	for kind, k := range kinds {
		for _, way := range lostWays {
			t.Run(fmt.Sprintf("%s, %s", kind, way.name), func(t *testing.T) {
				inEffectWorld(t, targettest.Options{VisibleAfter: 50 * time.Second, ConflictAfterVisible: true}, []string{k.effect}, func(t *testing.T, w *effectWorld) {
					raw := place("e1", "17", 5)
					var name, key string
					for name, key = range w.effectKeys(raw) {
						way.plan(w, k.op, key)
					}
					o := w.deliver(w.instance(), raw)
					if way.recovers {
						w.acked(o, handler.DecisionExecuted)
					} else if o.err == nil && o.Decision != handler.DecisionOutcomeUnknown {
						t.Fatalf("got %v", o)
					}
					if o.err != nil {
						w.revive()
					}
					o = w.deliverUntilAcked(raw)
					for range 3 {
						time.Sleep(48 * time.Hour)
						again := w.deliver(w.instance(), raw)
						if again.err != nil || again.Status != o.Status {
							t.Errorf("then %v after %v", again, o)
						}
					}
					if kind == idempotency.TargetOpaque && !way.recovers {
						w.awaitsAPerson(name, raw)
						if w.happened() > 1 || w.targets.Faults.Calls()["Robot"] > 1 {
							t.Errorf("%d messages, calls %v", w.happened(), w.targets.Faults.Calls())
						}
						return
					}
					row := w.row(name, idempotency.EffectSettled)
					r := w.task()
					if r.Status != idempotency.StatusSucceeded || w.happened() != 1 || w.work.runs() != 1 || len(w.outputs()) != 1 {
						t.Errorf("%s, %d effects, %d runs, outputs %v", r.Status, w.happened(), w.work.runs(), w.outputs())
					}
					if kind != idempotency.TargetOpaque && (row.TargetRecordID == "" || r.Effects[0].TargetRecordID != row.TargetRecordID) {
						t.Errorf("number %q, the task has %+v", row.TargetRecordID, r.Effects)
					}
				})
			})
		}
	}
}

// awaitsAPerson fails the test unless an effect is in doubt, with its question.
func (w *effectWorld) awaitsAPerson(name string, raw []byte) idempotency.Review {
	w.t.Helper()
	row := w.row(name, idempotency.EffectUnknown)
	r := w.task()
	if r.Status != idempotency.StatusOutcomeUnknown || !r.LeaseUntil.IsZero() || len(w.reviews()) != 1 {
		w.t.Fatalf("task %+v, %d reviews", r, len(w.reviews()))
	}
	w.openLetter(letter.CodeOutcomeUnknown, raw)
	v := w.openReview()
	if v.Kind != idempotency.ReviewOutcome || v.EffectKey != row.Key || v.EffectName != name || v.Attempt != row.Attempt || v.Key != r.Key ||
		v.Assignee != "order-team" || v.ID != idempotency.OutcomeID(row.Key, row.Attempt) || row.Outcome != idempotency.OutcomeAwaitingReview {
		w.t.Fatalf("review %+v of %+v", v, row)
	}
	return v
}

func TestS31_ATargetThatHasItAlreadyIsSuccess(t *testing.T) {
	someoneElse := func(w *effectWorld) {
		body := strings.NewReader(`{"number":"R-17"}`)
		req, err := http.NewRequestWithContext(w.t.Context(), http.MethodPost, "http://target.example/records", body)
		must(w.t, err)
		req.Header.Set("Authorization", "Bearer "+targetToken)
		resp, err := w.targets.Transport().RoundTrip(req)
		must(w.t, err)
		must(w.t, resp.Body.Close())
	}
	for name, c := range map[string]struct {
		prepare func(w *effectWorld)
		writes  int
	}{
		"as the look-up before the write shows": {someoneElse, 1},
		"as the write itself is told": {func(w *effectWorld) {
			w.targets.Faults.Hook(once("FindRecord", "", cloudtest.After, func() { someoneElse(w) }))
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			inEffectWorld(t, targettest.Options{}, []string{entry}, func(t *testing.T, w *effectWorld) {
				c.prepare(w)
				w.acked(w.deliver(w.instance(), place("e1", "17", 5)), handler.DecisionExecuted)
				row, all := w.row("entry", idempotency.EffectSettled), w.targets.Records()
				if len(all) != 1 || row.TargetRecordID != all[0].ID || row.Outcome != idempotency.OutcomeTargetExists {
					t.Errorf("row %+v, records %+v", row, all)
				}
				if n := w.targets.Faults.Calls()["CreateRecord"]; n != c.writes {
					t.Errorf("%d writes, want %d", n, c.writes)
				}
				w.stands(idempotency.StatusSucceeded, 1)
			})
		})
	}
}

func TestS32_EveryAttemptSendsOneKey(t *testing.T) {
	inEffectWorld(t, targettest.Options{}, []string{notice, alarm, entry}, func(t *testing.T, w *effectWorld) {
		raw := place("e1", "17", 5)
		keys := w.effectKeys(raw)
		var sent []string
		w.targets.Faults.Hook(func(c cloudtest.Call, p cloudtest.Phase) {
			if c.Op == "Notify" && p == cloudtest.Before {
				sent = append(sent, c.Target)
			}
		})
		w.targets.Faults.Add(cloudtest.Fault{Op: "Notify", Phase: cloudtest.After, Kind: cloudtest.Drop, Times: 2})
		for i := range 3 {
			w.deliver(w.instance(), place(fmt.Sprint("e", i), "17", 5))
			time.Sleep(time.Hour)
		}
		if !slices.Equal(sent, []string{keys["notice"], keys["notice"], keys["notice"]}) {
			t.Errorf("sent keys %v, want %s each time", sent, keys["notice"])
		}
		if n := w.targets.Notifications(); len(n) != 1 || n[0].Count != 3 {
			t.Errorf("notifications %+v", n)
		}
		if r := w.targets.Records(); len(r) != 1 || r[0].Key != keys["entry"] {
			t.Errorf("records %+v", r)
		}
		if r := w.targets.RobotMessages(); len(r) != 1 || r[0].Key != "" {
			t.Errorf("messages %+v", r)
		}
		w.stands(idempotency.StatusSucceeded, 3)
	})
}

func TestADoubtSurvivesADeathAfterEachOfItsWrites(t *testing.T) {
	for _, budget := range []int{6, 1} {
		for name, write := range map[string]struct{ op, table string }{
			"the effect": {"UpdateRow", "effect"}, "the review": {"PutRow", idempotency.ReviewTable.Name},
			"the letter": {"PutRow", letter.LetterTable.Name}, "the task": {"UpdateRow", "task"},
		} {
			t.Run(fmt.Sprintf("%s, with %d attempts", name, budget), func(t *testing.T) {
				inEffectWorld(t, targettest.Options{}, []string{alarm}, func(_ *testing.T, w *effectWorld) {
					w.budget = budget
					raw := place("e1", "17", 5)
					key := w.effectKeys(raw)["alarm"]
					w.targets.Faults.Hook(once("Robot", "", cloudtest.After, w.kill))
					w.deliver(w.instance(), raw)
					w.revive()
					target := map[string]string{"effect": key, "task": w.task().Key}[write.table]
					if target == "" {
						target = write.table
					}
					skip := write.table == "task" && budget > 1 // the takeover
					w.onTables(func(c cloudtest.Call, p cloudtest.Phase) {
						if c.Op != write.op || !strings.Contains(c.Target, target) || p != cloudtest.After {
							return
						}
						if skip {
							skip = false
							return
						}
						target = "no target"
						w.kill()
					})
					w.deliver(w.instance(), raw)
					w.revive()
					w.acked(w.deliverUntilAcked(raw), handler.DecisionOutcomeUnknown)
					w.awaitsAPerson("alarm", raw)
				})
			})
		}
	}
}
