package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/letter"
)

func (a *app) dlqIngestCommand() *cobra.Command {
	var flowsFile, flowName string
	var change changeFlags
	cmd := &cobra.Command{
		Use:   "ingest FILE|-",
		Short: "Take dead letters in: raw events, arrays, base64, FC's on-failure messages, plain records",
		Long: `Take dead letters in. FILE holds one message, or one JSON value a line:
  an event, an array of events, either as base64 text
  FC's on-failure message
  a plain record {"event_id","payload","error_code","target"}, of the flow that
  --flow names or that its own field "flow" names

The raw bytes are stored first, then the letter. The same event again is one
letter with one more sighting. What can't be read is kept as it is.`,
		Example: `  oncegate dlq ingest events/dead-letters/three.jsonl --execute --yes
  oncegate dlq ingest export.jsonl --flow order.create`,
		Args: cobra.ExactArgs(1),
		RunE: runE(func(ctx context.Context, args []string) error {
			messages, err := a.readMessages(args[0])
			if err != nil {
				return err
			}
			var items []deadletter.Item
			for _, m := range messages {
				items = append(items, deadletter.Split(m)...)
			}
			d, done, err := a.openDesk(flowsFile)
			if err != nil {
				return err
			}
			defer done()
			do, err := a.confirm(change, fmt.Sprintf("take in %d dead-lettered events", len(items)))
			if err != nil {
				return err
			}
			views := []letterView{}
			for i, item := range items {
				var j deadletter.Judgement
				if do {
					j, err = d.Ingest(ctx, item, flowName)
				} else {
					j, err = d.Preview(ctx, item, flowName)
				}
				if err != nil {
					return fmt.Errorf("event %d of %d: %w", i+1, len(items), err)
				}
				v := letterOf(j)
				v.Sightings = max(v.Sightings, 1)
				views = append(views, v)
			}
			return a.printLetters(views, true)
		}),
	}
	cmd.Flags().StringVar(&flowName, "flow", "", "the flow of plain records that name none")
	change.add(cmd)
	a.deskFlags(cmd, &flowsFile)
	a.outputFlag(cmd, outputTable, outputJSON, outputJSONL)
	return cmd
}

// readMessages reads one message, or one a line where every line is a value of
// its own.
func (a *app) readMessages(name string) ([][]byte, error) {
	var raw []byte
	var err error
	if name == "-" {
		raw, err = io.ReadAll(io.LimitReader(a.in, maxFile+1))
	} else {
		raw, err = os.ReadFile(name)
	}
	if err != nil {
		return nil, fmt.Errorf("read dead letters: %w", err)
	}
	if len(raw) > maxFile {
		return nil, fmt.Errorf("read dead letters: more than %d MiB at once; split the file", maxFile>>20)
	}
	trimmed := bytes.TrimSpace(raw)
	if len(trimmed) == 0 {
		return nil, usageErrorf("%s holds nothing", name)
	}
	var lines [][]byte
	for line := range bytes.Lines(trimmed) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			continue
		}
		if items := deadletter.Split(line); len(items) == 1 && items[0].Origin == deadletter.OriginUnreadable && !strings.HasSuffix(name, ".jsonl") {
			return [][]byte{raw}, nil // a value that spans lines
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// who answers and why: every change of a letter keeps both.
type author struct{ who, why string }

func (f *author) add(a *app, cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.why, "reason", "", "why (required)")
	cmd.Flags().StringVar(&f.who, "operator", a.getenv("USER"), "who decides (required; default: $USER)")
}

func (f author) check() error {
	if strings.TrimSpace(f.why) == "" {
		return usageErrorf("--reason is needed: it stays with the letter")
	}
	if f.who == "" {
		return usageErrorf("--operator is needed: who decides")
	}
	return nil
}

// changeLetters applies a change to the open letters that an argument names.
func (a *app) changeLetters(ctx context.Context, flowsFile, arg, what string, change changeFlags, apply func(*deadletter.Desk, deadletter.Judgement) error) error {
	d, done, err := a.openDesk(flowsFile)
	if err != nil {
		return err
	}
	defer done()
	found, err := pick(ctx, d, arg, true)
	if err != nil {
		return err
	}
	do, err := a.confirm(change, fmt.Sprintf("%s %d letters", what, len(found)))
	if err != nil {
		return err
	}
	views := []letterView{}
	for _, j := range found {
		if do {
			if err := apply(d, j); err != nil {
				return fmt.Errorf("letter %s: %w", short(j.Letter.ID), err)
			}
			l, _, err := d.Letters.Get(ctx, j.Letter.ID)
			if err != nil {
				return err
			}
			if j, err = d.Judge(ctx, l); err != nil {
				return err
			}
		}
		views = append(views, letterOf(j))
	}
	return a.printLetters(views, true)
}

func (a *app) dlqReclassifyCommand() *cobra.Command {
	var flowsFile, code string
	var by author
	var change changeFlags
	cmd := &cobra.Command{
		Use:   "reclassify EVENT|FINGERPRINT --code CODE --reason TEXT",
		Short: "Give uncertain letters a code: the way out of UNDELIVERED and UNCLASSIFIED",
		Args:  cobra.ExactArgs(1),
		RunE: runE(func(ctx context.Context, args []string) error {
			if err := by.check(); err != nil {
				return err
			}
			to := letter.Code(strings.ToUpper(code))
			if to.Class() == letter.ClassUncertain {
				return usageErrorf("--code %q decides nothing; use TIMEOUT, THROTTLED, UPSTREAM_5XX, INVALID_SCHEMA, ACCESS_DENIED, TARGET_NOT_FOUND or POLICY_REJECTED", code)
			}
			return a.changeLetters(ctx, flowsFile, args[0], "reclassify as "+string(to), change, func(d *deadletter.Desk, j deadletter.Judgement) error {
				if j.Code.Class() != letter.ClassUncertain {
					return refusedf("its code %s is certain: it follows from the message or the record", j.Code)
				}
				return d.Reclassify(ctx, j.Letter.ID, to, by.who, by.why)
			})
		}),
	}
	cmd.Flags().StringVar(&code, "code", "", "the code (required)")
	by.add(a, cmd)
	change.add(cmd)
	a.deskFlags(cmd, &flowsFile)
	a.outputFlag(cmd, outputTable, outputJSON, outputJSONL)
	return cmd
}

func (a *app) dlqResolveCommand() *cobra.Command {
	var flowsFile, as string
	var by author
	var change changeFlags
	ends := map[string]letter.FinalStatus{"discard": letter.FinalDiscarded, "completed_elsewhere": letter.FinalSkippedCompleted}
	cmd := &cobra.Command{
		Use:   "resolve EVENT|FINGERPRINT --as discard|completed_elsewhere --reason TEXT",
		Short: "End letters without a replay; who and why stay with them",
		Args:  cobra.ExactArgs(1),
		RunE: runE(func(ctx context.Context, args []string) error {
			if err := by.check(); err != nil {
				return err
			}
			end, ok := ends[as]
			if !ok {
				return usageErrorf("--as %q is not known; use discard or completed_elsewhere", as)
			}
			return a.changeLetters(ctx, flowsFile, args[0], "end as "+string(end), change, func(d *deadletter.Desk, j deadletter.Judgement) error {
				return d.Close(ctx, j.Letter.ID, end, by.who, by.why)
			})
		}),
	}
	cmd.Flags().StringVar(&as, "as", "", "how the letters end (required)")
	by.add(a, cmd)
	change.add(cmd)
	a.deskFlags(cmd, &flowsFile)
	a.outputFlag(cmd, outputTable, outputJSON, outputJSONL)
	return cmd
}

func (a *app) dlqSweepCommand() *cobra.Command {
	var flowsFile string
	var change changeFlags
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Close letters whose business is done, and expired ones",
		Args:  cobra.NoArgs,
		RunE: runE(func(ctx context.Context, _ []string) error {
			d, done, err := a.openDesk(flowsFile)
			if err != nil {
				return err
			}
			defer done()
			now := time.Now()
			var found []deadletter.Judgement
			_, err = judged(ctx, d, letter.Letter.Open, func(j deadletter.Judgement) error {
				if j.Decision == deadletter.SkipCompleted || j.Letter.ExpiresAt.Before(now) {
					found = append(found, j)
				}
				return nil
			})
			if err != nil {
				return err
			}
			do, err := a.confirm(change, fmt.Sprintf("close %d letters", len(found)))
			if err != nil {
				return err
			}
			views := []letterView{}
			for _, j := range found {
				end, why := letter.FinalSkippedCompleted, j.Rule
				if j.Decision != deadletter.SkipCompleted {
					end, why = letter.FinalExpired, "its time is over"
				}
				if do {
					if err := d.Close(ctx, j.Letter.ID, end, "sweep", why); err != nil {
						return err
					}
					j.Letter.FinalStatus, j.Letter.ClosedBy, j.Letter.CloseReason = end, "sweep", why
				}
				views = append(views, letterOf(j))
			}
			return a.printLetters(views, true)
		}),
	}
	change.add(cmd)
	a.deskFlags(cmd, &flowsFile)
	a.outputFlag(cmd, outputTable, outputJSON, outputJSONL)
	return cmd
}
