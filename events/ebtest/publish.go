package ebtest

import (
	"bytes"
	"context"
)

// Publish accepts one event as PutEvents does, adds the service's extensions
// and starts a delivery for every target of every rule that matches. What is no event is
// refused with a *PublishError; a closed bus refuses with ErrClosed. ctx bounds
// the publication alone: deliveries keep its values and outlive it.
//
// The stand-in has one bus: an event that names another in aliyuneventbusname
// is delivered here all the same, so that captured events can be published.
func (b *Bus) Publish(ctx context.Context, raw []byte) (*Tracking, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	event, err := checkEvent(raw)
	if err != nil {
		return nil, err
	}
	return b.accept(ctx, raw, event)
}

// accept publishes an event that was checked.
func (b *Bus) accept(ctx context.Context, raw []byte, event map[string]any) (*Tracking, error) {
	delivered := b.enrich(raw, event)
	var matched []*lane
	for _, r := range b.rules {
		if r.pattern.match(event) {
			matched = append(matched, r.lanes...)
		}
	}
	t := newTracking(delivered, len(matched))
	if !b.start(ctx, t, matched) {
		return nil, ErrClosed
	}
	if len(matched) == 0 {
		b.count(Unmatched, 1)
		t.settleUnmatched("no rule matches")
	}
	return t, nil
}

// Deliver hands any bytes to one rule's targets, without matching and without
// extensions: what a stream, a queue source or a hand invocation may give the
// function. Retries and dead letters are the targets'. An unknown rule ends as
// unmatched, a closed bus as pending without a delivery.
func (b *Bus) Deliver(ctx context.Context, raw []byte, name string) *Tracking {
	for _, r := range b.rules {
		if r.name != name {
			continue
		}
		t := newTracking(bytes.Clone(raw), len(r.lanes))
		if !b.start(ctx, t, r.lanes) {
			for i, l := range r.lanes {
				t.settle(i, unfinished(Outcome{Rule: name, Target: l.id}))
			}
		}
		return t
	}
	t := newTracking(bytes.Clone(raw), 0)
	b.count(Unmatched, 1)
	t.settleUnmatched("no rule of this name")
	return t
}

func (b *Bus) start(ctx context.Context, t *Tracking, lanes []*lane) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.counts["published"]++
	for i, l := range lanes {
		life, cancel := context.WithCancel(context.WithoutCancel(ctx))
		b.seq++
		one := &run{lane: l, raw: t.raw, tracking: t, index: i, seq: b.seq, cancel: cancel}
		b.runs[one] = struct{}{}
		b.work.Go(func() { b.conclude(one, b.carry(life, l, one.raw, one)) })
	}
	return true
}

func (b *Bus) count(name string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts[name] += n
}
