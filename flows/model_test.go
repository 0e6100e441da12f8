package flows

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/oncegate/oncegate/flows/modeltest"
	"github.com/oncegate/oncegate/idempotency"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const private = "buyer Zhang 13800138000"

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func newModel(name string, rt http.RoundTripper, now func() time.Time) *Model {
	return NewModel(ModelOptions{BaseURL: "http://model.test/v1/", Name: name, APIKey: "k3y", Transport: rt, Now: now})
}

func TestModelCodeFollowsStatusAndProviderCode(t *testing.T) {
	for _, c := range []struct {
		status   int
		provider string
		want     idempotency.Code
	}{
		{400, "", idempotency.CodeInvalidRequest},
		{400, "InvalidParameter", idempotency.CodeInvalidRequest},
		{400, "DataInspectionFailed", idempotency.CodePolicyRejected},
		{400, "data_inspection_failed", idempotency.CodePolicyRejected},
		{400, "content_filter", idempotency.CodePolicyRejected},
		{400, "content_policy_violation", idempotency.CodePolicyRejected},
		{400, "ResponsibleAI_Policy_Violation", idempotency.CodeInvalidRequest},
		{400, "responsible_ai_policy_violation", idempotency.CodePolicyRejected},
		{200, "DataInspectionFailed", idempotency.CodePolicyRejected},
		{400, "Arrearage", idempotency.CodePermissionDenied},
		{401, "invalid_api_key", idempotency.CodePermissionDenied},
		{402, "", idempotency.CodePermissionDenied},
		{403, "AccessDenied", idempotency.CodePermissionDenied},
		{404, "model_not_found", idempotency.CodeTargetNotFound},
		{408, "", idempotency.CodeTimeout},
		{409, "", idempotency.CodeTemporaryUnavailable},
		{413, "", idempotency.CodeInvalidRequest},
		{422, "", idempotency.CodeInvalidRequest},
		{429, "Throttling.RateQuota", idempotency.CodeRateLimited},
		{500, "InternalError", idempotency.CodeTemporaryUnavailable},
		{502, "", idempotency.CodeTemporaryUnavailable},
		{503, "", idempotency.CodeTemporaryUnavailable},
		{504, "", idempotency.CodeTemporaryUnavailable},
		{200, "", idempotency.CodeUnclassified},
		{200, "odd", idempotency.CodeUnclassified},
		{302, "", idempotency.CodeUnclassified},
		{0, "", idempotency.CodeUnclassified},
	} {
		if got := ModelCode(c.status, c.provider); got != c.want {
			t.Errorf("%d %s: got %s, want %s", c.status, c.provider, got, c.want)
		}
	}
}

func TestModelFailuresByWhatTheServiceAnswers(t *testing.T) {
	for _, c := range []struct {
		directive string
		code      idempotency.Code
		class     idempotency.Class
		summary   string
		wait      time.Duration
	}{
		{"status=429 retry_after=7", idempotency.CodeRateLimited, idempotency.ClassRetryable, "HTTP 429 code limit_requests request req-000001", 7 * time.Second},
		{"status=429", idempotency.CodeRateLimited, idempotency.ClassRetryable, "HTTP 429 code limit_requests request req-000001", 0},
		{"status=400 code=DataInspectionFailed", idempotency.CodePolicyRejected, idempotency.ClassFinal, "HTTP 400 code DataInspectionFailed request req-000001", 0},
		{"status=400 code=Arrearage", idempotency.CodePermissionDenied, idempotency.ClassFinal, "HTTP 400 code Arrearage request req-000001", 0},
		{"status=400 retry_after=7", idempotency.CodeInvalidRequest, idempotency.ClassFinal, "HTTP 400 code invalid_parameter_error request req-000001", 0},
		{"status=401", idempotency.CodePermissionDenied, idempotency.ClassFinal, "HTTP 401 code invalid_api_key request req-000001", 0},
		{"status=403", idempotency.CodePermissionDenied, idempotency.ClassFinal, "HTTP 403 code access_denied request req-000001", 0},
		{"status=404", idempotency.CodeTargetNotFound, idempotency.ClassFinal, "HTTP 404 code model_not_found request req-000001", 0},
		{"status=408", idempotency.CodeTimeout, idempotency.ClassRetryable, "HTTP 408 code internal_error request req-000001", 0},
		{"status=409", idempotency.CodeTemporaryUnavailable, idempotency.ClassRetryable, "HTTP 409 code internal_error request req-000001", 0},
		{"status=413", idempotency.CodeInvalidRequest, idempotency.ClassFinal, "HTTP 413 code internal_error request req-000001", 0},
		{"status=500", idempotency.CodeTemporaryUnavailable, idempotency.ClassRetryable, "HTTP 500 code internal_error request req-000001", 0},
		{"status=503 retry_after=30", idempotency.CodeTemporaryUnavailable, idempotency.ClassRetryable, "HTTP 503 code service_unavailable request req-000001", 30 * time.Second},
		{"status=504", idempotency.CodeTemporaryUnavailable, idempotency.ClassRetryable, "HTTP 504 code internal_error request req-000001", 0},
		{"finish=content_filter", idempotency.CodePolicyRejected, idempotency.ClassFinal, "HTTP 200 code content_filter request req-000001", 0},
		{"garbage", idempotency.CodeUnclassified, idempotency.ClassUnknown, "HTTP 200 request req-000001", 0},
		{"empty", idempotency.CodeUnclassified, idempotency.ClassUnknown, "HTTP 200 request req-000001", 0},
		{"error200", idempotency.CodeUnclassified, idempotency.ClassUnknown, "HTTP 200 code internal_error request req-000001", 0},
		{"error200 code=DataInspectionFailed", idempotency.CodePolicyRejected, idempotency.ClassFinal, "HTTP 200 code DataInspectionFailed request req-000001", 0},
		{"nochoices", idempotency.CodeUnclassified, idempotency.ClassUnknown, "HTTP 200 request req-000001", 0},
		{"cut", idempotency.CodeTemporaryUnavailable, idempotency.ClassRetryable, "no answer", 0},
	} {
		t.Run("S34 "+c.directive, func(t *testing.T) {
			srv := modeltest.New(modeltest.Options{APIKey: "k3y"})
			m := newModel("qwen", srv.Transport(), nil)
			_, err := m.Complete(t.Context(), "oncegate-1", "system", private+" [[model "+c.directive+"]]")
			wantFailure(t, err, idempotency.Failure{Code: c.code, Target: "model:qwen", Summary: c.summary, RetryAfter: c.wait}, c.class)
			if n := srv.Calls(); n != 1 {
				t.Errorf("%d calls", n)
			}
		})
	}
	t.Run("S34 a model that is not there", func(t *testing.T) {
		srv := modeltest.New(modeltest.Options{})
		_, err := newModel("missing-one", srv.Transport(), nil).Complete(t.Context(), "r", "s", private)
		wantFailure(t, err, idempotency.Failure{
			Code: idempotency.CodeTargetNotFound, Target: "model:missing-one", Summary: "HTTP 404 code model_not_found request req-000001",
		}, idempotency.ClassFinal)
	})
	t.Run("S34 a key that is refused", func(t *testing.T) {
		srv := modeltest.New(modeltest.Options{APIKey: "another"})
		_, err := newModel("qwen", srv.Transport(), nil).Complete(t.Context(), "r", "s", private)
		wantFailure(t, err, idempotency.Failure{
			Code: idempotency.CodePermissionDenied, Target: "model:qwen", Summary: "HTTP 401 code invalid_api_key request req-000001",
		}, idempotency.ClassFinal)
	})
}

func wantFailure(t *testing.T, err error, want idempotency.Failure, class idempotency.Class) {
	t.Helper()
	var e *Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v", err)
	}
	if e.Failure != want || e.Code.Class() != class {
		t.Errorf("got %+v of class %s, want %+v of class %s", e.Failure, e.Code.Class(), want, class)
	}
	for _, text := range []string{e.Summary, e.Error()} {
		if strings.Contains(text, "Zhang") || strings.Contains(text, "13800138000") || strings.Contains(text, "k3y") {
			t.Errorf("the user's text or the key is in %q", text)
		}
	}
}

func TestRetryAfterInItsForms(t *testing.T) {
	now := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	const longest = time.Duration(math.MaxInt64)
	for header, c := range map[string]struct{ least, most time.Duration }{
		"":                              {0, 0},
		"0":                             {0, 0},
		"7":                             {7 * time.Second, 7 * time.Second},
		"-9223372036854775809":          {0, 0},
		"-7":                            {0, 0},
		"7.5":                           {0, 0},
		"soon":                          {0, 0},
		"Sun, 01 Mar 2026 08:01:30 GMT": {90 * time.Second, 90 * time.Second},
		"Sun, 01 Mar 2026 07:59:00 GMT": {0, 0},
		// What no duration can hold is long, and not nothing.
		"9999999999":          {24 * time.Hour, longest},
		"99999999999":         {24 * time.Hour, longest},
		"9223372036854775807": {24 * time.Hour, longest},
		"9223372036854775808": {24 * time.Hour, longest},
	} {
		t.Run("S34 "+header, func(t *testing.T) {
			calls := 0
			m := newModel("qwen", roundTrip(func(r *http.Request) (*http.Response, error) {
				calls++
				return &http.Response{
					StatusCode: 429, Request: r, Header: http.Header{"Retry-After": {header}}, Body: io.NopCloser(strings.NewReader(`{"error":{"code":"limit"}}`)),
				}, nil
			}), func() time.Time { return now })
			_, err := m.Complete(t.Context(), "r", "s", "u")
			var e *Error
			if !errors.As(err, &e) || e.RetryAfter < c.least || e.RetryAfter > c.most || calls != 1 {
				t.Errorf("got %v after %d calls", e.RetryAfter, calls)
			}
		})
	}
}

func TestModelThatIsTooSlowIsATimeout(t *testing.T) {
	for name, c := range map[string]struct {
		timeout time.Duration
		ctx     func(context.Context) (context.Context, context.CancelFunc)
	}{
		"the run's deadline": {0, func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, time.Second)
		}},
		"its own time-out": {time.Second, func(ctx context.Context) (context.Context, context.CancelFunc) { return ctx, func() {} }},
		"a cancelled run": {time.Hour, func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(time.Second, cancel)
			return ctx, cancel
		}},
	} {
		t.Run("S34 "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := modeltest.New(modeltest.Options{})
				m := NewModel(ModelOptions{BaseURL: srv.Endpoint(), Name: "qwen", APIKey: "k", Timeout: c.timeout, Transport: srv.Transport()})
				ctx, cancel := c.ctx(t.Context())
				defer cancel()
				began := time.Now()
				_, err := m.Complete(ctx, "r", "s", private+"[[model delay=10m]]")
				wantFailure(t, err, idempotency.Failure{Code: idempotency.CodeTimeout, Target: "model:qwen", Summary: "no answer"}, idempotency.ClassRetryable)
				if took := time.Since(began); took != time.Second || srv.Calls() != 1 {
					t.Errorf("%v, %d calls", took, srv.Calls())
				}
			})
		})
	}
}

func TestModelIsAskedWithAStableRequestID(t *testing.T) {
	srv := modeltest.New(modeltest.Options{APIKey: "k3y"})
	var headers []http.Header
	m := newModel("qwen", roundTrip(func(r *http.Request) (*http.Response, error) {
		headers = append(headers, r.Header.Clone())
		return srv.Transport().RoundTrip(r)
	}), nil)
	p := Processors(Tools{Model: m})["summary"]
	task := Task{Key: "k", Flow: "summary", RequestID: "oncegate-abc", Payload: map[string]any{"content": "[[model status=503]] " + private}}
	for attempt := int64(1); attempt <= 2; attempt++ {
		task.Attempt = attempt
		if _, err := p.Process(t.Context(), task); (err == nil) != (attempt == 2) {
			t.Fatalf("attempt %d: %v", attempt, err)
		}
	}
	requests := srv.Requests()
	if len(requests) != 2 || requests[0].RequestID != "oncegate-abc" || requests[1].RequestID != "oncegate-abc" {
		t.Errorf("S32 got %+v", requests)
	}
	for _, h := range headers {
		if h.Get("Authorization") != "Bearer k3y" || h.Get("Idempotency-Key") != "" || h.Get("X-Idempotency-Key") != "" {
			t.Errorf("headers %v", h)
		}
	}
}

func TestModelRedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 307, 308} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			calls := 0
			m := newModel("qwen", roundTrip(func(r *http.Request) (*http.Response, error) {
				calls++
				return &http.Response{StatusCode: status, Request: r, Header: http.Header{"Location": {"http://elsewhere/"}}, Body: http.NoBody}, nil
			}), nil)
			_, err := m.Complete(t.Context(), "r", "s", private)
			wantFailure(t, err, idempotency.Failure{
				Code: idempotency.CodeUnclassified, Target: "model:qwen", Summary: fmt.Sprintf("HTTP %d", status),
			}, idempotency.ClassUnknown)
			if calls != 1 {
				t.Errorf("%d calls", calls)
			}
		})
	}
}

func TestProviderCodesInTheirShapes(t *testing.T) {
	for body, want := range map[string][2]string{
		`{"error":{"code":"c","type":"t"},"request_id":"r-1"}`: {"c", "r-1"},
		`{"error":{"code":null,"type":"t"}}`:                   {"t", ""},
		`{"error":{"code":429,"type":"t"}}`:                    {"t", ""},
		`{"error":{}}`:                                         {"error", ""},
		`{"error":{"code":"Zhang ordered 17"}}`:                {"error", ""},
		`{"error":{"code":"13800138000"}}`:                     {"error", ""},
		`{"code":"DataInspectionFailed","request_id":"r-1"}`:   {"DataInspectionFailed", "r-1"},
		`{"code":17,"request_id":"Zhang 1"}`:                   {"", ""},
		`{"error":"text"}`:                                     {"", ""},
		`{"choices":[]}`:                                       {"", ""},
		`[]`:                                                   {"", ""},
		``:                                                     {"", ""},
	} {
		if code, id := providerCode([]byte(body)); code != want[0] || id != want[1] {
			t.Errorf("%s: got %q %q, want %q", body, code, id, want)
		}
	}
}
