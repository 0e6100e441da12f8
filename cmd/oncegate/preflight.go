package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

// preflightFlow is one flow of preflight's output.
type preflightFlow struct {
	Flow    string            `json:"flow"`
	Test    map[string]string `json:"test_fields"` // key fields that mark the business as a test
	Steps   []preflightStep   `json:"steps"`
	Remains []string          `json:"remains"` // what is left of the test, and how it goes
}

type preflightOptions struct {
	keep   []string
	wait   time.Duration
	change changeFlags
	stack  stackOptions
}

func (a *app) preflightCommand() *cobra.Command {
	o := preflightOptions{}
	cmd := &cobra.Command{
		Use:   "preflight [FLOW...]",
		Short: "Walk the five checks before a launch with a test business of each flow",
		Long: `Walk the five checks before a launch on the running target, with a test business of
each enabled flow, or of those named:

  1  the business number is stable, and somebody owns it
  2  side effects are declared with their kinds
  3  state and target number are kept, and looked up after a time-out
  4  a changed input goes to review
  5  the same record twice gives one result, and the log says how it was recognised

The test business is the flow's sample with every key field of the event replaced by
preflight-<8 hex digits>-<n> (a number field by a number of 13 digits), but those of --keep.
No real business has it, and ` + "`oncegate task list`" + ` shows it. What remains afterwards, and
how it goes, is printed. A check that cannot be made says why: it is skipped, not
passed. The exit code is 1 where a check fails, 4 where a flow was not seen to
run.

The work and the effects are real ones. On the local cloud a target loses an answer on
purpose. On the cloud nothing happens without --execute; the events are published to
the bus, the tables are polled, and the function is called once more for check 5: this
needs the rights of the role oncegate-operator, and those of oncegate-publisher in
ONCEGATE_PUBLISH_ACCESS_KEY_ID, ..._SECRET and ONCEGATE_PUBLISH_SECURITY_TOKEN.`,
		Example: `  oncegate preflight
  oncegate preflight order.create --output json
  oncegate preflight order.create --target cloud --keep source_system --execute`,
		RunE: runE(func(ctx context.Context, args []string) error { return a.preflight(ctx, o, args) }),
	}
	cmd.Flags().StringArrayVar(&o.keep, "keep", nil, "a key field that stays as it is in the sample; may be repeated")
	cmd.Flags().DurationVar(&o.wait, "wait", 5*time.Minute, "on the cloud: how long to wait for one event at most")
	o.change.add(cmd)
	a.stackFlags(cmd, &o.stack)
	cmd.Flags().StringVar(&a.target, "target", "", "local or cloud (default: cloud where ONCEGATE_TABLESTORE_ENDPOINT is set, else local)")
	a.outputFlag(cmd, outputTable, outputJSON)
	return cmd
}

func (a *app) preflight(ctx context.Context, o preflightOptions, names []string) error {
	target, err := a.chosenTarget()
	if err != nil {
		return err
	}
	set, err := loadFlows(o.stack.flowsFile)
	if err != nil {
		return err
	}
	chosen, err := chooseFlows(set, names)
	if err != nil {
		return err
	}
	if target == targetCloud {
		do, err := a.confirm(o.change, fmt.Sprintf("run test businesses of %d flows on the cloud, with real work and real side effects", len(chosen)))
		if err != nil || !do {
			return err
		}
	}
	room, store, environment, done, err := a.openTrialRoom(ctx, target, &o)
	if err != nil {
		return err
	}
	defer done()
	var token [4]byte
	_, _ = rand.Read(token[:])
	mark := "preflight-" + hex.EncodeToString(token[:])
	policy := idempotency.DefaultPolicy()
	report, number := []preflightFlow{}, time.Now().UnixMilli()
	for i, f := range chosen {
		fmt.Fprintf(a.err, "[%d/%d] %s ...\n", i+1, len(chosen), f.Name)
		// A mark for each flow: targets may want numbers that no other source has.
		t := &trial{
			trialRoom: room, flow: f, run: fmt.Sprintf("%s-%d", mark, i+1), secret: []byte(a.keySecret(target)),
			tasks: idempotency.NewTable(store, policy), ledger: idempotency.NewLedger(store, policy), reviews: idempotency.NewReviews(store),
		}
		if t.made, err = f.NewTrial(t.run, number+int64(i), environment, o.keep); err != nil || !f.Enabled {
			why := "the flow is off"
			if err != nil {
				why = err.Error()
			}
			t.step(1, stepSkipped, why, map[string]string{})
			t.effectsAreDeclared()
			t.skipFrom(3, why)
			report = append(report, preflightFlow{f.Name, map[string]string{}, t.steps, []string{}})
			continue
		}
		if err := t.walk(ctx); err != nil {
			return fmt.Errorf("preflight of %s: %w", f.Name, err)
		}
		report = append(report, preflightFlow{f.Name, t.made.Marked, t.steps, t.remains()})
	}
	return a.printPreflight(target, report)
}

func chooseFlows(set *flows.Set, names []string) ([]*flows.Flow, error) {
	if len(names) == 0 {
		return slices.DeleteFunc(slices.Clone(set.Flows), func(f *flows.Flow) bool { return !f.Enabled }), nil
	}
	var chosen []*flows.Flow
	for _, name := range names {
		i := slices.IndexFunc(set.Flows, func(f *flows.Flow) bool { return f.Name == name })
		if i < 0 {
			return nil, usageErrorf("flow %q is not known: oncegate flows check shows those there are", inert(name))
		}
		chosen = append(chosen, set.Flows[i])
	}
	return chosen, nil
}

// openTrialRoom reaches the target that is tried, and the tables of it.
func (a *app) openTrialRoom(ctx context.Context, target string, o *preflightOptions) (trialRoom, *aliyun.Tablestore, string, func(), error) {
	fail := func(err error) (trialRoom, *aliyun.Tablestore, string, func(), error) { return nil, nil, "", nil, err }
	if target == targetCloud {
		store, _, err := a.cloudStore()
		if err != nil {
			return fail(err)
		}
		bus, err := a.cloudBus()
		if err != nil {
			return fail(err)
		}
		client, function, err := a.cloudFunctions()
		if err != nil {
			return fail(err)
		}
		environment := strings.TrimSpace(a.getenv("ONCEGATE_ENVIRONMENT"))
		return &cloudRoom{bus, callerOf(client, function), environment, o.wait, time.Now, sleep}, store, environment, func() {}, nil
	}
	if err := a.completeStack(&o.stack); err != nil {
		return fail(err)
	}
	if err := a.needFunction(ctx, &o.stack); err != nil {
		return fail(err)
	}
	s, err := startStack(o.stack)
	if err != nil {
		return fail(err)
	}
	ctx, abort := context.WithCancelCause(ctx)
	end := func() { abort(nil); s.Close() }
	if _, err := s.setup(ctx); err != nil {
		end()
		return fail(err)
	}
	bus, err := s.bus(o.stack, abort)
	if err == nil {
		err = a.actOn(s.cloud)
	}
	if err != nil {
		end()
		return fail(err)
	}
	return &localRoom{s, bus, o.stack.stateDir}, s.store, localEnvironment, func() { bus.Close(); end() }, nil
}

// remains says what a test leaves, and how it goes.
func (t *trial) remains() []string {
	left := []string{
		fmt.Sprintf("task %s with its effects, and its objects under tasks/%s/: they expire with the retention of records (%d days); oncegate dlq purge, as oncegate-cleaner, removes rows that are over", short(t.key), short(t.key), retentionDays),
	}
	if t.review != "" {
		left = append(left, fmt.Sprintf("review %s and its CONFLICT letter: oncegate review resolve %s --as discard --reason preflight; oncegate dlq resolve %s --as discard --reason preflight --execute", short(t.review), short(t.review), t.id("3")))
	}
	for _, e := range t.flow.Effects {
		if e.Uses != "artifact.save" {
			left = append(left, fmt.Sprintf("what effect %s (%s) has done at its target: take it back there", e.Name, e.Uses))
		}
	}
	return left
}

func (a *app) printPreflight(target string, report []preflightFlow) error {
	count := map[string]int{}
	for _, f := range report {
		for _, s := range f.Steps {
			count[s.Verdict]++
		}
	}
	if a.output == outputJSON {
		if err := printJSON(a.out, struct {
			SchemaVersion int             `json:"schema_version"`
			Target        string          `json:"target"`
			Passed        int             `json:"passed"`
			Failed        int             `json:"failed"`
			Skipped       int             `json:"skipped"`
			Flows         []preflightFlow `json:"flows"`
		}{1, target, count[stepPassed], count[stepFailed], count[stepSkipped], report}, true); err != nil {
			return err
		}
	} else {
		for _, f := range report {
			a.printPreflightFlow(f)
		}
		fmt.Fprintf(a.out, "%d passed, %d failed, %d skipped\n", count[stepPassed], count[stepFailed], count[stepSkipped])
	}
	if count[stepFailed] > 0 {
		return &exitError{exitFailed, fmt.Errorf("%d checks failed", count[stepFailed])}
	}
	return nothingShown(report)
}

// nothingShown says no where no check passed that sees the test business run: a
// declaration alone shows nothing.
func nothingShown(report []preflightFlow) error {
	for _, f := range report {
		if !slices.ContainsFunc(f.Steps, func(s preflightStep) bool { return s.Number >= firstRunCheck && s.Verdict == stepPassed }) {
			return &exitError{exitPartial, fmt.Errorf("flow %s was not seen to run: its checks from %d on were skipped", inert(f.Flow), firstRunCheck)}
		}
	}
	return nil
}

func (a *app) printPreflightFlow(f preflightFlow) {
	fmt.Fprintf(a.out, "%s\n", inert(f.Flow))
	for _, s := range f.Steps {
		fmt.Fprintf(a.out, "  %d %-8s %s%s\n", s.Number, s.Verdict, s.Name, said(s.Why != "", ": "+inert(s.Why)))
		for _, name := range slices.SortedFunc(maps.Keys(s.Evidence), cmp.Compare[string]) {
			if s.Evidence[name] != "" {
				fmt.Fprintf(a.out, "      %-24s %s\n", inert(name), inert(s.Evidence[name]))
			}
		}
	}
	for _, r := range f.Remains {
		fmt.Fprintf(a.out, "  remains: %s\n", inert(r))
	}
	fmt.Fprintln(a.out)
}
