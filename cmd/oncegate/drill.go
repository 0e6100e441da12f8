package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// drillReport is drill's output.
type drillReport struct {
	SchemaVersion int         `json:"schema_version"`
	Drills        []drillLine `json:"drills"`
}

type drillLine struct {
	Name     string        `json:"name"`
	Passed   bool          `json:"passed"`
	Wrong    []string      `json:"wrong"`
	Evidence drillEvidence `json:"evidence"`
}

// drillLimit ends a drill that does not end by itself.
const drillLimit = 30 * time.Second

// drill is one failure, made on purpose.
type drill struct {
	name, what string
	run        func(context.Context, *drillRoom) error
}

func (a *app) drills() []drill {
	return []drill{
		{drillTwice, "the same event is delivered twice", sameEventTwice},
		{drillRace, "two processes claim one business at the same moment", twoOwnersRace},
		{drillModel, "the model times out, but had finished", modelTimesOut},
		{drillExit, "the process is killed after the output is stored, before the record says so", exitBeforeSettle},
		{drillReplay, "an event is dead-lettered; a person plans, another approves, it is replayed", a.replayByAPerson},
	}
}

func (a *app) drillCommand() *cobra.Command {
	var binary string
	cmd := &cobra.Command{
		Use:   "drill",
		Short: "Make five failures happen on a local cloud, and show what became of each",
		Long: `Make five failures happen on a local cloud of its own, and show what became of each.

It runs the real function as processes against the stand-ins, in a temporary folder
that is removed afterwards. Each drill is judged by what the tables, the bucket, the
model and the targets hold when it is over; the exit code is 1 where one fails.
Nothing of the cloud, and nothing of your own local state, is touched.`,
		Example: `  oncegate drill
  oncegate drill --output json | jq '.drills[].evidence'`,
		Args: cobra.NoArgs,
		RunE: runE(func(ctx context.Context, _ []string) error {
			dir, err := os.MkdirTemp("", "oncegate-drill-")
			if err != nil {
				return fmt.Errorf("drill: %w", err)
			}
			defer os.RemoveAll(dir)
			o := stackOptions{
				stateDir: dir, binary: binary, timeScale: localTimeScale, instances: 2,
				timeout: drillTimeout, modelTimeout: 300 * time.Millisecond, keySecret: localKeySecret,
			}
			if err := a.needFunction(ctx, &o); err != nil {
				return err
			}
			report := drillReport{1, []drillLine{}}
			for _, d := range a.drills() {
				fmt.Fprintf(a.err, "%s: %s ...", d.name, d.what)
				line, err := runDrill(ctx, o, d)
				if err := ctx.Err(); err != nil {
					return err
				}
				if err != nil {
					line.Passed, line.Wrong = false, append(line.Wrong, err.Error())
				}
				fmt.Fprintf(a.err, " %s\n", passedOrFailed(line.Passed))
				report.Drills = append(report.Drills, line)
			}
			return a.printDrills(report)
		}),
	}
	cmd.Flags().StringVar(&binary, "function", "", "a built function binary (default: build it)")
	a.outputFlag(cmd, outputTable, outputJSON)
	return cmd
}

func runDrill(ctx context.Context, o stackOptions, d drill) (drillLine, error) {
	ctx, cancel := context.WithTimeout(ctx, drillLimit)
	defer cancel()
	room, err := openRoom(ctx, o, d.name)
	if err != nil {
		return drillLine{Name: d.name}, err
	}
	defer room.Close()
	if err := d.run(ctx, room); err != nil {
		return drillLine{Name: d.name, Evidence: room.seen}, err
	}
	wrong := append([]string{}, judgeDrill(d.name, room.seen)...)
	return drillLine{d.name, len(wrong) == 0, wrong, room.seen}, nil
}

func passedOrFailed(passed bool) string {
	if passed {
		return "passed"
	}
	return "FAILED"
}

func (a *app) printDrills(r drillReport) error {
	failed := 0
	rows := make([][]string, len(r.Drills))
	for i, d := range r.Drills {
		if !d.Passed {
			failed++
		}
		rows[i] = []string{d.Name, passedOrFailed(d.Passed), d.Evidence.summary()}
	}
	if a.output == outputJSON {
		if err := printJSON(a.out, r, true); err != nil {
			return err
		}
	} else {
		printTable(a.out, []string{"drill", "verdict", "what the stores hold"}, rows)
		for _, d := range r.Drills {
			for _, w := range d.Wrong {
				fmt.Fprintf(a.out, "%s: %s\n", d.Name, inert(w))
			}
		}
	}
	if failed > 0 {
		return &exitError{exitFailed, fmt.Errorf("%d of %d drills failed", failed, len(r.Drills))}
	}
	return nil
}

// summary is the evidence in one line.
func (e drillEvidence) summary() string {
	decisions := make([]string, len(e.Decisions))
	for i, d := range e.Decisions {
		decisions[i] = string(d)
	}
	if n := len(decisions); n > 4 {
		decisions = append([]string{decisions[0], fmt.Sprintf("%d more", n-2)}, decisions[n-1])
	}
	text := fmt.Sprintf("%s; %s, attempt %d, revision %d, %s; %d model calls", strings.Join(decisions, ", "), e.Status, e.Attempt, e.Revision, filepath.Base(filepath.Dir(e.ResultRef)), e.ModelCalls)
	switch {
	case e.Plan != "":
		return text + fmt.Sprintf("; letter %s %s by %s, approved by %s", short(e.LetterID), e.LetterStatus, e.LetterEnded, e.VerdictBy)
	case e.Killed > 0:
		return text + fmt.Sprintf("; %d run killed with %d output stored", e.Killed, e.StoredAtKilling)
	case e.Notifications > 0:
		return text + fmt.Sprintf("; %d notifications; %d processes", e.Notifications, e.Processes)
	}
	return text
}
