package fctest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

type front struct {
	t   *testing.T
	url string
}

func newFront(t *testing.T, f *Function) front {
	srv := httptest.NewServer(f.Handler())
	t.Cleanup(srv.Close)
	return front{t, srv.URL}
}

func (fr front) post(path, kind string, payload []byte, headers ...string) (*http.Response, string) {
	fr.t.Helper()
	req, err := http.NewRequestWithContext(fr.t.Context(), "POST", fr.url+path, strings.NewReader(string(payload)))
	if err != nil {
		fr.t.Fatal(err)
	}
	if kind != "" {
		req.Header.Set("x-fc-invocation-type", kind)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		fr.t.Fatal(err)
	}
	defer resp.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		fr.t.Fatal(err)
	}
	return resp, string(body)
}

const invocations = "/2023-03-30/functions/oncegate-tasks/invocations"

func TestHandler(t *testing.T) {
	t.Run("a synchronous invocation answers with the function's own bytes", func(t *testing.T) {
		fr := newFront(t, start(t, Options{VersionID: "7"}))
		for _, c := range []struct{ kind, query string }{{"", ""}, {"Sync", "?qualifier="}, {"Sync", "?qualifier=LATEST"}, {"Sync", "?qualifier=7"}} {
			resp, body := fr.post(invocations+c.query, c.kind, order("echo", "<x>", ""))
			if resp.StatusCode != 200 || body != `"\u003cx\u003e"` || resp.Header.Get("X-Fc-Error-Type") != "" || resp.Header.Get("X-Fc-Request-Id") == "" {
				t.Errorf("%+v: got %d %s, %v", c, resp.StatusCode, body, resp.Header)
			}
		}
	})

	t.Run("a function's fault is a 200 with its type", func(t *testing.T) {
		fr := newFront(t, start(t, Options{}))
		resp, body := fr.post(invocations, "Sync", order("typed error", "words", ""))
		if resp.StatusCode != 200 || resp.Header.Get("X-Fc-Error-Type") != UnhandledInvocationError || !strings.Contains(body, "rate_limited") {
			t.Errorf("got %d %s, %v", resp.StatusCode, body, resp.Header)
		}
	})

	t.Run("an asynchronous invocation is a 202 and runs under the request id of the answer", func(t *testing.T) {
		p, g := newPost(), newGate(t, nil)
		f := start(t, Options{Async: p.async(Async{})})
		resp, body := newFront(t, f).post(invocations, "Async", order("succeed at retry", "0", g.url))
		id := resp.Header.Get("X-Fc-Request-Id")
		if resp.StatusCode != 202 || body != "" || id == "" {
			t.Errorf("got %d %s, %v", resp.StatusCode, body, resp.Header)
		}
		if got := await(t, g.arrived, "the run"); got != id+"/0" {
			t.Errorf("ran as %s, want %s/0", got, id)
		}
		close(g.open)
		drain(t, f)
		if m := parse(t, <-p.succeeded); m.RequestContext.RequestID != id {
			t.Errorf("got %+v", m)
		}
	})

	t.Run("what the platform refuses has FC's status and code", func(t *testing.T) {
		f := start(t, Options{Qualifier: "prod", VersionID: "7"})
		fr := newFront(t, f)
		const named = invocations + "?qualifier=prod"
		for _, c := range []struct {
			name, path, kind string
			payload          int
			status           int
			code             string
		}{
			{"another function", "/2023-03-30/functions/another/invocations?qualifier=prod", "Sync", 0, 404, "FunctionNotFound"},
			{"another alias", invocations + "?qualifier=beta", "Sync", 0, 404, "AliasNotFound"},
			{"another version", invocations + "?qualifier=8", "Sync", 0, 404, "VersionNotFound"},
			{"LATEST where an alias is deployed", invocations, "Async", 0, 404, "VersionNotFound"},
			{"another type of invocation", named, "Later", 0, 400, "InvalidArgument"},
			{"more than 128 KB asynchronously", named, "Async", MaxAsyncPayload + 1, 400, "EntityTooLarge"},
			{"more than 32 MB", named, "Sync", MaxPayload + 1, 400, "EntityTooLarge"},
		} {
			t.Run(c.name, func(t *testing.T) {
				resp, body := fr.post(c.path, c.kind, make([]byte, c.payload))
				checkRefusal(t, resp, body, c.status, c.code)
			})
		}
		resp, body := fr.post(named, "Async", nil, "x-fc-async-task-id", "task")
		checkRefusal(t, resp, body, 400, "InvalidArgument")
		if s := f.Stats(); s.Invocations != 0 || s.Enqueued != 0 {
			t.Errorf("a refused one came through: %+v", s)
		}
		_ = f.Close()
		resp, body = fr.post(named, "Async", nil)
		checkRefusal(t, resp, body, 503, "ServiceUnavailable")
	})

	t.Run("no free instance is a 429", func(t *testing.T) {
		g := newGate(t, nil)
		f := start(t, Options{Wait: -1})
		running := inBackground(t.Context(), f, order("gate", "", g.url))
		await(t, g.arrived, "the invocation that holds the instance")
		resp, body := newFront(t, f).post(invocations, "Sync", order("echo", "x", ""))
		checkRefusal(t, resp, body, 429, "ResourceExhausted")
		close(g.open)
		await(t, running, "the first result")
	})

	t.Run("a function that does not start is a 500 without its output", func(t *testing.T) {
		resp, body := newFront(t, start(t, Options{Env: []string{"ECHO_START=exit"}})).post(invocations, "Sync", nil)
		checkRefusal(t, resp, body, 500, "FunctionStartError")
		if strings.Contains(body, "configuration") {
			t.Errorf("the output is in the answer: %s", body)
		}
	})
}

func checkRefusal(t *testing.T, resp *http.Response, body string, status int, code string) {
	t.Helper()
	var e struct{ RequestId, Code, Message, ErrorCode, ErrorMessage string }
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	if resp.StatusCode != status || e.Code != code || e.ErrorCode != code || e.Message == "" || e.Message != e.ErrorMessage ||
		e.RequestId == "" || e.RequestId != resp.Header.Get("X-Fc-Request-Id") {
		t.Errorf("got %d %s, want %d %s", resp.StatusCode, body, status, code)
	}
}
