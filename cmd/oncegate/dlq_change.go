package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/internal/aliyun"
)

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
