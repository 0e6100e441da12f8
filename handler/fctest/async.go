package fctest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
)

// MaxAsyncPayload is FC's limit for the payload of an asynchronous invocation.
const MaxAsyncPayload = 128 << 10

// NoRetries as Async.MaxRetries means that a failed invocation is not run again.
const NoRetries = -1

// Conditions of an on-failure message. A function's own fault has the condition
// UnhandledInvocationError, as FC documents it; the names of the others are not
// documented and were chosen here.
const (
	ConditionExpired   = "EventAgeExceeded"   // MaxAge passed before the function succeeded
	ConditionThrottled = "ResourceExhausted"  // no instance got free within five hours
	ConditionNoStart   = "FunctionStartError" // the function could not be started: FC does not retry that
)

// Throttled invocations are tried again after 0.5, 1, 2, 4 ... s for five hours
// and use up no retry.
const (
	throttleFirst = 500 * time.Millisecond
	throttleSpan  = 5 * time.Hour
)

// Async configures asynchronous invocations. The zero value of a field means
// its default.
type Async struct {
	MaxRetries int           // 1 to 8, or NoRetries; default 3
	MaxAge     time.Duration // 1 s to 7 days from the enqueue; no run begins after it; default 24 h

	// OnFailure gets FC's message about an invocation that failed for good,
	// OnSuccess the one about an invocation that succeeded. The invocation is
	// pending until they return; ctx ends with Close.
	OnFailure, OnSuccess func(ctx context.Context, message []byte)

	// RetryWait is the time between a function's fault and retry number retry,
	// from 1. FC does not document it; default 1 s.
	RetryWait func(retry int) time.Duration

	TimeScale float64 // divides every wait and MaxAge: 60 makes a minute a second; default 1
	Sleep     func(ctx context.Context, d time.Duration) error
}

// Pending is an asynchronous invocation without an end.
type Pending struct {
	RequestID   string
	Payload     []byte
	Invocations int // times the function was run so far
}

// asyncCalls are the asynchronous invocations of a function.
type asyncCalls struct {
	ctx    context.Context
	cancel context.CancelFunc

	mu   sync.Mutex
	seq  int
	open map[*asyncCall]struct{}
	left []*asyncCall  // what Close left without an end
	idle chan struct{} // closed when open gets empty; nil while it is
}

type asyncCall struct {
	Request
	seq      int
	enqueued time.Time
	runs     int // guarded by asyncCalls.mu
}

type asyncTooLarge struct{}

func (asyncTooLarge) Error() string {
	return fmt.Sprintf("400 EntityTooLarge: payload size exceeds maximum allowed size (%d bytes)", MaxAsyncPayload)
}

func (asyncTooLarge) Is(target error) bool { return target == ErrEntityTooLarge }

func (a *Async) complete() error {
	setDefault(&a.MaxRetries, 3)
	setDefault(&a.MaxAge, 24*time.Hour)
	setDefault(&a.TimeScale, 1)
	switch {
	case a.MaxRetries < NoRetries || a.MaxRetries > 8:
		return fmt.Errorf("%d asynchronous retries, at most 8", a.MaxRetries)
	case a.MaxAge < time.Second || a.MaxAge > 7*24*time.Hour:
		return fmt.Errorf("an asynchronous age of %v is not within 1 s and 7 days", a.MaxAge)
	case a.TimeScale < 0:
		return errors.New("a time scale is below zero")
	}
	a.MaxRetries = max(a.MaxRetries, 0)
	if a.RetryWait == nil {
		a.RetryWait = func(int) time.Duration { return time.Second }
	}
	if a.Sleep == nil {
		a.Sleep = sleep
	}
	return nil
}

func newAsyncCalls() *asyncCalls {
	ctx, cancel := context.WithCancel(context.Background())
	return &asyncCalls{ctx: ctx, cancel: cancel, open: map[*asyncCall]struct{}{}}
}

// InvokeAsync enqueues an invocation and returns at once: what FC answers with
// 202. It refuses a payload above MaxAsyncPayload with an error that is
// ErrEntityTooLarge. ctx bounds the enqueue alone. The invocations run in no
// promised order, all runs of one under its one request id; x-fc-retry-count
// counts them and is not for the caller to set. The queue is in memory: what
// has no end when the function is closed is in Pending.
func (f *Function) InvokeAsync(ctx context.Context, r Request) (requestID string, err error) {
	if r.RequestID == "" {
		r.RequestID = newRequestID(f.o.Now())
	}
	if err := f.enqueue(ctx, r); err != nil {
		return r.RequestID, fmt.Errorf("invoke %s asynchronously: %w", f.o.FunctionName, err)
	}
	return r.RequestID, nil
}

func (f *Function) enqueue(ctx context.Context, r Request) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case !requestID.MatchString(r.RequestID):
		return fmt.Errorf("request id %q does not fit into a header and a path", r.RequestID)
	case len(r.Payload) > MaxAsyncPayload:
		return asyncTooLarge{}
	case r.RetryCount != 0:
		return errors.New("the retry count of an asynchronous invocation is the platform's")
	}
	r.Payload = bytes.Clone(r.Payload)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ErrClosed
	}
	f.stats.Enqueued++
	c := &asyncCall{Request: r, enqueued: f.o.Now()}
	f.async.add(c)
	f.work.Add(1)
	go func() {
		defer f.work.Done()
		f.async.remove(c, f.carry(c))
	}()
	return nil
}

func (a *asyncCalls) add(c *asyncCall) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.seq++
	c.seq = a.seq
	if len(a.open) == 0 {
		a.idle = make(chan struct{})
	}
	a.open[c] = struct{}{}
}

func (a *asyncCalls) remove(c *asyncCall, ended bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !ended {
		a.left = append(a.left, c)
	}
	delete(a.open, c)
	if len(a.open) == 0 {
		close(a.idle)
	}
}

// count notes that a run began, or with -1 that it did not come to it, and
// returns how many there were.
func (a *asyncCalls) count(c *asyncCall, n int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	c.runs += n
	return c.runs
}

// Pending returns the asynchronous invocations without an end, or, once the
// function is closed, what Close left; in order of their enqueue, as copies.
func (f *Function) Pending() []Pending {
	a := f.async
	a.mu.Lock()
	defer a.mu.Unlock()
	calls := slices.AppendSeq(slices.Clone(a.left), maps.Keys(a.open))
	slices.SortFunc(calls, func(x, y *asyncCall) int { return x.seq - y.seq })
	out := make([]Pending, 0, len(calls))
	for _, c := range calls {
		out = append(out, Pending{c.RequestID, bytes.Clone(c.Payload), c.runs})
	}
	return out
}

// Drain waits until no asynchronous invocation is open, those enqueued
// meanwhile included.
func (f *Function) Drain(ctx context.Context) error {
	a := f.async
	for {
		a.mu.Lock()
		open, idle := len(a.open), a.idle
		a.mu.Unlock()
		if open == 0 {
			return nil
		}
		select {
		case <-idle:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
