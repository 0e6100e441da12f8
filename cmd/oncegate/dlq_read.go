package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/idempotency"
)

// nextStep says what may be done after each decision.
var nextStep = map[deadletter.Decision]string{
	deadletter.SkipCompleted:   "oncegate dlq sweep --execute closes it",
	deadletter.ReplayCandidate: "wait until the gates pass, then oncegate dlq plan",
	deadletter.RepairRequired:  "repair the cause, then oncegate dlq repair verify; or oncegate dlq migrate, or resolve --as discard",
	deadletter.ManualReview:    "oncegate review list; or oncegate dlq reclassify, or resolve --as discard|completed_elsewhere",
}

func (a *app) dlqExplainCommand() *cobra.Command {
	var flowsFile string
	cmd := &cobra.Command{
		Use:   "explain EVENT|FINGERPRINT",
		Short: "Say which rule decides about a letter, what each gate says, and what may be done next",
		Long: `Say which rule decides about a letter, what record it read, the state of the task's
side effects, what each gate says and why, and what may be done next. Reading
changes nothing; payloads are not shown.`,
		Example: `  oncegate dlq explain evt-1008
  oncegate dlq explain 3edcecc95052 --output json`,
		Args: cobra.ExactArgs(1),
		RunE: runE(func(ctx context.Context, args []string) error {
			r, done, err := a.openReplays(ctx, flowsFile, "")
			if err != nil {
				return err
			}
			defer done()
			found, _, err := pick(ctx, r.desk, args[0], false)
			if err != nil {
				return err
			}
			views := []explainView{}
			for i, j := range found {
				e := deadletter.Explained{Judgement: j}
				if j.Letter.Open() {
					if e, err = r.planner().Explain(ctx, j); err != nil {
						return err
					}
				}
				if a.output == outputJSON {
					views = append(views, explainOf(e))
					continue
				}
				if i > 0 {
					fmt.Fprintln(a.out)
				}
				a.explain(e)
			}
			if a.output == outputJSON {
				return printJSON(a.out, struct {
					SchemaVersion int           `json:"schema_version"`
					Letters       []explainView `json:"letters"`
					Complete      bool          `json:"complete"`
				}{1, views, true}, true)
			}
			return nil
		}),
	}
	a.deskFlags(cmd, &flowsFile)
	a.outputFlag(cmd, outputTable, outputJSON)
	return cmd
}

// explainView is a letter with everything that is decided about it.
type explainView struct {
	letterView
	Gates   []gateView       `json:"gates"`
	Effects []taskEffectView `json:"effects"`
	PlanID  string           `json:"plan_id"`
	Next    string           `json:"next"`
}

type taskEffectView struct {
	Name           string                  `json:"name"`
	Kind           idempotency.TargetKind  `json:"kind"`
	State          idempotency.EffectState `json:"state"`
	Outcome        idempotency.Outcome     `json:"outcome"`
	TargetRecordID string                  `json:"target_record_id"`
}

func explainOf(e deadletter.Explained) explainView {
	v := explainView{letterView: letterOf(e.Judgement), Gates: gatesOf(e), Effects: []taskEffectView{}, Next: nextOf(e)}
	if e.Plan != nil {
		v.PlanID = e.Plan.ID
	}
	if e.Judgement.Record != nil {
		for _, one := range e.Judgement.Record.Effects {
			v.Effects = append(v.Effects, taskEffectView{one.Name, one.Kind, one.State, one.Outcome, one.TargetRecordID})
		}
	}
	return v
}

func (a *app) explain(e deadletter.Explained) {
	j, v := e.Judgement, explainOf(e)
	record := "none: the function has never claimed this business"
	if j.Record != nil {
		record = fmt.Sprintf("%s, attempt %d of %d, key %s", j.Record.Status, j.Record.Attempt, j.Record.AttemptBudget, short(j.Record.Key))
		if j.Record.InputDigest != j.Letter.InputDigest {
			record += ", of another input"
		}
	}
	review := ""
	if j.Review != nil {
		review = fmt.Sprintf("%s %s, %s", j.Review.Kind, short(j.Review.ID), j.Review.State)
	}
	lives := ""
	for _, life := range j.Letter.History {
		lives += fmt.Sprintf("%s in generation %d%s; ", life.Code, life.Generation, said(life.Batch != "", " failed again in "+life.Batch)+said(life.FinalStatus != "", " ended as "+string(life.FinalStatus)))
	}
	for _, pair := range [][2]string{
		{"letter", v.ID},
		{"event", v.EventSource + " " + v.EventID},
		{"flow", v.Flow},
		{"fingerprint", v.Fingerprint},
		{"code", fmt.Sprintf("%s (%s) of %s", v.ErrorCode, v.Class, v.Target)},
		{"reason", v.Reason},
		{"record", record},
		{"review", review},
		{"decision", string(v.Decision)},
		{"rule", v.Rule},
		{"migrated", said(j.Letter.ParentID != "", fmt.Sprintf("by %s from letter %s, event %s at first", j.Letter.Migration, short(j.Letter.ParentID), j.Letter.OriginalEventID))},
		{"child", said(j.Letter.ChildID != "", "letter "+short(j.Letter.ChildID)+" goes on in its place")},
		{"former lives", lives},
		{"ended", said(v.FinalStatus != "", fmt.Sprintf("%s by %s: %s", v.FinalStatus, v.ClosedBy, v.CloseReason))},
		{"raw event", said(j.Letter.RawRef != "", objectOf(j.Letter.RawRef)+" in the bucket")},
		{"seen", fmt.Sprintf("%d times, %s to %s", v.Sightings, v.FirstFailed, v.LastFailed)},
		{"expires", v.ExpiresAt},
		{"next", v.Next},
	} {
		if pair[1] != "" && pair[1] != " " {
			fmt.Fprintf(a.out, "%-12s %s\n", pair[0], inert(pair[1]))
		}
	}
	for _, one := range v.Effects {
		fmt.Fprintf(a.out, "%-12s %s\n", "effect", inert(fmt.Sprintf("%s (%s): %s %s %s", one.Name, one.Kind, one.State, one.Outcome, one.TargetRecordID)))
	}
	if j.Letter.Open() {
		a.printGates(e)
	}
}
