// Package ratio compares two ways of doing something on a machine that is busy
// with other things too. Both sides run by turns, so that what slows one slows
// the other, and medians are compared: a time means little on a shared machine,
// a ratio of one run means something.
//
// A benchmark reports a metric and beside it the bound that it is meant to keep:
//
//	BenchmarkFresh-2   200   1.03 ratio   1.05 max-ratio
package ratio

import (
	"slices"
	"testing"
	"time"
)

// Turns are the measured times of two sides.
type Turns struct {
	subject, base []time.Duration
}

// Take runs both sides once, each turn in the other order.
func (t *Turns) Take(subject, base func()) {
	if len(t.subject)%2 == 0 {
		t.subject = append(t.subject, took(subject))
		t.base = append(t.base, took(base))
		return
	}
	t.base = append(t.base, took(base))
	t.subject = append(t.subject, took(subject))
}

func took(fn func()) time.Duration {
	began := time.Now()
	fn()
	return time.Since(began)
}

// Ratio is the subject's median time over the base's, 0 where nothing was measured.
func (t *Turns) Ratio() float64 {
	base := Quantile(t.base, 0.5)
	if base == 0 {
		return 0
	}
	return float64(Quantile(t.subject, 0.5)) / float64(base)
}

// Report reports the ratio, both medians in microseconds, and the highest ratio
// that is meant to be.
func (t *Turns) Report(b *testing.B, highest float64) {
	b.Helper()
	b.ReportMetric(0, "ns/op") // of both sides together: it says nothing
	b.ReportMetric(float64(Quantile(t.subject, 0.5))/1e3, "subject-µs")
	b.ReportMetric(float64(Quantile(t.base, 0.5))/1e3, "base-µs")
	AtMost(b, t.Ratio(), "ratio", highest)
}

// AtMost reports a metric and the highest value that is meant to be.
func AtMost(b *testing.B, value float64, unit string, highest float64) {
	b.Helper()
	b.ReportMetric(value, unit)
	b.ReportMetric(highest, "max-"+unit)
}

// AtLeast reports a metric and the lowest value that is meant to be.
func AtLeast(b *testing.B, value float64, unit string, lowest float64) {
	b.Helper()
	b.ReportMetric(value, unit)
	b.ReportMetric(lowest, "min-"+unit)
}

// Quantile is the smallest of times that a share q of them does not exceed, 0
// where there are none.
func Quantile(times []time.Duration, q float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(times))
	at := int(q * float64(len(sorted)))
	return sorted[min(at, len(sorted)-1)]
}
