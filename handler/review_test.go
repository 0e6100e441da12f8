package handler_test

import (
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

func TestAnAnsweredQuestionIsSeenAndNotAskedAgain(t *testing.T) {
	right, wrong := order("e1", "17", 5), order("e2", "17", 500)
	for _, c := range []struct {
		name     string
		answer   func(w *world)
		wantOpen bool
	}{
		{"rejected while its letter is open", func(w *world) {
			w.acked(w.deliver(w.instance(), wrong), handler.DecisionConflict)
			w.resolve(wrong, idempotency.ResolvedKeepOld)
		}, true},
		{"rejected and its letter closed", func(w *world) {
			w.acked(w.deliver(w.instance(), wrong), handler.DecisionConflict)
			w.resolve(wrong, idempotency.ResolvedDiscard)
			l := w.letters()[0]
			must(w.t, w.store.Update(w.ctx(), letter.LetterTable, l.ID,
				aliyun.Row{"final_status": "DISCARDED", "closed_at": time.Now().UnixMilli(), "revision": l.Revision + 1}, l.Revision))
		}, false},
		{"rejected before this event of it came", func(w *world) {
			c := w.claimOf(wrong)
			r, err := idempotency.NewReviews(w.store).Open(w.ctx(), idempotency.Review{ID: idempotency.ConflictID(c.Key.Hex, c.InputDigest), Kind: idempotency.ReviewConflict})
			must(w.t, err)
			w.close(r.ID, idempotency.ResolvedKeepOld)
		}, false},
		{"superseded", func(w *world) {
			r := w.record()
			must(w.t, w.store.Update(w.ctx(), idempotency.TaskTable, r.Key,
				aliyun.Row{"superseded_digests": "a," + w.claimOf(wrong).InputDigest, "revision": r.Revision + 1}, r.Revision))
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.acked(w.deliver(w.instance(), right), handler.DecisionExecuted)
				c.answer(w)
				for range 2 {
					time.Sleep(time.Minute)
					o := w.deliver(w.instance(), wrong)
					w.acked(o, handler.DecisionConflict)
					all := w.letters()
					if len(all) != 1 || all[0].Open() != c.wantOpen || all[0].ID != o.LetterID || o.ResultRef != "" {
						t.Fatalf("letters %+v, answered %v", all, o)
					}
					w.holds(all[0], wrong)
				}
				if w.work.runs() != 1 || len(w.reviews()) > 1 {
					t.Errorf("%d runs, %d reviews", w.work.runs(), len(w.reviews()))
				}
			})
		})
	}
}

func (w *world) resolve(wrong []byte, as idempotency.Resolution) {
	w.t.Helper()
	c := w.claimOf(wrong)
	w.close(idempotency.ConflictID(c.Key.Hex, c.InputDigest), as)
}

func (w *world) close(id string, as idempotency.Resolution) {
	w.t.Helper()
	must(w.t, w.store.Update(w.ctx(), idempotency.ReviewTable, id,
		aliyun.Row{"state": "closed", "resolution": string(as), "revision": int64(2)}, 1))
}

func TestAnUnknownOutcomeWaitsForAPerson(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		raw := order("e1", "17", 5)
		w.seed(raw, inStatus(idempotency.StatusOutcomeUnknown))
		before := w.record()
		for i := range 3 {
			time.Sleep(time.Hour)
			w.acked(w.deliver(w.instance(), raw), handler.DecisionOutcomeUnknown)
			if l := w.openLetter(letter.CodeOutcomeUnknown, raw); l.DeliveryAttempts != int64(i)+1 {
				t.Errorf("letter %+v", l)
			}
		}
		if after := w.record(); !reflect.DeepEqual(before, after) || w.work.runs() != 0 {
			t.Errorf("record %+v, %d runs", after, w.work.runs())
		}
	})
}

func TestASightingOfAClosedLetterOpensItAgainWithItsFormerLife(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		raw := []byte(`{"no":"event"}`)
		w.acked(w.deliver(w.instance(), raw), handler.DecisionDeadLetter)
		for i := range 3 {
			l := w.openLetter(letter.CodeInvalidSchema, raw)
			if len(l.History) != i {
				t.Errorf("%d former lives, want %d", len(l.History), i)
			}
			closedAt := time.Now()
			must(t, w.store.Update(w.ctx(), letter.LetterTable, l.ID,
				aliyun.Row{"final_status": "DISCARDED", "closed_at": closedAt.UnixMilli(), "revision": l.Revision + 1}, l.Revision))
			time.Sleep(time.Minute)
			w.acked(w.deliver(w.instance(), raw), handler.DecisionDeadLetter)
			l = w.openLetter(letter.CodeInvalidSchema, raw)
			if n := len(l.History); n != i+1 || l.History[n-1].FinalStatus != letter.FinalDiscarded || l.History[n-1].ClosedAt != closedAt.UnixMilli() {
				t.Errorf("round %s: letter %+v", strconv.Itoa(i), l)
			}
		}
	})
}
