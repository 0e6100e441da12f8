package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/report"
)

// reportMemory makes the collector work harder above so many bytes, instead of letting
// garbage grow to as much again as ten thousand groups take.
const reportMemory = 128 << 20

func (a *app) dlqReportCommand() *cobra.Command {
	var flowsFile, out, lang string
	var fresh bool
	cmd := &cobra.Command{
		Use:   "report --out DIR",
		Short: "Write all that is known as static pages, with report.json and summary.md",
		Long: `Write all that is known of dead letters as static pages: an overview, a page a
group and a page a batch, approvals, repairs and audit; report.json beside them
has the same numbers, and summary.md is text to paste into a chat or a ticket.

The pages need no script, load nothing and hold no payload. A report that is
there is replaced once the new one is whole. The exit code is 4 where a letter is
unexplained or a sum does not balance.`,
		Example: `  oncegate dlq report --out report
  oncegate dlq report --out report --lang zh`,
		Args: cobra.NoArgs,
		RunE: runE(func(ctx context.Context, _ []string) error {
			if out == "" {
				return usageErrorf("--out names the folder that the report is written to")
			}
			if lang != "en" && lang != "zh" {
				return usageErrorf("--lang %q is not known; use en or zh", lang)
			}
			folder, err := newReportFolder(out)
			if err != nil {
				return err
			}
			defer folder.discard()
			r, done, err := a.openReplays(ctx, flowsFile, "")
			if err != nil {
				return err
			}
			defer done()
			defer debug.SetMemoryLimit(debug.SetMemoryLimit(min(reportMemory, debug.SetMemoryLimit(-1))))
			made, err := report.Write(ctx, reportSource(r, fresh), report.Options{
				Out: folder.open, Gates: askGates(r), Now: time.Now(), Environment: r.desk.Environment, Lang: lang,
				Progress: func(step string, n int64) { fmt.Fprintf(a.err, "%s: %d\n", step, n) },
			})
			if err != nil {
				return err
			}
			if err := folder.publish(); err != nil {
				return err
			}
			return a.printReport(made, out)
		}),
	}
	cmd.Flags().StringVar(&out, "out", "", "folder to write: new, empty, or an earlier report (required)")
	cmd.Flags().StringVar(&lang, "lang", "en", "language of the pages: en, zh")
	cmd.Flags().BoolVar(&fresh, "fresh", false, "decide about every letter anew, however many there are")
	a.deskFlags(cmd, &flowsFile)
	a.outputFlag(cmd, outputTable, outputJSON)
	return cmd
}

// reportSource is the tables as a report reads them.
func reportSource(r *replays, fresh bool) report.Source {
	return report.Tables{
		PlanStore: r.plans, Repairs: r.evidence, AuditTable: r.audit,
		Judged: func(ctx context.Context, each func(deadletter.Judgement) error) error {
			_, err := r.desk.Each(ctx, deadletter.EachOptions{Fresh: fresh}, each)
			return err
		},
	}
}

// askGates asks all gates about a letter as it is now.
func askGates(r *replays) func(context.Context, string) ([]report.GateRow, error) {
	return func(ctx context.Context, id string) ([]report.GateRow, error) {
		l, ok, err := r.desk.Letters.Get(ctx, id)
		if err != nil || !ok {
			return nil, err
		}
		j, err := r.desk.Judge(ctx, l)
		if err != nil {
			return nil, err
		}
		e, err := r.planner().Explain(ctx, j)
		if err != nil {
			return nil, err
		}
		var rows []report.GateRow
		for _, g := range e.Gates {
			rows = append(rows, report.GateRow{Name: string(g.Name), Pass: g.Pass, Reason: g.Reason.String(), Until: g.Until})
		}
		return rows, nil
	}
}

func (a *app) printReport(r *report.Report, out string) error {
	index := filepath.Join(out, "index.html")
	if a.output == outputJSON {
		err := printJSON(a.out, struct {
			SchemaVersion int            `json:"schema_version"`
			Index         string         `json:"index"`
			OK            bool           `json:"ok"`
			Complete      bool           `json:"complete"`
			Groups        int            `json:"groups"`
			Letters       report.Letters `json:"letters"`
		}{report.SchemaVersion, index, r.OK, r.Complete, r.GroupCount, r.Letters}, true)
		if err != nil {
			return err
		}
	} else {
		fmt.Fprintln(a.out, index)
	}
	fmt.Fprintf(a.err, "%d letters = %d open + %d ended, %d unexplained; %d groups, %d batches, complete\n",
		r.Letters.Total, r.Letters.OpenSum, r.Letters.EndedSum, r.Letters.Unexplained, r.GroupCount, r.Batches.Plans)
	if !r.OK {
		return notFoundf("%d letters are unexplained, and %d batches do not balance: see %s", r.Letters.Unexplained, r.Batches.Unbalanced, index)
	}
	return nil
}

// reportMarker is in every folder that a report was written to, and in none else.
const reportMarker = ".oncegate-report"

// reportFolder is written beside its place and takes it once it is whole.
type reportFolder struct{ place, part string }

func newReportFolder(out string) (*reportFolder, error) {
	f := &reportFolder{filepath.Clean(out), filepath.Clean(out) + ".part"}
	for _, dir := range []string{f.place, f.part} {
		if err := replaceable(dir); err != nil {
			return nil, err
		}
	}
	// An earlier run may have been killed while it put its report in place.
	if _, err := os.Lstat(f.place); errors.Is(err, os.ErrNotExist) && reportAt(f.place+".old") {
		if err := os.Rename(f.place+".old", f.place); err != nil {
			return nil, fmt.Errorf("put the old report back: %w", err)
		}
	}
	if err := os.RemoveAll(f.part); err != nil {
		return nil, fmt.Errorf("clear folder: %w", err)
	}
	if err := os.MkdirAll(f.part, 0o700); err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	if err := os.WriteFile(filepath.Join(f.part, reportMarker), []byte("written by oncegate dlq report; the next one replaces it\n"), 0o600); err != nil {
		return nil, fmt.Errorf("mark folder: %w", err)
	}
	return f, nil
}

// replaceable refuses a place that holds anything but a report.
func replaceable(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) || err == nil && len(entries) == 0 {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look at folder: %w", err)
	}
	if !reportAt(dir) {
		return refusedf("%s is not empty and holds no earlier report: name another folder", dir)
	}
	return nil
}

func reportAt(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, reportMarker))
	return err == nil
}

func (f *reportFolder) open(name string) (io.WriteCloser, error) {
	path := filepath.Join(f.part, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("make folder: %w", err)
	}
	return os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
}

// publish puts the new report in its place. Whatever ends it between the two
// steps, a whole report is left: the old one under .old, or the new one.
func (f *reportFolder) publish() error {
	old := f.place + ".old"
	if err := replaceable(old); err != nil {
		return err
	}
	if err := os.RemoveAll(old); err != nil {
		return fmt.Errorf("clear folder: %w", err)
	}
	if err := os.Rename(f.place, old); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("set the old report aside: %w", err)
	}
	if err := os.Rename(f.part, f.place); err != nil {
		return fmt.Errorf("put the report in its place: %w", errors.Join(err, os.Rename(old, f.place)))
	}
	if err := os.RemoveAll(old); err != nil {
		return fmt.Errorf("remove the old report: %w", err)
	}
	return nil
}

// discard removes what was not published.
func (f *reportFolder) discard() { _ = os.RemoveAll(f.part) }
