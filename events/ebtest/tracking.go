package ebtest

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// The outcomes of one event at one target.
const (
	// Acknowledged: a delivery succeeded.
	Acknowledged = "acknowledged"
	// DeadLettered: every delivery failed and the queue holds the event.
	DeadLettered = "dead_lettered"
	// Unmatched: no rule wanted the event; nothing was delivered.
	Unmatched = "unmatched"
	// Dropped: every delivery failed and the event is lost, Reason says why.
	Dropped = "dropped"
	// Kept: every delivery failed and the queue that the event came from still holds it.
	Kept = "kept"
	// Unfinished: the bus was closed before the event had an end.
	Unfinished = "pending"
)

// ErrNoDelivery is what First answers for an event that ended undelivered.
var ErrNoDelivery = errors.New("no delivery")

// Outcome is how one event ended at one target.
type Outcome struct {
	Rule       string // or the stream; empty if Unmatched
	Target     string // the target's id, empty for the only one
	Deliveries int
	Outcome    string
	Reason     string // for Unmatched, Dropped, Kept and Unfinished
	Last       Result // zero without a delivery
}

// Attempt is one delivery that returned.
type Attempt struct {
	Rule   string // or the stream
	Target string // the target's id, empty for the only one
	Number int
	At     time.Time // when the target was called
	Result Result
}

// Tracking follows one event; all methods are safe for concurrent use.
type Tracking struct {
	raw   []byte
	first chan struct{} // closed with the first rule's first result, or its end
	done  chan struct{} // closed with the last outcome

	mu       sync.Mutex
	open     int
	result   *Result
	outcomes []Outcome
	history  []Attempt
}

func newTracking(raw []byte, rules int) *Tracking {
	return &Tracking{
		raw: raw, open: rules, outcomes: make([]Outcome, rules),
		first: make(chan struct{}), done: make(chan struct{}),
	}
}

// Raw returns the event as it is delivered, a copy.
func (t *Tracking) Raw() []byte { return bytes.Clone(t.raw) }

// First waits for the first delivery and returns its result; if it has several
// targets, that of the first of them in Options.Rules. It returns
// ErrNoDelivery where the event ended without one.
func (t *Tracking) First(ctx context.Context) (Result, error) {
	select {
	case <-t.first:
	case <-ctx.Done():
		return Result{}, ctx.Err()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.result == nil {
		return Result{}, ErrNoDelivery
	}
	return *t.result, nil
}

// Wait waits for the end and returns one outcome for each target of the rules
// that matched, in the order of Options.Rules, or a single Unmatched.
func (t *Tracking) Wait(ctx context.Context) ([]Outcome, error) {
	select {
	case <-t.done:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.outcomes), nil
}

// History returns the deliveries that returned so far, in that order.
func (t *Tracking) History() []Attempt {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.history)
}

func (t *Tracking) record(index int, a Attempt) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.history = append(t.history, a)
	if index == 0 && t.result == nil {
		t.result = &a.Result
		close(t.first)
	}
}

func (t *Tracking) settle(index int, out Outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.outcomes[index] = out
	if index == 0 && t.result == nil {
		close(t.first)
	}
	if t.open--; t.open == 0 {
		close(t.done)
	}
}

func (t *Tracking) settleUnmatched(reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.outcomes = []Outcome{{Outcome: Unmatched, Reason: reason}}
	close(t.first)
	close(t.done)
}
