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
	wrote  func(context.Context, *Record, Record) // may be nil
}

// NewTable returns the table; it makes no call.
func NewTable(store *aliyun.Tablestore, policy Policy) *Table {
	return &Table{store: store, policy: policy}
}

// Observing returns the table with an observer of its writes: wrote hears of each
// one that has landed, once, with the record before it (nil for none). A write of
// which nobody can say whether it landed is not among them.
func (t *Table) Observing(wrote func(ctx context.Context, before *Record, r Record)) *Table {
	return &Table{t.store, t.policy, wrote}
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
	written() time.Time
	// landedIn reports whether the row, as this run wrote it, is in a stored one.
	landedIn(stored T) (landed, current bool)
}

func (r Record) id() string                          { return r.Key }
func (r Record) rev() int64                          { return r.Revision }
func (r Record) written() time.Time                  { return r.UpdatedAt }
func (r Record) landedIn(stored Record) (bool, bool) { return Landed(stored, r) }
func (e Effect) id() string                          { return e.Key }
func (e Effect) rev() int64                          { return e.Revision }
func (e Effect) written() time.Time                  { return e.UpdatedAt }
func (e Effect) landedIn(stored Effect) (bool, bool) {
	return landedStep(stored.Revision == e.Revision, stored.Owner == e.Owner && stored.State == e.State && stored.Attempt == e.Attempt,
		stored.History, Step{Revision: e.Revision, Status: Status(e.State), Actor: actorOf(e.Owner)})
}

// oneWrite is a write on its way into the table.
type oneWrite[T row[T]] struct {
	store  *aliyun.Tablestore
	get    func(context.Context, string) (T, bool, error)
	wrote  func(context.Context, *T, T) // may be nil
	before *T                           // nil: no row yet
	next   T
	doubt  bool // an earlier copy of this write may have landed
}

// write stores next in place of before and finds out what became of it. It may be
// called again where it was not applied.
func (a *oneWrite[T]) write(ctx context.Context) (writeResult, T, error) {
	var none T
	columns, err := a.next.Columns()
	if err != nil {
		return 0, none, err
	}
	if a.before == nil {
		err = a.store.Insert(ctx, TaskTable, a.next.id(), columns)
	} else {
		old, encodeErr := (*a.before).Columns()
		if encodeErr != nil {
			return 0, none, encodeErr
		}
		err = a.store.Update(ctx, TaskTable, a.next.id(), changed(old, columns), (*a.before).rev())
	}
	if err == nil {
		a.tell(ctx)
		return won, a.next, nil
	}
	kind := aliyun.KindOf(err)
	if kind != aliyun.KindCondition && kind != aliyun.KindUnknown {
		return 0, none, fmt.Errorf("write record: %w: %w", ErrUnavailable, err)
	}
	a.doubt = a.doubt || kind == aliyun.KindUnknown
	stored, ok, readErr := a.get(ctx, a.next.id())
	if readErr != nil {
		return 0, none, fmt.Errorf("write record: %w: %w", err, readErr)
	}
	if !ok {
		// A condition that failed with no row behind it, or a write that never
		// arrived and may still do so.
		return 0, none, fmt.Errorf("write record: %w: no row behind a failed write: %w", ErrUnavailable, err)
	}
	landed, current := a.next.landedIn(stored)
	// What has landed is this write, or the same one by another call: a person's
	// answer is carried out by whoever comes first, under the review's id.
	if landed && (a.doubt || current && stored.written().Equal(a.next.written())) {
		a.tell(ctx)
	}
	switch {
	case current:
		return won, a.next, nil
	case landed:
		return passedOn, stored, nil
	case a.before != nil && stored.rev() == (*a.before).rev():
		return notApplied, stored, nil
	default:
		return notWon, stored, nil
	}
}

func (a *oneWrite[T]) tell(ctx context.Context) {
	if a.wrote != nil {
		a.wrote(ctx, a.before, a.next)
	}
}

func (t *Table) one(before *Record, next Record) *oneWrite[Record] {
	return &oneWrite[Record]{store: t.store, get: t.Get, wrote: t.wrote, before: before, next: next}
}

func (t *Table) write(ctx context.Context, before *Record, next Record) (writeResult, Record, error) {
	return t.one(before, next).write(ctx)
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
	// Read says that the record was read before anything was written.
	Read bool
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
			return Claimed{answer, stored, next, found}, nil
		case AnswerRun:
		default:
			return Claimed{Answer: answer, Record: stored, Read: found}, nil
		}
		before := stored
		result, r, err := t.write(ctx, &before, next)
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
	return Claimed{Answer: answer, Record: stored, Read: true}, true, nil
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
	a := t.one(&before, next)
	for range settleTries {
		result, r, err := a.write(ctx)
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
