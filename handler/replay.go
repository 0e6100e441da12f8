package handler

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/idempotency"
)

// DecisionReplayRefused answers a replay that a check has stopped: nothing ran and
// nothing was written.
const DecisionReplayRefused Decision = "replay_refused"

// Replay opens one task again under an approved plan and runs it. The envelope is
// not trusted: the function reads plan and approval itself, and the proof shows
// that the item belongs to what was approved. Whatever does not fit is answered
// with DecisionReplayRefused. A run's own outcome is answered as for a delivery;
// the only errors are *RetryError, after which the record says what became of it.
func (h *Handler) Replay(ctx context.Context, e plan.Envelope, d Delivery) (Result, error) {
	return h.guardCall(ctx, callReplay, e.Raw, d, func(ctx context.Context, one *delivery) (Result, error) {
		return one.replay(ctx, e)
	})
}

func (d *delivery) replay(ctx context.Context, e plan.Envelope) (Result, error) {
	g, reason, err := d.allowed(ctx, e)
	if err != nil {
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	}
	if reason == "" {
		reason = d.matches(e.Item)
	}
	if reason == "" {
		reason = d.weighs(g)
	}
	if reason != "" {
		return d.replayRefused(e.Item, nil, reason)
	}
	// The reads before have shown this machine's clock, if anything has.
	span, err := d.timeFor(ctx)
	if err != nil {
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	}
	claim := d.claim()
	claim.Deadline = span.deadline
	return d.reopen(ctx, e, claim, span)
}

// grant is what a replay goes by.
type grant struct {
	plan     plan.Plan
	approval *plan.Approval
	letter   letter.Letter
}

// allowed asks plan, approval and letter whether the envelope's item may go; a
// reason says why not.
func (d *delivery) allowed(ctx context.Context, e plan.Envelope) (g grant, reason string, err error) {
	i := e.Item
	switch {
	case e.Oncegate != plan.EnvelopeReplay || e.Batch == "" || i.LetterID == "" || i.Key == "" || i.InputDigest == "" || len(e.Raw) == 0:
		return grant{}, "the replay is not well-formed", nil
	case len(e.Raw) > events.MaxSize:
		return grant{}, "the event is larger than events may be", nil
	case idempotency.DigestBinary(e.Raw) != i.RawSHA256:
		return grant{}, "the raw event is not the one that the item names", nil
	case d.o.Plans == nil:
		return grant{}, "this function reads no plans", nil
	}
	p, ok, err := d.o.Plans.Get(ctx, e.Batch)
	switch {
	case err != nil:
		return grant{}, "", err
	case !ok:
		return grant{}, "there is no such plan", nil
	}
	d.batch = p.ID
	approval, err := d.o.Plans.Approval(ctx, e.Batch)
	if err != nil {
		return grant{}, "", err
	}
	if err := plan.CheckApproval(p, approval); err != nil {
		return grant{}, err.Error(), nil
	}
	if err := p.CheckItem(i, e.Proof); err != nil {
		return grant{}, err.Error(), nil
	}
	if p.Environment != d.o.Environment {
		return grant{}, "the plan is of another environment than this function's", nil
	}
	if _, err := strconv.ParseUint(i.Qualifier, 10, 64); err == nil && i.Qualifier != d.Version {
		return grant{}, "another version of the function runs than the item names", nil
	}
	l, ok, err := d.o.Letters.Get(ctx, i.LetterID)
	switch {
	case err != nil:
		return grant{}, "", err
	case !ok:
		return grant{}, "there is no such letter", nil
	case !l.Open():
		return grant{}, "the letter is closed", nil
	case l.RawSHA256 != i.RawSHA256:
		return grant{}, "the letter names another raw event than the item", nil
	}
	return grant{p, approval, l}, "", nil
}

// weighs asks whether the plan is of high impact by this function's own rules, and
// approved by another identity than its maker if it is.
func (d *delivery) weighs(g grant) (reason string) {
	var effects []idempotency.TargetKind
	for _, e := range d.flow.Effects {
		effects = append(effects, e.Kind)
	}
	why := d.o.Impact.Why(g.plan.Count, effects, []letter.Code{g.plan.Code, g.letter.Code})
	if err := plan.CheckImpact(g.plan, g.approval, why); err != nil {
		return err.Error() + " (" + strings.Join(why, "; ") + ")"
	}
	return ""
}

// matches decodes the raw event and holds it against the item; a reason says what
// does not fit.
func (d *delivery) matches(i plan.Frozen) (reason string) {
	d.read()
	switch {
	case d.flow == nil:
		return "this version cannot read the event, or has no flow for it"
	case d.kept != nil:
		return "the event gives no key here, or belongs to another environment"
	case !d.flow.Enabled:
		return "the flow is off"
	case d.key.Hex != i.Key:
		return "the event gives another key than the item names"
	case d.digest != i.InputDigest:
		return "the event gives another input digest than the item names"
	}
	return ""
}

// reopen makes the conditional write that opens the task, and runs it.
func (d *delivery) reopen(ctx context.Context, e plan.Envelope, claim idempotency.Claim, s span) (Result, error) {
	grant := idempotency.Grant{Batch: e.Batch, Revision: e.Item.RecordRevision, RecordDigest: e.Item.RecordDigest}
	var stored *idempotency.Record
	if e.Item.Known() {
		rec, ok, err := d.o.Tasks.Get(ctx, d.key.Hex)
		if err != nil {
			return d.retry(idempotency.CodeTemporaryUnavailable, err)
		}
		if ok {
			stored = &rec
		}
	}
	answer, next, err := d.o.Tasks.PlanReplay(stored, claim, grant)
	if err != nil || answer != idempotency.AnswerRun {
		return d.notReopened(ctx, e.Item, stored, answer, claim, err)
	}
	if stored != nil && e.Item.Migrated() {
		// All rows are asked before the first is fenced, so that a refusal leaves no trace.
		left, err := d.openEffect(ctx, *stored)
		if err == nil && left == "" {
			left, err = d.fence(ctx, *stored, claim.Owner)
		}
		if err != nil {
			return d.retry(idempotency.CodeTemporaryUnavailable, err)
		}
		if left != "" {
			return d.replayRefused(e.Item, stored, "effect "+left+" of the old input may have happened")
		}
	}
	rec, err := d.o.Tasks.Reopen(ctx, stored, next)
	if errors.Is(err, idempotency.ErrNotOwner) {
		answer, _, err = d.o.Tasks.PlanReplay(&rec, claim, grant)
		return d.notReopened(ctx, e.Item, &rec, answer, claim, err)
	}
	if err != nil {
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	}
	return d.run(ctx, rec, s)
}

// notReopened answers a replay whose task stays as it is.
func (d *delivery) notReopened(ctx context.Context, i plan.Frozen, rec *idempotency.Record, answer idempotency.Answer, claim idempotency.Claim, err error) (Result, error) {
	var refusal idempotency.Refusal
	switch {
	case errors.As(err, &refusal):
		return d.replayRefused(i, rec, refusal.Error())
	case err != nil || rec == nil || answer == idempotency.AnswerRun:
		return d.retry(idempotency.CodeTemporaryUnavailable, errors.Join(errors.New("the task moved on meanwhile"), err))
	}
	return d.answer(ctx, idempotency.Claimed{Answer: answer, Record: *rec, Read: true}, claim)
}

func (d *delivery) replayRefused(i plan.Frozen, rec *idempotency.Record, reason string) (Result, error) {
	r, err := d.refuse(DecisionReplayRefused, reason)
	r.LetterID = i.LetterID
	if rec != nil {
		r.Status, r.Attempt = rec.Status, rec.Attempt
	}
	return r, err
}

func (d *delivery) panicked(p any) (Result, error) {
	return d.retry(idempotency.CodeTemporaryUnavailable, fmt.Errorf("panic of type %T", p))
}
