//go:build unix

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/internal/ratio"
	"github.com/oncegate/oncegate/scripts/ram"
)

// mostMemory is what a command may have in memory at once, in bytes: all of the
// process, its code included.
const mostMemory = 200 << 20

// manyLetters is a life of n letters in so many groups of about the same size, but for
// the first, which a tenth of them belongs to. Each command is a process of its own,
// on a cloud that another one serves.
type manyLetters struct {
	tb     testing.TB
	n      int
	groups int
	at     upReport
}

// commandRun is what a command took.
type commandRun struct {
	took   time.Duration
	memory int64 // at most, in bytes
	stdout string
	stderr string
}

func (m *manyLetters) target(i int) string {
	if i%10 == 0 {
		return "model:m0"
	}
	return "model:m" + strconv.Itoa(1+i%(m.groups-1))
}

// file writes the letters as an export would hold them.
func (m *manyLetters) file() string {
	name := filepath.Join(m.tb.TempDir(), "export.json")
	f, err := os.Create(name)
	if err != nil {
		m.tb.Fatal(err)
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	lead := "[\n"
	for i := range m.n {
		fmt.Fprintf(w, `%s{"event_id":"m%07d","flow":"order.create","payload":{"source_system":"erp-1","number":"N-%07d","amount":1},"error_code":"TIMEOUT","target":"%s"}`,
			lead, i, i, m.target(i))
		lead = ",\n"
	}
	fmt.Fprintln(w, "]")
	if err := w.Flush(); err != nil {
		m.tb.Fatal(err)
	}
	return name
}

// run runs a command as an operator; its output is kept where it is short.
func (m *manyLetters) run(args ...string) commandRun {
	m.tb.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asCommand+"=1")
	for name, value := range cloudOf(m.at, ram.Operator) {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	var stdout, stderr tail
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	err := cmd.Run()
	r := commandRun{took: time.Since(began), stdout: string(stdout), stderr: string(stderr)}
	if err != nil {
		m.tb.Fatalf("%v: %v\n%s", args, err, r.stderr)
	}
	used := cmd.ProcessState.SysUsage().(*syscall.Rusage)
	if r.memory = used.Maxrss; runtime.GOOS == "linux" {
		r.memory <<= 10 // there in KiB
	}
	if r.memory > mostMemory {
		m.tb.Errorf("%v: %d MB were in memory", args[:2], r.memory>>20)
	}
	return r
}

// tail keeps the end of what is written.
type tail []byte

func (t *tail) Write(p []byte) (int, error) {
	*t = append(*t, p...)
	if over := len(*t) - 8<<10; over > 0 {
		*t = append((*t)[:0], (*t)[over:]...)
	}
	return len(p), nil
}

// live takes the letters in, counts them, plans the largest and a small group, and
// writes the report.
func (m *manyLetters) live() (ingest, groups, plan, small, report commandRun) {
	tb := m.tb
	said := func(r commandRun, what string) {
		tb.Helper()
		if !strings.Contains(r.stdout+r.stderr, what) {
			tb.Fatalf("it does not say %q:\n%s\n%s", what, r.stdout, r.stderr)
		}
	}
	ingest = m.run("dlq", "ingest", m.file(), "--execute", "--yes")
	said(ingest, fmt.Sprintf("%d of %d events ...", m.n/1000*1000, m.n)) // progress
	said(ingest, fmt.Sprintf("%d letters, complete", m.n))
	groups = m.run("dlq", "groups", "--output", "json")
	said(groups, fmt.Sprintf("%d letters so far ...", m.n/50_000*50_000)) // progress
	planned := func(target string, n int) commandRun {
		r := m.run("dlq", "plan", letter.Fingerprint(letter.CodeTimeout, target), "--reason", "the model is back", "--execute", "--yes")
		if got := regexp.MustCompile(`(?m)^events +(\d+)$`).FindStringSubmatch(r.stdout); len(got) != 2 || got[1] != strconv.Itoa(n) {
			tb.Fatalf("the plan of %s does not hold %d events:\n%s", target, n, r.stdout)
		}
		return r
	}
	counts := map[string]int{}
	for i := range m.n {
		counts[m.target(i)]++
	}
	plan = planned(m.target(0), counts[m.target(0)])
	if counts[m.target(0)] >= 10_000 {
		said(plan, "10000 letters seen, 9999 taken ...") // progress
	}
	small = planned(m.target(1), counts[m.target(1)])
	report = m.run("dlq", "report", "--out", filepath.Join(tb.TempDir(), "report"))
	said(report, fmt.Sprintf("%d letters = %d open + 0 ended, 0 unexplained; %d groups, 2 batches, complete", m.n, m.n, len(counts)))
	said(report, fmt.Sprintf("groups: %d", len(counts))) // progress
	return ingest, groups, plan, small, report
}

func TestFiftyThousandLettersLiveInBoundedMemory(t *testing.T) {
	if testing.Short() || raceEnabled {
		t.Skip("half a minute, and the race detector's memory is not the commands'")
	}
	m := &manyLetters{tb: t, n: 50_000, groups: 2_000, at: servedCloud(t, t.TempDir())}
	m.live()
}

// BenchmarkMillion takes a million letters in 10,000 groups through ingest, groups,
// plan and report, and tells the most memory that each command had. It takes a
// quarter of an hour and 4 GB of disk:
//
//	go test ./cmd/oncegate -run '^$' -bench Million -benchtime 1x -timeout 60m
func BenchmarkMillion(b *testing.B) {
	n := 1_000_000
	if given, err := strconv.Atoi(os.Getenv("ONCEGATE_BENCH_LETTERS")); err == nil {
		n = given
	}
	m := &manyLetters{tb: b, n: n, groups: min(10_000, n/20), at: servedCloud(b, b.TempDir())}
	for b.Loop() {
		ingest, groups, plan, small, report := m.live()
		b.ReportMetric(float64(m.n)/ingest.took.Seconds(), "ingested/s")
		for name, r := range map[string]commandRun{"ingest": ingest, "groups": groups, "plan-of-a-tenth": plan, "plan-of-few": small, "report": report} {
			b.ReportMetric(r.took.Seconds(), name+"-s")
			ratio.AtMost(b, float64(r.memory)/(1<<20), name+"-MB", mostMemory>>20)
		}
	}
	b.ReportMetric(0, "ns/op")
}
