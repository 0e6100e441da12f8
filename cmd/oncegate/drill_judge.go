package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
)

// The drills.
const (
	drillTwice  = "same_event_twice"
	drillRace   = "two_owners_race"
	drillModel  = "model_times_out_but_had_finished"
	drillExit   = "exit_after_output_before_settle"
	drillReplay = "dead_letter_replayed_by_a_person"
)

// drillEvidence is what the stores and the stand-ins hold after a drill. It says
// nothing of what the command meant to do.
type drillEvidence struct {
	Key           string             `json:"idempotency_key"`
	Decisions     []handler.Decision `json:"decisions"` // of the deliveries, in order; crashed and failed ones as retry
	Processes     int                `json:"processes"` // of the function, that took a delivery
	Killed        int                `json:"killed"`    // runs whose process was killed
	Claims        int                `json:"claims"`    // of the key, underway before any was answered
	ModelCalls    int                `json:"model_calls"`
	Notifications int                `json:"notifications"`

	Status          idempotency.Status `json:"status"`
	Revision        int64              `json:"revision"`
	FirstRevision   int64              `json:"first_revision"` // when the first delivery was over; 0 where nobody looked
	Attempt         int64              `json:"attempt"`
	History         []string           `json:"history"` // status, attempt and code of each step
	ResultRef       string             `json:"result_ref"`
	ReplayBatchID   string             `json:"replay_batch_id"`
	Outputs         []string           `json:"outputs"`           // objects tasks/<key>/attempt-NNN/output.json
	StoredAtKilling int                `json:"stored_at_killing"` // outputs that were there when the process was killed

	LetterID     string             `json:"letter_id"`
	LetterCode   letter.Code        `json:"letter_code"`
	LetterBefore letter.FinalStatus `json:"letter_before"` // final status before the replay; "" is open
	LetterStatus letter.FinalStatus `json:"letter_status"`
	LetterEnded  string             `json:"letter_ended_by"`
	Plan         string             `json:"plan"`
	PlanState    plan.State         `json:"plan_state"`
	MadeBy       string             `json:"made_by"`
	Verdict      plan.Verdict       `json:"verdict"`
	VerdictBy    string             `json:"verdict_by"`
}

// judgeDrill says what is wrong with a drill's evidence, nothing where all holds.
func judgeDrill(name string, e drillEvidence) (wrong []string) {
	want := func(ok bool, format string, args ...any) {
		if !ok {
			wrong = append(wrong, fmt.Sprintf(format, args...))
		}
	}
	counted := func(what string, got, wanted int) { want(got == wanted, "%d %s, want %d", got, what, wanted) }
	executed := 0
	for _, d := range e.Decisions {
		if d == handler.DecisionExecuted {
			executed++
		}
	}
	succeeded := 0
	for _, step := range e.History {
		if strings.HasPrefix(step, string(idempotency.StatusSucceeded)+" ") {
			succeeded++
		}
	}
	want(e.Status == idempotency.StatusSucceeded, "the record says %q", e.Status)
	counted("steps of the record say SUCCEEDED", succeeded, 1)
	want(slices.Contains(e.Outputs, e.ResultRef), "the bucket does not hold the result %q", e.ResultRef)

	switch name {
	case drillTwice:
		want(slices.Equal(e.Decisions, []handler.Decision{handler.DecisionExecuted, handler.DecisionDuplicate}), "the deliveries ended as %v", e.Decisions)
		counted("model calls", e.ModelCalls, 1)
		counted("notifications", e.Notifications, 1)
		counted("outputs", len(e.Outputs), 1)
		want(e.Attempt == 1, "attempt %d", e.Attempt)
		want(e.FirstRevision > 0 && e.Revision == e.FirstRevision, "the second delivery took the record from revision %d to %d", e.FirstRevision, e.Revision)
	case drillRace:
		counted("processes", e.Processes, 2)
		counted("claims at once", e.Claims, 2)
		counted("deliveries executed", executed, 1)
		counted("deliveries", len(e.Decisions), 3)
		want(len(e.Decisions) == 3 && e.Decisions[2] == handler.DecisionDuplicate, "the deliveries ended as %v", e.Decisions)
		counted("model calls", e.ModelCalls, 1)
		counted("notifications", e.Notifications, 1)
		counted("outputs", len(e.Outputs), 1)
		want(e.Attempt == 1, "attempt %d", e.Attempt)
	case drillModel:
		want(len(e.Decisions) > 1 && e.Decisions[0] == handler.DecisionRetry, "the first delivery did not fail: %v", e.Decisions)
		counted("deliveries executed", executed, 1)
		counted("model calls", e.ModelCalls, 2)
		counted("outputs", len(e.Outputs), 1)
		want(e.Attempt == 2, "attempt %d", e.Attempt)
		want(slices.Contains(e.History, "FAILED_RETRYABLE 1 timeout"), "no step says that attempt 1 timed out: %v", e.History)
		want(strings.Contains(e.ResultRef, "/attempt-002/"), "the result is %s, not that of attempt 2", e.ResultRef)
	case drillExit:
		counted("runs killed", e.Killed, 1)
		counted("outputs stored when it was killed", e.StoredAtKilling, 1)
		counted("model calls", e.ModelCalls, 1)
		counted("outputs", len(e.Outputs), 1)
		counted("deliveries executed", executed, 1)
		want(e.Attempt == 2, "attempt %d", e.Attempt)
		want(strings.Contains(e.ResultRef, "/attempt-001/"), "the result is %s, not the stored output of attempt 1", e.ResultRef)
	case drillReplay:
		want(e.LetterID != "" && e.LetterBefore == "", "no letter was open before the replay: %q %q", e.LetterID, e.LetterBefore)
		want(e.LetterCode == letter.CodeTimeout, "the letter's code is %q", e.LetterCode)
		want(e.Verdict == plan.VerdictApproved && e.VerdictBy != "" && e.VerdictBy != e.MadeBy, "the plan of %q was %q by %q", e.MadeBy, e.Verdict, e.VerdictBy)
		want(e.PlanState == plan.StateDone, "the plan is %q", e.PlanState)
		want(e.LetterStatus == letter.FinalSucceeded && e.LetterEnded == "replay "+e.Plan, "the letter ended as %q by %q", e.LetterStatus, e.LetterEnded)
		want(e.Plan != "" && e.ReplayBatchID == e.Plan, "the record names plan %q, not %q", e.ReplayBatchID, e.Plan)
		counted("outputs", len(e.Outputs), 1)
		want(slices.ContainsFunc(e.History, func(s string) bool { return strings.HasPrefix(s, "FAILED_FINAL ") }), "the task had not failed for good: %v", e.History)
	default:
		want(false, "no drill is called %q", name)
	}
	return wrong
}
