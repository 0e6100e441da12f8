package fctest

import (
	"bytes"
	"context"
	"encoding/base64"
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

func TestOnFailureMessage(t *testing.T) {
	t.Run("has the documented shape", func(t *testing.T) {
		sample, err := os.ReadFile("testdata/on-failure.json")
		if err != nil {
			t.Fatal(err)
		}
		want := parse(t, sample)
		clock, p := newClock(), newPost()
		f := start(t, Options{
			AccountID: "1000000000000009", Now: func() time.Time { return time.UnixMilli(want.Timestamp) },
			Async: p.async(Async{MaxRetries: 2, Sleep: clock.Sleep}),
		})
		payload := order("typed error", "timeout", "")
		if _, err := f.InvokeAsync(t.Context(), Request{Payload: payload, RequestID: want.RequestContext.RequestID}); err != nil {
			t.Fatal(err)
		}
		drain(t, f)
		raw := <-p.failed
		got := parse(t, raw)
		var words struct{ ErrorMessage, ErrorType string }
		if err := json.Unmarshal([]byte(got.ResponsePayload), &words); err != nil || words.ErrorMessage != "timeout" || words.ErrorType != "rate_limited" {
			t.Errorf("response payload %s, %v", got.ResponsePayload, err)
		}
		want.RequestPayload, want.ResponsePayload = string(payload), got.ResponsePayload
		if got != want {
			t.Errorf("got  %+v\nwant %+v", got, want)
		}
		if g, w := names(t, raw), names(t, sample); !slices.Equal(g, w) {
			t.Errorf("names %v, want %v", g, w)
		}
	})

	t.Run("a payload that is not UTF-8 is in it as base64", func(t *testing.T) {
		p := newPost()
		f := start(t, Options{Async: p.async(Async{MaxRetries: NoRetries})})
		payload := []byte("\xff\x00\xfe not text")
		enqueue(t, f, payload)
		drain(t, f)
		got := parse(t, <-p.failed).RequestPayload
		if back, err := base64.StdEncoding.DecodeString(got); err != nil || !bytes.Equal(back, payload) {
			t.Errorf("got %q, %v", got, err)
		}
	})

	t.Run("text is in it as it was, HTML's characters unescaped", func(t *testing.T) {
		p := newPost()
		f := start(t, Options{Async: p.async(Async{MaxRetries: NoRetries})})
		payload := []byte(`{"Do":"<é&>\u00e9"}`)
		enqueue(t, f, payload)
		drain(t, f)
		raw := <-p.failed
		if got := parse(t, raw).RequestPayload; got != string(payload) || !bytes.Contains(raw, []byte("<é&>")) || bytes.HasSuffix(raw, []byte("\n")) {
			t.Errorf("got %s", raw)
		}
	})

	for _, c := range []struct {
		name      string
		condition string
		response  responseContext
		runs      int
		options   func(*clock) Options
	}{
		{
			"an invocation that got too old between two runs", ConditionExpired,
			responseContext{200, UnhandledInvocationError},
			3,
			func(*clock) Options {
				return Options{Async: Async{MaxRetries: 8, MaxAge: time.Minute, RetryWait: func(int) time.Duration { return 25 * time.Second }}}
			},
		},
		{
			"a function that does not start is not retried", ConditionNoStart,
			responseContext{500, ConditionNoStart},
			0,
			func(*clock) Options { return Options{Env: []string{"ECHO_START=exit"}} },
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock, p := newClock(), newPost()
			o := c.options(clock)
			o.Now, o.Async.Sleep = clock.Now, clock.Sleep
			o.Async = p.async(o.Async)
			f := start(t, o)
			enqueue(t, f, order("plain error", "x", ""))
			drain(t, f)
			m := parse(t, <-p.failed)
			if m.RequestContext.Condition != c.condition || m.ResponseContext != c.response || m.RequestContext.ApproximateInvokeCount != c.runs {
				t.Errorf("got %+v", m)
			}
		})
	}

	t.Run("an invocation that never found an instance used up no retry", func(t *testing.T) {
		clock, p, g := newClock(), newPost(), newGate(t, nil)
		f := start(t, Options{Wait: -1, Now: clock.Now, Async: p.async(Async{MaxRetries: NoRetries, Sleep: clock.Sleep})})
		running := inBackground(t.Context(), f, order("gate", "", g.url))
		await(t, g.arrived, "the invocation that holds the instance")
		enqueue(t, f, order("echo", "x", ""))
		drain(t, f)
		m := parse(t, <-p.failed)
		if m.RequestContext.Condition != ConditionThrottled || m.RequestContext.ApproximateInvokeCount != 0 || m.ResponseContext != (responseContext{429, ConditionThrottled}) {
			t.Errorf("got %+v", m)
		}
		var sum time.Duration
		for i, d := range clock.slept {
			if d != 500*time.Millisecond<<i {
				t.Errorf("wait %d is %v", i, d)
			}
			sum += d
		}
		if sum > 5*time.Hour || 2*sum+time.Second < 5*time.Hour {
			t.Errorf("it waited %v", sum)
		}
		close(g.open)
		await(t, running, "the first result")
	})
}

// names lists the names of a JSON object and of the objects in it.
func names(t *testing.T, raw []byte) (out []string) {
	t.Helper()
	var v map[string]json.RawMessage
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	for name, value := range v {
		out = append(out, name+":"+string(kind(value)))
		if value[0] == '{' {
			for _, inner := range names(t, value) {
				out = append(out, name+"."+inner)
			}
		}
	}
	slices.Sort(out)
	return out
}

func kind(value json.RawMessage) byte {
	if value[0] >= '0' && value[0] <= '9' {
		return '0'
	}
	return value[0]
}

func TestCloseLeavesAsynchronousInvocationsInPending(t *testing.T) {
	p, g := newPost(), newGate(t, nil)
	asleep := make(chan struct{})
	f := start(t, Options{Instances: 2, Async: p.async(Async{Sleep: func(ctx context.Context, _ time.Duration) error {
		close(asleep)
		<-ctx.Done()
		return ctx.Err()
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
