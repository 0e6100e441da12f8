package simtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
)

// chain is one delivery of the platform: the same bytes until they are
// acknowledged, or until its deliveries are over and they are a dead letter of
// the queue.
type chain struct {
	name    string
	events  []*event // more than one: a batch
	batch   bool
	due     time.Time
	tries   int
	max     int // deliveries; 0 for as many as it takes
	flying  bool
	settled bool // acknowledged
	queued  bool // in the dead-letter queue
}

func (c *chain) raw() []byte {
	if !c.batch {
		return c.events[0].raw
	}
	var all []string
	for _, e := range c.events {
		all = append(all, string(e.raw))
	}
	return []byte("[" + strings.Join(all, ",") + "]")
}

// invocation is one call of the function.
type invocation struct {
	worker  *worker
	chain   *chain
	resolve *resolve
	errand  *errand
	owner   int // tokens that its worker had given out before
	frozen  bool

	results []handler.Result
	err     error
}

// frozenContext has a deadline that nobody enforces, as in a process that is
// frozen and thawed: what is under way goes on after it.
type frozenContext struct {
	context.Context
	at time.Time
}

func (f frozenContext) Deadline() (time.Time, bool) { return f.at, true }

// idle returns a worker that runs nothing, a new one where there is none.
func (w *world) idle() *worker {
	var free []*worker
	for _, k := range w.workers {
		if k.running == nil {
			free = append(free, k)
		}
	}
	if len(free) == 0 || (len(w.workers) < w.style.workers && w.chance(30)) {
		if len(w.workers) < w.style.workers {
			return w.newWorker()
		}
		if len(free) == 0 {
			return nil
		}
	}
	return free[w.rnd.IntN(len(free))]
}

// deliver starts one delivery of a chain, if a worker is free.
func (w *world) deliver(c *chain) {
	k := w.idle()
	if k == nil {
		return
	}
	c.flying = true
	c.tries++
	if c.tries > 1 {
		w.faults["redelivered"]++
	}
	w.invoke(&invocation{worker: k, chain: c}, c.name, handler.Delivery{RetryCount: w.rnd.IntN(2) * (c.tries - 1)})
}

func (w *world) invoke(inv *invocation, name string, d handler.Delivery) {
	k := inv.worker
	k.running, k.cred, inv.owner = inv, w.cred, k.owners
	limits := []time.Duration{15 * time.Second, time.Minute, 2 * time.Minute}
	limit := limits[w.rnd.IntN(len(limits))]
	inv.frozen = !w.calm && w.chance(10)
	w.note("w%d runs %s within %s, frozen %v, retry %d", k.id, name, limit, inv.frozen, d.RetryCount)
	d.RequestID, d.FunctionName, d.Version = "request", "gate", "7"
	ctx := context.WithValue(context.Background(), credentialKey{}, k.cred)
	cancel := func() {}
	if inv.frozen {
		ctx = frozenContext{ctx, time.Now().Add(limit)}
	} else {
		ctx, cancel = context.WithTimeout(ctx, limit)
	}
	w.all.Go(func() {
		defer cancel()
		switch {
		case inv.resolve != nil:
			var r handler.Result
			r, inv.err = k.h.Resolve(ctx, handler.Envelope{Oncegate: handler.EnvelopeResolve, Review: inv.resolve.id}, d)
			inv.results = []handler.Result{r}
		case inv.errand != nil:
			var r handler.Result
			r, inv.err = k.h.Call(ctx, inv.errand.envelope, d)
			inv.results = []handler.Result{r}
		case inv.chain.batch:
			var r handler.BatchResult
			r, inv.err = k.h.HandleBatch(ctx, inv.chain.raw(), d)
			inv.results = r.Members
		default:
			var r handler.Result
			r, inv.err = k.h.Handle(ctx, inv.chain.raw(), d)
			inv.results = []handler.Result{r}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if !k.crashed {
			w.ended = append(w.ended, inv)
			w.nudge()
		}
	})
}

// reap takes note of the invocations that have ended.
func (w *world) reap() {
	w.mu.Lock()
	ended := w.ended
	w.ended = nil
	w.mu.Unlock()
	slices.SortFunc(ended, func(a, b *invocation) int { return a.worker.id - b.worker.id })
	for _, inv := range ended {
		inv.worker.running = nil
		w.note("w%d answers %s", inv.worker.id, inv)
		w.check.answered(inv)
		if inv.resolve != nil {
			inv.resolve.answered(w, inv)
			continue
		}
		if inv.errand != nil {
			inv.errand.answered(w, inv)
			continue
		}
		w.land(inv.chain, inv.err == nil)
	}
}

func (inv *invocation) String() string {
	var all []string
	for _, r := range inv.results {
		all = append(all, fmt.Sprintf("%s %s %s", r.Decision, r.Status, r.ErrorCode))
	}
	text := strings.Join(all, ", ")
	var retry *handler.RetryError
	if errors.As(inv.err, &retry) {
		text += ": again, " + string(retry.Code)
	}
	return text
}

// land is what the platform makes of one delivery's end.
func (w *world) land(c *chain, acknowledged bool) {
	c.flying = false
	switch {
	case acknowledged:
		c.settled = true
	case c.max > 0 && c.tries >= c.max:
		c.queued = true
		w.faults["sent to the dead-letter queue"]++
		w.note("%s is dead-lettered by the platform", c.name)
	default:
		wait := min(10*time.Second<<min(c.tries-1, 6), 10*time.Minute)
		c.due = time.Now().Add(wait + time.Duration(w.rnd.IntN(10_000))*time.Millisecond)
	}
}

// resolve is the call that carries out a person's answer.
type resolve struct {
	id     string
	due    time.Time
	flying bool
	tries  int
	done   bool
	again  bool // called once more when all was quiet
}

func (r *resolve) answered(w *world, inv *invocation) {
	r.flying = false
	r.tries++
	// A refusal, such as of use_new while a lease is live, is a person's to try again.
	r.done = inv.err == nil && inv.results[0].ErrorCode != idempotency.CodeInvalidRequest
	if !r.done {
		r.due = time.Now().Add(time.Duration(10+w.rnd.IntN(120)) * time.Second)
		r.done = inv.err == nil && r.tries > 3
	}
}
