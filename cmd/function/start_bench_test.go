package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/handler/fctest"
	"github.com/oncegate/oncegate/internal/ratio"
)

// buildStripped builds a command as it is deployed, and returns its path.
func buildStripped(b *testing.B, pkg string) string {
	b.Helper()
	to := filepath.Join(b.TempDir(), "binary")
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags", "-s -w -buildid=", "-o", to, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.Fatalf("build %s: %v\n%s", pkg, err, out)
	}
	return to
}

// BenchmarkStart measures the time from a process that does not run yet to its
// first answer, against a program that makes the same calls and does nothing else.
func BenchmarkStart(b *testing.B) {
	binary = buildStripped(b, ".")
	w := newWorld(b, options{unwatched: true, timeout: time.Minute, flows: "schema_version: 1\nflows:" + flowOf("plain", "record"), env: map[string]string{"ONCEGATE_LOG_LEVEL": "warn"}})
	hello, err := fctest.Start(fctest.Options{
		Binary: buildStripped(b, "./testdata/hello"), Env: w.environ(), Timeout: time.Minute, Credentials: w.lasting, Stdout: &w.output, Stderr: &w.output,
	})
	if err != nil {
		b.Fatal(err)
	}
	defer hello.Close()
	n := 0
	first := func(f *fctest.Function) {
		n++
		raw := work{"plain", fmt.Sprint("N-", n), "Order 17 is late."}.event(fmt.Sprint("evt-", n))
		r, err := f.Invoke(b.Context(), fctest.Request{Payload: raw})
		if err != nil || r.Ending != fctest.Returned || result(b, r).Decision != handler.DecisionExecuted {
			b.Fatalf("%s %v\n%s", r.Payload, err, w.output.String())
		}
	}
	var turns ratio.Turns
	for b.Loop() {
		w.fn.KillAll()
		hello.KillAll()
		turns.Take(func() { first(w.fn) }, func() { first(hello) })
	}
	turns.Report(b, 1.25)
}

// BenchmarkSize reports the size of the stripped binary. What each dependency adds
// is in scripts/bench.
func BenchmarkSize(b *testing.B) {
	info, err := os.Stat(buildStripped(b, "."))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
	}
	b.ReportMetric(0, "ns/op")
	ratio.AtMost(b, float64(info.Size())/(1<<20), "MiB", 20)
}
