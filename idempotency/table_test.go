package idempotency

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// settles are the ways in which a run ends.
func settles(s *stand) map[string]func(context.Context, Record) (Record, error) {
	return map[string]func(context.Context, Record) (Record, error){
		"complete": func(ctx context.Context, r Record) (Record, error) {
			return s.table.Complete(ctx, r, nil, refOfAttempt("s"), start.Add(time.Minute))
		},
		"fail": func(ctx context.Context, r Record) (Record, error) {
			next, err := s.table.PlanFail(r, Failure{Code: CodeTimeout, Target: "model:m"}, start.Add(time.Minute))
			if err != nil {
				return Record{}, err
			}
			return s.table.Settle(ctx, r, next)
		},
	}
}

func TestSettleWhoseAnswerIsLostIsRecognised(t *testing.T) {
	for verb := range settles(nil) {
		for _, f := range lostAnswers("UpdateRow", cloudtest.After) {
			t.Run("S7 "+verb+" "+faultName(f), func(t *testing.T) {
				s := newStand(t)
				a := s.claim(ownerA, start, false)
				s.srv.Faults.Add(f)
				r, err := settles(s)[verb](t.Context(), a)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(r, s.stored()); diff != "" || r.Revision != 2 || s.srv.Faults.Calls()["UpdateRow"] != 1 {
					t.Errorf("calls %v\n%s", s.srv.Faults.Calls(), diff)
				}
			})
		}
	}
}

func TestSettleThatNeverArrivedGoesAgainAfterReading(t *testing.T) {
	for verb := range settles(nil) {
		for _, f := range lostAnswers("UpdateRow", cloudtest.Before) {
			t.Run(verb+" "+faultName(f), func(t *testing.T) {
				s := newStand(t)
				a := s.claim(ownerA, start, false)
				ops := s.watch()
				f.Times = 2
				s.srv.Faults.Add(f)
				r, err := settles(s)[verb](t.Context(), a)
				if err != nil {
					t.Fatal(err)
				}
				want := []string{"UpdateRow", "GetRow", "UpdateRow", "GetRow", "UpdateRow"}
				if diff := cmp.Diff(want, *ops); diff != "" {
					t.Error(diff)
				}
				if diff := cmp.Diff(r, s.stored()); diff != "" {
					t.Error(diff)
				}
			})
		}
		t.Run(verb+" gives up after three", func(t *testing.T) {
			s := newStand(t)
			a := s.claim(ownerA, start, false)
			s.srv.Faults.Add(cloudtest.Fault{Op: "UpdateRow", Kind: cloudtest.Drop, Times: -1})
			_, err := settles(s)[verb](t.Context(), a)
			if !errors.Is(err, ErrUnavailable) || s.srv.Faults.Calls()["UpdateRow"] != 3 {
				t.Errorf("got %v, calls %v", err, s.srv.Faults.Calls())
			}
			if diff := cmp.Diff(a, s.stored()); diff != "" {
				t.Error(diff)
			}
		})
		t.Run(verb+" is not sent again where the row cannot be read", func(t *testing.T) {
			s := newStand(t)
			a := s.claim(ownerA, start, false)
			s.srv.Faults.Add(cloudtest.Fault{Op: "UpdateRow", Kind: cloudtest.Drop, Times: -1}, cloudtest.Fault{Op: "GetRow", Kind: cloudtest.Drop})
			_, err := settles(s)[verb](t.Context(), a)
			if !errors.Is(err, ErrUnavailable) || s.srv.Faults.Calls()["UpdateRow"] != 1 {
				t.Errorf("got %v, calls %v", err, s.srv.Faults.Calls())
			}
		})
		t.Run(verb+" that the store refuses is not sent again", func(t *testing.T) {
			s := newStand(t)
			a := s.claim(ownerA, start, false)
			ops := s.watch()
			s.srv.Faults.Add(cloudtest.Fault{Op: "UpdateRow", Kind: cloudtest.Status, Status: 409, Code: "OTSRowOperationConflict"})
			_, err := settles(s)[verb](t.Context(), a)
			if !errors.Is(err, ErrUnavailable) || len(*ops) != 1 {
				t.Errorf("got %v, calls %v", err, *ops)
			}
		})
	}
}

func TestLateSettleIsRefusedAndChangesNothing(t *testing.T) {
	for verb := range settles(nil) {
		for _, moved := range []string{"taken over", "finished by another owner"} {
			t.Run("S5 "+verb+" after it was "+moved, func(t *testing.T) {
				s := newStand(t)
				a := s.claim(ownerA, start, false)
				b := s.claim(ownerB, start.Add(time.Hour), true)
				if moved != "taken over" {
					if _, err := s.table.Complete(t.Context(), b, nil, refOfAttempt("b's"), start.Add(time.Hour)); err != nil {
						t.Fatal(err)
					}
				}
				before := s.srv.Rows(TaskTable.Name)
				r, err := settles(s)[verb](t.Context(), a)
				if !errors.Is(err, ErrNotOwner) || r.Owner != ownerB {
					t.Errorf("got %v, record of %s", err, r.Owner)
				}
				if diff := cmp.Diff(before, s.srv.Rows(TaskTable.Name)); diff != "" {
					t.Errorf("the stale owner changed the record:\n%s", diff)
				}
			})
		}
	}
}

func TestSettleThatSomebodyHasMovedOnFromSucceeded(t *testing.T) {
	s := newStand(t)
	a := s.claim(ownerA, start, false)
	s.srv.Faults.Add(cloudtest.Fault{Op: "UpdateRow", Phase: cloudtest.After, Kind: cloudtest.Drop})
	s.srv.Faults.Hook(func(c cloudtest.Call, p cloudtest.Phase) {
		if c.Op == "GetRow" && p == cloudtest.Before {
			s.srv.Faults.Hook(nil)
			s.claim(ownerB, start.Add(time.Hour), true)
		}
	})
	r, err := settles(s)["fail"](t.Context(), a)
	if err != nil || r.Status != StatusFailedRetryable || r.Owner != ownerA {
		t.Errorf("got %v %s of %s", err, r.Status, r.Owner)
	}
	if now := s.stored(); now.Owner != ownerB || now.Revision != 3 {
		t.Errorf("stored %+v", now)
	}
}

func TestSettleEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t)
		a := s.claim(ownerA, start, false)
		s.srv.Faults.Add(cloudtest.Fault{Op: "UpdateRow", Phase: cloudtest.After, Kind: cloudtest.Delay, Delay: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		_, err := s.table.Complete(ctx, a, nil, refOfAttempt("s"), start)
		if took := time.Since(began); took != time.Second || !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v after %v", err, took)
		}
		if n := s.srv.Faults.Calls()["UpdateRow"]; n != 1 {
			t.Errorf("%d writes", n)
		}
	})
}

func TestUpdateRemovesColumnsThatGo(t *testing.T) {
	s := newStand(t)
	a := s.claim(ownerA, start, false)
	failed, err := settles(s)["fail"](t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	if _, there := s.srv.Rows(TaskTable.Name)[0].Columns["lease_until"]; there || failed.NotBefore.IsZero() {
		t.Error("a failed record keeps its lease")
	}
	b := s.claim(ownerB, start.Add(time.Hour), true)
	if _, there := s.srv.Rows(TaskTable.Name)[0].Columns["not_before"]; there {
		t.Error("a running record keeps not_before")
	}
	if _, err := s.table.Complete(t.Context(), b, nil, refOfAttempt("s"), start.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	for _, column := range []string{"last_error_code", "last_error_target", "lease_until"} {
		if v, there := s.srv.Rows(TaskTable.Name)[0].Columns[column]; there {
			t.Errorf("a finished record keeps %s %v", column, v)
		}
	}
}

func TestExhaustedClaimIsWrittenBySettle(t *testing.T) {
	s := newStand(t)
	c := claimOf(ownerA, start)
	c.Budget = 1
	s.meet(c, false, AnswerRun)
	got, err := s.table.Claim(t.Context(), claimOf(ownerB, start.Add(time.Hour)), true)
	if err != nil || got.Answer != AnswerExhausted || s.stored().Status != StatusRunning {
		t.Fatalf("S16 before its letter is stored: %q %v %s", got.Answer, err, s.stored().Status)
	}
	r, err := s.table.Settle(t.Context(), got.Record, got.Next)
	if err != nil || r.Status != StatusFailedFinal || r.LastErrorCode != CodeTimeout || s.stored().Status != StatusFailedFinal {
		t.Errorf("got %+v %v", r, err)
	}
	if again, err := s.table.Settle(t.Context(), got.Record, got.Next); err != nil || again.Revision != 2 {
		t.Errorf("S16 a repeated settle: %+v %v", again, err)
	}
	rival := got.Next
	rival.Owner = ownerC
	if _, err := s.table.Settle(t.Context(), got.Record, rival); !errors.Is(err, ErrNotOwner) {
		t.Errorf("a rival's settle: %v", err)
	}
}

func TestParkLeavesARecordThatIsThereAlone(t *testing.T) {
	s := newStand(t)
	for range 2 {
		r, err := s.table.Park(t.Context(), claimOf(ownerA, start))
		if err != nil || r.Status != StatusReceived || r.Revision != 1 {
			t.Fatalf("got %+v %v", r, err)
		}
	}
	a := s.claim(ownerB, start, true)
	if a.Attempt != 1 || a.Revision != 2 {
		t.Errorf("the run of a parked record: %+v", a)
	}
	before := s.srv.Rows(TaskTable.Name)
	r, err := s.table.Park(t.Context(), claimOf(ownerC, start))
	if err != nil || r.Owner != ownerB {
		t.Errorf("got %+v %v", r, err)
	}
	if diff := cmp.Diff(before, s.srv.Rows(TaskTable.Name)); diff != "" {
		t.Error(diff)
	}
}

func TestPeekSaysWhatADeliveryWouldMeetWithoutAWrite(t *testing.T) {
	s := newStand(t)
	if _, ok, err := s.table.Peek(t.Context(), claimOf(ownerA, start)); ok || err != nil {
		t.Errorf("no record: %v %v", ok, err)
	}
	s.claim(ownerA, start, false)
	for now, want := range map[time.Time]Answer{start: AnswerInProgress, start.Add(time.Hour): AnswerRun} {
		got, ok, err := s.table.Peek(t.Context(), claimOf(ownerB, now))
		if err != nil || !ok || got.Answer != want || got.Record.Owner != ownerA {
			t.Errorf("got %q of %s %v, want %q", got.Answer, got.Record.Owner, err, want)
		}
	}
	if r := s.stored(); r.Owner != ownerA {
		t.Error("a peek took the record over")
	}
	s.srv.Faults.Add(cloudtest.Fault{Op: "GetRow", Kind: cloudtest.Drop})
	if _, _, err := s.table.Peek(t.Context(), claimOf(ownerB, start)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a store that is down: %v", err)
	}
}

func TestListPagesByRisingKeyAndSkipsEffects(t *testing.T) {
	s := newStand(t)
	for i := range 7 {
		c := claimOf(ownerA, start)
		c.Key.Hex = fmt.Sprintf("k%d", i)
		if _, err := s.table.Claim(t.Context(), c, false); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range []string{"k1x", "k1y", "k3x"} {
		if err := s.store.Insert(t.Context(), TaskTable, key, aliyun.Row{"kind": "effect", "revision": int64(1), "status": "SENT"}); err != nil {
			t.Fatal(err)
		}
	}
	list := func(from, to string) (keys []string, pages int) {
		for {
			records, next, err := s.table.List(t.Context(), from, to, 2)
			if err != nil {
				t.Fatal(err)
			}
			pages++
			for _, r := range records {
				keys = append(keys, r.Key)
			}
			if next == "" {
				return keys, pages
			}
			from = next
		}
	}
	keys, pages := list("", "")
	if diff := cmp.Diff([]string{"k0", "k1", "k2", "k3", "k4", "k5", "k6"}, keys); diff != "" || pages < 5 {
		t.Errorf("%d pages\n%s", pages, diff)
	}
	if keys, _ := list("k2", "k5"); cmp.Diff([]string{"k2", "k3", "k4"}, keys) != "" {
		t.Errorf("from k2 to before k5: %v", keys)
	}
	if err := s.store.Insert(t.Context(), TaskTable, "k9", aliyun.Row{"kind": "task", "record_version": int64(1)}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.table.List(t.Context(), "k6", "", 100); !errors.Is(err, ErrRecord) {
		t.Errorf("a row that cannot be read: %v", err)
	}
}
