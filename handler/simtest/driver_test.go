package simtest

import (
	"fmt"
	"math/rand/v2"
	"testing/synctest"
	"time"

	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// style is how rough one schedule is.
type style struct {
	faults       int // percent of calls that meet one
	crashes      int // percent of those that take the worker with them
	workers      int
	skewed       int // percent of workers with a clock that is off
	skew         time.Duration
	lateConflict bool // the record system takes a number twice while it hides the first
	stale        bool // writes of runs that died arrive when others hold the key
	rough        int  // steps until the faults are over
}

func drawStyle(r *rand.Rand) style {
	s := style{
		faults: []int{3, 10, 20, 35}[r.IntN(4)], crashes: []int{0, 10, 25}[r.IntN(3)], workers: 2 + r.IntN(3),
		skewed: []int{0, 50}[r.IntN(2)], skew: maxSkew, lateConflict: r.IntN(2) == 0, stale: r.IntN(4) == 0, rough: 60 + r.IntN(200),
	}
	s.lateConflict = s.lateConflict && (skewTolerant || s.skewed == 0)
	return s
}

// drawEvents makes what producers send: a few businesses, each several times.
func (w *world) drawEvents() {
	kinds := []string{"text", "order", "notice", "alarm", "case", "alarm", "case"}
	scripts := []string{
		"", "", "", "", "[[model status=429 retry_after=40 times=2]]", "[[model status=400]]", "[[model garbage times=1]]", "[[model cut]]",
		"[[target status=503 times=2]]", "[[target cut_after]]", "[[target status=422 times=-1]]", "[[target status=429 retry_after=30]]",
	}
	add := func(e *event) *event {
		w.events = append(w.events, e)
		return e
	}
	var all []*chain
	deliver := func(e *event) {
		all = append(all, &chain{name: e.name, events: []*event{e}, due: time.Now().Add(w.soon()), max: 3 + w.rnd.IntN(12)})
	}
	for n := range 1 + w.rnd.IntN(4) {
		no := fmt.Sprintf("n-%d", n)
		kind, script := kinds[w.rnd.IntN(len(kinds))], scripts[w.rnd.IntN(len(scripts))]
		first := add(eventOf(w.releases.on, rawEvent(fmt.Sprintf("e%d", n), kind, no, script, 5)))
		deliver(first)
		if w.chance(60) {
			w.faults["duplicate delivery"]++
			deliver(first)
		}
		if w.chance(40) {
			w.faults["same business in another event"]++
			deliver(add(eventOf(w.releases.on, rawEvent(fmt.Sprintf("e%d-again", n), kind, no, script, 5))))
		}
		if w.chance(35) {
			w.faults["changed input"]++
			changed := add(eventOf(w.releases.on, rawEvent(fmt.Sprintf("e%d-changed", n), kind, no, script, 6)))
			deliver(changed)
			if w.chance(30) {
				deliver(changed)
			}
		}
	}
	if w.chance(10) {
		w.faults["event without a key"]++
		deliver(add(eventOf(w.releases.on, rawEvent("e-keyless", "text", "", "", 5))))
	}
	if w.chance(5) {
		w.faults["undecodable event"]++
		deliver(add(eventOf(w.releases.on, `{"specversion":"1.0","id":"x","id":"y"}`)))
	}
	w.rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if len(all) > 1 && w.chance(30) {
		w.faults["batch"]++
		size := 2 + w.rnd.IntN(min(len(all)-1, 4))
		b := &chain{name: "batch", batch: true, due: all[0].due, max: all[0].max}
		for _, c := range all[:size] {
			b.events = append(b.events, c.events[0])
			b.name += " " + c.name
		}
		all = append([]*chain{b}, all[size:]...)
	}
	w.chains = all
}

// soon is a moment before long, often at once.
func (w *world) soon() time.Duration {
	if w.chance(50) {
		return 0
	}
	return time.Duration(w.rnd.IntN(120_000)) * time.Millisecond
}

// step lets one thing happen; false means that nothing is left to happen.
func (w *world) step() bool {
	synctest.Wait()
	w.steps++
	w.reap()
	w.lose()
	if !w.calm && w.steps > w.style.rough {
		w.calm = true
		w.outages = map[service]time.Time{}
		w.note("the faults are over")
	}
	now := time.Now()
	if open := w.openReviews(); len(open) > 0 && w.chance(3) {
		w.answer(open[w.rnd.IntN(len(open))])
		return true
	}
	if !w.calm && w.chance(4) && w.desk() {
		return true
	}
	if !w.calm && w.chance(1) {
		w.faults["credentials rotated"]++
		old := w.cred
		w.rotate()
		if w.chance(50) {
			w.held.Revoke(old.AccessKeyID)
		}
		w.note("credentials are rotated")
		return true
	}
	var ready []*call
	var next time.Time
	soonest := func(t time.Time) {
		if next.IsZero() || t.Before(next) {
			next = t
		}
	}
	for _, c := range w.waiting() {
		if c.held.After(now) {
			soonest(c.held)
		} else {
			ready = append(ready, c)
		}
	}
	if len(ready) == 0 || w.chance(25) {
		if w.dispatch(now, soonest) {
			return true
		}
	}
	switch {
	case len(ready) > 0 && w.chance(3):
		w.sleep([]time.Duration{time.Second, 8 * time.Second, 40 * time.Second}[w.rnd.IntN(3)])
	case len(ready) > 0:
		if w.chance(20) {
			time.Sleep(time.Duration(1+w.rnd.IntN(200)) * time.Millisecond)
			return true
		}
		w.release(ready[w.rnd.IntN(len(ready))])
	case !next.IsZero():
		w.sleep(next.Sub(now))
	case w.busy():
		w.sleep(10 * time.Minute)
	default:
		return false
	}
	return true
}

func (w *world) busy() bool {
	for _, k := range w.workers {
		if k.running != nil {
			return true
		}
	}
	return false
}

// sleep lets time pass until something happens.
func (w *world) sleep(d time.Duration) {
	select {
	case <-w.wake: // of what happened before
	default:
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-w.wake:
	}
}

// dispatch starts what is due, if a worker is free.
func (w *world) dispatch(now time.Time, soonest func(time.Time)) bool {
	var due []func()
	for _, c := range w.chains {
		switch {
		case c.flying || c.settled || c.queued:
		case c.due.After(now):
			soonest(c.due)
		default:
			due = append(due, func() { w.deliver(c) })
		}
	}
	for _, r := range w.resolves {
		switch {
		case r.flying || r.done:
		case r.due.After(now):
			soonest(r.due)
		default:
			due = append(due, func() {
				if k := w.idle(); k != nil {
					r.flying = true
					w.invoke(&invocation{worker: k, resolve: r}, "resolve "+r.id[:8], handler.Delivery{})
				}
			})
		}
	}
	for _, r := range w.errands {
		switch {
		case r.flying || r.done:
		case r.due.After(now):
			soonest(r.due)
		default:
			due = append(due, func() {
				if k := w.idle(); k != nil {
					r.flying = true
					w.invoke(&invocation{worker: k, errand: r}, r.name, handler.Delivery{})
				}
			})
		}
	}
	if len(due) == 0 {
		return false
	}
	before := w.flying()
	due[w.rnd.IntN(len(due))]()
	return w.flying() > before
}

func (w *world) flying() (n int) {
	for _, k := range w.workers {
		if k.running != nil {
			n++
		}
	}
	return n
}

// lose decides about calls whose callers have left. A target carries one out at
// once or never: its time-out is what the caller waited for. What went to a
// store may arrive later.
func (w *world) lose() {
	for _, c := range w.waiting() {
		if !w.hasLeft(c) {
			continue
		}
		switch {
		case c.early != nil || !c.write():
			w.unpark(c)
		case c.service == target || (w.calm && !c.late):
			w.unpark(c)
			if w.chance(50) {
				w.note("%s arrives as its caller leaves", c)
				w.faults["arrived, answer too late"]++
				w.execute(c, nil)
			}
		case !c.late && w.chance(40):
			w.unpark(c)
		case !c.late:
			c.late = true
			c.held = time.Now().Add(time.Duration(1+w.rnd.IntN(300)) * time.Second)
		}
	}
}

func (w *world) hasLeft(c *call) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return c.gone
}

// execute carries a call out under a fault and shows the checker what came of it.
func (w *world) execute(c *call, f *cloudtest.Fault) reply {
	base, faults := w.base(c.service)
	if f != nil {
		faults.Add(*f)
	}
	w.check.leaves(c)
	r := c.carryOut(base)
	faults.Clear()
	w.check.carriedOut(c)
	return r
}

func (c *call) String() string {
	return fmt.Sprintf("w%d %s %s %.90s", c.worker.id, c.service, c.op, c.about)
}
