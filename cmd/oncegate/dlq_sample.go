package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/messages"
)

func (a *app) dlqSampleCommand() *cobra.Command {
	var flowsFile, reason string
	var n int
	var reveal bool
	cmd := &cobra.Command{
		Use:   "sample FINGERPRINT",
		Short: "Show a few open letters of a group; with --reveal their payloads, which is audited",
		Long: `Show a few open letters of a group, always the same ones: the first by id, which is
a hash. --reveal prints their raw bytes as well; who looked and why is written to
the audit before anything is shown.`,
		Example: `  oncegate dlq sample 3edcecc95052
  oncegate dlq sample 3edcecc95052 -n 1 --reveal --reason 'ticket 4711'`,
		Args: cobra.ExactArgs(1),
		RunE: runE(func(ctx context.Context, args []string) error {
			switch {
			case n < 1 || n > 100:
				return usageErrorf("-n must be from 1 to 100")
			case reveal && strings.TrimSpace(reason) == "":
				return usageErrorf("--reveal needs --reason: it stays in the audit")
			case len(args[0]) != 12 || !isHex(args[0]):
				return usageErrorf("%q is no fingerprint: oncegate dlq groups shows them", args[0])
			}
			d, store, done, err := a.openDeskStore(flowsFile)
			if err != nil {
				return err
			}
			defer done()
			picked, complete, err := firstOf(ctx, d, args[0], n)
			if err != nil {
				return err
			}
			if len(picked) == 0 {
				return notFoundf("no open letter has fingerprint %s", args[0])
			}
			if !reveal {
				p := letterPrinter{a: a}
				for _, j := range picked {
					if err := p.add(letterOf(j)); err != nil {
						return err
					}
				}
				return p.end(complete)
			}
			return a.reveal(ctx, d, store, picked, author{why: reason})
		}),
	}
	cmd.Flags().IntVarP(&n, "number", "n", 3, "letters to show")
	cmd.Flags().BoolVar(&reveal, "reveal", false, "print the payloads; needs --reason")
	cmd.Flags().StringVar(&reason, "reason", "", "why the payloads are looked at")
	a.deskFlags(cmd, &flowsFile)
	a.outputFlag(cmd, outputTable, outputJSON, outputJSONL)
	return cmd
}

// firstOf returns the first n open letters of a group by id; complete is false
// where it has more.
func firstOf(ctx context.Context, d *deadletter.Desk, fingerprint string, n int) (picked []deadletter.Judgement, complete bool, err error) {
	complete = true
	_, err = d.Each(ctx, deadletter.EachOptions{Open: true, Fingerprint: fingerprint, Anew: true}, func(j deadletter.Judgement) error {
		if len(picked) == n {
			complete = false
			return errEnough
		}
		picked = append(picked, j)
		return nil
	})
	if !complete {
		err = nil
	}
	return picked, complete, err
}

// revealed is a letter with its payload as it is printed.
type revealed struct {
	letterView
	Payload string `json:"payload"`
}

func (a *app) reveal(ctx context.Context, d *deadletter.Desk, store *aliyun.Tablestore, letters []deadletter.Judgement, by author) error {
	if err := by.identify(ctx, a, store, "dlq sample --reveal"); err != nil {
		return err
	}
	audit := deadletter.NewAuditLog(store)
	for _, j := range letters {
		l := j.Letter
		// A look is never the same step as another one.
		if err := audit.Add(ctx, deadletter.Audit{
			ID: deadletter.AuditID(deadletter.ActionReveal, l.ID, by.who, rand.Text()), At: time.Now(), Action: deadletter.ActionReveal, LetterID: l.ID,
			EventID: l.EventID, Fingerprint: j.Fingerprint, Decision: j.Decision, OriginalTarget: j.Target, ConsumerVersion: l.ConsumerVersion,
			IdempotencyKey: l.Key, OperatorOrRule: by.who, Reason: by.why,
		}); err != nil {
			return messages.Errorf("nothing is shown: %w", err)
		}
		raw, err := d.RawEvent(ctx, l)
		if err != nil {
			return err
		}
		if a.output != outputTable {
			if err := printJSON(a.out, revealed{letterOf(j), string(raw)}, false); err != nil {
				return err
			}
			continue
		}
		fmt.Fprintf(a.out, "%s %s\n%s\n", short(l.ID), inert(l.EventID), inert(string(raw)))
	}
	return nil
}
