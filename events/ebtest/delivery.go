package ebtest

import (
	"bytes"
	"context"
	"fmt"
	"time"
)

// MaxQueueMessage is the size limit of a dead-letter queue's message in bytes.
const MaxQueueMessage = 64 << 10

// run is one event on its way to one rule.
type run struct {
	rule       string
	raw        []byte
	tracking   *Tracking
	index      int // of the outcome in tracking
	seq        int
	cancel     context.CancelFunc
	deliveries int // guarded by Bus.mu
}

// carry delivers until the target succeeds, the policy has no more retries or
// ctx is done. A wait holds no slot, so events do not block each other.
func (b *Bus) carry(ctx context.Context, r *rule, one *run) Outcome {
	out := Outcome{Rule: r.Name}
	for {
		if err := b.acquire(ctx, one, out.Deliveries+1); err != nil {
			return b.unfinished(out)
		}
		out.Deliveries++
		out.Last = b.push(ctx, r, one, out.Deliveries)
		<-b.slots
		if out.Last.OK {
			out.Outcome = Acknowledged
			return out
		}
		// A target that failed because it was cancelled says nothing about the event.
		if ctx.Err() != nil {
			return b.unfinished(out)
		}
		wait, more := b.wait(r.Policy, out.Deliveries)
		if !more {
			return b.exhausted(r, one, out)
		}
		if err := b.opt.Sleep(ctx, wait); err != nil {
			return b.unfinished(out)
		}
	}
}

// acquire takes a slot for the next delivery and counts it. It looks at closed,
// not at ctx: Close cancels one event after another, and the slot that the
// first leaves must not start a second.
func (b *Bus) acquire(ctx context.Context, one *run, number int) error {
	select {
	case b.slots <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		<-b.slots
		return ErrClosed
	}
	one.deliveries = number
	b.counts["deliveries"]++
	if number > 1 {
		b.counts["retries"]++
	}
	return nil
}

func (b *Bus) push(ctx context.Context, r *rule, one *run, number int) Result {
	at := b.opt.Now()
	res := r.Target(ctx, Delivery{EventRaw: bytes.Clone(one.raw), Rule: r.Name, Number: number})
	one.tracking.record(one.index, Attempt{Rule: r.Name, Number: number, At: at, Result: res})
	return res
}

func (b *Bus) wait(p Policy, retry int) (time.Duration, bool) {
	b.randMu.Lock()
	defer b.randMu.Unlock()
	wait, more := p.Wait(retry, b.opt.Rand)
	return time.Duration(float64(wait) / b.opt.TimeScale), more
}

// exhausted ends an event whose retries are used up.
func (b *Bus) exhausted(r *rule, one *run, out Outcome) Outcome {
	out.Outcome = Dropped
	switch {
	case !r.DeadLetter:
		out.Reason = "retries exhausted and the rule has no dead-letter queue"
	case len(one.raw) > MaxQueueMessage:
		out.Reason = fmt.Sprintf("retries exhausted and %d bytes do not fit a queue message of %d", len(one.raw), MaxQueueMessage)
	default:
		if err := b.queue.put(one.raw, b.opt.Now()); err != nil {
			out.Reason = fmt.Sprintf("retries exhausted and the queue failed: %v", err)
			break
		}
		out.Outcome = DeadLettered
	}
	return out
}

func (b *Bus) unfinished(out Outcome) Outcome {
	out.Outcome, out.Reason = Unfinished, ErrClosed.Error()
	return out
}

// finish settles under the bus's lock, so that whoever waited, for the event or
// for all, finds counters, pending events and outcome agreed.
func (b *Bus) finish(one *run, out Outcome) {
	one.cancel()
	b.mu.Lock()
	defer b.mu.Unlock()
	one.tracking.settle(one.index, out)
	b.counts[out.Outcome]++
	if out.Outcome == Unfinished {
		b.left = append(b.left, one)
	}
	delete(b.runs, one)
	if len(b.runs) == 0 {
		close(b.idle)
		b.idle = nil
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
