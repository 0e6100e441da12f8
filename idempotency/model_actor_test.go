package idempotency

import (
	"slices"
	"time"
)

// phase is where an actor of the model stands between two steps.
type phase string

const (
	idle       phase = "idle"     // the next delivery begins here
	writing    phase = "writing"  // a record is to be written
	doubting   phase = "doubting" // it may have been: the row has to be read
	working    phase = "working"
	sent       phase = "sent"    // the effect's row says SENT, the request is under way
	done       phase = "done"    // the target has said yes
	refused    phase = "refused" // the target has said no
	lostAnswer phase = "lost"    // the target has said nothing
)

// actor is one worker with the deliveries of one event.
type actor struct {
	name   string
	digest string

	phase     phase
	base      *Record // as read: what the write is conditional on
	next      *Record // to be written
	starts    bool    // next is a claim
	replays   bool    // under an approved plan
	exhausted bool    // no attempt is left: only what was sent is found out
	held      *Record // as this run has written it
	effect    *Effect // as this run knows it
	looked    bool    // the effect's row has been read
}

// step is one atomic step of an actor: what it may lead to.
func (a actor) step(s state) []state {
	switch a.phase {
	case idle:
		return append(a.deliver(s), a.replay(s)...)
	case writing:
		return a.write(s)
	case doubting:
		return a.read(s)
	case working:
		return a.run(s)
	case sent:
		return a.request(s)
	default:
		return a.settle(s)
	}
}

func (a actor) claim(s state) Claim {
	attempt := int64(1)
	if s.row != nil {
		attempt = s.row.Attempt + 1
	}
	return Claim{
		Key: testKey, InputDigest: a.digest, Owner: a.name + string(rune('0'+attempt)), Now: s.now, Deadline: s.now.Add(tick),
		Budget: 2, Target: "fc:f", Flow: "f", Effects: s.world.declared(),
	}
}

func (a actor) deliver(s state) []state {
	a = actor{name: a.name, digest: a.digest, phase: writing, starts: true}
	c := a.claim(s)
	if s.row == nil {
		first := modelPolicy.First(c)
		a.next = &first
		return s.with(a)
	}
	answer, next := modelPolicy.Deliver(*s.row, c)
	a.base, a.next = s.row, &next
	switch answer {
	case AnswerRun:
		return s.with(a)
	case AnswerConflict:
		s.conflict = true
	case AnswerExhausted:
		a.starts = false
		if s.effect == nil || s.effect.State == EffectSettled || s.effect.State == EffectRefused {
			return s.with(a)
		}
		a.phase, a.exhausted, a.held, a.effect, a.looked = working, true, &next, s.effect, true
		return s.with(a)
	}
	return s.with(actor{name: a.name, digest: a.digest, phase: idle})
}

// replay is a call under a plan that was made and approved just now: whatever
// happens before its write makes the plan stale.
func (a actor) replay(s state) []state {
	if s.row == nil || !s.mayGrant() {
		return nil
	}
	a = actor{name: a.name, digest: a.digest, phase: writing, starts: true, replays: true}
	answer, next, err := modelPolicy.Replay(s.row, a.claim(s), Grant{"plan", s.row.Revision, s.row.InputDigest})
	if err != nil || answer != AnswerRun {
		return nil
	}
	a.base, a.next = s.row, &next
	s.grants++
	return s.with(a)
}

// write: the condition holds and the answer arrives or is lost, the write is
// lost, or the condition fails. Whatever is not an answer is found out by reading.
func (a actor) write(s state) []state {
	in := a
	in.phase = doubting
	all := s.with(in)
	if !s.current(a.base) {
		return all
	}
	s.commit(a)
	all = append(all, s.with(in)...)
	return append(all, s.with(a.landed())...)
}

// landed is the actor after its write.
func (a actor) landed() actor {
	if a.starts {
		return actor{name: a.name, digest: a.digest, phase: working, held: a.next}
	}
	return actor{name: a.name, digest: a.digest, phase: idle}
}

func (a actor) read(s state) []state {
	if s.row != nil {
		if landed, current := Landed(*s.row, *a.next); current || (landed && !a.starts) {
			return s.with(a.landed())
		}
	}
	if s.current(a.base) && !a.starts {
		a.phase = writing
		return s.with(a)
	}
	return s.with(actor{name: a.name, digest: a.digest, phase: idle})
}

// end turns a decision into the write that ends the run.
func (a actor) end(s state, next Record, err error) []state {
	if err != nil {
		s.broken("I5: a run cannot end: " + err.Error())
		return nil
	}
	if !a.exhausted {
		a.base = a.held
	}
	a.next, a.phase, a.starts = &next, writing, false
	return s.with(a)
}

func (a actor) fail(s state, f Failure) []state {
	if a.exhausted {
		return s.with(actor{name: a.name, digest: a.digest, phase: idle})
	}
	known := a.known()
	next, err := modelPolicy.Fail(known, known.Owner, s.now, f)
	return a.end(s, next, err)
}

func (a actor) known() Record {
	if a.effect == nil {
		return *a.held
	}
	return a.held.Knows(a.effect.In())
}

func (a actor) over(s state) []state {
	known := a.known()
	if a.exhausted {
		return a.end(s, modelPolicy.Exhausted(*a.base, Claim{Owner: a.held.Owner, Now: s.now, Target: "fc:f"}, known.Effects), nil)
	}
	next, err := modelPolicy.Complete(known, known.Owner, s.now, Ref{Object: "by-" + a.held.Owner, SHA256: a.held.InputDigest})
	return a.end(s, next, err)
}

func (a actor) run(s state) []state {
	if !a.looked {
		var all []state
		if a.held.Attempt > 1 {
			all = a.fail(s, Failure{Code: CodeTimeout}) // the effect's row cannot be read
			a.effect = s.effect
		}
		a.looked = true
		codes := []Code{CodeTimeout, CodeInvalidRequest}
		if s.world.kind == "" {
			codes = append(codes, CodeUnclassified)
		}
		for _, code := range codes {
			all = append(all, a.fail(s, Failure{Code: code})...)
		}
		return append(all, s.with(a)...)
	}
	if s.world.kind == "" {
		return a.over(s)
	}
	spec := EffectSpec{Name: "effect", Kind: s.world.kind, Timeout: tick, VisibleAfter: tick}
	move, until := NextMove(a.effect, spec, s.now)
	if move == MoveLookUp {
		if s.visible() {
			return a.put(s, func(e Effect) (Effect, error) {
				return modelPolicy.Settle(e, a.held.Owner, s.now, "n", OutcomeTargetExists)
			}, actor.again)
		}
		move = MoveSend
		if a.exhausted {
			return a.put(s, func(e Effect) (Effect, error) {
				return modelPolicy.Refuse(e, a.held.Owner, s.now, Failure{Code: CodeTimeout})
			}, actor.over)
		}
	}
	switch move {
	case MoveDone:
		return a.over(s)
	case MoveWait:
		return a.fail(s, Failure{Code: CodeTimeout, Window: until.Sub(s.now)})
	case MoveUnknown:
		doubt := func(e Effect) (Effect, error) { return modelPolicy.Doubt(e, a.held.Owner, s.now) }
		if a.effect.State == EffectUnknown {
			doubt = func(e Effect) (Effect, error) { return e, nil }
		}
		return a.put(s, doubt, actor.unknown)
	}
	if a.exhausted {
		a.phase = sent
		return s.with(a)
	}
	if s.now.Add(tick).After(a.held.LeaseUntil.Add(-modelPolicy.Margin)) {
		return a.fail(s, Failure{Code: CodeTimeout})
	}
	if !a.fresh(s) {
		return a.fail(s, Failure{Code: CodeTemporaryUnavailable})
	}
	e := modelPolicy.Send(a.effect, Sending{Key: Key{Hex: "effect-key"}, Spec: spec, Task: *a.held, Now: s.now})
	s.effect, a.effect, a.phase = &e, &e, sent
	return s.with(a)
}

func (a actor) again(s state) []state {
	a.phase = working
	return s.with(a)
}

func (a actor) unknown(s state) []state {
	if a.exhausted {
		return a.over(s)
	}
	known := a.known()
	next, err := modelPolicy.Unknown(known, known.Owner, s.now, Failure{Code: CodeUnclassified})
	return a.end(s, next, err)
}

// request: the target does it or not, and the answer arrives or not.
func (a actor) request(s state) []state {
	no, quiet := a, a
	no.phase, quiet.phase = refused, lostAnswer
	all := append(s.with(no), s.with(quiet)...)
	yes := a
	yes.phase = done
	s.happen()
	return append(append(all, s.with(yes)...), s.with(quiet)...)
}

// settle writes what came of the request.
func (a actor) settle(s state) []state {
	owner := a.held.Owner
	switch {
	case a.phase == done:
		return a.put(s, func(e Effect) (Effect, error) { return modelPolicy.Settle(e, owner, s.now, "n", "") }, actor.again)
	case a.phase == refused:
		then := func(a actor, s state) []state { return a.fail(s, Failure{Code: CodeTimeout}) }
		if a.exhausted {
			then = actor.over
		}
		return a.put(s, func(e Effect) (Effect, error) { return modelPolicy.Refuse(e, owner, s.now, Failure{Code: CodeTimeout}) }, then)
	case s.world.kind == TargetOpaque:
		return a.put(s, func(e Effect) (Effect, error) { return modelPolicy.Doubt(e, owner, s.now) }, actor.unknown)
	}
	var window time.Duration
	if s.world.kind == TargetReadable {
		window = a.effect.SentAt.Add(2 * tick).Sub(s.now)
	}
	return a.fail(s, Failure{Code: CodeTemporaryUnavailable, Window: window})
}

// put writes the effect's row in place of the one this run knows. Where another
// has written it meanwhile this run fails.
func (a actor) put(s state, change func(Effect) (Effect, error), then func(actor, state) []state) []state {
	if s.effect.Revision != a.effect.Revision {
		return a.fail(s, Failure{Code: CodeTemporaryUnavailable})
	}
	e, err := change(*a.effect)
	if err != nil {
		s.broken("I2: " + err.Error())
		return nil
	}
	s.effect, a.effect = &e, &e
	return then(a, s)
}

func (s state) with(a actor) []state {
	s.actors = slices.Clone(s.actors)
	for i := range s.actors {
		if s.actors[i].name == a.name {
			s.actors[i] = a
		}
	}
	return []state{s}
}
