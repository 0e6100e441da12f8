package letter

import (
	"context"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

// LetterTable is where dead letters live.
var LetterTable = aliyun.Table{Name: "dead_letters", Key: "id"}

// Table is the dead_letters table.
type Table struct {
	store *aliyun.Tablestore
	wrote func(ctx context.Context, before *Letter, l Letter) // may be nil
}

// NewTable returns the table; it makes no call.
func NewTable(store *aliyun.Tablestore) *Table { return &Table{store: store} }

// Observing returns the table with an observer of its writes: wrote hears of each
// new revision that is known to have landed, once, with the letter before it (nil for none).
func (t *Table) Observing(wrote func(ctx context.Context, before *Letter, l Letter)) *Table {
	return &Table{t.store, wrote}
}

func (t *Table) tell(ctx context.Context, before *Letter, l Letter) {
	if t.wrote != nil {
		t.wrote(ctx, before, l)
	}
}

// rounds bounds how often a write looks again after losing a race.
const rounds = 4

// EnsureOpen makes sure that an open letter of the event is there: a new one,
// one more sighting of an open one, or a closed one opened again with its
// former life kept. A migrated one stays closed: its child goes on. Errors wrap idempotency.ErrUnavailable.
func (t *Table) EnsureOpen(ctx context.Context, l Letter) error {
	_, err := t.See(ctx, l, true)
	return err
}

// EnsureSeen makes sure that a letter of the event is there and leaves a closed
// one closed. l.FinalStatus is the end of a letter that is new: an event that
// asks a question which a person has answered already.
func (t *Table) EnsureSeen(ctx context.Context, l Letter) error {
	_, err := t.See(ctx, l, false)
	return err
}

// See is EnsureOpen where reopen is set, else EnsureSeen, and returns the letter
// as it is stored then.
func (t *Table) See(ctx context.Context, l Letter, reopen bool) (Letter, error) {
	l.Revision, l.DeliveryAttempts = 1, 1
	l.Fingerprint = Fingerprint(l.Code, l.Target)
	// As it will be read back, or a lost answer would not be recognised.
	l.LastFailedAt = time.UnixMilli(l.LastFailedAt.UnixMilli()).UTC()
	if !l.Open() {
		l.ClosedAt = l.LastFailedAt
	}
	row, err := l.columns()
	if err != nil {
		return Letter{}, err
	}
	found, err := t.store.InsertOnce(ctx, LetterTable, l.ID, row)
	if err != nil {
		return Letter{}, fmt.Errorf("write letter: %w: %w", idempotency.ErrUnavailable, err)
	}
	if found == nil {
		t.tell(ctx, nil, l)
		return parse(l.ID, row)
	}
	stored, err := parse(l.ID, found)
	if err != nil {
		return Letter{}, fmt.Errorf("write letter: %w: %w", idempotency.ErrUnavailable, err)
	}
	return t.seeAgain(ctx, stored, l, reopen)
}

// seeAgain notes one more sighting of a stored letter.
func (t *Table) seeAgain(ctx context.Context, stored, l Letter, reopen bool) (Letter, error) {
	var before, wrote Letter // of the last write that may have landed, or may land late
	var failed error
	for range rounds {
		// A migrated letter's child goes on in its place: a copy of the parent's
		// event is one more sighting of what a person has answered.
		reopen := reopen && stored.FinalStatus != FinalMigrated
		if stored.LastFailedAt.Equal(l.LastFailedAt) && stored.RawRef == l.RawRef && stored.tells(l, reopen) {
			// This very sighting: its answer was lost, or a call before this one wrote it.
			if stored.Revision == wrote.Revision {
				t.tell(ctx, &before, stored)
			}
			return stored, nil
		}
		next := seenAgain(stored, l, reopen)
		row, err := next.replacing(stored)
		if err != nil {
			return Letter{}, err
		}
		if failed = t.store.Update(ctx, LetterTable, l.ID, row, stored.Revision); failed == nil {
			t.tell(ctx, &stored, next)
			return parse(l.ID, row)
		}
		switch aliyun.KindOf(failed) {
		case aliyun.KindUnknown:
			before, wrote = stored, next
		case aliyun.KindCondition:
		default:
			return Letter{}, fmt.Errorf("write letter: %w: %w", idempotency.ErrUnavailable, failed)
		}
		var ok bool
		if stored, ok, err = t.Get(ctx, l.ID); err != nil {
			return Letter{}, fmt.Errorf("write letter: %w", err)
		}
		if !ok {
			break
		}
	}
	return Letter{}, fmt.Errorf("write letter: %w: %w", idempotency.ErrUnavailable, failed)
}

// replacing are the columns that make the stored row this letter's: those that it
// has, and nil for those that are to go.
func (l Letter) replacing(stored Letter) (aliyun.Row, error) {
	row, err := l.columns()
	if err != nil {
		return nil, err
	}
	old, err := stored.columns()
	if err != nil {
		return nil, err
	}
	for name := range old {
		if _, kept := row[name]; !kept {
			row[name] = nil
		}
	}
	return row, nil
}

// Create writes a letter that is not there yet; one that is there, open or
// closed, is left as it is. Errors wrap idempotency.ErrUnavailable.
func (t *Table) Create(ctx context.Context, l Letter) error {
	l.Revision, l.DeliveryAttempts = 1, 1
	l.Fingerprint = Fingerprint(l.Code, l.Target)
	row, err := l.columns()
	if err != nil {
		return err
	}
	found, err := t.store.InsertOnce(ctx, LetterTable, l.ID, row)
	if err != nil {
		return fmt.Errorf("write letter: %w: %w", idempotency.ErrUnavailable, err)
	}
	if found == nil {
		t.tell(ctx, nil, l)
	}
	return nil
}

// Close ends an open letter, with who and why. One that is closed already, or that is not there,
// is left as it is.
func (t *Table) Close(ctx context.Context, id string, end FinalStatus, who, why string, now time.Time) error {
	return t.closeKnown(ctx, id, Letter{}, end, who, why, now)
}

// CloseKnown is Close for a letter that was read a moment ago: where nobody has
// changed it since, it takes one call less.
func (t *Table) CloseKnown(ctx context.Context, known Letter, end FinalStatus, who, why string, now time.Time) error {
	return t.closeKnown(ctx, known.ID, known, end, who, why, now)
}

func (t *Table) closeKnown(ctx context.Context, id string, known Letter, end FinalStatus, who, why string, now time.Time) error {
	var before *Letter // of a write whose answer was lost
	for n := range rounds {
		stored, ok, err := known, true, error(nil)
		if n > 0 || known.Revision == 0 {
			stored, ok, err = t.Get(ctx, id)
		}
		if err != nil {
			return fmt.Errorf("close letter: %w", err)
		}
		if !ok || !stored.Open() {
			if before != nil && stored.Revision == before.Revision+1 && stored.ClosedBy == who && stored.ClosedAt.UnixMilli() == now.UnixMilli() {
				t.tell(ctx, before, stored)
			}
			return nil
		}
		closed := stored
		closed.Revision++
		closed.FinalStatus, closed.ClosedAt, closed.ClosedBy, closed.CloseReason = end, now, who, why
		err = t.store.Update(ctx, LetterTable, id, aliyun.Row{
			"revision": closed.Revision, "final_status": string(end), "closed_at": now.UnixMilli(), "closed_by": who, "close_reason": why,
		}, stored.Revision)
		if err == nil {
			t.tell(ctx, &stored, closed)
			return nil
		}
		switch aliyun.KindOf(err) {
		case aliyun.KindUnknown:
			before = &stored
		case aliyun.KindCondition:
		default:
			return fmt.Errorf("close letter: %w: %w", idempotency.ErrUnavailable, err)
		}
	}
	return fmt.Errorf("close letter: %w: lost %d races", idempotency.ErrUnavailable, rounds)
}

// Amend changes a letter as it is now: change is called again where somebody was
// faster, and its error ends the attempt. Errors of the store wrap
// idempotency.ErrUnavailable.
func (t *Table) Amend(ctx context.Context, id string, change func(Letter) (Letter, error)) error {
	for range rounds {
		stored, ok, err := t.Get(ctx, id)
		if err != nil {
			return fmt.Errorf("change letter: %w", err)
		}
		if !ok {
			return fmt.Errorf("change letter: there is no letter %s", id)
		}
		next, err := change(stored)
		if err != nil {
			return fmt.Errorf("change letter: %w", err)
		}
		next.Revision = stored.Revision + 1
		if next.Decision == stored.Decision && !next.decidedLike(stored) {
			next = next.forget()
		}
		row, err := next.replacing(stored)
		if err != nil {
			return err
		}
		if err = t.store.Update(ctx, LetterTable, id, row, stored.Revision); err == nil {
			t.tell(ctx, &stored, next)
			return nil
		}
		kind := aliyun.KindOf(err)
		if kind != aliyun.KindCondition && kind != aliyun.KindUnknown {
			return fmt.Errorf("change letter: %w: %w", idempotency.ErrUnavailable, err)
		}
		now, ok, readErr := t.Get(ctx, id)
		if readErr == nil && ok && now.Revision == next.Revision && now.FinalStatus == next.FinalStatus && now.ClosedBy == next.ClosedBy && now.Reclassified == next.Reclassified {
			if kind == aliyun.KindUnknown {
				t.tell(ctx, &stored, next)
			}
			return nil // its answer was lost
		}
	}
	return fmt.Errorf("change letter: %w: lost %d races", idempotency.ErrUnavailable, rounds)
}

// Get reads a letter; ok is false where there is none.
func (t *Table) Get(ctx context.Context, id string) (l Letter, ok bool, err error) {
	row, ok, err := t.store.Get(ctx, LetterTable, id)
	if err != nil {
		return Letter{}, false, fmt.Errorf("read letter: %w: %w", idempotency.ErrUnavailable, err)
	}
	if !ok {
		return Letter{}, false, nil
	}
	if l, err = parse(id, row); err != nil {
		return Letter{}, false, fmt.Errorf("%w: %w", idempotency.ErrUnavailable, err)
	}
	return l, true, nil
}

// List reads one page of letters by rising id, from an id on.
func (t *Table) List(ctx context.Context, from string, limit int) (letters []Letter, next string, err error) {
	page, err := t.store.Scan(ctx, LetterTable, from, "", limit, nil)
	if err != nil {
		return nil, "", fmt.Errorf("list letters: %w", err)
	}
	for i, row := range page.Rows {
		l, err := parse(page.Keys[i], row)
		if err != nil {
			return nil, "", fmt.Errorf("list letters: %w", err)
		}
		letters = append(letters, l)
	}
	return letters, page.Next, nil
}
