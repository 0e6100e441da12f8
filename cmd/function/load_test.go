package main

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
)

const (
	loadProcesses = 4
	loadWorkers   = 16 // deliveries at once
	loadCopies    = 5  // events of each business
	loadNotifies  = 4  // one business of so many notifies
	loadSamples   = 40
)

// deliveries is how many deliveries a load is made of.
func deliveries(t *testing.T) int {
	t.Helper()
	switch text := os.Getenv("ONCEGATE_LOAD"); {
	case text != "":
		n, err := strconv.Atoi(text)
		if err != nil || n < loadCopies {
			t.Fatalf("ONCEGATE_LOAD is no number of deliveries: %q", text)
		}
		return n - n%loadCopies
	case raceEnabled:
		return 250
	default:
		return 1000
	}
}

// load is one run of many deliveries, most of them duplicates.
type load struct {
	*world
	t     *testing.T
	total int

	mu       sync.Mutex
	done     int
	results  map[string]string // result by key
	kinds    map[handler.Decision]int
	again    map[string]int // deliveries that had to come again, by error
	measured []footprint
}

// order is one shuffle, the same each time. New businesses come until the end, or
// what leaks with the work would not show there.
func (l *load) order() []int {
	const spread = 0.1
	random := rand.New(rand.NewPCG(2026, 8))
	businesses := l.total / loadCopies
	at := make([]float64, l.total)
	all := make([]int, l.total)
	for i := range all {
		all[i], at[i] = i, float64(i%businesses)/float64(businesses)+spread*random.Float64()
	}
	slices.SortFunc(all, func(a, b int) int { return cmp.Compare(at[a], at[b]) })
	return all
}

func (l *load) of(i int) work {
	business := i % (l.total / loadCopies)
	flow := "plain"
	if business%loadNotifies == 0 {
		flow = "notice"
	}
	return work{flow, fmt.Sprintf("N-%d", business), fmt.Sprintf("Order %d is late.", business)}
}

func (l *load) deliver(i int) {
	k := l.of(i)
	r, ok := l.patient(k.event(fmt.Sprintf("evt-%d", i)), 20*time.Millisecond, func(errorType string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.again[errorType]++
	})
	if ok {
		l.acknowledged(k, r)
	}
}

func (l *load) acknowledged(k work, r handler.Result) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before, known := l.results[k.key()]
	if r.Status != idempotency.StatusSucceeded || r.ResultRef == "" || known && before != r.ResultRef {
		l.t.Errorf("%s is acknowledged as %+v, and with %q before", k.number, r, before)
	}
	l.results[k.key()] = r.ResultRef
	l.kinds[r.Decision]++
	l.done++
	if l.done%max(1, l.total/loadSamples) == 0 {
		l.measured = append(l.measured, l.footprint())
	}
}

func TestLoadOfDuplicatesHasOneResultEach(t *testing.T) {
	if os.Getenv("ONCEGATE_LOAD") == "" {
		t.Parallel()
	}
	w := newWorld(t, options{
		instances: loadProcesses, unwatched: true, env: map[string]string{"ONCEGATE_LOG_LEVEL": "warn"},
		flows: strings.ReplaceAll(effectFlows, "timeout: 1s", "timeout: 10s"),
	})
	l := &load{world: w, t: t, total: deliveries(t), results: map[string]string{}, kinds: map[handler.Decision]int{}, again: map[string]int{}}
	order := l.order()
	next := make(chan int)
	begin := time.Now()
	var workers sync.WaitGroup
	for range loadWorkers {
		workers.Go(func() {
			for i := range next {
				l.deliver(i)
			}
		})
	}
	for _, i := range order {
		next <- i
	}
	close(next)
	workers.Wait()
	took := time.Since(begin)

	businesses := l.total / loadCopies
	t.Logf("%d deliveries of %d businesses in %.1f s: %.0f a second", l.total, businesses, took.Seconds(), float64(l.total)/took.Seconds())
	t.Logf("acknowledged %v, to come again %v", l.kinds, l.again)
	l.checkResults(businesses)
	l.checkFootprints()
	if s := w.fn.Stats(); s.Starts != loadProcesses || s.Crashes != 0 || s.Timeouts != 0 {
		t.Errorf("%d processes, %d crashes, %d time-outs", s.Starts, s.Crashes, s.Timeouts)
	}
}

func (l *load) checkResults(businesses int) {
	l.t.Helper()
	if l.kinds[handler.DecisionExecuted] != businesses || l.kinds[handler.DecisionDuplicate] != l.total-businesses {
		l.t.Errorf("acknowledged as %v", l.kinds)
	}
	notify := (businesses + loadNotifies - 1) / loadNotifies
	if n := l.model.Calls(); n != businesses {
		l.t.Errorf("%d model calls, want %d", n, businesses)
	}
	keys := map[string]bool{}
	for _, n := range l.targets.Notifications() {
		keys[n.Key] = true
	}
	if n := len(l.targets.Notifications()); n != notify || len(keys) != notify {
		l.t.Errorf("%d notifications under %d keys, want %d", n, len(keys), notify)
	}
	stored := map[string]string{}
	for _, o := range l.objects.Objects(bucketName) {
		stored[o.Key+" "+o.VersionID] = digestOf(o.Body)
	}
	records := l.records()
	for _, r := range records {
		ref := r.ResultRef
		if r.Status != idempotency.StatusSucceeded || ref.Object != l.results[r.Key] || stored[ref.Object+" "+ref.VersionID] != ref.SHA256 {
			l.t.Errorf("the record of a business says %s %s, and the answer was %q", r.Status, ref, l.results[r.Key])
		}
		for _, e := range r.Effects {
			if e.State != idempotency.EffectSettled || !keys[e.Key] {
				l.t.Errorf("SUCCEEDED with the effect %+v", e)
			}
		}
	}
	if len(records) != businesses || len(l.results) != businesses || len(l.letters()) != 0 {
		l.t.Errorf("%d records and %d letters of %d businesses", len(records), len(l.letters()), businesses)
	}
}

// checkFootprints checks that the load's last quarter took no more than its
// third: what leaks grows.
func (l *load) checkFootprints() {
	l.t.Helper()
	n := len(l.measured)
	if n < 4 || l.measured[n-1].rss == 0 {
		l.t.Log("the footprint of processes cannot be measured here")
		return
	}
	var quarters []footprint
	for i := range 4 {
		quarters = append(quarters, most(l.measured[i*n/4:(i+1)*n/4]))
	}
	for i, q := range quarters {
		l.t.Logf("quarter %d: %s", i+1, q)
	}
	third, last := quarters[2], quarters[3]
	if last.files > third.files+4 || last.rss > third.rss*5/4+8<<20 {
		l.t.Errorf("the processes grow: %s, then %s", third, last)
	}
	for _, to := range slices.Sorted(maps.Keys(last.connections)) {
		if last.connections[to] > third.connections[to]+loadProcesses {
			l.t.Errorf("connections to %s: %d, then %d", to, third.connections[to], last.connections[to])
		}
	}
}
