package handler

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/idempotency"
)

// DecisionResolved answers the call that carries out a person's answer.
const DecisionResolved Decision = "resolved"

// Resolve carries out what a person has answered: the review says it, and the
// function alone writes the task. It may be called again and again; the call
// itself says nothing but which review to read. The only errors are *RetryError.
func (h *Handler) Resolve(ctx context.Context, e Envelope, d Delivery) (Result, error) {
	return h.guardCall(ctx, callResolve, nil, d, func(ctx context.Context, one *delivery) (Result, error) {
		r, err := one.resolve(ctx, e)
		r.Decision = DecisionResolved
		return r, err
	})
}

func (d *delivery) resolve(ctx context.Context, e Envelope) (Result, error) {
	refuse := func(reason string) (Result, error) {
		return Result{ErrorCode: idempotency.CodeInvalidRequest, Reason: reason}, nil
	}
	if e.Oncegate != EnvelopeResolve {
		return refuse("the call asks for something that this version does not know")
	}
	review, ok, err := d.o.Reviews.Get(ctx, e.Review)
	switch {
	case err != nil:
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	case !ok:
		return refuse("there is no such review")
	case review.State != idempotency.ReviewClosed:
		return refuse("the review is open: nobody has answered it")
	case !slices.Contains(idempotency.Resolutions[review.Kind], review.Resolution):
		return refuse("the review's answer is none that this version knows")
	}
	rec, ok, err := d.o.Tasks.Get(ctx, review.Key)
	switch {
	case err != nil:
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	case !ok:
		return refuse("the review's task is gone")
	case rec.RecordVersion != idempotency.RecordVersion || !rec.Status.Known():
		return d.retry(idempotency.CodeTemporaryUnavailable, fmt.Errorf("record of version %d with status %q cannot be acted on", rec.RecordVersion, rec.Status))
	}
	d.key, d.record = idempotency.Key{Hex: rec.Key}, &rec
	switch review.Resolution {
	case idempotency.ResolvedKeepOld, idempotency.ResolvedDiscard:
		return d.closeRefused(ctx, review, rec)
	case idempotency.ResolvedUseNew:
		return d.useNew(ctx, review, rec)
	default:
		return d.settleDoubt(ctx, review, rec)
	}
}

// carriedOut answers a call whose answer is written. An error code means that a
// call was refused, so the record's own one is left out.
func (d *delivery) carriedOut(rec idempotency.Record) Result {
	r := d.ofRecord(DecisionResolved, rec)
	r.ErrorCode = ""
	return r
}

// closeRefused closes the letter of an input that a person has rejected.
func (d *delivery) closeRefused(ctx context.Context, review idempotency.Review, rec idempotency.Record) (Result, error) {
	id := letter.ID(review.Source, review.EventID, review.EventDigest)
	if err := d.o.Letters.Close(ctx, id, letter.FinalDiscarded, review.Reviewer, string(review.Resolution)+": "+review.Reason, d.o.Now()); err != nil {
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	}
	r := d.carriedOut(rec)
	r.LetterID = id
	return r, nil
}

func (d *delivery) useNew(ctx context.Context, review idempotency.Review, rec idempotency.Record) (Result, error) {
	if rec.InputDigest == review.EventDigest && slices.Contains(rec.SupersededDigests, review.RecordDigest) {
		return d.carriedOut(rec), nil
	}
	if left, err := d.openEffect(ctx, rec); err != nil {
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	} else if left != "" {
		return Result{ErrorCode: idempotency.CodeInvalidRequest, Key: rec.Key, Status: rec.Status, Reason: "effect " + left + " of the old input may have happened"}, nil
	}
	// The plan is asked before anything is fenced, so that a refusal leaves no trace.
	if _, err := d.o.Tasks.PlanUseNew(rec, review, d.o.Now()); err != nil {
		return Result{ErrorCode: idempotency.CodeInvalidRequest, Key: rec.Key, Status: rec.Status, Reason: err.Error()}, nil
	}
	if left, err := d.fence(ctx, rec, review.ID); err != nil {
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	} else if left != "" {
		return Result{ErrorCode: idempotency.CodeInvalidRequest, Key: rec.Key, Status: rec.Status, Reason: "effect " + left + " of the old input may have happened"}, nil
	}
	next, err := d.o.Tasks.PlanUseNew(rec, review, d.o.Now())
	if err != nil {
		return Result{ErrorCode: idempotency.CodeInvalidRequest, Key: rec.Key, Status: rec.Status, Reason: err.Error()}, nil
	}
	return d.settleResolved(ctx, rec, next)
}

// openEffect names an effect that is not known to have left nothing: the task's
// row may not have heard of it yet.
func (d *delivery) openEffect(ctx context.Context, rec idempotency.Record) (string, error) {
	for _, e := range rec.Effects {
		row, ok, err := d.o.Ledger.Get(ctx, e.Key)
		if err != nil {
			return "", err
		}
		if ok && row.State != idempotency.EffectRefused {
			return e.Name, nil
		}
	}
	return "", nil
}

// fence makes sure that no effect of the old input can be sent any more: a row
// that a dead run has on its way fails on the fence. left names an effect that is
// not known to have left nothing; by is what fences it.
func (d *delivery) fence(ctx context.Context, rec idempotency.Record, by string) (left string, err error) {
	for _, e := range rec.Effects {
		row, ok, err := d.o.Ledger.Get(ctx, e.Key)
		if err != nil {
			return "", err
		}
		var stored *idempotency.Effect
		if ok {
			if stored = &row; row.State != idempotency.EffectRefused {
				return e.Name, nil
			}
		}
		fenced, err := d.o.Ledger.Fence(ctx, stored, rec, e, by, d.o.Now())
		if errors.Is(err, idempotency.ErrSentElsewhere) && fenced.State != idempotency.EffectRefused {
			return e.Name, nil
		}
		if err != nil && !errors.Is(err, idempotency.ErrSentElsewhere) {
			return "", err
		}
	}
	return "", nil
}

// settleDoubt writes a person's answer about an effect, and lets the task go on
// once no other effect is in doubt.
func (d *delivery) settleDoubt(ctx context.Context, review idempotency.Review, rec idempotency.Record) (Result, error) {
	row, ok, err := d.o.Ledger.Get(ctx, review.EffectKey)
	if err != nil {
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	}
	if !ok {
		return Result{ErrorCode: idempotency.CodeInvalidRequest, Key: rec.Key, Reason: "the review's effect is gone"}, nil
	}
	if row.Owner != review.ID && (row.State != idempotency.EffectUnknown || row.Attempt != review.Attempt) {
		return Result{ErrorCode: idempotency.CodeInvalidRequest, Key: rec.Key, Status: rec.Status, Reason: "the effect has moved on since the review"}, nil
	}
	if row, err = d.o.Ledger.Resolve(ctx, row, review, d.o.Now()); err != nil {
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	}
	if rec.Status != idempotency.StatusOutcomeUnknown {
		// A run that has claimed the task since it was read may know the effect's row
		// from before this answer: only a record read after it tells.
		var ok bool
		switch rec, ok, err = d.o.Tasks.Get(ctx, review.Key); {
		case err != nil:
			return d.retry(idempotency.CodeTemporaryUnavailable, err)
		case !ok:
			return Result{ErrorCode: idempotency.CodeInvalidRequest, Key: review.Key, Reason: "the review's task is gone"}, nil
		}
	}
	if rec.Status == idempotency.StatusRunning && !d.o.Now().After(rec.LeaseUntil) {
		// The run may be about to write that it waits for this very answer.
		return d.retry(idempotency.CodeInProgress, errors.New("a run holds the task"))
	}
	if rec.Status != idempotency.StatusOutcomeUnknown {
		return d.carriedOut(rec), nil
	}
	known := rec.Knows(row.In())
	for _, other := range known.Effects {
		if other.State != idempotency.EffectUnknown {
			continue
		}
		// Its own answer may be written already: the task's row has not heard of it.
		row, ok, err := d.o.Ledger.Get(ctx, other.Key)
		if err != nil {
			return d.retry(idempotency.CodeTemporaryUnavailable, err)
		}
		if ok {
			known = known.Knows(row.In())
		}
	}
	next, err := d.o.Tasks.PlanResolved(known, review, d.o.Now())
	if err != nil {
		// Another effect is in doubt: its own review goes on.
		return d.carriedOut(rec), nil
	}
	return d.settleResolved(ctx, rec, next)
}

func (d *delivery) settleResolved(ctx context.Context, rec, next idempotency.Record) (Result, error) {
	stored, err := d.o.Tasks.Settle(ctx, rec, next)
	if errors.Is(err, idempotency.ErrNotOwner) {
		return d.retry(idempotency.CodeTemporaryUnavailable, fmt.Errorf("the task moved on meanwhile: %w", err))
	}
	if err != nil {
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	}
	return d.carriedOut(stored), nil
}

// answered carries out the answers that people have given about the effects of a
// task in doubt, and those whose rows have moved on without the task; moved says
// that the task goes on.
func (d *delivery) answered(ctx context.Context, rec idempotency.Record) (moved bool, err error) {
	known, by := rec, idempotency.Review{}
	for _, e := range rec.Effects {
		if e.State != idempotency.EffectUnknown {
			continue
		}
		row, ok, err := d.o.Ledger.Get(ctx, e.Key)
		if err != nil || !ok {
			return false, err
		}
		review, ok, err := d.o.Reviews.Get(ctx, idempotency.OutcomeID(e.Key, row.Attempt))
		if err != nil {
			return false, err
		}
		if row.State == idempotency.EffectUnknown {
			if !ok || review.State != idempotency.ReviewClosed {
				return false, nil
			}
			if row, err = d.o.Ledger.Resolve(ctx, row, review, d.o.Now()); err != nil {
				return false, err
			}
		}
		known = known.Knows(row.In())
		if by.ID = idempotency.OutcomeID(e.Key, row.Attempt); ok {
			by = review
		}
	}
	if by.ID == "" {
		return false, nil
	}
	next, err := d.o.Tasks.PlanResolved(known, by, d.o.Now())
	if err != nil {
		return false, err
	}
	if _, err := d.o.Tasks.Settle(ctx, rec, next); err != nil {
		return false, err
	}
	return true, nil
}
