package cloudtest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const whole = "the whole answer"

// counter is an engine that counts its effects. The path is /op/target.
type counter struct{ effects atomic.Int64 }

func (c *counter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.effects.Add(1)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	w.Header().Set("X-Sent", string(body))
	w.WriteHeader(http.StatusCreated)
	_, _ = io.WriteString(w, whole)
}

func (c *counter) Name(r *http.Request, _ []byte) (op, target string) {
	op, target, _ = strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	return op, target
}

func (c *counter) Fail(w http.ResponseWriter, status int, code string) {
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "error "+code)
}

// stand is a service and one way to reach it.
type stand struct {
	*Service
	engine *counter
	url    string
	client *http.Client
}

// twice runs a test over a socket and over the in-process transport: what a
// caller sees must not differ.
func twice(t *testing.T, run func(*testing.T, *stand)) {
	t.Helper()
	for name, socket := range map[string]bool{"over a socket": true, "in process": false} {
		t.Run(name, func(t *testing.T) {
			engine := new(counter)
			s := &stand{&Service{Name: "svc", Engine: engine, Faults: new(Faults)}, engine, "http://in-process", nil}
			s.client = &http.Client{Transport: s.Transport()}
			if socket {
				l, err := Listen(s.Handler())
				if err != nil {
					t.Fatal(err)
				}
				tr := &http.Transport{}
				t.Cleanup(func() { tr.CloseIdleConnections(); _ = l.Close() })
				s.url, s.client = l.URL, &http.Client{Transport: tr}
			}
			run(t, s)
		})
	}
}

// seen is what a caller sees of a call.
type seen struct {
	status int // 0: no answer
	body   string
	half   bool // the body ended early
}

func (s *stand) call(t *testing.T, ctx context.Context, path string) (seen, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, strings.NewReader("sent"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return seen{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if got := resp.Header.Get("X-Sent"); resp.StatusCode == http.StatusCreated && got != "sent" {
		t.Errorf("the engine read %q", got)
	}
	return seen{resp.StatusCode, string(body), err != nil}, nil
}

func (s *stand) see(t *testing.T, path string) seen {
	t.Helper()
	got, _ := s.call(t, t.Context(), path)
	return got
}

var fine = seen{http.StatusCreated, whole, false}

func TestFaultsLookTheSameOnBothWays(t *testing.T) {
	for _, c := range []struct {
		fault   Fault
		want    seen
		effects int64
	}{
		{Fault{Kind: Drop}, seen{}, 0},
		{Fault{Kind: Drop, Phase: After}, seen{}, 1},
		{Fault{Kind: Truncate}, seen{}, 0},
		{Fault{Kind: Truncate, Phase: After}, seen{http.StatusCreated, whole[:len(whole)/2], true}, 1},
		{Fault{Kind: Status, Status: 503, Code: "Busy"}, seen{503, "error Busy", false}, 0},
		{Fault{Kind: Status, Status: 500, Code: "Odd", Phase: After}, seen{500, "error Odd", false}, 1},
		{Fault{Kind: Delay, Delay: time.Nanosecond}, fine, 1},
		{Fault{Kind: Delay, Delay: time.Nanosecond, Phase: After}, fine, 1},
	} {
		t.Run(fmt.Sprintf("%s %s", c.fault.Kind, c.fault.Phase), func(t *testing.T) {
			twice(t, func(t *testing.T, s *stand) {
				s.Faults.Add(c.fault)
				if got := s.see(t, "/Put/a"); got != c.want || s.engine.effects.Load() != c.effects {
					t.Errorf("got %+v after %d effects, want %+v", got, s.engine.effects.Load(), c.want)
				}
				if got := s.see(t, "/Put/a"); got != fine {
					t.Errorf("the next call: %+v", got)
				}
				want := map[string]int{fmt.Sprintf("Put %s %s", c.fault.Phase, c.fault.Kind): 1}
				if diff := cmp.Diff(want, s.Faults.Injected()); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestFaultsFireInOrderWithSkipAndTimes(t *testing.T) {
	status := func(n int) Fault { return Fault{Kind: Status, Status: n} }
	for _, c := range []struct {
		name   string
		faults []Fault
		calls  []string
		want   []int
	}{
		{"once where Times is not set", []Fault{status(501)}, []string{"/Put/a", "/Put/a"}, []int{501, 201}},
		{"one after the other", []Fault{status(501), status(502)}, []string{"/Put/a", "/Put/a", "/Put/a"}, []int{501, 502, 201}},
		{"Times", []Fault{{Kind: Status, Status: 501, Times: 2}}, []string{"/Put/a", "/Put/a", "/Put/a"}, []int{501, 501, 201}},
		{"for ever", []Fault{{Kind: Status, Status: 501, Times: -1}, status(502)}, []string{"/Put/a", "/Put/a", "/Put/a"}, []int{501, 501, 501}},
		{"Skip lets calls pass first", []Fault{{Kind: Status, Status: 501, Skip: 2}}, []string{"/Put/a", "/Put/a", "/Put/a", "/Put/a"}, []int{201, 201, 501, 201}},
		{"Skip does not hold back the next fault", []Fault{{Kind: Status, Status: 501, Skip: 1}, status(502)}, []string{"/Put/a", "/Put/a", "/Put/a"}, []int{502, 501, 201}},
		{"by operation", []Fault{{Op: "Get", Kind: Status, Status: 501}}, []string{"/Put/a", "/Get/a", "/Get/a"}, []int{201, 501, 201}},
		{"by a part of the target", []Fault{{Target: "b", Kind: Status, Status: 501}}, []string{"/Put/a", "/Put/abc", "/Put/abc"}, []int{201, 501, 201}},
		{"Skip counts matching calls only", []Fault{{Op: "Get", Skip: 1, Kind: Status, Status: 501}}, []string{"/Get/a", "/Put/a", "/Get/a"}, []int{201, 201, 501}},
		{"before the effect wins over after", []Fault{{Kind: Status, Status: 502, Phase: After}, status(501)}, []string{"/Put/a", "/Put/a", "/Put/a"}, []int{501, 502, 201}},
	} {
		t.Run(c.name, func(t *testing.T) {
			twice(t, func(t *testing.T, s *stand) {
				s.Faults.Add(c.faults...)
				var got []int
				for _, path := range c.calls {
					got = append(got, s.see(t, path).status)
				}
				if diff := cmp.Diff(c.want, got); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

func TestHookSeesBothSidesOfTheEffect(t *testing.T) {
	twice(t, func(t *testing.T, s *stand) {
		var mu sync.Mutex
		var got []string
		s.Faults.Hook(func(c Call, p Phase) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, fmt.Sprintf("%d %s %s %s %s after %d effects", c.Seq, c.Service, c.Op, c.Target, p, s.engine.effects.Load()))
		})
		s.Faults.Add(Fault{Op: "Put", Kind: Drop, Skip: 1}, Fault{Op: "Get", Kind: Drop, Phase: After})
		for _, path := range []string{"/Put/a", "/Put/b", "/Get/c"} {
			s.see(t, path)
		}
		s.Faults.Hook(nil)
		s.see(t, "/Put/d")
		mu.Lock()
		defer mu.Unlock()
		want := []string{
			"1 svc Put a before after 0 effects", "1 svc Put a after after 1 effects", "2 svc Put b before after 1 effects",
			"3 svc Get c before after 1 effects", "3 svc Get c after after 2 effects",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestCountersAndPlanAreReset(t *testing.T) {
	twice(t, func(t *testing.T, s *stand) {
		s.Faults.Add(Fault{Kind: Drop}, Fault{Kind: Drop, Times: -1})
		s.see(t, "/Put/a")
		s.Faults.Clear()
		if got := s.see(t, "/Get/a"); got != fine {
			t.Errorf("after Clear: %+v", got)
		}
		calls := s.Faults.Calls()
		if diff := cmp.Diff(map[string]int{"Put": 1, "Get": 1}, calls); diff != "" {
			t.Error(diff)
		}
		calls["Put"] = 99
		if s.Faults.Calls()["Put"] != 1 || s.Faults.Injected()["Put before drop"] != 1 {
			t.Error("counters are not copies, or Clear dropped them")
		}
		s.Faults.ResetCalls()
		if n := len(s.Faults.Calls()); n != 0 {
			t.Errorf("%d counters", n)
		}
	})
}

func TestDelayLastsAsLongAsItSaysOrUntilTheCallerLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, phase := range []Phase{Before, After} {
			engine := new(counter)
			svc := &Service{Name: "svc", Engine: engine, Faults: new(Faults)}
			s := &stand{svc, engine, "http://in-process", &http.Client{Transport: svc.Transport()}}
			s.Faults.Add(Fault{Kind: Delay, Delay: time.Minute, Phase: phase, Times: 2})
			began := time.Now()
			if got := s.see(t, "/Put/a"); got != fine || time.Since(began) != time.Minute {
				t.Errorf("%s: got %+v after %v", phase, got, time.Since(began))
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			began = time.Now()
			_, err := s.call(t, ctx, "/Put/a")
			cancel()
			if want := int64(1) + int64(phase); !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Second || engine.effects.Load() != want {
				t.Errorf("%s: got %v after %v, %d effects", phase, err, time.Since(began), engine.effects.Load())
			}
		}
	})
}

func TestDelayOverASocketEndsWithTheCaller(t *testing.T) {
	twice(t, func(t *testing.T, s *stand) {
		s.Faults.Add(Fault{Kind: Delay, Delay: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		s.Faults.Hook(func(Call, Phase) { cancel() })
		if _, err := s.call(t, ctx, "/Put/a"); !errors.Is(err, context.Canceled) || s.engine.effects.Load() != 0 {
			t.Errorf("got %v", err)
		}
	})
}

func TestDateComesFromTheServicesClock(t *testing.T) {
	twice(t, func(t *testing.T, s *stand) {
		s.Now = func() time.Time { return time.Date(2026, 3, 1, 16, 0, 0, 0, time.FixedZone("CST", 8*3600)) }
		resp, err := s.client.Post(s.url+"/Put/a", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if got := resp.Header.Get("Date"); got != "Sun, 01 Mar 2026 08:00:00 GMT" {
			t.Errorf("got %q", got)
		}
	})
}

func TestHeadHasNoBody(t *testing.T) {
	twice(t, func(t *testing.T, s *stand) {
		resp, err := s.client.Head(s.url + "/Head/a")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if body, err := io.ReadAll(resp.Body); err != nil || len(body) != 0 || resp.ContentLength != int64(len(whole)) {
			t.Errorf("got %q %v, length %d", body, err, resp.ContentLength)
		}
	})
}
