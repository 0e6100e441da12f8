package idempotency

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/messages"
)

// Policy is the timing that transitions follow. Durations are positive.
type Policy struct {
	Lease         time.Duration // of a run without a deadline
	Margin        time.Duration // added to a deadline against clock skew
	BackoffBase   time.Duration // wait after the first failed attempt; four times longer after each further one
	BackoffMax    time.Duration // longest wait that back-off alone asks for
	RetryAfterMax time.Duration // longest wait that a target may ask for
	Retention     time.Duration // life of a record after its last write
}

// DefaultPolicy is what runs where nothing else is configured.
func DefaultPolicy() Policy {
	return Policy{
		Lease: 60 * time.Second, Margin: 30 * time.Second,
		BackoffBase: 10 * time.Second, BackoffMax: time.Hour, RetryAfterMax: 24 * time.Hour,
		Retention: 90 * 24 * time.Hour,
	}
}

// Backoff is the wait after a failed attempt, 1 for the first.
func (p Policy) Backoff(attempt int64) time.Duration {
	wait := p.BackoffBase
	for range attempt - 1 {
		if wait >= p.BackoffMax {
			break
		}
		wait *= 4
	}
	return min(wait, p.BackoffMax)
}

// Claim is what one run brings to the table.
type Claim struct {
	Key         Key
	InputDigest string
	Owner       string // random, of this run alone
	Now         time.Time
	// Deadline of the run; the lease lasts until then plus the margin. Zero
	// means none is known, and Policy.Lease holds.
	Deadline time.Time
	Budget   int64 // attempts that a new record gets
	KeyRule  string

	Target           string // of the fingerprint where a run dies without a word: fc:NAME
	Flow             string
	Environment      string
	Source           string
	EventID          string
	TraceID          string
	ConsumerVersion  string
	ProcessorVersion string
	Effects          []TaskEffect // declared by the flow, in order; no states

	// NoTakeover answers AnswerTakeover where the claim would take over a run
	// that died.
	NoTakeover bool
}

func (p Policy) leaseEnd(c Claim) time.Time {
	if c.Deadline.IsZero() {
		return milli(c.Now.Add(p.Lease))
	}
	return milli(c.Deadline.Add(p.Margin))
}

// Answer is what a delivery meets.
type Answer string

const (
	// AnswerRun: the record is to be written, and then the work is this run's.
	AnswerRun Answer = "run"
	// AnswerDuplicate: the business is done, the stored result holds.
	AnswerDuplicate Answer = "duplicate"
	// AnswerTakeover: a run died here, and the claim was not to take over.
	AnswerTakeover Answer = "takeover"
	// AnswerInProgress: another owner holds a live lease.
	AnswerInProgress Answer = "in_progress"
	// AnswerTooEarly: back-off is not over; the stored code answers.
	AnswerTooEarly Answer = "too_early"
	// AnswerConflict: same key, another input.
	AnswerConflict Answer = "conflict"
	// AnswerSuperseded: an input that a reviewer has replaced.
	AnswerSuperseded Answer = "superseded"
	// AnswerExhausted: no attempt is left; the letter first, then the record is to be written.
	AnswerExhausted Answer = "exhausted"
	// AnswerFinal: failed for good.
	AnswerFinal Answer = "final"
	// AnswerAbandoned: failed for good, and a person has given it up.
	AnswerAbandoned Answer = "abandoned"
	// AnswerOutcomeUnknown: a person has to say whether an effect happened.
	AnswerOutcomeUnknown Answer = "outcome_unknown"
	// AnswerUnreadable: a record of a newer version or with an unknown status.
	AnswerUnreadable Answer = "unreadable"
)

// First is the record of a first claim.
func (p Policy) First(c Claim) Record {
	now := milli(c.Now)
	r := Record{
		Key: c.Key.Hex, RecordVersion: RecordVersion, Status: StatusRunning,
		Attempt: 1, AttemptBudget: c.Budget, KeyRule: c.KeyRule, KeyFields: c.Key.Canonical, InputDigest: c.InputDigest,
		Flow: c.Flow, Environment: c.Environment, FirstReceivedAt: now, Effects: c.Effects,
	}
	return p.start(r, c)
}

// Park is the record of a first delivery while its flow is off.
func (p Policy) Park(c Claim) Record {
	r := p.First(c)
	r.Status, r.Attempt, r.LeaseUntil, r.LastAttemptAt = StatusReceived, 0, time.Time{}, time.Time{}
	r.History = nil
	r.Revision = 0
	return p.step(r, c.Now, c.Owner, "")
}

// start fills in what every run writes at its beginning.
func (p Policy) start(r Record, c Claim) Record {
	r.Status, r.Abandoned = StatusRunning, false
	r.Owner = c.Owner
	r.LeaseUntil = p.leaseEnd(c)
	r.NotBefore = time.Time{}
	r.LastAttemptAt = milli(c.Now)
	r.Source, r.EventID, r.TraceID = c.Source, c.EventID, c.TraceID
	r.ConsumerVersion, r.ProcessorVersion = c.ConsumerVersion, c.ProcessorVersion
	if r.EffectsOpen {
		// Another input holds since the last run: its effects are others.
		r.Effects, r.EffectsOpen = c.Effects, false
	}
	return p.step(r, c.Now, c.Owner, "")
}

// step closes every transition: revision, history and the times of the write.
func (p Policy) step(r Record, now time.Time, actor string, code Code) Record {
	r.Revision++
	r.UpdatedAt = milli(now)
	r.ExpiresAt = milli(now.Add(p.Retention))
	r.History = append(slices.Clone(r.History), Step{r.Revision, r.Status, r.Attempt, milli(now).UnixMilli(), code, actorOf(actor)})
	if n := len(r.History); n > maxHistory {
		r.History = r.History[n-maxHistory:]
	}
	return r
}

// actorOf shortens an owner token: enough to recognise a run in its history.
func actorOf(owner string) string {
	if len(owner) > 12 {
		owner = owner[:12]
	}
	return "run/" + owner
}

// Deliver decides what a delivery meets on a stored record. For AnswerRun and
// AnswerExhausted next is the record to write on the condition that the stored
// revision still holds; otherwise next is the stored record.
func (p Policy) Deliver(stored Record, c Claim) (answer Answer, next Record) {
	if stored.RecordVersion != RecordVersion || !stored.Status.Known() {
		return AnswerUnreadable, stored
	}
	if stored.InputDigest != c.InputDigest {
		if slices.Contains(stored.SupersededDigests, c.InputDigest) {
			return AnswerSuperseded, stored
		}
		return AnswerConflict, stored
	}
	switch stored.Status {
	case StatusSucceeded:
		return AnswerDuplicate, stored
	case StatusFailedFinal:
		if stored.Abandoned {
			return AnswerAbandoned, stored
		}
		return AnswerFinal, stored
	case StatusOutcomeUnknown:
		return AnswerOutcomeUnknown, stored
	case StatusRunning:
		if stored.held(c.Now) {
			return AnswerInProgress, stored
		}
	case StatusFailedRetryable:
		if c.Now.Before(stored.NotBefore) {
			return AnswerTooEarly, stored
		}
	}
	if stored.Attempt >= stored.AttemptBudget {
		return AnswerExhausted, p.exhaust(stored, c)
	}
	if c.NoTakeover && stored.Status == StatusRunning {
		return AnswerTakeover, stored
	}
	next = stored
	next.Attempt++
	return AnswerRun, p.start(next, c)
}

// exhaust ends a record whose budget is used up. The last error's code stays;
// a run that left none is a time-out.
func (p Policy) exhaust(stored Record, c Claim) Record {
	next := stored
	next.Status = StatusFailedFinal
	next.Owner = c.Owner
	next.LeaseUntil = time.Time{}
	if next.LastErrorCode == "" {
		next.LastErrorCode, next.LastErrorTarget = CodeTimeout, c.Target
	}
	return p.step(next, c.Now, c.Owner, next.LastErrorCode)
}

// ErrNotOwner is what a transition of a run returns once the record is not its own.
var ErrNotOwner = errors.New("the record is not this run's")

func (r Record) ownedBy(owner string) error {
	if r.Status != StatusRunning || r.Owner != owner {
		return fmt.Errorf("%w: status %s, attempt %d", ErrNotOwner, r.Status, r.Attempt)
	}
	return nil
}

// Complete is the record of a run whose output is stored.
func (p Policy) Complete(r Record, owner string, now time.Time, result Ref) (Record, error) {
	if err := r.ownedBy(owner); err != nil {
		return Record{}, fmt.Errorf("complete: %w", err)
	}
	if result.Object == "" || result.SHA256 == "" {
		return Record{}, errors.New("complete: no stored output")
	}
	for _, e := range r.Effects {
		if e.State != EffectSettled {
			return Record{}, fmt.Errorf("complete: effect %s is not settled", e.Name)
		}
	}
	r.Status = StatusSucceeded
	r.OutputRef, r.ResultRef = result, result
	r.LeaseUntil, r.NotBefore = time.Time{}, time.Time{}
	r.LastErrorCode, r.LastErrorTarget, r.LastErrorSummary = "", "", ""
	return p.step(r, now, owner, ""), nil
}

// Failure is why a run did not succeed.
type Failure struct {
	Code       Code
	Target     string        // fc:NAME, model:NAME, oss:, ots:; at most 200 bytes are kept
	Summary    string        // from an allow-list, never provider text
	RetryAfter time.Duration // what the target asked for, 0 if nothing
	Window     time.Duration // what an effect's window still needs before it can be looked up
}

// Fail is the record of a run that failed: FAILED_FINAL for a final class, for
// an unknown class that failed before, and once the budget is used up.
func (p Policy) Fail(r Record, owner string, now time.Time, f Failure) (Record, error) {
	if err := r.ownedBy(owner); err != nil {
		return Record{}, fmt.Errorf("fail: %w", err)
	}
	final := false
	switch f.Code.Class() {
	case ClassFinal:
		final = true
	case ClassUnknown:
		final = slices.ContainsFunc(r.History, func(s Step) bool { return s.Code != "" && s.Code.Class() == ClassUnknown })
	}
	r.LeaseUntil = time.Time{}
	r.LastErrorCode, r.LastErrorTarget = f.Code, cut(f.Target)
	r.LastErrorSummary = cut(f.Summary)
	// While a request may have arrived the task is not over: the next delivery
	// finds out first.
	if (final || r.Attempt >= r.AttemptBudget) && !r.has(EffectSent) && !r.has(EffectUnknown) {
		r.Status, r.NotBefore = StatusFailedFinal, time.Time{}
	} else {
		r.Status = StatusFailedRetryable
		r.NotBefore = milli(now.Add(max(p.Backoff(r.Attempt), min(f.RetryAfter, p.RetryAfterMax), f.Window)))
	}
	return p.step(r, now, owner, f.Code), nil
}

// Unknown is the record of a run that left an effect in doubt: a person goes on.
func (p Policy) Unknown(r Record, owner string, now time.Time, f Failure) (Record, error) {
	if err := r.ownedBy(owner); err != nil {
		return Record{}, fmt.Errorf("unknown: %w", err)
	}
	if !r.has(EffectUnknown) {
		return Record{}, errors.New("unknown: no effect is in doubt")
	}
	r.Status = StatusOutcomeUnknown
	r.LeaseUntil, r.NotBefore = time.Time{}, time.Time{}
	r.LastErrorCode, r.LastErrorTarget, r.LastErrorSummary = f.Code, cut(f.Target), cut(f.Summary)
	return p.step(r, now, owner, f.Code), nil
}

// Exhausted is the record of a task without attempts whose effects have been
// looked at: OUTCOME_UNKNOWN where one is in doubt.
func (p Policy) Exhausted(stored Record, c Claim, effects []TaskEffect) Record {
	next := stored
	next.Effects = effects
	if next.has(EffectUnknown) {
		next.Status, next.Owner, next.LeaseUntil, next.NotBefore = StatusOutcomeUnknown, c.Owner, time.Time{}, time.Time{}
		return p.step(next, c.Now, c.Owner, next.LastErrorCode)
	}
	return p.exhaust(next, c)
}

func (r Record) has(s EffectState) bool {
	return slices.ContainsFunc(r.Effects, func(e TaskEffect) bool { return e.State == s })
}

// Knows returns the record with what is known of its effects now.
func (r Record) Knows(e TaskEffect) Record {
	r.Effects = slices.Clone(r.Effects)
	for i, known := range r.Effects {
		if known.Name == e.Name {
			r.Effects[i] = e
		}
	}
	return r
}

// extraAttempts is what a person's answer, or an approved plan, grants.
const extraAttempts = 2

// Resolved is the record after a person has settled the effects in doubt: the
// next delivery drives it on.
func (p Policy) Resolved(r Record, review Review, now time.Time) (Record, error) {
	if r.Status != StatusOutcomeUnknown {
		return Record{}, fmt.Errorf("resolved: status is %s", r.Status)
	}
	if r.has(EffectUnknown) {
		return Record{}, errors.New("resolved: another effect is still in doubt")
	}
	return p.again(r, review, now), nil
}

// UseNew is the record after a reviewer has let another input hold. It is refused
// while a lease is live, and once anything may have happened outside.
func (p Policy) UseNew(r Record, review Review, now time.Time) (Record, error) {
	switch r.Status {
	case StatusReceived, StatusFailedRetryable, StatusFailedFinal:
	case StatusRunning:
		if r.held(now) {
			return Record{}, messages.Errorf("use new: a run holds the lease; wait until it is over")
		}
	default:
		return Record{}, messages.Errorf("use new: status is %s", r.Status)
	}
	if r.has(EffectSent) || r.has(EffectUnknown) || r.has(EffectSettled) {
		return Record{}, messages.Errorf("use new: an effect of the old input may have happened")
	}
	if r.InputDigest != review.RecordDigest {
		return Record{}, messages.Errorf("use new: the record holds another input than the review was about")
	}
	r.SupersededDigests = append(slices.Clone(r.SupersededDigests), r.InputDigest)
	r.InputDigest = review.EventDigest
	r.EffectsOpen = true
	return p.again(r, review, now), nil
}

func (p Policy) again(r Record, review Review, now time.Time) Record {
	r.Status, r.Abandoned = StatusFailedRetryable, false
	r.Owner, r.Reviewer = review.ID, review.Reviewer
	r.LeaseUntil, r.NotBefore = time.Time{}, milli(now)
	r.AttemptBudget = r.Attempt + extraAttempts
	return p.step(r, now, review.ID, "")
}

// cut makes a text of a processor fit for a column: UTF-8 and not too long.
func cut(s string) string {
	s = strings.ToValidUTF8(s, "")
	return strings.ToValidUTF8(s[:min(len(s), maxSummary)], "")
}

// Landed reports whether a write is in a stored record: as its present state, or
// as a step that somebody else has moved on from. It is how a run recognises
// its own write after a lost answer.
func Landed(stored, wrote Record) (landed, current bool) {
	return landedStep(stored.Revision == wrote.Revision,
		stored.Owner == wrote.Owner && stored.Status == wrote.Status && stored.Attempt == wrote.Attempt,
		stored.History, Step{Revision: wrote.Revision, Status: wrote.Status, Actor: actorOf(wrote.Owner)})
}

func landedStep(sameRevision, sameWrite bool, history []Step, wrote Step) (landed, current bool) {
	if sameRevision {
		return sameWrite, sameWrite
	}
	return slices.ContainsFunc(history, func(s Step) bool {
		return s.Revision == wrote.Revision && s.Status == wrote.Status && s.Actor == wrote.Actor
	}), false
}

func milli(t time.Time) time.Time { return time.UnixMilli(t.UnixMilli()).UTC() }
