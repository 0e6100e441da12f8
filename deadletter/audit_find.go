package deadletter

import (
	"cmp"
	"container/heap"
	"context"
	"slices"
)

// AuditQuery says which audit rows are wanted; an empty text means any.
type AuditQuery struct {
	EventID string
	BatchID string
	Limit   int // rows kept, the newest
}

// newest is a heap with its oldest row on top.
type newest []Audit

func (h newest) Len() int           { return len(h) }
func (h newest) Less(i, j int) bool { return newer(h[j], h[i]) < 0 }
func (h newest) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *newest) Push(x any)        { *h = append(*h, x.(Audit)) }

func (h *newest) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// newer orders rows by falling time.
func newer(x, y Audit) int { return cmp.Or(y.At.Compare(x.At), cmp.Compare(x.ID, y.ID)) }

// Find returns the newest rows that a query asks for, newest first. It holds no
// more than Limit rows; complete is false where there are more.
func (t *AuditLog) Find(ctx context.Context, q AuditQuery) (rows []Audit, complete bool, err error) {
	kept := new(newest)
	complete = true
	for from, more := "", true; more; more = from != "" {
		page, next, err := t.List(ctx, from, "", 500)
		if err != nil {
			return nil, false, err
		}
		for _, a := range page {
			if (q.EventID != "" && a.EventID != q.EventID) || (q.BatchID != "" && a.ReplayBatchID != q.BatchID) {
				continue
			}
			heap.Push(kept, a)
			if kept.Len() > q.Limit {
				heap.Pop(kept)
				complete = false
			}
		}
		from = next
	}
	rows = *kept
	slices.SortFunc(rows, newer)
	return rows, complete, nil
}
