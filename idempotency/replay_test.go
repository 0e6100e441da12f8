package idempotency

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

// grantOf is what a plan says of a record as it is.
func grantOf(r Record) Grant {
	return Grant{Batch: "rp-1", Revision: r.Revision, RecordDigest: r.InputDigest}
}

func statusOf(s Status, edits ...func(*Record)) func(*Record) {
	return func(r *Record) {
		if r.Status = s; s != StatusRunning {
			r.LeaseUntil = time.Time{}
		}
		for _, edit := range edits {
			edit(r)
		}
	}
}

func isRefusal(err error) bool {
	var r Refusal
	return errors.As(err, &r)
}

func withEffect(s EffectState) func(*Record) {
	return func(r *Record) {
		r.Effects = []TaskEffect{{Name: "notice", Key: "old", Kind: TargetIdempotent, State: s}}
	}
}

func TestReplayOpensATaskAgainOnlyWhereThePlanStillHolds(t *testing.T) {
	lease := milli(start.Add(90 * time.Second))
	later := start.Add(time.Hour)
	stale := func(r *Record) { r.Revision += 5 }
	for _, c := range []struct {
		name   string
		stored func(*Record)
		now    time.Time
		grant  func(*Grant)
		want   Answer
		why    string
	}{
		{"RECEIVED", statusOf(StatusReceived), later, nil, AnswerRun, ""},
		{"FAILED_RETRYABLE", statusOf(StatusFailedRetryable), later, nil, AnswerRun, ""},
		{"FAILED_FINAL", statusOf(StatusFailedFinal), later, nil, AnswerRun, ""},
		{"FAILED_FINAL without budget", statusOf(StatusFailedFinal, func(r *Record) { r.AttemptBudget = r.Attempt }), later, nil, AnswerRun, ""},
		{"abandoned", statusOf(StatusFailedFinal, func(r *Record) { r.Abandoned = true }), later, nil, AnswerRun, ""},
		{"RUNNING, expired", statusOf(StatusRunning), lease.Add(time.Nanosecond), nil, AnswerRun, ""},
		{"an effect of the same input is in doubt", statusOf(StatusFailedRetryable, withEffect(EffectSent)), later, nil, AnswerRun, ""},
		{"S41 SUCCEEDED", statusOf(StatusSucceeded, stale), later, func(g *Grant) { g.Revision = 1 }, AnswerDuplicate, ""},
		{"S41 SUCCEEDED with another input", statusOf(StatusSucceeded, func(r *Record) { r.InputDigest = "d2" }), later, nil, "", "another input of this business has succeeded"},
		{"OUTCOME_UNKNOWN", statusOf(StatusOutcomeUnknown), later, nil, "", "a person has to say first"},
		{"a live lease", statusOf(StatusRunning), lease, nil, "", "holds the lease until 2026-03-01T08:01:30Z"},
		{"a lease without an end", statusOf(StatusRunning, func(r *Record) { r.LeaseUntil = time.Time{} }), later, nil, "", "holds the lease"},
		{"before not_before", statusOf(StatusFailedRetryable, func(r *Record) { r.NotBefore = milli(later) }), later.Add(-time.Millisecond), nil, "", "not be tried before 2026-03-01T09:00:00Z"},
		{"a revision that moved on", statusOf(StatusFailedFinal), later, func(g *Grant) { g.Revision-- }, "", "moved on"},
		{"a record where the plan saw none", statusOf(StatusFailedFinal), later, func(g *Grant) { *g = Grant{Batch: "rp-1"} }, "", "moved on"},
		{"a digest that the plan does not name", statusOf(StatusFailedFinal), later, func(g *Grant) { g.RecordDigest = "d9" }, "", "another input than the plan names"},
		{"S17 a newer record version", statusOf(StatusFailedFinal, func(r *Record) { r.RecordVersion = 2 }), later, nil, AnswerUnreadable, ""},
		{"S17 an unknown status", statusOf("PAUSED"), later, nil, AnswerUnreadable, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			stored := running(t)
			c.stored(&stored)
			before := stored
			claim, g := claimOf(ownerB, c.now), grantOf(stored)
			if c.grant != nil {
				c.grant(&g)
			}
			answer, next, err := DefaultPolicy().Replay(&stored, claim, g)
			if diff := cmp.Diff(before, stored); diff != "" {
				t.Errorf("the stored record was changed in place:\n%s", diff)
			}
			if c.why != "" {
				if !isRefusal(err) || !strings.Contains(err.Error(), c.why) {
					t.Fatalf("got %q %v, want a refusal with %q", answer, err, c.why)
				}
				return
			}
			if err != nil || answer != c.want {
				t.Fatalf("got %q %v, want %q", answer, err, c.want)
			}
			if answer != AnswerRun {
				if diff := cmp.Diff(before, next); diff != "" {
					t.Errorf("an answer without a write changed the record:\n%s", diff)
				}
				return
			}
			want := before
			want.ReplayBatchID, want.Abandoned, want.AttemptBudget = "rp-1", false, before.Attempt+2
			wantRun(t, want, next, claim)
			if left := next.AttemptBudget - before.Attempt; left != 2 {
				t.Errorf("%d attempts are granted, want 2", left)
			}
		})
	}
}

func TestReplayWithoutARecordIsAFirstClaimThatNamesItsPlan(t *testing.T) {
	p, c := DefaultPolicy(), claimOf(ownerA, start)
	answer, next, err := p.Replay(nil, c, Grant{Batch: "rp-1"})
	want := p.First(c)
	want.ReplayBatchID = "rp-1"
	if err != nil || answer != AnswerRun || !cmp.Equal(want, next) {
		t.Errorf("got %q %v\n%s", answer, err, cmp.Diff(want, next))
	}
	if answer, _, err := p.Replay(nil, c, Grant{Batch: "rp-1", Revision: 3, RecordDigest: testDigest}); !isRefusal(err) {
		t.Errorf("a record that is gone: got %q %v", answer, err)
	}
}

func TestS44_AMigratedChildPutsItsInputInThePlaceOfTheOldOne(t *testing.T) {
	p := DefaultPolicy()
	child := claimOf(ownerB, start.Add(time.Hour))
	child.InputDigest, child.Effects = "d2", []TaskEffect{{Name: "notice", Key: "new", Kind: TargetIdempotent}}
	for _, state := range []EffectState{"", EffectRefused, EffectSent, EffectUnknown, EffectSettled} {
		t.Run("effect "+string(state), func(t *testing.T) {
			stored := running(t)
			statusOf(StatusFailedFinal, withEffect(state))(&stored)
			stored.SupersededDigests = []string{"d0"}
			answer, next, err := p.Replay(&stored, child, grantOf(stored))
			if state != "" && state != EffectRefused {
				if !isRefusal(err) {
					t.Errorf("got %q %v", answer, err)
				}
				return
			}
			if err != nil || answer != AnswerRun {
				t.Fatal(answer, err)
			}
			if next.InputDigest != "d2" || strings.Join(next.SupersededDigests, ",") != "d0,d1" || next.EffectsOpen || next.Effects[0].Key != "new" {
				t.Errorf("got %+v", next)
			}
			late, _ := p.Deliver(next, claimOf(ownerC, start.Add(9*time.Hour)))
			if late != AnswerSuperseded {
				t.Errorf("the parent's late delivery: %q", late)
			}
		})
	}
	stored := running(t)
	statusOf(StatusFailedFinal)(&stored)
	stored.SupersededDigests = []string{"d2"}
	if answer, _, err := p.Replay(&stored, child, grantOf(stored)); !isRefusal(err) {
		t.Errorf("an input that was replaced before comes back: %q %v", answer, err)
	}
}

func TestAbandonEndsWhatNobodyWillBringBack(t *testing.T) {
	p, later := DefaultPolicy(), start.Add(time.Hour)
	for _, c := range []struct {
		name   string
		stored func(*Record)
		now    time.Time
		why    string
	}{
		{"RECEIVED", statusOf(StatusReceived), later, ""},
		{"FAILED_RETRYABLE", statusOf(StatusFailedRetryable, func(r *Record) { r.NotBefore = milli(later.Add(time.Hour)) }), later, ""},
		{"FAILED_FINAL", statusOf(StatusFailedFinal), later, ""},
		{"RUNNING, expired", statusOf(StatusRunning), later, ""},
		{"an effect is REFUSED", statusOf(StatusFailedFinal, withEffect(EffectRefused)), later, ""},
		{"an effect is SETTLED", statusOf(StatusFailedFinal, withEffect(EffectSettled)), later, ""},
		{"a live lease", statusOf(StatusRunning), start, "holds the lease until"},
		{"SUCCEEDED", statusOf(StatusSucceeded), later, "has succeeded"},
		{"OUTCOME_UNKNOWN", statusOf(StatusOutcomeUnknown), later, "a person has to say"},
		{"an effect is SENT", statusOf(StatusFailedRetryable, withEffect(EffectSent)), later, "a person has to say"},
		{"an effect is UNKNOWN", statusOf(StatusFailedFinal, withEffect(EffectUnknown)), later, "a person has to say"},
		{"another input", statusOf(StatusFailedFinal, func(r *Record) { r.InputDigest = "d2" }), later, "another input"},
	} {
		t.Run(c.name, func(t *testing.T) {
			stored := running(t)
			c.stored(&stored)
			next, changed, err := p.Abandon(stored, testDigest, ownerB, c.now)
			if c.why != "" {
				if !isRefusal(err) || !strings.Contains(err.Error(), c.why) {
					t.Errorf("got %v, want %q", err, c.why)
				}
				return
			}
			if err != nil || !changed {
				t.Fatal(changed, err)
			}
			wantStep(t, stored, next, c.now)
			want := stored
			want.Status, want.Abandoned, want.Owner, want.LeaseUntil, want.NotBefore = StatusFailedFinal, true, ownerB, time.Time{}, time.Time{}
			want.Revision, want.History, want.UpdatedAt, want.ExpiresAt = next.Revision, next.History, next.UpdatedAt, next.ExpiresAt
			if diff := cmp.Diff(want, next); diff != "" {
				t.Error(diff)
			}
			if answer, _ := p.Deliver(next, claimOf(ownerC, later.Add(time.Hour))); answer != AnswerAbandoned {
				t.Errorf("the next delivery: %q", answer)
			}
			if again, changed, err := p.Abandon(next, testDigest, ownerC, later); err != nil || changed || !cmp.Equal(again, next) {
				t.Errorf("again: %v %v", changed, err)
			}
		})
	}
}

func TestUseNewOpensAnAbandonedTaskForGood(t *testing.T) {
	p := DefaultPolicy()
	stored := running(t)
	statusOf(StatusFailedFinal, func(r *Record) { r.Abandoned = true })(&stored)
	next, err := p.UseNew(stored, Review{ID: "review-of-a-conflict", RecordDigest: testDigest, EventDigest: "d2"}, start)
	if err != nil || next.Abandoned {
		t.Errorf("got %+v %v", next, err)
	}
}

func TestReopenWhoseAnswerIsLostIsRecognised(t *testing.T) {
	for _, first := range []bool{true, false} {
		op := map[bool]string{true: "PutRow", false: "UpdateRow"}[first]
		for _, phase := range []cloudtest.Phase{cloudtest.Before, cloudtest.After} {
			for _, f := range lostAnswers(op, phase) {
				t.Run(fmt.Sprintf("first %v %s", first, faultName(f)), func(t *testing.T) {
					s := newStand(t)
					var stored *Record
					g, now := Grant{Batch: "rp-1"}, start
					if !first {
						r := s.claim(ownerA, start, false)
						stored, g, now = &r, grantOf(r), start.Add(time.Hour)
					}
					_, next, err := s.table.PlanReplay(stored, claimOf(ownerB, now), g)
					if err != nil {
						t.Fatal(err)
					}
					s.srv.Faults.Add(f)
					got, err := s.table.Reopen(t.Context(), stored, next)
					if phase == cloudtest.Before {
						if !errors.Is(err, ErrUnavailable) {
							t.Fatalf("got %v", err)
						}
						if got, err = s.table.Reopen(t.Context(), stored, next); err != nil {
							t.Fatal(err)
						}
					}
					if diff := cmp.Diff(got, s.stored()); err != nil || diff != "" || got.Owner != ownerB || got.ReplayBatchID != "rp-1" {
						t.Errorf("got %+v %v\n%s", got, err, diff)
					}
					if got, err := s.table.Reopen(t.Context(), stored, func() Record { n := next; n.Owner = ownerC; return n }()); !errors.Is(err, ErrNotOwner) || got.Owner != ownerB {
						t.Errorf("a second copy opens it too: %+v %v", got, err)
					}
				})
			}
		}
	}
}
