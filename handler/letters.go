package handler

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/logline"
)

// cause is why an event becomes a letter.
type cause struct {
	code   letter.Code
	target string
	reason string // fixed text
}

// base is the letter of this delivery, not yet stored.
func (d *delivery) base(c cause) letter.Letter {
	raw := sha256.Sum256(d.raw)
	rawHash := hex.EncodeToString(raw[:])
	now := d.received
	l := letter.Letter{
		Code: c.code, Target: c.target, Reason: c.reason, RawSHA256: rawHash,
		Environment: d.o.Environment, ConsumerVersion: d.Version,
		FirstFailedAt: now, LastFailedAt: now, ExpiresAt: now.Add(d.o.Policy.Retention),
		Key: d.key.Hex, InputDigest: d.digest,
	}
	if d.event == nil {
		l.ID = letter.RawID(rawHash)
		return l
	}
	digest := d.digest
	if digest == "" {
		digest = "raw:" + rawHash
	}
	l.ID = letter.ID(d.event.Source(), d.event.ID(), digest)
	l.EventID, l.EventSource, l.EventTime, l.TraceID = d.event.ID(), d.event.Source(), d.event.Time(), d.trace.ID()
	if d.flow != nil {
		l.Flow = d.flow.Name
	}
	if l.Key != "" {
		l.KeyRule = d.rules[d.flow]
	}
	return l
}

// store keeps the raw bytes and makes sure of an open letter, in that order: a
// letter never names bytes that are not there.
func (d *delivery) store(ctx context.Context, c cause) (id string, err error) {
	l := d.base(c)
	ref, err := d.o.Artifacts.PutLetter(ctx, l.ID, d.raw)
	if err != nil {
		return "", err
	}
	l.RawRef = ref.String()
	return l.ID, d.o.Letters.EnsureOpen(ctx, l)
}

// sight notes one more sighting of a question that a person has closed.
func (d *delivery) sight(ctx context.Context, c cause, end letter.FinalStatus) (id string, err error) {
	l := d.base(c)
	l.FinalStatus = end
	ref, err := d.o.Artifacts.PutLetter(ctx, l.ID, d.raw)
	if err != nil {
		return "", err
	}
	l.RawRef = ref.String()
	return l.ID, d.o.Letters.EnsureSeen(ctx, l)
}

// acknowledgeLetter stores a letter and acknowledges; what cannot be stored must
// come again.
func (d *delivery) acknowledgeLetter(ctx context.Context, r Result, c cause) (Result, error) {
	id, err := d.store(ctx, c)
	if err != nil {
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	}
	r.LetterID, r.Reason = id, c.reason
	return r, nil
}

func (d *delivery) undecodable(ctx context.Context, err error) (Result, error) {
	return d.acknowledgeLetter(ctx, Result{Decision: DecisionDeadLetter},
		cause{letter.CodeInvalidSchema, d.target(), err.Error()})
}

func (d *delivery) flowless(ctx context.Context) (Result, error) {
	// The letter's id needs a digest, and no flow says what to leave out.
	if d.event.Binary != nil {
		d.digest = idempotency.DigestBinary(d.event.Binary)
	} else {
		d.digest = idempotency.Digest(d.event.Payload())
	}
	return d.acknowledgeLetter(ctx, d.result(Result{Decision: DecisionDeadLetter}),
		cause{letter.CodeTargetNotFound, d.target(), "no flow wants this event: compare its type with `match` in flows.yaml"})
}

func (d *delivery) unusable(ctx context.Context, reason string) (Result, error) {
	return d.acknowledgeLetter(ctx, d.result(Result{Decision: DecisionDeadLetter}),
		cause{letter.CodeInvalidSchema, d.target(), reason})
}

func (d *delivery) misdirected(ctx context.Context) (Result, error) {
	return d.acknowledgeLetter(ctx, d.result(Result{Decision: DecisionWrongEnvironment}),
		cause{letter.CodeWrongEnvironment, d.target(), "the event names another environment than this function's"})
}

// flowOff keeps an event for later. What the record already answers is answered
// as ever: a flow that is off runs nothing, and knows what it has done.
func (d *delivery) flowOff(ctx context.Context, c idempotency.Claim) (Result, error) {
	met, ok, err := d.o.Tasks.Peek(ctx, c)
	if err != nil {
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	}
	if ok {
		switch met.Answer {
		case idempotency.AnswerRun, idempotency.AnswerTooEarly, idempotency.AnswerExhausted:
		default:
			return d.answer(ctx, met, c)
		}
	}
	id, err := d.store(ctx, cause{letter.CodeParked, d.target(), "the flow is off"})
	if err != nil {
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	}
	rec := met.Record
	if !ok {
		if rec, err = d.o.Tasks.Park(ctx, c); err != nil {
			return d.retry(idempotency.CodeTemporaryUnavailable, err)
		}
	}
	// A record that came in between may be of another input: nothing is said of its result.
	return d.result(Result{Decision: DecisionParked, Status: rec.Status, Attempt: rec.Attempt, LetterID: id, Reason: "the flow is off"}), nil
}

// conflict asks a person which of two inputs of one key holds.
func (d *delivery) conflict(ctx context.Context, rec idempotency.Record) (Result, error) {
	review, err := d.o.Reviews.Open(ctx, idempotency.Review{
		ID: idempotency.ConflictID(rec.Key, d.digest), Kind: idempotency.ReviewConflict, Key: rec.Key,
		Flow: d.flow.Name, Environment: d.o.Environment, Assignee: d.flow.Owner,
		RecordDigest: rec.InputDigest, RecordStatus: rec.Status, EventDigest: d.digest,
		Source: d.event.Source(), EventID: d.event.ID(),
		FirstSeenAt: d.received, ExpiresAt: d.received.Add(d.o.Policy.Retention),
	})
	if err != nil {
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	}
	c := cause{letter.CodeConflict, d.target(), "the same key came with another input"}
	// Of the record's result nothing is said: it belongs to another input.
	r := d.result(Result{Decision: DecisionConflict, Reason: c.reason, Status: rec.Status, Attempt: rec.Attempt})
	if review.Rejects() {
		d.duplicate = logline.Sighting
		id, err := d.sight(ctx, c, letter.FinalDiscarded)
		if err != nil {
			return d.retry(idempotency.CodeTemporaryUnavailable, err)
		}
		r.LetterID = id
		return r, nil
	}
	return d.acknowledgeLetter(ctx, r, c)
}

func (d *delivery) superseded(ctx context.Context, rec idempotency.Record) (Result, error) {
	c := cause{letter.CodeConflict, d.target(), "a reviewer has let another input hold"}
	id, err := d.sight(ctx, c, letter.FinalSkippedCompleted)
	if err != nil {
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	}
	r := d.result(Result{Decision: DecisionConflict, Reason: c.reason, LetterID: id, Status: rec.Status, Attempt: rec.Attempt})
	return r, nil
}

// letterOfRecord stores the letter that explains a record's failure.
func (d *delivery) letterOfRecord(ctx context.Context, rec idempotency.Record) (id string, err error) {
	target := rec.LastErrorTarget
	if target == "" {
		target = d.target()
	}
	return d.store(ctx, cause{letter.CodeOf(rec.LastErrorCode), target, rec.LastErrorSummary})
}

// exhausted ends a record that has no attempt left: letter, record,
// acknowledgement. What may have happened outside is found out first.
func (d *delivery) exhausted(ctx context.Context, c idempotency.Claimed, claim idempotency.Claim) (Result, error) {
	if len(c.Record.Effects) > 0 {
		var done bool
		var result Result
		var err error
		if c.Next, result, done, err = d.settleSent(ctx, c.Record, claim); done {
			return result, err
		}
	}
	id, err := d.letterOfRecord(ctx, c.Next)
	if err != nil {
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	}
	stored, err := d.o.Tasks.Settle(ctx, c.Record, c.Next)
	if err != nil {
		return d.notSettled(stored, err)
	}
	r := d.ofRecord(DecisionFinal, stored)
	r.LetterID = id
	return r, nil
}

func (d *delivery) failedFinal(ctx context.Context, rec idempotency.Record) (Result, error) {
	id, err := d.letterOfRecord(ctx, rec)
	if err != nil {
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	}
	r := d.ofRecord(DecisionFinal, rec)
	r.LetterID = id
	return r, nil
}

func (d *delivery) outcomeUnknown(ctx context.Context, rec idempotency.Record) (Result, error) {
	// An answer whose call never came is carried out by the next delivery.
	if moved, err := d.answered(ctx, rec); err != nil || moved {
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	}
	// As the run wrote it that left the doubt: one fault is one group.
	c := cause{letter.CodeOutcomeUnknown, rec.LastErrorTarget, rec.LastErrorSummary}
	if c.target == "" {
		c.target = d.target()
	}
	return d.acknowledgeLetter(ctx, d.ofRecord(DecisionOutcomeUnknown, rec), c)
}
