package handler

import (
	"context"
	"errors"
	"fmt"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/idempotency"
)

const doubtSummary = "nobody knows whether the effect has happened"

// doubtful hands an effect to a person.
func (l *ledger) doubtful(ctx context.Context, row *idempotency.Effect, target string) (*idempotency.Failure, error) {
	if row.State == idempotency.EffectSent {
		doubted, err := l.o.Ledger.Doubt(ctx, *row, l.known.Owner, l.o.Now())
		if err != nil {
			return storageFailure("ots:", err), err
		}
		l.note(doubted)
		row = &doubted
	}
	l.note(*row)
	l.doubt = row
	// Not unclassified: a lost answer is no failure of the work, and uses up none
	// of its tries.
	return lostFailure(ctx, target, doubtSummary), nil
}

// several is a doubt whose code says that the target shows the effect more than
// once: whoever replays must stop.
func (l *ledger) several(ctx context.Context, row *idempotency.Effect, target string) (*idempotency.Failure, error) {
	f, err := l.doubtful(ctx, row, target)
	if err == nil {
		f.Code, f.Summary = idempotency.CodeDuplicateEffect, "the target shows several records of one number, or another number than it gave"
	}
	return f, err
}

// inDoubt ends a run with an effect in doubt: review, letter, record, in that order.
func (d *delivery) inDoubt(ctx context.Context, rec idempotency.Record, l *ledger, f idempotency.Failure) (Result, error) {
	if err := d.openOutcomeReview(ctx, rec, *l.doubt); err != nil {
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	}
	id, err := d.store(ctx, cause{letter.CodeOutcomeUnknown, f.Target, f.Summary})
	if err != nil {
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	}
	next, err := d.o.Tasks.PlanUnknown(l.known, f, d.o.Now())
	if err != nil {
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	}
	stored, err := d.o.Tasks.Settle(ctx, rec, next)
	if err != nil {
		return d.notSettled(stored, err)
	}
	r := d.ofRecord(DecisionOutcomeUnknown, stored)
	r.LetterID, r.Reason = id, f.Summary
	return r, nil
}

func (d *delivery) openOutcomeReview(ctx context.Context, rec idempotency.Record, e idempotency.Effect) error {
	_, err := d.o.Reviews.Open(ctx, idempotency.Review{
		ID: idempotency.OutcomeID(e.Key, e.Attempt), Kind: idempotency.ReviewOutcome, Key: rec.Key,
		Flow: d.flow.Name, Environment: d.o.Environment, Assignee: d.flow.Owner,
		RecordDigest: rec.InputDigest, RecordStatus: rec.Status, EventDigest: d.digest,
		Source: d.event.Source(), EventID: d.event.ID(),
		EffectKey: e.Key, EffectName: e.Name, EffectKind: e.Kind, Attempt: e.Attempt, Code: e.LastErrorCode,
		FirstSeenAt: d.received, ExpiresAt: d.received.Add(d.o.Policy.Retention),
	})
	return err
}

// settleSent finds out about requests that a task without attempts has left
// behind, so that it does not end as failed while they may have arrived. done
// says that the delivery is answered.
func (d *delivery) settleSent(ctx context.Context, rec idempotency.Record, claim idempotency.Claim) (next idempotency.Record, r Result, done bool, err error) {
	again := func(err error) (idempotency.Record, Result, bool, error) {
		r, err := d.retry(idempotency.CodeTemporaryUnavailable, err)
		return idempotency.Record{}, r, true, err
	}
	ctx = flows.WithTrace(ctx, d.trace)
	read := rec
	read.Attempt = max(rec.Attempt, 2) // rows of the first attempt count too
	l, err := d.openLedger(ctx, read)
	if err != nil {
		return again(err)
	}
	l.known.Attempt, l.known.Owner = rec.Attempt, claim.Owner
	for _, e := range l.known.Effects {
		row := l.rows[e.Name]
		declared := d.flow.Effect(e.Name)
		if row == nil || (row.State != idempotency.EffectSent && row.State != idempotency.EffectUnknown) {
			continue
		}
		if err := l.findOut(ctx, e, row, declared); err != nil {
			return again(err)
		}
		if l.doubt != nil {
			break
		}
	}
	next = d.o.Tasks.PlanExhausted(rec, claim, l.known.Effects)
	if l.doubt == nil {
		return next, Result{}, false, nil
	}
	if err := d.openOutcomeReview(ctx, rec, *l.doubt); err != nil {
		return again(err)
	}
	id, err := d.store(ctx, cause{letter.CodeOutcomeUnknown, "effect:" + l.doubt.Name, doubtSummary})
	if err != nil {
		return again(err)
	}
	stored, err := d.o.Tasks.Settle(ctx, rec, next)
	if err != nil {
		r, err = d.notSettled(stored, err)
		return next, r, true, err
	}
	r = d.ofRecord(DecisionOutcomeUnknown, stored)
	r.LetterID, r.Reason = id, doubtSummary
	return next, r, true, nil
}

// findOut settles one effect of a task that sends nothing new any more: a copy
// to an idempotent target, a look-up at a readable one, a person otherwise.
func (l *ledger) findOut(ctx context.Context, e idempotency.TaskEffect, row *idempotency.Effect, declared *flows.DeclaredEffect) error {
	move := idempotency.MoveUnknown
	if declared != nil {
		move, _ = idempotency.NextMove(row, l.spec(declared), l.o.Now())
	}
	switch move {
	case idempotency.MoveWait:
		return errors.New("an effect may not be visible at its target yet")
	case idempotency.MoveLookUp:
		found, err := l.lookUp(ctx, row, declared, l.call(e, declared, nil), declared.Timeout)
		if err != nil || found {
			return err
		}
		_, err = l.refused(ctx, *row, idempotency.Failure{Code: idempotency.CodeTimeout, Summary: "the target does not have it"}, nil)
		return err
	case idempotency.MoveSend:
		body, err := l.o.Artifacts.Read(ctx, row.OutputRef)
		if err != nil {
			return err
		}
		f, err := l.send(ctx, *row, row, l.o.Now().Add(declared.Timeout), declared, l.call(e, declared, body))
		switch {
		case f == nil || l.rows[e.Name].State != idempotency.EffectSent:
			return nil
		case f.Code.Class() == idempotency.ClassRetryable:
			return errors.Join(errors.New("the effect's answer was lost again"), err)
		}
		// Its copy is refused, so this target will never tell.
		return l.giveUp(ctx, l.rows[e.Name])
	case idempotency.MoveUnknown:
		return l.giveUp(ctx, row)
	}
	return nil
}

// giveUp hands an effect to a person; an error says that this is not stored yet.
func (l *ledger) giveUp(ctx context.Context, row *idempotency.Effect) error {
	f, err := l.doubtful(ctx, row, "effect:"+row.Name)
	if l.doubt == nil {
		return errors.Join(fmt.Errorf("effect in doubt: %s", f.Code), err)
	}
	return nil
}
