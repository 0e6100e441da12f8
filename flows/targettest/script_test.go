package targettest_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/flows/targettest"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestAScriptRunsInOrderAndIsCountedByKeyOrBody(t *testing.T) {
	twice(t, targettest.Options{}, func(t *testing.T, s *stand) {
		const script = `{"text":"[[target status=429 retry_after=2 times=2]]","more":["[[target cut]]",{"x":"[[target cut_after]]"}]}`
		for i, want := range []int{429, 429, 0, 0, 200, 200} {
			got := s.post(t, "/notify", "k", script)
			if got.status != want {
				t.Errorf("call %d: %d, want %d", i+1, got.status, want)
			}
			if after := got.header.Get("Retry-After"); (want == 429) != (after == "2") {
				t.Errorf("call %d: Retry-After %q", i+1, after)
			}
			if n := len(s.Notifications()); (n == 1) != (i >= 3) {
				t.Errorf("call %d: %d notifications", i+1, n)
			}
		}
		s.post(t, "/notify", "k2", script).refused(t, 429, "rate_limited")
		s.post(t, "/robot", "k", script).refused(t, 429, "rate_limited")
		s.post(t, "/notify", "", script).refused(t, 429, "rate_limited")
		s.post(t, "/notify", "", script+" ").refused(t, 429, "rate_limited")
		if got := s.Notifications(); len(got) != 1 || got[0].Count != 3 {
			t.Errorf("notifications %+v", got)
		}
	})
}

func TestScriptsAreCountedByBodyWhereThereIsNoKey(t *testing.T) {
	s := inProcess(t, targettest.Options{})
	const first, second = `{"text":"[[target status=503]] 1"}`, `{"text":"[[target status=503]] 2"}`
	for _, want := range []int{503, 200} {
		for _, body := range []string{first, second} {
			if got := s.post(t, "/robot", "", body); got.status != want {
				t.Errorf("%s: %d, want %d", body, got.status, want)
			}
		}
	}
	s.effects(t, 0, 2, 0)
}

func TestScriptedRefusalsHaveNoEffect(t *testing.T) {
	for _, tc := range []struct {
		words  string
		status int
		code   string
	}{
		{"status=400 code=bad_number", 400, "bad_number"},
		{"status=400", 400, "invalid_request"},
		{"status=401", 401, "unauthorized"},
		{"status=403", 403, "forbidden"},
		{"status=404", 404, "not_found"},
		{"status=409", 409, "conflict"},
		{"status=418", 418, "refused"},
		{"status=429", 429, "rate_limited"},
		{"status=500", 500, "internal_error"},
		{"status=503 times=-1", 503, "unavailable"},
		{"times=2", 400, "invalid_directive"},
	} {
		t.Run(tc.words, func(t *testing.T) {
			twice(t, targettest.Options{}, func(t *testing.T, s *stand) {
				body := `{"number":"R-17","a":[{"b":"x [[target ` + tc.words + `]] y"}]}`
				for _, path := range []string{"/notify", "/robot", "/records"} {
					got := s.post(t, path, "k", body)
					got.refused(t, tc.status, tc.code)
					if got.header.Get("Retry-After") != "" {
						t.Errorf("header %v", got.header)
					}
				}
				s.effects(t, 0, 0, 0)
			})
		})
	}
}

func TestNamesAreNotScripts(t *testing.T) {
	s := inProcess(t, targettest.Options{})
	s.post(t, "/robot", "", `{"[[target cut]]":"x","o":{"[[target oops]]":1}}`).want(t, 200, `{"errcode":0}`)
}

func TestACutCallHasItsEffectOnTheSideThatItSays(t *testing.T) {
	for _, path := range []string{"/notify", "/robot", "/records"} {
		twice(t, targettest.Options{}, func(t *testing.T, s *stand) {
			total := func() int { return len(s.Notifications()) + len(s.RobotMessages()) + len(s.Records()) }
			if got := s.post(t, path, "before", `{"number":"1","x":"[[target cut]]"}`); got.status != 0 || total() != 0 {
				t.Errorf("%s cut: %+v, %d effects", path, got, total())
			}
			if got := s.post(t, path, "after", `{"number":"2","x":"[[target cut_after]]"}`); got.status != 0 || total() != 1 {
				t.Errorf("%s cut_after: %+v, %d effects", path, got, total())
			}
		})
	}
}

func TestGosTransportSendsAKeyedCallAgainByItself(t *testing.T) {
	for _, rewind := range []bool{true, false} {
		s := socket(t, targettest.Options{})
		s.post(t, "/robot", "", hello) // leaves a connection to reuse
		const script = `{"x":"[[target cut_after times=1]]"}`
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.Endpoint()+"/robot", strings.NewReader(script))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Idempotency-Key", "k")
		want := 3
		if !rewind {
			req.GetBody, want = nil, 2
		}
		resp, err := s.client.Do(req)
		if err == nil {
			resp.Body.Close()
		}
		if (err == nil) != rewind || len(s.RobotMessages()) != want {
			t.Errorf("rewind %v: %d messages, %v", rewind, len(s.RobotMessages()), err)
		}
	}
}

func TestDelaysUseTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inProcess(t, targettest.Options{})
		began := time.Now()
		for _, words := range []string{"delay=5s", "delay_after=5s", "delay=2s delay_after=3s", "delay=5s status=503", "delay=5s cut", "delay_after=5s cut_after"} {
			s.post(t, "/robot", "", `{"x":"[[target `+words+`]]"}`)
		}
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("took %v", took)
		}
		s.effects(t, 0, 4, 0)
		var got []time.Duration
		for _, m := range s.RobotMessages() {
			got = append(got, m.Time.Sub(began))
		}
		if diff := cmp.Diff([]time.Duration{5 * time.Second, 5 * time.Second, 12 * time.Second, 25 * time.Second}, got); diff != "" {
			t.Error(diff)
		}
	})
}

func TestACallerThatLeavesHasTheEffectAfterTheDelayAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := inProcess(t, targettest.Options{})
		for i, words := range []string{"delay=1h", "delay_after=1h"} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := s.do(ctx, "POST", "/notify", words, `{"x":"[[target `+words+`]]"}`)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: %v", words, err)
			}
			s.effects(t, i, 0, 0)
		}
		s.post(t, "/notify", "delay_after=1h", `{"x":"[[target delay_after=1h]]"}`).want(t, 200, `{"id":"ntf-1"}`)
	})
}

func TestACallerThatLeavesASocketEndsTheDelay(t *testing.T) {
	for i, words := range []string{"delay=1h", "delay_after=1h"} {
		s := socket(t, targettest.Options{})
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan struct{})
		s.Faults.Hook(func(_ cloudtest.Call, p cloudtest.Phase) {
			if p == cloudtest.Before {
				cancel()
				return
			}
			close(left)
		})
		if _, err := s.do(ctx, "POST", "/robot", "", `{"x":"[[target `+words+`]]"}`); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", words, err)
		}
		<-left
		s.effects(t, 0, i, 0)
	}
}
