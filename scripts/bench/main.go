// Command bench runs the project's benchmarks and prints what they measured beside
// what is meant to be: a table with the machine and the versions, or JSON.
//
//	go run ./scripts/bench --run 'Fresh|Batch'
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
}

// suites are what a full run takes: some minutes, and a GB for the full table.
var suites = []suite{
	{"./handler", "^Benchmark(Thinking|Fresh|Duplicate)$", "3s"},
	{"./handler", "^BenchmarkBatch$", "5x"},
	{"./handler", "^BenchmarkFullTable$", "1000x"},
	{"./handler/simtest", "^BenchmarkSimulation$", "1x"},
	{"./deadletter", "^Benchmark(Replay|ReplayRate|Ingest.*)$", "1x"},
	{"./cmd/function", "^Benchmark(Start|Size)$", "60x"},
	{"./cmd/function", "^BenchmarkProcesses$", "5x"},
	{"./cmd/function", "^BenchmarkRate$", "5x"},
	{"./flows", "^BenchmarkLoad$", "100x"},
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
	if err := bench(os.Stdout, os.Stderr, *output, only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(stdout, stderr io.Writer, output string, only *regexp.Regexp) error {
	about := describe()
	var rows []row
	var failed error
	for _, s := range suites {
		if !only.MatchString(s.names) && !only.MatchString(s.pkg) {
			continue
		}
		fmt.Fprintf(stderr, "go test %s -run '^$' -bench '%s' -benchtime %s\n", s.pkg, s.names, s.time)
		cmd := exec.Command("go", "test", s.pkg, "-run", "^$", "-bench", s.names, "-benchtime", s.time, "-timeout", "30m")
		cmd.Stderr = stderr
		out, err := cmd.Output()
		if err != nil {
			stderr.Write(out)
			failed = errors.Join(failed, fmt.Errorf("%s: %w", s.pkg, err))
		}
		rows = append(rows, parse(bytes.NewReader(out))...)
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
