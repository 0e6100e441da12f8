package otstest

import (
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestFaults(t *testing.T) {
	tests := []struct {
		name    string
		fault   cloudtest.Fault
		retries uint
		want    string // code, or a part of the error
		calls   int
		there   bool // the row, afterwards
	}{
		{"a drop before the effect is made up for by the SDK", cloudtest.Fault{Kind: cloudtest.Drop}, 10, "", 2, true},
		{"a drop before the effect without retries leaves no row", cloudtest.Fault{Kind: cloudtest.Drop}, 0, "EOF", 1, false},
		{"a drop after the effect fails on the SDK's own first try", cloudtest.Fault{Phase: cloudtest.After, Kind: cloudtest.Drop}, 10, "OTSConditionCheckFail", 2, true},
		{"a drop after the effect without retries hides a row that is there", cloudtest.Fault{Phase: cloudtest.After, Kind: cloudtest.Drop}, 0, "EOF", 1, true},
		{"a cut answer fails on the SDK's own first try", cloudtest.Fault{Phase: cloudtest.After, Kind: cloudtest.Truncate}, 10, "OTSConditionCheckFail", 2, true},
		{"a cut answer without retries is an unexpected EOF", cloudtest.Fault{Phase: cloudtest.After, Kind: cloudtest.Truncate}, 0, "unexpected EOF", 1, true},
		{"a busy server before the effect is tried again", cloudtest.Fault{Kind: cloudtest.Status, Status: 503, Code: "OTSServerBusy"}, 10, "", 2, true},
		{"a busy server after the effect fails on the SDK's own first try", cloudtest.Fault{Phase: cloudtest.After, Kind: cloudtest.Status, Status: 503, Code: "OTSServerBusy"}, 10, "OTSConditionCheckFail", 2, true},
		{"a time-out of the service is not tried again for a write", cloudtest.Fault{Phase: cloudtest.After, Kind: cloudtest.Status, Code: "OTSTimeout"}, 10, "OTSTimeout", 1, true},
		{"a page of a gateway reads as an unavailable server", cloudtest.Fault{Phase: cloudtest.After, Kind: cloudtest.Status, Status: 502}, 10, "OTSServerUnavailable", 1, true},
		{"a fault on another row does nothing", cloudtest.Fault{Kind: cloudtest.Drop, Target: "claims/other"}, 0, "", 1, true},
		{"a fault on another call does nothing", cloudtest.Fault{Kind: cloudtest.Drop, Op: "GetRow"}, 0, "", 1, true},
	}
	twice(t, func(t *testing.T, s *stand) {
		s.table("claims", 1)
		for i, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				s.Faults.Clear()
				s.Faults.ResetCalls()
				if tt.fault.Op == "" {
					tt.fault.Op = "PutRow"
				}
				s.Faults.Add(tt.fault)
				key := strings.Repeat("x", i+1)
				s.client = s.dial(tt.retries)
				err := s.do(putChange("claims", key, absent, cols{"a": "1"}))
				if got := code(err); got != tt.want && (tt.want == "" || !strings.Contains(got, tt.want)) {
					t.Errorf("got %v, want %q", err, tt.want)
				}
				if got := s.Faults.Calls()["PutRow"]; got != tt.calls {
					t.Errorf("%d calls, want %d", got, tt.calls)
				}
				s.Faults.Clear()
				if _, ok := s.get("claims", key); ok != tt.there {
					t.Errorf("row is there: %t, want %t", ok, tt.there)
				}
			})
		}
	})
}

func TestIncrementCountsTwiceAfterALostAnswer(t *testing.T) {
	twice(t, func(t *testing.T, s *stand) {
		s.table("claims", 1)
		s.Faults.Add(cloudtest.Fault{Op: "UpdateRow", Phase: cloudtest.After, Kind: cloudtest.Drop})
		u := updateChange("claims", "counter", ignore)
		u.IncrementColumn("n", 1)
		s.must(u)
		if got, _ := s.get("claims", "counter"); got["n"] != int64(2) {
			t.Fatal(got)
		}
	})
}

func TestDelayRunsInABubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Options{Now: time.Now}, false)
		s.table("claims", 1)
		cfg := tablestore.NewDefaultTableStoreConfig()
		cfg.Transport, cfg.RetryTimes, cfg.HTTPTimeout.RequestTimeout = s.transport, 0, time.Second
		client := tablestore.NewClientWithConfig(s.endpoint, "oncegate", s.cred.AccessKeyID, s.cred.AccessKeySecret, s.cred.SecurityToken, cfg)
		put := func(key string, phase cloudtest.Phase, delay time.Duration) (took time.Duration, there bool, err error) {
			s.Faults.Add(cloudtest.Fault{Op: "PutRow", Phase: phase, Kind: cloudtest.Delay, Delay: delay})
			began := time.Now()
			_, err = client.PutRow(&tablestore.PutRowRequest{PutRowChange: putChange("claims", key, absent, cols{"a": "1"})})
			took = time.Since(began)
			synctest.Wait()
			_, there = s.get("claims", key)
			return took, there, err
		}
		if took, ok, err := put("a", cloudtest.Before, 900*time.Millisecond); err != nil || took != 900*time.Millisecond || !ok {
			t.Error(err, took, ok)
		}
		if took, ok, err := put("b", cloudtest.Before, 2*time.Second); err == nil || took != time.Second || ok {
			t.Error("before the effect:", err, took, ok)
		}
		if took, ok, err := put("c", cloudtest.After, 2*time.Second); err == nil || took != time.Second || !ok {
			t.Error("after the effect:", err, took, ok)
		}
	})
}

func TestCalls(t *testing.T) {
	twice(t, func(t *testing.T, s *stand) {
		s.table("claims", 1)
		var mu sync.Mutex
		var seen []string
		s.Faults.Hook(func(c cloudtest.Call, p cloudtest.Phase) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, strings.Join([]string{c.Service, p.String(), c.Op, c.Target}, " "))
		})
		s.put("claims", "one", cols{"a": "1"})
		s.get("claims", "two")
		s.must(deleteChange("claims", "one", ignore))
		s.scan(&tablestore.RangeRowQueryCriteria{})
		if _, err := s.client.DescribeTable(&tablestore.DescribeTableRequest{TableName: "claims"}); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"tablestore before PutRow claims/one", "tablestore after PutRow claims/one",
			"tablestore before GetRow claims/two", "tablestore after GetRow claims/two",
			"tablestore before DeleteRow claims/one", "tablestore after DeleteRow claims/one",
			"tablestore before GetRange claims", "tablestore after GetRange claims",
			"tablestore before DescribeTable claims", "tablestore after DescribeTable claims",
		}
		mu.Lock()
		defer mu.Unlock()
		if d := cmp.Diff(want, seen); d != "" {
			t.Error(d)
		}
		got := s.Faults.Calls()
		names := slices.Sorted(maps.Keys(got))
		if !cmp.Equal(names, []string{"CreateTable", "DeleteRow", "DescribeTable", "GetRange", "GetRow", "PutRow"}) {
			t.Error(got)
		}
	})
}

func TestAnEmptyAnswerIsNotTheServicesOwn(t *testing.T) {
	s := newStand(t, Options{}, false)
	s.Faults.Add(cloudtest.Fault{Kind: cloudtest.Status, Status: http.StatusOK})
	r, err := http.NewRequest(http.MethodPost, "http://in-process/PutRow", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := s.Transport().RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if b, err := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK || len(b) != 0 || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Fatal(resp.StatusCode, b, err)
	}
}
