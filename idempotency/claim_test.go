package idempotency

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

// lostAnswers are faults after which nobody knows what became of a write.
func lostAnswers(op string, phase cloudtest.Phase) []cloudtest.Fault {
	faults := []cloudtest.Fault{
		{Kind: cloudtest.Drop},
		{Kind: cloudtest.Truncate},
		{Kind: cloudtest.Status, Status: 503, Code: "OTSServerUnavailable"},
		{Kind: cloudtest.Status, Status: 503, Code: "OTSTimeout"},
		{Kind: cloudtest.Status, Status: 503, Code: "OTSServerBusy"},
		{Kind: cloudtest.Status, Status: 500, Code: "OTSInternalServerError"},
	}
	for i := range faults {
		faults[i].Op, faults[i].Phase = op, phase
	}
	return faults
}

func faultName(f cloudtest.Fault) string { return fmt.Sprintf("%s %s %s", f.Kind, f.Code, f.Phase) }

func TestDuplicatesOfALiveRunLeaveItAlone(t *testing.T) {
	s := newStand(t)
	s.claim(ownerA, start, false)
	before := s.srv.Rows(TaskTable.Name)
	for _, readFirst := range []bool{false, true, false} {
		r := s.meet(claimOf(ownerB, start.Add(time.Second)), readFirst, AnswerInProgress)
		if r.Owner != ownerA {
			t.Errorf("S1 the answer names owner %s", r.Owner)
		}
	}
	if diff := cmp.Diff(before, s.srv.Rows(TaskTable.Name)); diff != "" {
		t.Errorf("S1 a duplicate changed the record:\n%s", diff)
	}
}

func TestClaimWhoseAnswerIsLostIsRecognised(t *testing.T) {
	for _, f := range lostAnswers("PutRow", cloudtest.After) {
		t.Run("S7 first claim "+faultName(f), func(t *testing.T) {
			s := newStand(t)
			s.srv.Faults.Add(f)
			r := s.claim(ownerA, start, false)
			if diff := cmp.Diff(r, s.stored()); diff != "" || r.Owner != ownerA || s.srv.Faults.Calls()["PutRow"] != 1 {
				t.Errorf("calls %v\n%s", s.srv.Faults.Calls(), diff)
			}
		})
	}
	for _, f := range lostAnswers("UpdateRow", cloudtest.After) {
		t.Run("S7 takeover "+faultName(f), func(t *testing.T) {
			s := newStand(t)
			s.claim(ownerA, start, false)
			s.srv.Faults.Add(f)
			r := s.claim(ownerB, start.Add(time.Hour), true)
			if diff := cmp.Diff(r, s.stored()); diff != "" || r.Owner != ownerB || r.Attempt != 2 || s.srv.Faults.Calls()["UpdateRow"] != 1 {
				t.Errorf("calls %v\n%s", s.srv.Faults.Calls(), diff)
			}
		})
	}
}

func TestClaimThatNeverArrivedIsNoClaim(t *testing.T) {
	for _, f := range lostAnswers("PutRow", cloudtest.Before) {
		t.Run("first claim "+faultName(f), func(t *testing.T) {
			s := newStand(t)
			s.srv.Faults.Add(f)
			_, err := s.table.Claim(t.Context(), claimOf(ownerA, start), false)
			if !errors.Is(err, ErrUnavailable) || len(s.srv.Rows(TaskTable.Name)) != 0 || s.srv.Faults.Calls()["PutRow"] != 1 {
				t.Errorf("got %v, calls %v", err, s.srv.Faults.Calls())
			}
		})
	}
	for _, f := range lostAnswers("UpdateRow", cloudtest.Before) {
		t.Run("takeover goes again after reading "+faultName(f), func(t *testing.T) {
			s := newStand(t)
			s.claim(ownerA, start, false)
			ops := s.watch()
			s.srv.Faults.Add(f)
			if r := s.claim(ownerB, start.Add(time.Hour), true); r.Attempt != 2 {
				t.Errorf("attempt %d", r.Attempt)
			}
			if diff := cmp.Diff([]string{"GetRow", "UpdateRow", "GetRow", "UpdateRow"}, *ops); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("takeover that never arrives gives up", func(t *testing.T) {
		s := newStand(t)
		s.claim(ownerA, start, false)
		s.srv.Faults.Add(cloudtest.Fault{Op: "UpdateRow", Kind: cloudtest.Drop, Times: -1})
		_, err := s.table.Claim(t.Context(), claimOf(ownerB, start.Add(time.Hour)), true)
		if !errors.Is(err, ErrUnavailable) || s.stored().Owner != ownerA || s.srv.Faults.Calls()["UpdateRow"] != 3 {
			t.Errorf("got %v, calls %v", err, s.srv.Faults.Calls())
		}
	})
}

// watch collects the operations that arrive.
func (s *stand) watch() *[]string {
	ops := new([]string)
	s.srv.Faults.Hook(func(c cloudtest.Call, p cloudtest.Phase) {
		if p == cloudtest.Before {
			*ops = append(*ops, c.Op)
		}
	})
	return ops
}

func TestStoreThatIsDownMakesTheClaimFail(t *testing.T) {
	for _, f := range []cloudtest.Fault{
		{Kind: cloudtest.Status, Status: 503, Code: "OTSServerBusy"},
		{Kind: cloudtest.Status, Status: 409, Code: "OTSRowOperationConflict"},
		{Kind: cloudtest.Status, Status: 403, Code: "OTSNoPermissionAccess"},
		{Kind: cloudtest.Status, Status: 403, Code: "OTSQuotaExhausted"},
		{Kind: cloudtest.Status, Status: 404, Code: "OTSObjectNotExist"},
		{Kind: cloudtest.Drop},
	} {
		for _, readFirst := range []bool{false, true} {
			t.Run(fmt.Sprintf("S9 %s readFirst %v", faultName(f), readFirst), func(t *testing.T) {
				s := newStand(t)
				f.Times = -1
				s.srv.Faults.Add(f)
				got, err := s.table.Claim(t.Context(), claimOf(ownerA, start), readFirst)
				if !errors.Is(err, ErrUnavailable) || got.Answer != "" || len(s.srv.Rows(TaskTable.Name)) != 0 {
					t.Errorf("got %q %v", got.Answer, err)
				}
			})
		}
	}
}

func TestFailedConditionWithNoRowBehindItIsUnavailable(t *testing.T) {
	s := newStand(t)
	s.srv.Faults.Add(cloudtest.Fault{Op: "PutRow", Kind: cloudtest.Status, Status: 403, Code: "OTSConditionCheckFail"})
	if _, err := s.table.Claim(t.Context(), claimOf(ownerA, start), false); !errors.Is(err, ErrUnavailable) {
		t.Errorf("S10 a first claim: %v", err)
	}
	r := s.claim(ownerA, start, false)
	// The record goes between the read and the write.
	gone := r
	gone.Key = HashOf(map[string]string{"order": "gone"})
	if _, err := s.table.Complete(t.Context(), gone, nil, refOfAttempt("s"), start); !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrNotOwner) {
		t.Errorf("S10 a settle: %v", err)
	}
	if n := len(s.srv.Rows(TaskTable.Name)); n != 1 {
		t.Errorf("the settle made a row: %d", n)
	}
}

func TestTakeoverOfARecordThatFinishedMeanwhileFails(t *testing.T) {
	for _, c := range []struct {
		name   string
		finish func(*stand, Record) (Record, error)
		want   Answer
	}{
		{"completed", func(s *stand, r Record) (Record, error) {
			return s.table.Complete(t.Context(), r, nil, refOfAttempt("s"), start.Add(time.Hour))
		}, AnswerDuplicate},
		{"failed", func(s *stand, r Record) (Record, error) {
			next, err := s.table.PlanFail(r, Failure{Code: CodeTimeout}, start.Add(time.Hour))
			if err != nil {
				return r, err
			}
			return s.table.Settle(t.Context(), r, next)
		}, AnswerTooEarly},
	} {
		t.Run("S6 "+c.name, func(t *testing.T) {
			s := newStand(t)
			a := s.claim(ownerA, start, false)
			var once sync.Once
			s.srv.Faults.Hook(func(call cloudtest.Call, p cloudtest.Phase) {
				if call.Op == "GetRow" && p == cloudtest.After {
					once.Do(func() {
						if _, err := c.finish(s, a); err != nil {
							t.Error(err)
						}
					})
				}
			})
			r := s.meet(claimOf(ownerB, start.Add(time.Hour)), true, c.want)
			if r.Owner != ownerA || r.Attempt != 1 {
				t.Errorf("the answer holds %+v", r)
			}
			if diff := cmp.Diff(r, s.stored()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestOneOfThreeContendersTakesOver(t *testing.T) {
	s := newStand(t)
	s.claim(ownerA, start, false)
	var barrier sync.WaitGroup
	barrier.Add(3)
	var mu sync.Mutex
	reads := 0
	s.srv.Faults.Hook(func(call cloudtest.Call, p cloudtest.Phase) {
		if call.Op != "GetRow" || p != cloudtest.After {
			return
		}
		mu.Lock()
		reads++
		first := reads <= 3
		mu.Unlock()
		if first {
			barrier.Done()
			barrier.Wait()
		}
	})
	answers := make(chan Claimed, 3)
	for i := range 3 {
		go func() {
			got, err := s.table.Claim(context.WithoutCancel(t.Context()), claimOf(fmt.Sprintf("contender-%d-of-three", i), start.Add(time.Hour)), true)
			if err != nil {
				t.Error(err)
			}
			answers <- got
		}()
	}
	count := map[Answer]int{}
	var winner Record
	for range 3 {
		got := <-answers
		count[got.Answer]++
		if got.Answer == AnswerRun {
			winner = got.Record
		}
	}
	if count[AnswerRun] != 1 || count[AnswerInProgress] != 2 {
		t.Fatalf("S6 got %v", count)
	}
	if diff := cmp.Diff(winner, s.stored()); diff != "" || winner.Attempt != 2 {
		t.Errorf("S6 attempt %d\n%s", winner.Attempt, diff)
	}
}

func TestClaimEndsWithItsContext(t *testing.T) {
	for _, c := range []struct {
		op        string
		readFirst bool
	}{{"GetRow", true}, {"PutRow", false}} {
		t.Run(c.op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStand(t)
				s.srv.Faults.Add(cloudtest.Fault{Op: c.op, Kind: cloudtest.Delay, Delay: time.Hour})
				ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
				defer cancel()
				began := time.Now()
				_, err := s.table.Claim(ctx, claimOf(ownerA, start), c.readFirst)
				if took := time.Since(began); took != 200*time.Millisecond {
					t.Errorf("it took %v", took)
				}
				if !errors.Is(err, ErrUnavailable) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("got %v", err)
				}
				if diff := cmp.Diff(map[string]int{c.op: 1}, s.srv.Faults.Calls()); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}
