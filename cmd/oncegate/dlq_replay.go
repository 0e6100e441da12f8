package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/messages"
)

// replays is what commands about plans work with.
type replays struct {
	desk     *deadletter.Desk
	plans    *plan.Store
	evidence *deadletter.EvidenceLog
	audit    *deadletter.AuditLog
	effects  *idempotency.Ledger
	rules    deadletter.Rules
	by       string // identity
	current  func(context.Context) (string, error)
}

func (a *app) newReplays(ctx context.Context, desk *deadletter.Desk, store *aliyun.Tablestore, changing string) (*replays, error) {
	rules, err := deadletter.RulesOf(desk.Flows.Replay)
	if err != nil {
		return nil, usageErrorf("%w", err)
	}
	if target, err := a.chosenTarget(); err == nil && target == targetLocal {
		rules.Observe /= localTimeScale // as `local deliver` shortens the waits of the function
	}
	r := &replays{
		desk: desk, plans: plan.NewStore(store), evidence: deadletter.NewEvidenceLog(store), audit: deadletter.NewAuditLog(store),
		effects: idempotency.NewLedger(store, idempotency.DefaultPolicy()), rules: rules,
	}
	if changing == "" {
		return r, nil
	}
	who, err := a.changer(ctx, r.audit, changing, time.Now())
	r.by = who.Name()
	return r, err
}

func (r *replays) planner() *deadletter.Planner {
	return &deadletter.Planner{
		Desk: r.desk, Plans: r.plans, Evidence: r.evidence, Audit: r.audit, Rules: r.rules, Now: time.Now, NewID: newPlanID,
		Current: r.current, Each: r.eachOpen,
	}
}

func (r *replays) approver() *deadletter.Approver {
	return &deadletter.Approver{Plans: r.plans, Evidence: r.evidence, Audit: r.audit, Now: time.Now}
}

// find returns the one plan that a name, or a beginning of at least six
// characters, means.
func (r *replays) find(ctx context.Context, name string) (plan.Plan, error) {
	if p, ok, err := r.plans.Get(ctx, name); err != nil || ok {
		return p, err
	}
	var found []plan.Plan
	if len(name) >= 6 {
		page, _, err := r.plans.List(ctx, name, 2)
		if err != nil {
			return plan.Plan{}, err
		}
		for _, p := range page {
			if strings.HasPrefix(p.ID, name) {
				found = append(found, p)
			}
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return plan.Plan{}, notFoundf("there is no plan %q: oncegate dlq show lists them", inert(name))
	}
	return plan.Plan{}, usageErrorf("%q is the beginning of several plans", inert(name))
}

func sortPlans(views []planView) {
	slices.SortFunc(views, func(x, y planView) int { return cmp.Or(cmp.Compare(y.MadeAt, x.MadeAt), cmp.Compare(x.ID, y.ID)) })
}

// refusal turns the refusals of plans into exit codes.
func refusal(err error) error {
	var refused *deadletter.RefusedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &refused), errors.Is(err, deadletter.ErrTampered), errors.Is(err, deadletter.ErrLocked):
		return refusedf("%w", err)
	case errors.Is(err, deadletter.ErrStopped), errors.Is(err, deadletter.ErrPaused):
		return &exitError{exitPartial, err}
	}
	return err
}

func (r *replays) mayDecide(ctx context.Context, p plan.Plan, given plan.Approval) error {
	return refusal(r.approver().May(ctx, p, given))
}

func (r *replays) decide(ctx context.Context, p plan.Plan, given plan.Approval) error {
	return refusal(r.approver().Decide(ctx, p, given))
}

func (a *app) dlqReplayCommand() *cobra.Command {
	return a.runCommand("replay PLAN", "Send an approved plan stage by stage, and stop by itself when it goes wrong", `Send an approved plan stage by stage, and stop by itself when it goes wrong.

Before each event goes, every gate is asked again. Its row says who sends it
before it is sent, so a replay that dies sends nothing twice: run the command
again, and it goes on. Results are read from the business records. Ctrl-C
finishes what is in flight and pauses; oncegate dlq resume goes on.

It stops on a second event that fails in one new way, a throttled target, a side
effect that happened twice, too many errors, and oncegate dlq pause or stop.`, false)
}

func (a *app) dlqResumeCommand() *cobra.Command {
	return a.runCommand("resume PLAN", "Go on with a paused plan", "Go on with a plan that an operator, Ctrl-C or a throttled target has paused.", true)
}

func (a *app) runCommand(use, short, long string, resume bool) *cobra.Command {
	o := stackOptions{}
	var change changeFlags
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Long:  long,
		Args:  cobra.ExactArgs(1),
		RunE: runE(func(ctx context.Context, args []string) error {
			run, done, err := a.openReplayer(ctx, &o, change.execute)
			if err != nil {
				return err
			}
			defer done()
			p, err := run.find(ctx, args[0])
			if err != nil {
				return err
			}
			switch {
			case p.State == plan.StatePaused && !resume:
				return refusedf("plan %s was paused by %s: %s\noncegate dlq resume %s goes on", p.ID, inert(p.StoppedBy), inert(p.StopReason), p.ID)
			case p.State != plan.StatePaused && resume:
				return refusedf("plan %s is not paused: it is %s", p.ID, p.State)
			}
			do, err := a.confirm(change, fmt.Sprintf("send %d of %d events of plan %s in %d stages", p.Counts.Unresolved, p.Count, p.ID, len(p.Stages)))
			if err != nil || !do {
				return err
			}
			return a.replay(ctx, run, p)
		}),
	}
	change.add(cmd)
	a.stackFlags(cmd, &o)
	cmd.Flags().StringVar(&a.target, "target", "", "local or cloud (default: cloud where ONCEGATE_TABLESTORE_ENDPOINT is set, else local)")
	a.outputFlag(cmd, outputTable, outputJSON)
	return cmd
}

// runner is a replayer's surroundings.
type runner struct {
	*replays
	invoker    deadletter.Invoker
	permission func(context.Context) error
}

func (a *app) replay(ctx context.Context, r *runner, p plan.Plan) error {
	hard, soft, stop := twoSignals(context.WithoutCancel(ctx))
	defer stop()
	last := ""
	replayer := &deadletter.Replayer{
		Desk: r.desk, Plans: r.plans, Evidence: r.evidence, Audit: r.audit, Effects: r.effects, Invoker: r.invoker, Rules: r.rules,
		By: r.by, Owner: newPlanID(), Permission: r.permission, Current: r.current, Now: time.Now, Sleep: sleep,
		Progress: func(s deadletter.Progress) {
			line := fmt.Sprintf("stage %d of %d: succeeded %d, skipped %d, refused %d, failed %d, left %d%s", min(s.Stage+1, s.Stages), s.Stages,
				s.Counts.Succeeded, s.Counts.Skipped, s.Counts.Refused, s.Counts.Failed, s.Counts.Unresolved, said(s.Note != "", "; "+s.Note))
			if line != last {
				last = line
				fmt.Fprintln(a.err, line)
			}
		},
	}
	before := p
	p, err := replayer.Run(hard, soft, p.ID)
	if err != nil && p.Revision == before.Revision {
		return refusal(err)
	}
	if printErr := a.printReplayed(hard, r.replays, p); printErr != nil {
		return errors.Join(err, printErr)
	}
	switch {
	case soft.Err() != nil && errors.Is(err, deadletter.ErrPaused):
		return &exitError{exitInterrupted, messages.Errorf("interrupted; nothing is lost: oncegate dlq resume %s goes on", p.ID)}
	case err != nil:
		return refusal(err)
	case p.Counts.Failed+p.Counts.Unresolved > 0:
		return &exitError{exitPartial, messages.Errorf("%d events failed again and %d are unresolved", p.Counts.Failed, p.Counts.Unresolved)}
	}
	return nil
}

// twoSignals ends soft with the first signal and hard with the second.
func twoSignals(ctx context.Context) (hard, soft context.Context, stop func()) {
	hard, endHard := context.WithCancel(ctx)
	soft, endSoft := context.WithCancel(hard)
	signals, done := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		for _, end := range []func(){endSoft, endHard} {
			select {
			case <-signals:
				end()
			case <-done:
				return
			}
		}
	}()
	return hard, soft, func() {
		signal.Stop(signals)
		close(done)
		endHard()
	}
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// printReplayed prints the sum that balances, and the ids behind each number.
func (a *app) printReplayed(ctx context.Context, r *replays, p plan.Plan) error {
	ids := map[plan.Outcome][]string{}
	reasons := [][]string{}
	if err := r.items(ctx, p, func(i plan.Item) error {
		o := i.Outcome
		if o == "" {
			o = plan.OutcomeUnresolved
		}
		ids[o] = append(ids[o], i.EventID)
		if i.Reason != "" && len(reasons) < maxItemsShown {
			reasons = append(reasons, []string{i.EventID, string(i.Outcome), i.Reason, i.NewFingerprint})
		}
		return nil
	}); err != nil {
		return err
	}
	verdict, err := r.plans.Approval(ctx, p.ID)
	if err != nil {
		return err
	}
	newcomers, err := r.newcomers(ctx, p)
	if err != nil {
		return err
	}
	if a.output == outputJSON {
		list := func(o plan.Outcome) []string { return append([]string{}, ids[o]...) }
		return printJSON(a.out, struct {
			SchemaVersion int      `json:"schema_version"`
			Plan          planView `json:"plan"`
			Succeeded     []string `json:"succeeded"`
			Skipped       []string `json:"skipped"`
			Refused       []string `json:"refused"`
			Failed        []string `json:"failed"`
			Unresolved    []string `json:"unresolved"`
			Newcomers     int64    `json:"newcomers"` // open letters of the group that came after the plan: untouched
		}{
			1, planViewOf(p, verdict), list(plan.OutcomeSucceeded), list(plan.OutcomeSkipped), list(plan.OutcomeRefused), list(plan.OutcomeFailed),
			list(plan.OutcomeUnresolved), newcomers,
		}, true)
	}
	v := planViewOf(p, verdict)
	fmt.Fprintf(a.out, "%-12s %s\n%-12s %s\n", "plan", v.ID, "state", string(v.State)+said(v.StopReason != "", " by "+inert(v.StoppedBy)+": "+inert(v.StopReason)))
	a.printRuns(v)
	for _, o := range []plan.Outcome{plan.OutcomeSucceeded, plan.OutcomeSkipped, plan.OutcomeRefused, plan.OutcomeFailed, plan.OutcomeUnresolved} {
		if n := len(ids[o]); n > 0 {
			shown := ids[o][:min(n, 50)]
			fmt.Fprintf(a.out, "%-12s %s%s\n", o, inert(strings.Join(shown, " ")), said(n > 50, fmt.Sprintf(" ... %d in all: oncegate dlq show %s --output json", n, p.ID)))
		}
	}
	if len(reasons) > 0 {
		fmt.Fprintln(a.out)
		printTable(a.out, []string{"event", "outcome", "why", "new group"}, reasons)
	}
	a.printSum(p.Counts)
	if newcomers > 0 {
		fmt.Fprintf(a.out, "%d letters joined the group after the plan was made: they were not touched\n", newcomers)
	}
	return nil
}

// newcomers counts open letters of the plan's group that are not in it and that
// were first seen after it was made.
func (r *replays) newcomers(ctx context.Context, p plan.Plan) (int64, error) {
	var n int64
	err := r.eachOpen(ctx, p.Fingerprint, func(j deadletter.Judgement) error {
		if j.Letter.FirstFailedAt.UnixMilli() > p.MadeAt {
			n++
		}
		return nil
	})
	return n, err
}

func (a *app) dlqPauseCommand() *cobra.Command {
	return a.controlCommand("pause PLAN --reason TEXT", "Let a running plan send nothing more; resume goes on", plan.StatePaused)
}

func (a *app) dlqStopCommand() *cobra.Command {
	return a.controlCommand("stop PLAN --reason TEXT", "End a plan for good: what is left needs a new one", plan.StateStopped)
}

func (a *app) controlCommand(use, short string, want plan.State) *cobra.Command {
	var flowsFile, reason string
	var change changeFlags
	cmd := &cobra.Command{
		Use:   use,
		Short: short,
		Args:  cobra.ExactArgs(1),
		RunE: runE(func(ctx context.Context, args []string) error {
			if strings.TrimSpace(reason) == "" {
				return usageErrorf("--reason is needed: it stays with the plan")
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
			do, err := a.confirm(change, fmt.Sprintf("set plan %s to %s", p.ID, want))
			if err != nil {
				return err
			}
			if do {
				if p, err = r.approver().Control(ctx, p.ID, want, r.by, reason); err != nil {
					return refusal(err)
				}
			}
			if a.output == outputJSON {
				return printJSON(a.out, struct {
					SchemaVersion int      `json:"schema_version"`
					Plan          planView `json:"plan"`
				}{1, planViewOf(p, nil)}, true)
			}
			fmt.Fprintf(a.out, "plan %s: %s\n", p.ID, p.State)
			return nil
		}),
	}
	cmd.Flags().StringVar(&reason, "reason", "", "why (required)")
	change.add(cmd)
	a.deskFlags(cmd, &flowsFile)
	a.outputFlag(cmd, outputTable, outputJSON)
	return cmd
}

// eachOpen walks the open letters of a group, judged now.
func (r *replays) eachOpen(ctx context.Context, fingerprint string, each func(deadletter.Judgement) error) error {
	_, err := r.desk.Each(ctx, deadletter.EachOptions{Open: true, Fingerprint: fingerprint, Anew: true}, func(j deadletter.Judgement) error {
		if j.Fingerprint != fingerprint {
			return nil
		}
		return each(j)
	})
	return err
}
