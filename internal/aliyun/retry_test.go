package aliyun

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

// faultsOf are the ways in which one call can go wrong, and what each means.
func faultsOf(status func(int, string) cloudtest.Fault) map[Kind][]cloudtest.Fault {
	return map[Kind][]cloudtest.Fault{
		KindUnknown: {
			{Kind: cloudtest.Drop},
			{Kind: cloudtest.Drop, Phase: cloudtest.After},
			{Kind: cloudtest.Truncate, Phase: cloudtest.After},
			status(500, "OTSInternalServerError"), status(503, "OTSServerBusy"), status(503, "OTSTimeout"), status(503, "OTSServerUnavailable"),
			status(503, "OTSPartitionUnavailable"), status(503, "OTSStorageServerBusy"),
		},
		KindThrottled: {status(409, "OTSRowOperationConflict"), status(403, "OTSNotEnoughCapacityUnit"), status(404, "OTSTableNotReady"), status(403, "OTSQuotaExhausted")},
		KindCondition: {status(403, "OTSConditionCheckFail")},
		KindDenied:    {status(403, "OTSAuthFailed")},
	}
}

func planned(status int, code string) cloudtest.Fault {
	return cloudtest.Fault{Kind: cloudtest.Status, Status: status, Code: code}
}

func TestTablestoreCallsGoOutOnce(t *testing.T) {
	for op, call := range otsCalls {
		for kind, faults := range faultsOf(planned) {
			for _, f := range faults {
				t.Run(fmt.Sprintf("%s %s %s %s", op, f.Kind, f.Phase, f.Code), func(t *testing.T) {
					s := newOTS(t, Options{})
					if err := s.store.Insert(t.Context(), tasks, "old", Row{"revision": int64(1)}); err != nil {
						t.Fatal(err)
					}
					s.srv.Faults.ResetCalls()
					f.Times = -1
					s.srv.Faults.Add(f)
					err := call(t.Context(), s.store)
					var e *Error
					if !errors.As(err, &e) || e.Kind != kind || e.Op != op || e.Service != "tablestore" || e.Code != f.Code || e.Status != f.Status {
						t.Errorf("got %#v", err)
					}
					if calls := s.srv.Faults.Calls(); calls[op] != 1 || len(calls) != 1 {
						t.Errorf("calls %v", calls)
					}
				})
			}
		}
	}
}

func TestOSSCallsGoOutOnce(t *testing.T) {
	for op, call := range ossCalls {
		for _, f := range []cloudtest.Fault{
			{Kind: cloudtest.Drop},
			{Kind: cloudtest.Drop, Phase: cloudtest.After},
			planned(500, "InternalError"), planned(503, "ServiceUnavailable"), planned(503, "DownloadTrafficRateLimitExceeded"), planned(409, "OperationAborted"),
		} {
			t.Run(fmt.Sprintf("%s %s %s %s", op, f.Kind, f.Phase, f.Code), func(t *testing.T) {
				srv, b := newOSS(t, nil)
				f.Times = -1
				srv.Faults.Add(f)
				var e *Error
				if err := call(t.Context(), b); !errors.As(err, &e) || e.Op != op || e.Service != "oss" || e.Code != f.Code || e.Status != f.Status {
					t.Errorf("got %#v", err)
				}
				if calls := srv.Faults.Calls(); calls[op] != 1 || len(calls) != 1 {
					t.Errorf("calls %v", calls)
				}
			})
		}
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		for op, call := range otsCalls {
			t.Run(fmt.Sprintf("tablestore %s %d", op, status), func(t *testing.T) {
				calls := 0
				store, err := NewTablestore("http://in-process", "i", Options{
					Credentials: someone, Transport: answering(&calls, status, http.Header{"Location": {"http://elsewhere/"}}, []byte("x")),
				})
				if err != nil {
					t.Fatal(err)
				}
				if err := call(t.Context(), store); KindOf(err) != KindUnknown || err == nil || calls != 1 {
					t.Errorf("got %v after %d calls", err, calls)
				}
			})
		}
		for op, call := range ossCalls {
			t.Run(fmt.Sprintf("oss %s %d", op, status), func(t *testing.T) {
				calls := 0
				b, err := NewBucket("http://127.0.0.1", "room", Options{
					Credentials: someone, Transport: answering(&calls, status, http.Header{"Location": {"http://elsewhere/"}}, nil),
				})
				if err != nil {
					t.Fatal(err)
				}
				if err := call(t.Context(), b); err == nil || calls != 1 {
					t.Errorf("got %v after %d calls", err, calls)
				}
			})
		}
	}
}

func TestOddAnswersAreErrors(t *testing.T) {
	for name, c := range map[string]struct {
		status  int
		body    string
		created bool // the answer to CreateTable is a message without fields
	}{
		"200 without a body":              {200, "", true},
		"200 with HTML":                   {200, "<html>gateway</html>", false},
		"200 with an empty message in it": {200, "\x0a\x00", true},
		"200 with half a message":         {200, "\x0a\x7f\x01", false},
		"200 with a field nobody knows":   {200, "\xf8\x07\x01", true},
		"204 without a body":              {204, "", true},
		"502 without a body":              {502, "", false},
		"502 with HTML":                   {502, "<html>bad gateway</html>", false},
		"400 with HTML":                   {400, "<html>bad request</html>", false},
	} {
		for op, call := range otsCalls {
			t.Run("tablestore "+op+" "+name, func(t *testing.T) {
				calls := 0
				store, err := NewTablestore("http://in-process", "i", Options{Credentials: someone, Transport: answering(&calls, c.status, nil, []byte(c.body))})
				if err != nil {
					t.Fatal(err)
				}
				fine := c.created && op == "CreateTable"
				if err := call(t.Context(), store); (err == nil) != fine || KindOf(err) != KindUnknown || calls != 1 {
					t.Errorf("got %v after %d calls", err, calls)
				}
			})
		}
	}
}

func TestValuesTheSDKPanicsOnAreErrors(t *testing.T) {
	s := newOTS(t, Options{})
	for name, v := range map[string]any{"an int": 1, "a uint": uint(1), "a time": time.Time{}} {
		t.Run(name, func(t *testing.T) {
			err := s.store.Insert(t.Context(), tasks, "new", Row{"v": v})
			var e *Error
			if !errors.As(err, &e) || e.Code != "SDKPanic" || e.Kind != KindUnknown {
				t.Errorf("got %v", err)
			}
		})
	}
	if n := len(s.srv.Rows(tasks.Name)); n != 0 {
		t.Errorf("%d rows", n)
	}
}

func TestCallsEndWithTheirContext(t *testing.T) {
	for op, call := range otsCalls {
		for _, phase := range []cloudtest.Phase{cloudtest.Before, cloudtest.After} {
			t.Run(fmt.Sprintf("%s %s", op, phase), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := newOTS(t, Options{})
					s.srv.Faults.Add(cloudtest.Fault{Kind: cloudtest.Delay, Delay: time.Hour, Times: -1, Phase: phase})
					for name, c := range map[string]struct {
						ctx  func() (context.Context, context.CancelFunc)
						want error
						took time.Duration
					}{
						"deadline": {func() (context.Context, context.CancelFunc) {
							return context.WithTimeout(t.Context(), 300*time.Millisecond)
						}, context.DeadlineExceeded, 300 * time.Millisecond},
						"cancel": {func() (context.Context, context.CancelFunc) {
							ctx, cancel := context.WithCancel(t.Context())
							time.AfterFunc(time.Second, cancel)
							return ctx, cancel
						}, context.Canceled, time.Second},
						"no deadline": {func() (context.Context, context.CancelFunc) { return t.Context(), func() {} }, context.DeadlineExceeded, callTimeout},
					} {
						s.srv.Faults.ResetCalls()
						ctx, cancel := c.ctx()
						began := time.Now()
						err := call(ctx, s.store)
						cancel()
						if took := time.Since(began); took != c.took || !errors.Is(err, c.want) || KindOf(err) != KindUnknown || s.srv.Faults.Calls()[op] != 1 {
							t.Errorf("%s: got %v after %v, calls %v", name, err, took, s.srv.Faults.Calls())
						}
						// What is temporary or a time-out invites the SDK to go on.
						var sent *url.Error
						if !errors.As(err, &sent) || sent.Temporary() || sent.Timeout() {
							t.Errorf("%s: %v invites a retry", name, sent)
						}
					}
				})
			})
		}
	}
}

func TestOSSCallsEndWithTheirContext(t *testing.T) {
	for op, call := range ossCalls {
		t.Run(op, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, b := newOSS(t, nil)
				srv.Faults.Add(cloudtest.Fault{Kind: cloudtest.Delay, Delay: time.Hour})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				if err := call(ctx, b); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second || srv.Faults.Calls()[op] != 1 {
					t.Errorf("got %v after %v", err, time.Since(began))
				}
			})
		})
	}
}

func TestNoCallIsMadeOnceTheContextIsOver(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := newOTS(t, Options{})
	for op, call := range otsCalls {
		if err := call(ctx, s.store); !errors.Is(err, context.Canceled) || len(s.srv.Faults.Calls()) != 0 {
			t.Errorf("%s: got %v, calls %v", op, err, s.srv.Faults.Calls())
		}
	}
}
