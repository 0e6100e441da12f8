package handler_test

import (
	"context"
	"testing"
	"time"

	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

// at delivers with a deadline that lies left ahead on the instance's clock.
func (w *world) withDeadline(h *handler.Handler, raw []byte, deadline time.Time) outcome {
	return w.deliverWith(frozen{w.ctx(), deadline}, h, raw, handler.Delivery{})
}

func TestS2_WithoutTimeToRecordAFailureThereIsNoClaim(t *testing.T) {
	for _, left := range []time.Duration{-time.Hour, -time.Millisecond, 0, time.Millisecond, 2 * time.Second} {
		t.Run(left.String()+" left", func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				h := w.instance()
				w.retried(w.withDeadline(h, order("e1", "17", 5), time.Now().Add(left)), idempotency.CodeTemporaryUnavailable)
				if calls := w.tables.Faults.Calls(); len(calls) != 0 || w.work.runs() != 0 {
					t.Errorf("calls %v, %d runs", calls, w.work.runs())
				}
			})
		})
	}
	t.Run("just more than the reserve left", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			deadline := time.Now().Add(2*time.Second + time.Millisecond)
			w.acked(w.withDeadline(w.instance(), order("e1", "17", 5), deadline), handler.DecisionExecuted)
		})
	})
	t.Run("work ends a reserve before the deadline", func(t *testing.T) {
		for limit, reserve := range map[time.Duration]time.Duration{
			5 * time.Second: 2 * time.Second, 50 * time.Second: 5 * time.Second, 300 * time.Second: 10 * time.Second,
		} {
			inWorld(t, func(t *testing.T, w *world) {
				w.limit = limit
				began := time.Now()
				var got time.Time
				w.work.set(func(ctx context.Context, _ flows.Task) (map[string]any, error) {
					got, _ = ctx.Deadline()
					return map[string]any{"a": 1}, nil
				})
				w.acked(w.deliver(w.instance(), order("e1", "17", 5)), handler.DecisionExecuted)
				if want := began.Add(limit - reserve); !got.Equal(want) {
					t.Errorf("of %s the work gets %s, want %s", limit, got.Sub(began), limit-reserve)
				}
			})
		}
	})
}

func TestS3_WithoutADeadlineADefaultLeaseHolds(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		raw := order("e1", "17", 5)
		began := time.Now()
		var lease, end time.Time
		w.work.set(func(ctx context.Context, _ flows.Task) (map[string]any, error) {
			lease = w.record().LeaseUntil
			end, _ = ctx.Deadline()
			return map[string]any{"a": 1}, nil
		})
		w.acked(w.deliverWith(w.ctx(), w.instance(), raw, handler.Delivery{}), handler.DecisionExecuted)
		if want := began.Add(policy.Lease).Truncate(time.Millisecond); !lease.Equal(want) {
			t.Errorf("lease until %s, want %s", lease, want)
		}
		if !end.Before(lease) {
			t.Errorf("work may go on until %s, the lease ends at %s", end, lease)
		}
	})
	t.Run("a live record without a lease end is not an orphan", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			raw := order("e1", "17", 5)
			w.seed(raw, func(r *idempotency.Record) { r.LeaseUntil = time.Time{} })
			time.Sleep(10 * 24 * time.Hour)
			w.retried(w.deliver(w.instance(), raw), idempotency.CodeInProgress)
			w.retried(w.again(w.instance(), raw), idempotency.CodeInProgress)
			if w.work.runs() != 0 {
				t.Error("it was taken over")
			}
		})
	})
}

func TestS4_TimesAreMillisecondsAndNothingElse(t *testing.T) {
	t.Run("as written", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.work.set(failing(unavailable))
			began := time.Now().UnixMilli()
			w.retried(w.deliver(w.instance(), order("e1", "17", 5)), unavailable.Code)
			row := w.tables.Rows(idempotency.TaskTable.Name)[0].Columns
			if row["last_attempt_at"] != began || row["not_before"] != began+10_000 {
				t.Errorf("at %d: last_attempt_at %v, not_before %v", began, row["last_attempt_at"], row["not_before"])
			}
		})
	})
	for _, column := range []string{"lease_until", "not_before", "expires_at"} {
		for name, value := range map[string]any{
			"in seconds": start.Unix(), "as text": start.Format(time.RFC3339), "as a fraction": float64(start.UnixMilli()),
		} {
			t.Run(column+" "+name, func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					raw := order("e1", "17", 5)
					r := policy.First(w.claimOf(raw))
					row, err := r.Columns()
					must(t, err)
					row[column] = value
					must(t, w.store.Insert(w.ctx(), idempotency.TaskTable, r.Key, row))
					time.Sleep(time.Hour)
					w.retried(w.deliver(w.instance(), raw), idempotency.CodeTemporaryUnavailable)
					w.retried(w.again(w.instance(), raw), idempotency.CodeTemporaryUnavailable)
					if w.work.runs() != 0 {
						t.Error("it was taken over")
					}
				})
			})
		}
	}
	t.Run("as the service keeps them", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			// A row as it stands in production, its lease over since a millisecond.
			raw := order("e1", "17", 5)
			w.seed(raw, func(r *idempotency.Record) { r.LeaseUntil = time.UnixMilli(1_785_841_200_000) })
			time.Sleep(time.Until(time.UnixMilli(1_785_841_200_000)))
			w.retried(w.deliver(w.instance(), raw), idempotency.CodeInProgress)
			time.Sleep(time.Millisecond)
			w.acked(w.deliver(w.instance(), raw), handler.DecisionExecuted)
		})
	})
}

// clock gives an instance a clock that is off, and what it knows of that.
func clock(off time.Duration) func(*handler.Options) {
	return func(o *handler.Options) {
		o.Now = func() time.Time { return time.Now().Add(off) }
		o.Skew = func() time.Duration { return off }
	}
}

func TestS11_AClockThatIsOffNeitherTakesOverEarlyNorWaitsForEver(t *testing.T) {
	const most = 15 * time.Second // half the margin
	for _, c := range []struct {
		name           string
		writer, reader time.Duration
	}{
		{"both right", 0, 0},
		{"a writer ahead", most, 0},
		{"a writer behind", -most, 0},
		{"a reader ahead", 0, most},
		{"a reader behind", 0, -most},
		{"a writer behind and a reader ahead", -most, most},
		{"a writer ahead and a reader behind", most, -most},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				raw := order("e1", "17", 5)
				began := time.Now()
				w.tables.Faults.Add(drop("UpdateRow", "", -1))
				writer, reader := w.instance(clock(c.writer)), w.instance(clock(c.reader))
				w.retried(w.withDeadline(writer, raw, began.Add(c.writer+timeLimit)), idempotency.CodeTemporaryUnavailable)
				w.tables.Faults.Clear()
				for {
					since := time.Since(began)
					o := w.withDeadline(reader, raw, time.Now().Add(c.reader+timeLimit))
					if o.err == nil {
						w.acked(o, handler.DecisionExecuted)
						if since < timeLimit {
							t.Errorf("taken over %s before the owner's deadline", timeLimit-since)
						}
						if since > timeLimit+policy.Margin+2*most+time.Second {
							t.Errorf("taken over %s after the owner's deadline", since-timeLimit)
						}
						return
					}
					w.retried(o, idempotency.CodeInProgress)
					time.Sleep(time.Second - time.Since(began)%time.Second)
				}
			})
		})
	}
	for _, off := range []time.Duration{most + time.Millisecond, -most - time.Millisecond, time.Hour} {
		t.Run("off by "+off.String()+" nothing is claimed", func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.retried(w.withDeadline(w.instance(clock(off)), order("e1", "17", 5), time.Now().Add(off+timeLimit)), idempotency.CodeTemporaryUnavailable)
				if calls := w.tables.Faults.Calls(); calls["PutRow"]+calls["UpdateRow"] != 0 || len(w.objects.Faults.Calls()) != 0 || w.work.runs() != 0 {
					t.Errorf("calls %v, %d runs", calls, w.work.runs())
				}
			})
		})
	}
	t.Run("the services' Date header shows it", func(t *testing.T) {
		for _, ahead := range []time.Duration{time.Minute, -time.Minute} {
			inWorld(t, func(t *testing.T, w *world) {
				h := w.instance()
				w.acked(w.deliver(h, order("e1", "17", 5)), handler.DecisionExecuted)
				w.ahead = ahead
				w.acked(w.deliver(h, order("e2", "18", 5)), handler.DecisionExecuted) // the call that shows it
				w.retried(w.deliver(h, order("e3", "19", 5)), idempotency.CodeTemporaryUnavailable)
				if len(w.records()) != 2 {
					t.Errorf("%d records, want 2", len(w.records()))
				}
			})
		}
	})
	t.Run("a clock that is right again claims again", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			h := w.instance()
			w.ahead = time.Minute
			w.acked(w.deliver(h, order("e1", "17", 5)), handler.DecisionExecuted)
			w.ahead = 0
			for i := range 3 {
				if i > 0 {
					time.Sleep(time.Minute)
				}
				if o := w.deliver(h, order("e2", "18", 5)); o.err == nil {
					w.acked(o, handler.DecisionExecuted)
					return
				}
			}
			t.Error("an instance that has seen one wrong Date never claims again")
		})
	})
}

func TestLeaseLastsUntilTheDeadlineAndTheMargin(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		deadline := time.Now().Add(w.limit)
		var r idempotency.Record
		w.work.set(func(context.Context, flows.Task) (map[string]any, error) {
			r = w.record()
			return map[string]any{"a": 1}, nil
		})
		w.acked(w.deliver(w.instance(), order("e1", "17", 5)), handler.DecisionExecuted)
		if want := deadline.Add(policy.Margin).Truncate(time.Millisecond); !r.LeaseUntil.Equal(want) || r.Status != idempotency.StatusRunning {
			t.Errorf("lease until %s, want %s", r.LeaseUntil, want)
		}
	})
}

func TestSkewIsWatchedOnBothServices(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		skew := new(aliyun.Skew)
		store, bucket := w.clients(skew)
		w.ahead = time.Minute
		_, _, err := store.Get(w.ctx(), idempotency.TaskTable, "k")
		must(t, err)
		if v := skew.Value(); v > -58*time.Second {
			t.Errorf("tablestore: skew %s", v)
		}
		w.ahead = 0
		_, err = bucket.List(w.ctx(), "", 1)
		must(t, err)
		if v := skew.Value(); v != 0 {
			t.Errorf("oss: skew %s", v)
		}
	})
}
