package fctest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// process plays a function's process towards the Runtime API.
type process struct {
	in  *instance
	api http.Handler
}

func newProcess(t *testing.T, o Options) process {
	in := newInstance(start(t, o), "c-1", 1)
	close(in.started)
	return process{in, in.runtimeAPI()}
}

func (p process) call(ctx context.Context, method, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	p.api.ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, apiPath+path, strings.NewReader(body)))
	return w
}

func (p process) deliver(r Request) <-chan outcome {
	c := make(chan outcome, 1)
	go func() {
		end, _ := p.in.invoke(r)
		c <- end
	}()
	return c
}

func TestRuntimeAPI(t *testing.T) {
	t.Run("next carries the payload and every header of the SDK", func(t *testing.T) {
		p := newProcess(t, Options{Now: func() time.Time { return time.UnixMilli(1_700_000_000_123) }})
		end := p.deliver(Request{Payload: []byte("bytes"), RequestID: "id-1", RetryCount: 3})
		w := p.call(t.Context(), "GET", "next", "")
		if w.Code != 200 || w.Body.String() != "bytes" {
			t.Errorf("got %d %q", w.Code, w.Body)
		}
		want := map[string]string{
			"X-Fc-Request-Id": "id-1", "X-Fc-Function-Deadline": "1700000060123", "X-Fc-Function-Type": "0",
			"X-Fc-Function-Name": "oncegate-tasks", "X-Fc-Function-Handler": "echo", "X-Fc-Function-Memory": "512",
			"X-Fc-Function-Timeout": "60", "X-Fc-Access-Key-Id": "STS.id", "X-Fc-Access-Key-Secret": "secret",
			"X-Fc-Security-Token": "token", "X-Fc-Service-Logproject": "", "X-Fc-Service-Logstore": "",
			"X-Fc-Region": "cn-hangzhou", "X-Fc-Account-Id": "1234567890123456", "X-Fc-Qualifier": "LATEST",
			"X-Fc-Version-Id": "LATEST", "X-Fc-Retry-Count": "3",
		}
		for k := range w.Header() {
			if v, ok := want[k]; strings.HasPrefix(k, "X-Fc-") && (!ok || w.Header().Get(k) != v) {
				t.Errorf("%s: %q, want %q", k, w.Header().Get(k), v)
			}
			delete(want, k)
		}
		if len(want) > 0 {
			t.Errorf("missing: %v", want)
		}
		p.call(t.Context(), "POST", "id-1/response", "")
		await(t, end, "the end")
	})

	t.Run("only the first answer to the running invocation counts", func(t *testing.T) {
		p := newProcess(t, Options{})
		end := p.deliver(Request{RequestID: "id-1"})
		p.call(t.Context(), "GET", "next", "")
		for _, c := range []struct {
			path string
			code int
		}{
			{"id-0/response", 410},
			{"id-1/error", 200},
			{"id-1/response", 410},
			{"id-1/error", 410},
		} {
			if w := p.call(t.Context(), "POST", c.path, c.path); w.Code != c.code {
				t.Errorf("%s: got %d, want %d", c.path, w.Code, c.code)
			}
		}
		if got := await(t, end, "the end"); got.ending != Failed || string(got.payload) != "id-1/error" {
			t.Errorf("got %s %s", got.ending, got.payload)
		}
		if n := p.in.fn.Stats().LateAnswers; n != 3 {
			t.Errorf("%d late answers, want 3", n)
		}
	})

	t.Run("an answer after the time-out is refused", func(t *testing.T) {
		p := newProcess(t, Options{Timeout: time.Millisecond})
		end := p.deliver(Request{RequestID: "id-1"})
		if got := await(t, end, "the end"); got.ending != TimedOut {
			t.Errorf("got %s", got.ending)
		}
		if w := p.call(t.Context(), "POST", "id-1/response", ""); w.Code != 410 {
			t.Errorf("got %d", w.Code)
		}
	})

	t.Run("a request for work that is cut off takes nothing", func(t *testing.T) {
		p := newProcess(t, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		p.call(ctx, "GET", "next", "")
		end := p.deliver(Request{RequestID: "id-1"})
		if w := p.call(t.Context(), "GET", "next", ""); w.Header().Get("x-fc-request-id") != "id-1" {
			t.Errorf("got %v", w.Header())
		}
		p.call(t.Context(), "POST", "id-1/response", "")
		await(t, end, "the end")
	})

	t.Run("an invocation that timed out unseen is not handed over", func(t *testing.T) {
		p := newProcess(t, Options{Timeout: time.Millisecond})
		await(t, p.deliver(Request{RequestID: "id-1"}), "the time-out")
		p.in.fn.o.Timeout = time.Hour
		end := p.deliver(Request{RequestID: "id-2"})
		if w := p.call(t.Context(), "GET", "next", ""); w.Header().Get("x-fc-request-id") != "id-2" {
			t.Errorf("got %v", w.Header())
		}
		p.call(t.Context(), "POST", "id-2/response", "")
		await(t, end, "the end")
	})

	t.Run("a process that ends before it took the invocation did not fail it", func(t *testing.T) {
		for _, taken := range []bool{false, true} {
			p := newProcess(t, Options{})
			delivered := make(chan bool)
			go func() {
				_, d := p.in.invoke(Request{RequestID: "id-1"})
				delivered <- d
			}()
			if taken {
				p.call(t.Context(), "GET", "next", "")
			}
			close(p.in.exited)
			if d := await(t, delivered, "the end"); d != taken {
				t.Errorf("taken %v, delivered %v", taken, d)
			}
		}
	})

	t.Run("other paths and methods do not exist", func(t *testing.T) {
		p := newProcess(t, Options{})
		for path, method := range map[string]string{"next": "POST", "id-1/response": "GET", "id-1/other": "POST", "": "GET"} {
			if w := p.call(t.Context(), method, path, ""); w.Code != 404 && w.Code != 405 {
				t.Errorf("%s %s: got %d", method, path, w.Code)
			}
		}
	})
}
