package fctest

import (
	"context"
	"crypto/rand"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"time"
)

// startAttempts is how many processes may end, without being asked to, before
// an invocation is delivered; then the binary is taken to be broken. One that
// hangs instead is not tried again.
const startAttempts = 3

// Function is a deployed function. All methods are safe for concurrent use.
type Function struct {
	o         Options
	slots     chan struct{} // one for each running invocation
	closing   chan struct{}
	work      sync.WaitGroup // invocations of both kinds and instances
	async     *asyncCalls
	out       sync.Mutex // one line at a time goes to Stdout and Stderr
	instances string     // prefix of their ids

	mu     sync.Mutex
	closed bool
	alive  map[string]*instance
	idle   []*instance // the one used last is used next
	stats  Stats
}

var requestID = regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`)

// Invoke runs the function once. Whatever the function does is a Response; an
// error says that the platform could not run it: ErrResourceExhausted,
// ErrEntityTooLarge, ErrClosed, a *StartError, or the end of ctx. When ctx
// ends, only the caller stops waiting: the invocation goes on to its own end
// and holds its instance until then.
func (f *Function) Invoke(ctx context.Context, r Request) (Response, error) {
	if r.RequestID == "" {
		r.RequestID = newRequestID(f.o.Now())
	}
	resp, err := f.invoke(ctx, r)
	if err != nil {
		return Response{RequestID: r.RequestID}, fmt.Errorf("invoke %s: %w", f.o.FunctionName, err)
	}
	return resp, nil
}

func (f *Function) invoke(ctx context.Context, r Request) (Response, error) {
	if !requestID.MatchString(r.RequestID) {
		return Response{}, fmt.Errorf("request id %q does not fit into a header and a path", r.RequestID)
	}
	if len(r.Payload) > MaxPayload {
		return Response{}, ErrEntityTooLarge
	}
	r.Payload = slices.Clone(r.Payload) // a caller that gave up may use its buffer again
	if err := f.admit(ctx); err != nil {
		return Response{}, err
	}
	type result struct {
		resp Response
		err  error
	}
	done := make(chan result, 1)
	go func() {
		defer f.work.Done()
		resp, err := f.run(r)
		<-f.slots
		done <- result{resp, err}
	}()
	select {
	case d := <-done:
		return d.resp, d.err
	case <-ctx.Done():
		return Response{}, ctx.Err()
	}
}

// admit takes a slot and counts the invocation in.
func (f *Function) admit(ctx context.Context) error {
	if err := f.slot(ctx); err != nil {
		return err
	}
	if err := f.begin(); err != nil {
		<-f.slots
		return err
	}
	return nil
}

// begin counts an invocation in; its caller holds a slot.
func (f *Function) begin() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return ErrClosed
	}
	f.work.Add(1)
	f.stats.Invocations++
	return nil
}

func (f *Function) slot(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case f.slots <- struct{}{}:
		return nil
	default:
	}
	if f.o.Wait < 0 {
		return ErrResourceExhausted
	}
	var late <-chan time.Time
	if f.o.Wait > 0 {
		t := time.NewTimer(f.o.Wait)
		defer t.Stop()
		late = t.C
	}
	select {
	case f.slots <- struct{}{}:
		return nil
	case <-f.closing:
		return ErrClosed
	case <-late:
		return ErrResourceExhausted
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrResourceExhausted, ctx.Err())
	}
}

// run finds an instance for the invocation and lets it run there. A process
// that ends before it took the invocation is replaced unseen.
func (f *Function) run(r Request) (Response, error) {
	for failed := 0; ; {
		in, err := f.take()
		if err != nil {
			return Response{}, err
		}
		reason := in.ready()
		if reason == "" {
			if end, delivered := in.invoke(r); delivered {
				return f.settle(in, r, end)
			}
			reason = "ended before it took the invocation"
		}
		if in.byHand.Load() {
			continue
		}
		if failed++; failed == startAttempts || in.stuck {
			return Response{}, in.startError(failed, reason)
		}
	}
}

// take returns an idle instance, or starts one. The caller holds a slot, so
// there are never more busy instances than slots, and an idle one is always
// used first: together they stay within Options.Instances.
func (f *Function) take() (*instance, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, ErrClosed
	}
	for len(f.idle) > 0 {
		in := f.idle[len(f.idle)-1]
		f.idle = f.idle[:len(f.idle)-1]
		if !in.ended() {
			in.state = Busy
			return in, nil
		}
	}
	f.stats.Starts++
	in := newInstance(f, fmt.Sprintf("%s-%d", f.instances, f.stats.Starts), f.stats.Starts)
	f.alive[in.id] = in
	f.work.Add(1)
	go in.live()
	return in, nil
}

// settle counts the ending and decides what becomes of the instance.
func (f *Function) settle(in *instance, r Request, end outcome) (Response, error) {
	f.mu.Lock()
	switch end.ending {
	case Failed:
		f.stats.Failures++
	case Crashed:
		f.stats.Crashes++
	case TimedOut:
		f.stats.Timeouts++
	}
	closed := f.closed
	in.runs++
	switch {
	case end.ending == TimedOut && f.o.Abandon:
		in.state = Abandoned
	case end.ending == Returned || end.ending == Failed:
		in.state = Idle
		f.idle = append(f.idle, in)
	}
	f.mu.Unlock()
	if end.ending == TimedOut && !f.o.Abandon {
		in.kill()
	}
	if closed && end.ending == Crashed {
		return Response{}, ErrClosed
	}
	return end.response(r.RequestID, in), nil
}

// lateAnswer counts an answer that came after its invocation's end. It was the
// last thing an abandoned instance had to do.
func (f *Function) lateAnswer(in *instance) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stats.LateAnswers++
	if in.state == Abandoned {
		in.strike()
	}
}

func (f *Function) forget(in *instance) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.alive, in.id)
}

// Kill ends an instance with SIGKILL and returns once its process is gone; an
// instance that is not there any more is no error. Its invocation, if it has
// one, ends as Crashed. Kill never waits for an invocation, so a hook of a
// service that the function is calling may call it.
func (f *Function) Kill(instance string) {
	f.mu.Lock()
	in := f.alive[instance]
	f.mu.Unlock()
	if in != nil {
		in.byHand.Store(true)
		in.kill()
	}
}

// KillAll is Kill for every instance.
func (f *Function) KillAll() {
	f.mu.Lock()
	all := make([]*instance, 0, len(f.alive))
	for _, in := range f.alive {
		all = append(all, in)
	}
	f.mu.Unlock()
	var dead sync.WaitGroup
	for _, in := range all {
		in.byHand.Store(true)
		dead.Go(in.kill)
	}
	dead.Wait()
}

// Close kills all processes and waits until they, their listeners and all
// invocations are gone; running invocations end with ErrClosed. Asynchronous
// ones that have no end yet are in Pending from then on.
func (f *Function) Close() error {
	f.mu.Lock()
	if !f.closed {
		f.closed = true
		close(f.closing)
		f.async.cancel()
	}
	f.mu.Unlock()
	f.KillAll()
	f.work.Wait()
	return nil
}

// newRequestID has the form of FC's own: version, seconds, random.
func newRequestID(now time.Time) string {
	var b [12]byte
	_, _ = rand.Read(b[:])
	return fmt.Sprintf("1-%08x-%x", uint32(now.Unix()), b)
}
