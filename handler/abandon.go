package handler

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/idempotency"
)

const (
	// DecisionAbandoned answers the call that gives a task up. Every later delivery of
	// its input is DecisionFinal: one more sighting of a closed letter, acknowledged.
	DecisionAbandoned Decision = "abandoned"
	// DecisionAbandonRefused answers such a call that a check has stopped: nothing
	// was written.
	DecisionAbandonRefused Decision = "abandon_refused"
)

// Abandon gives up the task of a letter that a person has discarded or ended as
// done elsewhere, or that has expired. That no other open letter of the key is left is the caller's to see to.
// It may be called again and again; the only errors are *RetryError.
func (h *Handler) Abandon(ctx context.Context, e Envelope, d Delivery) (Result, error) {
	return h.guardCall(ctx, callAbandon, nil, d, func(ctx context.Context, one *delivery) (Result, error) {
		return one.abandon(ctx, e.Letter)
	})
}

func (d *delivery) abandon(ctx context.Context, id string) (Result, error) {
	refuse := func(reason string) (Result, error) {
		r, err := d.refuse(DecisionAbandonRefused, reason)
		r.LetterID = id
		return r, err
	}
	l, ok, err := d.o.Letters.Get(ctx, id)
	switch {
	case err != nil:
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	case !ok:
		return refuse("there is no such letter")
	case l.Open():
		return refuse("the letter is open: nobody has discarded it")
	case !l.FinalStatus.EndsBusiness():
		return refuse("the letter was not discarded, is not done elsewhere and has not expired")
	case l.Key == "":
		return refuse("the letter has no key: it stands for no task")
	case l.Environment != d.o.Environment:
		return refuse("the letter is of another environment than this function's")
	}
	d.key = idempotency.Key{Hex: l.Key}
	rec, ok, err := d.o.Tasks.Get(ctx, l.Key)
	switch {
	case err != nil:
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	case !ok && !l.FinalStatus.EndedByPerson():
		return d.result(Result{Decision: DecisionAbandoned, LetterID: id, Reason: "there is no task: nothing of it has ever run"}), nil
	case !ok:
		return d.forgo(ctx, l)
	case rec.RecordVersion != idempotency.RecordVersion || !rec.Status.Known():
		return d.retry(idempotency.CodeTemporaryUnavailable, fmt.Errorf("record of version %d with status %q cannot be acted on", rec.RecordVersion, rec.Status))
	}
	d.record = &rec
	known := rec
	for _, e := range rec.Effects {
		// The task's row may not have heard of it yet.
		row, ok, err := d.o.Ledger.Get(ctx, e.Key)
		if err != nil {
			return d.retry(idempotency.CodeTemporaryUnavailable, err)
		}
		if ok {
			known = known.Knows(row.In())
		}
	}
	next, changed, err := d.o.Tasks.PlanAbandon(known, l.InputDigest, d.o.NewOwner(), d.o.Now())
	if err != nil {
		r, _ := refuse(err.Error())
		r.Status, r.Attempt = rec.Status, rec.Attempt
		return r, nil
	}
	if changed {
		if next, err = d.o.Tasks.Settle(ctx, rec, next); err != nil {
			if errors.Is(err, idempotency.ErrNotOwner) {
				err = fmt.Errorf("the task moved on meanwhile: %w", err)
			}
			return d.retry(idempotency.CodeTemporaryUnavailable, err)
		}
	}
	// An error code means that a call was refused, so the record's own one is left out.
	r := d.ofRecord(DecisionAbandoned, next)
	r.ErrorCode, r.LetterID = "", id
	return r, nil
}

// forgo writes the row that keeps a business from running which a person has ended
// before any delivery claimed it.
func (d *delivery) forgo(ctx context.Context, l letter.Letter) (Result, error) {
	c := idempotency.Claim{
		Key: d.key, InputDigest: l.InputDigest, Owner: d.o.NewOwner(), Now: d.o.Now(), KeyRule: l.KeyRule, Flow: l.Flow, Environment: l.Environment,
		Source: l.EventSource, EventID: l.EventID, TraceID: l.TraceID,
	}
	rec, err := d.o.Tasks.Forgo(ctx, c)
	if err != nil {
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	}
	d.record = &rec
	r := d.ofRecord(DecisionAbandoned, rec)
	r.LetterID, r.Reason = l.ID, "nothing of it has ever run, and nothing will"
	return r, nil
}

// abandoned answers a delivery of a task that a person has given up.
func (d *delivery) abandoned(ctx context.Context, rec idempotency.Record) (Result, error) {
	c := cause{letter.CodeOf(rec.LastErrorCode), rec.LastErrorTarget, "this business was given up with its last letter"}
	if c.target == "" {
		c.target = d.target()
	}
	id, err := d.sight(ctx, c, letter.FinalDiscarded)
	if err != nil {
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	}
	r := d.ofRecord(DecisionFinal, rec)
	r.LetterID, r.Reason = id, c.reason
	return r, nil
}
