package ebtest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncegate/oncegate/events/ebtest"
)

func TestACallersContextBoundsOnlyItsOwnWaiting(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var value any
		b := newBus(t, ebtest.Options{Rules: []ebtest.Rule{{
			Name: "r", Target: func(ctx context.Context, _ ebtest.Delivery) ebtest.Result {
				value = ctx.Value(key{})
				<-release
				return ebtest.Result{OK: ctx.Err() == nil}
			},
		}}})
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "v"))
		tr, err := b.Publish(ctx, event("1"))
		if err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := tr.First(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("first: %v", err)
		}
		if _, err := tr.Wait(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("wait: %v", err)
		}
		if err := b.Drain(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("drain: %v", err)
		}
		if _, err := b.Publish(ctx, event("2")); !errors.Is(err, context.Canceled) {
			t.Errorf("publish: %v", err)
		}
		close(release)
		if out := wait(t, tr); out[0].Outcome != ebtest.Acknowledged || value != "v" {
			t.Errorf("outcome %+v, value %v", out, value)
		}
	})
}

func TestCloseReportsWhatItLeftPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus(t, ebtest.Options{Concurrency: 1, Rules: []ebtest.Rule{
			{Name: "waits", Target: (&target{fail: 9}).invoke, DeadLetter: true},
			{Name: "busy", Target: func(ctx context.Context, _ ebtest.Delivery) ebtest.Result {
				<-ctx.Done()
				return ebtest.Result{}
			}, DeadLetter: true},
		}})
		waits := b.Deliver(t.Context(), []byte("one"), "waits")
		synctest.Wait()
		busy := b.Deliver(t.Context(), []byte("two"), "busy")
		synctest.Wait()
		queued := b.Deliver(t.Context(), []byte("three"), "busy")
		synctest.Wait()
		if p := b.Pending(); len(p) != 3 {
			t.Errorf("in flight %+v", p)
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		for _, tc := range []struct {
			tr         *ebtest.Tracking
			rule       string
			deliveries int
		}{{waits, "waits", 1}, {busy, "busy", 1}, {queued, "busy", 0}} {
			out := wait(t, tc.tr)
			if out[0].Outcome != ebtest.Unfinished || out[0].Deliveries != tc.deliveries || out[0].Rule != tc.rule || out[0].Reason == "" {
				t.Errorf("outcome %+v", out[0])
			}
		}
		if _, err := queued.First(t.Context()); !errors.Is(err, ebtest.ErrNoDelivery) {
			t.Errorf("first of an undelivered event: %v", err)
		}
		var left []string
		for _, p := range b.Pending() {
			left = append(left, string(p.Raw))
		}
		if !slices.Equal(left, []string{"one", "two", "three"}) || b.Counts()["pending"] != 3 {
			t.Errorf("left %v, counts %v", left, b.Counts())
		}
		if _, err := b.Publish(t.Context(), event("4")); !errors.Is(err, ebtest.ErrClosed) {
			t.Errorf("publish after close: %v", err)
		}
		late := b.Deliver(t.Context(), []byte("five"), "busy")
		if out := wait(t, late); out[0].Outcome != ebtest.Unfinished {
			t.Errorf("deliver after close: %+v", out)
		}
		if err := errors.Join(b.Close(), b.Drain(t.Context())); err != nil {
			t.Errorf("second close: %v", err)
		}
	})
}

func TestATargetThatEndsAsTheBusClosesIsStillAcknowledged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus(t, ebtest.Options{Rules: []ebtest.Rule{{
			Name: "r", Target: func(ctx context.Context, _ ebtest.Delivery) ebtest.Result {
				<-ctx.Done()
				return ebtest.Result{OK: true}
			},
		}}})
		tr := publish(t, b, event("1"))
		synctest.Wait()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if out := wait(t, tr); out[0].Outcome != ebtest.Acknowledged || len(b.Pending()) != 0 {
			t.Errorf("outcome %+v", out)
		}
	})
}

func TestManyPublishersAndOneCloseLoseNothingSilently(t *testing.T) {
	b := newBus(t, ebtest.Options{
		Concurrency: 4, TimeScale: 1e9,
		Rules: []ebtest.Rule{{Name: "r", Target: (&target{fail: 4}).invoke, DeadLetter: true}},
	})
	var (
		wg       sync.WaitGroup
		mu       sync.Mutex
		tracked  []*ebtest.Tracking
		refused  atomic.Int32
		attempts atomic.Int32
	)
	for range 8 {
		wg.Go(func() {
			for range 50 {
				attempts.Add(1)
				tr, err := b.Publish(context.Background(), event("x"))
				if err != nil {
					refused.Add(1)
					continue
				}
				mu.Lock()
				tracked = append(tracked, tr)
				mu.Unlock()
				b.Counts()
				b.Pending()
			}
		})
	}
	wg.Go(func() {
		for attempts.Load() < 200 {
			_, _ = b.DeadLetters()
		}
		_ = b.Close()
	})
	wg.Wait()
	ends := map[string]int{}
	for _, tr := range tracked {
		ends[wait(t, tr)[0].Outcome]++
	}
	if int(refused.Load())+len(tracked) != 400 || ends[ebtest.DeadLettered]+ends[ebtest.Unfinished] != len(tracked) {
		t.Errorf("refused %d, ends %v of %d", refused.Load(), ends, len(tracked))
	}
	if len(b.Pending()) != ends[ebtest.Unfinished] {
		t.Errorf("%d pending, ends %v", len(b.Pending()), ends)
	}
}

func TestALastDeliveryThatCloseCancelledIsPendingNotDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus(t, ebtest.Options{Sleep: (&naps{}).sleep, Rules: []ebtest.Rule{{
			Name: "r", DeadLetter: true, Target: func(ctx context.Context, d ebtest.Delivery) ebtest.Result {
				if d.Number == 4 {
					<-ctx.Done()
					time.Sleep(time.Second)
				}
				return ebtest.Result{}
			},
		}}})
		tr := publish(t, b, event("1"))
		synctest.Wait()
		start := time.Now()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took != time.Second {
			t.Errorf("close took %v and did not wait for the target", took)
		}
		if out := wait(t, tr); out[0].Outcome != ebtest.Unfinished || out[0].Deliveries != 4 {
			t.Errorf("outcome %+v", out[0])
		}
	})
}
