package modeltest_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"github.com/oncegate/oncegate/flows/modeltest"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

func at() time.Time { return time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC) }

func TestTheRealClientReadsTheNormalAnswer(t *testing.T) {
	for _, r := range reaches() {
		t.Run(r.name, func(t *testing.T) {
			s, h := r.open(t, modeltest.Options{Now: at})
			c := client(s, h, "any key")
			first, err := ask(t.Context(), c, "qwen-plus", "Order 17\n is late.")
			if err != nil {
				t.Fatal(err)
			}
			want := "Summary: Order 17 is late. (" + sha("Order 17\n is late.")[:8] + ")"
			if len(first.Choices) != 1 || first.Choices[0].Message.Content != want ||
				first.Choices[0].Message.Role != "assistant" || first.Choices[0].FinishReason != openai.FinishReasonStop {
				t.Errorf("choices %+v, want %q", first.Choices, want)
			}
			if first.Model != "qwen-plus" || first.Created != at().Unix() || first.Object != "chat.completion" ||
				first.Usage.PromptTokens == 0 || first.Usage.TotalTokens != first.Usage.PromptTokens+first.Usage.CompletionTokens {
				t.Errorf("answer %+v", first)
			}
			again, err := ask(t.Context(), c, "qwen-plus", "Order 17\n is late.")
			if err != nil || again.Choices[0].Message.Content != want || again.ID == first.ID {
				t.Errorf("second call: id %s after %s, %+v, %v", again.ID, first.ID, again.Choices, err)
			}
			other, err := ask(t.Context(), c, "qwen-plus", "Order 18 is late.")
			if err != nil || other.Choices[0].Message.Content == want {
				t.Errorf("another content has the same answer: %v", err)
			}
			if s.Calls() != 3 {
				t.Errorf("%d calls", s.Calls())
			}
		})
	}
}

func TestSummariesDifferAndAreShort(t *testing.T) {
	long := strings.Repeat("é", 61)
	if a, b := modeltest.Summary(long+"a"), modeltest.Summary(long+"b"); a == b || strings.Count(a, "é") != 60 {
		t.Errorf("%q and %q", a, b)
	}
	if got := modeltest.Summary("[[model cut]]  x [[model garbage]]"); !strings.HasPrefix(got, "Summary: x (") {
		t.Errorf("directives stay in %q", got)
	}
	if got := modeltest.Summary("[[model oops]] x"); !strings.HasPrefix(got, "Summary: [[model oops]] x (") {
		t.Errorf("broken directives go from %q", got)
	}
}

func TestTheRealClientSeesScriptedErrors(t *testing.T) {
	for _, tc := range []struct {
		directive    string
		status       int
		code, kind   string
		key, modelID string
	}{
		{directive: "status=429", status: 429, code: "limit_requests", kind: "limit_requests"},
		{directive: "status=400", status: 400, code: "invalid_parameter_error", kind: "invalid_request_error"},
		{directive: "status=400 code=DataInspectionFailed", status: 400, code: "DataInspectionFailed", kind: "DataInspectionFailed"},
		{directive: "code=Arrearage status=400", status: 400, code: "Arrearage", kind: "Arrearage"},
		{directive: "status=401", status: 401, code: "invalid_api_key", kind: "invalid_request_error"},
		{directive: "status=403", status: 403, code: "access_denied", kind: "access_denied"},
		{directive: "status=404", status: 404, code: "model_not_found", kind: "invalid_request_error"},
		{directive: "status=503 times=-1", status: 503, code: "service_unavailable", kind: "service_unavailable"},
		{directive: "status=500", status: 500, code: "internal_error", kind: "internal_error"},
		{directive: "cut", key: "wrong", status: 401, code: "invalid_api_key", kind: "invalid_request_error"},
		{directive: "cut", modelID: "missing-model", status: 404, code: "model_not_found", kind: "invalid_request_error"},
	} {
		t.Run(tc.directive+tc.key+tc.modelID, func(t *testing.T) {
			s, h := inProcess(t, modeltest.Options{APIKey: "right"})
			key, model := "right", "qwen-plus"
			if tc.key != "" {
				key = tc.key
			}
			if tc.modelID != "" {
				model = tc.modelID
			}
			const secret = "the customer's own words"
			_, err := ask(t.Context(), client(s, h, key), model, "[[model "+tc.directive+"]] "+secret)
			apiErr, ok := errors.AsType[*openai.APIError](err)
			if !ok || apiErr.HTTPStatusCode != tc.status || apiErr.Code != tc.code || apiErr.Type != tc.kind || apiErr.Param != nil {
				t.Fatalf("error %#v", err)
			}
			if !strings.Contains(apiErr.Message, secret) {
				t.Errorf("message %q has nothing to leak", apiErr.Message)
			}
			if got := s.Requests(); len(got) != 1 || got[0].Status != tc.status {
				t.Errorf("requests %+v", got)
			}
		})
	}
}

func TestTheRealClientMeetsAnswersThatAreNone(t *testing.T) {
	for _, r := range reaches() {
		t.Run(r.name, func(t *testing.T) {
			s, h := r.open(t, modeltest.Options{})
			c := client(s, h, "k")
			if _, err := ask(t.Context(), c, "m", "[[model cut]] a"); !errors.Is(err, io.EOF) {
				t.Errorf("cut: %v", err)
			}
			if _, err := ask(t.Context(), c, "m", "[[model garbage]] <b>"); err == nil {
				t.Error("garbage was read")
			}
			if _, err := ask(t.Context(), c, "m", "[[model empty]] c"); !errors.Is(err, io.EOF) {
				t.Errorf("empty: %v", err)
			}
			for _, word := range []string{"error200", "nochoices"} {
				if got, err := ask(t.Context(), c, "m", "[[model "+word+"]] d"); err != nil || len(got.Choices) != 0 {
					t.Errorf("%s: %+v, %v", word, got, err)
				}
			}
			got, err := ask(t.Context(), c, "m", "[[model finish=content_filter]] e")
			if err != nil || got.Choices[0].FinishReason != openai.FinishReasonContentFilter || got.Choices[0].Message.Content != "" {
				t.Errorf("content filter: %+v, %v", got, err)
			}
			got, err = ask(t.Context(), c, "m", "[[model finish=length]] f")
			if whole := modeltest.Summary("[[model finish=length]] f"); err != nil || got.Choices[0].FinishReason != openai.FinishReasonLength ||
				len(got.Choices[0].Message.Content) != len(whole)/2 || !strings.HasPrefix(whole, got.Choices[0].Message.Content) {
				t.Errorf("length: %+v, %v", got, err)
			}
			if reqs := s.Requests(); len(reqs) != 7 || reqs[0].Status != 0 || reqs[1].Status != 200 {
				t.Errorf("requests %+v", reqs)
			}
		})
	}
}

func TestPlannedFaultsUseTheCallersRequestID(t *testing.T) {
	for _, r := range reaches() {
		t.Run(r.name, func(t *testing.T) {
			s, h := r.open(t, modeltest.Options{})
			s.Faults.Add(
				cloudtest.Fault{Op: "ChatCompletion", Target: "stable-7", Phase: cloudtest.Before, Kind: cloudtest.Drop},
				cloudtest.Fault{Op: "ChatCompletion", Target: "stable-7", Phase: cloudtest.After, Kind: cloudtest.Drop},
				cloudtest.Fault{Op: "ChatCompletion", Target: "stable-7", Phase: cloudtest.Before, Skip: 1, Kind: cloudtest.Status, Status: 503, Code: "Overloaded"},
			)
			var hooked atomic.Int32
			s.Faults.Hook(func(c cloudtest.Call, _ cloudtest.Phase) {
				if c.Target == "stable-cut" {
					hooked.Add(1)
				}
			})
			send := func(id, content string) (int, string) {
				status, _, answer := post(t, h, s.Endpoint()+"/chat/completions", bodyOf("m", content), http.Header{"X-Request-Id": {id}})
				return status, answer
			}
			if status, _ := send("stable-7", "a"); status != 0 || s.Calls() != 0 {
				t.Errorf("dropped before: status %d, %d calls", status, s.Calls())
			}
			if status, _ := send("stable-7", "a"); status != 0 || s.Calls() != 1 || s.Requests()[0].Status != 200 {
				t.Errorf("dropped after: status %d, %+v", status, s.Requests())
			}
			if status, answer := send("stable-7", "a"); status != 503 || !strings.Contains(answer, `"code":"Overloaded"`) {
				t.Errorf("planned status: %d %s", status, answer)
			}
			if status, answer := send("stable-7", "a"); status != 200 || !strings.Contains(answer, "chatcmpl-000002-") {
				t.Errorf("the second paid call: %d %s", status, answer)
			}
			if status, _ := send("stable-cut", "[[model cut]]"); status != 0 || hooked.Load() != 2 {
				t.Errorf("a scripted cut: status %d, hook saw %d phases", status, hooked.Load())
			}
			if got := s.Faults.Calls()["ChatCompletion"]; got != 5 {
				t.Errorf("%d calls counted", got)
			}
		})
	}
}

func TestADelayEndsWithTheCaller(t *testing.T) {
	for _, r := range reaches() {
		t.Run(r.name, func(t *testing.T) {
			s, h := r.open(t, modeltest.Options{})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			left := make(chan struct{})
			s.Faults.Hook(func(_ cloudtest.Call, p cloudtest.Phase) {
				if p == cloudtest.Before {
					cancel()
					return
				}
				close(left)
			})
			if _, err := ask(ctx, client(s, h, "k"), "m", "[[model delay=1h]]"); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
			<-left
			s.Faults.Hook(nil)
			if got, err := ask(t.Context(), client(s, h, "k"), "m", "[[model delay=1h]]"); err != nil || len(got.Choices) != 1 {
				t.Errorf("the delay lasts one call: %v", err)
			}
		})
	}
}
