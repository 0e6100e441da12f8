package idempotency

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata/model.golden anew")

// The model's time goes in ticks. A run has one, its lease another one.
const tick = time.Minute

var modelPolicy = Policy{
	Lease: 2 * tick, Margin: tick, BackoffBase: tick, BackoffMax: tick, RetryAfterMax: tick, Retention: 1000 * tick,
}

// model is what all states of one exploration share.
type model struct {
	kind  TargetKind // of the task's one effect; "" for a task without
	third string     // input of the third actor
	wrong map[string]bool
}

func (m *model) declared() []TaskEffect {
	if m.kind == "" {
		return nil
	}
	return []TaskEffect{{Name: "effect", Key: "effect-key", Kind: m.kind}}
}

// state is the store, the target, the people and the actors at one moment.
type state struct {
	world    *model
	now      time.Time
	row      *Record
	effect   *Effect
	times    int // that the effect has happened
	first    time.Time
	conflict bool // the two inputs have met: a person may let the other one hold
	answers  int  // of people so far
	denied   int  // of them confirmed_not_done
	grants   int  // plans approved and letters discarded so far
	crashes  int
	actors   []actor
}

const (
	maxAnswers = 1
	maxCrashes = 2
)

// mayGrant reports whether people bring the task back, or give it up, once more. A
// replay after an abandonment takes two, which only a task without an effect can
// afford; where there is one, they do so at its end alone, and it takes the place
// of the answer and of the crashes.
func (s state) mayGrant() bool {
	if s.world.kind == "" {
		return s.grants < 2
	}
	return s.grants+s.answers+s.crashes < 1 && (s.row == nil || s.row.Status == StatusFailedFinal)
}

func (s state) mayCrash() bool {
	return s.crashes < maxCrashes && (s.world.kind == "" || s.grants == 0)
}

// mayAnswer reports whether a person answers a question once more. An opaque target
// asks most of them, and what follows a grant is left at its question.
func (s state) mayAnswer() bool {
	return s.answers < maxAnswers && (s.world.kind != TargetOpaque || s.grants == 0)
}

// finalIsSure is to become true once no run ends as FAILED_FINAL while its effect
// is SENT or UNKNOWN. Today the last attempt does so where it cannot read the
// effect's row, and where a former one has left UNKNOWN.
const finalIsSure = false

func (s state) broken(text string) { s.world.wrong[text+"\n    in "+s.key()] = true }

func (s state) current(base *Record) bool {
	return (base == nil) == (s.row == nil) && (base == nil || base.Revision == s.row.Revision)
}

// happen is the request's effect. An idempotent target does once what comes twice.
func (s *state) happen() {
	if s.times == 0 {
		s.first = s.now
	}
	if s.times == 0 || s.world.kind != TargetIdempotent {
		s.times++
	}
}

func (s state) visible() bool { return s.times > 0 && !s.now.Before(s.first.Add(tick)) }

// commit writes an actor's record and checks the step.
func (s *state) commit(a actor) {
	was, is := s.row, a.next
	s.row = is
	if was == nil {
		return
	}
	lapsed := s.now.After(was.LeaseUntil)
	switch {
	case is.Revision != was.Revision+1:
		s.broken(fmt.Sprintf("I5: revision %d after %d", is.Revision, was.Revision))
	case was.Status == StatusSucceeded:
		s.broken("I1: a result was written over")
	case is.InputDigest != was.InputDigest && !(a.replays && slices.Contains(is.SupersededDigests, was.InputDigest)):
		s.broken("I6: a run works on another input")
	case was.Abandoned && !a.replays:
		s.broken("I3: what was given up goes on, and no plan said so")
	case is.Attempt != was.Attempt && is.AttemptBudget != was.AttemptBudget && (!a.replays || is.AttemptBudget != was.Attempt+2):
		s.broken("I4: a claim has another budget")
	case is.Attempt > is.AttemptBudget:
		s.broken("I4: more attempts than the budget")
	case a.starts && is.LastAttemptAt.Before(was.NotBefore):
		s.broken("I4: tried again before its time")
	case was.Status == StatusRunning && is.Owner != was.Owner && !lapsed:
		s.broken("I5: a live lease was taken over")
	case was.Status == StatusRunning && !a.starts && is.Owner != was.Owner && !a.exhausted && is.Attempt < is.AttemptBudget:
		s.broken("I5: another owner ended a run")
	}
}

// check is what holds in every state.
func (s state) check() {
	if limit := 1 + s.denied; s.times > limit {
		s.broken(fmt.Sprintf("I2: the effect has happened %d times", s.times))
	}
	if s.row == nil {
		return
	}
	if limit := int64(2 + 2*(s.grants+s.answers)); s.row.Attempt > limit {
		s.broken(fmt.Sprintf("I4: attempt %d, people have granted %d", s.row.Attempt, limit))
	}
	s.checkGrants()
	if finalIsSure && s.row.Status == StatusFailedFinal && s.effect != nil && (s.effect.State == EffectSent || s.effect.State == EffectUnknown) {
		s.broken("I2: failed for good while its effect may have happened")
	}
	if s.row.Status == StatusSucceeded {
		if s.row.ResultRef.SHA256 != s.row.InputDigest {
			s.broken("I6: the result of another input")
		}
		if s.world.kind != "" && s.effect.State != EffectSettled {
			s.broken("I2: succeeded with an effect open")
		}
		if s.world.kind != "" && s.times == 0 && s.answers == 0 {
			s.broken("I2: succeeded without the effect")
		}
	}
	for _, a := range s.actors {
		if a.phase == working && !a.exhausted && !s.now.After(a.held.LeaseUntil) && s.row.Owner != a.held.Owner {
			s.broken("I5: a run has lost its key under a live lease")
		}
	}
	for i, step := range s.row.History {
		if first := s.row.Revision - int64(len(s.row.History)) + 1; step.Revision != first+int64(i) {
			s.broken("I7: the history has a gap")
		}
	}
}

// checkGrants: no plan that was made for another revision opens the task, and
// neither a plan nor a discard touches a live run or a result.
func (s state) checkGrants() {
	r := *s.row
	c := Claim{Key: testKey, InputDigest: r.InputDigest, Owner: "r", Now: s.now, Deadline: s.now.Add(tick)}
	for _, revision := range []int64{0, r.Revision - 1, r.Revision + 1} {
		if answer, _, _ := modelPolicy.Replay(&r, c, Grant{"plan", revision, r.InputDigest}); answer == AnswerRun {
			s.broken("I5: a stale plan opens the task")
		}
	}
	answer, _, _ := modelPolicy.Replay(&r, c, Grant{"plan", r.Revision, r.InputDigest})
	_, _, err := modelPolicy.Abandon(r, r.InputDigest, "p", s.now)
	lives := r.Status == StatusRunning && !s.now.After(r.LeaseUntil)
	if busy := lives || r.Status == StatusSucceeded || r.Status == StatusOutcomeUnknown; busy && (answer == AnswerRun || err == nil) {
		s.broken("I5: a plan or a discard interferes")
	}
}

// steps are all states that may come next.
func (s state) steps() (all []state) {
	for _, a := range s.actors {
		all = append(all, a.step(s)...)
		if a.phase != idle && s.mayCrash() {
			crashed := s
			crashed.crashes++
			all = append(all, crashed.with(actor{name: a.name, digest: a.digest, phase: idle})...)
		}
	}
	all = append(all, s.people()...)
	for _, a := range s.actors {
		if a.phase == sent && !s.now.Before(a.effect.SentAt.Add(tick)) && !a.exhausted {
			return all // its time-out is over: it ends before time goes on
		}
		if a.phase == sent && a.exhausted {
			return all
		}
	}
	s.now = s.now.Add(tick)
	return append(all, s)
}

// people are the answers that a person may give now.
func (s state) people() (all []state) {
	review := Review{ID: "review", Reviewer: "rev", State: ReviewClosed}
	waits := s.row != nil && s.row.Status == StatusOutcomeUnknown
	if s.effect != nil && s.effect.State == EffectUnknown && s.mayAnswer() {
		for _, as := range Resolutions[ReviewOutcome] {
			r, next := review, s
			r.Resolution, r.Attempt, r.TargetRecordID = as, s.effect.Attempt, "n"
			e, err := modelPolicy.Resolve(*s.effect, r, s.now)
			if err != nil {
				s.broken("I8: " + err.Error())
				continue
			}
			next.effect, next.answers = &e, s.answers+1
			if as == ResolvedNotDone {
				next.denied++
			}
			if waits {
				next.resolved(r)
			}
			all = append(all, next)
		}
	}
	if waits && s.effect.State != EffectUnknown {
		// The answer came between the effect's doubt and the record's: it is given again.
		next := s
		next.resolved(review)
		all = append(all, next)
	}
	if s.row == nil && s.mayGrant() { // its letter is discarded before it was ever claimed
		next := s
		r := modelPolicy.Forgo(Claim{Key: testKey, InputDigest: "d1", Owner: "person", Now: s.now})
		next.row, next.grants = &r, s.grants+1
		all = append(all, next)
	}
	if s.row != nil && s.mayGrant() {
		known := *s.row
		if s.effect != nil {
			known = known.Knows(s.effect.In())
		}
		if r, changed, err := modelPolicy.Abandon(known, s.row.InputDigest, "person", s.now); err == nil && changed {
			next := s
			next.row, next.grants = &r, s.grants+1
			if s.effect != nil && (s.effect.State == EffectSent || s.effect.State == EffectUnknown) {
				s.broken("I2: given up while its effect may have happened")
			}
			all = append(all, next)
		}
	}
	if s.conflict && s.row != nil && s.answers < maxAnswers && (s.effect == nil || s.effect.State == EffectRefused) {
		review.Resolution, review.RecordDigest, review.EventDigest = ResolvedUseNew, s.row.InputDigest, other[s.row.InputDigest]
		if r, err := modelPolicy.UseNew(*s.row, review, s.now); err == nil {
			next := s
			next.row, next.answers = &r, s.answers+1
			all = append(all, next)
		}
	}
	return all
}

var other = map[string]string{"d1": "d2", "d2": "d1"}

func (s *state) resolved(r Review) {
	next, err := modelPolicy.Resolved(s.row.Knows(s.effect.In()), r, s.now)
	if err != nil {
		s.broken("I8: " + err.Error())
		return
	}
	s.row = &next
}

// graph is every reachable state with what leads to it.
type graph struct {
	states []state
	from   [][]int32
	steps  int
}

// maxStates keeps a mistake in the keys from filling the memory.
const maxStates = 500_000

// explore visits every state.
func (m *model) explore(t *testing.T) (g graph) {
	at := map[string]int32{}
	place := func(s state) int32 {
		key := s.key()
		n, seen := at[key]
		if !seen {
			n = int32(len(g.states))
			at[key] = n
			g.states, g.from = append(g.states, s), append(g.from, nil)
			s.check()
		}
		return n
	}
	place(state{world: m, now: milli(start), actors: []actor{
		{name: "a", digest: "d1", phase: idle}, {name: "b", digest: "d1", phase: idle}, {name: "c", digest: m.third, phase: idle},
	}})
	for n := 0; n < len(g.states); n++ {
		if n > maxStates {
			t.Fatalf("effect %q: more than %d states", m.kind, maxStates)
		}
		for _, next := range g.states[n].steps() {
			next.release()
			to := place(next)
			g.from[to] = append(g.from[to], int32(n))
			g.steps++
		}
	}
	return g
}

func TestEveryReachableStateKeepsTheInvariants(t *testing.T) {
	var report strings.Builder
	for _, kind := range append([]TargetKind{""}, TargetKinds...) {
		m := &model{kind: kind, third: "d1", wrong: map[string]bool{}}
		if kind == "" {
			m.third = "d2"
		}
		g := m.explore(t)
		for _, text := range slices.Sorted(maps.Keys(m.wrong))[:min(5, len(m.wrong))] {
			t.Errorf("effect %q: %s", kind, text)
		}
		stuck := g.stuck()
		for _, key := range stuck[:min(5, len(stuck))] {
			t.Errorf("effect %q: I8: nothing leads to an end from\n    %s", kind, key)
		}
		shapes := map[string]bool{}
		for _, s := range g.states {
			shapes[s.shape()] = true
		}
		fmt.Fprintf(&report, "effect %q: %d states, %d steps, %d shapes\n", kind, len(g.states), g.steps, len(shapes))
		for _, shape := range slices.Sorted(maps.Keys(shapes)) {
			fmt.Fprintf(&report, "  %s\n", shape)
		}
	}
	const golden = "testdata/model.golden"
	if *update {
		if err := os.WriteFile(golden, []byte(report.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(report.String(), "\n")); d != "" {
		t.Errorf("the reachable states are others (go test ./idempotency -run Reachable -update):\n%s", d)
	}
}

// ended: the task is at its end, or waits for an answer that the model's people
// have given already.
func (s state) ended() bool {
	switch {
	case s.row == nil:
		return false
	case s.row.Status == StatusOutcomeUnknown:
		return !s.mayAnswer() && s.effect.State == EffectUnknown
	}
	return s.row.Status == StatusSucceeded || s.row.Status == StatusFailedFinal
}

// stuck are the states from which no steps lead to an end.
func (g graph) stuck() (keys []string) {
	leads := make([]bool, len(g.states))
	var queue []int32
	for n, s := range g.states {
		if s.ended() {
			leads[n] = true
			queue = append(queue, int32(n))
		}
	}
	for len(queue) > 0 {
		n := queue[0]
		queue = queue[1:]
		for _, before := range g.from[n] {
			if !leads[before] {
				leads[before] = true
				queue = append(queue, before)
			}
		}
	}
	for n, s := range g.states {
		if !leads[n] {
			keys = append(keys, s.key())
		}
	}
	slices.Sort(keys)
	return keys
}
