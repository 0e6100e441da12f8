package ebtest

import (
	"bytes"
	"context"
)

// Publish accepts one event as PutEvents does, adds the service's extensions
// and starts a delivery for every rule that matches. What is no event is
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
	delivered := b.enrich(raw, event)
	var matched []*rule
	for _, r := range b.rules {
		if r.pattern.match(event) {
			matched = append(matched, r)
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

// Deliver hands any bytes to one rule's target, without matching and without
// extensions: what a stream, a queue source or a hand invocation may give the
// function. Retries and dead letters are the rule's. An unknown rule ends as
// unmatched, a closed bus as pending without a delivery.
func (b *Bus) Deliver(ctx context.Context, raw []byte, name string) *Tracking {
	for _, r := range b.rules {
		if r.Name != name {
			continue
		}
		t := newTracking(bytes.Clone(raw), 1)
		if !b.start(ctx, t, []*rule{r}) {
			t.settle(0, Outcome{Rule: name, Outcome: Unfinished, Reason: ErrClosed.Error()})
		}
		return t
	}
	t := newTracking(bytes.Clone(raw), 0)
	b.count(Unmatched, 1)
	t.settleUnmatched("no rule of this name")
	return t
}

func (b *Bus) start(ctx context.Context, t *Tracking, rules []*rule) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	b.counts["published"]++
	for i, r := range rules {
		life, cancel := context.WithCancel(context.WithoutCancel(ctx))
		b.seq++
		one := &run{rule: r.Name, raw: t.raw, tracking: t, index: i, seq: b.seq, cancel: cancel}
		if len(b.runs) == 0 {
			b.idle = make(chan struct{})
		}
		b.runs[one] = struct{}{}
		b.work.Go(func() { b.finish(one, b.carry(life, r, one)) })
	}
	return true
}

func (b *Bus) count(name string, n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.counts[name] += n
}
