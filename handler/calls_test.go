package handler_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestEachVerdictCostsItsCallsAndNoMore(t *testing.T) {
	type calls = map[string]int
	raw := note("e1", "n1", "hello")
	for _, c := range []struct {
		name           string
		prepare        func(w *world) *handler.Handler
		again          bool
		tables, object calls
		model          int
	}{
		{"fresh", func(w *world) *handler.Handler { return w.instance() }, false, calls{"PutRow": 1, "UpdateRow": 1}, calls{"PutObject": 2}, 1},
		{"fresh, said to be a retry", func(w *world) *handler.Handler { return w.instance() }, true, calls{"GetRow": 1, "PutRow": 1, "UpdateRow": 1}, calls{"PutObject": 2}, 1},
		{"finished duplicate, warm", func(w *world) *handler.Handler {
			h := w.instance()
			w.acked(w.deliver(h, raw), handler.DecisionExecuted)
			return h
		}, false, nil, nil, 0},
		{"finished duplicate, warm, said to be a retry", func(w *world) *handler.Handler {
			h := w.instance()
			w.acked(w.deliver(h, raw), handler.DecisionExecuted)
			return h
		}, true, nil, nil, 0},
		{"finished duplicate, warm by a duplicate", func(w *world) *handler.Handler {
			w.acked(w.deliver(w.instance(), raw), handler.DecisionExecuted)
			h := w.instance()
			w.acked(w.deliver(h, raw), handler.DecisionDuplicate)
			return h
		}, false, nil, nil, 0},
		{"finished duplicate, cold", func(w *world) *handler.Handler {
			w.acked(w.deliver(w.instance(), raw), handler.DecisionExecuted)
			return w.instance()
		}, false, calls{"PutRow": 1, "GetRow": 1}, nil, 0},
		{"finished duplicate, cold, said to be a retry", func(w *world) *handler.Handler {
			w.acked(w.deliver(w.instance(), raw), handler.DecisionExecuted)
			return w.instance()
		}, true, calls{"GetRow": 1}, nil, 0},
		{"in progress", func(w *world) *handler.Handler { w.seed(raw, nil); return w.instance() }, false, calls{"PutRow": 1, "GetRow": 1}, nil, 0},
		{"in progress, said to be a retry", func(w *world) *handler.Handler { w.seed(raw, nil); return w.instance() }, true, calls{"GetRow": 1}, nil, 0},
		{"takeover, said to be a retry", func(w *world) *handler.Handler {
			w.seed(raw, nil)
			time.Sleep(time.Hour)
			return w.instance()
		}, true, calls{"GetRow": 1, "UpdateRow": 2}, calls{"ListObjects": 1, "PutObject": 2}, 1},
		{"conflict", func(w *world) *handler.Handler {
			w.seed(note("e0", "n1", "other"), nil)
			return w.instance()
		}, false, calls{"PutRow": 3, "GetRow": 1}, calls{"PutObject": 1}, 0},
		{"flow off", func(w *world) *handler.Handler { return w.instance(off) }, false, calls{"GetRow": 1, "PutRow": 2}, calls{"PutObject": 1}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				h := c.prepare(w)
				w.tables.Faults.ResetCalls()
				w.objects.Faults.ResetCalls()
				model := w.model.Calls()
				if c.again {
					w.again(h, raw)
				} else {
					w.deliver(h, raw)
				}
				objects := w.objects.Faults.Calls()
				for op, n := range objects { // the service has two ways to list
					if strings.HasPrefix(op, "ListObjects") {
						delete(objects, op)
						objects["ListObjects"] = n
					}
				}
				if got := w.tables.Faults.Calls(); !maps.Equal(got, c.tables) || !maps.Equal(objects, c.object) || w.model.Calls()-model != c.model {
					t.Errorf("got %v %v and %d model calls, want %v %v and %d", got, objects, w.model.Calls()-model, c.tables, c.object, c.model)
				}
			})
		})
	}
}

func TestTheInputIsOffTheCriticalPath(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		called := make(chan struct{})
		w.work.set(func(context.Context, flows.Task) (map[string]any, error) {
			close(called)
			return map[string]any{"a": 1}, nil
		})
		w.onObjects(once("PutObject", "/input.json", cloudtest.Before, func() { <-called }))
		began := time.Now()
		w.acked(w.deliver(w.instance(), order("e1", "17", 5)), handler.DecisionExecuted)
		if took := time.Since(began); took != 0 {
			t.Errorf("the work waited %s for input.json", took)
		}
	})
}

func TestSettlingWaitsForTheInput(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		release := make(chan struct{})
		w.onObjects(once("PutObject", "/input.json", cloudtest.Before, func() { <-release }))
		done := w.start(func() outcome { return w.deliver(w.instance(), order("e1", "17", 5)) })
		synctest.Wait()
		w.stands(idempotency.StatusRunning, 1)
		if len(w.outputs()) != 1 {
			t.Errorf("outputs %v", w.outputs())
		}
		close(release)
		w.acked(<-done, handler.DecisionExecuted)
		w.stands(idempotency.StatusSucceeded, 1)
	})
}

func TestARecordSucceedsOnlyAfterItsObjectsAreStored(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var mu sync.Mutex
		var steps []string
		watch := func(c cloudtest.Call, p cloudtest.Phase) {
			mu.Lock()
			defer mu.Unlock()
			name := c.Target[strings.LastIndex(c.Target, "/")+1:]
			switch {
			case c.Op == "PutObject" && p == cloudtest.After:
				steps = append(steps, "stored "+name)
			case c.Op == "UpdateRow" && p == cloudtest.Before:
				steps = append(steps, "settling")
			}
		}
		w.onTables(watch)
		w.onObjects(watch)
		w.acked(w.deliver(w.instance(), order("e1", "17", 5)), handler.DecisionExecuted)
		slices.Sort(steps[:2])
		if !slices.Equal(steps, []string{"stored input.json", "stored output.json", "settling"}) {
			t.Errorf("the order is %v", steps)
		}
	})
}

func TestALetterComesBeforeTheRecordThatItExplains(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var steps []string
		w.onTables(func(c cloudtest.Call, p cloudtest.Phase) {
			if p == cloudtest.After && c.Op != "GetRow" && c.Op != "GetRange" {
				table, _, _ := strings.Cut(c.Target, "/")
				steps = append(steps, c.Op+" "+table)
			}
		})
		w.work.set(failing(idempotency.Failure{Code: idempotency.CodePermissionDenied, Target: "model:m"}))
		w.acked(w.deliver(w.instance(), order("e1", "17", 5)), handler.DecisionFinal)
		if want := []string{"PutRow task_records", "PutRow dead_letters", "UpdateRow task_records"}; !slices.Equal(steps, want) {
			t.Errorf("steps %v, want %v", steps, want)
		}
		steps = nil
		w.seed(order("e2", "18", 5), func(r *idempotency.Record) { r.Attempt = 3 })
		time.Sleep(time.Hour)
		steps = nil
		w.acked(w.again(w.instance(), order("e2", "18", 5)), handler.DecisionFinal)
		if want := []string{"PutRow dead_letters", "UpdateRow task_records"}; !slices.Equal(steps, want) {
			t.Errorf("steps %v, want %v", steps, want)
		}
	})
}

func TestEveryTransitionIsOneStepOfHistoryAndOneLogLine(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		raw, h := order("e1", "17", 5), w.instance()
		w.acked(w.deliver(w.instance(off), raw), handler.DecisionParked)
		w.work.set(failing(unavailable))
		w.retried(w.deliver(h, raw), unavailable.Code)
		time.Sleep(time.Hour)
		w.work.set(nil)
		w.acked(w.deliver(h, raw), handler.DecisionExecuted)
		w.acked(w.deliver(h, raw), handler.DecisionDuplicate)
		want := []string{"RECEIVED", "RUNNING", "FAILED_RETRYABLE", "RUNNING", "SUCCEEDED"}
		var history, logged []string
		r := w.record()
		for i, s := range r.History {
			history = append(history, string(s.Status))
			if s.Revision != int64(i)+1 || s.At == 0 || s.Actor == "" || strings.Contains(s.Actor, r.Owner) {
				t.Errorf("step %+v", s)
			}
		}
		lines := strings.Split(strings.TrimSpace(w.logs.String()), "\n")
		for _, line := range lines {
			var l struct{ Msg, Status string }
			must(t, json.Unmarshal([]byte(line), &l))
			if l.Msg == "transition" {
				logged = append(logged, l.Status)
			}
		}
		if !slices.Equal(history, want) || !slices.Equal(logged, want) {
			t.Errorf("history %v, logged %v, want %v", history, logged, want)
		}
		if n := strings.Count(w.logs.String(), `"msg":"delivery"`); n != 4 {
			t.Errorf("%d lines of 4 deliveries", n)
		}
	})
}
