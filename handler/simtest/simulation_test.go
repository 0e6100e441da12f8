package simtest

import (
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncegate/oncegate/idempotency"
)

// outcome is what one schedule came to.
type outcome struct {
	seed   uint64
	steps  int
	faults map[string]int
	found  []violation
	hash   uint64
	trace  []string
}

// simulate runs the schedule of one seed.
func simulate(t *testing.T, r releases, seed uint64) (o outcome) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(start))
		w, err := newWorld(seed, r)
		if err != nil {
			t.Fatal(err)
		}
		defer w.close()
		w.drawEvents()
		for w.step() && w.steps < maxSteps {
		}
		w.bringToRest()
		if len(w.check.found) == 0 {
			w.check.quiet()
		}
		w.stop()
		o = outcome{seed, w.steps, w.faults, w.check.found, w.hash(), w.trace}
	})
	return o
}

const (
	maxSteps  = 4000
	maxRounds = 40
)

// bringToRest ends the faults, lets people answer everything, and delivers what
// is not acknowledged until nothing is left to do.
func (w *world) bringToRest() {
	w.calm = true
	w.outages = map[service]time.Time{}
	for _, k := range slices.Clone(w.workers) {
		if k.running == nil {
			w.workers = slices.DeleteFunc(w.workers, func(o *worker) bool { return o == k })
		}
	}
	for round := range maxRounds {
		w.note("round %d", round)
		for limit := w.steps + maxSteps; w.step() && w.steps < limit; {
		}
		if !w.stir() {
			return
		}
	}
	w.check.broken("I8", "after %d rounds there is still something to do", maxRounds)
}

// stir starts what people and the dead-letter queue still have to do.
func (w *world) stir() bool {
	busy := false
	for _, id := range w.openReviews() {
		w.answer(id)
		busy = true
	}
	for _, c := range w.chains {
		if c.queued {
			c.queued, c.max, c.due = false, 0, time.Now()
			busy = true
		}
	}
	if busy {
		return true
	}
	for _, e := range w.events {
		r, ok := w.check.record(e.key)
		if ok && r.Status == idempotency.StatusFailedFinal && w.check.hasLetter(e) && !w.revived[e.letterID] {
			w.revived[e.letterID] = true
			w.replay(e)
			return true
		}
		if ok && r.InputDigest == e.digest && replayed[r.Status] && (w.check.hasLetter(e) || w.check.discarded(e)) {
			// This is its letter's replay.
			w.chains = append(w.chains, &chain{name: e.name + " replayed", events: []*event{e}, due: time.Now().Add(time.Hour)})
			busy = true
		}
	}
	for _, r := range w.resolves {
		if !answersLast && !r.again && w.check.unresolved(r.id) {
			w.note("the answer to %s is given again", r.id[:8])
			w.faults["same answer needed again"]++
			r.done, r.again, r.due = false, true, time.Now()
			busy = true
		}
	}
	return busy
}

// replayed are the states that an open letter's replay leads on from.
var replayed = map[idempotency.Status]bool{
	idempotency.StatusReceived: true, idempotency.StatusRunning: true, idempotency.StatusFailedRetryable: true,
}

// stop lets every goroutine of the schedule end.
func (w *world) stop() {
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
	close(w.end)
	w.all.Wait()
}

func number(name string, otherwise int) int {
	n, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		return otherwise
	}
	return n
}

// TestSimulation runs schedules ONCEGATE_SEED, +1, ... (default 1), of which
// there are ONCEGATE_SCHEDULES.
func TestSimulation(t *testing.T) {
	count := schedules
	if testing.Short() {
		count /= 10
	}
	first := uint64(1)
	if os.Getenv("ONCEGATE_SEED") != "" {
		first, count = uint64(number("ONCEGATE_SEED", 1)), 1
	}
	count = number("ONCEGATE_SCHEDULES", count)
	r := loadFlows(t)
	began := time.Now()
	var mu sync.Mutex
	var ran, steps, failed int
	faults := map[string]int{}
	t.Run("schedules", func(t *testing.T) {
		lanes := min(runtime.GOMAXPROCS(0), count)
		for lane := range lanes {
			t.Run(fmt.Sprint("lane ", lane), func(t *testing.T) {
				t.Parallel()
				for n := lane; n < count; n += lanes {
					mu.Lock()
					stop := failed >= maxFailed || (failed > 0 && os.Getenv(inMutant) != "")
					mu.Unlock()
					if stop {
						return
					}
					o := simulate(t, r, first+uint64(n))
					mu.Lock()
					ran++
					steps += o.steps
					for name, n := range o.faults {
						faults[name] += n
					}
					if len(o.found) > 0 {
						failed++
						t.Error(o.report())
					} else if count == 1 {
						t.Log(strings.Join(o.trace, "\n"))
					}
					mu.Unlock()
				}
			})
		}
	})
	took := time.Since(began)
	t.Logf("%d schedules, %d steps, %d with violations, %.0f schedules/s", ran, steps, failed, float64(ran)/took.Seconds())
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		t.Logf("%8d %s", faults[name], name)
	}
}

// maxFailed is how many failing schedules are shown.
const maxFailed = 3

func (o outcome) report() string {
	text := fmt.Sprintf("seed %d breaks what must hold:\n", o.seed)
	for _, v := range o.found[:min(len(o.found), 5)] {
		text += "  " + v.String() + "\n"
	}
	text += fmt.Sprintf("replay it with\n  ONCEGATE_SEED=%d go test ./handler/simtest -run '^TestSimulation$' -count=1 -v\n", o.seed)
	return text + strings.Join(o.trace[max(0, len(o.trace)-tail):], "\n")
}

// tail is how much of a failing schedule's trace is shown.
var tail = number("ONCEGATE_TRACE", 60)

func TestASeedRepeats(t *testing.T) {
	r := loadFlows(t)
	for seed := range uint64(20) {
		first := simulate(t, r, seed)
		if again := simulate(t, r, seed); again.hash != first.hash {
			for i, line := range first.trace {
				if i >= len(again.trace) || again.trace[i] != line {
					t.Fatalf("seed %d: step %q did not repeat: %q", seed, line, again.trace[min(i, len(again.trace)-1)])
				}
			}
			t.Fatalf("seed %d did not repeat", seed)
		}
	}
}
