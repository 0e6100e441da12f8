package handler_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/flows/targettest"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestAnIdempotentEffectCostsTwoWritesAndNoRead(t *testing.T) {
	for name, c := range map[string]struct {
		effects []string
		want    map[string]int
	}{
		"none":  {nil, map[string]int{"PutRow": 1, "UpdateRow": 1}},
		"one":   {[]string{notice}, map[string]int{"PutRow": 2, "UpdateRow": 2}},
		"three": {[]string{notice, alarm, entry}, map[string]int{"PutRow": 4, "UpdateRow": 4}},
	} {
		t.Run(name, func(t *testing.T) {
			inEffectWorld(t, targettest.Options{}, c.effects, func(t *testing.T, w *effectWorld) {
				w.acked(w.deliver(w.instance(), place("e1", "17", 5)), handler.DecisionExecuted)
				if got := w.tables.Faults.Calls(); !maps.Equal(got, c.want) {
					t.Errorf("got %v, want %v", got, c.want)
				}
				if w.happened() != len(c.effects) {
					t.Errorf("%d effects", w.happened())
				}
			})
		})
	}
}

func TestEachStepIsStoredBeforeTheNext(t *testing.T) {
	inEffectWorld(t, targettest.Options{}, []string{notice, entry, alarm}, func(t *testing.T, w *effectWorld) {
		raw := place("e1", "17", 5)
		names := map[string]string{}
		for name, key := range w.effectKeys(raw) {
			names[key] = name
		}
		var mu sync.Mutex
		var steps []string
		note := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			steps = append(steps, fmt.Sprintf(format, args...))
		}
		w.onObjects(func(c cloudtest.Call, p cloudtest.Phase) {
			if c.Op == "PutObject" && p == cloudtest.After && strings.HasSuffix(c.Target, "/output.json") {
				note("output stored")
			}
		})
		w.onTables(func(c cloudtest.Call, p cloudtest.Phase) {
			_, key, _ := strings.Cut(c.Target, "/")
			switch {
			case p == cloudtest.After && names[key] != "":
				note("%s %s", c.Op, names[key])
			case p == cloudtest.Before && c.Op == "UpdateRow":
				note("task settling")
			}
		})
		w.targets.Faults.Hook(func(c cloudtest.Call, p cloudtest.Phase) {
			if p == cloudtest.Before {
				note("%s", c.Op)
			}
		})
		w.acked(w.deliver(w.instance(), raw), handler.DecisionExecuted)
		steps = slices.DeleteFunc(steps, func(s string) bool { return s == "task settling" })
		want := []string{
			"output stored", "PutRow notice", "Notify", "UpdateRow notice",
			"PutRow entry", "FindRecord", "CreateRecord", "FindRecord", "UpdateRow entry", "PutRow alarm", "Robot", "UpdateRow alarm",
		}
		if !slices.Equal(steps, want) {
			t.Errorf("the order is\n%v, want\n%v", steps, want)
		}
		if r := w.task(); r.History[len(r.History)-1].Status != idempotency.StatusSucceeded || len(r.History) != 2 {
			t.Errorf("history %+v", r.History)
		}
	})
}

func TestS33_AnEffectThatCouldOutliveItsRunIsNotStarted(t *testing.T) {
	for took, want := range map[time.Duration]bool{0: true, 48 * time.Second: true, 49 * time.Second: true, 49*time.Second + time.Millisecond: false, 53 * time.Second: false} {
		t.Run(fmt.Sprintf("after work of %s", took), func(t *testing.T) {
			// Of a minute the work has 54 s, and the effect may take 5.
			inEffectWorld(t, targettest.Options{}, []string{alarm}, func(t *testing.T, w *effectWorld) {
				w.work.set(func(context.Context, flows.Task) (map[string]any, error) {
					time.Sleep(took)
					return map[string]any{"a": 1}, nil
				})
				raw := place("e1", "17", 5)
				o := w.deliver(w.instance(), raw)
				if want {
					w.acked(o, handler.DecisionExecuted)
					return
				}
				w.retried(o, idempotency.CodeTimeout)
				w.row("alarm", "")
				if w.happened() != 0 || w.stands(idempotency.StatusFailedRetryable, 1).LastErrorTarget != "effect:alarm" {
					t.Errorf("%d messages", w.happened())
				}
				// The output is there, so the next attempt has time.
				w.acked(w.deliverUntilAcked(raw), handler.DecisionExecuted)
				if w.happened() != 1 || w.work.runs() != 1 {
					t.Errorf("%d messages, %d runs", w.happened(), w.work.runs())
				}
			})
		})
	}
}

func TestS33_ARequestIsOverWhenItsRowSays(t *testing.T) {
	// Whoever looks it up counts from sent_at: neither a slow store nor a slow
	// look-up may put the request off beyond the effect's time-out.
	for name, slow := range map[string]func(w *effectWorld, key string){
		"a slow store": func(w *effectWorld, key string) {
			w.tables.Faults.Add(cloudtest.Fault{Op: "PutRow", Target: key, Phase: cloudtest.After, Kind: cloudtest.Delay, Delay: 6 * time.Second})
		},
		"a slow look-up": func(w *effectWorld, _ string) {
			w.targets.Faults.Add(
				cloudtest.Fault{Op: "FindRecord", Kind: cloudtest.Delay, Delay: 4 * time.Second},
				cloudtest.Fault{Op: "CreateRecord", Kind: cloudtest.Delay, Delay: 4 * time.Second})
		},
	} {
		t.Run(name, func(t *testing.T) {
			inEffectWorld(t, targettest.Options{}, []string{entry}, func(t *testing.T, w *effectWorld) {
				raw := place("e1", "17", 5)
				slow(w, w.effectKeys(raw)["entry"])
				began := time.Now()
				w.targets.Faults.Hook(func(c cloudtest.Call, p cloudtest.Phase) {
					if late := time.Since(began); c.Op == "CreateRecord" && p == cloudtest.After && late > 5*time.Second && late < time.Minute {
						t.Errorf("the record is made %s after sent_at", late)
					}
				})
				if o := w.deliver(w.instance(), raw); o.err == nil {
					t.Errorf("got %v", o)
				}
				time.Sleep(time.Hour)
				w.acked(w.deliverUntilAcked(raw), handler.DecisionExecuted)
				if w.happened() != 1 {
					t.Errorf("%d records", w.happened())
				}
			})
		})
	}
}

func TestS33_AStaleOwnerSendsNothingThatTheNewOneSends(t *testing.T) {
	for kind, k := range kinds {
		t.Run(string(kind), func(t *testing.T) {
			inEffectWorld(t, targettest.Options{}, []string{k.effect}, func(t *testing.T, w *effectWorld) {
				raw := place("e1", "17", 5)
				frozen := make(chan struct{})
				w.work.set(func(_ context.Context, task flows.Task) (map[string]any, error) {
					if task.Attempt == 1 {
						<-frozen // whatever its context says
					}
					return map[string]any{"a": 1}, nil
				})
				first := w.start(func() outcome { return w.deliver(w.instance(), raw) })
				time.Sleep(timeLimit + policy.Margin + time.Second)
				w.acked(w.deliver(w.instance(), raw), handler.DecisionExecuted)
				close(frozen)
				<-first
				if r := w.stands(idempotency.StatusSucceeded, 2); w.happened() != 1 {
					t.Errorf("%d effects, %+v", w.happened(), r)
				}
			})
		})
	}
	t.Run("nor settles what the new one has written", func(t *testing.T) {
		inEffectWorld(t, targettest.Options{}, []string{alarm}, func(t *testing.T, w *effectWorld) {
			raw := place("e1", "17", 5)
			w.targets.Faults.Hook(once("Robot", "", cloudtest.After, func() {
				r := w.task()
				must(t, w.store.Update(w.ctx(), idempotency.TaskTable, r.Key,
					aliyun.Row{"owner": "another-owner-of-it", "attempt": int64(2), "revision": r.Revision + 1}, r.Revision))
				_, err := idempotency.NewLedger(w.store, policy).Doubt(w.ctx(), w.row("alarm", idempotency.EffectSent), "another-owner-of-it", time.Now())
				must(t, err)
			}))
			w.retried(w.deliver(w.instance(), raw), idempotency.CodeInProgress)
			w.row("alarm", idempotency.EffectUnknown)
			if r := w.stands(idempotency.StatusRunning, 2); r.Effects[0].State != "" {
				t.Errorf("the stale owner wrote %+v", r.Effects)
			}
			if w.happened() != 1 {
				t.Errorf("%d messages", w.happened())
			}
		})
	})
}
