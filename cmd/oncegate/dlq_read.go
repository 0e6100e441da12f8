package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/messages"
)

// nextStep says what may be done after each decision.
var nextStep = map[deadletter.Decision]messages.Text{
	deadletter.SkipCompleted:   messages.T("oncegate dlq sweep --execute closes it"),
	deadletter.ReplayCandidate: messages.T("wait until the gates pass, then oncegate dlq plan"),
	deadletter.RepairRequired:  messages.T("repair the cause, then oncegate dlq repair verify; or oncegate dlq migrate, or resolve --as discard"),
	deadletter.ManualReview:    messages.T("oncegate review list; or oncegate dlq reclassify, or resolve --as discard|completed_elsewhere"),
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
	v := explainView{letterView: letterOf(e.Judgement), Gates: gatesOf(e), Effects: []taskEffectView{}, Next: nextOf(e).String()}
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

// explain prints a letter for a person.
func (a *app) explain(e deadletter.Explained) {
	j, v := e.Judgement, explainOf(e)
	record := messages.T("none: the function has never claimed this business")
	if j.Record != nil {
		record = messages.T("%s, attempt %d of %d, key %s", j.Record.Status, j.Record.Attempt, j.Record.AttemptBudget, short(j.Record.Key))
		if j.Record.InputDigest != j.Letter.InputDigest {
			record = messages.T("%s, of another input", record)
		}
	}
	lines := []labelled{
		{messages.T("letter"), v.ID},
		{messages.T("event"), strings.TrimSpace(v.EventSource + " " + v.EventID)},
		{messages.T("flow"), v.Flow},
		{messages.T("fingerprint"), v.Fingerprint},
		{messages.T("code"), messages.T("%s (%s) of %s", v.ErrorCode, v.Class, v.Target)},
		{messages.T("reason"), v.Reason},
		{messages.T("record"), record},
	}
	add := func(say bool, label messages.Text, value any) {
		if say {
			lines = append(lines, labelled{label, value})
		}
	}
	if j.Review != nil {
		add(true, messages.T("review"), fmt.Sprintf("%s %s, %s", j.Review.Kind, short(j.Review.ID), j.Review.State))
	}
	add(true, messages.T("decision"), v.Decision)
	add(true, messages.T("rule"), j.Rule)
	add(j.Letter.ParentID != "", messages.T("migrated"), messages.T("by %s from letter %s, event %s at first", j.Letter.Migration, short(j.Letter.ParentID), j.Letter.OriginalEventID))
	add(j.Letter.ChildID != "", messages.T("child"), messages.T("letter %s goes on in its place", short(j.Letter.ChildID)))
	add(true, messages.T("former lives"), a.lives(j.Letter))
	add(v.FinalStatus != "", messages.T("ended"), messages.T("%s by %s: %s", v.FinalStatus, v.ClosedBy, v.CloseReason))
	add(j.Letter.RawRef != "", messages.T("raw event"), messages.T("%s in the bucket", objectOf(j.Letter.RawRef)))
	add(true, messages.T("seen"), messages.T("%d times, %s to %s", v.Sightings, v.FirstFailed, v.LastFailed))
	add(true, messages.T("expires"), v.ExpiresAt)
	add(true, messages.T("next"), nextOf(e))
	for _, one := range v.Effects {
		add(true, messages.T("effect"), fmt.Sprintf("%s (%s): %s %s %s", one.Name, one.Kind, one.State, one.Outcome, one.TargetRecordID))
	}
	a.printLabelled(12, lines)
	if j.Letter.Open() {
		a.printGates(e)
	}
}

// lives says what became of a letter in its former generations.
func (a *app) lives(l letter.Letter) string {
	var b strings.Builder
	for _, life := range l.History {
		b.WriteString(a.say.Text(messages.T("%s in generation %d", life.Code, life.Generation)))
		if life.Batch != "" {
			b.WriteString(a.say.Text(messages.T(" failed again in %s", life.Batch)))
		}
		if life.FinalStatus != "" {
			b.WriteString(a.say.Text(messages.T(" ended as %s", life.FinalStatus)))
		}
		b.WriteString("; ")
	}
	return b.String()
}
