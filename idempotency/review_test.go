package idempotency

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

func conflictOf(digest string) Review {
	return Review{
		ID: ConflictID(testKey.Hex, digest), Kind: ReviewConflict, Key: testKey.Hex, Flow: "summary", Environment: "prod", Assignee: "orders team",
		RecordDigest: testDigest, RecordStatus: StatusSucceeded, EventDigest: digest, Source: "shop", EventID: "e",
		FirstSeenAt: milli(start), ExpiresAt: milli(start.Add(time.Hour)),
	}
}

func TestReviewIsOpenedOnce(t *testing.T) {
	s := newStand(t)
	want := conflictOf("d2")
	want.State, want.Revision = ReviewOpen, 1
	opened, err := s.reviews.Open(t.Context(), conflictOf("d2"))
	if err != nil {
		t.Fatal(err)
	}
	later := conflictOf("d2")
	later.EventID, later.FirstSeenAt = "e2", start.Add(time.Minute)
	again, err := s.reviews.Open(t.Context(), later)
	if err != nil {
		t.Fatal(err)
	}
	stored, ok, err := s.reviews.Get(t.Context(), want.ID)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	for name, got := range map[string]Review{"opened": opened, "opened again": again, "stored": stored} {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	if _, ok, err := s.reviews.Get(t.Context(), "nothing"); ok || err != nil {
		t.Errorf("no review: %v %v", ok, err)
	}
}

func TestClosedReviewStaysClosed(t *testing.T) {
	for resolution, rejects := range map[Resolution]bool{ResolvedKeepOld: true, ResolvedDiscard: true, "use_new": false, "": false} {
		t.Run("S38 "+string(resolution), func(t *testing.T) {
			s := newStand(t)
			r, err := s.reviews.Open(t.Context(), conflictOf("d2"))
			if err != nil || r.Rejects() {
				t.Fatal(r, err)
			}
			row := aliyun.Row{"state": string(ReviewClosed), "resolution": string(resolution), "revision": int64(2)}
			if err := s.store.Update(t.Context(), ReviewTable, r.ID, row, 1); err != nil {
				t.Fatal(err)
			}
			again, err := s.reviews.Open(t.Context(), conflictOf("d2"))
			if err != nil || again.State != ReviewClosed || again.Revision != 2 || again.Rejects() != rejects {
				t.Errorf("got %+v %v", again, err)
			}
		})
	}
	open := conflictOf("d2")
	open.State, open.Resolution = ReviewOpen, ResolvedDiscard
	if open.Rejects() {
		t.Error("an open review rejects")
	}
}

func TestReviewIDsAreDerivedAndStable(t *testing.T) {
	got := ConflictID("k", "d")
	if got != HashOf(map[string]string{"digest": "d", "key": "k", "kind": "conflict"}) {
		t.Errorf("got %s", got)
	}
	for _, other := range []string{ConflictID("k", "d2"), ConflictID("k2", "d"), ConflictID("d", "k")} {
		if other == got {
			t.Error("two questions have one id")
		}
	}
}

func TestReviewWhoseAnswerIsLostIsThere(t *testing.T) {
	for _, f := range lostAnswers("PutRow", cloudtest.After) {
		t.Run(faultName(f), func(t *testing.T) {
			s := newStand(t)
			s.srv.Faults.Add(f)
			r, err := s.reviews.Open(t.Context(), conflictOf("d2"))
			if err != nil || r.State != ReviewOpen || len(s.srv.Rows(ReviewTable.Name)) != 1 {
				t.Errorf("got %+v %v", r, err)
			}
		})
	}
}

func TestReviewThatCannotBeStoredIsUnavailable(t *testing.T) {
	faults := append(lostAnswers("PutRow", cloudtest.Before),
		cloudtest.Fault{Op: "PutRow", Kind: cloudtest.Status, Status: 403, Code: "OTSNoPermissionAccess"},
		cloudtest.Fault{Op: "PutRow", Kind: cloudtest.Status, Status: 403, Code: "OTSConditionCheckFail"})
	for _, f := range faults {
		t.Run(faultName(f), func(t *testing.T) {
			s := newStand(t)
			s.srv.Faults.Add(f)
			if _, err := s.reviews.Open(t.Context(), conflictOf("d2")); !errors.Is(err, ErrUnavailable) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("the row behind a failed write cannot be read", func(t *testing.T) {
		s := newStand(t)
		s.srv.Faults.Add(cloudtest.Fault{Op: "PutRow", Phase: cloudtest.After, Kind: cloudtest.Drop}, cloudtest.Fault{Op: "GetRow", Kind: cloudtest.Drop})
		if _, err := s.reviews.Open(t.Context(), conflictOf("d2")); !errors.Is(err, ErrUnavailable) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a column of another type", func(t *testing.T) {
		s := newStand(t)
		r := conflictOf("d2")
		if err := s.store.Insert(t.Context(), ReviewTable, r.ID, aliyun.Row{"kind": int64(1)}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.reviews.Open(t.Context(), r); !errors.Is(err, ErrUnavailable) || !errors.Is(err, ErrRecord) {
			t.Errorf("got %v", err)
		}
	})
}

func TestTwoWritersOpenOneReview(t *testing.T) {
	s := newStand(t)
	var both sync.WaitGroup
	var got [2]Review
	for i := range got {
		both.Go(func() {
			r := conflictOf("d2")
			r.EventID = string(rune('a' + i))
			var err error
			if got[i], err = s.reviews.Open(t.Context(), r); err != nil {
				t.Error(err)
			}
		})
	}
	both.Wait()
	if diff := cmp.Diff(got[0], got[1]); diff != "" || len(s.srv.Rows(ReviewTable.Name)) != 1 {
		t.Errorf("two writers see two reviews:\n%s", diff)
	}
}
