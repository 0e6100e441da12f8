package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/internal/messages"
)

// planView is a plan as it is printed.
type planView struct {
	ID          string          `json:"id"`
	State       plan.State      `json:"state"`
	Fingerprint string          `json:"fingerprint"`
	ErrorCode   letter.Code     `json:"error_code"`
	Target      string          `json:"target"`
	Reason      string          `json:"reason"`
	Digest      string          `json:"digest"`
	Count       int64           `json:"count"`
	HighImpact  []string        `json:"high_impact"`
	Evidence    string          `json:"evidence"`
	Stages      []int64         `json:"stages"`
	ObserveMS   int64           `json:"observe_ms"`
	Rate        float64         `json:"rate_per_second"`
	Concurrency int64           `json:"concurrency"`
	MaxErrors   int64           `json:"max_errors_pct"`
	MadeBy      string          `json:"made_by"`
	MadeAt      string          `json:"made_at"`
	Verdict     plan.Verdict    `json:"verdict"`
	VerdictBy   string          `json:"verdict_by"`
	VerdictAt   string          `json:"verdict_at"`
	StoppedBy   string          `json:"stopped_by"`
	StopReason  string          `json:"stop_reason"`
	Stage       int64           `json:"stage"`
	Runs        []plan.StageRun `json:"runs"`
	Counts      plan.Counts     `json:"counts"`
}

func planViewOf(p plan.Plan, a *plan.Approval) planView {
	v := planView{
		ID: p.ID, State: p.State, Fingerprint: p.Fingerprint, ErrorCode: p.Code, Target: p.Target, Reason: p.Reason, Digest: p.Digest, Count: p.Count,
		HighImpact: append([]string{}, p.HighImpact...), Evidence: p.Evidence, Stages: p.Stages, ObserveMS: p.ObserveMS,
		Rate: float64(p.RateMilli) / 1000, Concurrency: p.Concurrency, MaxErrors: p.MaxErrors, MadeBy: p.MadeBy, MadeAt: utc(time.UnixMilli(p.MadeAt)),
		StoppedBy: p.StoppedBy, StopReason: p.StopReason, Stage: p.Stage, Runs: append([]plan.StageRun{}, p.Runs...), Counts: p.Counts,
	}
	if a = p.Given(a); a != nil {
		v.Verdict, v.VerdictBy, v.VerdictAt = a.Verdict, a.By, utc(a.At)
	}
	return v
}

func newPlanID() string {
	var b [8]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

func (a *app) dlqPlanCommand() *cobra.Command {
	var flowsFile, reason string
	var limit int64
	var change changeFlags
	cmd := &cobra.Command{
		Use:   "plan FINGERPRINT --reason TEXT",
		Short: "Freeze the letters of one group that may be replayed, for a person to approve",
		Long: `Freeze the letters of one group that may be replayed, for a person to approve.

Every gate is asked about every letter of the group; those that pass are written
down with their ids, revisions and hashes under one digest. The plan is that list:
letters that come later are not in it. It sends nothing. What is left out is
counted with the reason. Stages, rate, stop conditions and what makes a plan one
of high impact stand in the section replay of flows.yaml.`,
		Example: `  oncegate dlq plan 3edcecc95052 --reason "the worker is back since 10:20"
  oncegate dlq plan 3edcecc95052 --reason "the worker is back" --limit 50 --execute --yes`,
		Args: cobra.ExactArgs(1),
		RunE: runE(func(ctx context.Context, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return usageErrorf("--reason is needed: the approver reads it")
			}
			if limit < 0 {
				return usageErrorf("--limit must be positive")
			}
			r, done, err := a.openReplays(ctx, flowsFile, "plan")
			if err != nil {
				return err
			}
			defer done()
			request := deadletter.Request{Fingerprint: args[0], Reason: reason, By: r.by, Limit: limit, Progress: func(seen, taken int64) {
				if seen%10000 == 0 {
					fmt.Fprintf(a.err, "%d letters seen, %d taken ...\n", seen, taken)
				}
			}}
			fmt.Fprintf(a.err, "asking the gates about the letters of %s ...\n", inert(args[0]))
			draft, err := r.planner().Draft(ctx, request)
			if errors.Is(err, deadletter.ErrNothingToPlan) {
				a.printExcluded(draft)
				if len(draft.Excluded) == 0 {
					return notFoundf("group %s has no open letter: oncegate dlq groups shows all", inert(args[0]))
				}
				return refusedf("no letter of group %s may be replayed now: the table says which gate refuses", inert(args[0]))
			}
			if err != nil {
				return err
			}
			do, err := a.confirm(change, fmt.Sprintf("freeze %d events of %s in a plan", draft.Plan.Count, args[0]))
			if err != nil {
				return err
			}
			if do {
				if draft, err = r.planner().Make(ctx, request); err != nil {
					return err
				}
			}
			return a.printDraft(draft, do)
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why these events may be replayed now (required)")
	cmd.Flags().Int64Var(&limit, "limit", 0, "at most so many events (default: all that pass)")
	change.add(cmd)
	a.deskFlags(cmd, &flowsFile)
	a.outputFlag(cmd, outputTable, outputJSON)
	return cmd
}

type excludedView struct {
	Gate   deadletter.GateName `json:"gate"`
	Reason string              `json:"reason"`
	Count  int64               `json:"count"`
}

func (a *app) printDraft(d deadletter.Draft, stored bool) error {
	v := planViewOf(d.Plan, nil)
	if !stored {
		v.ID, v.Digest, v.State = "", "", "" // a draft has none: the list may be another when it is frozen
	}
	if a.output == outputJSON {
		excluded := []excludedView{}
		for _, e := range d.Excluded {
			excluded = append(excluded, excludedView{e.Gate, e.Reason.String(), e.Count})
		}
		return printJSON(a.out, struct {
			SchemaVersion int            `json:"schema_version"`
			Stored        bool           `json:"stored"`
			Plan          planView       `json:"plan"`
			Excluded      []excludedView `json:"excluded"`
			Complete      bool           `json:"complete"` // false: --limit left letters out that could have been taken
		}{1, stored, v, excluded, !d.More}, true)
	}
	a.printPlan(v)
	a.printExcluded(d)
	if d.More {
		fmt.Fprintln(a.err, "--limit left letters out that could have been taken")
	}
	if stored {
		next := "oncegate dlq approve " + d.Plan.ID
		if len(d.Plan.HighImpact) > 0 {
			next += ", by another identity than " + d.Plan.MadeBy
		}
		fmt.Fprintf(a.err, "next: oncegate dlq show %s, then %s\n", d.Plan.ID, next)
	}
	return nil
}

func (a *app) printExcluded(d deadletter.Draft) {
	if len(d.Excluded) == 0 || a.output == outputJSON {
		return
	}
	var rows [][]string
	for _, e := range d.Excluded {
		rows = append(rows, []string{strconv.FormatInt(e.Count, 10), string(e.Gate), a.say.Text(e.Reason)})
	}
	fmt.Fprintln(a.out)
	printTable(a.out, a.words(messages.T("left out"), messages.T("gate"), messages.T("why")), rows)
}

// printPlan prints a plan for a person who is to decide about it.
func (a *app) printPlan(v planView) {
	stages := make([]string, len(v.Stages))
	for i, n := range v.Stages {
		stages[i] = strconv.FormatInt(n, 10)
	}
	if len(stages) > 12 {
		stages = append(stages[:11], fmt.Sprintf("... %d stages", len(v.Stages)))
	}
	impact := "low: its maker may approve it"
	if len(v.HighImpact) > 0 {
		impact = "high, another identity must approve it: " + strings.Join(v.HighImpact, "; ")
	}
	verdict := "none yet"
	if v.Verdict != "" {
		verdict = fmt.Sprintf("%s by %s at %s", v.Verdict, v.VerdictBy, v.VerdictAt)
	}
	for _, pair := range [][2]string{
		{"plan", v.ID},
		{"state", string(v.State)},
		{"group", fmt.Sprintf("%s: %s of %s", v.Fingerprint, v.ErrorCode, v.Target)},
		{"events", strconv.FormatInt(v.Count, 10)},
		{"reason", v.Reason},
		{"made", v.MadeBy + " at " + v.MadeAt},
		{"impact", impact},
		{"evidence", said(v.Evidence != "", "digest "+short(v.Evidence)+" of all that was found about the group")},
		{"stages", fmt.Sprintf("%s; watched for %s each", strings.Join(stages, ", "), time.Duration(v.ObserveMS)*time.Millisecond)},
		{"pace", fmt.Sprintf("%g a second, %d in flight; stops above %d %% of errors", v.Rate, v.Concurrency, v.MaxErrors)},
		{"digest", v.Digest},
		{"verdict", verdict},
		{"ended", said(v.StopReason != "", fmt.Sprintf("by %s: %s", v.StoppedBy, v.StopReason))},
	} {
		if pair[1] != "" {
			fmt.Fprintf(a.out, "%-12s %s\n", pair[0], inert(pair[1]))
		}
	}
}

func (a *app) dlqShowCommand() *cobra.Command {
	var flowsFile string
	cmd := &cobra.Command{
		Use:   "show [PLAN]",
		Short: "Show a plan with its stages and where each event stands; without a name, list all plans",
		Args:  cobra.MaximumNArgs(1),
		RunE: runE(func(ctx context.Context, args []string) error {
			r, done, err := a.openReplays(ctx, flowsFile, "")
			if err != nil {
				return err
			}
			defer done()
			if len(args) == 0 {
				return a.listPlans(ctx, r)
			}
			p, err := r.find(ctx, args[0])
			if err != nil {
				return err
			}
			return a.showPlan(ctx, r, p)
		}),
	}
	a.deskFlags(cmd, &flowsFile)
	a.outputFlag(cmd, outputTable, outputJSON)
	return cmd
}

func (a *app) listPlans(ctx context.Context, r *replays) error {
	views := []planView{}
	for from, more := "", true; more; more = from != "" {
		page, next, err := r.plans.List(ctx, from, 500)
		if err != nil {
			return err
		}
		for _, p := range page {
			verdict, err := r.plans.Approval(ctx, p.ID)
			if err != nil {
				return err
			}
			views = append(views, planViewOf(p, verdict))
		}
		from = next
	}
	sortPlans(views)
	if a.output == outputJSON {
		return printJSON(a.out, struct {
			SchemaVersion int        `json:"schema_version"`
			Plans         []planView `json:"plans"`
			Complete      bool       `json:"complete"`
		}{1, views, true}, true)
	}
	var rows [][]string
	for _, v := range views {
		rows = append(rows, []string{
			v.ID, string(v.State), v.Fingerprint, strconv.FormatInt(v.Count, 10), string(v.Verdict), v.MadeBy, v.MadeAt,
			fmt.Sprintf("%d/%d/%d/%d/%d", v.Counts.Succeeded, v.Counts.Skipped, v.Counts.Refused, v.Counts.Failed, v.Counts.Unresolved),
		})
	}
	printTable(a.out, []string{"plan", "state", "group", "events", "verdict", "made by", "made at", "ok/skipped/refused/failed/unresolved"}, rows)
	fmt.Fprintf(a.err, "%d plans, complete, newest first\n", len(views))
	return nil
}

// itemView is one item of a plan as it is printed.
type itemView struct {
	LetterID       string       `json:"letter_id"`
	EventID        string       `json:"event_id"`
	Outcome        plan.Outcome `json:"outcome"`
	Reason         string       `json:"reason"`
	SentAt         string       `json:"sent_at"`
	EndedAt        string       `json:"ended_at"`
	Version        string       `json:"consumer_version"`
	NewFingerprint string       `json:"new_fingerprint"`
}

// maxItemsShown bounds what `show` holds of one plan.
const maxItemsShown = 1000

func (r *replays) items(ctx context.Context, p plan.Plan, each func(plan.Item) error) error {
	for from := int64(0); from >= 0; {
		page, next, err := r.plans.Items(ctx, p.ID, from, 1000)
		if err != nil {
			return err
		}
		for _, i := range page {
			if err := each(i); err != nil {
				return err
			}
		}
		from = next
	}
	return nil
}

func (a *app) showPlan(ctx context.Context, r *replays, p plan.Plan) error {
	verdict, err := r.plans.Approval(ctx, p.ID)
	if err != nil {
		return err
	}
	items, total := []itemView{}, 0
	if err := r.items(ctx, p, func(i plan.Item) error {
		if total++; total <= maxItemsShown {
			items = append(items, itemView{i.LetterID, i.EventID, i.Outcome, i.Reason, utc(i.SentAt), utc(i.EndedAt), i.Qualifier, i.NewFingerprint})
		}
		return nil
	}); err != nil {
		return err
	}
	v := planViewOf(p, verdict)
	if a.output == outputJSON {
		return printJSON(a.out, struct {
			SchemaVersion int        `json:"schema_version"`
			Plan          planView   `json:"plan"`
			Items         []itemView `json:"items"`
			Complete      bool       `json:"complete"`
		}{1, v, items, total <= maxItemsShown}, true)
	}
	a.printPlan(v)
	a.printRuns(v)
	var rows [][]string
	for _, i := range items {
		rows = append(rows, []string{short(i.LetterID), i.EventID, i.Version, string(i.Outcome), i.Reason})
	}
	fmt.Fprintln(a.out)
	printTable(a.out, []string{"letter", "event", "version", "outcome", "why"}, rows)
	a.printSum(p.Counts)
	if total > maxItemsShown {
		fmt.Fprintf(a.err, "the first %d of %d events\n", maxItemsShown, total)
	} else {
		fmt.Fprintf(a.err, "%d events, complete\n", total)
	}
	return nil
}

func (a *app) printRuns(v planView) {
	if len(v.Runs) == 0 {
		return
	}
	var rows [][]string
	for _, s := range v.Runs {
		rows = append(rows, []string{
			strconv.FormatInt(s.Stage+1, 10), strconv.FormatInt(s.Size, 10), utcMilli(s.CheckedAt), utcMilli(s.StartedAt), utcMilli(s.EndedAt), utcMilli(s.Observed),
			fmt.Sprintf("%d/%d/%d/%d/%d", s.Counts.Succeeded, s.Counts.Skipped, s.Counts.Refused, s.Counts.Failed, s.Counts.Unresolved),
		})
	}
	fmt.Fprintln(a.out)
	printTable(a.out, []string{"stage", "size", "checked", "started", "ended", "watched until", "ok/skipped/refused/failed/unresolved"}, rows)
}

func utcMilli(ms int64) string {
	if ms == 0 {
		return ""
	}
	return utc(time.UnixMilli(ms))
}

// printSum prints the sum that must balance.
func (a *app) printSum(c plan.Counts) {
	fmt.Fprintf(a.out, "\nselected %d = succeeded %d + skipped %d + refused %d + failed %d + unresolved %d%s\n",
		c.Selected, c.Succeeded, c.Skipped, c.Refused, c.Failed, c.Unresolved, said(!c.Balanced(), "   DOES NOT BALANCE"))
}

func (a *app) dlqApproveCommand() *cobra.Command {
	return a.verdictCommand("approve PLAN", "Approve a plan's digest: what was shown, and nothing else", plan.VerdictApproved)
}

func (a *app) dlqRejectCommand() *cobra.Command {
	return a.verdictCommand("reject PLAN --reason TEXT", "Reject a plan: nothing of it is ever sent", plan.VerdictRejected)
}

func (a *app) verdictCommand(use, short string, verdict plan.Verdict) *cobra.Command {
	var flowsFile, reason, digest string
	var change changeFlags
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: runE(func(ctx context.Context, args []string) error {
			if verdict == plan.VerdictRejected && strings.TrimSpace(reason) == "" {
				return usageErrorf("--reason is needed: the plan's maker reads it")
			}
			r, done, err := a.openReplays(ctx, flowsFile, use)
			if err != nil {
				return err
			}
			defer done()
			p, err := r.find(ctx, args[0])
			if err != nil {
				return err
			}
			if digest != "" && digest != p.Digest {
				return refusedf("plan %s has the digest %s, not the one that you looked at", p.ID, p.Digest)
			}
			given := plan.Approval{PlanID: p.ID, Digest: p.Digest, Verdict: verdict, By: r.by, At: time.Now(), Reason: reason}
			if err := r.mayDecide(ctx, p, given); err != nil {
				return err
			}
			if a.output == outputTable {
				a.printPlan(planViewOf(p, nil))
			}
			do, err := a.confirm(change, fmt.Sprintf("record that %s has %s digest %s", r.by, verdict, p.Digest[:12]))
			if err != nil {
				return err
			}
			if do {
				if err := r.decide(ctx, p, given); err != nil {
					return err
				}
				if verdict == plan.VerdictApproved && a.output == outputTable {
					fmt.Fprintf(a.err, "next: oncegate dlq replay %s\n", p.ID)
				}
			}
			if a.output == outputJSON {
				stored, err := r.plans.Approval(ctx, p.ID)
				if err != nil {
					return err
				}
				if p, err = r.find(ctx, p.ID); err != nil {
					return err
				}
				return printJSON(a.out, struct {
					SchemaVersion int      `json:"schema_version"`
					Plan          planView `json:"plan"`
				}{1, planViewOf(p, stored)}, true)
			}
			return nil
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", said(verdict == plan.VerdictRejected, "why (required)")+said(verdict == plan.VerdictApproved, "what was looked at"))
	cmd.Flags().StringVar(&digest, "digest", "", "the digest that was looked at; refused if the plan has another")
	change.add(cmd)
	a.deskFlags(cmd, &flowsFile)
	a.outputFlag(cmd, outputTable, outputJSON)
	return cmd
}
