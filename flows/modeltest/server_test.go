package modeltest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncegate/oncegate/flows/modeltest"
)

func TestAScriptRunsInOrderAndIsCountedByContent(t *testing.T) {
	for _, r := range reaches() {
		t.Run(r.name, func(t *testing.T) {
			s, h := r.open(t, modeltest.Options{})
			const script = "[[model status=429 retry_after=3 times=2]] order 17 [[model cut]][[model\tstatus=503\n]]"
			send := func(content string) (int, http.Header) {
				status, header, _ := post(t, h, s.Endpoint()+"/chat/completions", bodyOf("m", content), nil)
				return status, header
			}
			for i, want := range []int{429, 429, 0, 503, 200, 200} {
				status, header := send(script)
				if status != want {
					t.Errorf("call %d: status %d, want %d", i+1, status, want)
				}
				if got := header.Get("Retry-After"); (want == 429 && got != "3") || (want != 429 && got != "") {
					t.Errorf("call %d: Retry-After %q", i+1, got)
				}
				if status, _ := send("[[model status=500 times=-1]]"); status != 500 {
					t.Errorf("another content: status %d", status)
				}
			}
			if status, _ := send(script + " "); status != 429 {
				t.Error("a content that differs by a space shares the count")
			}
		})
	}
}

func TestScriptedBodiesAreWhatTheyAreCalled(t *testing.T) {
	const text = "words of <the> customer"
	for _, tc := range []struct {
		directive, contentType string
		status                 int
		check                  func(body string) bool
	}{
		{"garbage", "text/html; charset=utf-8", 200, func(b string) bool {
			return strings.HasPrefix(b, "<html>") && strings.Contains(b, "words of &lt;the&gt; customer")
		}},
		{"empty", "application/json", 200, func(b string) bool { return b == "" }},
		{"nochoices", "application/json", 200, func(b string) bool { return strings.Contains(b, `"choices":[]`) }},
		{"error200 code=Throttling", "application/json", 200, isError("Throttling", "req-000001", text)},
		{"error200", "application/json", 200, isError("internal_error", "req-000001", text)},
		{"status=418", "application/json", 418, isError("internal_error", "req-000001", text)},
		{"status=400 code=DataInspectionFailed", "application/json", 400, isError("DataInspectionFailed", "req-000001", text)},
	} {
		t.Run(tc.directive, func(t *testing.T) {
			s, h := inProcess(t, modeltest.Options{})
			status, header, body := post(t, h, s.Endpoint()+"/chat/completions", bodyOf("m", "[[model "+tc.directive+"]]"+text), nil)
			if status != tc.status || header.Get("Content-Type") != tc.contentType || !tc.check(body) {
				t.Errorf("%d %v %q", status, header, body)
			}
			if header.Get("X-Request-Id") != "req-000001" {
				t.Errorf("request id %q", header.Get("X-Request-Id"))
			}
		})
	}
}

// isError checks the whole error body: no field more, no field less.
func isError(code, requestID, text string) func(string) bool {
	return func(body string) bool {
		var got map[string]any
		if json.Unmarshal([]byte(body), &got) != nil || len(got) != 2 || got["request_id"] != requestID {
			return false
		}
		e, _ := got["error"].(map[string]any)
		param, present := e["param"]
		message, _ := e["message"].(string)
		return len(e) == 4 && e["code"] == code && e["type"] == code && present && param == nil && strings.Contains(message, text)
	}
}

func TestRequestsAreKeptAsCopies(t *testing.T) {
	s, h := inProcess(t, modeltest.Options{Now: at})
	const content = "[[model status=429]] x"
	for range 2 {
		post(t, h, s.Endpoint()+"/chat/completions", bodyOf("qwen-max", content), http.Header{"X-Request-Id": {"stable"}})
	}
	got := s.Requests()
	want := modeltest.Request{Number: 2, RequestID: "stable", Model: "qwen-max", ContentSHA256: sha(content), Time: at(), Status: 200}
	if len(got) != 2 || got[1] != want || got[0].Status != 429 || got[0].Number != 1 {
		t.Errorf("requests %+v", got)
	}
	got[0].Model = "changed"
	if s.Requests()[0].Model != "qwen-max" {
		t.Error("a caller changed the record")
	}
}

func TestWhatTheProviderRefusesIsRefused(t *testing.T) {
	for _, tc := range []struct {
		name, path, body string
		header           http.Header
		status           int
		says             string
	}{
		{name: "the compatible-mode path", path: "/compatible-mode/v1/chat/completions", body: bodyOf("m", "x"), status: 200},
		{name: "another path", path: "/v1/completions", body: bodyOf("m", "x"), status: 404, says: "no such path"},
		{name: "no key", body: bodyOf("m", "x"), header: http.Header{"Authorization": nil}, status: 401, says: "invalid_api_key"},
		{name: "an empty key", body: bodyOf("m", "x"), header: http.Header{"Authorization": {"Bearer "}}, status: 401, says: "invalid_api_key"},
		{name: "another scheme", body: bodyOf("m", "x"), header: http.Header{"Authorization": {"Basic k"}}, status: 401, says: "invalid_api_key"},
		{name: "no JSON", body: `{`, status: 400, says: "no chat completion request"},
		{name: "no model", body: bodyOf("", "x"), status: 400, says: "model parameter"},
		{name: "no messages", body: `{"model":"m","messages":[]}`, status: 400, says: "messages must not be empty"},
		{name: "no text", body: bodyOf("m", ""), status: 400, says: "no user message with text"},
		{name: "an unknown role", body: `{"model":"m","messages":[{"role":"boss","content":"x"}]}`, status: 400, says: "messages[0]: unknown role"},
		{name: "a number as content", body: `{"model":"m","messages":[{"role":"user","content":1}]}`, status: 400, says: "messages[0]: content"},
		{name: "a stream", body: `{"model":"m","stream":true,"messages":[{"role":"user","content":"x"}]}`, status: 400, says: "does not stream"},
		{name: "an unknown word", body: bodyOf("m", "[[model sttus=429]]"), status: 400, says: `directive 1: unknown word \"sttus\"`},
		{name: "the second directive", body: bodyOf("m", "[[model cut]] [[model]]"), status: 400, says: "directive 2: says nothing to do"},
		{
			name: "parts of text", status: 429, says: "one [[model status=429]]\\ntwo",
			body: `{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"one [[model status=429]]"},{"type":"image_url"},{"type":"text","text":"two"}]}]}`,
		},
		{
			name: "a tool call without content", status: 200,
			body: `{"model":"m","messages":[{"role":"user","content":"x"},{"role":"assistant","content":null},{"role":"tool"}]}`,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, h := inProcess(t, modeltest.Options{})
			path := tc.path
			if path == "" {
				path = "/v1/chat/completions"
			}
			status, _, body := post(t, h, "http://model.invalid"+path, tc.body, tc.header)
			if status != tc.status || !strings.Contains(body, tc.says) {
				t.Errorf("%d %s", status, body)
			}
		})
	}
	s, h := inProcess(t, modeltest.Options{})
	resp, err := h.Get(s.Endpoint() + "/chat/completions")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusMethodNotAllowed || s.Calls() != 0 {
		t.Errorf("GET: %d, %d calls", resp.StatusCode, s.Calls())
	}
}

func TestDelaysUseTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, h := inProcess(t, modeltest.Options{})
		c := client(s, h, "k")
		start := time.Now()
		const content = "[[model delay=5s times=2]] [[model delay=1m status=503]]"
		for i, want := range []time.Duration{5 * time.Second, 10 * time.Second, 70 * time.Second, 70 * time.Second} {
			_, err := ask(t.Context(), c, "m", content)
			if took := time.Since(start); took != want || (err != nil) != (i == 2) {
				t.Errorf("call %d: %v in all, %v", i+1, took, err)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start = time.Now()
		if _, err := ask(ctx, c, "m", "[[model delay=1h]]"); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != time.Second {
			t.Errorf("a caller that leaves: %v after %v", err, time.Since(start))
		}
		if last := s.Requests()[s.Calls()-1]; last.Status != 0 {
			t.Errorf("request %+v", last)
		}
	})
}

func TestConcurrentCallsAreCountedOnce(t *testing.T) {
	s, h := inProcess(t, modeltest.Options{})
	var wg sync.WaitGroup
	var mu sync.Mutex
	ids, failed := map[string]bool{}, 0
	for i := range 20 {
		wg.Go(func() {
			got, err := ask(t.Context(), client(s, h, "k"), "m", fmt.Sprintf("[[model status=429 times=3]] %d", i%2))
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed++
				return
			}
			ids[got.ID] = true
		})
	}
	wg.Wait()
	if failed != 6 || len(ids) != 14 || s.Calls() != 20 {
		t.Errorf("%d failed, %d ids, %d calls", failed, len(ids), s.Calls())
	}
}

func TestAServerStartsOnceAndClosesTwice(t *testing.T) {
	s := modeltest.New(modeltest.Options{})
	if s.Endpoint() != "http://model.invalid/v1" {
		t.Errorf("endpoint before start %s", s.Endpoint())
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err == nil {
		t.Error("started twice")
	}
	if e := s.Endpoint(); !strings.HasPrefix(e, "http://127.0.0.1:") || !strings.HasSuffix(e, "/v1") {
		t.Errorf("endpoint %s", e)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
}
