package idempotency

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// knowing is a running task that knows two effects in these states.
func knowing(first, second EffectState) Record {
	r := taskOf(ownerA, 1)
	r.Effects = []TaskEffect{{Name: "notice", Key: "k1", State: first}, {Name: "entry", Key: "k2", State: second}}
	return r
}

var everyState = append([]EffectState{""}, effectStates...)

func eachPair(t *testing.T, test func(t *testing.T, first, second EffectState)) {
	for _, first := range everyState {
		for _, second := range everyState {
			t.Run(fmt.Sprintf("%q and %q", first, second), func(t *testing.T) { test(t, first, second) })
		}
	}
}

func either(first, second EffectState, want ...EffectState) bool {
	for _, s := range want {
		if first == s || second == s {
			return true
		}
	}
	return false
}

func TestTaskSucceedsOnlyWhenEveryEffectIsSettled(t *testing.T) {
	eachPair(t, func(t *testing.T, first, second EffectState) {
		got, err := DefaultPolicy().Complete(knowing(first, second), ownerA, start, refOfAttempt("s"))
		if ok := first == EffectSettled && second == EffectSettled; (err == nil) != ok || ok && got.Status != StatusSucceeded {
			t.Errorf("got %s %v", got.Status, err)
		}
	})
}

func TestTaskEndsOnlyWhenNoRequestMayHaveArrived(t *testing.T) {
	eachPair(t, func(t *testing.T, first, second EffectState) {
		for _, c := range []struct {
			code   Code
			budget int64
		}{{CodeInvalidRequest, 6}, {CodeTimeout, 1}} {
			r := knowing(first, second)
			r.AttemptBudget = c.budget
			got, err := DefaultPolicy().Fail(r, ownerA, start, Failure{Code: c.code, Window: time.Hour})
			want := StatusFailedFinal
			if either(first, second, EffectSent) || either(first, second, EffectUnknown) {
				want = StatusFailedRetryable
			}
			if err != nil || got.Status != want || got.LastErrorCode != c.code {
				t.Errorf("%s: got %s %v, want %s", c.code, got.Status, err, want)
			}
			if want == StatusFailedRetryable && !got.NotBefore.Equal(milli(start.Add(time.Hour))) {
				t.Errorf("not before %s, and the window needs an hour", got.NotBefore)
			}
		}
	})
}

func TestTaskWaitsForAPersonOnlyWithADoubt(t *testing.T) {
	p := DefaultPolicy()
	f := Failure{Code: CodeUnclassified, Target: "effect:notice", Summary: strings.Repeat("x", 500)}
	eachPair(t, func(t *testing.T, first, second EffectState) {
		doubt := either(first, second, EffectUnknown)
		r := knowing(first, second)
		got, err := p.Unknown(r, ownerA, start, f)
		if (err == nil) != doubt {
			t.Fatalf("got %v", err)
		}
		if doubt {
			wantStep(t, r, got, start)
			if got.Status != StatusOutcomeUnknown || !got.LeaseUntil.IsZero() || got.LastErrorTarget != "effect:notice" || len(got.LastErrorSummary) > maxSummary {
				t.Errorf("got %+v", got)
			}
		}
		c := claimOf(ownerB, start.Add(time.Hour))
		got = p.Exhausted(taskOf(ownerA, 6), c, r.Effects)
		want := StatusFailedFinal
		if doubt {
			want = StatusOutcomeUnknown
		}
		if got.Status != want || got.Owner != ownerB || !got.LeaseUntil.IsZero() || got.Revision != 2 || got.Attempt != 6 || !cmp.Equal(got.Effects, r.Effects) {
			t.Errorf("exhausted: got %+v", got)
		}
	})
	for name, r := range map[string]Record{"another owner's": knowing(EffectUnknown, ""), "not running": {Status: StatusFailedFinal, Owner: ownerB}} {
		if _, err := p.Unknown(r, ownerB, start, f); err == nil {
			t.Errorf("a record that is %s was changed", name)
		}
	}
}

func TestAnswerLetsTheTaskGoOn(t *testing.T) {
	p, now := DefaultPolicy(), start.Add(time.Hour)
	review := outcomeOf(ResolvedDone)
	eachPair(t, func(t *testing.T, first, second EffectState) {
		for _, status := range statuses {
			r := knowing(first, second)
			r.Status, r.Attempt, r.LeaseUntil = status, 4, time.Time{}
			got, err := p.Resolved(r, review, now)
			if ok := status == StatusOutcomeUnknown && !either(first, second, EffectUnknown); (err == nil) != ok {
				t.Fatalf("%s: got %v", status, err)
			}
			if err == nil {
				wantAgain(t, r, got, review, now)
			}
		}
	})
}

func wantAgain(t *testing.T, before, got Record, review Review, now time.Time) {
	t.Helper()
	wantStep(t, before, got, now)
	if got.Status != StatusFailedRetryable || got.Attempt != before.Attempt || got.AttemptBudget != before.Attempt+2 || !got.NotBefore.Equal(milli(now)) ||
		!got.LeaseUntil.IsZero() || got.Reviewer != review.Reviewer || got.Owner != review.ID {
		t.Errorf("got %+v", got)
	}
	c := claimOf(ownerB, now)
	c.InputDigest = got.InputDigest
	if answer, next := DefaultPolicy().Deliver(got, c); answer != AnswerRun || next.Attempt != before.Attempt+1 {
		t.Errorf("the next delivery meets %s", answer)
	}
}

func TestUseNewIsRefusedWhereSomethingMayHaveHappened(t *testing.T) {
	p, now := DefaultPolicy(), start.Add(time.Hour)
	review := conflictOf("d2")
	review.Reviewer = "li"
	eachPair(t, func(t *testing.T, first, second EffectState) {
		for _, status := range append([]Status{"PAUSED"}, statuses...) {
			for name, lease := range map[string]time.Time{"no lease": {}, "a live lease": now, "a dead lease": now.Add(-time.Millisecond)} {
				r := knowing(first, second)
				r.Status, r.LeaseUntil = status, lease
				got, err := p.UseNew(r, review, now)
				allowed := !either(first, second, EffectSent, EffectUnknown, EffectSettled)
				switch status {
				case StatusReceived, StatusFailedRetryable, StatusFailedFinal:
				case StatusRunning:
					allowed = allowed && name == "a dead lease"
				default:
					allowed = false
				}
				if (err == nil) != allowed {
					t.Fatalf("%s with %s: got %v", status, name, err)
				}
				if err == nil {
					wantAgain(t, r, got, review, now)
					if got.InputDigest != "d2" || !cmp.Equal(got.SupersededDigests, []string{testDigest}) {
						t.Errorf("digest %s, superseded %v", got.InputDigest, got.SupersededDigests)
					}
				}
			}
		}
	})
	other := knowing("", "")
	other.Status, other.InputDigest = StatusFailedFinal, "d3"
	if _, err := p.UseNew(other, review, now); err == nil {
		t.Error("a record of a third input was given the second one")
	}
}

func TestS38_AfterUseNewTheOldInputIsSupersededAndTheEffectsAreTheNewInputs(t *testing.T) {
	p, now := DefaultPolicy(), start.Add(time.Hour)
	failed, err := p.Fail(knowing(EffectRefused, ""), ownerA, start, Failure{Code: CodeInvalidRequest})
	if err != nil {
		t.Fatal(err)
	}
	used, err := p.UseNew(failed, conflictOf("d2"), now)
	if err != nil {
		t.Fatal(err)
	}
	row, err := used.Columns()
	if err != nil {
		t.Fatal(err)
	}
	if used, err = ParseRecord(used.Key, row); err != nil || !used.EffectsOpen {
		t.Fatal(used.EffectsOpen, err)
	}
	if answer, _ := p.Deliver(used, claimOf(ownerB, now)); answer != AnswerSuperseded {
		t.Errorf("the old input meets %s", answer)
	}
	c := claimOf(ownerB, now)
	c.InputDigest, c.Effects = "d2", []TaskEffect{{Name: "other", Key: "k3", Kind: TargetOpaque}}
	answer, next := p.Deliver(used, c)
	if answer != AnswerRun || !cmp.Equal(next.Effects, c.Effects) || next.EffectsOpen {
		t.Errorf("got %s %+v", answer, next)
	}
	// Only the first claim after it writes them.
	next.LeaseUntil, c.Now, c.Effects = now, now.Add(time.Hour), nil
	if answer, next = p.Deliver(next, c); answer != AnswerRun || len(next.Effects) != 1 {
		t.Errorf("got %s %+v", answer, next.Effects)
	}
}
