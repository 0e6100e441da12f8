package deadletter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// manyEvents are n events of so many letters, by turns.
func manyEvents(n, letters int) func(func(Item) error) error {
	return func(fn func(Item) error) error {
		for i := range n {
			id := fmt.Sprintf("e%d", i%letters)
			if err := fn(Split([]byte(orderEvent(id, id, "5")))[0]); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestManyEventsAreTakenInAndToldInTheirOrder(t *testing.T) {
	w := newReplayWorld(t)
	next := 1
	err := w.desk.IngestAll(t.Context(), manyEvents(95, 95), IntakeOptions{}, func(n int, j Judgement) error {
		if n != next || j.Letter.EventID != fmt.Sprintf("e%d", n-1) {
			t.Fatalf("event %d came as %d: %s", next, n, j.Letter.EventID)
		}
		next++
		return nil
	})
	if err != nil || next != 96 || len(w.world.letters()) != 95 {
		t.Fatal(err, next, len(w.world.letters()))
	}
}

func TestSeveralEventsAreTakenInAtATime(t *testing.T) {
	w := newReplayWorld(t)
	var once sync.Once
	var waiting atomic.Int64
	together, alone := make(chan struct{}), make(chan struct{})
	w.oss.Faults.Hook(func(c cloudtest.Call, p cloudtest.Phase) {
		if c.Op != "PutObject" || p != cloudtest.Before {
			return
		}
		if waiting.Add(1) == 4 {
			close(together)
		}
		select {
		case <-together:
		case <-alone:
		case <-time.After(20 * time.Second): // nobody comes: the first waits for all
			once.Do(func() {
				close(alone)
				t.Error("four are never under way at once")
			})
		}
	})
	if err := w.desk.IngestAll(t.Context(), manyEvents(40, 40), IntakeOptions{}, func(int, Judgement) error { return nil }); err != nil {
		t.Fatal(err)
	}
}

func TestTheEventsOfOneLetterAreTakenOneAfterTheOther(t *testing.T) {
	w := newReplayWorld(t)
	var clock sync.Mutex
	ticks := 0
	w.desk.Now = func() time.Time {
		clock.Lock()
		defer clock.Unlock()
		ticks++
		return w.now.Add(time.Duration(ticks) * time.Millisecond)
	}
	busy := map[string]bool{}
	w.oss.Faults.Hook(func(c cloudtest.Call, p cloudtest.Phase) {
		if c.Op != "PutObject" {
			return
		}
		clock.Lock()
		defer clock.Unlock()
		if p == cloudtest.Before && busy[c.Target] {
			t.Errorf("%s is written twice at once", c.Target)
		}
		busy[c.Target] = p == cloudtest.Before
	})
	last := map[string]int64{}
	err := w.desk.IngestAll(t.Context(), manyEvents(200, 5), IntakeOptions{}, func(n int, j Judgement) error {
		if j.Letter.DeliveryAttempts != last[j.Letter.ID]+1 {
			t.Errorf("event %d is sighting %d of its letter, after %d", n, j.Letter.DeliveryAttempts, last[j.Letter.ID])
		}
		last[j.Letter.ID] = j.Letter.DeliveryAttempts
		return nil
	})
	if err != nil || len(last) != 5 {
		t.Fatal(err, last)
	}
	for id, n := range last {
		if n != 40 {
			t.Errorf("letter %s was seen %d times", id, n)
		}
	}
}

func TestAnIntakeThatFailsTellsWhereAndGoesOnThere(t *testing.T) {
	w := newReplayWorld(t)
	const failing = 10 // from 0
	l := w.desk.read(Split([]byte(orderEvent("e10", "e10", "5")))[0], "").letter
	w.ots.Faults.Add(cloudtest.Fault{Op: "PutRow", Target: "dead_letters/" + l.ID, Kind: cloudtest.Status, Code: "OTSAuthFailed"})
	told := map[int]bool{}
	before := 0
	err := w.desk.IngestAll(t.Context(), manyEvents(95, 95), IntakeOptions{}, func(n int, j Judgement) error {
		if told[n] = true; n <= failing {
			before++
		}
		return nil
	})
	var stopped *StoppedError
	if !errors.As(err, &stopped) || stopped.Item != failing+1 || before != failing || told[failing+1] {
		t.Fatalf("got %v, %d told before it", err, before)
	}
	if got := len(w.world.letters()); got != len(told) || got > failing+intakeWindow+2 {
		t.Errorf("%d letters are there, %d were told", got, len(told))
	}
	err = w.desk.IngestAll(t.Context(), manyEvents(95, 95), IntakeOptions{Skip: stopped.Item - 1}, func(int, Judgement) error { return nil })
	if err != nil || len(w.world.letters()) != 95 {
		t.Errorf("%v, %d letters in the end", err, len(w.world.letters()))
	}
}

// throttled is an intake whose letter e10 the table is too busy for so many times.
func throttled(t *testing.T, w *replayWorld, times int, o IntakeOptions) (waits []time.Duration, err error) {
	t.Helper()
	l := w.desk.read(Split([]byte(orderEvent("e10", "e10", "5")))[0], "").letter
	w.ots.Faults.Add(cloudtest.Fault{Op: "PutRow", Target: "dead_letters/" + l.ID, Kind: cloudtest.Status, Status: 503, Code: "OTSNotEnoughCapacityUnit", Times: times})
	if o.Sleep == nil {
		o.Sleep = func(context.Context, time.Duration) error { return nil }
	}
	var told sync.Mutex
	o.Throttled = func(item int, wait time.Duration) {
		told.Lock()
		defer told.Unlock()
		if item != 11 {
			t.Errorf("event %d waits", item)
		}
		waits = append(waits, wait)
	}
	err = w.desk.IngestAll(t.Context(), manyEvents(30, 30), o, func(int, Judgement) error { return nil })
	return waits, err
}

func TestAnIntakeWaitsForATableThatIsBusy(t *testing.T) {
	w := newReplayWorld(t)
	waits, err := throttled(t, w, 3, IntakeOptions{Jitter: func() float64 { return 0.5 }})
	want := []time.Duration{150 * time.Millisecond, 375 * time.Millisecond, 750 * time.Millisecond}
	if err != nil || !slices.Equal(waits, want) || len(w.world.letters()) != 30 {
		t.Errorf("%v, waited %v, %d letters", err, waits, len(w.world.letters()))
	}
	for _, l := range w.world.letters() {
		if l.DeliveryAttempts != 1 {
			t.Errorf("event %s was seen %d times", l.EventID, l.DeliveryAttempts)
		}
	}
}

func TestAnIntakeDoesNotWaitForEver(t *testing.T) {
	w := newReplayWorld(t)
	waits, err := throttled(t, w, 1000, IntakeOptions{})
	var stopped *StoppedError
	if !errors.As(err, &stopped) || stopped.Item != 11 || !slices.Equal(waits, throttleWaits) {
		t.Errorf("%v, waited %v", err, waits)
	}
	interrupted := IntakeOptions{Sleep: func(context.Context, time.Duration) error { return context.Canceled }}
	if waits, err := throttled(t, newReplayWorld(t), 1000, interrupted); !errors.As(err, &stopped) || len(waits) != 1 {
		t.Errorf("%v, waited %v", err, waits)
	}
}

func TestOnlyARefusalForLoadIsWaitedFor(t *testing.T) {
	o := IntakeOptions{Sleep: func(context.Context, time.Duration) error { return nil }}
	busy := &aliyun.Error{Kind: aliyun.KindThrottled}
	for _, tt := range []struct {
		name string
		o    IntakeOptions
		err  error
		wait time.Duration
	}{
		{"throttled", o, fmt.Errorf("ingest: %w", busy), 200 * time.Millisecond},
		{"told how long", o, &aliyun.Error{Kind: aliyun.KindThrottled, RetryAfter: 7 * time.Second}, 7 * time.Second},
		{"told an hour", o, &aliyun.Error{Kind: aliyun.KindThrottled, RetryAfter: time.Hour}, time.Minute},
		{"nothing went wrong", o, nil, 0},
		{"no right", o, &aliyun.Error{Kind: aliyun.KindDenied}, 0},
		{"a lost answer", o, &aliyun.Error{Kind: aliyun.KindUnknown}, 0},
		{"nobody to wait", IntakeOptions{}, busy, 0},
	} {
		if wait, again := tt.o.wait(tt.err, 0); wait != tt.wait || again != (tt.wait > 0) {
			t.Errorf("%s: waits %v, again %v", tt.name, wait, again)
		}
	}
}

func TestAnInterruptedIntakeGoesOn(t *testing.T) {
	w := newReplayWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	err := w.desk.IngestAll(ctx, manyEvents(95, 95), IntakeOptions{}, func(n int, _ Judgement) error {
		if n == 20 {
			cancel()
		}
		return nil
	})
	var stopped *StoppedError
	if !errors.As(err, &stopped) || !errors.Is(err, context.Canceled) || stopped.Item <= 20 || stopped.Item > 95 {
		t.Fatalf("got %v", err)
	}
	if err := w.desk.IngestAll(t.Context(), manyEvents(95, 95), IntakeOptions{Skip: stopped.Item - 1}, func(int, Judgement) error { return nil }); err != nil {
		t.Fatal(err)
	}
	if len(w.world.letters()) != 95 {
		t.Errorf("%d letters", len(w.world.letters()))
	}
}

func TestAnIntakeEndsWithItsPrinterOrItsFile(t *testing.T) {
	w := newReplayWorld(t)
	mine := errors.New("the pipe is closed")
	if err := w.desk.IngestAll(t.Context(), manyEvents(95, 95), IntakeOptions{}, func(int, Judgement) error { return mine }); !errors.Is(err, mine) {
		t.Errorf("got %v", err)
	}
	told := 0
	err := w.desk.IngestAll(t.Context(), func(fn func(Item) error) error {
		return errors.Join(manyEvents(30, 30)(fn), mine)
	}, IntakeOptions{Preview: true}, func(int, Judgement) error { told++; return nil })
	if !errors.Is(err, mine) || told != 30 {
		t.Errorf("a file that breaks off: %v, %d told", err, told)
	}
}

// TestS42 for many: the intake dies at any of its calls to tables or bucket and begins again where it
// says, with a letter that comes twice among the events.
func TestS42AnIntakeOfManyThatDiesAtAnyCallLosesNothing(t *testing.T) {
	const events, letters = 12, 8
	for _, after := range []bool{false, true} {
		for n := 0; ; n++ {
			w := newReplayWorld(t)
			m := &mortal{left: n, after: after}
			told := map[string]bool{}
			err := w.mortalDesk(m).IngestAll(t.Context(), manyEvents(events, letters), IntakeOptions{}, func(_ int, j Judgement) error {
				told[j.Letter.ID] = true
				return nil
			})
			var stopped *StoppedError
			if m.dead != errors.As(err, &stopped) {
				t.Fatalf("call %d after=%v: died %v, got %v", n, after, m.dead, err)
			}
			stored := map[string]bool{}
			for _, l := range w.world.letters() {
				stored[l.ID] = true
				if _, err := w.desk.RawEvent(t.Context(), l); err != nil {
					t.Fatalf("call %d after=%v: letter %s is there before its bytes: %v", n, after, l.ID, err)
				}
			}
			for id := range told {
				if !stored[id] {
					t.Fatalf("call %d after=%v: letter %s was told and is not there", n, after, id)
				}
			}
			if m.dead {
				w.now = w.now.Add(time.Second)
				if err := w.desk.IngestAll(t.Context(), manyEvents(events, letters), IntakeOptions{Skip: stopped.Item - 1}, func(int, Judgement) error { return nil }); err != nil {
					t.Fatal(err)
				}
			}
			all := w.world.letters()
			if len(all) != letters {
				t.Fatalf("call %d after=%v: %d letters", n, after, len(all))
			}
			for _, l := range all {
				if raw, err := w.desk.RawEvent(t.Context(), l); err != nil || !l.Open() || !strings.Contains(string(raw), l.EventID) {
					t.Fatalf("call %d after=%v: event %s is lost: %v", n, after, l.EventID, err)
				}
			}
			if !m.dead {
				break
			}
		}
	}
}
