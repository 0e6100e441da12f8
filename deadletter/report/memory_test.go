package report

import (
	"context"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/deadletter"
)

// gauge reads how much memory is in use while a report is written.
type gauge struct {
	Source
	every, seen int
	peak        uint64
}

func (g *gauge) look() {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	g.peak = max(g.peak, m.HeapInuse+m.StackInuse)
}

func (g *gauge) Letters(ctx context.Context, each func(deadletter.Judgement) error) error {
	return g.Source.Letters(ctx, func(j deadletter.Judgement) error {
		if g.seen++; g.seen%g.every == 0 {
			g.look()
		}
		return each(j)
	})
}

func (g *gauge) Evidence(ctx context.Context, fingerprint string) ([]deadletter.Evidence, error) {
	if g.seen++; g.seen%g.every == 0 {
		g.look()
	}
	return g.Source.Evidence(ctx, fingerprint)
}

// sizes keeps nothing of a report but the size of its files.
type sizes map[string]int

type counted struct {
	n   int
	end func(int)
}

func (c *counted) Write(p []byte) (int, error) { c.n += len(p); return len(p), nil }
func (c *counted) Close() error                { c.end(c.n); return nil }

func (s sizes) out(name string) (io.WriteCloser, error) {
	return &counted{end: func(n int) { s[name] = n }}, nil
}

func measured(tb testing.TB, letters, groups, every int) (peak uint64, files sizes, steps map[string]int64) {
	tb.Helper()
	g := &gauge{Source: generated{letters: letters, groups: groups}, every: every}
	files, steps = sizes{}, map[string]int64{}
	r, err := Write(context.Background(), g, Options{Out: files.out, Now: asOf, Progress: func(step string, n int64) { steps[step] = n }})
	if err != nil {
		tb.Fatal(err)
	}
	if r.Letters.Total != int64(letters) || r.GroupCount != groups || !r.OK {
		tb.Fatalf("got %+v", r.Letters)
	}
	for name, n := range files {
		if strings.HasSuffix(name, ".html") && n > maxPage {
			tb.Errorf("%s has %d bytes", name, n)
		}
	}
	return g.peak, files, steps
}

const limit = 200 << 20 // bytes

func TestFiftyThousandLettersInTwoThousandGroupsStream(t *testing.T) {
	peak, files, steps := measured(t, 50_000, 2000, 2000)
	if peak > limit {
		t.Errorf("%d MB were in use", peak>>20)
	}
	if files["groups-4.html"] == 0 || files["groups-5.html"] != 0 || len(files) != 2000+4+5+2 {
		t.Errorf("there are %d files", len(files))
	}
	if steps["letters"] != 50_000 || steps["groups"] != 2000 {
		t.Errorf("progress ended at %v", steps)
	}
}

// BenchmarkAMillionLettersInTenThousandGroups tells the most memory in use; run it
// with -benchtime 1x.
func BenchmarkAMillionLettersInTenThousandGroups(b *testing.B) {
	for b.Loop() {
		peak, files, _ := measured(b, 1_000_000, 10_000, 20_000)
		total := 0
		for _, n := range files {
			total += n
		}
		b.ReportMetric(float64(peak)/(1<<20), "MB-in-use")
		b.ReportMetric(float64(total)/(1<<20), "MB-written")
		if peak > limit {
			b.Errorf("%d MB were in use", peak>>20)
		}
	}
}
