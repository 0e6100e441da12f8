package report

import (
	"context"
	"fmt"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/letter"
)

// group writes the page of a group and returns what it says.
func (w *writer) group(ctx context.Context, src Source, r *Report, g *group) (*Group, error) {
	v := g.view()
	v.Batches = append(v.Batches, w.byGroup[g.fingerprint]...)
	evidence, err := src.Evidence(ctx, g.fingerprint)
	if err != nil {
		return nil, err
	}
	for _, e := range evidence {
		row := Evidence{
			Fingerprint: g.fingerprint, Probe: visible(e.Probe, cutName), OK: e.OK, Result: visible(e.Result, cutText), Letters: len(e.LetterIDs),
			At: e.At.UTC(), By: visible(e.By, cutName),
		}
		r.Repairs.Evidence++
		if e.OK {
			r.Repairs.OK++
		} else {
			r.Repairs.Failed++
		}
		if err := w.repairs.add(row); err != nil {
			return nil, err
		}
		v.Evidence = append(v.Evidence, row)
		g.verified = e.OK
	}
	g.evidence = len(evidence)
	if g.evidence > 0 {
		r.Repairs.Groups++
	}
	if !g.verified && v.Open[deadletter.RepairRequired] > 0 {
		r.Repairs.Missing++
	}
	if shown := len(v.Evidence); shown > maxEvidence {
		v.Evidence = v.Evidence[shown-maxEvidence:]
	}
	for i := range v.Sample {
		if e := &v.Sample[i]; e.Open() && w.Gates != nil && w.asked < maxAsked {
			w.asked++
			gates, err := w.Gates(ctx, e.LetterID)
			if err != nil {
				return nil, fmt.Errorf("ask gates: %w", err)
			}
			for _, row := range gates {
				row.Name, row.Reason = visible(row.Name, cutName), visible(row.Reason, cutText)
				e.Gates = append(e.Gates, row)
			}
		}
	}
	data := groupPage{Group: v, Next: nextStep(v, g.verified), EvidenceTotal: int64(g.evidence), Gated: w.Gates != nil}
	return v, w.render(v.Page, "group", v.Fingerprint+" · "+v.Code, "groups", data)
}

// maxAsked bounds for how many letters of a report gates are asked, those that
// expire soonest first: each takes a number of calls.
const maxAsked = 500

// maxEvidence is how many of the latest probe runs a group's page shows.
const maxEvidence = 50

type groupPage struct {
	*Group
	Next          []string // commands
	EvidenceTotal int64
	Gated         bool
}

// nextStep is the commands that help with what is open in a group.
func nextStep(g *Group, verified bool) []string {
	var all []string
	if g.Open[deadletter.ManualReview] > 0 {
		all = append(all, "oncegate dlq events "+g.Fingerprint+" --open")
	}
	if g.Open[deadletter.RepairRequired] > 0 && !verified && g.Code != string(letter.CodePolicyRejected) {
		all = append(all, "oncegate dlq repair verify "+g.Fingerprint)
	}
	if g.Open[deadletter.ReplayCandidate] > 0 || g.Open[deadletter.RepairRequired] > 0 && verified {
		all = append(all, "oncegate dlq plan "+g.Fingerprint+" --reason TEXT")
	}
	if g.Open[deadletter.SkipCompleted] > 0 {
		all = append(all, "oncegate dlq sweep")
	}
	return all
}
