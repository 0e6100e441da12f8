package flows

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncegate/oncegate/flows/targettest"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

const targetToken = "t0k3n"

func targetsAt(base string, rt http.RoundTripper) map[string]Effect {
	at := func(name, path string) Target { return Target{Name: name, URL: base + path, Token: targetToken} }
	return Effects(Tools{
		Notify: at("notify", "/notify"), Robot: at("robot", "/robot"), Records: at("records", "/records"), Transport: rt,
		Now: func() time.Time { return time.Date(2026, 8, 4, 10, 0, 0, 0, time.UTC) },
	})
}

func targetCall() EffectCall {
	return EffectCall{
		Key: "effect-key", Name: "notice", TaskKey: "task", Fields: map[string]string{"number": "R 17&x=1", "who": private},
		Payload: map[string]any{"a": "b"}, Output: []byte("{\"answer\":\"" + private + "\"}\n"),
	}
}

// answering is a transport with one answer.
func answering(status int, header http.Header, body string) roundTrip {
	return func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: status, Header: header, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

var posts = []string{"notify", "robot", "record.create"}

func TestTargetAnswersByStatus(t *testing.T) {
	for _, c := range []struct {
		status int
		code   idempotency.Code // "" for a lost answer
	}{
		{400, idempotency.CodeInvalidRequest},
		{401, idempotency.CodePermissionDenied},
		{403, idempotency.CodePermissionDenied},
		{404, idempotency.CodeTargetNotFound},
		{422, idempotency.CodeInvalidRequest},
		{429, idempotency.CodeRateLimited},
		{100, ""},
		{301, ""},
		{302, ""},
		{307, ""},
		{408, ""},
		{500, ""},
		{502, ""},
		{503, ""},
		{504, ""},
		{600, ""},
	} {
		for _, name := range posts {
			rt := answering(c.status, http.Header{"Retry-After": {"7"}, "Location": {"http://elsewhere.test/"}}, `{"error":{"code":"e_1","message":"`+private+`"}}`)
			_, err := targetsAt("http://target.test", rt)[name].Send(t.Context(), targetCall())
			var known *Error
			if errors.As(err, &known) != (c.code != "") || c.code == "" && !errors.Is(err, errLost) {
				t.Errorf("%s, %d: got %v", name, c.status, err)
				continue
			}
			if known == nil {
				continue
			}
			wait := time.Duration(0)
			if c.status == 429 {
				wait = 7 * time.Second
			}
			target := map[string]string{"record.create": "records"}[name]
			if target == "" {
				target = name
			}
			if want := (idempotency.Failure{Code: c.code, Target: "effect:" + target, Summary: fmt.Sprintf("HTTP %d code e_1", c.status), RetryAfter: wait}); known.Failure != want {
				t.Errorf("%s, %d: got %+v, want %+v", name, c.status, known.Failure, want)
			}
		}
	}
}

func TestTargetErrorsShowNoTextOfTheTarget(t *testing.T) {
	secret := func(status int, body string) {
		for _, name := range posts {
			_, err := targetsAt("http://target.test", answering(status, nil, body))[name].Send(t.Context(), targetCall())
			var known *Error
			errors.As(err, &known)
			if text := fmt.Sprintf("%v %+v", err, known); strings.Contains(text, "13800138000") || strings.Contains(text, targetToken) {
				t.Errorf("%s, %d: %s", name, status, text)
			}
		}
	}
	for _, status := range []int{400, 401, 409, 429, 500} {
		for _, body := range []string{
			private, `{"error":{"code":"` + private + `","message":"` + private + `"}}`, `{"error":{"code":"13800138000"}}`,
			`{"code":"13800138000","request_id":"13800138000"}`, `{"error":"` + private + `"}`,
		} {
			secret(status, body)
		}
	}
}

func TestTargetGetsKeyTokenAndBody(t *testing.T) {
	for name, wantKey := range map[string]string{"notify": "effect-key", "robot": "", "record.create": "effect-key"} {
		var got *http.Request
		var body string
		rt := roundTrip(func(r *http.Request) (*http.Response, error) {
			raw, err := io.ReadAll(r.Body)
			if err != nil {
				return nil, err
			}
			got, body = r, string(raw)
			return answering(200, nil, `{"id":"n-1"}`)(r)
		})
		if id, err := targetsAt("http://target.test", rt)[name].Send(t.Context(), targetCall()); err != nil || id != "n-1" {
			t.Errorf("%s: got %q %v", name, id, err)
		}
		if got.Header.Get("Idempotency-Key") != wantKey || got.Header.Get("Authorization") != "Bearer "+targetToken || got.Method != http.MethodPost || got.GetBody != nil {
			t.Errorf("%s: headers %v", name, got.Header)
		}
		want := `{"effect":"notice","fields":{"number":"R 17\u0026x=1","who":"` + private + `"},"result":{"answer":"` + private + `"},"task":"task"}`
		if name == "record.create" {
			want = `{"data":{"a":"b"},"number":"R 17\u0026x=1"}`
		}
		if body != want {
			t.Errorf("%s: body %s", name, body)
		}
	}
}

func TestTargetNumbersAreKeptAsTheyAre(t *testing.T) {
	for body, want := range map[string]string{
		`{"id":"rec-1"}`: "rec-1", `{"id":17}`: "17", `{"id":1234567}`: "1234567", `{"id":9007199254740993}`: "9007199254740993", `{"id":"20260804000017"}`: "20260804000017",
		`{"id":null}`: "", `{"id":{"a":1}}`: "", `{"id":"a b"}`: "", `{"id":"<x>"}`: "", `{"id":"` + strings.Repeat("x", 65) + `"}`: "", `{}`: "", ``: "", `[]`: "", `"x"`: "", `{"id":"` + private + `"}`: "",
	} {
		effects := targetsAt("http://target.test", answering(200, nil, body))
		if id, err := effects["notify"].Send(t.Context(), targetCall()); err != nil || id != want {
			t.Errorf("%s: got %q %v", body, id, err)
		}
		if body == "" {
			body = "{}"
		}
		found, ok, err := targetsAt("http://target.test", answering(200, nil, `{"records":[`+body+`]}`))["record.create"].(Reader).Find(t.Context(), targetCall())
		if err != nil || !ok || found != want {
			t.Errorf("%s looked up: got %q %v %v", body, found, ok, err)
		}
	}
}

func TestTargetAnswersAreBounded(t *testing.T) {
	read := 0
	rt := roundTrip(func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Body: io.NopCloser(readFunc(func(p []byte) (int, error) { read += len(p); return len(p), nil }))}, nil
	})
	if _, err := targetsAt("http://target.test", rt)["notify"].Send(t.Context(), targetCall()); err != nil || read > 2*maxTargetAnswer {
		t.Errorf("%d bytes read, %v", read, err)
	}
}

type readFunc func([]byte) (int, error)

func (f readFunc) Read(p []byte) (int, error) { return f(p) }

func TestTargetLookUpFindsByNumber(t *testing.T) {
	var query string
	find := func(status int, body string) (string, bool, error) {
		rt := roundTrip(func(r *http.Request) (*http.Response, error) {
			query = r.Method + " " + r.URL.RawQuery + r.Header.Get("Idempotency-Key")
			return answering(status, nil, body)(r)
		})
		return targetsAt("http://target.test", rt)["record.create"].(Reader).Find(t.Context(), targetCall())
	}
	if id, ok, err := find(200, `{"records":[{"id":"rec-1"},{"id":"rec-2"}]}`); id != "" || ok || !errors.Is(err, ErrSeveral) {
		t.Errorf("two records of one number: %s %v %v", id, ok, err)
	}
	if id, ok, err := find(200, `{"records":[{"id":"rec-1"}]}`); id != "rec-1" || !ok || err != nil || query != "GET number=R+17%26x%3D1" {
		t.Errorf("got %s %v %v for %s", id, ok, err, query)
	}
	if _, ok, err := find(200, `{"records":[]}`); ok || err != nil {
		t.Errorf("nothing there: %v %v", ok, err)
	}
	for _, status := range []int{204, 302, 400, 401, 404, 429, 500} {
		if _, ok, err := find(status, `{"records":[]}`); ok || err == nil {
			t.Errorf("%d says nothing of the record: %v %v", status, ok, err)
		}
	}
	if _, ok, err := find(200, "<html>"); ok || err == nil {
		t.Errorf("garbage: %v %v", ok, err)
	}
}

func TestS31_TargetThatHasTheNumberTellsIt(t *testing.T) {
	for name, c := range map[string]struct {
		conflict, list string
		found          int
		want           string
	}{
		"in its answer":            {`{"id":"rec-1"}`, "", 200, "rec-1"},
		"in a look-up":             {`{}`, `{"records":[{"id":"rec-2"}]}`, 200, "rec-2"},
		"nowhere":                  {`{}`, `{"records":[]}`, 200, ""},
		"in a look-up that failed": {`{}`, `{}`, 500, ""},
	} {
		rt := roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPost {
				return answering(409, nil, c.conflict)(r)
			}
			return answering(c.found, nil, c.list)(r)
		})
		_, err := targetsAt("http://target.test", rt)["record.create"].Send(t.Context(), targetCall())
		var exists *Exists
		if c.want == "" {
			if errors.As(err, &exists) || !errors.Is(err, errLost) {
				t.Errorf("%s: got %v", name, err)
			}
		} else if !errors.As(err, &exists) || exists.RecordID != c.want {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestTargetThatIsNotReachedIsADefiniteNo(t *testing.T) {
	var known *Error
	for name, e := range Effects(Tools{}) {
		if _, err := e.Send(t.Context(), targetCall()); !errors.As(err, &known) || known.Code != idempotency.CodeTargetNotFound {
			t.Errorf("%s without a URL: %v", name, err)
		}
	}
	if _, err := targetsAt("http://bad host\x7f", nil)["notify"].Send(t.Context(), targetCall()); !errors.As(err, &known) || known.Code != idempotency.CodeInvalidRequest {
		t.Errorf("a URL that is none: %v", err)
	}
	broken := targetCall()
	broken.Output = []byte("{")
	if _, err := targetsAt("http://target.test", answering(200, nil, "{}"))["notify"].Send(t.Context(), broken); !errors.As(err, &known) || known.Code != idempotency.CodeInvalidRequest {
		t.Errorf("a body that cannot be encoded: %v", err)
	}
}

func TestTargetOfEachKindHasItsEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, err := targettest.New(targettest.Options{Token: targetToken})
		if err != nil {
			t.Fatal(err)
		}
		defer srv.Close()
		effects := targetsAt("http://target.test", srv.Transport())
		for range 2 {
			for _, name := range posts {
				_, err := effects[name].Send(t.Context(), targetCall())
				var exists *Exists
				if err != nil && (name != "record.create" || !errors.As(err, &exists) || exists.RecordID != srv.Records()[0].ID) {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		if len(srv.Notifications()) != 1 || len(srv.RobotMessages()) != 2 || len(srv.Records()) != 1 {
			t.Errorf("%v %v %v", srv.Notifications(), srv.RobotMessages(), srv.Records())
		}
		id, ok, err := effects["record.create"].(Reader).Find(t.Context(), targetCall())
		if err != nil || !ok || id != srv.Records()[0].ID {
			t.Errorf("looked up: %s %v %v", id, ok, err)
		}
		srv.Faults.Add(cloudtest.Fault{Kind: cloudtest.Delay, Delay: time.Hour, Times: -1})
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := effects["robot"].Send(ctx, targetCall()); !errors.Is(err, errLost) || time.Since(began) != 5*time.Second {
			t.Errorf("got %v after %s", err, time.Since(began))
		}
	})
}

func TestTargetIsAskedOnceWhenTheWarmConnectionIsCut(t *testing.T) {
	for _, name := range posts {
		t.Run(name, func(t *testing.T) {
			var calls atomic.Int64
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if _, err := io.Copy(new(bytes.Buffer), r.Body); err != nil || calls.Add(1) == 1 {
					_, _ = w.Write([]byte(`{"id":"n-1"}`))
					return
				}
				panic(http.ErrAbortHandler)
			}))
			defer srv.Close()
			transport := &http.Transport{}
			defer transport.CloseIdleConnections()
			effect := targetsAt(srv.URL, transport)[name]
			if _, err := effect.Send(t.Context(), targetCall()); err != nil {
				t.Fatal(err)
			}
			if _, err := effect.Send(t.Context(), targetCall()); !errors.Is(err, errLost) {
				t.Errorf("got %v", err)
			}
			if calls.Load() != 2 {
				t.Errorf("%d requests for two calls", calls.Load())
			}
		})
	}
}

func TestTargetRedirectIsNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		calls := 0
		rt := roundTrip(func(r *http.Request) (*http.Response, error) {
			calls++
			return answering(status, http.Header{"Location": {"http://elsewhere.test/take"}}, "")(r)
		})
		effects := targetsAt("http://target.test", rt)
		if _, err := effects["notify"].Send(t.Context(), targetCall()); !errors.Is(err, errLost) || calls != 1 {
			t.Errorf("%d: got %v after %d requests", status, err, calls)
		}
		if _, _, err := effects["record.create"].(Reader).Find(t.Context(), targetCall()); err == nil || calls != 2 {
			t.Errorf("%d: got %v after %d requests", status, err, calls)
		}
	}
}
