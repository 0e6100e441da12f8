package idempotency

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/internal/aliyun"
)

// Ledger is the rows of effects: each side effect has one of its own, so that a
// task with two of them can know one and doubt the other.
type Ledger struct {
	store  *aliyun.Tablestore
	policy Policy
	wrote  func(context.Context, *Effect, Effect) // may be nil
}

// NewLedger returns the ledger; it makes no call.
func NewLedger(store *aliyun.Tablestore, policy Policy) *Ledger {
	return &Ledger{store: store, policy: policy}
}

// Observing returns the ledger with an observer of its writes, as Table.Observing does.
func (l *Ledger) Observing(wrote func(ctx context.Context, before *Effect, e Effect)) *Ledger {
	return &Ledger{l.store, l.policy, wrote}
}

func (l *Ledger) one(before *Effect, next Effect) *oneWrite[Effect] {
	return &oneWrite[Effect]{store: l.store, get: l.Get, wrote: l.wrote, before: before, next: next}
}

// Get reads an effect; ok is false where it has no row.
func (l *Ledger) Get(ctx context.Context, key string) (e Effect, ok bool, err error) {
	row, ok, err := l.store.Get(ctx, TaskTable, key)
	if err != nil {
		return Effect{}, false, fmt.Errorf("read effect: %w: %w", ErrUnavailable, err)
	}
	if !ok {
		return Effect{}, false, nil
	}
	if e, err = ParseEffect(key, row); err != nil {
		return Effect{}, false, fmt.Errorf("read effect: %w: %w", ErrUnavailable, err)
	}
	return e, true, nil
}

// ErrSentElsewhere is what Send returns where another run has written the effect
// meanwhile: nothing may be sent.
var ErrSentElsewhere = errors.New("another run has written the effect")

// Send writes that the request is about to leave. Only after it has returned
// without an error may the request be sent.
func (l *Ledger) Send(ctx context.Context, stored *Effect, s Sending) (Effect, error) {
	result, e, err := l.one(stored, l.policy.Send(stored, s)).write(ctx)
	switch {
	case err != nil:
		return Effect{}, fmt.Errorf("send effect: %w", err)
	case result == won:
		return e, nil
	case result == notApplied:
		return Effect{}, fmt.Errorf("send effect: %w: the write was not applied", ErrUnavailable)
	}
	return e, ErrSentElsewhere
}

// Fence writes a REFUSED row over none or another REFUSED one. ErrSentElsewhere
// comes with the row that is there instead.
func (l *Ledger) Fence(ctx context.Context, stored *Effect, task Record, e TaskEffect, by string, now time.Time) (Effect, error) {
	result, row, err := l.one(stored, l.policy.Fence(stored, task, e, by, now)).write(ctx)
	switch {
	case err != nil:
		return Effect{}, fmt.Errorf("fence effect: %w", err)
	case result == won:
		return row, nil
	case result == notApplied:
		return Effect{}, fmt.Errorf("fence effect: %w: the write was not applied", ErrUnavailable)
	}
	return row, ErrSentElsewhere
}

// Settle writes that the effect happened.
func (l *Ledger) Settle(ctx context.Context, e Effect, owner string, now time.Time, recordID string, outcome Outcome) (Effect, error) {
	next, err := l.policy.Settle(e, owner, now, recordID, outcome)
	return l.put(ctx, e, next, err)
}

// Refuse writes that the target has refused, or never got, the effect.
func (l *Ledger) Refuse(ctx context.Context, e Effect, owner string, now time.Time, f Failure) (Effect, error) {
	next, err := l.policy.Refuse(e, owner, now, f)
	return l.put(ctx, e, next, err)
}

// Doubt writes that a person has to look.
func (l *Ledger) Doubt(ctx context.Context, e Effect, owner string, now time.Time) (Effect, error) {
	next, err := l.policy.Doubt(e, owner, now)
	return l.put(ctx, e, next, err)
}

// Resolve writes a person's answer. An answer that is written already is fine.
func (l *Ledger) Resolve(ctx context.Context, e Effect, r Review, now time.Time) (Effect, error) {
	if e.Owner == r.ID && (e.State == EffectSettled || e.State == EffectRefused) {
		return e, nil
	}
	next, err := l.policy.Resolve(e, r, now)
	return l.put(ctx, e, next, err)
}

func (l *Ledger) put(ctx context.Context, before, next Effect, err error) (Effect, error) {
	if err != nil {
		return Effect{}, err
	}
	a := l.one(&before, next)
	for range settleTries {
		result, e, err := a.write(ctx)
		switch {
		case err != nil:
			return Effect{}, fmt.Errorf("write effect: %w", err)
		case result == won:
			return e, nil
		case result != notApplied:
			return e, ErrSentElsewhere
		}
	}
	return Effect{}, fmt.Errorf("write effect: %w: the write was not applied", ErrUnavailable)
}
