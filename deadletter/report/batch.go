package report

import (
	"context"
	"slices"
	"time"

	"github.com/oncegate/oncegate/deadletter/plan"
)

// itemRow is an item that has not gone well.
type itemRow struct {
	Seq            int64
	LetterID       string
	EventID        string
	Outcome        string // "" for one that was never sent
	Reason         string
	SentAt         time.Time
	NewFingerprint string
	NewCode        string
}

// batches writes a page a plan, with the items that have not gone well in pages of
// their own, and the approvals.
func (w *writer) batches(ctx context.Context, src Source, r *Report) error {
	r.Batches.ByState, r.BatchList = map[string]int64{}, []*Batch{}
	approvals := &pager[*Batch]{name: "approvals", known: true, put: func(name string, l listPage[*Batch]) error {
		l.About = r
		return w.render(name, "approvals", w.words.say("Approvals"), "approvals", l)
	}}
	err := src.Plans(ctx, func(p plan.Plan, a *plan.Approval) error {
		b := batchOf(p, a)
		r.BatchList = append(r.BatchList, b)
		w.byGroup[p.Fingerprint] = append(w.byGroup[p.Fingerprint], b.ID)
		r.Batches.Plans++
		r.Batches.ByState[b.State]++
		switch {
		case a == nil && !p.State.Ended():
			r.Approvals.Waiting++
		case a == nil:
		case a.Verdict != plan.VerdictApproved:
			r.Approvals.Rejected++
		case stale(p, a):
			r.Approvals.Stale++
		default:
			r.Approvals.Granted++
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	slices.SortStableFunc(r.BatchList, func(x, y *Batch) int { return y.MadeAt.Compare(x.MadeAt) })
	for i, b := range r.BatchList {
		if err := w.batch(ctx, src, b); err != nil {
			return err
		}
		t := &r.Batches.Counts
		t.Selected += b.Counts.Selected
		t.Succeeded += b.Counts.Succeeded
		t.Skipped += b.Counts.Skipped
		t.Refused += b.Counts.Refused
		t.Failed += b.Counts.Failed
		t.Unresolved += b.Counts.Unresolved
		if !b.Balanced {
			r.Batches.Unbalanced++
		}
		w.progress("batches", int64(i+1))
	}
	approvals.total = int64(len(r.BatchList))
	for _, b := range r.BatchList {
		if err := approvals.add(b); err != nil {
			return err
		}
	}
	return approvals.end()
}

func stale(p plan.Plan, a *plan.Approval) bool {
	p.State = plan.StatePlanned // an end does not make an approval a wrong one
	return plan.CheckApproval(p, a) != nil
}

func batchOf(p plan.Plan, a *plan.Approval) *Batch {
	b := &Batch{
		rawID: p.ID, ID: visible(p.ID, cutName), Digest: visible(p.Digest, cutName), State: visible(string(p.State), cutName),
		Fingerprint: visible(p.Fingerprint, cutName), Code: visible(string(p.Code), cutName), Target: visible(p.Target, cutName),
		Reason: visible(p.Reason, cutText), MadeBy: visible(p.MadeBy, cutName), MadeAt: time.UnixMilli(p.MadeAt).UTC(),
		StoppedBy: visible(p.StoppedBy, cutName), StopReason: visible(p.StopReason, cutText),
		RatePerSec: float64(p.RateMilli) / 1000, Frozen: p.Count, Stages: []StageRow{}, Page: "batches/" + fileName(p.ID) + ".html",
	}
	for _, why := range p.HighImpact {
		b.HighImpact = append(b.HighImpact, visible(why, cutText))
	}
	if a != nil {
		b.Verdict, b.VerdictBy, b.VerdictAt, b.VerdictWhy = plan.Verdict(visible(string(a.Verdict), cutName)), visible(a.By, cutName), a.At.UTC(), visible(a.Reason, cutText)
	}
	if err := plan.CheckApproval(p, a); err != nil {
		b.Refusal = visible(err.Error(), cutText)
	}
	if err := p.Check(); err != nil {
		b.Problems = append(b.Problems, visible(err.Error(), cutText))
	}
	for i, size := range p.Stages[:min(len(p.Stages), maxRows)] {
		s := StageRow{Stage: int64(i) + 1, Size: size}
		for _, run := range p.Runs {
			if run.Stage == int64(i) {
				s.PreCheck, s.Counts = run.PreCheck, run.Counts
				s.StartedAt, s.EndedAt, s.Observed = milli(run.StartedAt), milli(run.EndedAt), milli(run.Observed)
			}
		}
		b.Stages = append(b.Stages, s)
	}
	if c := p.Counts; !c.Balanced() || p.State.Ended() && c.Selected > 0 && c.Selected != p.Count {
		b.Problems = append(b.Problems, "the counts that the plan's row holds do not balance")
	}
	return b
}

func milli(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// batch counts the items of a plan and lists those that have not gone well.
func (w *writer) batch(ctx context.Context, src Source, b *Batch) error {
	name := fileName(b.rawID)
	items := &pager[itemRow]{name: "batches/" + name + "-items", put: func(file string, l listPage[itemRow]) error {
		l.About = b
		return w.render(file, "items", b.ID, "batches", l)
	}}
	var first []itemRow
	err := src.Items(ctx, b.rawID, func(i plan.Item) error {
		b.Counts.Selected++
		switch i.Outcome {
		case plan.OutcomeSucceeded:
			b.Counts.Succeeded++
			return ctx.Err()
		case plan.OutcomeSkipped:
			b.Counts.Skipped++
			return ctx.Err()
		case plan.OutcomeRefused:
			b.Counts.Refused++
		case plan.OutcomeFailed:
			b.Counts.Failed++
		case plan.OutcomeUnresolved:
			b.Counts.Unresolved++
		case "":
			b.Counts.Unresolved++
			if i.SentAt.IsZero() && i.Sender == "" {
				b.Waiting++
			}
		}
		row := itemRow{
			Seq: i.Seq, LetterID: visible(i.LetterID, cutName), EventID: visible(i.EventID, cutName), Outcome: visible(string(i.Outcome), cutName),
			Reason: visible(i.Reason, cutText), SentAt: i.SentAt, NewFingerprint: visible(i.NewFingerprint, cutName), NewCode: visible(string(i.NewCode), cutName),
		}
		if row.Outcome == "" && (!i.SentAt.IsZero() || i.Sender != "") {
			row.Outcome = string(plan.OutcomeUnresolved)
		}
		b.Listed++
		if len(first) < shownItems {
			first = append(first, row)
		}
		if err := items.add(row); err != nil {
			return err
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	if err := items.end(); err != nil {
		return err
	}
	b.Balanced = b.Counts.Balanced() && b.Counts.Selected == b.Frozen && len(b.Problems) == 0
	if b.Counts.Selected != b.Frozen {
		b.Problems = append(b.Problems, "the items that are there are not as many as the plan froze")
	}
	return w.render(b.Page, "batch", b.ID, "batches", batchPage{b, first, items.index()})
}

// shownItems is how many items a batch's own page shows.
const shownItems = 50

type batchPage struct {
	*Batch
	Items []itemRow
	Index []link
}
