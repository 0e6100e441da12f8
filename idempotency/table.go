package idempotency

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/internal/aliyun"
)

// TaskTable is where tasks and effects live.
var TaskTable = aliyun.Table{Name: "task_records", Key: "idempotency_key"}

// ErrUnavailable is in the chain of every error after which the delivery must
// come again: the store did not answer, or what it answered cannot be acted on.
var ErrUnavailable = errors.New("record store is unavailable")

// Table is the task_records table. Every write is conditional on the revision
// that was read, and every lost or negative answer is settled by reading the
// row: a failed condition alone never means "somebody else's".
type Table struct {
	store  *aliyun.Tablestore
	policy Policy
}

// NewTable returns the table; it makes no call.
func NewTable(store *aliyun.Tablestore, policy Policy) *Table {
	return &Table{store, policy}
}

// Get reads the record of a key; ok is false where there is none.
func (t *Table) Get(ctx context.Context, key string) (r Record, ok bool, err error) {
	row, ok, err := t.store.Get(ctx, TaskTable, key)
	if err != nil {
		return Record{}, false, fmt.Errorf("read record: %w: %w", ErrUnavailable, err)
	}
	if !ok {
		return Record{}, false, nil
	}
	r, err = ParseRecord(key, row)
	if err != nil {
		return Record{}, false, fmt.Errorf("read record: %w: %w", ErrUnavailable, err)
	}
	return r, true, nil
}

// writeResult says what became of a write.
type writeResult int

const (
	// notWon: another row is there, returned beside it.
	notWon writeResult = iota
	// won: the row is what was to be written.
	won
	// passedOn: it was written, and somebody has moved on from it since.
	passedOn
	// notApplied: the row is still what it was before.
	notApplied
)

// row is a task or an effect.
type row[T any] interface {
	Columns() (aliyun.Row, error)
	id() string
	rev() int64
	// landedIn reports whether the row, as this run wrote it, is in a stored one.
	landedIn(stored T) (landed, current bool)
}

func (r Record) id() string                          { return r.Key }
func (r Record) rev() int64                          { return r.Revision }
func (r Record) landedIn(stored Record) (bool, bool) { return Landed(stored, r) }
func (e Effect) id() string                          { return e.Key }
func (e Effect) rev() int64                          { return e.Revision }
func (e Effect) landedIn(stored Effect) (bool, bool) {
	return landedStep(stored.Revision == e.Revision, stored.Owner == e.Owner && stored.State == e.State && stored.Attempt == e.Attempt,
		stored.History, Step{Revision: e.Revision, Status: Status(e.State), Actor: actorOf(e.Owner)})
}

// write stores next in place of before (nil: no row yet) and finds out what became of it.
func write[T row[T]](ctx context.Context, store *aliyun.Tablestore, before *T, next T, get func(context.Context, string) (T, bool, error)) (writeResult, T, error) {
	var none T
	columns, err := next.Columns()
	if err != nil {
		return 0, none, err
	}
	if before == nil {
		err = store.Insert(ctx, TaskTable, next.id(), columns)
	} else {
		old, encodeErr := (*before).Columns()
		if encodeErr != nil {
			return 0, none, encodeErr
		}
		err = store.Update(ctx, TaskTable, next.id(), changed(old, columns), (*before).rev())
	}
	if err == nil {
		return won, next, nil
	}
	if kind := aliyun.KindOf(err); kind != aliyun.KindCondition && kind != aliyun.KindUnknown {
		return 0, none, fmt.Errorf("write record: %w: %w", ErrUnavailable, err)
	}
	stored, ok, readErr := get(ctx, next.id())
	if readErr != nil {
		return 0, none, fmt.Errorf("write record: %w: %w", err, readErr)
	}
	if !ok {
		// A condition that failed with no row behind it, or a write that never
		// arrived and may still do so.
		return 0, none, fmt.Errorf("write record: %w: no row behind a failed write: %w", ErrUnavailable, err)
	}
	switch landed, current := next.landedIn(stored); {
	case current:
		return won, next, nil
	case landed:
		return passedOn, stored, nil
	case before != nil && stored.rev() == (*before).rev():
		return notApplied, stored, nil
	default:
		return notWon, stored, nil
	}
}

func (t *Table) write(ctx context.Context, before *Record, next Record) (writeResult, Record, error) {
	return write(ctx, t.store, before, next, t.Get)
}

// changed is what an update has to write: new and other values, and nil for
// columns that go.
func changed(old, next aliyun.Row) aliyun.Row {
	diff := aliyun.Row{}
	for name, v := range next {
		if old[name] != v {
			diff[name] = v
		}
	}
	for name := range old {
		if _, kept := next[name]; !kept {
			diff[name] = nil
		}
	}
	return diff
}

// claimRounds bounds how often a claim looks again after losing a race.
const claimRounds = 3

// Claimed is the outcome of a claim.
type Claimed struct {
	Answer Answer
	// Record as written for AnswerRun, as stored for every other answer.
	Record Record
	// Next is the record still to be written by Settle, after its letter, for
	// AnswerExhausted.
	Next Record
}

// Claim takes the key for this run or says what stands in the way. readFirst
// saves the write that a redelivery would waste.
func (t *Table) Claim(ctx context.Context, c Claim, readFirst bool) (Claimed, error) {
	var stored Record
	found := false
	if readFirst {
		var err error
		if stored, found, err = t.Get(ctx, c.Key.Hex); err != nil {
			return Claimed{}, fmt.Errorf("claim: %w", err)
		}
	}
	if !found {
		result, r, err := t.write(ctx, nil, t.policy.First(c))
		if err != nil {
			return Claimed{}, fmt.Errorf("claim: %w", err)
		}
		if result == won {
			return Claimed{Answer: AnswerRun, Record: r}, nil
		}
		stored = r
	}
	for range claimRounds {
		answer, next := t.policy.Deliver(stored, c)
		switch answer {
		case AnswerExhausted:
			return Claimed{answer, stored, next}, nil
		case AnswerRun:
		default:
			return Claimed{Answer: answer, Record: stored}, nil
		}
		result, r, err := t.write(ctx, &stored, next)
		if err != nil {
			return Claimed{}, fmt.Errorf("claim: %w", err)
		}
		if result == won {
			return Claimed{Answer: AnswerRun, Record: r}, nil
		}
		stored = r
	}
	return Claimed{}, fmt.Errorf("claim: %w: lost %d races", ErrUnavailable, claimRounds)
}

// Peek says what a delivery would meet, without a claim; ok is false where there
// is no record.
func (t *Table) Peek(ctx context.Context, c Claim) (claimed Claimed, ok bool, err error) {
	stored, ok, err := t.Get(ctx, c.Key.Hex)
	if err != nil || !ok {
		return Claimed{}, false, err
	}
	answer, _ := t.policy.Deliver(stored, c)
	return Claimed{Answer: answer, Record: stored}, true, nil
}

// Park makes sure that a first delivery to a flow that is off has a record. A
// record that is there already is left as it is.
func (t *Table) Park(ctx context.Context, c Claim) (Record, error) {
	_, r, err := t.write(ctx, nil, t.policy.Park(c))
	if err != nil {
		return Record{}, fmt.Errorf("park: %w", err)
	}
	return r, nil
}

// settleTries bounds how often a settling write that was not applied is sent
// again. It is conditional on the revision, so a late first copy changes nothing.
const settleTries = 3

func (t *Table) settle(ctx context.Context, before, next Record) (Record, error) {
	for range settleTries {
		result, r, err := t.write(ctx, &before, next)
		switch {
		case err != nil:
			return Record{}, err
		case result == won, result == passedOn:
			return next, nil
		case result == notWon:
			return r, ErrNotOwner
		}
	}
	return Record{}, fmt.Errorf("%w: the write was not applied", ErrUnavailable)
}

// Complete settles a run whose output is stored. r is the record as this run has
// written it, effects what is known of its effects now. ErrNotOwner comes with the
// record that is there instead: another owner took the key over.
func (t *Table) Complete(ctx context.Context, r Record, effects []TaskEffect, result Ref, now time.Time) (Record, error) {
	known := r
	known.Effects = effects
	next, err := t.policy.Complete(known, r.Owner, now, result)
	if err != nil {
		return Record{}, err
	}
	stored, err := t.settle(ctx, r, next)
	if err != nil {
		return stored, fmt.Errorf("complete: %w", err)
	}
	return stored, nil
}

// PlanFail returns the record that a failed run is to become. Where that is
// FAILED_FINAL its letter must be stored before Settle writes it.
func (t *Table) PlanFail(r Record, f Failure, now time.Time) (Record, error) {
	return t.policy.Fail(r, r.Owner, now, f)
}

// PlanUnknown returns the record of a run that left an effect in doubt.
func (t *Table) PlanUnknown(r Record, f Failure, now time.Time) (Record, error) {
	return t.policy.Unknown(r, r.Owner, now, f)
}

// PlanExhausted returns the record of a task without attempts whose effects are
// known as they are now.
func (t *Table) PlanExhausted(stored Record, c Claim, effects []TaskEffect) Record {
	return t.policy.Exhausted(stored, c, effects)
}

// PlanResolved returns the record after the last effect in doubt was settled by a person.
func (t *Table) PlanResolved(r Record, review Review, now time.Time) (Record, error) {
	return t.policy.Resolved(r, review, now)
}

// PlanUseNew returns the record after a reviewer has let another input hold.
func (t *Table) PlanUseNew(r Record, review Review, now time.Time) (Record, error) {
	return t.policy.UseNew(r, review, now)
}

// Settle writes a planned record in place of r, as Complete does.
func (t *Table) Settle(ctx context.Context, r, next Record) (Record, error) {
	stored, err := t.settle(ctx, r, next)
	if err != nil {
		return stored, fmt.Errorf("settle: %w", err)
	}
	return stored, nil
}

// List reads one page of records by rising key, from a key on.
func (t *Table) List(ctx context.Context, from, to string, limit int) (records []Record, next string, err error) {
	page, err := t.store.Scan(ctx, TaskTable, from, to, limit, nil)
	if err != nil {
		return nil, "", fmt.Errorf("list records: %w", err)
	}
	for i, row := range page.Rows {
		if row["kind"] != KindTask {
			continue
		}
		r, err := ParseRecord(page.Keys[i], row)
		if err != nil {
			return nil, "", fmt.Errorf("list records: key %s: %w", page.Keys[i], err)
		}
		records = append(records, r)
	}
	return records, page.Next, nil
}
