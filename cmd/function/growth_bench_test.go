package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/handler/fctest"
	"github.com/oncegate/oncegate/internal/ratio"
)

// callDelay is what each call takes longer, as on a network, so that processes are
// what is counted and not this machine's cores.
const callDelay = 5 * time.Millisecond

// stream sends fresh events to a world and notes how long each took.
type stream struct {
	b    *testing.B
	w    *world
	sent atomic.Int64
	mu   sync.Mutex
	took []time.Duration
}

func newStream(b *testing.B, processes int) *stream {
	b.Helper()
	s := &stream{b: b, w: newWorld(b, options{
		instances: processes, unwatched: true, timeout: time.Minute, delay: callDelay,
		flows: "schema_version: 1\nflows:" + flowOf("plain", "record"), env: map[string]string{"ONCEGATE_LOG_LEVEL": "warn"},
	})}
	s.side(processes, func() { // processes start
		for range 2 {
			s.deliver(time.Now())
		}
	})
	s.took = nil
	return s
}

// side runs fn so many times side by side.
func (s *stream) side(width int, fn func()) {
	var all sync.WaitGroup
	for range width {
		all.Go(fn)
	}
	all.Wait()
}

// deliver sends the next event, which was due at a time.
func (s *stream) deliver(due time.Time) {
	n := s.sent.Add(1)
	raw := work{"plain", fmt.Sprint("N-", n), "Order 17 is late."}.event(fmt.Sprint("evt-", n))
	if r, err := s.w.fn.Invoke(s.b.Context(), fctest.Request{Payload: raw}); err != nil || r.Ending != fctest.Returned {
		s.b.Errorf("%s %v", r.Payload, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.took = append(s.took, time.Since(due))
}

func (s *stream) report(began time.Time) {
	s.b.ReportMetric(0, "ns/op")
	s.b.ReportMetric(float64(len(s.took))/time.Since(began).Seconds(), "events/s")
	s.b.ReportMetric(float64(ratio.Quantile(s.took, 0.5))/1e6, "p50-ms")
	s.b.ReportMetric(float64(ratio.Quantile(s.took, 0.99))/1e6, "p99-ms")
}

// BenchmarkProcesses measures fresh events a second with 1 to 16 processes, each
// of which is always busy.
func BenchmarkProcesses(b *testing.B) {
	binary = buildStripped(b, ".")
	for _, processes := range []int{1, 2, 4, 8, 16} {
		b.Run(fmt.Sprint(processes), func(b *testing.B) {
			s := newStream(b, processes)
			began := time.Now()
			for b.Loop() {
				s.side(processes, func() {
					for range 10 {
						s.deliver(time.Now())
					}
				})
			}
			s.report(began)
		})
	}
}

// BenchmarkRate measures how long events take that come at a steady rate to four
// processes, from the moment they were due: what waits counts.
func BenchmarkRate(b *testing.B) {
	binary = buildStripped(b, ".")
	for _, rate := range []int{25, 50, 100, 150} {
		b.Run(fmt.Sprint(rate), func(b *testing.B) {
			s := newStream(b, 4)
			began := time.Now()
			var all sync.WaitGroup
			due := began
			for b.Loop() {
				for range rate { // one second of it
					time.Sleep(time.Until(due))
					at := due
					all.Go(func() { s.deliver(at) })
					due = due.Add(time.Second / time.Duration(rate))
				}
			}
			all.Wait()
			s.report(began)
		})
	}
}
