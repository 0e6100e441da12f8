package deadletter

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/ratio"
)

// takenIn takes in n events of so many letters through the SDKs, the stand-ins in
// this process, and returns how long that took, the processor time, and how far the
// live heap grew beyond what the stand-ins kept in the end, in bytes.
func takenIn(b *testing.B, n, letters int) (took, cpu time.Duration, over uint64) {
	b.Helper()
	w := newWorldOf(b)
	w.desk.Now = time.Now
	p := newPeak()
	each := func(fn func(Item) error) error {
		for i := range n {
			if err := fn(Split([]byte(orderEvent(fmt.Sprintf("e%07d", i%letters), fmt.Sprint(i%letters), "5")))[0]); err != nil {
				return err
			}
		}
		return nil
	}
	told := 0
	began, used := time.Now(), ratio.CPU()
	err := w.desk.IngestAll(b.Context(), each, IntakeOptions{}, func(_ int, j Judgement) error {
		if j.Decision == "" || j.Letter.DeliveryAttempts < 1 {
			b.Fatalf("%+v", j)
		}
		if told++; told%256 == 0 {
			p.sample(told)
		}
		return nil
	})
	took, cpu = time.Since(began), ratio.CPU()-used
	if err != nil || told != n {
		b.Fatal(err, told)
	}
	kept := newPeak().base - min(p.base, newPeak().base)
	runtime.KeepAlive(w)
	return took, cpu, p.most - min(kept, p.most)
}

// BenchmarkIngest measures how many letters a second are taken in and decided about,
// through the SDKs, and how much memory that takes beside what the stand-ins keep on
// the same heap: with so many events and with four times as many.
func BenchmarkIngest(b *testing.B) {
	const letters, events = 10_000, 5_000
	var best, busy float64
	var small, large uint64
	for b.Loop() {
		took, cpu, _ := takenIn(b, letters, letters)
		best, busy = max(best, letters/took.Seconds()), max(busy, letters/cpu.Seconds())
		_, _, small = takenIn(b, events, 500)
		_, _, large = takenIn(b, 4*events, 500)
	}
	b.ReportMetric(0, "ns/op")
	ratio.AtLeast(b, best, "letters/s", 2000)
	ratio.AtLeast(b, busy, "letters/cpu-s", 1000) // two cores make 2,000 of it
	b.ReportMetric(float64(small)/(1<<20), "MB-over-5000")
	b.ReportMetric(float64(large)/(1<<20), "MB-over-20000")
}
