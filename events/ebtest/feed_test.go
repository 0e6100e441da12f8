package ebtest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncegate/oncegate/events/ebtest"
)

// fed is a bus whose rule fails everything and whose stream reads the letters.
func fed(dir string, s ebtest.Stream) ebtest.Options {
	o := failing(dir)
	s.Name, s.FromDeadLetters = "intake", true
	o.Streams = []ebtest.Stream{s}
	return o
}

func TestALetterIsDeletedOnlyAfterItsBatchSucceeded(t *testing.T) {
	var (
		b      *ebtest.Bus
		inside [][]string // what the queue held during each delivery
		given  []string
	)
	b = newBus(t, fed("", ebtest.Stream{Target: func(_ context.Context, d ebtest.Delivery) ebtest.Result {
		held, _ := bodies(t, b)
		inside, given = append(inside, held), append(given, string(d.EventRaw))
		return ebtest.Result{OK: d.Number == 3}
	}}))
	b.Deliver(context.Background(), []byte(`{"n":1}`), "r")
	drain(t, b)
	if want := slices.Repeat([]string{`[{"n":1}]`}, 3); !slices.Equal(given, want) {
		t.Errorf("deliveries %q, want %q", given, want)
	}
	for i, held := range inside {
		if !slices.Equal(held, []string{`{"n":1}`}) {
			t.Errorf("during delivery %d the queue held %q", i+1, held)
		}
	}
	if left, _ := bodies(t, b); left != nil {
		t.Errorf("after the success the queue holds %q", left)
	}
	if c := b.Counts(); c["fed_letters"] != 1 || c[ebtest.Acknowledged] != 1 || c[ebtest.DeadLettered] != 1 {
		t.Errorf("counts %v", c)
	}
}

func TestLettersOfAFailedBatchStayUntilResumeOffersThemAgain(t *testing.T) {
	p := &poison{word: "bad"}
	b := newBus(t, fed("", ebtest.Stream{Target: p.invoke}))
	for _, raw := range []string{`{"n":"bad"}`, `{"n":2}`, `no object`} {
		wait(t, b.Deliver(context.Background(), []byte(raw), "r"))
		drain(t, b)
	}
	if left, _ := bodies(t, b); !slices.Equal(left, []string{`{"n":"bad"}`, `no object`}) {
		t.Fatalf("the queue holds %q", left)
	}
	if c := b.Counts(); c[ebtest.Kept] != 1 || c[ebtest.Dropped] != 0 || c["unfit_letters"] != 1 || c[ebtest.DeadLettered] != 3 {
		t.Errorf("counts %v", c)
	}
	if n := len(p.seen()); n != 5 {
		t.Errorf("%d deliveries, want 5: what was left is not offered again by itself", n)
	}
	p.cure()
	if err := b.Resume("intake", ""); err != nil {
		t.Fatal(err)
	}
	drain(t, b)
	if left, _ := bodies(t, b); !slices.Equal(left, []string{`no object`}) {
		t.Errorf("the queue holds %q", left)
	}
	if n := len(p.seen()); n != 6 {
		t.Errorf("%d deliveries, want 6", n)
	}
}

func TestABlockedIntakeKeepsItsLettersAndTakesEachOnce(t *testing.T) {
	p := &poison{word: "bad"}
	b := newBus(t, fed("", ebtest.Stream{Target: p.invoke, ErrorsTolerance: ebtest.TolerateNone}))
	wait(t, b.Deliver(context.Background(), []byte(`{"n":"bad"}`), "r"))
	if err := b.Drain(context.Background()); !errors.Is(err, ebtest.ErrBlocked) {
		t.Fatalf("drain: %v", err)
	}
	wait(t, b.Deliver(context.Background(), []byte(`{"n":2}`), "r"))
	if left, _ := bodies(t, b); len(left) != 2 {
		t.Errorf("the queue holds %q", left)
	}
	p.cure()
	if err := b.Resume("intake", ""); err != nil {
		t.Fatal(err)
	}
	drain(t, b)
	want := append(slices.Repeat([]string{`[{"n":"bad"}]`}, 5), `[{"n":2}]`)
	if got := p.seen(); !slices.Equal(got, want) {
		t.Errorf("deliveries %q, want %q", got, want)
	}
	if left, _ := bodies(t, b); left != nil {
		t.Errorf("the queue holds %q", left)
	}
}

func TestTheNextBusDeliversWhatTheQueueHolds(t *testing.T) {
	dir := t.TempDir()
	b := newBus(t, failing(dir))
	for _, raw := range []string{`{"n":1}`, `{"n":2}`} {
		wait(t, b.Deliver(context.Background(), []byte(raw), "r"))
	}
	_ = b.Close()

	tg := &target{}
	b = newBus(t, fed(dir, ebtest.Stream{Target: tg.invoke, BatchCount: 9}))
	drain(t, b)
	if got := payloads(tg); !slices.Equal(got, []string{`[{"n":1},{"n":2}]`}) {
		t.Errorf("deliveries %q", got)
	}
	_ = b.Close()
	b = newBus(t, failing(dir))
	if left, _ := bodies(t, b); left != nil {
		t.Errorf("the file holds %q", left)
	}
}

func TestALetterDeletedByHandDuringItsDeliveryIsNoFault(t *testing.T) {
	var b *ebtest.Bus
	b = newBus(t, fed("", ebtest.Stream{Target: func(context.Context, ebtest.Delivery) ebtest.Result {
		_, ids := bodies(t, b)
		return ebtest.Result{OK: b.DeleteDeadLetter(ids[0]) == nil}
	}}))
	wait(t, b.Deliver(context.Background(), []byte(`{}`), "r"))
	drain(t, b)
	if c := b.Counts(); c[ebtest.Acknowledged] != 1 {
		t.Errorf("counts %v", c)
	}
}

func TestCloseLeavesALetterUnderWayInTheQueue(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		o := fed(dir, ebtest.Stream{Target: (&target{fail: 9}).invoke, BatchCount: 9, BatchWait: 15 * time.Second})
		o.Sleep = nil
		b := newBus(t, o)
		wait(t, b.Deliver(t.Context(), []byte(`{}`), "r"))
		time.Sleep(16 * time.Second)
		_ = b.Close()
		if p := b.Pending(); len(p) != 1 || p[0].Rule != "intake" || p[0].Deliveries != 1 {
			t.Errorf("pending %+v", p)
		}
	})
	if left, _ := bodies(t, newBus(t, failing(dir))); !slices.Equal(left, []string{`{}`}) {
		t.Errorf("the queue holds %q", left)
	}
}

func TestManyPushersAndOneCloseLoseNothingSilently(t *testing.T) {
	dir := t.TempDir()
	o := fed(dir, ebtest.Stream{Target: (&target{fail: 2}).invoke, BatchCount: 7, BatchWait: 15 * time.Second})
	o.TimeScale, o.Sleep = 1e9, nil
	o.Streams = append(o.Streams, ebtest.Stream{Name: "s", Target: (&target{fail: 9}).invoke, BatchCount: 5, DeadLetter: true})
	b := newBus(t, o)
	var (
		pushers sync.WaitGroup
		mu      sync.Mutex
		tracked []*ebtest.Tracking
	)
	for range 8 {
		pushers.Go(func() {
			for range 50 {
				if tr, err := b.Push(context.Background(), "s", []byte(`{}`)); err == nil {
					mu.Lock()
					tracked = append(tracked, tr)
					mu.Unlock()
				}
				b.States()
				_ = b.Resume("intake", "")
			}
		})
	}
	pushers.Go(func() {
		for b.Counts()["published"] < 200 {
			b.Pending()
		}
		_ = b.Close()
	})
	pushers.Wait()
	ends := map[string]int{}
	for _, tr := range tracked {
		ends[wait(t, tr)[0].Outcome]++
	}
	if ends[ebtest.DeadLettered]+ends[ebtest.Unfinished] != len(tracked) {
		t.Errorf("ends %v of %d", ends, len(tracked))
	}
	taken := b.Counts()[ebtest.Acknowledged] // only the intake acknowledges
	if left, _ := bodies(t, newBus(t, failing(dir))); len(left)+taken != ends[ebtest.DeadLettered] {
		t.Errorf("%d letters left and %d taken of %d", len(left), taken, ends[ebtest.DeadLettered])
	}
}
