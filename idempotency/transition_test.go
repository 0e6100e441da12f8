package idempotency

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// running is a record in its second attempt, held by A until one and a half
// minutes after start.
func running(t *testing.T) Record {
	t.Helper()
	p := DefaultPolicy()
	r, err := p.Fail(p.First(claimOf(ownerC, start.Add(-time.Hour))), ownerC, start.Add(-time.Hour), Failure{Code: CodeRateLimited, Target: "model:m"})
	if err != nil {
		t.Fatal(err)
	}
	answer, r := p.Deliver(r, claimOf(ownerA, start))
	if answer != AnswerRun {
		t.Fatal(answer)
	}
	return r
}

func TestDeliverAnswersByStatusDigestAndTime(t *testing.T) {
	lease := milli(start.Add(90 * time.Second))
	with := func(edit func(*Record)) func(*Record) { return edit }
	status := func(s Status) func(*Record) {
		return func(r *Record) { r.Status, r.LeaseUntil = s, time.Time{} }
	}
	retryable := func(notBefore time.Time) func(*Record) {
		return func(r *Record) { status(StatusFailedRetryable)(r); r.NotBefore = notBefore }
	}
	later := start.Add(time.Hour)
	for _, c := range []struct {
		name   string
		stored func(*Record)
		now    time.Time
		digest string
		want   Answer
	}{
		{"SUCCEEDED answers with the stored result", status(StatusSucceeded), later, "", AnswerDuplicate},
		{"FAILED_FINAL stays final", status(StatusFailedFinal), later, "", AnswerFinal},
		{"OUTCOME_UNKNOWN waits for a person", status(StatusOutcomeUnknown), later, "", AnswerOutcomeUnknown},
		{"RECEIVED runs", status(StatusReceived), later, "", AnswerRun},
		{"S1 RUNNING with a live lease is in progress", with(func(*Record) {}), start.Add(time.Second), "", AnswerInProgress},
		{"the lease still holds at its very end", with(func(*Record) {}), lease, "", AnswerInProgress},
		{"the lease is over right after its end", with(func(*Record) {}), lease.Add(time.Nanosecond), "", AnswerRun},
		{"S3 RUNNING without a lease end is never taken over", with(func(r *Record) { r.LeaseUntil = time.Time{} }), start.AddDate(5, 0, 0), "", AnswerInProgress},
		{"S15 FAILED_RETRYABLE right before not_before is too early", retryable(later), later.Add(-time.Nanosecond), "", AnswerTooEarly},
		{"FAILED_RETRYABLE runs at its not_before", retryable(later), later, "", AnswerRun},
		{"FAILED_RETRYABLE without a not_before runs", retryable(time.Time{}), later, "", AnswerRun},
		{"RUNNING, expired, no budget is exhausted", with(func(r *Record) { r.AttemptBudget = 2 }), later, "", AnswerExhausted},
		{"FAILED_RETRYABLE, no budget is exhausted", with(func(r *Record) { retryable(start)(r); r.AttemptBudget = 2 }), later, "", AnswerExhausted},
		{"RECEIVED, no budget is exhausted", with(func(r *Record) { status(StatusReceived)(r); r.AttemptBudget = 2 }), later, "", AnswerExhausted},
		{"too early is not exhausted yet", with(func(r *Record) { retryable(later)(r); r.AttemptBudget = 2 }), start, "", AnswerTooEarly},
		{"a live lease is not exhausted yet", with(func(r *Record) { r.AttemptBudget = 2 }), start, "", AnswerInProgress},

		{"S23 another digest beside SUCCEEDED", status(StatusSucceeded), later, "d2", AnswerConflict},
		{"S23 another digest beside FAILED_FINAL", status(StatusFailedFinal), later, "d2", AnswerConflict},
		{"S23 another digest beside OUTCOME_UNKNOWN", status(StatusOutcomeUnknown), later, "d2", AnswerConflict},
		{"S23 another digest beside RECEIVED", status(StatusReceived), later, "d2", AnswerConflict},
		{"S23 another digest beside FAILED_RETRYABLE", retryable(start), later, "d2", AnswerConflict},
		{"S23 another digest in a takeover", with(func(*Record) {}), later, "d2", AnswerConflict},
		{"S23 another digest beside a live lease", with(func(*Record) {}), start, "d2", AnswerConflict},
		{"S38 a superseded digest is quiet", with(func(r *Record) { status(StatusSucceeded)(r); r.SupersededDigests = []string{"d0", "d2"} }), later, "d2", AnswerSuperseded},
		{"S38 a superseded digest is quiet in a takeover too", with(func(r *Record) { r.SupersededDigests = []string{"d2"} }), later, "d2", AnswerSuperseded},

		{"S17 a newer record version", with(func(r *Record) { r.RecordVersion = 2 }), later, "", AnswerUnreadable},
		{"S17 a missing record version", with(func(r *Record) { r.RecordVersion = 0 }), later, "", AnswerUnreadable},
		{"S17 an unknown status", status("PAUSED"), later, "", AnswerUnreadable},
		{"S17 no status", status(""), later, "", AnswerUnreadable},
		{"S17 unreadable comes before conflict", with(func(r *Record) { r.RecordVersion = 2 }), later, "d2", AnswerUnreadable},
	} {
		t.Run(c.name, func(t *testing.T) {
			stored := running(t)
			c.stored(&stored)
			before := stored
			before.History = append([]Step(nil), stored.History...)
			claim := claimOf(ownerB, c.now)
			if c.digest != "" {
				claim.InputDigest = c.digest
			}
			answer, next := DefaultPolicy().Deliver(stored, claim)
			if answer != c.want {
				t.Fatalf("got %q, want %q", answer, c.want)
			}
			if diff := cmp.Diff(before, stored); diff != "" {
				t.Errorf("the stored record was changed in place:\n%s", diff)
			}
			switch answer {
			case AnswerRun:
				wantRun(t, stored, next, claim)
			case AnswerExhausted:
				wantStep(t, stored, next, claim.Now)
			default:
				if diff := cmp.Diff(stored, next); diff != "" {
					t.Errorf("an answer without a write changed the record:\n%s", diff)
				}
			}
		})
	}
}

// wantStep checks what every transition has in common.
func wantStep(t *testing.T, before, next Record, now time.Time) {
	t.Helper()
	if next.Revision != before.Revision+1 {
		t.Errorf("revision %d after %d", next.Revision, before.Revision)
	}
	if len(next.History) != len(before.History)+1 {
		t.Fatalf("%d steps after %d", len(next.History), len(before.History))
	}
	last := next.History[len(next.History)-1]
	want := Step{next.Revision, next.Status, next.Attempt, now.UnixMilli(), last.Code, "run/" + next.Owner[:12]}
	if last != want {
		t.Errorf("last step %+v, want %+v", last, want)
	}
	if !next.UpdatedAt.Equal(milli(now)) || !next.ExpiresAt.Equal(milli(now.Add(90*24*time.Hour))) {
		t.Errorf("updated %v, expires %v", next.UpdatedAt, next.ExpiresAt)
	}
}

func wantRun(t *testing.T, before, next Record, c Claim) {
	t.Helper()
	wantStep(t, before, next, c.Now)
	want := before
	want.Status, want.Owner, want.Attempt = StatusRunning, c.Owner, before.Attempt+1
	want.LeaseUntil, want.NotBefore, want.LastAttemptAt = milli(c.Deadline.Add(30*time.Second)), time.Time{}, milli(c.Now)
	want.EventID, want.TraceID = c.EventID, c.TraceID
	want.Revision, want.History, want.UpdatedAt, want.ExpiresAt = next.Revision, next.History, next.UpdatedAt, next.ExpiresAt
	if diff := cmp.Diff(want, next); diff != "" {
		t.Errorf("a run changes more than it should:\n%s", diff)
	}
}

func TestExhaustedKeepsTheLastErrorsCode(t *testing.T) {
	p := DefaultPolicy()
	for _, c := range []struct {
		name         string
		code         Code
		target       string
		want         Code
		wantedTarget string
	}{
		{"a run that left an error", CodeRateLimited, "model:m", CodeRateLimited, "model:m"},
		{"a run that died without a word", "", "", CodeTimeout, "fc:orders"},
	} {
		t.Run(c.name, func(t *testing.T) {
			stored := running(t)
			stored.AttemptBudget, stored.LastErrorCode, stored.LastErrorTarget = stored.Attempt, c.code, c.target
			answer, next := p.Deliver(stored, claimOf(ownerB, start.Add(time.Hour)))
			if answer != AnswerExhausted || next.Status != StatusFailedFinal || next.Attempt != stored.Attempt || !next.LeaseUntil.IsZero() {
				t.Fatalf("got %q %+v", answer, next)
			}
			if next.LastErrorCode != c.want || next.LastErrorTarget != c.wantedTarget || next.History[len(next.History)-1].Code != c.want {
				t.Errorf("got %s %s, last step %+v", next.LastErrorCode, next.LastErrorTarget, next.History[len(next.History)-1])
			}
		})
	}
}

func TestFirstClaimRunsAttemptOne(t *testing.T) {
	c := claimOf(ownerA, start)
	got := DefaultPolicy().First(c)
	now := milli(start)
	want := Record{
		Key: testKey.Hex, RecordVersion: 1, Status: StatusRunning, Revision: 1, Attempt: 1, AttemptBudget: 6,
		History:    []Step{{1, StatusRunning, 1, now.UnixMilli(), "", "run/aaaaaaaaaaaa"}},
		LeaseUntil: now.Add(90 * time.Second), Owner: ownerA, KeyFields: testKey.Canonical, InputDigest: testDigest,
		Flow: "summary", Environment: "prod", Source: "shop", EventID: c.EventID, TraceID: c.TraceID, ConsumerVersion: "7", ProcessorVersion: "p1",
		FirstReceivedAt: now, LastAttemptAt: now, UpdatedAt: now, ExpiresAt: now.Add(90 * 24 * time.Hour),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParkedRecordHasRunNothingYet(t *testing.T) {
	p := DefaultPolicy()
	parked := p.Park(claimOf(ownerA, start))
	if parked.Status != StatusReceived || parked.Attempt != 0 || parked.Revision != 1 || !parked.LeaseUntil.IsZero() || !parked.LastAttemptAt.IsZero() {
		t.Errorf("got %+v", parked)
	}
	if len(parked.History) != 1 || parked.History[0].Status != StatusReceived || parked.History[0].Revision != 1 {
		t.Errorf("history %+v", parked.History)
	}
	answer, next := p.Deliver(parked, claimOf(ownerB, start.Add(time.Second)))
	if answer != AnswerRun || next.Attempt != 1 || next.Revision != 2 || next.AttemptBudget != 6 {
		t.Errorf("the next delivery: %q %+v", answer, next)
	}
}

func TestLeaseLastsUntilTheDeadlineAndTheMargin(t *testing.T) {
	p := DefaultPolicy()
	for _, c := range []struct {
		name     string
		deadline time.Time
		want     time.Duration
	}{
		{"with a deadline", start.Add(300 * time.Second), 330 * time.Second},
		{"S3 without one the default lease holds", time.Time{}, 60 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			claim := claimOf(ownerA, start)
			claim.Deadline = c.deadline
			if got := p.First(claim).LeaseUntil; !got.Equal(milli(start.Add(c.want))) {
				t.Errorf("lease until %v", got.Sub(start))
			}
		})
	}
}

func TestBackoffIsTenSecondsTimesFourUpToAnHour(t *testing.T) {
	p := DefaultPolicy()
	for attempt, want := range map[int64]time.Duration{
		0: 10 * time.Second, 1: 10 * time.Second, 2: 40 * time.Second, 3: 160 * time.Second, 4: 640 * time.Second,
		5: 2560 * time.Second, 6: time.Hour, 7: time.Hour, 1000: time.Hour, 1 << 40: time.Hour,
	} {
		t.Run(fmt.Sprint(attempt), func(t *testing.T) {
			if got := p.Backoff(attempt); got != want {
				t.Errorf("got %v, want %v", got, want)
			}
		})
	}
	p.BackoffBase, p.BackoffMax = time.Minute, time.Second
	if got := p.Backoff(1); got != time.Second {
		t.Errorf("a base above the maximum: %v", got)
	}
}

func TestHistoryKeepsTheLastFortySteps(t *testing.T) {
	p := DefaultPolicy()
	r := p.First(claimOf(ownerA, start))
	r.AttemptBudget = 1000
	now := start
	for range 100 {
		now = now.Add(time.Hour)
		_, next := p.Deliver(r, claimOf(ownerB, now))
		if next.Revision != r.Revision+1 {
			t.Fatalf("revision %d after %d", next.Revision, r.Revision)
		}
		r = next
	}
	if len(r.History) != 40 {
		t.Fatalf("%d steps", len(r.History))
	}
	for i, s := range r.History {
		if want := r.Revision - 39 + int64(i); s.Revision != want {
			t.Fatalf("step %d has revision %d, want %d", i, s.Revision, want)
		}
	}
}
