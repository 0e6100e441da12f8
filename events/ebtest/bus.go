// Package ebtest stands in for Alibaba Cloud EventBridge: a bus that matches
// published events against rules, delivers each to the rule's target, retries
// what failed and moves what stays failed to a dead-letter queue.
//
// The invariant: an event that was accepted ends, for each rule that matched
// it, in exactly one outcome, and only a blocked target or Close can leave it
// without one.
//
//	Publish -> unmatched
//	        -> delivery 1 .. n -> acknowledged    a delivery succeeded
//	                           -> dead_lettered   retries exhausted, the queue took the event
//	                           -> dropped         retries exhausted, no queue or an event too large for it
//	                           -> held            retries exhausted at a target of tolerance NONE
//	                           -> pending         the bus was closed first
//
// A rule has up to five targets, each with its own retries, end and tolerance.
// A target of tolerance NONE is blocked behind the first event whose retries
// are exhausted, and nothing more is delivered to it: States shows it as Ready,
// Resume delivers that event anew and then the others.
//
// A Stream delivers what Push or the dead-letter queue puts into it as JSON
// arrays, of which one result holds for all members. Its events have the same
// outcomes, and one more where they come from the queue: kept, retries
// exhausted and the letter still there.
//
// What the service does is kept, the inconvenient part included. A dead letter
// is the raw event as it was delivered: no error code, no count, no rule. An
// event is delivered at least once; nothing is ever deduplicated, and two
// publications of the same id are two events. Extensions of the service are
// added by text, so the publisher's spelling of numbers and order of keys
// reach the target byte for byte.
//
// Where the service is undocumented a choice was made: a delivery fails when
// its target says so, whatever the error, and all failures are retried alike; a
// blocked target starts again with the event that blocked it; the members of a
// failed batch become one dead letter each.
//
// The dead-letter queue is durable if Options.Dir is set. Waiting retries are
// not: they live in the process, and Close names them in Pending.
package ebtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// ErrClosed is what a closed bus answers.
var ErrClosed = errors.New("bus closed")

// Delivery is one call of a target.
type Delivery struct {
	EventRaw []byte // the target's own copy; from a stream a JSON array of events
	Rule     string // or the stream
	Target   string // the target's id, empty for the only one
	Number   int    // 1 for the first delivery of this event to this target
}

// Result is what a delivery ended with.
type Result struct {
	OK        bool
	ErrorType string // as X-Fc-Error-Type; empty if OK
	Payload   []byte // the function's answer
	RequestID string
}

// Target invokes a function. It must return soon after ctx is done, which
// happens only when the bus is closed.
type Target func(ctx context.Context, d Delivery) Result

// Options configures a bus. The zero value of a field means its default.
type Options struct {
	Dir         string // directory of eventbridge.db, made if absent; empty: dead letters live in memory
	Bus         string // default oncegate-local
	Region      string // default cn-hangzhou
	AccountID   string // default 1000000000000000
	TimeScale   float64
	Concurrency int // target calls at once, default 16
	Now         func() time.Time
	Sleep       func(ctx context.Context, d time.Duration) error // default a timer
	Rand        func() float64                                   // in [0,1); called by one goroutine at a time
	Rules       []Rule
	Streams     []Stream
}

// Bus is one event bus; all methods are safe for concurrent use.
type Bus struct {
	opt     Options
	rules   []*rule
	streams []*stream
	lanes   []*lane // of both
	slots   chan struct{}
	queue   *queue
	stop    context.CancelFunc // of the streams

	feeding sync.Mutex // between a change of the queue and the stream that reads it; taken before mu

	randMu sync.Mutex

	mu      sync.Mutex
	closed  bool
	seq     int
	runs    map[*run]struct{} // in flight
	left    []*run            // pending when the bus was closed
	blocked int               // lanes
	idle    chan struct{}     // what Drain waits for; nil while nobody waits
	counts  map[string]int
	work    sync.WaitGroup
}

// New checks the rules, opens the dead-letter queue and returns a running bus.
// TimeScale divides every wait: 60 makes a minute a second.
func New(o Options) (*Bus, error) {
	if o.TimeScale < 0 || o.Concurrency < 0 {
		return nil, errors.New("open bus: negative time scale or concurrency")
	}
	o = withDefaults(o)
	b := &Bus{opt: o, slots: make(chan struct{}, o.Concurrency), runs: map[*run]struct{}{}, counts: map[string]int{}}
	if err := b.build(); err != nil {
		return nil, fmt.Errorf("open bus: %w", err)
	}
	q, err := openQueue(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("open bus: %w", err)
	}
	b.queue = q
	ctx, stop := context.WithCancel(context.Background())
	b.stop = stop
	for _, s := range b.streams {
		if s.FromDeadLetters {
			_ = b.offer(s) // a queue that is open can be listed
		}
		b.work.Go(func() { b.flow(ctx, s) })
	}
	return b, nil
}

// build makes rules and streams of the options.
func (b *Bus) build() error {
	names := map[string]bool{}
	claim := func(name string) error {
		if names[name] {
			return errors.New("name taken")
		}
		names[name] = true
		return nil
	}
	for _, one := range b.opt.Rules {
		r, err := checkRule(one)
		if err = cmp.Or(err, claim(one.Name)); err != nil {
			return fmt.Errorf("rule %q: %w", one.Name, err)
		}
		b.rules = append(b.rules, r)
		b.lanes = append(b.lanes, r.lanes...)
	}
	fed := false
	for _, one := range b.opt.Streams {
		s, err := newStream(one)
		if err = cmp.Or(err, claim(one.Name)); err != nil {
			return fmt.Errorf("stream %q: %w", one.Name, err)
		}
		if fed && one.FromDeadLetters {
			return fmt.Errorf("stream %q: another one reads the dead-letter queue", one.Name)
		}
		fed = fed || one.FromDeadLetters
		b.streams = append(b.streams, s)
		b.lanes = append(b.lanes, s.lane)
	}
	return nil
}

func withDefaults(o Options) Options {
	if o.Bus == "" {
		o.Bus = "oncegate-local"
	}
	if o.Region == "" {
		o.Region = "cn-hangzhou"
	}
	if o.AccountID == "" {
		o.AccountID = "1000000000000000"
	}
	if o.TimeScale == 0 {
		o.TimeScale = 1
	}
	if o.Concurrency == 0 {
		o.Concurrency = 16
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Sleep == nil {
		o.Sleep = sleep
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	return o
}

// Counts returns a copy of the counters: published (by Deliver and Push as well), deliveries, retries (the
// deliveries after the first), fed_letters and unfit_letters of a stream that reads the dead-letter queue,
// and each outcome by its name.
func (b *Bus) Counts() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.counts)
}

// Pending is an event that is on its way to one target.
type Pending struct {
	Rule       string // or the stream
	Target     string // the target's id, empty for the only one
	Raw        []byte
	Deliveries int // so far
}

// Pending returns what is in flight, what blocked targets hold included, or,
// once the bus is closed, what Close left without an outcome; in order of
// publication. A letter on its way through a stream is there and in the queue.
func (b *Bus) Pending() []Pending {
	b.mu.Lock()
	defer b.mu.Unlock()
	runs := slices.AppendSeq(slices.Clone(b.left), maps.Keys(b.runs))
	slices.SortFunc(runs, func(x, y *run) int { return x.seq - y.seq })
	out := make([]Pending, 0, len(runs))
	for _, r := range runs {
		out = append(out, Pending{r.lane.name, r.lane.id, slices.Clone(r.raw), r.deliveries})
	}
	return out
}

// Close cancels what is in flight, waits for the targets to return and closes
// the queue. A second Close does nothing.
func (b *Bus) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	for r := range b.runs {
		r.cancel()
	}
	b.stop()
	b.mu.Unlock()
	b.work.Wait()
	return b.queue.close()
}
