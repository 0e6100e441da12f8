package aliyun

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func functions(t *testing.T, endpoint string, rt http.RoundTripper) *Functions {
	t.Helper()
	f, err := NewFunctions(endpoint, Options{Credentials: someone, Transport: rt})
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestInvokeCallsOneQualifierOfOneFunctionSigned(t *testing.T) {
	var got *http.Request
	var body []byte
	f := functions(t, "https://1.cn-hangzhou.fc.aliyuncs.com/", roundTrip(func(r *http.Request) (*http.Response, error) {
		got = r
		body, _ = io.ReadAll(r.Body)
		return &http.Response{
			StatusCode: 200, Header: http.Header{"X-Fc-Request-Id": {"1-ab"}, "X-Fc-Invocation-Service-Version": {"7"}},
			Body: io.NopCloser(strings.NewReader(`{"status":"SUCCEEDED"}`)),
		}, nil
	}))
	out, err := f.Invoke(t.Context(), "oncegate-tasks", "7", []byte("event"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Invocation{Payload: []byte(`{"status":"SUCCEEDED"}`), RequestID: "1-ab", VersionID: "7"}, out); diff != "" {
		t.Error(diff)
	}
	if got.Method != "POST" || got.URL.String() != "https://1.cn-hangzhou.fc.aliyuncs.com/2023-03-30/functions/oncegate-tasks/invocations?qualifier=7" || string(body) != "event" {
		t.Errorf("%s %s %q", got.Method, got.URL, body)
	}
	for name, want := range map[string]string{
		"x-acs-action": "InvokeFunction", "x-acs-version": "2023-03-30", "x-acs-security-token": "token", "Content-Type": "application/octet-stream",
	} {
		if got.Header.Get(name) != want {
			t.Errorf("%s: %q", name, got.Header.Get(name))
		}
	}
	if got.GetBody != nil || !got.Close {
		t.Error("the call could be sent again behind the caller's back")
	}
	if out, err := f.Invoke(t.Context(), "oncegate-tasks", "", nil); err != nil || got.URL.RawQuery != "" {
		t.Errorf("without a qualifier: %s %v %v", got.URL, out, err)
	}
}

func TestFunctionsOwnFailureIsAnAnswer(t *testing.T) {
	for name, c := range map[string]struct{ header, body, wantError, wantType string }{
		"an error with a type": {"UnhandledInvocationError", `{"errorMessage":"` + private + `","errorType":"throttled"}`, "UnhandledInvocationError", "throttled"},
		"a crash":              {"UnhandledInvocationError", `{"errorMessage":"x"}`, "UnhandledInvocationError", ""},
		"no JSON":              {"UnhandledInvocationError", `<html>`, "UnhandledInvocationError", ""},
		"an odd type":          {private, `{"errorType":"` + private + `"}`, "UnknownError", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var calls int
			f := functions(t, "http://fc", answering(&calls, 200, http.Header{"X-Fc-Error-Type": {c.header}}, []byte(c.body)))
			out, err := f.Invoke(t.Context(), "f", "1", nil)
			if err != nil || out.FunctionError != c.wantError || out.ErrorType != c.wantType || string(out.Payload) != c.body {
				t.Errorf("got %+v, %v", out, err)
			}
		})
	}
}

func TestInvocationErrorsSayWhetherItMayHaveRun(t *testing.T) {
	for _, c := range []struct {
		status int
		code   string
		want   Kind
	}{
		{429, "ResourceExhausted", KindThrottled},
		{429, "", KindThrottled},
		{400, "Throttling.User", KindThrottled},
		{403, "AccessDenied", KindDenied},
		{403, "SignatureNotMatch", KindDenied},
		{401, "", KindDenied},
		{400, "SignatureDoesNotMatch", KindDenied},
		{400, "InvalidSecurityToken.Expired", KindDenied},
		{404, "InvalidAccessKeyId.NotFound", KindDenied},
		{404, "FunctionNotFound", KindNotFound},
		{404, "", KindNotFound},
		{400, "InvalidArgument", KindInvalid},
		{412, "PreconditionFailed", KindInvalid},
		{400, "", KindUnknown},
		{408, "RequestTimeout", KindUnknown},
		{500, "InternalServerError", KindUnknown},
		{500, "FunctionStartError", KindUnknown},
		{503, "ServiceUnavailable", KindUnknown},
		{503, "Throttling", KindUnknown},
		{502, "", KindUnknown},
		{202, "", KindUnknown},
		{307, "", KindUnknown},
	} {
		t.Run(fmt.Sprintf("%d %s", c.status, c.code), func(t *testing.T) {
			var calls int
			body := fmt.Sprintf(`{"Code":%q,"Message":%q,"RequestId":"1-ab"}`, c.code, private)
			if c.code == "" {
				body = "<html>" + private
			}
			f := functions(t, "http://fc", answering(&calls, c.status, http.Header{"Location": {"http://elsewhere/"}}, []byte(body)))
			_, err := f.Invoke(t.Context(), "oncegate-tasks", "7", []byte("event"))
			var e *Error
			if !errors.As(err, &e) || e.Kind != c.want || e.Code != c.code || e.Status != c.status || e.Service != "fc" || e.Resource != "oncegate-tasks/7" {
				t.Fatalf("got %#v", err)
			}
			if strings.Contains(err.Error(), "Zhang") || calls != 1 {
				t.Errorf("%d calls, text %q", calls, err)
			}
		})
	}
}

func TestThrottledInvocationSaysHowLongToWait(t *testing.T) {
	now := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "3": 3 * time.Second, "0": 0, "-3": 0, "soon": 0, "99999999999999999999": 0,
		now.Add(time.Minute).Format(http.TimeFormat): time.Minute, now.Add(-time.Minute).Format(http.TimeFormat): 0,
	} {
		var calls int
		f, err := NewFunctions("http://fc", Options{
			Credentials: someone, Now: func() time.Time { return now },
			Transport: answering(&calls, 429, http.Header{"Retry-After": {header}}, nil),
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Invoke(t.Context(), "f", "1", nil)
		var e *Error
		if !errors.As(err, &e) || e.RetryAfter != want {
			t.Errorf("%q: got %#v", header, err)
		}
	}
}

func TestInvocationIsNeverSentTwice(t *testing.T) {
	var arrived atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if arrived.Add(1) == 1 {
			return // an answer, after which a kept connection would be warm
		}
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		conn.Close()
	}))
	defer srv.Close()
	rt := NewTransport(8)
	defer rt.CloseIdleConnections()
	f := functions(t, srv.URL, rt)
	for _, payload := range [][]byte{[]byte("event"), nil} {
		arrived.Store(0)
		if _, err := f.Invoke(t.Context(), "f", "1", payload); err != nil {
			t.Fatal(err)
		}
		_, err := f.Invoke(t.Context(), "f", "1", payload)
		if KindOf(err) != KindUnknown || arrived.Load() != 2 {
			t.Errorf("%v, %d calls arrived for 2", err, arrived.Load())
		}
	}
}

func TestUnansweredInvocationIsUnknownAndNamesNoAddress(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	refusing := httptest.NewServer(nil)
	refusing.Close()
	cut := answering(new(int), 200, nil, nil)
	for name, c := range map[string]struct {
		ctx  context.Context
		f    *Functions
		code string
	}{
		"cut off":       {t.Context(), functions(t, "http://secret-host", roundTrip(func(*http.Request) (*http.Response, error) { return nil, io.EOF })), ""},
		"half a body":   {t.Context(), functions(t, "http://secret-host", halfAnswer{}), ""},
		"nobody there":  {t.Context(), functions(t, refusing.URL, NewTransport(1)), "NoConnection"},
		"context ended": {ended, functions(t, "http://secret-host", NewTransport(1)), ""},
	} {
		_, err := c.f.Invoke(c.ctx, "f", "1", []byte("event"))
		var e *Error
		if !errors.As(err, &e) || e.Kind != KindUnknown || e.Code != c.code || strings.Contains(err.Error(), "secret-host") {
			t.Errorf("%s: got %#v", name, err)
		}
		if name == "context ended" && !errors.Is(err, context.Canceled) {
			t.Errorf("the context's end is not in the chain: %v", err)
		}
	}
	if _, err := functions(t, "http://%zz", cut).Invoke(t.Context(), "f", "1", nil); err == nil || strings.Contains(err.Error(), "zz") {
		t.Errorf("got %v", err)
	}
	noCredentials, err := NewFunctions("http://fc", Options{Transport: cut, Credentials: func(context.Context) (Credentials, error) { return Credentials{}, errNoCredentials }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := noCredentials.Invoke(t.Context(), "f", "1", nil); !errors.Is(err, errNoCredentials) {
		t.Errorf("got %v", err)
	}
	if _, err := NewFunctions("http://fc", Options{}); err == nil {
		t.Error("a client without a source of credentials was made")
	}
}

type halfAnswer struct{}

func (halfAnswer) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{}, Request: r, Body: io.NopCloser(io.MultiReader(strings.NewReader("ha"), broken{}))}, nil
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }
