package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/messages"
)

func (a *app) dlqIngestCommand() *cobra.Command {
	var flowsFile, flowName string
	var skip int
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
letter with one more sighting. What can't be read is kept as it is.

Several events are taken in at a time; letters are printed in the order of the
file. Where it is stopped, or a service refuses, it says which --skip goes on: an
event that is taken in again is one more sighting, and none is left out.`,
		Example: `  oncegate dlq ingest events/dead-letters/three.jsonl --execute --yes
  oncegate dlq ingest export.jsonl --flow order.create`,
		Args: cobra.ExactArgs(1),
		RunE: runE(func(ctx context.Context, args []string) error {
			if skip < 0 {
				return usageErrorf("--skip must not be negative")
			}
			each, err := a.messages(args[0])
			if err != nil {
				return err
			}
			total := 0
			if err := each(func(m []byte) error { total += len(deadletter.Split(m)); return nil }); err != nil {
				return err
			}
			if total == 0 {
				return usageErrorf("%s holds nothing", args[0])
			}
			d, done, err := a.openDesk(flowsFile)
			if err != nil {
				return err
			}
			defer done()
			do, err := a.confirm(change, fmt.Sprintf("take in %d dead-lettered events", max(total-skip, 0)))
			if err != nil {
				return err
			}
			if skip > total {
				return usageErrorf("--skip %d: %s holds %d events", skip, args[0], total)
			}
			p := letterPrinter{a: a, inOrder: true}
			items := func(fn func(deadletter.Item) error) error {
				return each(func(m []byte) error {
					// Items outlive the call, the line does not.
					for _, item := range deadletter.Split(bytes.Clone(m)) {
						if err := fn(item); err != nil {
							return err
						}
					}
					return nil
				})
			}
			err = d.IngestAll(ctx, items, deadletter.IntakeOptions{Flow: flowName, Preview: !do, Skip: skip}, func(n int, j deadletter.Judgement) error {
				if n%1000 == 0 {
					fmt.Fprintf(a.err, "%d of %d events ...\n", n, total)
				}
				v := letterOf(j)
				v.Sightings = max(v.Sightings, 1)
				return p.add(v)
			})
			var stopped *deadletter.StoppedError
			if errors.As(err, &stopped) {
				err = fmt.Errorf("event %d of %d: %w", stopped.Item, total, stopped.Err)
				if do {
					fmt.Fprintf(a.err, "%d of %d events are in; the rest: the same command with --skip %d\n", stopped.Item-1, total, stopped.Item-1)
				}
			}
			if printed := p.end(err == nil); err == nil {
				err = printed
			}
			return err
		}),
	}
	cmd.Flags().IntVar(&skip, "skip", 0, "pass over so many events at the beginning, that a run which was stopped has taken in")
	cmd.Flags().StringVar(&flowName, "flow", "", "the flow of plain records that name none")
	change.add(cmd)
	a.deskFlags(cmd, &flowsFile)
	a.outputFlag(cmd, outputTable, outputJSON, outputJSONL)
	return cmd
}

// messages walks the messages of a file, again and again: a .jsonl file line by
// line, so that its size does not matter, anything else as a whole.
func (a *app) messages(name string) (func(func([]byte) error) error, error) {
	if name == "-" || !strings.HasSuffix(name, ".jsonl") {
		all, err := a.readMessages(name)
		return func(each func([]byte) error) error {
			for _, m := range all {
				if err := each(m); err != nil {
					return err
				}
			}
			return nil
		}, err
	}
	return func(each func([]byte) error) error {
		f, err := os.Open(name)
		if err != nil {
			return messages.Errorf("read dead letters: %w", err)
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		lines.Buffer(make([]byte, 0, 64<<10), maxFile)
		for lines.Scan() {
			if line := bytes.TrimSpace(lines.Bytes()); len(line) > 0 {
				if err := each(line); err != nil {
					return err
				}
			}
		}
		if errors.Is(lines.Err(), bufio.ErrTooLong) {
			return messages.Errorf("read dead letters: a line of %s is longer than %d MiB", name, maxFile>>20)
		}
		if err := lines.Err(); err != nil {
			return messages.Errorf("read dead letters: %w", err)
		}
		return nil
	}, nil
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
		return nil, messages.Errorf("read dead letters: %w", err)
	}
	if len(raw) > maxFile {
		return nil, messages.Errorf("read dead letters: more than %d MiB at once; split the file", maxFile>>20)
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

// author is who changes something and why: both stay with it. Who is the cloud's
// word, never a flag's.
type author struct{ who, why string }

func (f *author) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.why, "reason", "", "why (required)")
}

func (f *author) check() error {
	if strings.TrimSpace(f.why) == "" {
		return usageErrorf("--reason is needed: it stays with the letter")
	}
	return nil
}

// identify asks the cloud who makes the change.
func (f *author) identify(ctx context.Context, a *app, store *aliyun.Tablestore, what string) error {
	who, err := a.changer(ctx, deadletter.NewAuditLog(store), what, time.Now())
	f.who = who.Name()
	return err
}

// letterChange is what is done to each of some letters.
type letterChange struct {
	what   string // for people: what is done to them
	action deadletter.Action
	by     *author
	check  func(deadletter.Judgement) error // refuses before anything is changed; may be nil
	apply  func(*deadletter.Desk, deadletter.Judgement) error
	after  func(*deadletter.Desk) error // once all are changed; may be nil
}

// changeLetters applies a change to the open letters that an argument names. The
// audit row of each comes first.
func (a *app) changeLetters(ctx context.Context, flowsFile, arg string, change changeFlags, c letterChange) error {
	d, store, done, err := a.openDeskStore(flowsFile)
	if err != nil {
		return err
	}
	defer done()
	if err := c.by.identify(ctx, a, store, c.what); err != nil {
		return err
	}
	found, complete, err := pick(ctx, d, arg, true)
	if err != nil {
		return err
	}
	for _, j := range found {
		if c.check == nil {
			break
		}
		if err := c.check(j); err != nil {
			return err
		}
	}
	do, err := a.confirm(change, fmt.Sprintf("%s %d letters", c.what, len(found)))
	if err != nil {
		return err
	}
	audit := deadletter.NewAuditLog(store)
	views := []letterView{}
	for _, j := range found {
		if do {
			l := j.Letter
			if err := audit.Add(ctx, deadletter.Audit{
				ID: deadletter.AuditID(c.action, l.ID, fmt.Sprint(l.Revision), c.by.who), At: time.Now(), Action: c.action, LetterID: l.ID, EventID: l.EventID,
				Fingerprint: j.Fingerprint, Decision: j.Decision, OriginalTarget: j.Target, ConsumerVersion: l.ConsumerVersion, IdempotencyKey: l.Key,
				OperatorOrRule: c.by.who, Reason: c.what + ": " + c.by.why,
			}); err != nil {
				return err
			}
			if err := c.apply(d, j); err != nil {
				return fmt.Errorf("letter %s: %w", short(l.ID), err)
			}
			l, _, err := d.Letters.Get(ctx, l.ID)
			if err != nil {
				return err
			}
			if j, err = d.Judge(ctx, l); err != nil {
				return err
			}
		}
		views = append(views, letterOf(j))
	}
	if do && c.after != nil {
		if err := c.after(d); err != nil {
			return err
		}
	}
	return a.printLetters(views, complete)
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
			return a.changeLetters(ctx, flowsFile, args[0], change, letterChange{
				what: "reclassify as " + string(to), action: deadletter.ActionReclassify, by: &by,
				check: func(j deadletter.Judgement) error {
					if j.Code.Class() != letter.ClassUncertain {
						return refusedf("letter %s: its code %s is certain: it follows from the message or the record", short(j.Letter.ID), j.Code)
					}
					return nil
				},
				apply: func(d *deadletter.Desk, j deadletter.Judgement) error {
					return d.Reclassify(ctx, j.Letter.ID, to, by.who, by.why)
				},
			})
		}),
	}
	cmd.Flags().StringVar(&code, "code", "", "the code (required)")
	by.add(cmd)
	change.add(cmd)
	a.deskFlags(cmd, &flowsFile)
	a.outputFlag(cmd, outputTable, outputJSON, outputJSONL)
	return cmd
}

func (a *app) dlqResolveCommand() *cobra.Command {
	o := stackOptions{}
	var as string
	var by author
	var change changeFlags
	ends := map[string]letter.FinalStatus{"discard": letter.FinalDiscarded, "completed_elsewhere": letter.FinalSkippedCompleted, "keep": ""}
	cmd := &cobra.Command{
		Use:   "resolve EVENT|FINGERPRINT --as discard|completed_elsewhere|keep --reason TEXT",
		Short: "End letters without a replay, or keep them; who and why stay with them",
		Long: `End letters without a replay, or keep them; who and why stay with them.

  discard               nobody wants the business any more
  completed_elsewhere   the business was done by other means
  keep                  the letter stays open, and its expiry starts anew

Where the first two end the last open letter of a task, the function is asked to
abandon it: later deliveries of the same input are noted and run nothing.`,
		Example: `  oncegate dlq resolve evt-1008 --as discard --reason "test data"`,
		Args:    cobra.ExactArgs(1),
		RunE: runE(func(ctx context.Context, args []string) error {
			if err := by.check(); err != nil {
				return err
			}
			end, ok := ends[as]
			if !ok {
				return usageErrorf("--as %q is not known; use discard, completed_elsewhere or keep", as)
			}
			what := "end as " + string(end)
			if as == "keep" {
				what = "keep"
			}
			var ended, orphans []letter.Letter
			err := a.changeLetters(ctx, o.flowsFile, args[0], change, letterChange{
				what: what, action: deadletter.ActionResolve, by: &by,
				check: func(j deadletter.Judgement) error {
					if why := deadletter.MayEnd(j, time.Now()); as != "keep" && !why.IsZero() {
						return refusedf("letter %s: %s", short(j.Letter.ID), why)
					}
					return nil
				},
				apply: func(d *deadletter.Desk, j deadletter.Judgement) error {
					if as == "keep" {
						return d.Keep(ctx, j.Letter.ID)
					}
					j.Letter.FinalStatus = end
					ended = append(ended, j.Letter)
					return d.Close(ctx, j.Letter.ID, end, by.who, by.why)
				},
				after: func(d *deadletter.Desk) (err error) {
					orphans, err = d.Orphans(ctx, ended)
					return err
				},
			})
			if err != nil {
				return err
			}
			return a.abandon(ctx, &o, orphans)
		}),
	}
	cmd.Flags().StringVar(&as, "as", "", "how the letters end (required)")
	by.add(cmd)
	change.add(cmd)
	a.stackFlags(cmd, &o)
	cmd.Flags().StringVar(&a.target, "target", "", "local or cloud (default: cloud where ONCEGATE_TABLESTORE_ENDPOINT is set, else local)")
	a.outputFlag(cmd, outputTable, outputJSON, outputJSONL)
	return cmd
}
