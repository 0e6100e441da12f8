// Command bench runs the project's benchmarks and prints what they measured beside
// what is meant to be: a table with the machine and the versions, or JSON.
//
//	go run ./scripts/bench --run 'Fresh|Batch'
//	go run ./scripts/bench --run 'Count|Million'    (a million dead letters: only where it is asked for)
//
// A benchmark reports a metric and its bound as two units, ratio and max-ratio, or
// events/s and min-events/s; package internal/ratio says how. The exit code is 1
// where a benchmark failed, not where a target is missed.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
)

// suite is the benchmarks of one package.
type suite struct {
	pkg   string
	names string // regular expression
	time  string // as -benchtime takes it
	asked bool   // only where --run names it: a quarter of an hour, and 4 GB of disk
}

// suites are what a full run takes: some minutes, and a GB for the full table.
var suites = []suite{
	{"./handler", "^Benchmark(Thinking|Fresh|Duplicate)$", "3s", false},
	{"./handler", "^BenchmarkBatch$", "5x", false},
	{"./handler", "^BenchmarkFullTable$", "1000x", false},
	{"./handler/simtest", "^BenchmarkSimulation$", "1x", false},
	{"./deadletter", "^Benchmark(Replay|ReplayRate|Ingest.*)$", "1x", false},
	{"./cmd/function", "^Benchmark(Start|Size)$", "60x", false},
	{"./cmd/function", "^BenchmarkProcesses$", "5x", false},
	{"./cmd/function", "^BenchmarkRate$", "5x", false},
	{"./flows", "^BenchmarkLoad$", "100x", false},
	{"./deadletter", "^BenchmarkCount$", "1x", true},
	{"./cmd/oncegate", "^BenchmarkMillion$", "1x", true},
}

func main() {
	output := flag.String("output", "table", "table or json")
	run := flag.String("run", "", "only benchmarks whose name in the result matches this regular expression")
	flag.Parse()
	only, err := regexp.Compile(*run)
	if err != nil || (*output != "table" && *output != "json") || flag.NArg() > 0 {
		flag.Usage()
		os.Exit(2)
	}
	switch err := bench(os.Stdout, os.Stderr, *output, only); {
	case errors.Is(err, errNothing):
		fmt.Fprintf(os.Stderr, "bench: %v %q\n", err, *run)
		os.Exit(2)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

var errNothing = errors.New("no benchmark matches")

func bench(stdout, stderr io.Writer, output string, only *regexp.Regexp) error {
	about := describe()
	var rows []row
	var failed error
	matched := only.MatchString("size")
	for _, s := range suites {
		if s.asked && only.String() == "" || !only.MatchString(s.names) && !only.MatchString(s.pkg) {
			continue
		}
		matched = true
		fmt.Fprintf(stderr, "go test %s -run '^$' -bench '%s' -benchtime %s\n", s.pkg, s.names, s.time)
		cmd := exec.Command("go", "test", s.pkg, "-run", "^$", "-bench", s.names, "-benchtime", s.time, "-timeout", "2h")
		cmd.Stderr = stderr
		out, err := cmd.Output()
		if err != nil {
			stderr.Write(out)
			failed = errors.Join(failed, fmt.Errorf("%s: %w", s.pkg, err))
		}
		rows = append(rows, parse(bytes.NewReader(out))...)
	}
	if !matched {
		return errNothing
	}
	if only.MatchString("size") {
		sizes, err := shares("./cmd/function")
		failed = errors.Join(failed, err)
		rows = append(rows, sizes...)
	}
	if output == "json" {
		e := json.NewEncoder(stdout)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return errors.Join(failed, e.Encode(rows))
	}
	fmt.Fprint(stdout, about, "\n")
	return errors.Join(failed, render(stdout, rows))
}
