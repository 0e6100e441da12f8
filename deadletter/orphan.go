package deadletter

import (
	"context"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/messages"
)

// Orphans are those of letters that have ended whose task now has no letter left
// that could bring it back: the function is to be asked to abandon it. A task that
// has succeeded, works on another input or was abandoned already needs nothing. What
// a person has ended before it ever ran is one as well: a late delivery would run it.
func (d *Desk) Orphans(ctx context.Context, ended []letter.Letter) ([]letter.Letter, error) {
	waiting := map[string]letter.Letter{}
	for _, l := range ended {
		if l.Key == "" || !l.FinalStatus.EndsBusiness() {
			continue
		}
		rec, ok, err := d.Tasks.Get(ctx, l.Key)
		if err != nil {
			return nil, fmt.Errorf("find orphans: %w", err)
		}
		if !ok && l.FinalStatus.EndedByPerson() ||
			ok && rec.InputDigest == l.InputDigest && rec.Status != idempotency.StatusSucceeded && !rec.Abandoned {
			waiting[l.Key] = l
		}
	}
	for from, more := "", len(waiting) > 0; more; more = from != "" && len(waiting) > 0 {
		page, next, err := d.Letters.List(ctx, from, 500)
		if err != nil {
			return nil, fmt.Errorf("find orphans: %w", err)
		}
		for _, l := range page {
			if l.Open() {
				delete(waiting, l.Key)
			}
		}
		from = next
	}
	orphans := make([]letter.Letter, 0, len(waiting))
	for _, l := range ended {
		if last, ok := waiting[l.Key]; ok && last.ID == l.ID {
			orphans = append(orphans, l)
		}
	}
	return orphans, nil
}

// Keep says that a person wants an open letter to stay: its expiry starts anew.
func (d *Desk) Keep(ctx context.Context, id string) error {
	return d.Letters.Amend(ctx, id, func(l letter.Letter) (letter.Letter, error) {
		if !l.Open() {
			return l, errClosed
		}
		l.ExpiresAt = milli(d.Now().Add(d.Retention))
		return l, nil
	})
}

// MayEnd says why nobody may end a letter's business now, zero where one may: a task
// that runs, or whose side effect may have happened, must first say how it ended.
func MayEnd(j Judgement, now time.Time) messages.Text {
	rec := j.Record
	if rec == nil || rec.InputDigest != j.Letter.InputDigest || rec.Status == idempotency.StatusSucceeded {
		return messages.Text{}
	}
	if rec.Status == idempotency.StatusRunning && (rec.LeaseUntil.IsZero() || !now.After(rec.LeaseUntil)) {
		return messages.T("a run holds its task until %s: see how it ends first", rec.LeaseUntil.UTC().Format(time.RFC3339))
	}
	for _, e := range rec.Effects {
		if e.State == idempotency.EffectSent || e.State == idempotency.EffectUnknown {
			return messages.T("effect %s may have happened: answer its review first (oncegate review list), or deliver the event again", e.Name)
		}
	}
	return messages.Text{}
}
