package fctest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"slices"
	"testing"
	"time"
)

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
