package targettest_test

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/flows/targettest"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestPlannedFaultsActOnBothSidesOfTheEffect(t *testing.T) {
	for _, tc := range []struct {
		op, path, key, body, target string
	}{
		{"Notify", "/notify", "key-7", hello, "key-7"},
		{"Robot", "/robot", "key-7", hello, "key-7"},
		{"CreateRecord", "/records", "key-7", r17, "R-17"},
	} {
		for _, fault := range []struct {
			cloudtest.Fault
			status, effects int
		}{
			{cloudtest.Fault{Kind: cloudtest.Drop}, 0, 0},
			{cloudtest.Fault{Kind: cloudtest.Drop, Phase: cloudtest.After}, 0, 1},
			{cloudtest.Fault{Kind: cloudtest.Status, Status: 503, Code: "busy"}, 503, 0},
			{cloudtest.Fault{Kind: cloudtest.Status, Status: 500, Phase: cloudtest.After}, 500, 1},
		} {
			t.Run(fmt.Sprintf("%s %s %s", tc.op, fault.Phase, fault.Kind), func(t *testing.T) {
				twice(t, targettest.Options{}, func(t *testing.T, s *stand) {
					one := fault.Fault
					one.Op, one.Target = tc.op, tc.target
					s.Faults.Add(one)
					got := s.post(t, tc.path, tc.key, tc.body)
					effects := len(s.Notifications()) + len(s.RobotMessages()) + len(s.Records())
					if got.status != fault.status || effects != fault.effects {
						t.Errorf("got %d and %d effects", got.status, effects)
					}
					if one.Code != "" && got.code(t) != one.Code {
						t.Errorf("answer %s", got.body)
					}
				})
			})
		}
	}
}

func TestAnAnswerCanBeHalf(t *testing.T) {
	twice(t, targettest.Options{}, func(t *testing.T, s *stand) {
		s.Faults.Add(cloudtest.Fault{Op: "Notify", Phase: cloudtest.After, Kind: cloudtest.Truncate})
		got, err := s.do(t.Context(), "POST", "/notify", "k", hello)
		if got.status != 200 || len(got.body) != len(`{"id":"ntf-1"}`)/2 || !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("got %d %q, %v", got.status, got.body, err)
		}
		s.effects(t, 1, 0, 0)
	})
}

func TestALookUpCanFail(t *testing.T) {
	twice(t, targettest.Options{}, func(t *testing.T, s *stand) {
		s.post(t, "/records", "", r17)
		s.Faults.Add(cloudtest.Fault{Op: "FindRecord", Target: "R-17", Kind: cloudtest.Status, Status: 503, Times: 2})
		s.get(t, "/records?number=R-18").want(t, 200, `{"records":[]}`)
		s.get(t, "/records?number=R-17").refused(t, 503, "unavailable")
		s.get(t, "/records/by-number/R-17").refused(t, 503, "unavailable")
	})
}

func TestHooksSeeOperationsAndTargetsAlsoOfScriptedCuts(t *testing.T) {
	twice(t, targettest.Options{}, func(t *testing.T, s *stand) {
		var mu sync.Mutex
		var got []string
		s.Faults.Hook(func(c cloudtest.Call, p cloudtest.Phase) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, fmt.Sprint(c.Service, " ", c.Op, " ", c.Target, " ", p, " ", len(s.Notifications())))
		})
		s.post(t, "/notify", "k", `{"text":"[[target cut_after]]"}`)
		s.post(t, "/records", "k", r17)
		s.get(t, "/elsewhere")
		s.Faults.Hook(nil)
		mu.Lock()
		defer mu.Unlock()
		want := []string{
			"target Notify k before 0", "target Notify k after 1",
			"target CreateRecord R-17 before 1", "target CreateRecord R-17 after 1",
			"target Unknown /elsewhere before 1", "target Unknown /elsewhere after 1",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(map[string]int{"Notify": 1, "CreateRecord": 1, "Unknown": 1}, s.Faults.Calls()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestConcurrentCallsHaveOneEffectWhereTheTargetPromisesIt(t *testing.T) {
	for name, o := range map[string]targettest.Options{"in memory": {}, "on disk": {Dir: t.TempDir()}} {
		t.Run(name, func(t *testing.T) {
			s := socket(t, o)
			const script = `{"x":"[[target status=503 times=5]]"}`
			var wg sync.WaitGroup
			var mu sync.Mutex
			answers := map[string]int{}
			for range 50 {
				for _, c := range [][3]string{{"/notify", "one", hello}, {"/records", "", r17}, {"/robot", "", hello}, {"/notify", "two", script}} {
					wg.Go(func() {
						got := s.post(t, c[0], c[1], c[2])
						mu.Lock()
						defer mu.Unlock()
						answers[fmt.Sprint(c[0], c[1], " ", got.status)]++
					})
				}
			}
			wg.Wait()
			want := map[string]int{"/notifyone 200": 50, "/records 201": 1, "/records 409": 49, "/robot 200": 50, "/notifytwo 503": 5, "/notifytwo 200": 45}
			if diff := cmp.Diff(want, answers); diff != "" {
				t.Error(diff)
			}
			s.effects(t, 2, 50, 1)
		})
	}
}
