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
	deadletter.ReplayCandidate: "publish the event again, or leave it for a replay plan (a later version)",
	deadletter.RepairRequired:  "repair the cause, then oncegate dlq repair verify; or oncegate dlq migrate where the data must change; or oncegate dlq resolve --as discard",
	deadletter.ManualReview:    "oncegate review list; or oncegate dlq reclassify, or resolve --as discard|completed_elsewhere",
}

func (a *app) dlqExplainCommand() *cobra.Command {
	var flowsFile string
	cmd := &cobra.Command{
		Use:   "explain EVENT|FINGERPRINT",
		Short: "Say which rule decides about a letter, what record it read, and what may be done next",
		Args:  cobra.ExactArgs(1),
		RunE: runE(func(ctx context.Context, args []string) error {
			d, done, err := a.openDesk(flowsFile)
			if err != nil {
				return err
			}
			defer done()
			found, err := pick(ctx, d, args[0], false)
			if err != nil {
				return err
			}
			if a.output == outputJSON {
				views := make([]letterView, len(found))
				for i, j := range found {
					views[i] = letterOf(j)
				}
				return printJSON(a.out, struct {
					SchemaVersion int          `json:"schema_version"`
					Letters       []letterView `json:"letters"`
				}{1, views}, true)
			}
			for i, j := range found {
				if i > 0 {
					fmt.Fprintln(a.out)
				}
				a.explain(j)
			}
			return nil
		}),
	}
	a.deskFlags(cmd, &flowsFile)
	a.outputFlag(cmd, outputTable, outputJSON)
	return cmd
}

func (a *app) explain(j deadletter.Judgement) {
	v := letterOf(j)
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
	next := nextStep[j.Decision]
	switch {
	case j.Code == letter.CodeParked && j.Decision == deadletter.ManualReview:
		next = "turn the flow on (enabled: true), then publish the event again"
	case j.Code == letter.CodeWrongEnvironment:
		next = "publish it on the bus of its own environment; or oncegate dlq resolve --as discard"
	}
	if !j.Letter.Open() {
		next = "nothing: the letter has ended"
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
		{"migrated", said(j.Letter.ParentID != "", fmt.Sprintf("by %s from letter %s, event %s at first; generation %d", j.Letter.Migration, short(j.Letter.ParentID), j.Letter.OriginalEventID, j.Letter.Generation))},
		{"child", said(j.Letter.ChildID != "", "letter "+short(j.Letter.ChildID)+" goes on in its place")},
		{"ended", said(v.FinalStatus != "", fmt.Sprintf("%s by %s: %s", v.FinalStatus, v.ClosedBy, v.CloseReason))},
		{"raw event", said(j.Letter.RawRef != "", j.Letter.RawRef+" in the bucket")},
		{"seen", fmt.Sprintf("%d times, %s to %s", v.Sightings, v.FirstFailed, v.LastFailed)},
		{"next", next},
	} {
		if pair[1] != "" && pair[1] != " " {
			fmt.Fprintf(a.out, "%-12s %s\n", pair[0], inert(pair[1]))
		}
	}
	if j.Record == nil {
		return
	}
	for _, e := range j.Record.Effects {
		fmt.Fprintf(a.out, "%-12s %s\n", "effect", inert(fmt.Sprintf("%s (%s): %s %s %s", e.Name, e.Kind, e.State, e.Outcome, e.TargetRecordID)))
	}
}
