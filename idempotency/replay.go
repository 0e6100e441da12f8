package idempotency

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Grant is what an approved plan says of one task.
type Grant struct {
	Batch    string // the plan's id
	Revision int64  // of the record that was frozen; 0 where there was none
	// RecordDigest is the input that the frozen record held. It differs from the
	// claim's for a migrated child alone, whose input then holds.
	RecordDigest string
}

// Refusal says why a replay or an abandonment is refused: a fixed text, fit for
// an answer. Nothing may be written.
type Refusal string

func (r Refusal) Error() string { return string(r) }

func refusal(format string, args ...any) error { return Refusal(fmt.Sprintf(format, args...)) }

// Replay decides whether an approved plan opens a task again; stored is nil where
// there is no record. For AnswerRun next is the record to write on the condition
// that the stored revision still holds, for AnswerDuplicate and AnswerUnreadable it
// is the stored one. The only errors are Refusals.
func (p Policy) Replay(stored *Record, c Claim, g Grant) (answer Answer, next Record, err error) {
	if stored == nil {
		if g.Revision != 0 {
			return "", Record{}, refusal("the record that the plan was made for is gone")
		}
		next = p.First(c)
		next.ReplayBatchID = g.Batch
		return AnswerRun, next, nil
	}
	r := *stored
	switch {
	case r.RecordVersion != RecordVersion || !r.Status.Known():
		return AnswerUnreadable, r, nil
	case r.Status == StatusSucceeded && r.InputDigest == c.InputDigest:
		return AnswerDuplicate, r, nil
	case r.Status == StatusSucceeded:
		return "", r, refusal("another input of this business has succeeded")
	case r.Status == StatusOutcomeUnknown:
		return "", r, refusal("a person has to say first whether an effect has happened")
	case r.held(c.Now):
		return "", r, refusal("a run holds the lease until %s", r.LeaseUntil.Format(time.RFC3339))
	case c.Now.Before(r.NotBefore):
		return "", r, refusal("the task may not be tried before %s", r.NotBefore.Format(time.RFC3339))
	case r.Revision != g.Revision:
		return "", r, refusal("the record has moved on since the plan was made")
	case r.InputDigest != g.RecordDigest:
		return "", r, refusal("the record holds another input than the plan names")
	}
	if r.InputDigest != c.InputDigest {
		if r, err = r.supersede(c.InputDigest); err != nil {
			return "", *stored, err
		}
	}
	r.ReplayBatchID = g.Batch
	r.AttemptBudget = r.Attempt + extraAttempts
	r.Attempt++
	return AnswerRun, p.start(r, c), nil
}

// supersede lets another input hold, unless anything of the old one may have
// happened outside.
func (r Record) supersede(digest string) (Record, error) {
	switch {
	case r.has(EffectSent) || r.has(EffectUnknown) || r.has(EffectSettled):
		return Record{}, refusal("an effect of the old input may have happened")
	case slices.Contains(r.SupersededDigests, digest):
		return Record{}, refusal("another input has taken this one's place")
	}
	r.SupersededDigests = append(slices.Clone(r.SupersededDigests), r.InputDigest)
	r.InputDigest = digest
	r.EffectsOpen = true
	return r, nil
}

// held reports whether a run may still be at work. A lease without an end can't
// be judged, so it holds.
func (r Record) held(now time.Time) bool {
	return r.Status == StatusRunning && (r.LeaseUntil.IsZero() || !now.After(r.LeaseUntil))
}

// Abandon is the record of a task whose last letter was discarded or has expired;
// digest is the letter's input, owner a random token of the call. changed is false
// for a task that is abandoned already. The only errors are Refusals.
func (p Policy) Abandon(r Record, digest, owner string, now time.Time) (next Record, changed bool, err error) {
	switch {
	case r.InputDigest != digest:
		return Record{}, false, refusal("the task works on another input than the letter's")
	case r.Status == StatusSucceeded:
		return Record{}, false, refusal("the task has succeeded")
	case r.Status == StatusOutcomeUnknown || r.has(EffectSent) || r.has(EffectUnknown):
		return Record{}, false, refusal("an effect may have happened; a person has to say first whether it has")
	case r.held(now):
		return Record{}, false, refusal("a run holds the lease until %s", r.LeaseUntil.Format(time.RFC3339))
	case r.Status == StatusFailedFinal && r.Abandoned:
		return r, false, nil
	}
	r.Status, r.Abandoned, r.Owner = StatusFailedFinal, true, owner
	r.LeaseUntil, r.NotBefore = time.Time{}, time.Time{}
	return p.step(r, now, owner, ""), true, nil
}

// Forgo is the record of a business that a person has ended before any delivery
// claimed it: an abandoned task that has never run. Nobody has derived its effects;
// should another input hold one day, the claim for that writes them.
func (p Policy) Forgo(c Claim) Record {
	r := p.First(c)
	r.Status, r.Abandoned, r.EffectsOpen = StatusFailedFinal, true, true
	r.Attempt, r.LeaseUntil, r.LastAttemptAt = 0, time.Time{}, time.Time{}
	r.History, r.Revision = nil, 0
	return p.step(r, c.Now, c.Owner, "")
}

// PlanReplay returns the record that an approved plan opens, as Policy.Replay does.
func (t *Table) PlanReplay(stored *Record, c Claim, g Grant) (Answer, Record, error) {
	return t.policy.Replay(stored, c, g)
}

// Reopen writes what PlanReplay has planned. ErrNotOwner comes with the record
// that is there instead.
func (t *Table) Reopen(ctx context.Context, stored *Record, next Record) (Record, error) {
	result, r, err := t.write(ctx, stored, next)
	switch {
	case err != nil:
		return Record{}, fmt.Errorf("reopen: %w", err)
	case result == won:
		return next, nil
	case result == notApplied:
		return Record{}, fmt.Errorf("reopen: %w: the write was not applied", ErrUnavailable)
	}
	return r, fmt.Errorf("reopen: %w", ErrNotOwner)
}

// PlanAbandon returns the record of an abandoned task, as Policy.Abandon does.
func (t *Table) PlanAbandon(r Record, digest, owner string, now time.Time) (Record, bool, error) {
	return t.policy.Abandon(r, digest, owner, now)
}

// Forgo writes the record of a business that is given up before it ran, as
// Policy.Forgo makes it. ErrNotOwner comes with the record that is there already.
func (t *Table) Forgo(ctx context.Context, c Claim) (Record, error) {
	result, r, err := t.write(ctx, nil, t.policy.Forgo(c))
	switch {
	case err != nil:
		return Record{}, fmt.Errorf("forgo: %w", err)
	case result == won, result == passedOn:
		return r, nil
	}
	return r, fmt.Errorf("forgo: %w", ErrNotOwner)
}
