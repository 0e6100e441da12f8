package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/idempotency"
)

func (a *app) dlqEventsCommand() *cobra.Command {
	var flowsFile string
	var open bool
	cmd := &cobra.Command{
		Use:   "events [FINGERPRINT]",
		Short: "List dead letters with the decision about each",
		Args:  cobra.MaximumNArgs(1),
		RunE: runE(func(ctx context.Context, args []string) error {
			d, done, err := a.openDesk(flowsFile)
			if err != nil {
				return err
			}
			defer done()
			fmt.Fprintf(a.err, "scanning table %s ...\n", letter.LetterTable.Name)
			views := []letterView{}
			sorted, err := judged(ctx, d, func(l letter.Letter) bool { return !open || l.Open() }, func(j deadletter.Judgement) error {
				if len(args) == 0 || j.Fingerprint == args[0] || j.Letter.Fingerprint == args[0] {
					views = append(views, letterOf(j))
				}
				return nil
			})
			if err != nil {
				return err
			}
			return a.printLetters(views, sorted)
		}),
	}
	cmd.Flags().BoolVar(&open, "open", false, "open letters only")
	a.deskFlags(cmd, &flowsFile)
	a.outputFlag(cmd, outputTable, outputJSON, outputJSONL)
	return cmd
}

// groupView is the letters of one fingerprint.
type groupView struct {
	Fingerprint string         `json:"fingerprint"`
	ErrorCode   letter.Code    `json:"error_code"`
	Target      string         `json:"target"`
	Open        int            `json:"open"`
	Closed      int            `json:"closed"`
	Decisions   map[string]int `json:"decisions"` // of the open ones
	FirstFailed string         `json:"first_failed_at"`
	LastFailed  string         `json:"last_failed_at"`
}

func (a *app) groups(ctx context.Context, d *deadletter.Desk) ([]groupView, error) {
	byPrint := map[string]*groupView{}
	_, err := judged(ctx, d, func(letter.Letter) bool { return true }, func(j deadletter.Judgement) error {
		g := byPrint[j.Fingerprint]
		if g == nil {
			g = &groupView{Fingerprint: j.Fingerprint, ErrorCode: j.Code, Target: j.Target, Decisions: map[string]int{}, FirstFailed: utc(j.Letter.FirstFailedAt)}
			byPrint[j.Fingerprint] = g
		}
		g.FirstFailed, g.LastFailed = min(g.FirstFailed, utc(j.Letter.FirstFailedAt)), max(g.LastFailed, utc(j.Letter.LastFailedAt))
		if !j.Letter.Open() {
			g.Closed++
			return nil
		}
		g.Open++
		g.Decisions[string(j.Decision)]++
		return nil
	})
	all := make([]groupView, 0, len(byPrint))
	for _, g := range byPrint {
		all = append(all, *g)
	}
	slices.SortFunc(all, func(x, y groupView) int {
		return cmp.Or(cmp.Compare(y.Open, x.Open), cmp.Compare(x.Fingerprint, y.Fingerprint))
	})
	return all, err
}

func (a *app) dlqGroupsCommand() *cobra.Command {
	var flowsFile string
	cmd := &cobra.Command{
		Use:   "groups",
		Short: "Group dead letters by fingerprint: one fault is one group",
		Args:  cobra.NoArgs,
		RunE: runE(func(ctx context.Context, _ []string) error {
			d, done, err := a.openDesk(flowsFile)
			if err != nil {
				return err
			}
			defer done()
			all, err := a.groups(ctx, d)
			if err != nil {
				return err
			}
			switch a.output {
			case outputJSON:
				return printJSON(a.out, struct {
					SchemaVersion int         `json:"schema_version"`
					Groups        []groupView `json:"groups"`
					Complete      bool        `json:"complete"`
				}{1, all, true}, true)
			case outputJSONL:
				for _, g := range all {
					if err := printJSON(a.out, g, false); err != nil {
						return err
					}
				}
				return nil
			}
			var rows [][]string
			for _, g := range all {
				decisions := ""
				for _, name := range slices.Sorted(maps.Keys(g.Decisions)) {
					decisions += fmt.Sprintf("%s %d  ", name, g.Decisions[name])
				}
				rows = append(rows, []string{
					g.Fingerprint, string(g.ErrorCode), g.Target, strconv.Itoa(g.Open), strconv.Itoa(g.Closed), decisions, g.LastFailed,
				})
			}
			printTable(a.out, []string{"fingerprint", "code", "target", "open", "closed", "decisions", "last failed"}, rows)
			fmt.Fprintf(a.err, "%d groups, complete\n", len(all))
			return nil
		}),
	}
	a.deskFlags(cmd, &flowsFile)
	a.outputFlag(cmd, outputTable, outputJSON, outputJSONL)
	return cmd
}

func (a *app) dlqStatusCommand() *cobra.Command {
	var flowsFile string
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Count dead letters by decision and by how they ended",
		Args:  cobra.NoArgs,
		RunE: runE(func(ctx context.Context, _ []string) error {
			d, done, err := a.openDesk(flowsFile)
			if err != nil {
				return err
			}
			defer done()
			decisions, ends := map[string]int{}, map[string]int{}
			_, err = judged(ctx, d, func(letter.Letter) bool { return true }, func(j deadletter.Judgement) error {
				if j.Letter.Open() {
					decisions[string(j.Decision)]++
				} else {
					ends[string(j.Letter.FinalStatus)]++
				}
				return nil
			})
			if err != nil {
				return err
			}
			if a.output == outputJSON {
				return printJSON(a.out, struct {
					SchemaVersion int            `json:"schema_version"`
					Open          map[string]int `json:"open"`
					Closed        map[string]int `json:"closed"`
					Complete      bool           `json:"complete"`
				}{1, decisions, ends, true}, true)
			}
			var rows [][]string
			for _, m := range []struct {
				what   string
				counts map[string]int
			}{{"open", decisions}, {"closed", ends}} {
				for _, name := range slices.Sorted(maps.Keys(m.counts)) {
					rows = append(rows, []string{m.what, name, strconv.Itoa(m.counts[name])})
				}
			}
			printTable(a.out, []string{"letters", "decision or end", "count"}, rows)
			return nil
		}),
	}
	a.deskFlags(cmd, &flowsFile)
	a.outputFlag(cmd, outputTable, outputJSON)
	return cmd
}

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
			r, done, err := a.openReplays(ctx, flowsFile)
			if err != nil {
				return err
			}
			defer done()
			found, err := pick(ctx, r.desk, args[0], false)
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
