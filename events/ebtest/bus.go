// Package ebtest stands in for Alibaba Cloud EventBridge: a bus that matches
// published events against rules, delivers each to the rule's target, retries
// what failed and moves what stays failed to a dead-letter queue.
//
// The invariant: an event that was accepted ends, for each rule that matched
// it, in exactly one outcome, and only Close can leave it without one.
//
//	Publish -> unmatched
//	        -> delivery 1 .. n -> acknowledged    a delivery succeeded
//	                           -> dead_lettered   retries exhausted, the queue took the event
//	                           -> dropped         retries exhausted, no queue or an event too large for it
//	                           -> pending         the bus was closed first
//
// What the service does is kept, the inconvenient part included. A dead letter
// is the raw event as it was delivered: no error code, no count, no rule. An
// event is delivered at least once; nothing is ever deduplicated, and two
// publications of the same id are two events. Extensions of the service are
// added by text, so the publisher's spelling of numbers and order of keys
// reach the target byte for byte.
//
// Where the service is undocumented a choice was made: a delivery fails when
// its target says so, whatever the error, and all failures are retried alike.
//
// The dead-letter queue is durable if Options.Dir is set. Waiting retries are
// not: they live in the process, and Close names them in Pending.
package ebtest

import (
	"context"
	"encoding/json"
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
	EventRaw []byte // the target's own copy
	Rule     string
	Number   int // 1 for the first delivery of this event to this rule
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

// Rule joins a pattern to a target.
type Rule struct {
	Name string // unique and not empty
	// Pattern is an event pattern as the service documents it: lists of exact
	// values (numbers compared as spelled), prefix, suffix, contains,
	// anything-but, exists, numeric and cidr, in objects nested as the event's.
	// nil or {} matches every event.
	Pattern    json.RawMessage
	Policy     Policy // empty: BackoffRetry
	Target     Target
	DeadLetter bool // false: an event whose retries are exhausted is dropped
	// ErrorsTolerance is "ALL" or empty, which means the same. "NONE", which
	// blocks a stream behind its first poison event, is refused.
	ErrorsTolerance string
}

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
}

type rule struct {
	Rule
	pattern *pattern
}

// Bus is one event bus; all methods are safe for concurrent use.
type Bus struct {
	opt   Options
	rules []*rule
	slots chan struct{}
	queue *queue

	randMu sync.Mutex

	mu     sync.Mutex
	closed bool
	seq    int
	runs   map[*run]struct{} // in flight
	left   []*run            // pending when the bus was closed
	idle   chan struct{}     // closed when runs gets empty; nil while it is
	counts map[string]int
	work   sync.WaitGroup
}

// New checks the rules, opens the dead-letter queue and returns a running bus.
// TimeScale divides every wait: 60 makes a minute a second.
func New(o Options) (*Bus, error) {
	if o.TimeScale < 0 || o.Concurrency < 0 {
		return nil, errors.New("open bus: negative time scale or concurrency")
	}
	o = withDefaults(o)
	b := &Bus{opt: o, slots: make(chan struct{}, o.Concurrency), runs: map[*run]struct{}{}, counts: map[string]int{}}
	names := map[string]bool{}
	for _, one := range o.Rules {
		r, err := checkRule(one)
		if err == nil && names[one.Name] {
			err = errors.New("name taken")
		}
		if err != nil {
			return nil, fmt.Errorf("open bus: rule %q: %w", one.Name, err)
		}
		names[one.Name] = true
		b.rules = append(b.rules, r)
	}
	q, err := openQueue(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("open bus: %w", err)
	}
	b.queue = q
	return b, nil
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

func checkRule(r Rule) (*rule, error) {
	switch {
	case r.Name == "":
		return nil, errors.New("no name")
	case r.Target == nil:
		return nil, errors.New("no target")
	case r.ErrorsTolerance != "" && r.ErrorsTolerance != "ALL":
		return nil, fmt.Errorf("errors tolerance %q is not supported", r.ErrorsTolerance)
	}
	if err := r.Policy.check(); err != nil {
		return nil, err
	}
	p, err := parsePattern(r.Pattern)
	if err != nil {
		return nil, err
	}
	return &rule{r, p}, nil
}

// Counts returns a copy of the counters: published (by Deliver as well), deliveries, retries (the
// deliveries after the first), and each outcome by its name.
func (b *Bus) Counts() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return maps.Clone(b.counts)
}

// Pending is an event that is on its way to one rule.
type Pending struct {
	Rule       string
	Raw        []byte
	Deliveries int // so far
}

// Pending returns what is in flight, or, once the bus is closed, what Close
// left without an outcome; in order of publication.
func (b *Bus) Pending() []Pending {
	b.mu.Lock()
	defer b.mu.Unlock()
	runs := slices.AppendSeq(slices.Clone(b.left), maps.Keys(b.runs))
	slices.SortFunc(runs, func(x, y *run) int { return x.seq - y.seq })
	out := make([]Pending, 0, len(runs))
	for _, r := range runs {
		out = append(out, Pending{r.rule, slices.Clone(r.raw), r.deliveries})
	}
	return out
}

// Drain waits until nothing is in flight.
func (b *Bus) Drain(ctx context.Context) error {
	b.mu.Lock()
	idle := b.idle
	b.mu.Unlock()
	if idle == nil {
		return nil
	}
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
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
	b.mu.Unlock()
	b.work.Wait()
	return b.queue.close()
}
