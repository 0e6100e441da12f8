package ebtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Limits of a stream's batch.
const (
	MaxBatchCount = 10000
	MaxBatchWait  = 15 * time.Second
	MaxBatchBytes = 32 << 20 // what a synchronous function takes; an asynchronous one takes 128 KB
)

// Form says what the members of a stream's array are.
type Form string

// The forms of a stream's array. The empty Form is Objects.
const (
	Objects Form = "object" // each member's bytes, as they were pushed
	Strings Form = "string" // JSON strings that hold the members, as Kafka sources send
)

// Stream is an event stream: a source that is read one after another, joined to
// a target that gets its events as a JSON array. An array has one result, so
// one member's fault brings all of them again. One batch is under way at a
// time, in the order of the source.
//
// A batch is delivered when it has BatchCount members, when the next member
// would put it above MaxBatchBytes, or when BatchWait has passed since the
// stream, done with the batch before, had its first member.
type Stream struct {
	Name   string // unique among rules and streams, not empty
	Target Target
	Policy Policy // empty: BackoffRetry
	// ErrorsTolerance of TolerateAll, or empty, sends each member of a batch
	// whose retries are exhausted to the dead-letter queue as it was pushed, or
	// drops it. TolerateNone blocks the stream.
	ErrorsTolerance string
	DeadLetter      bool
	BatchCount      int           // at most MaxBatchCount; default 1
	BatchWait       time.Duration // at most MaxBatchWait; 0 delivers what there is
	Form            Form
	MaxBatchBytes   int // of the array; default and maximum MaxBatchBytes

	// FromDeadLetters feeds the stream from the bus's dead-letter queue, what
	// it holds already and what it gets. A letter is deleted once its batch has
	// succeeded. One whose batch has not, or that Form and MaxBatchBytes do not
	// allow, stays in the queue, and is offered again by Resume and by the next
	// bus. One stream at most; DeadLetter would make it a loop and is refused.
	FromDeadLetters bool
}

type stream struct {
	Stream
	lane    *lane
	wake    chan struct{}
	waiting []*member // guarded by Bus.mu
}

// member is an event on its way through a stream, with its text in the array.
type member struct {
	*run
	text []byte
}

func newStream(s Stream) (*stream, error) {
	if s.BatchCount == 0 {
		s.BatchCount = 1
	}
	if s.MaxBatchBytes == 0 {
		s.MaxBatchBytes = MaxBatchBytes
	}
	if s.Form == "" {
		s.Form = Objects
	}
	switch {
	case s.Name == "":
		return nil, errors.New("no name")
	case s.BatchCount < 0 || s.BatchCount > MaxBatchCount:
		return nil, fmt.Errorf("batch count %d is not within 1 and %d", s.BatchCount, MaxBatchCount)
	case s.BatchWait < 0 || s.BatchWait > MaxBatchWait:
		return nil, fmt.Errorf("batch wait %v is not within 0 and %v", s.BatchWait, MaxBatchWait)
	case s.MaxBatchBytes < 0 || s.MaxBatchBytes > MaxBatchBytes:
		return nil, fmt.Errorf("batch of %d bytes, at most %d", s.MaxBatchBytes, MaxBatchBytes)
	case s.Form != Objects && s.Form != Strings:
		return nil, fmt.Errorf("unknown form %q", string(s.Form))
	case s.FromDeadLetters && s.DeadLetter:
		return nil, errors.New("the dead-letter queue is its source and can't be its end")
	}
	l, err := newLane(s.Name, RuleTarget{Target: s.Target, Policy: s.Policy, DeadLetter: s.DeadLetter, ErrorsTolerance: s.ErrorsTolerance})
	if err != nil {
		return nil, err
	}
	return &stream{Stream: s, lane: l, wake: make(chan struct{}, 1)}, nil
}

// member makes an event a member of the stream's arrays, or says with a
// *PublishError why it can't be one.
func (s *stream) member(raw []byte) (*member, error) {
	m := &member{run: &run{lane: s.lane, raw: bytes.Clone(raw), cancel: func() {}}}
	if s.Form == Objects {
		if v := jsontext.Value(raw); !v.IsValid() || v.Kind() != '{' {
			return nil, &PublishError{CodeNotJSON, "not one valid JSON object"}
		}
		m.text = m.raw
	} else {
		text, err := jsontext.AppendQuote(nil, raw)
		if err != nil {
			return nil, &PublishError{CodeNotJSON, "not valid UTF-8"}
		}
		m.text = text
	}
	if size := len(m.text) + len("[]"); size > s.MaxBatchBytes {
		return nil, &PublishError{CodeTooLarge, fmt.Sprintf("%d bytes in an array, at most %d", size, s.MaxBatchBytes)}
	}
	m.tracking = newTracking(m.raw, 1)
	return m, nil
}

// Push puts one event into a stream, as the queue would that it reads. An event
// that can't be a member of its arrays is refused with a *PublishError, an
// unknown stream with ErrNoTarget, a closed bus with ErrClosed. The outcome is
// the event's own; a batch's deliveries and results are those of each member.
func (b *Bus) Push(ctx context.Context, name string, raw []byte) (*Tracking, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	for _, s := range b.streams {
		if s.Name != name {
			continue
		}
		m, err := s.member(raw)
		if err != nil {
			return nil, err
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if !b.enter(s, m) {
			return nil, ErrClosed
		}
		b.counts["published"]++
		return m.tracking, nil
	}
	return nil, fmt.Errorf("push to stream %q: %w", name, ErrNoTarget)
}

// enter queues a member. Its caller holds Bus.mu.
func (b *Bus) enter(s *stream, m *member) bool {
	if b.closed {
		return false
	}
	b.seq++
	m.seq = b.seq
	b.runs[m.run] = struct{}{}
	s.waiting = append(s.waiting, m)
	select {
	case s.wake <- struct{}{}:
	default:
	}
	return true
}

// bury puts an event into the dead-letter queue, and into the stream that reads
// it before anybody can find the bus drained.
func (b *Bus) bury(raw []byte) error {
	b.feeding.Lock()
	defer b.feeding.Unlock()
	letter, err := b.queue.put(raw, b.opt.Now())
	if err != nil {
		return err
	}
	for _, s := range b.streams {
		if s.FromDeadLetters {
			b.feed(s, letter)
		}
	}
	return nil
}

// offer feeds a stream with all letters that are not on their way already.
func (b *Bus) offer(s *stream) error {
	b.feeding.Lock()
	defer b.feeding.Unlock()
	letters, err := b.queue.list()
	if err != nil {
		return err
	}
	b.mu.Lock()
	under := map[string]bool{}
	for one := range b.runs {
		under[one.letter] = true
	}
	b.mu.Unlock()
	for _, l := range letters {
		if !under[l.ID] {
			b.feed(s, l)
		}
	}
	return nil
}

func (b *Bus) feed(s *stream, l DeadLetter) {
	m, err := s.member(l.Raw)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil {
		b.counts["unfit_letters"]++
		return
	}
	m.letter = l.ID
	if b.enter(s, m) {
		b.counts["fed_letters"]++
	}
}
