package deadletter

import (
	"slices"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/internal/messages"
)

// Names of what stands in Evidence.Probe.
const (
	ProbeAccess = "access" // a least-privilege, read-only call to the target
	ProbeTarget = "target" // the target was looked up, region and id compared
	ProbeFlow   = "flow"   // today's flows.yaml has a flow for the event, per letter
	ProbeSchema = "schema" // the event was checked as today's code would, per letter
	ProbePerson = "person" // a person confirms what nothing can be asked about
	ProbeReplay = "replay" // an attempt of a replay failed: voids what stood before
)

// ProbeFor is the probe that a letter of a code needs: "" where it needs none,
// and then why says what there is instead, zero where nothing is missing. Source:
// the repair rules of the design; THROTTLED needs none since the last
// Retry-After must have passed and the first stage is the trial.
func ProbeFor(code letter.Code, l letter.Letter) (probe string, why messages.Text) {
	switch code {
	case letter.CodeAccessDenied:
		return ProbeAccess, messages.Text{}
	case letter.CodeTargetNotFound:
		if l.Flow == "" {
			return ProbeFlow, messages.Text{}
		}
		return ProbeTarget, messages.Text{}
	case letter.CodeInvalidSchema:
		return ProbeSchema, messages.Text{}
	case letter.CodePolicyRejected:
		if l.ParentID != "" {
			// The migration is the repair; what it made is looked at.
			return ProbeSchema, messages.Text{}
		}
		return "", WhyPolicy
	default:
		return "", messages.Text{}
	}
}

// Why evidence does not hold.
var (
	WhyPolicy      = messages.T("a refusal by policy has no repair: migrate the event or discard it")
	WhyNoEvidence  = messages.T("nothing shows that the cause is repaired: oncegate dlq repair verify")
	WhyProbeFailed = messages.T("the newest probe of the group says no")
	WhyReplayed    = messages.T("a replay of the group failed after the evidence")
	WhyAttempt     = messages.T("an attempt of this task failed after the evidence")
	WhyNotLooked   = messages.T("no probe has looked at this letter: oncegate dlq repair verify")
)

// perLetter reports whether a probe shows something of the listed letters alone.
func perLetter(probe string) bool { return probe == ProbeSchema || probe == ProbeFlow }

// proves reports whether evidence of one probe serves where another is needed.
func proves(has, need string) bool {
	return has == need || (has == ProbePerson && !perLetter(need))
}

// EvidenceFor says which evidence lets a letter of a judged code be replayed. all
// are the rows of its group, in any order; lastAttempt is when the last failed
// attempt of its task began, zero where there is none. An empty why says that
// nothing is missing: e is nil then where the code needs no evidence.
//
// The newest row decides. One that says no voids all before it, and so does an
// attempt that began after it. A probe of single letters counts, either way, for
// those that it lists.
func EvidenceFor(code letter.Code, all []Evidence, l letter.Letter, lastAttempt time.Time) (e *Evidence, why messages.Text) {
	need, why := ProbeFor(code, l)
	if need == "" {
		return nil, why
	}
	others := false
	for i := range all {
		row := &all[i]
		switch {
		case row.Environment != l.Environment, row.OK && !proves(row.Probe, need):
			continue
		case perLetter(row.Probe) && !slices.Contains(row.LetterIDs, l.ID):
			others = true
			continue
		}
		// Of two at one time the one that says no is the newer.
		if e == nil || row.At.After(e.At) || (row.At.Equal(e.At) && !row.OK) {
			e = row
		}
	}
	switch {
	case e == nil && others:
		return nil, WhyNotLooked
	case e == nil:
		return nil, WhyNoEvidence
	case e.Probe == ProbeReplay:
		return nil, WhyReplayed
	case !e.OK:
		return nil, WhyProbeFailed
	case !lastAttempt.IsZero() && !lastAttempt.Before(e.At):
		return nil, WhyAttempt
	}
	return e, messages.Text{}
}
