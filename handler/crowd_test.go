package handler_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestOfTwoHundredConcurrentDeliveriesOneRuns(t *testing.T) {
	for name, prepare := range map[string]func(w *world, raw []byte){
		"of a fresh event": func(*world, []byte) {},
		"of an expired run": func(w *world, raw []byte) {
			w.seed(raw, nil)
			time.Sleep(time.Hour)
		},
		"of a failed run": func(w *world, raw []byte) {
			w.seed(raw, inStatus(idempotency.StatusFailedRetryable))
		},
		"of a parked event": func(w *world, raw []byte) {
			w.seed(raw, inStatus(idempotency.StatusReceived))
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				raw := order("e1", "17", 5)
				prepare(w, raw)
				w.work.set(func(context.Context, flows.Task) (map[string]any, error) {
					time.Sleep(100 * time.Millisecond)
					return map[string]any{"a": 1}, nil
				})
				instances := []*handler.Handler{w.instance(), w.instance(), w.instance(), w.instance()}
				var all []<-chan outcome
				for i := range 200 {
					h := instances[i%len(instances)]
					all = append(all, w.start(func() outcome {
						time.Sleep(time.Duration(i/50) * 60 * time.Millisecond) // some come while it runs, some after
						if i%2 == 0 {
							return w.again(h, raw)
						}
						return w.deliver(h, raw)
					}))
				}
				count := map[handler.Decision]int{}
				refs := map[string]bool{}
				for _, c := range all {
					o := <-c
					count[o.Decision]++
					switch {
					case o.err == nil:
						refs[o.ResultRef] = true
					case o.Decision != handler.DecisionInProgress:
						// Losing too many races is an error too; the platform comes again.
						w.retried(o, idempotency.CodeTemporaryUnavailable)
					}
				}
				r := w.record()
				if count[handler.DecisionExecuted] != 1 || count[handler.DecisionDuplicate] == 0 || count[handler.DecisionRetry] != 0 || len(refs) != 1 || !refs[r.ResultRef.Object] {
					t.Errorf("decisions %v, results %v, record %+v", count, refs, r)
				}
				if r.Status != idempotency.StatusSucceeded || w.work.runs() != 1 || len(w.outputs()) != 1 {
					t.Errorf("record %+v, %d runs, outputs %v", r, w.work.runs(), w.outputs())
				}
			})
		})
	}
}

func TestWhateverGoesWrongAKeyHasOneResultAndNoEventIsLost(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				rnd := rand.New(rand.NewPCG(seed, 1))
				kinds := []cloudtest.Fault{
					{Kind: cloudtest.Drop},
					{Kind: cloudtest.Truncate},
					{Kind: cloudtest.Delay, Delay: 40 * time.Second},
					{Kind: cloudtest.Status, Status: 503, Code: "OTSServerUnavailable"},
					{Kind: cloudtest.Status, Status: 403, Code: "OTSRowOperationConflict"},
				}
				for range 12 {
					f := kinds[rnd.IntN(len(kinds))]
					f.Phase, f.Skip, f.Times = cloudtest.Phase(rnd.IntN(2)), rnd.IntN(12), 1+rnd.IntN(3)
					w.tables.Faults.Add(f)
					f.Skip, f.Code = rnd.IntN(12), "InternalError"
					w.objects.Faults.Add(f)
				}
				fails := rnd.IntN(2)
				w.work.set(func(context.Context, flows.Task) (map[string]any, error) {
					time.Sleep(time.Second)
					if fails--; fails >= 0 {
						return nil, &flows.Error{Failure: unavailable}
					}
					return map[string]any{"a": 1}, nil
				})
				instances := []*handler.Handler{w.instance(), w.instance()}
				platform := func(id string, amount int) outcome {
					raw := order(id, "17", amount)
					for i := range 60 {
						if o := w.deliver(instances[i%2], raw); o.err == nil {
							return o
						}
						time.Sleep(30 * time.Second)
					}
					t.Errorf("%s: the platform gives up\n%s", id, w.logs)
					return outcome{}
				}
				a := w.start(func() outcome { return platform("e1", 5) })
				b := w.start(func() outcome { time.Sleep(time.Millisecond); return platform("e2", 500) })
				var refs []string
				for _, o := range []outcome{<-a, <-b} {
					if o.ResultRef != "" {
						refs = append(refs, o.ResultRef)
					}
				}
				w.tables.Faults.Clear()
				w.objects.Faults.Clear()
				r := w.record()
				if len(refs) > 1 {
					t.Errorf("two inputs were answered with results: %v", refs)
				}
				if r.Status == idempotency.StatusSucceeded {
					if _, ok := w.object(r.ResultRef.Object); !ok || len(refs) != 1 || refs[0] != r.ResultRef.Object {
						t.Errorf("record %+v, answered %v", r, refs)
					}
				}
				// The input that lost has an open letter, and so has the winner unless it succeeded.
				open := 0
				for _, l := range w.letters() {
					if l.Open() {
						open++
					}
				}
				if want := 2 - len(refs); open < want {
					t.Errorf("%d open letters, want %d at least\n%s", open, want, w.logs)
				}
			})
		})
	}
}
