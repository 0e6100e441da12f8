package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
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

// BenchmarkProcesses measures fresh events a second, and how long one takes, with
// 1 to 16 function processes. Each call takes 5 ms longer, as on a network, so
// that processes and not this machine's cores are what is counted.
func BenchmarkProcesses(b *testing.B) {
	binary = buildStripped(b, ".")
	for _, processes := range []int{1, 2, 4, 8, 16} {
		b.Run(fmt.Sprint(processes), func(b *testing.B) {
			w := newWorld(b, options{
				instances: processes, unwatched: true, timeout: time.Minute, delay: 5 * time.Millisecond,
				flows: "schema_version: 1\nflows:" + flowOf("plain", "record"), env: map[string]string{"ONCEGATE_LOG_LEVEL": "warn"},
			})
			var sent atomic.Int64
			var mu sync.Mutex
			var took []time.Duration
			deliver := func() {
				n := sent.Add(1)
				raw := work{"plain", fmt.Sprint("N-", n), "Order 17 is late."}.event(fmt.Sprint("evt-", n))
				began := time.Now()
				if r, err := w.fn.Invoke(b.Context(), fctest.Request{Payload: raw}); err != nil || r.Ending != fctest.Returned {
					b.Errorf("%s %v", r.Payload, err)
				}
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
			}
			round := func(each int) {
				var all sync.WaitGroup
				for range processes {
					all.Go(func() {
						for range each {
							deliver()
						}
					})
				}
				all.Wait()
			}
			round(2) // processes start
			took = nil
			began := time.Now()
			for b.Loop() {
				round(10)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(len(took))/time.Since(began).Seconds(), "events/s")
			b.ReportMetric(float64(ratio.Quantile(took, 0.5))/1e6, "p50-ms")
			b.ReportMetric(float64(ratio.Quantile(took, 0.99))/1e6, "p99-ms")
		})
	}
}
