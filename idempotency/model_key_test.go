package idempotency

import (
	"fmt"
	"slices"
	"strconv"
	"time"
)

// key tells states apart by all that their future depends on: times relative to
// now and no further than anything asks, revisions as whether they still hold.
func (s state) key() string {
	k := make(keyText, 0, 400)
	k.row(s, s.row)
	k.effect(s, s.effect)
	if s.times > 0 {
		k.flags("happened", s.world.kind == TargetReadable && s.visible())
		k.number(s.times)
	}
	k.flags("answers", s.conflict)
	k.number(s.answers)
	k.number(s.denied)
	k.number(s.grants)
	k.number(s.crashes)
	var actors [3]string
	for i, a := range s.actors {
		actors[i] = a.key(s)
	}
	slices.Sort(actors[:]) // who has the same event may change places
	for _, a := range actors {
		k = append(append(k, " | "...), a...)
	}
	return string(k)
}

// release makes actors idle that can only become so: revisions rise, so a write
// whose condition has failed once fails for ever, and a run that has lost its key
// can do nothing more unless what it knows of the effect still holds.
func (s *state) release() {
	cloned := false
	for i, a := range s.actors {
		lost := false
		switch a.phase {
		case idle:
		case writing:
			lost = !s.current(a.base)
		case doubting:
			landed, current := false, false
			if s.row != nil {
				landed, current = Landed(*s.row, *a.next)
			}
			lost = !(a.starts && current) && !(!a.starts && !landed && s.current(a.base))
		case working, sent, done, refused, lostAnswer:
			lost = !a.owns(*s) && (s.world.kind == "" || (a.phase != sent && a.looked && !a.fresh(*s)))
		}
		if lost {
			if !cloned {
				s.actors, cloned = slices.Clone(s.actors), true
			}
			s.actors[i] = actor{name: a.name, digest: a.digest, phase: idle}
		}
	}
}

// owns reports whether the record is still as this run wrote or found it.
func (a actor) owns(s state) bool {
	if a.exhausted {
		return s.current(a.base)
	}
	return s.row != nil && s.row.Owner == a.held.Owner && s.row.Revision == a.held.Revision
}

// fresh reports whether the effect's row is as this run knows it.
func (a actor) fresh(s state) bool {
	return (a.effect == nil) == (s.effect == nil) && (a.effect == nil || a.effect.Revision == s.effect.Revision)
}

// keyText is a key being built.
type keyText []byte

func (k *keyText) word(w string) { *k = append(append(*k, w...), ' ') }

func (k *keyText) number(n int) { *k = append(strconv.AppendInt(*k, int64(n), 10), ' ') }

func (k *keyText) flags(name string, all ...bool) {
	*k = append(*k, name...)
	for _, on := range all {
		if on {
			*k = append(*k, '+')
		} else {
			*k = append(*k, '-')
		}
	}
	*k = append(*k, ' ')
}

// until is how many ticks a time lies ahead.
func (k *keyText) until(s state, t time.Time) {
	if s.now.After(t) {
		k.word("over")
		return
	}
	k.number(int(t.Sub(s.now) / tick))
}

func (k *keyText) row(s state, r *Record) {
	if r == nil {
		k.word("none")
		return
	}
	k.word(string(r.Status))
	k.number(int(r.Attempt))
	k.number(int(r.AttemptBudget))
	k.word(r.InputDigest)
	if !r.LeaseUntil.IsZero() {
		k.word("lease")
		k.until(s, r.LeaseUntil)
	}
	if s.now.Before(r.NotBefore) {
		k.word("waits")
		k.until(s, r.NotBefore)
	}
	k.flags("abandoned", r.Abandoned)
	k.flags("unclassified", slices.ContainsFunc(r.History, func(s Step) bool { return s.Code == CodeUnclassified }))
	if len(r.Effects) > 0 {
		k.word(string(r.Effects[0].State))
	}
}

func (k *keyText) effect(s state, e *Effect) {
	if e == nil {
		k.word("no effect")
		return
	}
	k.word(string(e.State))
	if e.State == EffectSent {
		// A readable target is looked up after two ticks; a request takes one.
		most := 1
		if s.world.kind == TargetReadable {
			most = 2
		}
		k.number(min(int(s.now.Sub(e.SentAt)/tick), most))
	}
}

func (a actor) key(s state) string {
	k := make(keyText, 0, 100)
	k.word(a.digest)
	k.word(string(a.phase))
	if a.phase == idle {
		return string(k)
	}
	k.flags("", a.starts, a.replays, a.exhausted, a.looked)
	if a.phase == writing || a.phase == doubting {
		landed, current := false, false
		if s.row != nil {
			landed, current = Landed(*s.row, *a.next)
		}
		k.flags("holds", s.current(a.base), landed, current)
		k.row(s, a.next)
		return string(k)
	}
	own, fresh := a.owns(s), a.fresh(s)
	k.flags("own", own, fresh)
	if !own || a.exhausted {
		k.row(s, a.held)
	}
	if !fresh {
		k.effect(s, a.effect)
	}
	return string(k)
}

// shape is what an operator sees of a state.
func (s state) shape() string {
	if s.row == nil {
		return "(no row)"
	}
	r := s.row
	text := fmt.Sprintf("%s attempt %d of %d", r.Status, r.Attempt, r.AttemptBudget)
	if r.Status == StatusRunning {
		owner, lease := "dead", "live"
		for _, a := range s.actors {
			if a.phase != idle && ((a.held != nil && a.held.Owner == r.Owner) || (a.phase == doubting && a.next.Owner == r.Owner)) {
				owner = "alive"
			}
		}
		if s.now.After(r.LeaseUntil) {
			lease = "over"
		}
		text += ", owner " + owner + ", lease " + lease
	}
	if r.Abandoned {
		text += ", abandoned"
	}
	if len(r.SupersededDigests) > 0 {
		text += ", another input"
	}
	if s.world.kind != "" {
		state := EffectState("none")
		if s.effect != nil {
			state = s.effect.State
		}
		text += fmt.Sprintf(", effect %s happened %d", state, s.times)
	}
	return text
}
