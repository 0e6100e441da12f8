package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
)

func TestDrillsPassOnTheProductAndPrintTheirEvidence(t *testing.T) {
	var out, errOut bytes.Buffer
	if code := run([]string{"drill", "--function", functionBinary, "--output", "json"}, strings.NewReader(""), &out, &errOut, os.Getenv); code != 0 {
		t.Fatalf("exit code %d\n%s\n%s", code, out.String(), errOut.String())
	}
	var report drillReport
	d := json.NewDecoder(&out)
	d.DisallowUnknownFields()
	if err := d.Decode(&report); err != nil || report.SchemaVersion != 1 || len(report.Drills) != 5 {
		t.Fatalf("%+v %v", report, err)
	}
	for _, one := range report.Drills {
		if !one.Passed || len(one.Wrong) > 0 || one.Evidence.Key == "" || !strings.Contains(errOut.String(), one.Name) {
			t.Errorf("%+v", one)
		}
		// Each other drill's evidence is none for this one.
		for _, other := range report.Drills {
			if other.Name != one.Name && len(judgeDrill(one.Name, other.Evidence)) == 0 {
				t.Errorf("%s passes with the evidence of %s", one.Name, other.Name)
			}
		}
	}
}

// passing is evidence that a drill passes with.
func passing(name string) drillEvidence {
	e := drillEvidence{
		Key: "k", Status: idempotency.StatusSucceeded, Revision: 2, FirstRevision: 2, Attempt: 1, History: []string{"RUNNING 1", "SUCCEEDED 1"},
		ResultRef: "tasks/k/attempt-001/output.json", Outputs: []string{"tasks/k/attempt-001/output.json"}, ModelCalls: 1, Notifications: 1, Processes: 2, Claims: 2,
	}
	switch name {
	case drillTwice:
		e.Decisions = []handler.Decision{handler.DecisionExecuted, handler.DecisionDuplicate}
	case drillRace:
		e.Decisions = []handler.Decision{handler.DecisionInProgress, handler.DecisionExecuted, handler.DecisionDuplicate}
	case drillModel:
		e.Decisions = []handler.Decision{handler.DecisionRetry, handler.DecisionExecuted}
		e.ModelCalls, e.Attempt, e.ResultRef = 2, 2, "tasks/k/attempt-002/output.json"
		e.Outputs, e.History = []string{e.ResultRef}, []string{"RUNNING 1", "FAILED_RETRYABLE 1 timeout", "RUNNING 2", "SUCCEEDED 2"}
	case drillExit:
		e.Decisions = []handler.Decision{handler.DecisionRetry, handler.DecisionExecuted}
		e.Killed, e.StoredAtKilling, e.Attempt = 1, 1, 2
	case drillReplay:
		e.LetterID, e.LetterCode, e.Plan, e.PlanState, e.MadeBy = "l", letter.CodeTimeout, "rp-1", plan.StateDone, "operator"
		e.Verdict, e.VerdictBy, e.LetterStatus, e.LetterEnded, e.ReplayBatchID = plan.VerdictApproved, "approver", letter.FinalSucceeded, "replay rp-1", "rp-1"
		e.History = []string{"FAILED_FINAL 2 timeout", "SUCCEEDED 3"}
	}
	return e
}

func TestADrillFailsWithoutAnyPartOfItsEvidence(t *testing.T) {
	all := []string{drillTwice, drillRace, drillModel, drillExit, drillReplay}
	for name, c := range map[string]struct {
		drills string // that notice
		spoil  func(*drillEvidence)
	}{
		"another status":                {strings.Join(all, " "), func(e *drillEvidence) { e.Status = idempotency.StatusRunning }},
		"two steps to success":          {strings.Join(all, " "), func(e *drillEvidence) { e.History = append(e.History, "SUCCEEDED 9") }},
		"a result that is not stored":   {strings.Join(all, " "), func(e *drillEvidence) { e.Outputs = []string{"tasks/k/attempt-009/output.json"} }},
		"two outputs":                   {strings.Join(all, " "), func(e *drillEvidence) { e.Outputs = append(e.Outputs, "x") }},
		"one more model call":           {drillTwice + drillRace + drillModel + drillExit, func(e *drillEvidence) { e.ModelCalls++ }},
		"one more notification":         {drillTwice + drillRace, func(e *drillEvidence) { e.Notifications++ }},
		"executed twice":                {drillTwice + drillRace + drillModel + drillExit, func(e *drillEvidence) { e.Decisions = append(e.Decisions, handler.DecisionExecuted) }},
		"one more attempt":              {drillTwice + drillRace + drillModel + drillExit, func(e *drillEvidence) { e.Attempt++ }},
		"a write by the second":         {drillTwice, func(e *drillEvidence) { e.Revision++ }},
		"one process":                   {drillRace, func(e *drillEvidence) { e.Processes = 1 }},
		"no race":                       {drillRace, func(e *drillEvidence) { e.Claims = 1 }},
		"no time-out":                   {drillModel + drillReplay, func(e *drillEvidence) { e.History = []string{"RUNNING 1", "SUCCEEDED 2"} }},
		"nobody killed":                 {drillExit, func(e *drillEvidence) { e.Killed = 0 }},
		"killed too early":              {drillExit, func(e *drillEvidence) { e.StoredAtKilling = 0 }},
		"no letter":                     {drillReplay, func(e *drillEvidence) { e.LetterID = "" }},
		"a letter of another kind":      {drillReplay, func(e *drillEvidence) { e.LetterCode = letter.CodeThrottled }},
		"the maker's own yes":           {drillReplay, func(e *drillEvidence) { e.VerdictBy = e.MadeBy }},
		"no yes":                        {drillReplay, func(e *drillEvidence) { e.Verdict, e.VerdictBy = "", "" }},
		"a letter that is open":         {drillReplay, func(e *drillEvidence) { e.LetterStatus = "" }},
		"a letter ended by another way": {drillReplay, func(e *drillEvidence) { e.LetterEnded = "sweep" }},
		"a plan that is not done":       {drillReplay, func(e *drillEvidence) { e.PlanState = plan.StateStopped }},
		"a record that names no plan":   {drillReplay, func(e *drillEvidence) { e.ReplayBatchID = "" }},
	} {
		for _, drill := range all {
			e := passing(drill)
			if wrong := judgeDrill(drill, e); len(wrong) > 0 {
				t.Fatalf("%s: %v", drill, wrong)
			}
			c.spoil(&e)
			if noticed := len(judgeDrill(drill, e)) > 0; noticed != strings.Contains(c.drills, drill) {
				t.Errorf("%s, %s: noticed: %v", name, drill, noticed)
			}
		}
	}
}
