package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/internal/doctor"
	"github.com/oncegate/oncegate/internal/messages"
)

// doctorReport is the one document that `doctor` prints.
type doctorReport struct {
	SchemaVersion int            `json:"schema_version"`
	Target        string         `json:"target"`
	Environment   string         `json:"environment"`
	Function      string         `json:"function"`
	CheckedAt     string         `json:"checked_at"`
	IgnoredRules  []string       `json:"ignored_rules"`
	Checks        []doctor.Check `json:"checks"`
	Complete      bool           `json:"complete"` // every check could be made
	Healthy       bool           `json:"healthy"`  // none of them counts as a fail
}

func (a *app) doctorCommand() *cobra.Command {
	o := stackOptions{timeScale: localTimeScale, instances: 1, timeout: 30 * time.Second, modelTimeout: 3 * time.Second, keepLog: true}
	var bus string
	var ignored []string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check whether a deployment can keep the promises, and say what to do",
		Long: `Check whether a deployment can keep the promises, and say what to do.

It looks at the function as it is deployed, tables, bucket, rules, dead-letter
queue, event streams and the times of all of them against each other, and changes
nothing: it puts one row twice into a table of its own (oncegate_doctor_probe,
which ` + "`oncegate setup`" + ` makes) to see that the second is refused, and takes it
away again.

A check passes, warns or fails. One that could not be made says why and never
passes: it counts as a fail where safety depends on it, as a warn elsewhere.
Exit code 1 where any check counts as a fail; 3 where each of these could not be
made for want of a right, and names the first.

On the local cloud it leaves out the rule tasks-impatient, which retries too little
on purpose (sample 10), makes the state as ` + "`local deliver`" + ` does, and acts as the
role deployer. Against ` + "`local up`" + `, give --ignore-rule tasks-impatient. On the
cloud use the role deployer too; endpoints that are not set are made
from the region (ONCEGATE_REGION, or the one in the Tablestore endpoint) and the
account.`,
		Example: `  oncegate doctor
  oncegate doctor --target cloud --output json`,
		Args: cobra.NoArgs,
		RunE: runE(func(ctx context.Context, _ []string) error {
			target, err := a.chosenTarget()
			if err != nil {
				return err
			}
			e, done, err := a.examination(ctx, target, bus, &o)
			if err != nil {
				return err
			}
			defer done()
			e.ignored = append(e.ignored, ignored...)
			for _, name := range e.ignored {
				fmt.Fprintf(a.err, "rule %s is not looked at\n", name)
			}
			facts := e.facts(ctx)
			if err := ctx.Err(); err != nil {
				return err
			}
			checks := doctor.Judge(facts)
			report := doctorReport{1, target, e.environment, e.function, utc(time.Now()), append([]string{}, e.ignored...), checks, doctor.Complete(checks), !doctor.Failed(checks)}
			if a.output == outputJSON {
				err = printJSON(a.out, report, true)
			} else {
				a.printDoctor(report)
			}
			if err != nil || report.Healthy {
				return err
			}
			if right := doctor.MissingRight(checks); right != nil {
				return refusedf("nothing is found wrong, and not everything could be looked at\nmissing right: %s on %s; %s", right.What, right.Where, right.Do())
			}
			return &exitError{exitFailed, errors.New("a check fails")}
		}),
	}
	a.targetFlags(cmd)
	a.outputFlag(cmd, outputTable, outputJSON)
	cmd.Flags().StringVar(&o.flowsFile, "flows", "", "the function's flows.yaml, where it is not the built-in one")
	cmd.Flags().StringVar(&o.binary, "function", "", "a built function binary for the local cloud (default: the newest version there, or build it)")
	cmd.Flags().StringSliceVar(&ignored, "ignore-rule", nil, "a rule of the bus that is not to be looked at (repeatable)")
	cmd.Flags().StringVar(&bus, "bus", "", "the event bus on the cloud (default: the environment)")
	return cmd
}

func (a *app) examination(ctx context.Context, target, bus string, o *stackOptions) (*examination, func(), error) {
	if target == targetLocal {
		return a.onLocal(ctx, o)
	}
	set, err := loadFlows(o.flowsFile)
	if err != nil {
		return nil, nil, err
	}
	e := a.onCloud(ctx, bus)
	e.flows, e.ownFlows = set, o.flowsFile != ""
	return e, func() {}, nil
}

// printDoctor says one line a check, and below what to do about those that do
// not pass.
func (a *app) printDoctor(r doctorReport) {
	say := messages.For(a.getenv)
	words := map[doctor.Verdict]messages.Text{
		doctor.Pass: messages.T("pass"), doctor.Warn: messages.T("warn"), doctor.Fail: messages.T("FAIL"), doctor.Unknown: messages.T("unknown"),
	}
	counts := map[doctor.Verdict]int{}
	rows := make([][]string, len(r.Checks))
	for i, c := range r.Checks {
		counts[c.Verdict]++
		word := say.Text(words[c.Verdict])
		if c.Verdict == doctor.Unknown {
			word = say.Text(messages.T("unknown, counts as %s", words[c.CountsAs]))
		}
		rows[i] = []string{c.ID, word, say.Text(c.Found)}
	}
	printTable(a.out, []string{say.Text(messages.T("check")), say.Text(messages.T("verdict")), say.Text(messages.T("found"))}, rows)
	for _, c := range r.Checks {
		if c.Verdict != doctor.Pass {
			fmt.Fprintf(a.out, "\n%s\n  %s %s\n  %s %s\n", c.ID, say.Text(messages.T("wanted:")), inert(say.Text(c.Want)), say.Text(messages.T("to do:")), inert(say.Text(c.Do)))
		}
	}
	fmt.Fprintln(a.out, "\n"+say.Text(messages.T("%d checks: %d pass, %d warn, %d fail, %d unknown",
		len(r.Checks), counts[doctor.Pass], counts[doctor.Warn], counts[doctor.Fail], counts[doctor.Unknown])))
}
