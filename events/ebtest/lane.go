package ebtest

import (
	"context"
	"errors"
	"fmt"
)

// MaxTargets is how many targets a rule may have.
const MaxTargets = 5

// The errors tolerances of a target.
const (
	// TolerateAll goes on after an event whose retries are exhausted.
	TolerateAll = "ALL"
	// TolerateNone blocks the target behind it until Resume.
	TolerateNone = "NONE"
)

// State says whether a target gets deliveries, spelled as the service's task status.
type State string

// The states of a target.
const (
	Running State = "Running"
	Ready   State = "Ready" // blocked; only with TolerateNone
)

var (
	// ErrBlocked is what Drain answers when blocked targets hold all that is left.
	ErrBlocked = errors.New("target blocked by an event whose retries are exhausted")
	// ErrNoTarget is what Resume answers for an unknown name.
	ErrNoTarget = errors.New("no such rule, target or stream")
)

// Status is one target as it is now, a copy.
type Status struct {
	Name    string // of the rule or the stream
	Target  string // of a rule with several targets, else empty
	State   State
	Pending int // events on their way to it
}

// lane is one target with what a rule or a stream says of it. An event on a
// lane is delivered, retried and settled there, whatever other lanes do.
type lane struct {
	name, id   string
	invoke     Target
	policy     Policy
	deadLetter bool
	strict     bool // TolerateNone

	resumed chan struct{} // closed by Resume; nil while the lane runs; guarded by Bus.mu
}

func newLane(name string, t RuleTarget) (*lane, error) {
	switch {
	case t.Target == nil:
		return nil, errors.New("no target")
	case t.ErrorsTolerance != "" && t.ErrorsTolerance != TolerateAll && t.ErrorsTolerance != TolerateNone:
		return nil, fmt.Errorf("unknown errors tolerance %q", t.ErrorsTolerance)
	}
	if err := t.Policy.check(); err != nil {
		return nil, err
	}
	return &lane{
		name: name, id: t.ID, invoke: t.Target, policy: t.Policy,
		deadLetter: t.DeadLetter, strict: t.ErrorsTolerance == TolerateNone,
	}, nil
}

// States returns every target of the bus, those of rules before those of streams.
func (b *Bus) States() []Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	pending := map[*lane]int{}
	for one := range b.runs {
		pending[one.lane]++
	}
	out := make([]Status, 0, len(b.lanes))
	for _, l := range b.lanes {
		state := Running
		if l.resumed != nil {
			state = Ready
		}
		out = append(out, Status{l.name, l.id, state, pending[l]})
	}
	return out
}

// Resume lets a blocked target go on: what blocked it is delivered again, with
// all its retries, and the others follow. A stream that is fed from the
// dead-letter queue also gets the letters again that it had left there. target
// is empty for a stream and for a rule with a single Target. A target that runs
// is not an error.
func (b *Bus) Resume(name, target string) error {
	for _, s := range b.streams {
		if s.lane.name == name && target == "" && s.FromDeadLetters {
			if err := b.offer(s); err != nil {
				return fmt.Errorf("resume %q: %w", name, err)
			}
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.lanes {
		if l.name != name || l.id != target {
			continue
		}
		if l.resumed != nil {
			close(l.resumed)
			l.resumed = nil
			b.blocked--
		}
		return nil
	}
	return fmt.Errorf("resume %q, target %q: %w", name, target, ErrNoTarget)
}

// block stops a lane. Deliveries that are under way end as they will.
func (b *Bus) block(l *lane) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if l.resumed == nil {
		l.resumed = make(chan struct{})
		b.blocked++
	}
	b.announce()
}

// Drain waits until nothing is in flight. It returns ErrBlocked as soon as all
// that is in flight is held by blocked targets.
func (b *Bus) Drain(ctx context.Context) error {
	for {
		b.mu.Lock()
		still, held := b.still()
		if !still && b.idle == nil {
			b.idle = make(chan struct{})
		}
		idle := b.idle
		b.mu.Unlock()
		switch {
		case still && held > 0:
			return fmt.Errorf("%w: %d events held", ErrBlocked, held)
		case still:
			return nil
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// still says that nothing moves any more, and how many events blocked lanes
// hold. Its caller holds Bus.mu.
func (b *Bus) still() (still bool, held int) {
	if len(b.runs) > 0 && b.blocked == 0 {
		return false, 0
	}
	for one := range b.runs {
		if one.lane.resumed == nil || one.calling {
			return false, 0
		}
	}
	return true, len(b.runs)
}

// announce wakes Drain where nothing moves any more. Its caller holds Bus.mu.
func (b *Bus) announce() {
	if b.idle == nil {
		return
	}
	if still, _ := b.still(); still {
		close(b.idle)
		b.idle = nil
	}
}
