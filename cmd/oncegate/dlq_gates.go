package main

import (
	"fmt"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/internal/messages"
)

// gateView is one gate's answer as it is printed.
type gateView struct {
	Gate   deadletter.GateName `json:"gate"`
	Pass   bool                `json:"pass"`
	Reason string              `json:"reason"`
	Until  string              `json:"until"`
}

func gatesOf(e deadletter.Explained) []gateView {
	views := []gateView{}
	for _, g := range e.Gates {
		views = append(views, gateView{g.Name, g.Pass, g.Reason.String(), utc(g.Until)})
	}
	return views
}

func (a *app) printGates(e deadletter.Explained) {
	var rows [][]string
	for _, g := range e.Gates {
		verdict, reason := messages.T("refuses"), g.Reason
		if g.Pass {
			verdict = messages.T("passes")
		}
		if !g.Until.IsZero() {
			reason = messages.T("%s, until %s", reason, utc(g.Until))
		}
		rows = append(rows, []string{string(g.Name), a.say.Text(verdict), a.say.Text(reason)})
	}
	fmt.Fprintln(a.out)
	printTable(a.out, a.words(messages.T("gate"), messages.T("says"), messages.T("because")), rows)
}

// nextOf says what may be done about an open letter next.
func nextOf(e deadletter.Explained) messages.Text {
	j := e.Judgement
	passes, first := true, deadletter.Gate{}
	for _, g := range e.Gates {
		if g.Name != deadletter.GateApproval && !g.Pass {
			passes, first = false, g
			break
		}
	}
	switch {
	case !j.Letter.Open():
		return messages.T("nothing: the letter has ended")
	case j.Code == letter.CodeParked && j.Decision == deadletter.ManualReview:
		return messages.T("turn the flow on (enabled: true); a plan then brings it back")
	case j.Code == letter.CodeWrongEnvironment:
		return messages.T("publish it on the bus of its own environment; or oncegate dlq resolve --as discard")
	case e.Plan != nil && e.Plan.State == plan.StatePaused:
		return messages.T("oncegate dlq resume %s", e.Plan.ID)
	case e.Plan != nil:
		return messages.T("it waits in plan %s (%s): oncegate dlq show %s", e.Plan.ID, e.Plan.State, e.Plan.ID)
	case passes:
		return messages.T("oncegate dlq plan %s --reason ...", j.Fingerprint)
	case first.Name == deadletter.GateRepair && j.Decision == deadletter.RepairRequired:
		return messages.T("repair the cause, then oncegate dlq repair verify %s; or oncegate dlq migrate, or resolve --as discard", j.Fingerprint)
	}
	return nextStep[j.Decision]
}
