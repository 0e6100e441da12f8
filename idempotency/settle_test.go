package idempotency

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCompleteStoresTheResultAndClearsTheError(t *testing.T) {
	r := running(t)
	if r.LastErrorCode == "" {
		t.Fatal("the fixture has no error to clear")
	}
	now := start.Add(time.Minute)
	next, err := DefaultPolicy().Complete(r, ownerA, now, refOfAttempt("s"))
	if err != nil {
		t.Fatal(err)
	}
	wantStep(t, r, next, now)
	want := r
	want.Status, want.OutputRef, want.ResultRef, want.LeaseUntil = StatusSucceeded, refOfAttempt("s"), refOfAttempt("s"), time.Time{}
	want.LastErrorCode, want.LastErrorTarget, want.LastErrorSummary = "", "", ""
	want.Revision, want.History, want.UpdatedAt, want.ExpiresAt = next.Revision, next.History, next.UpdatedAt, next.ExpiresAt
	if diff := cmp.Diff(want, next); diff != "" {
		t.Error(diff)
	}
}

func TestCompleteNeedsAStoredOutput(t *testing.T) {
	for name, ref := range map[string]Ref{"nothing": {}, "no hash": {Object: "o"}, "no name": {SHA256: "s"}} {
		if next, err := DefaultPolicy().Complete(running(t), ownerA, start, ref); err == nil || errors.Is(err, ErrNotOwner) || next.Status != "" {
			t.Errorf("%s: got %v %v", name, next.Status, err)
		}
	}
}

func TestOnlyTheOwnerOfARunningRecordSettlesIt(t *testing.T) {
	p := DefaultPolicy()
	settle := map[string]func(Record, string) (Record, error){
		"complete": func(r Record, owner string) (Record, error) {
			return p.Complete(r, owner, start, refOfAttempt("s"))
		},
		"fail": func(r Record, owner string) (Record, error) {
			return p.Fail(r, owner, start, Failure{Code: CodeTimeout})
		},
	}
	for verb, do := range settle {
		t.Run("S5 "+verb+" by another owner", func(t *testing.T) {
			if next, err := do(running(t), ownerB); !errors.Is(err, ErrNotOwner) || next.Status != "" {
				t.Errorf("got %v %v", next.Status, err)
			}
		})
		for _, status := range []Status{StatusReceived, StatusSucceeded, StatusFailedRetryable, StatusFailedFinal, StatusOutcomeUnknown, "PAUSED"} {
			t.Run("S5 "+verb+" once the record is "+string(status), func(t *testing.T) {
				r := running(t)
				r.Status = status
				if next, err := do(r, ownerA); !errors.Is(err, ErrNotOwner) || next.Status != "" {
					t.Errorf("got %v %v", next.Status, err)
				}
			})
		}
	}
}

func TestFailGoesByClassAndBudget(t *testing.T) {
	for _, c := range []struct {
		name    string
		code    Code
		attempt int64
		earlier Code // of a failed attempt before
		want    Status
	}{
		{"retryable with budget left", CodeTimeout, 2, "", StatusFailedRetryable},
		{"retryable with budget left", CodeRateLimited, 5, CodeTimeout, StatusFailedRetryable},
		{"retryable with budget left", CodeTemporaryUnavailable, 2, "", StatusFailedRetryable},
		{"retryable in the last attempt", CodeTemporaryUnavailable, 6, "", StatusFailedFinal},
		{"retryable beyond the budget", CodeTemporaryUnavailable, 7, "", StatusFailedFinal},
		{"final", CodeInvalidRequest, 1, "", StatusFailedFinal},
		{"final", CodePermissionDenied, 1, "", StatusFailedFinal},
		{"final", CodePolicyRejected, 1, "", StatusFailedFinal},
		{"final", CodeTargetNotFound, 1, "", StatusFailedFinal},
		{"unclassified once", CodeUnclassified, 1, "", StatusFailedRetryable},
		{"unclassified after another class", CodeUnclassified, 3, CodeTimeout, StatusFailedRetryable},
		{"unclassified twice", CodeUnclassified, 3, CodeUnclassified, StatusFailedFinal},
		{"a code outside the set once", "odd", 1, "", StatusFailedRetryable},
		{"a code outside the set after an unclassified one", "odd", 2, CodeUnclassified, StatusFailedFinal},
		{"another class after unclassified", CodeTimeout, 2, CodeUnclassified, StatusFailedRetryable},
	} {
		t.Run(c.name+" "+string(c.code), func(t *testing.T) {
			r := running(t)
			r.Attempt = c.attempt
			r.History = []Step{{1, StatusRunning, 1, 1, "", "run/x"}}
			if c.earlier != "" {
				r.History = append(r.History, Step{2, StatusFailedRetryable, 1, 1, c.earlier, "run/x"}, Step{3, StatusRunning, 2, 1, "", "run/x"})
			}
			now := start.Add(time.Minute)
			next, err := DefaultPolicy().Fail(r, ownerA, now, Failure{Code: c.code, Target: "model:m", Summary: "HTTP 500"})
			if err != nil {
				t.Fatal(err)
			}
			wantStep(t, r, next, now)
			if next.Status != c.want || next.Attempt != c.attempt || !next.LeaseUntil.IsZero() {
				t.Errorf("got %s, attempt %d, lease %v", next.Status, next.Attempt, next.LeaseUntil)
			}
			if next.LastErrorCode != c.code || next.LastErrorTarget != "model:m" || next.LastErrorSummary != "HTTP 500" ||
				next.History[len(next.History)-1].Code != c.code {
				t.Errorf("got %+v", next)
			}
			if (c.want == StatusFailedFinal) != next.NotBefore.IsZero() {
				t.Errorf("%s has not_before %v", next.Status, next.NotBefore)
			}
		})
	}
}

func TestFailWaitsForBackoffOrRetryAfterWhicheverIsLonger(t *testing.T) {
	for _, c := range []struct {
		name       string
		attempt    int64
		retryAfter time.Duration
		want       time.Duration
	}{
		{"nothing asked", 2, 0, 40 * time.Second},
		{"S45 a longer Retry-After wins", 2, 41 * time.Second, 41 * time.Second},
		{"a shorter Retry-After loses", 2, 39 * time.Second, 40 * time.Second},
		{"Retry-After may exceed the back-off's hour", 5, 2 * time.Hour, 2 * time.Hour},
		{"Retry-After is capped at a day", 1, 1000 * time.Hour, 24 * time.Hour},
		{"a negative Retry-After is nothing", 1, -time.Hour, 10 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := running(t)
			r.Attempt = c.attempt
			next, err := DefaultPolicy().Fail(r, ownerA, start, Failure{Code: CodeRateLimited, RetryAfter: c.retryAfter})
			if err != nil || !next.NotBefore.Equal(milli(start.Add(c.want))) {
				t.Errorf("got %v %v, want %v", next.NotBefore.Sub(milli(start)), err, c.want)
			}
		})
	}
}

func TestFailKeepsTwoHundredBytesOfSummary(t *testing.T) {
	next, err := DefaultPolicy().Fail(running(t), ownerA, start, Failure{Code: CodeTimeout, Summary: strings.Repeat("x", 300)})
	if err != nil || len(next.LastErrorSummary) != 200 {
		t.Errorf("got %d bytes, %v", len(next.LastErrorSummary), err)
	}
}

func TestLandedRecognisesAWriteByWhatItLeft(t *testing.T) {
	p := DefaultPolicy()
	wrote := running(t)
	done, err := p.Complete(wrote, ownerA, start, refOfAttempt("s"))
	if err != nil {
		t.Fatal(err)
	}
	_, taken := p.Deliver(wrote, claimOf(ownerB, start.Add(time.Hour)))
	edited := func(edit func(*Record)) Record { r := wrote; r.History = slices.Clone(r.History); edit(&r); return r }
	far := taken
	far.AttemptBudget = 1000
	for i := range 60 {
		_, far = p.Deliver(far, claimOf(ownerC, start.Add(time.Duration(i+2)*time.Hour)))
	}
	for _, c := range []struct {
		name            string
		stored          Record
		landed, current bool
	}{
		{"it is the present state", wrote, true, true},
		{"its owner has moved on", done, true, false},
		{"another owner has moved on", taken, true, false},
		{"another owner wrote the same revision", edited(func(r *Record) { r.Owner = ownerB }), false, false},
		{"the owner wrote another status", edited(func(r *Record) { r.Status = StatusFailedFinal }), false, false},
		{"the owner wrote another attempt", edited(func(r *Record) { r.Attempt++ }), false, false},
		{"the row is older than the write", edited(func(r *Record) { r.Revision--; r.History = r.History[:len(r.History)-1] }), false, false},
		{"somebody else's step has the write's revision", func() Record {
			_, other := p.Deliver(edited(func(r *Record) { r.Revision--; r.History = r.History[:len(r.History)-1] }), claimOf(ownerB, start.Add(time.Hour)))
			_, other = p.Deliver(other, claimOf(ownerC, start.Add(5*time.Hour)))
			return other
		}(), false, false},
		{"the owner's step was another", func() Record {
			_, later := p.Deliver(edited(func(r *Record) { r.History[len(r.History)-1].Status = StatusFailedRetryable }), claimOf(ownerB, start.Add(time.Hour)))
			return later
		}(), false, false},
		{"the history has dropped the step", far, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if landed, current := Landed(c.stored, wrote); landed != c.landed || current != c.current {
				t.Errorf("got %v %v, want %v %v", landed, current, c.landed, c.current)
			}
		})
	}
}
