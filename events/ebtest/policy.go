package ebtest

import (
	"fmt"
	"time"
)

// Policy is the retry policy of a rule, spelled as PushRetryStrategy is.
type Policy string

const (
	// BackoffRetry retries 3 times, each after a random 10 to 20 s. It is the
	// service's default and what an empty Policy means.
	BackoffRetry Policy = "BACKOFF_RETRY"
	// ExponentialDecayRetry retries 176 times: after 1, 2, 4 ... 256 s, then
	// every 512 s, which is 86015 s in all.
	ExponentialDecayRetry Policy = "EXPONENTIAL_DECAY_RETRY"
)

const (
	backoffRetries = 3
	backoffFloor   = 10 * time.Second
	backoffSpread  = 10 * time.Second

	decayRetries  = 176
	decayDoubling = 9 // retries before the wait stays at decayCeiling
	decayCeiling  = 512 * time.Second
)

func (p Policy) check() error {
	switch p {
	case "", BackoffRetry, ExponentialDecayRetry:
		return nil
	}
	return fmt.Errorf("unknown retry policy %q", string(p))
}

// Wait returns the time between the failed delivery number retry and the next
// one; more is false where the policy has no such retry. rnd yields numbers in
// [0,1) and is asked only where the policy is random.
func (p Policy) Wait(retry int, rnd func() float64) (wait time.Duration, more bool) {
	if retry < 1 {
		return 0, false
	}
	if p == ExponentialDecayRetry {
		switch {
		case retry > decayRetries:
			return 0, false
		case retry > decayDoubling:
			return decayCeiling, true
		}
		return time.Second << (retry - 1), true
	}
	if retry > backoffRetries {
		return 0, false
	}
	return backoffFloor + time.Duration(rnd()*float64(backoffSpread)), true
}

// Waits returns all waits of one event that never succeeds.
func (p Policy) Waits(rnd func() float64) []time.Duration {
	var waits []time.Duration
	for retry := 1; ; retry++ {
		wait, more := p.Wait(retry, rnd)
		if !more {
			return waits
		}
		waits = append(waits, wait)
	}
}
