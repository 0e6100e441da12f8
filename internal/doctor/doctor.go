// Package doctor judges whether a deployment can keep oncegate's promises,
// before events depend on it.
//
// The invariant: what nobody could look at never counts as right. Judge is a pure
// function of facts that somebody else collects; each fact is Seen or Missing,
// and a missing one makes its check unknown: it counts as a fail where safety
// depends on it, and as a warn elsewhere. No fact holds a secret.
package doctor

import (
	"slices"

	"github.com/oncegate/oncegate/internal/messages"
)

// Verdict is what a check says.
type Verdict string

// The verdicts.
const (
	Pass    Verdict = "pass"
	Warn    Verdict = "warn"    // works, with a limit that one should know
	Fail    Verdict = "fail"    // a promise does not hold
	Unknown Verdict = "unknown" // nobody could look; CountsAs says what that is worth
)

// Check is one thing that was looked at.
type Check struct {
	ID       string        `json:"id"` // stable
	Verdict  Verdict       `json:"verdict"`
	CountsAs Verdict       `json:"counts_as"` // the verdict itself; of an unknown one fail or warn
	Found    messages.Text `json:"found"`
	Want     messages.Text `json:"want"`
	Do       messages.Text `json:"do"` // "" where it passes

	unseen  bool       // a part of it was not seen, whatever the verdict
	missing []*Missing // what was not seen and counts as a fail
}

// Judge makes every check, in an order in which they are best put right.
func Judge(f Facts) []Check {
	judges := []func(Facts) Check{
		judgeEnv, judgeCredentials, judgeTables, judgeRetention, judgeConditionalWrite,
		judgeBucket, judgeVersioning, judgeLifecycle, judgeEncryption, judgeClock,
		judgeVersions, judgeRuleForm, judgeDeadLetterQueue, judgeEventSize, judgeIntakeStream,
		judgeBatch, judgeBackoff, judgeLease, judgeAttempts,
		judgeOneFlow, judgeKeySecret, judgeEffectTargets, judgeModel, judgeCopies,
	}
	checks := make([]Check, len(judges))
	for i, judge := range judges {
		checks[i] = judge(f)
	}
	return checks
}

// Complete reports whether every check could be made as a whole.
func Complete(checks []Check) bool {
	return !slices.ContainsFunc(checks, func(c Check) bool { return c.unseen })
}

// Failed reports whether any check counts as a fail.
func Failed(checks []Check) bool {
	return slices.ContainsFunc(checks, func(c Check) bool { return c.CountsAs == Fail })
}

// MissingRight is the first right without which nothing but a look is missing:
// every check that counts as a fail is one that the caller may not make. nil where
// there is no such check, or where something is really wrong.
func MissingRight(checks []Check) *Missing {
	var first *Missing
	for _, c := range checks {
		if c.CountsAs != Fail {
			continue
		}
		if c.Verdict != Unknown {
			return nil
		}
		for _, m := range c.missing {
			switch {
			case m.Reason == Denied && first == nil:
				first = m
			case m.Reason != Denied && m.Reason != DependsOn:
				return nil
			}
		}
	}
	return first
}

// judgement gathers what one check meets; the worst of it decides.
type judgement struct {
	id       string
	want     messages.Text
	notes    []messages.Text // said where nothing is wrong
	problems []problem
}

type problem struct {
	verdict, counts Verdict
	found, do       messages.Text
	missing         *Missing // nil where it was seen
}

func about(id string, want messages.Text) *judgement { return &judgement{id: id, want: want} }

func (j *judgement) note(found messages.Text) { j.notes = append(j.notes, found) }

func (j *judgement) warn(found, do messages.Text) {
	j.problems = append(j.problems, problem{verdict: Warn, counts: Warn, found: found, do: do})
}

func (j *judgement) fail(found, do messages.Text) {
	j.problems = append(j.problems, problem{verdict: Fail, counts: Fail, found: found, do: do})
}

// missing notes a fact that nobody could learn.
func (j *judgement) missing(m *Missing, counts Verdict) {
	j.problems = append(j.problems, problem{Unknown, counts, m.found(), m.Do(), m})
}

// rank orders problems: a certain fail is worse than one that nobody saw.
func (p problem) rank() int {
	switch {
	case p.verdict == Fail:
		return 4
	case p.counts == Fail:
		return 3
	case p.verdict == Unknown:
		return 2
	}
	return 1
}

func (j *judgement) check() Check {
	c := Check{ID: j.id, Verdict: Pass, CountsAs: Pass, Want: j.want, Found: joined(j.notes)}
	if len(j.problems) == 0 {
		return c
	}
	slices.SortStableFunc(j.problems, func(a, b problem) int { return b.rank() - a.rank() })
	c.Verdict, c.CountsAs = j.problems[0].verdict, j.problems[0].counts
	var found, do []messages.Text
	for _, p := range j.problems {
		c.unseen = c.unseen || p.verdict == Unknown
		if p.missing != nil && p.counts == Fail {
			c.missing = append(c.missing, p.missing)
		}
		found = appendNew(found, p.found)
		do = appendNew(do, p.do)
	}
	c.Found, c.Do = joined(found), joined(do)
	return c
}

func appendNew(all []messages.Text, one messages.Text) []messages.Text {
	if slices.ContainsFunc(all, func(t messages.Text) bool { return t.String() == one.String() }) {
		return all
	}
	return append(all, one)
}

func joined(all []messages.Text) messages.Text {
	if len(all) == 0 {
		return messages.Text{}
	}
	out := all[0]
	for _, one := range all[1:] {
		out = messages.T("%s; %s", out, one)
	}
	return out
}
