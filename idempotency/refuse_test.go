package idempotency

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/internal/aliyun"
)

func TestConflictIsSeenOnEveryPath(t *testing.T) {
	other := func(now time.Time) Claim {
		c := claimOf(ownerB, now)
		c.InputDigest = "d2"
		return c
	}
	s := newStand(t)
	a := s.claim(ownerA, start, false)
	s.meet(other(start), false, AnswerConflict)
	s.meet(other(start), true, AnswerConflict)
	s.meet(other(start.Add(time.Hour)), true, AnswerConflict)
	if _, err := s.table.Complete(t.Context(), a, nil, refOfAttempt("s"), start); err != nil {
		t.Fatal(err)
	}
	s.meet(other(start.Add(time.Hour)), false, AnswerConflict)
	r := s.meet(claimOf(ownerC, start.Add(2*time.Hour)), false, AnswerDuplicate)
	if r.ResultRef != refOfAttempt("s") || r.Revision != 2 {
		t.Errorf("S24 the right input gets %+v", r)
	}
}

func TestUnreadableRecordIsNeverClaimed(t *testing.T) {
	for name, columns := range map[string]aliyun.Row{
		"a newer version":   {"record_version": int64(2)},
		"an unknown status": {"status": "PAUSED"},
	} {
		t.Run("S17 "+name, func(t *testing.T) {
			s := newStand(t)
			s.claim(ownerA, start, false)
			if err := s.store.Update(t.Context(), TaskTable, testKey.Hex, columns, 1); err != nil {
				t.Fatal(err)
			}
			before := s.srv.Rows(TaskTable.Name)
			for _, readFirst := range []bool{true, false} {
				s.meet(claimOf(ownerB, start.Add(time.Hour)), readFirst, AnswerUnreadable)
			}
			if diff := cmp.Diff(before, s.srv.Rows(TaskTable.Name)); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("S4 a lease in seconds", func(t *testing.T) {
		s := newStand(t)
		s.claim(ownerA, start, false)
		if err := s.store.Update(t.Context(), TaskTable, testKey.Hex, aliyun.Row{"lease_until": start.Unix()}, 1); err != nil {
			t.Fatal(err)
		}
		_, err := s.table.Claim(t.Context(), claimOf(ownerB, start.Add(time.Hour)), true)
		if !errors.Is(err, ErrUnavailable) || !errors.Is(err, ErrRecord) {
			t.Errorf("got %v", err)
		}
	})
}
