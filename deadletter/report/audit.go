package report

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
	"time"

	"github.com/oncegate/oncegate/deadletter"
)

// maxAudit is how many of the latest audit rows are shown.
const maxAudit = 5 * maxRows

// auditRow is an audit row as it is shown.
type auditRow struct {
	id       string
	At       time.Time
	Action   string
	EventID  string
	Print    string
	Batch    string
	Decision string
	Final    string
	Result   string
	Who      string
	Reason   string
}

// latest is a heap of rows, the oldest on top.
type latest []auditRow

func (l latest) Len() int           { return len(l) }
func (l latest) Less(i, j int) bool { return newer(l[j], l[i]) < 0 }
func (l latest) Swap(i, j int)      { l[i], l[j] = l[j], l[i] }
func (l *latest) Push(x any)        { *l = append(*l, x.(auditRow)) }
func (l *latest) Pop() any {
	last := len(*l) - 1
	x := (*l)[last]
	*l = (*l)[:last]
	return x
}

func newer(x, y auditRow) int { return cmp.Or(y.At.Compare(x.At), cmp.Compare(x.id, y.id)) }

// audit counts all rows and shows the latest.
func (w *writer) audit(ctx context.Context, src Source, r *Report) error {
	r.Audit.ByAction = map[string]int64{}
	var kept latest
	err := src.Audit(ctx, func(a deadletter.Audit) error {
		r.Audit.Rows++
		r.Audit.ByAction[visible(string(a.Action), cutName)]++
		if r.Audit.Rows%progressEvery == 0 {
			w.progress("audit rows", r.Audit.Rows)
		}
		if len(kept) == maxAudit && newer(auditRow{id: a.ID, At: a.At}, kept[0]) > 0 {
			return ctx.Err()
		}
		heap.Push(&kept, auditRow{
			id: a.ID, At: a.At, Action: visible(string(a.Action), cutName), EventID: visible(a.EventID, cutName), Print: visible(a.Fingerprint, cutName),
			Batch: visible(a.ReplayBatchID, cutName), Decision: visible(string(a.Decision), cutName), Final: visible(a.FinalStatus, cutName),
			Result: visible(a.IdempotencyResult, cutName), Who: visible(a.OperatorOrRule, cutName), Reason: visible(a.Reason, cutText),
		})
		if len(kept) > maxAudit {
			heap.Pop(&kept)
		}
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	slices.SortFunc(kept, newer)
	r.Audit.Shown = int64(len(kept))
	pages := &pager[auditRow]{name: "audit", known: true, total: r.Audit.Shown, put: func(name string, l listPage[auditRow]) error {
		l.About = r
		return w.render(name, "audit", w.words.say("Audit"), "audit", l)
	}}
	for _, row := range kept {
		if err := pages.add(row); err != nil {
			return err
		}
	}
	return pages.end()
}
