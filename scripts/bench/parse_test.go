package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestAResultIsReadWithItsBound(t *testing.T) {
	out := `goos: linux
BenchmarkFresh/network-2         	      66	     16964 base-µs	         1.050 max-ratio	         1.053 ratio
BenchmarkReplay-2   	       1	         0 ns/op	       1200 events/s	      1000 min-events/s
BenchmarkLoad-16   	      50	   5080462 ns/op	 1420515 B/op
BenchmarkBroken-2   	      50	   x ns/op	 1420515 B/op
--- FAIL: BenchmarkOther
PASS
`
	raw, err := json.Marshal(parse(strings.NewReader(out)))
	if err != nil {
		t.Fatal(err)
	}
	want := `[{"name":"Fresh/network","value":16964,"unit":"base-µs"},` +
		`{"name":"Fresh/network","value":1.053,"unit":"ratio","target":"\u003c= 1.05","met":false},` +
		`{"name":"Replay","value":1200,"unit":"events/s","target":"\u003e= 1000","met":true},` +
		`{"name":"Load","value":5080462,"unit":"ns/op"},{"name":"Load","value":1420515,"unit":"B/op"}]`
	if diff := cmp.Diff(want, string(raw)); diff != "" {
		t.Error(diff)
	}
}

func TestNoResultsAreAnEmptyList(t *testing.T) {
	if raw, err := json.Marshal(parse(strings.NewReader("PASS\n"))); err != nil || string(raw) != "[]" {
		t.Errorf("%s %v", raw, err)
	}
}

func TestASymbolBelongsToItsModule(t *testing.T) {
	modules := map[string]string{"github.com/a/b/c": "github.com/a/b", "gopkg.in/x.v1": "gopkg.in/x.v1"}
	for symbol, want := range map[string]string{
		"github.com/a/b/c.(*T).Method": "github.com/a/b", "github.com/a/b/c.F[go.shape.int]": "github.com/a/b", "gopkg%2ein/x%2ev1.F": "gopkg.in/x.v1",
		"net/http.Get": "the standard library", "runtime.mallocgc": "the standard library", "type:*": "the Go runtime's tables", "go:func.*": "the Go runtime's tables",
	} {
		if got := module(symbol, modules); got != want {
			t.Errorf("%s belongs to %s, want %s", symbol, got, want)
		}
	}
}

func TestSizesAreAddedUpByModule(t *testing.T) {
	symbols := `  401000    1048576 T github.com/a/b/c.F
  501000    1048576 r github.com/a/b/c.table
  601000    2097152 T net/http.Get
  701000   33554432 D crypto/internal/fips140/drbg.memory
  801000    4194304 B github.com/a/b/c.zeroes
  901000         10 T github.com/x/y.Tiny
`
	got := sum([]byte(symbols), []byte("github.com/a/b/c github.com/a/b\ngithub.com/x/y github.com/x/y\n"), 12<<20)
	want := []row{{Name: "size of github.com/a/b", Value: 2, Unit: "MiB"}, {Name: "size of the standard library", Value: 2, Unit: "MiB"}}
	slices.SortFunc(got, func(a, b row) int { return strings.Compare(a.Name, b.Name) })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
