package handler_test

import (
	"context"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
)

func inStatus(status idempotency.Status) func(*idempotency.Record) {
	return func(r *idempotency.Record) {
		r.Status, r.LeaseUntil = status, time.Time{}
		if status == idempotency.StatusFailedFinal || status == idempotency.StatusFailedRetryable {
			r.LastErrorCode, r.LastErrorTarget = idempotency.CodeTimeout, "model:m"
		}
		if status == idempotency.StatusSucceeded {
			r.ResultRef = idempotency.Ref{Object: "secret-result-of-5", SHA256: "s"}
		}
	}
}

func TestS23_AnotherInputOfAKeyIsAConflictOnEveryPath(t *testing.T) {
	right, wrong := order("e1", "17", 5), order("e2", "17", 500)
	for name, prepare := range map[string]func(w *world) (h *handler.Handler, again bool){
		"a failed put": func(w *world) (*handler.Handler, bool) {
			w.acked(w.deliver(w.instance(), right), handler.DecisionExecuted)
			return w.instance(), false
		},
		"a read": func(w *world) (*handler.Handler, bool) {
			w.acked(w.deliver(w.instance(), right), handler.DecisionExecuted)
			return w.instance(), true
		},
		"the cache": func(w *world) (*handler.Handler, bool) {
			h := w.instance()
			w.acked(w.deliver(h, right), handler.DecisionExecuted)
			w.acked(w.deliver(h, right), handler.DecisionDuplicate)
			return h, false
		},
		"a takeover": func(w *world) (*handler.Handler, bool) {
			w.seed(right, nil)
			time.Sleep(time.Hour)
			return w.instance(), false
		},
		"a live run": func(w *world) (*handler.Handler, bool) {
			w.seed(right, nil)
			return w.instance(), false
		},
		"a failed attempt": func(w *world) (*handler.Handler, bool) {
			w.seed(right, inStatus(idempotency.StatusFailedRetryable))
			return w.instance(), true
		},
		"an attempt that waits": func(w *world) (*handler.Handler, bool) {
			w.seed(right, func(r *idempotency.Record) {
				inStatus(idempotency.StatusFailedRetryable)(r)
				r.NotBefore = time.Now().Add(time.Hour)
			})
			return w.instance(), false
		},
		"a used up budget": func(w *world) (*handler.Handler, bool) {
			w.seed(right, func(r *idempotency.Record) { r.Attempt = 99 })
			time.Sleep(time.Hour)
			return w.instance(), false
		},
		"a final failure": func(w *world) (*handler.Handler, bool) {
			w.seed(right, inStatus(idempotency.StatusFailedFinal))
			return w.instance(), false
		},
		"an unknown outcome": func(w *world) (*handler.Handler, bool) {
			w.seed(right, inStatus(idempotency.StatusOutcomeUnknown))
			return w.instance(), false
		},
		"a parked one": func(w *world) (*handler.Handler, bool) {
			w.seed(right, inStatus(idempotency.StatusReceived))
			return w.instance(), true
		},
		"a flow that is off": func(w *world) (*handler.Handler, bool) {
			w.acked(w.deliver(w.instance(), right), handler.DecisionExecuted)
			return w.instance(off), false
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				h, again := prepare(w)
				before, runs := w.tables.Rows(idempotency.TaskTable.Name), w.work.runs()
				deliver := w.deliver
				if again {
					deliver = w.again
				}
				o := deliver(h, wrong)
				w.acked(o, handler.DecisionConflict)
				logged := strings.Split(strings.TrimSpace(w.logs.String()), "\n")
				if last := logged[len(logged)-1]; o.ResultRef != "" || !strings.Contains(last, `"decision":"conflict"`) || !strings.Contains(last, `"result_ref":""`) {
					t.Errorf("answered %v and logged %s: another input's result is not this one's to see", o, last)
				}
				if after := w.tables.Rows(idempotency.TaskTable.Name); !reflect.DeepEqual(before, after) || w.work.runs() != runs {
					t.Errorf("it ran, or the record changed to %+v", after)
				}
				w.openReview(right, wrong)
				if l := w.openLetter(letter.CodeConflict, wrong); l.ID != o.LetterID {
					t.Errorf("letter %s, answered %s", l.ID, o.LetterID)
				}
			})
		})
	}
}

// openReview checks the one review, which asks about two inputs.
func (w *world) openReview(right, wrong []byte) idempotency.Review {
	w.t.Helper()
	rows := w.reviews()
	if len(rows) != 1 {
		w.t.Fatalf("%d reviews, want 1", len(rows))
	}
	c := w.claimOf(wrong)
	r, ok, err := idempotency.NewReviews(w.store).Get(w.ctx(), idempotency.ConflictID(c.Key.Hex, c.InputDigest))
	must(w.t, err)
	if !ok || r.State != idempotency.ReviewOpen || r.Assignee != "order-team" || r.EventDigest != c.InputDigest ||
		r.RecordDigest != w.claimOf(right).InputDigest || r.Key != c.Key.Hex || r.EventID != "e2" {
		w.t.Fatalf("review %+v", r)
	}
	return r
}

func TestS24_AfterAConflictTheRightInputStillGetsItsResult(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		h := w.instance()
		right, wrong := order("e1", "17", 5), order("e2", "17", 500)
		done := w.deliver(h, right)
		w.acked(done, handler.DecisionExecuted)
		for range 3 {
			w.acked(w.deliver(h, wrong), handler.DecisionConflict)
			o := w.deliver(h, right)
			w.acked(o, handler.DecisionDuplicate)
			if o.ResultRef != done.ResultRef {
				t.Errorf("got %s, want %s", o.ResultRef, done.ResultRef)
			}
		}
	})
	t.Run("also where the conflict came first to this instance", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			right, wrong := order("e1", "17", 5), order("e2", "17", 500)
			done := w.deliver(w.instance(), right)
			h := w.instance()
			w.acked(w.deliver(h, wrong), handler.DecisionConflict)
			w.acked(w.deliver(h, wrong), handler.DecisionConflict)
			o := w.deliver(h, right)
			w.acked(o, handler.DecisionDuplicate)
			if o.ResultRef != done.ResultRef {
				t.Errorf("got %s, want %s", o.ResultRef, done.ResultRef)
			}
		})
	})
	t.Run("also where the right one is still running", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			right, wrong, h := order("e1", "17", 5), order("e2", "17", 500), w.instance()
			w.work.set(func(context.Context, flows.Task) (map[string]any, error) {
				time.Sleep(time.Second)
				return map[string]any{"a": 1}, nil
			})
			first := w.start(func() outcome { return w.deliver(h, right) })
			synctest.Wait()
			w.acked(w.deliver(h, wrong), handler.DecisionConflict)
			w.acked(<-first, handler.DecisionExecuted)
			w.acked(w.deliver(h, right), handler.DecisionDuplicate)
		})
	})
}

func TestAConflictIsOneReviewHoweverOftenItIsSeen(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		right, wrong := order("e1", "17", 5), order("e2", "17", 500)
		w.acked(w.deliver(w.instance(), right), handler.DecisionExecuted)
		for i := range 4 {
			time.Sleep(time.Minute)
			w.acked(w.deliver(w.instance(), wrong), handler.DecisionConflict)
			w.openReview(right, wrong)
			if l := w.openLetter(letter.CodeConflict, wrong); l.DeliveryAttempts != int64(i)+1 {
				t.Errorf("letter %+v after %d sightings", l, i+1)
			}
		}
		// A third input is another question.
		w.acked(w.deliver(w.instance(), order("e3", "17", 501)), handler.DecisionConflict)
		if len(w.reviews()) != 2 || len(w.letters()) != 2 {
			t.Errorf("%d reviews, %d letters", len(w.reviews()), len(w.letters()))
		}
	})
}

func TestAConflictThatCannotBeStoredComesAgain(t *testing.T) {
	for _, target := range []string{"reviews", "dead_letters"} {
		t.Run(target, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.acked(w.deliver(w.instance(), order("e1", "17", 5)), handler.DecisionExecuted)
				w.tables.Faults.Add(drop("", target, -1))
				w.retried(w.deliver(w.instance(), order("e2", "17", 500)), idempotency.CodeTemporaryUnavailable)
				w.tables.Faults.Clear()
				w.acked(w.deliver(w.instance(), order("e2", "17", 500)), handler.DecisionConflict)
				w.openReview(order("e1", "17", 5), order("e2", "17", 500))
			})
		})
	}
	t.Run("the letter's object", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.acked(w.deliver(w.instance(), order("e1", "17", 5)), handler.DecisionExecuted)
			w.objects.Faults.Add(drop("PutObject", "", -1))
			w.retried(w.deliver(w.instance(), order("e2", "17", 500)), idempotency.CodeTemporaryUnavailable)
			if len(w.letters()) != 0 {
				t.Error("a letter names bytes that are not there")
			}
		})
	})
}
