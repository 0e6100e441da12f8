package fctest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/events/ebtest"
)

// clock is a time that passes only while something sleeps.
type clock struct {
	mu    sync.Mutex
	now   time.Time
	slept []time.Duration
}

func newClock() *clock { return &clock{now: time.UnixMilli(1_700_000_000_123)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) Sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	c.slept = append(c.slept, d)
	return ctx.Err()
}

// post is a destination of both kinds.
type post struct{ failed, succeeded chan []byte }

func newPost() post { return post{make(chan []byte, 100), make(chan []byte, 100)} }

func (p post) async(a Async) Async {
	a.OnFailure = func(_ context.Context, m []byte) { p.failed <- m }
	a.OnSuccess = func(_ context.Context, m []byte) { p.succeeded <- m }
	return a
}

func enqueue(t *testing.T, f *Function, payload []byte) string {
	t.Helper()
	id, err := f.InvokeAsync(t.Context(), Request{Payload: payload})
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func drain(t *testing.T, f *Function) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := f.Drain(ctx); err != nil {
		t.Fatal(err)
	}
}

func parse(t *testing.T, raw []byte) (m message) {
	t.Helper()
	if err := json.Unmarshal(raw, &m); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	return m
}

func TestInvokeAsync(t *testing.T) {
	t.Run("retries keep the request id and raise the retry count", func(t *testing.T) {
		for _, c := range []struct {
			name       string
			retries    int
			succeedsAt string
			runs       int
		}{
			{"until it succeeds", 0, "2", 3},
			{"three times by default", 0, "never", 4},
			{"as often as configured", 8, "never", 9},
			{"not at all", NoRetries, "never", 1},
		} {
			t.Run(c.name, func(t *testing.T) {
				clock, p, g := newClock(), newPost(), newGate(t, nil)
				close(g.open)
				f := start(t, Options{Now: clock.Now, Async: p.async(Async{MaxRetries: c.retries, Sleep: clock.Sleep})})
				id := enqueue(t, f, order("succeed at retry", c.succeedsAt, g.url))
				drain(t, f)
				for retry := range c.runs {
					if got, want := await(t, g.arrived, "a run"), fmt.Sprintf("%s/%d", id, retry); got != want {
						t.Errorf("run %d was %s, want %s", retry, got, want)
					}
				}
				if n := len(g.arrived); n != 0 {
					t.Errorf("%d runs too many", n)
				}
				failed := c.succeedsAt == "never"
				if (len(p.failed) == 1) != failed || (len(p.succeeded) == 1) == failed {
					t.Errorf("%d on-failure and %d on-success messages", len(p.failed), len(p.succeeded))
				}
				if want := slices.Repeat([]time.Duration{time.Second}, c.runs-1); !slices.Equal(clock.slept, want) {
					t.Errorf("slept %v, want %v", clock.slept, want)
				}
				if s := f.Stats(); s.Enqueued != 1 || s.Invocations != c.runs || len(f.Pending()) != 0 {
					t.Errorf("got %+v, pending %+v", s, f.Pending())
				}
			})
		}
	})

	t.Run("it answers before the function ran", func(t *testing.T) {
		p, g := newPost(), newGate(t, nil)
		f := start(t, Options{Async: p.async(Async{})})
		payload := order("gate", "x", g.url)
		id := enqueue(t, f, payload)
		payload[0] = '!' // the caller's buffer is its own again
		await(t, g.arrived, "the run")
		want := []Pending{{id, order("gate", "x", g.url), 1}}
		if got := f.Pending(); !reflect.DeepEqual(got, want) {
			t.Errorf("pending %+v, want %+v", got, want)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := f.Drain(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("drain with a run open: %v", err)
		}
		close(g.open)
		drain(t, f)
		m := parse(t, <-p.succeeded)
		if m.RequestContext.RequestID != id || m.RequestContext.Condition != "" || m.RequestContext.ApproximateInvokeCount != 1 ||
			m.ResponseContext != (responseContext{200, ""}) || m.ResponsePayload != `"x"` {
			t.Errorf("got %+v", m)
		}
	})

	t.Run("the waits are the caller's, divided by the time scale", func(t *testing.T) {
		clock := newClock()
		f := start(t, Options{Now: clock.Now, Async: Async{
			MaxRetries: 2, TimeScale: 10, Sleep: clock.Sleep,
			RetryWait: func(retry int) time.Duration { return time.Duration(retry) * time.Minute },
		}})
		enqueue(t, f, order("plain error", "x", ""))
		drain(t, f)
		if want := []time.Duration{6 * time.Second, 12 * time.Second}; !slices.Equal(clock.slept, want) {
			t.Errorf("slept %v, want %v", clock.slept, want)
		}
	})

	t.Run("without a Sleep of the caller's a timer is waited for", func(t *testing.T) {
		p := newPost()
		f := start(t, Options{Async: p.async(Async{MaxRetries: 2, TimeScale: 1e6})})
		enqueue(t, f, order("plain error", "x", ""))
		drain(t, f)
		if m := parse(t, <-p.failed); m.RequestContext.ApproximateInvokeCount != 3 {
			t.Errorf("got %+v", m)
		}
	})

	t.Run("what FC refuses is refused at once", func(t *testing.T) {
		f := start(t, Options{Async: newPost().async(Async{})})
		fits := bytes.Repeat([]byte(" "), MaxAsyncPayload)
		if _, err := f.InvokeAsync(t.Context(), Request{Payload: append(fits, ' ')}); !errors.Is(err, ErrEntityTooLarge) || !strings.Contains(err.Error(), "131072") {
			t.Errorf("a byte above 128 KB: %v", err)
		}
		copy(fits, order("echo", "x", ""))
		if _, err := f.InvokeAsync(t.Context(), Request{Payload: fits}); err != nil {
			t.Errorf("128 KB: %v", err)
		}
		drain(t, f)
		if _, err := f.InvokeAsync(t.Context(), Request{RetryCount: 1}); err == nil {
			t.Error("a caller's retry count was taken")
		}
		if _, err := f.InvokeAsync(t.Context(), Request{RequestID: "a/b"}); err == nil {
			t.Error("a request id with a slash was taken")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := f.InvokeAsync(ctx, Request{}); !errors.Is(err, context.Canceled) {
			t.Errorf("a cancelled enqueue: %v", err)
		}
		_ = f.Close()
		if _, err := f.InvokeAsync(t.Context(), Request{}); !errors.Is(err, ErrClosed) {
			t.Errorf("after close: %v", err)
		}
		for _, a := range []Async{{MaxRetries: 9}, {MaxRetries: -2}, {MaxAge: time.Millisecond}, {MaxAge: 8 * 24 * time.Hour}, {TimeScale: -1}} {
			if _, err := Start(Options{Binary: os.Getenv("FCTEST_BINARY"), Credentials: someone, Async: a}); err == nil {
				t.Errorf("%+v was taken", a)
			}
		}
	})

	t.Run("an event bus sees success at the enqueue, the destination gets the raw event", func(t *testing.T) {
		clock, p := newClock(), newPost()
		f := start(t, Options{Async: p.async(Async{Sleep: clock.Sleep})})
		b, err := ebtest.New(ebtest.Options{Rules: []ebtest.Rule{{Name: "r", DeadLetter: true, Target: ebtest.AsyncTarget(
			func(ctx context.Context, payload []byte) (string, error) {
				return f.InvokeAsync(ctx, Request{Payload: payload})
			})}}})
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		tr, err := b.Publish(t.Context(), []byte(`{"specversion":"1.0","id":"1","source":"s","type":"t","data":{"n":1.50,"t":"<é>"}}`))
		if err != nil {
			t.Fatal(err)
		}
		out, err := tr.Wait(t.Context())
		if err != nil || out[0].Outcome != ebtest.Acknowledged || out[0].Deliveries != 1 || out[0].Last.RequestID == "" {
			t.Fatalf("got %+v, %v", out, err)
		}
		drain(t, f)
		m := parse(t, <-p.failed)
		if m.RequestPayload != string(tr.Raw()) || m.RequestContext.RequestID != out[0].Last.RequestID {
			t.Errorf("got %+v, want the event %s", m, tr.Raw())
		}
		if letters, err := b.DeadLetters(); err != nil || len(letters) != 0 {
			t.Errorf("dead letters %v, %v", letters, err)
		}
	})
}

func TestCloseLeavesAsynchronousInvocationsInPending(t *testing.T) {
	p, g := newPost(), newGate(t, nil)
	asleep := make(chan struct{})
	f := start(t, Options{Instances: 2, Async: p.async(Async{RetryWait: func(int) time.Duration {
		close(asleep)
		return time.Hour
	}})})
	sleeping := enqueue(t, f, order("plain error", "x", ""))
	await(t, asleep, "the wait before a retry")
	running := []string{enqueue(t, f, order("gate", "", g.url)), enqueue(t, f, order("gate", "", g.url))}
	await(t, g.arrived, "a run")
	await(t, g.arrived, "a run")
	queued := enqueue(t, f, order("echo", "x", ""))
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	type left struct {
		id   string
		runs int
	}
	var got []left
	for _, one := range f.Pending() {
		got = append(got, left{one.RequestID, one.Invocations})
	}
	want := []left{{sleeping, 1}, {running[0], 1}, {running[1], 1}, {queued, 0}}
	if !slices.Equal(got, want) || len(p.failed)+len(p.succeeded) != 0 {
		t.Errorf("pending %v, want %v; %d messages", got, want, len(p.failed)+len(p.succeeded))
	}
	drain(t, f)
}
