package handler_test

import (
	"context"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestAFreshEventIsExecutedAndSucceeds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		o := w.deliver(w.instance(), order("e1", "17", 5))
		w.acked(o, handler.DecisionExecuted)
		r := w.stands(idempotency.StatusSucceeded, 1)
		if o.ResultRef != r.ResultRef.Object || o.Key != r.Key || o.Flow != "order.create" || o.EventID != "e1" {
			t.Errorf("got %v for %+v", o, r)
		}
		if r.Revision != 2 || len(r.History) != 2 || r.ConsumerVersion != "7" || r.ProcessorVersion != "1.w1" || !r.LeaseUntil.IsZero() {
			t.Errorf("record %+v", r)
		}
	})
}

func TestS1_DuplicatesOfARunningEventAreRefusedAndLeaveItUntouched(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		raw, h := order("e1", "17", 5), w.instance()
		release := make(chan struct{})
		w.work.set(func(context.Context, flows.Task) (map[string]any, error) {
			<-release
			return map[string]any{"a": 1}, nil
		})
		first := w.start(func() outcome { return w.deliver(h, raw) })
		synctest.Wait()
		before := w.tables.Rows(idempotency.TaskTable.Name)
		for range 3 {
			w.retried(w.deliver(h, raw), idempotency.CodeInProgress)
			w.retried(w.again(w.instance(), raw), idempotency.CodeInProgress)
		}
		if after := w.tables.Rows(idempotency.TaskTable.Name); !reflect.DeepEqual(before, after) {
			t.Errorf("the record changed: %+v, was %+v", after, before)
		}
		close(release)
		w.acked(<-first, handler.DecisionExecuted)
		if w.work.runs() != 1 {
			t.Errorf("%d runs", w.work.runs())
		}
	})
}

func TestS5_AnOwnerWhoseLeaseIsOverChangesNothing(t *testing.T) {
	cases := map[string]func(w *world, raw []byte){
		"completes late": func(*world, []byte) {},
		"fails late":     func(w *world, _ []byte) { w.work.set(failing(unavailable)) },
		"adopts late": func(w *world, raw []byte) {
			// Attempt 1 stored its output and died; the late owner is attempt 2.
			w.tables.Faults.Add(drop("UpdateRow", "", -1))
			w.retried(w.deliver(w.instance(), raw), idempotency.CodeTemporaryUnavailable)
			w.tables.Faults.Clear()
			time.Sleep(timeLimit + policy.Margin)
		},
	}
	for name, prepare := range cases {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				raw := order("e1", "17", 5)
				prepare(w, raw)
				release := make(chan struct{})
				var settles atomic.Int64
				adopting := name == "adopts late"
				w.onTables(func(c cloudtest.Call, p cloudtest.Phase) {
					if c.Op != "UpdateRow" || p != cloudtest.Before {
						return
					}
					if n := settles.Add(1); adopting && n == 2 || !adopting && n == 1 {
						<-release // frozen right before its settling write leaves
					}
				})
				// A frozen instance does not see its deadline pass.
				late := w.start(func() outcome {
					return w.deliverWith(frozen{w.ctx(), time.Now().Add(timeLimit)}, w.instance(), raw, handler.Delivery{})
				})
				time.Sleep(timeLimit + policy.Margin + time.Second)
				w.work.set(nil)
				w.acked(w.deliver(w.instance(), raw), handler.DecisionExecuted)
				done := w.tables.Rows(idempotency.TaskTable.Name)
				close(release)
				o := <-late
				w.acked(o, handler.DecisionDuplicate)
				if after := w.tables.Rows(idempotency.TaskTable.Name); !reflect.DeepEqual(done, after) {
					t.Errorf("the late owner changed the record to %+v", after)
				}
				if r := w.record(); o.ResultRef != r.ResultRef.Object {
					t.Errorf("the late owner answered %s, the result is %s", o.ResultRef, r.ResultRef)
				}
			})
		})
	}
}

// frozen is a context whose end nobody notices.
type frozen struct {
	context.Context
	at time.Time
}

func (f frozen) Deadline() (time.Time, bool) { return f.at, true }

func TestS6_OfThreeContendersForAnExpiredRecordOneWins(t *testing.T) {
	contend := func(w *world, raw []byte, beforeRelease func()) []outcome {
		release := make(chan struct{})
		w.onTables(func(c cloudtest.Call, p cloudtest.Phase) {
			if c.Op == "GetRow" && p == cloudtest.After && strings.HasPrefix(c.Target, "task_records") {
				<-release // all have read before one writes
			}
		})
		var all []<-chan outcome
		for range 3 {
			h := w.instance()
			all = append(all, w.start(func() outcome { return w.again(h, raw) }))
		}
		synctest.Wait()
		beforeRelease()
		close(release)
		var got []outcome
		for _, c := range all {
			got = append(got, <-c)
		}
		return got
	}
	t.Run("its owner being dead", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			raw := order("e1", "17", 5)
			w.seed(raw, nil)
			time.Sleep(timeLimit + policy.Margin + time.Millisecond)
			w.work.set(func(context.Context, flows.Task) (map[string]any, error) {
				time.Sleep(time.Second)
				return map[string]any{"a": 1}, nil
			})
			executed := 0
			for _, o := range contend(w, raw, func() {}) {
				if o.Decision == handler.DecisionExecuted {
					executed++
				} else {
					w.retried(o, idempotency.CodeInProgress)
				}
			}
			if executed != 1 || w.work.runs() != 1 {
				t.Errorf("%d executed, %d runs", executed, w.work.runs())
			}
			w.stands(idempotency.StatusSucceeded, 2)
		})
	})
	t.Run("its owner finishing after they have read it", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			raw := order("e1", "17", 5)
			r := w.seed(raw, nil)
			time.Sleep(timeLimit + policy.Margin + time.Millisecond)
			owner := idempotency.NewTable(w.store, policy)
			for _, o := range contend(w, raw, func() {
				_, err := owner.Complete(w.ctx(), r, nil, idempotency.Ref{Object: "o", SHA256: "s"}, time.Now())
				must(t, err)
			}) {
				w.acked(o, handler.DecisionDuplicate)
			}
			if w.work.runs() != 0 {
				t.Errorf("%d runs", w.work.runs())
			}
			w.stands(idempotency.StatusSucceeded, 1)
		})
	})
}

func TestS9_WhileTheStoreIsDownNoWorkStarts(t *testing.T) {
	for _, fault := range []cloudtest.Fault{
		drop("", "", -1),
		{Kind: cloudtest.Status, Status: 503, Code: "OTSServerUnavailable", Times: -1},
		{Kind: cloudtest.Status, Status: 503, Code: "OTSTableNotReady", Times: -1},
		{Kind: cloudtest.Status, Status: 403, Code: "OTSNoPermissionAccess", Times: -1},
		{Kind: cloudtest.Delay, Delay: time.Hour, Times: -1},
	} {
		t.Run(fault.Kind.String()+fault.Code, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				h := w.instance()
				w.tables.Faults.Add(fault)
				w.retried(w.deliver(h, order("e1", "17", 5)), idempotency.CodeTemporaryUnavailable)
				w.retried(w.again(h, order("e1", "17", 5)), idempotency.CodeTemporaryUnavailable)
				if w.work.runs() != 0 || len(w.objects.Objects(bucketName)) != 0 || len(w.records()) != 0 {
					t.Errorf("%d runs, %d objects, %d records", w.work.runs(), len(w.objects.Objects(bucketName)), len(w.records()))
				}
				w.tables.Faults.Clear()
				w.acked(w.deliver(h, order("e1", "17", 5)), handler.DecisionExecuted)
			})
		})
	}
}

func TestS12_TwoOperationsInFlightSettleTheirOwnRecords(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		h := w.instance()
		w.work.set(func(_ context.Context, task flows.Task) (map[string]any, error) {
			time.Sleep(time.Second)
			return map[string]any{"amount": task.Payload.(map[string]any)["amount"]}, nil
		})
		a := w.start(func() outcome { return w.deliver(h, order("e1", "17", 5)) })
		b := w.start(func() outcome { return w.deliver(h, order("e2", "18", 6)) })
		for amount, done := range map[string]<-chan outcome{`"amount":5`: a, `"amount":6`: b} {
			o := <-done
			w.acked(o, handler.DecisionExecuted)
			body, _ := w.object(o.ResultRef)
			if !strings.Contains(string(body), amount) || !strings.Contains(string(body), o.Key) {
				t.Errorf("%s holds %s, want %s", o.ResultRef, body, amount)
			}
		}
		for _, r := range w.records() {
			if r.Status != idempotency.StatusSucceeded || !strings.Contains(r.ResultRef.Object, r.Key) {
				t.Errorf("record %+v", r)
			}
		}
	})
}

func TestS14_ADuplicateOfARunThatWillFailIsNotAcknowledged(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		raw := order("e1", "17", 5)
		w.work.set(func(context.Context, flows.Task) (map[string]any, error) {
			time.Sleep(time.Second)
			return nil, &flows.Error{Failure: unavailable}
		})
		first := w.start(func() outcome { return w.deliver(w.instance(), raw) })
		synctest.Wait()
		w.retried(w.deliver(w.instance(), raw), idempotency.CodeInProgress)
		w.retried(<-first, idempotency.CodeTemporaryUnavailable)
		w.stands(idempotency.StatusFailedRetryable, 1)
	})
}

func TestS17_ARecordThisVersionDoesNotKnowIsNeverClaimed(t *testing.T) {
	for name, edit := range map[string]func(aliyun.Row){
		"a newer record_version":             func(r aliyun.Row) { r["record_version"] = int64(2) },
		"a newer record_version, other form": func(r aliyun.Row) { r["record_version"] = int64(2); delete(r, "revision"); r["lease_until"] = "soon" },
		"an unknown status":                  func(r aliyun.Row) { r["status"] = "SLEEPING" },
		"no record_version":                  func(r aliyun.Row) { delete(r, "record_version") },
		"no revision":                        func(r aliyun.Row) { delete(r, "revision") },
		"another kind":                       func(r aliyun.Row) { r["kind"] = "effect" },
		"a broken history":                   func(r aliyun.Row) { r["history"] = "{" },
	} {
		for _, flow := range []string{"on", "off"} {
			t.Run(name+", flow "+flow, func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					raw := order("e1", "17", 5)
					row, err := policy.First(w.claimOf(raw)).Columns()
					must(t, err)
					edit(row)
					must(t, w.store.Insert(w.ctx(), idempotency.TaskTable, w.claimOf(raw).Key.Hex, row))
					before := w.tables.Rows(idempotency.TaskTable.Name)
					time.Sleep(time.Hour)
					h := w.instance()
					if flow == "off" {
						h = w.instance(off)
					}
					w.retried(w.deliver(h, raw), idempotency.CodeTemporaryUnavailable)
					w.retried(w.again(h, raw), idempotency.CodeTemporaryUnavailable)
					if after := w.tables.Rows(idempotency.TaskTable.Name); !reflect.DeepEqual(before, after) || w.work.runs() != 0 {
						t.Errorf("it was touched: %+v", after)
					}
				})
			})
		}
	}
}
