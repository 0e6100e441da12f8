package deadletter

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
	"github.com/oncegate/oncegate/internal/ratio"
)

const benchGroups = 10_000

// benchLetters is a million, or what ONCEGATE_BENCH_LETTERS says.
func benchLetters() int {
	if n, err := strconv.Atoi(os.Getenv("ONCEGATE_BENCH_LETTERS")); err == nil {
		return n
	}
	return 1_000_000
}

// benchServer is what the process that holds the table tells its parent.
type benchServer struct {
	Endpoint   string
	Credential cloudtest.Credential
	CPU        time.Duration // that it took to answer, told in the end
}

// TestServeManyLetters is the process of BenchmarkCount that holds the table, so
// that the memory measured there is the client's alone.
func TestServeManyLetters(t *testing.T) {
	if os.Getenv("ONCEGATE_BENCH_SERVE") == "" {
		t.Skip("the other half of BenchmarkCount")
	}
	w := newWorldOf(t)
	crowd{letters: benchLetters(), groups: benchGroups}.load(t, w.ots, w.cred)
	if err := w.ots.Start(); err != nil {
		t.Fatal(err)
	}
	defer w.ots.Close()
	runtime.GC()
	loaded := ratio.CPU()
	say := func(s benchServer) {
		raw, _ := json.Marshal(s)
		fmt.Printf("\n%s\n", raw)
	}
	say(benchServer{Endpoint: w.ots.Endpoint(), Credential: w.cred})
	_, _ = io.ReadAll(os.Stdin)
	say(benchServer{CPU: ratio.CPU() - loaded})
}

// BenchmarkCount counts a million letters in 10,000 groups, in another process
// behind a socket:
//
//	go test ./deadletter -run '^$' -bench Count -benchtime 1x
func BenchmarkCount(b *testing.B) {
	cmd := exec.Command(os.Args[0], "-test.run=^TestServeManyLetters$", "-test.timeout=30m")
	cmd.Env = append(os.Environ(), "ONCEGATE_BENCH_SERVE=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	defer in.Close()
	var server benchServer
	lines := bufio.NewScanner(out)
	for server.Endpoint == "" && lines.Scan() {
		_ = json.Unmarshal(lines.Bytes(), &server)
	}
	d := newWorldOf(b).desk
	store, err := aliyun.NewTablestore(server.Endpoint, "oncegate", aliyun.Options{Credentials: func(context.Context) (aliyun.Credentials, error) {
		return aliyun.Credentials{
			AccessKeyID: server.Credential.AccessKeyID, AccessKeySecret: server.Credential.AccessKeySecret, SecurityToken: server.Credential.SecurityToken,
		}, nil
	}})
	if err != nil {
		b.Fatal(err)
	}
	d.Letters = letter.NewTable(store)
	d.Now = time.Now
	p := newPeak()
	letters := benchLetters()
	used := ratio.CPU()
	for b.Loop() {
		c, err := d.Count(b.Context(), EachOptions{Progress: p.sample})
		if err != nil || c.Basis.Letters != letters || len(c.Groups) != benchGroups || c.Closed[letter.FinalDiscarded] != letters/10 {
			b.Fatal(c.Basis, len(c.Groups), c.Closed, err)
		}
	}
	used = ratio.CPU() - used
	in.Close()
	for server.CPU == 0 && lines.Scan() {
		_ = json.Unmarshal(lines.Bytes(), &server)
	}
	b.ReportMetric(used.Seconds()/float64(b.N), "client-cpu-s")
	b.ReportMetric(server.CPU.Seconds()/float64(b.N), "stand-in-cpu-s")
	b.ReportMetric(float64(letters)/(b.Elapsed().Seconds()/float64(b.N)), "letters/s")
	b.ReportMetric(float64(p.megabytes()), "peak-live-MB")
	ratio.AtMost(b, float64(p.heap>>20), "peak-heap-MB", 200)
	if letters == 1_000_000 {
		ratio.AtMost(b, b.Elapsed().Seconds()/float64(b.N), "s", 15)
	}
}
