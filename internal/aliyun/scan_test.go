package aliyun

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

// fill writes n rows under hashed keys; every third is closed.
func (s *otsStand) fill(t *testing.T, n int) (keys []string) {
	t.Helper()
	for i := range n {
		key := fmt.Sprintf("%x", sha256.Sum256([]byte(fmt.Sprint(i))))
		row := Row{"revision": int64(1), "group": fmt.Sprint("g", i%2), "big": "x"}
		if i%3 == 0 {
			row["final"] = "DONE"
		}
		s.must(t, s.store.Insert(t.Context(), tasks, key, row))
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

func TestParallelScanSeesEveryRowOnceInOrder(t *testing.T) {
	s := newOTS(t, Options{})
	keys := s.fill(t, 600)
	for _, page := range []int{7, 100, 1000} {
		for _, parallel := range []int{1, 8} {
			var got []string
			err := s.store.ScanAll(t.Context(), tasks, ScanOptions{Page: page, Parallel: parallel}, func(p Page) error {
				got = append(got, p.Keys...)
				return nil
			})
			if diff := cmp.Diff(keys, got); err != nil || diff != "" {
				t.Errorf("%d rows a page, %d at a time: %v\n%s", page, parallel, err, diff)
			}
		}
	}
	s.srv.Faults.ResetCalls()
	s.must(t, s.store.ScanAll(t.Context(), tasks, ScanOptions{Page: 1000}, func(Page) error { return nil }))
	if n := s.srv.Faults.Calls()["GetRange"]; n != 1 {
		t.Errorf("a small table took %d calls", n)
	}
	var some []string
	s.must(t, s.store.ScanAll(t.Context(), tasks, ScanOptions{From: "3", To: "5c", Page: 10}, func(p Page) error {
		some = append(some, p.Keys...)
		return nil
	}))
	want := slices.DeleteFunc(slices.Clone(keys), func(k string) bool { return k < "3" || k >= "5c" })
	if diff := cmp.Diff(want, some); diff != "" {
		t.Error(diff)
	}
}

func TestServiceFiltersWhatAScanReturns(t *testing.T) {
	s := newOTS(t, Options{})
	s.fill(t, 60)
	count := func(columns []string, filter ...Where) (n int) {
		s.must(t, s.store.ScanAll(t.Context(), tasks, ScanOptions{Page: 10, Columns: columns, Filter: filter}, func(p Page) error {
			n += len(p.Keys)
			return nil
		}))
		return n
	}
	for name, c := range map[string]struct {
		want   int
		filter []Where
	}{
		"a missing column passes where it may":  {40, []Where{{Column: "final", Equals: "", Missing: true}}},
		"a missing column fails where it must":  {20, []Where{{Column: "final", Equals: "", Not: true}}},
		"equal":                                 {30, []Where{{Column: "group", Equals: "g1"}}},
		"not equal":                             {30, []Where{{Column: "group", Equals: "g1", Not: true}}},
		"a column that no row has":              {0, []Where{{Column: "nothing", Equals: "x"}}},
		"both of two":                           {20, []Where{{Column: "final", Equals: "", Missing: true}, {Column: "group", Equals: "g1"}}},
		"both of two, the column not projected": {10, []Where{{Column: "final", Equals: "DONE"}, {Column: "group", Equals: "g0"}}},
	} {
		for _, columns := range [][]string{nil, {"revision"}} {
			if got := count(columns, c.filter...); got != c.want {
				t.Errorf("%s, columns %v: %d rows, not %d", name, columns, got, c.want)
			}
		}
	}
}

func TestFirstErrorEndsAParallelScan(t *testing.T) {
	s := newOTS(t, Options{})
	s.fill(t, 600)
	mine := errors.New("mine")
	pages := 0
	err := s.store.ScanAll(t.Context(), tasks, ScanOptions{Page: 10}, func(Page) error {
		if pages++; pages == 3 {
			return mine
		}
		return nil
	})
	if !errors.Is(err, mine) || pages != 3 {
		t.Errorf("%d pages: %v", pages, err)
	}
	s.srv.Faults.Add(cloudtest.Fault{Op: "GetRange", Kind: cloudtest.Status, Status: 403, Code: "OTSNoPermissionAccess", Skip: 9, Times: -1})
	if err := s.store.ScanAll(t.Context(), tasks, ScanOptions{Page: 10}, func(Page) error { return nil }); KindOf(err) != KindDenied {
		t.Errorf("a refused range: %v", err)
	}
	s.srv.Faults.Clear()
	ctx, cancel := context.WithCancel(t.Context())
	err = s.store.ScanAll(ctx, tasks, ScanOptions{Page: 10}, func(Page) error { cancel(); return nil })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

func TestDeleteNeedsTheRevision(t *testing.T) {
	s := newOTS(t, Options{})
	s.must(t, s.store.Insert(t.Context(), tasks, "k", Row{"revision": int64(2)}))
	s.must(t, s.store.Insert(t.Context(), tasks, "bare", Row{"at": int64(2)}))
	for key, revision := range map[string]int64{"k": 1, "bare": 0, "nothing": 1} {
		if err := s.store.Delete(t.Context(), tasks, key, revision); KindOf(err) != KindCondition {
			t.Errorf("%s: %v", key, err)
		}
	}
	s.must(t, s.store.Delete(t.Context(), tasks, "k", 2))
	s.must(t, s.store.DeleteFixed(t.Context(), tasks, "bare"))
	if n := len(s.srv.Rows(tasks.Name)); n != 0 {
		t.Errorf("%d rows are left", n)
	}
}
