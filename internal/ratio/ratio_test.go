package ratio

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestTheRatioIsOneOfMediansWhateverDisturbsATurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns Turns
		for i := range 11 {
			disturbed := time.Duration(0)
			if i%4 == 0 {
				disturbed = time.Minute
			}
			turns.Take(func() { time.Sleep(3*time.Second + disturbed) }, func() { time.Sleep(2 * time.Second) })
		}
		if got := turns.Ratio(); got != 1.5 {
			t.Errorf("the ratio is %v, want 1.5", got)
		}
	})
}

func TestTheSidesChangePlaces(t *testing.T) {
	var order string
	var turns Turns
	for range 2 {
		turns.Take(func() { order += "s" }, func() { order += "b" })
	}
	if order != "sbbs" {
		t.Errorf("they ran as %s", order)
	}
}

func TestNothingMeasuredIsNoRatio(t *testing.T) {
	if got := new(Turns).Ratio(); got != 0 {
		t.Errorf("got %v", got)
	}
}

func TestAQuantileIsOneOfTheTimes(t *testing.T) {
	times := []time.Duration{4, 1, 3, 2}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 3, 0.99: 4, 1: 4} {
		if got := Quantile(times, q); got != want {
			t.Errorf("quantile %v is %d, want %d", q, got, want)
		}
	}
}
