package ebtest

import (
	"bytes"
	"context"
	"fmt"
	"time"
)

// MaxQueueMessage is the size limit of a dead-letter queue's message in bytes.
const MaxQueueMessage = 64 << 10

// run is one event on its way along one lane.
type run struct {
	lane       *lane
	raw        []byte
	tracking   *Tracking
	index      int // of the outcome in tracking
	seq        int
	cancel     context.CancelFunc
	letter     string // the message of the dead-letter queue that it came from
	deliveries int    // guarded by Bus.mu, as calling
	calling    bool   // the target is at work on it
}

// carry delivers one payload, which holds the events of all its runs, until the
// target succeeds, the policy has no more retries or ctx is done. A wait holds
// no slot, so events do not block each other. The outcome is Dropped where the
// retries are exhausted: what becomes of each event then is for the caller.
func (b *Bus) carry(ctx context.Context, l *lane, payload []byte, runs ...*run) Outcome {
	out := Outcome{Rule: l.name, Target: l.id}
	for tries := 1; ; tries++ {
		if err := b.acquire(ctx, l, runs, out.Deliveries+1); err != nil {
			return unfinished(out)
		}
		out.Deliveries++
		out.Last = b.push(ctx, l, payload, runs, out.Deliveries)
		b.release(runs)
		if out.Last.OK {
			out.Outcome = Acknowledged
			return out
		}
		// A target that failed because it was cancelled says nothing about the event.
		if ctx.Err() != nil {
			return unfinished(out)
		}
		wait, more := b.wait(l.policy, tries)
		switch {
		case more:
			if err := b.opt.Sleep(ctx, wait); err != nil {
				return unfinished(out)
			}
		case l.strict:
			b.block(l)
			tries = 0
		default:
			out.Outcome = Dropped
			return out
		}
	}
}

// acquire waits while the lane is blocked, takes a slot for the next delivery
// and counts it. It looks at closed, not at ctx: Close cancels one event after
// another, and the slot that the first leaves must not start a second.
func (b *Bus) acquire(ctx context.Context, l *lane, runs []*run, number int) error {
	for {
		select {
		case b.slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		resumed, err := b.admit(l, runs, number)
		if err == nil && resumed == nil {
			return nil
		}
		<-b.slots
		if err != nil {
			return err
		}
		select {
		case <-resumed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// admit counts a delivery, or returns what to wait for if the lane is blocked.
func (b *Bus) admit(l *lane, runs []*run, number int) (resumed <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed:
		return nil, ErrClosed
	case l.resumed != nil:
		return l.resumed, nil
	}
	for _, one := range runs {
		one.deliveries, one.calling = number, true
	}
	b.counts["deliveries"]++
	if number > 1 {
		b.counts["retries"]++
	}
	return nil, nil
}

func (b *Bus) release(runs []*run) {
	<-b.slots
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range runs {
		one.calling = false
	}
	b.announce()
}

func (b *Bus) push(ctx context.Context, l *lane, payload []byte, runs []*run, number int) Result {
	at := b.opt.Now()
	res := l.invoke(ctx, Delivery{EventRaw: bytes.Clone(payload), Rule: l.name, Target: l.id, Number: number})
	for _, one := range runs {
		one.tracking.record(one.index, Attempt{Rule: l.name, Target: l.id, Number: number, At: at, Result: res})
	}
	return res
}

func (b *Bus) wait(p Policy, retry int) (time.Duration, bool) {
	b.randMu.Lock()
	defer b.randMu.Unlock()
	wait, more := p.Wait(retry, b.opt.Rand)
	return b.scaled(wait), more
}

func (b *Bus) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / b.opt.TimeScale)
}

// exhausted ends an event whose retries are used up.
func (b *Bus) exhausted(one *run, out Outcome) Outcome {
	switch {
	case !one.lane.deadLetter:
		out.Reason = "retries exhausted and there is no dead-letter queue"
	case len(one.raw) > MaxQueueMessage:
		out.Reason = fmt.Sprintf("retries exhausted and %d bytes do not fit a queue message of %d", len(one.raw), MaxQueueMessage)
	default:
		if err := b.bury(one.raw); err != nil {
			out.Reason = fmt.Sprintf("retries exhausted and the queue failed: %v", err)
			break
		}
		out.Outcome = DeadLettered
	}
	return out
}

func unfinished(out Outcome) Outcome {
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
	b.announce()
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
