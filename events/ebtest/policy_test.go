package ebtest_test

import (
	"testing"
	"time"

	"github.com/oncegate/oncegate/events/ebtest"
)

func TestExponentialDecayWaitsAreTheServicesTable(t *testing.T) {
	waits := ebtest.ExponentialDecayRetry.Waits(nil)
	if len(waits) != 176 {
		t.Fatalf("%d waits, want 176", len(waits))
	}
	var sum time.Duration
	for i, d := range waits {
		want := 512 * time.Second
		if i < 9 {
			want = time.Second << i
		}
		if d != want {
			t.Errorf("retry %d waits %v, want %v", i+1, d, want)
		}
		sum += d
	}
	if sum != 86015*time.Second {
		t.Errorf("sum is %v, want 86015 s", sum)
	}
}

func TestBackoffWaitsAreTenToTwentySeconds(t *testing.T) {
	for _, policy := range []ebtest.Policy{ebtest.BackoffRetry, ""} {
		for rnd, want := range map[float64]time.Duration{
			0: 10 * time.Second, 0.25: 12500 * time.Millisecond, 0.5: 15 * time.Second,
		} {
			waits := policy.Waits(func() float64 { return rnd })
			if len(waits) != 3 || waits[0] != want || waits[1] != want || waits[2] != want {
				t.Errorf("%q with %v: %v, want 3 times %v", policy, rnd, waits, want)
			}
		}
		if last := policy.Waits(func() float64 { return 0.999999 })[0]; last < 19*time.Second || last >= 20*time.Second {
			t.Errorf("%q: longest wait %v", policy, last)
		}
	}
}

func TestAPolicyHasNoRetryOutsideItsTable(t *testing.T) {
	for policy, last := range map[ebtest.Policy]int{ebtest.BackoffRetry: 3, ebtest.ExponentialDecayRetry: 176} {
		for retry, want := range map[int]bool{-1: false, 0: false, 1: true, last: true, last + 1: false} {
			if _, more := policy.Wait(retry, half); more != want {
				t.Errorf("%s: retry %d is %v, want %v", policy, retry, more, want)
			}
		}
	}
}
