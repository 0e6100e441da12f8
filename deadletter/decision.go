// Package deadletter brings dead-lettered events back safely: it takes them in
// from wherever they were left, and decides about each by codes and by the
// business record, never by text.
//
//	intake -> letter -> decision: skip_completed | replay_candidate | repair_required | manual_review
//
// A decision is read anew each time, from the record as it stands now.
package deadletter

import (
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/messages"
)

// Decision says what may be done about a dead letter next.
type Decision string

// The four decisions.
const (
	// SkipCompleted: the business is done, or the input was replaced; nothing is to be replayed.
	SkipCompleted Decision = "skip_completed"
	// ReplayCandidate: the same event may succeed now. It is no permission.
	ReplayCandidate Decision = "replay_candidate"
	// RepairRequired: something must be repaired first, with evidence.
	RepairRequired Decision = "repair_required"
	// ManualReview: a person has to look.
	ManualReview Decision = "manual_review"
)

// Facts are what a decision goes by.
type Facts struct {
	Code             letter.Code
	Record           idempotency.Status // "" where there is no record
	DigestMatches    bool               // the letter's input is the record's
	DigestSuperseded bool               // the letter's input was replaced by a reviewer
	OpenReview       bool               // of the letter's key
	ResolvedReview   bool               // a person has settled what the letter asked
	Migrated         bool               // the record's input is one that the letter's event was migrated from
	FlowOn           bool
}

// Decide returns the first decision that fits, and the rule it follows.
func Decide(f Facts) (d Decision, rule messages.Text) {
	switch {
	case f.Record == idempotency.StatusSucceeded && f.DigestMatches:
		return SkipCompleted, messages.T("the business is done, with the same input")
	case f.Record == idempotency.StatusSucceeded && f.Migrated:
		return SkipCompleted, messages.T("the business is done, with the input that this one was migrated from")
	case f.DigestSuperseded:
		return SkipCompleted, messages.T("a reviewer has let another input hold")
	case f.OpenReview:
		return ManualReview, messages.T("a review of the business is open")
	case f.Record != "" && !f.DigestMatches && !f.Migrated:
		return ManualReview, messages.T("the record holds another input")
	case f.Record == idempotency.StatusOutcomeUnknown:
		return ManualReview, messages.T("a side effect may have happened")
	case f.Code.Class() == letter.ClassTransient:
		return ReplayCandidate, messages.T("the code is transient")
	case f.Code == letter.CodeParked && f.FlowOn:
		return ReplayCandidate, messages.T("the flow is on again")
	case f.ResolvedReview:
		return ReplayCandidate, messages.T("a person has settled the question")
	case f.Code.Class() == letter.ClassPermanent:
		return RepairRequired, messages.T("the code is permanent until something is repaired")
	case f.Code == letter.CodeParked:
		return ManualReview, messages.T("the flow is off: nothing can run yet")
	case f.Code == letter.CodeWrongEnvironment:
		return ManualReview, messages.T("the event belongs to another environment")
	default:
		return ManualReview, messages.T("the code is not classified")
	}
}
