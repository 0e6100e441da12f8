package main

import (
	"context"
	"time"

	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/events/ebtest"
	"github.com/oncegate/oncegate/idempotency"
)

// How long the rules go on delivering: EventBridge's EXPONENTIAL_DECAY_RETRY
// spans 86,015 s, and the local cloud's waits are a hundredth of that by default.
const (
	cloudRetrySpan = 24 * time.Hour
	localRetrySpan = 15 * time.Minute
)

// stuckTasks returns what tells a stuck task: one that is not at its end, whose
// lease and back-off are over, that no delivery can come for any more, and that
// has neither an open letter, nor a review, nor a message in the dead-letter queue.
func (a *app) stuckTasks(ctx context.Context, s *state, span time.Duration) (func(idempotency.Record) bool, error) {
	if span == 0 {
		span = cloudRetrySpan
		if s.target == targetLocal {
			span = localRetrySpan
		}
	}
	told := map[string]bool{}
	for from, more := "", true; more; more = from != "" {
		page, next, err := s.letters.List(ctx, from, 500)
		if err != nil {
			return nil, err
		}
		for _, l := range page {
			if l.Open() {
				told[l.Key] = true
			}
		}
		from = next
	}
	for from, more := "", true; more; more = from != "" {
		page, next, err := s.reviews.List(ctx, from, "", 500)
		if err != nil {
			return nil, err
		}
		for _, r := range page {
			if r.State == idempotency.ReviewOpen {
				told[r.Key] = true
			}
		}
		from = next
	}
	queued := map[[2]string]bool{}
	if s.target == targetLocal {
		if err := readQueue(a.stateDir, queued); err != nil {
			return nil, err
		}
	}
	now := time.Now()
	return func(r idempotency.Record) bool {
		switch r.Status {
		case idempotency.StatusSucceeded, idempotency.StatusFailedFinal:
			return false
		}
		quiet := latest(r.LeaseUntil, r.NotBefore, r.UpdatedAt).Add(span)
		return now.After(quiet) && !told[r.Key] && !queued[[2]string{r.Source, r.EventID}]
	}, nil
}

func latest(times ...time.Time) time.Time {
	var last time.Time
	for _, t := range times {
		if t.After(last) {
			last = t
		}
	}
	return last
}

// readQueue notes the events in the local dead-letter queue.
func readQueue(stateDir string, queued map[[2]string]bool) error {
	bus, err := ebtest.New(ebtest.Options{Dir: stateDir, Bus: localEnvironment, TimeScale: 1, Rand: func() float64 { return 0 }})
	if err != nil {
		return err
	}
	defer bus.Close()
	messages, err := bus.DeadLetters()
	if err != nil {
		return err
	}
	for _, m := range messages {
		if e, err := events.Decode(m.Raw); err == nil {
			queued[[2]string{e.Source(), e.ID()}] = true
		}
	}
	return nil
}
