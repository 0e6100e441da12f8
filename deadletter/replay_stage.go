package deadletter

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oncegate/oncegate/deadletter/plan"
)

// all runs stage after stage.
func (w *run) all(ctx context.Context) error {
	first := int64(0)
	for n, size := range w.plan.Stages {
		if int64(n) < w.plan.Stage {
			first += size
			continue
		}
		if err := w.one(ctx, int64(n), first, size); err != nil {
			return err
		}
		w.mu.Lock()
		stopped := w.stop != nil
		if !stopped {
			w.plan.Stage = int64(n) + 1
		}
		err := w.alive(ctx, true)
		stopped = w.stop != nil
		w.mu.Unlock()
		if err != nil {
			return err
		}
		if stopped {
			return nil
		}
		first += size
	}
	return nil
}

// one runs one stage: pre-check, items, observation.
func (w *run) one(ctx context.Context, n, first, size int64) error {
	items, err := w.items(ctx, first, size)
	if err != nil {
		return err
	}
	pre, err := w.preCheck(ctx, items)
	if err != nil {
		return err
	}
	w.mu.Lock()
	w.stage = plan.Counts{}
	for _, i := range items {
		w.stage = tally(w.stage, i.Outcome, 1)
	}
	record := plan.StageRun{Stage: n, Size: size, PreCheck: pre, CheckedAt: w.Now().UnixMilli(), StartedAt: w.Now().UnixMilli(), Counts: w.stage}
	if at := len(w.plan.Runs) - 1; at >= 0 && w.plan.Runs[at].Stage == n {
		record.StartedAt = w.plan.Runs[at].StartedAt
		w.plan.Runs[at] = record
	} else {
		w.plan.Runs = append(w.plan.Runs, record)
	}
	err = w.alive(ctx, true)
	w.mu.Unlock()
	if err != nil {
		return err
	}
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(int(w.plan.Concurrency))
	for _, i := range items {
		if i.Outcome != "" || w.halted(inner) {
			continue
		}
		g.Go(func() error { return w.item(inner, i) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	w.mu.Lock()
	at := len(w.plan.Runs) - 1
	w.plan.Runs[at].EndedAt, w.plan.Runs[at].Counts = w.Now().UnixMilli(), w.stage
	halted := w.stop != nil
	err = w.alive(ctx, true)
	w.mu.Unlock()
	if err != nil || halted || n == int64(len(w.plan.Stages))-1 {
		return err
	}
	return w.observe(ctx, at)
}

func (w *run) items(ctx context.Context, first, size int64) ([]plan.Item, error) {
	var items []plan.Item
	for from := first; from >= 0 && from < first+size; {
		page, next, err := w.Plans.Items(ctx, w.plan.ID, from, int(min(1000, first+size-from)))
		if err != nil {
			return nil, err
		}
		items = append(items, page...)
		from = next
	}
	return items, nil
}

// preCheck asks the gates about every item that waits, and sends nothing.
func (w *run) preCheck(ctx context.Context, items []plan.Item) (plan.Counts, error) {
	var mu sync.Mutex
	var c plan.Counts
	g, inner := errgroup.WithContext(ctx)
	g.SetLimit(int(w.plan.Concurrency))
	for _, i := range items {
		if i.Outcome != "" || !i.SentAt.IsZero() {
			continue
		}
		g.Go(func() error {
			_, outcome, _, err := w.ask(inner, i)
			if err != nil {
				return err
			}
			mu.Lock()
			c = tally(c, outcome, 1)
			mu.Unlock()
			return nil
		})
	}
	return c, g.Wait()
}

// observe waits at the end of a stage, and goes on to see what operators want.
func (w *run) observe(ctx context.Context, at int) error {
	until := w.Now().Add(time.Duration(w.plan.ObserveMS) * time.Millisecond)
	for w.Now().Before(until) && !w.halted(ctx) {
		w.tell("watching until " + until.UTC().Format(time.RFC3339))
		if err := w.Sleep(ctx, min(until.Sub(w.Now()), lockFor/4)); err != nil {
			return err
		}
		w.mu.Lock()
		err := w.alive(ctx, false)
		w.mu.Unlock()
		if err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop == nil {
		w.plan.Runs[at].Observed = w.Now().UnixMilli()
	}
	return nil
}

// halted reports whether nothing more is to be sent.
func (w *run) halted(ctx context.Context) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop == nil && w.soft.Err() != nil {
		w.stop = &stop{plan.StatePaused, w.By, "interrupted"}
	}
	return w.stop != nil || ctx.Err() != nil
}
