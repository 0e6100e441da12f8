package simtest

import (
	"slices"
	"time"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

// maxSkew is half the lease's margin: what a clock may be off.
const maxSkew = 15 * time.Second

// kind is one thing that can go wrong with a call.
type kind struct {
	name string
	do   func(w *world, c *call)
}

var kinds = []kind{
	{"dropped before the effect", fails(cloudtest.Fault{Phase: cloudtest.Before, Kind: cloudtest.Drop})},
	{"answer lost after the effect", fails(cloudtest.Fault{Phase: cloudtest.After, Kind: cloudtest.Drop})},
	{"answer lost after the effect", fails(cloudtest.Fault{Phase: cloudtest.After, Kind: cloudtest.Drop})},
	{"answer cut in the middle", fails(cloudtest.Fault{Phase: cloudtest.After, Kind: cloudtest.Truncate})},
	{"unavailable before the effect", unavailable(cloudtest.Before)},
	{"unavailable after the effect", unavailable(cloudtest.After)},
	{"throttled", throttled},
	{"held before the effect", heldBefore},
	{"held before the effect", heldBefore},
	{"answer held back", heldAfter},
	{"outage", outage},
}

func fails(f cloudtest.Fault) func(*world, *call) {
	return func(w *world, c *call) { w.finish(c, &f) }
}

func unavailable(p cloudtest.Phase) func(*world, *call) {
	return func(w *world, c *call) {
		code := map[service]string{tablestore: "OTSServerUnavailable", oss: "InternalError", model: "unavailable", target: "unavailable"}[c.service]
		w.finish(c, &cloudtest.Fault{Phase: p, Kind: cloudtest.Status, Status: 503, Code: code})
	}
}

func throttled(w *world, c *call) {
	f := cloudtest.Fault{Phase: cloudtest.Before, Kind: cloudtest.Status, Status: 429, Code: "throttled"}
	switch c.service {
	case tablestore:
		f.Status, f.Code = 403, "OTSNotEnoughCapacityUnit"
	case oss:
		f.Status, f.Code = 503, "SlowDown"
	}
	w.finish(c, &f)
}

var delays = []time.Duration{2 * time.Second, 8 * time.Second, 28 * time.Second, 70 * time.Second, 4 * time.Minute}

func (w *world) delay() time.Duration {
	return delays[w.rnd.IntN(len(delays))] + time.Duration(w.rnd.IntN(1000))*time.Millisecond
}

func heldBefore(w *world, c *call) { c.held = time.Now().Add(w.delay()) }

func heldAfter(w *world, c *call) {
	r := w.execute(c, nil)
	c.early, c.held = &r, time.Now().Add(w.delay())
}

func outage(w *world, c *call) {
	w.outages[c.service] = time.Now().Add(w.delay())
	w.finish(c, &cloudtest.Fault{Phase: cloudtest.Before, Kind: cloudtest.Drop})
}

// release lets one call go, or something befall it.
func (w *world) release(c *call) {
	switch {
	case w.hasLeft(c):
		w.unpark(c)
		w.faults["late arrival"]++
		w.note("%s arrives late", c)
		w.execute(c, nil)
	case c.early != nil:
		w.note("%s is answered", c)
		w.unpark(c)
		c.reply <- *c.early
	case time.Now().Before(w.outages[c.service]):
		w.note("%s meets the outage", c)
		w.faults["met an outage"]++
		w.finish(c, &cloudtest.Fault{Phase: cloudtest.Before, Kind: cloudtest.Drop})
	case w.calm || !c.held.IsZero() || !w.chance(w.roughness(c)):
		w.note("%s", c)
		w.finish(c, nil)
	case w.chance(w.style.crashes):
		w.crash(c, false)
	case w.style.stale && c.op == "UpdateRow" && w.chance(50):
		w.crash(c, true)
	default:
		k := kinds[w.rnd.IntN(len(kinds))]
		w.faults[k.name]++
		w.note("%s: %s", c, k.name)
		k.do(w, c)
	}
}

// roughness is how many percent of such calls meet a fault: what happens outside
// once is what matters most.
func (w *world) roughness(c *call) int {
	if c.service == target && c.write() {
		return min(3*w.style.faults, 60)
	}
	return w.style.faults
}

// finish carries a call out and lets its caller go on.
func (w *world) finish(c *call, f *cloudtest.Fault) {
	r := w.execute(c, f)
	w.unpark(c)
	c.reply <- r
}

// crash ends a worker in the middle of a call, whose effect may be there or come
// later, as that of its other calls; stale says that this one comes later, when
// its lease may be over.
func (w *world) crash(c *call, stale bool) {
	k := c.worker
	w.faults["crash"]++
	w.note("%s: w%d crashes", c, k.id)
	w.mu.Lock()
	k.crashed = true
	close(k.dead)
	w.mu.Unlock()
	for _, p := range w.waiting() {
		if p.worker != k || w.hasLeft(p) {
			continue
		}
		switch {
		case p == c && stale:
			w.linger(p)
		case p.early != nil || !p.write() || w.chance(40):
			w.unpark(p)
		case p.service == target || w.chance(70):
			w.faults["crash after the effect"]++
			w.note("%s has arrived", p)
			w.unpark(p)
			w.execute(p, nil)
		default:
			w.linger(p)
		}
	}
	w.workers = slices.DeleteFunc(w.workers, func(o *worker) bool { return o == k })
	if inv := k.running; inv != nil && inv.chain != nil {
		w.land(inv.chain, false)
	} else if inv != nil && inv.errand != nil {
		inv.errand.died(w)
	} else if inv != nil {
		inv.resolve.flying = false
		inv.resolve.due = time.Now().Add(time.Minute)
	}
}

// linger leaves a call of a dead worker on its way.
func (w *world) linger(c *call) {
	w.mu.Lock()
	c.gone = true
	w.mu.Unlock()
	c.late, c.held = true, time.Now().Add(time.Duration(1+w.rnd.IntN(400))*time.Second)
}
