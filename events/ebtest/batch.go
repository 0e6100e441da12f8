package ebtest

import (
	"bytes"
	"context"
	"errors"
)

// flow delivers a stream's batches until ctx is done, and then ends what waits.
func (b *Bus) flow(ctx context.Context, s *stream) {
	for {
		batch := b.gather(ctx, s)
		if batch == nil {
			break
		}
		runs := make([]*run, len(batch))
		texts := make([][]byte, len(batch))
		for i, m := range batch {
			runs[i], texts[i] = m.run, m.text
		}
		array := append(append([]byte("["), bytes.Join(texts, []byte(","))...), ']')
		out := b.carry(ctx, s.lane, array, runs...)
		for _, one := range runs {
			b.conclude(one, out)
		}
	}
	b.mu.Lock()
	waiting := s.waiting
	s.waiting = nil
	b.mu.Unlock()
	for _, m := range waiting {
		b.finish(m.run, unfinished(Outcome{Rule: s.Name}))
	}
}

// gather waits for the next batch; nil says that the bus is closed.
func (b *Bus) gather(ctx context.Context, s *stream) []*member {
	window, end := context.WithCancel(ctx)
	defer end()
	var passed chan struct{} // closed when BatchWait has passed; nil before it began and after it
	over := s.BatchWait == 0
	for {
		batch, first := b.cut(s, over)
		if batch != nil {
			return batch
		}
		if first && passed == nil {
			done := make(chan struct{})
			passed = done
			b.work.Go(func() {
				if b.opt.Sleep(window, b.scaled(s.BatchWait)) == nil {
					close(done)
				}
			})
		}
		select {
		case <-s.wake:
		case <-passed:
			over, passed = true, nil
		case <-ctx.Done():
			return nil
		}
	}
}

// cut takes a batch off what waits, if it is full or its window is over; first
// says that there is something to wait for.
func (b *Bus) cut(s *stream, over bool) (batch []*member, first bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	n, size := 0, len("[]")
	for n < len(s.waiting) && n < s.BatchCount {
		more := len(s.waiting[n].text)
		if n > 0 {
			more += len(",")
		}
		if size+more > s.MaxBatchBytes {
			over = true
			break
		}
		size += more
		n++
	}
	if n == 0 || n < s.BatchCount && !over {
		return nil, n > 0
	}
	batch, s.waiting = s.waiting[:n:n], s.waiting[n:]
	return batch, true
}

// conclude ends one member of a batch. A letter leaves the queue here and
// nowhere else; in one step with its end, so that nobody offers it again.
func (b *Bus) conclude(one *run, out Outcome) {
	if one.letter == "" {
		if out.Outcome == Dropped {
			out = b.exhausted(one, out)
		}
		b.finish(one, out)
		return
	}
	b.feeding.Lock()
	defer b.feeding.Unlock()
	switch out.Outcome {
	case Acknowledged:
		if err := b.queue.remove(one.letter); err != nil && !errors.Is(err, ErrNoDeadLetter) {
			out.Reason = err.Error()
		}
	case Dropped:
		out.Outcome, out.Reason = Kept, "retries exhausted and the letter stays in the queue"
	}
	b.finish(one, out)
}
