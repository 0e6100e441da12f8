package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/letter"
)

func (a *app) dlqSweepCommand() *cobra.Command {
	var flowsFile string
	var change changeFlags
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Close letters whose business is done, and expired ones; store the decisions of the rest",
		Args:  cobra.NoArgs,
		RunE: runE(func(ctx context.Context, _ []string) error {
			d, store, done, err := a.openDeskStore(flowsFile)
			if err != nil {
				return err
			}
			defer done()
			var by author
			if change.execute {
				if err := by.identify(ctx, a, store, "dlq sweep"); err != nil {
					return err
				}
			}
			now, o := time.Now(), deadletter.EachOptions{Open: true, Fresh: true, Progress: a.progress()}
			n := 0
			if _, err = d.Each(ctx, o, func(j deadletter.Judgement) error {
				if end, _ := sweeps(j, now); end != "" {
					n++
				}
				return nil
			}); err != nil {
				return err
			}
			do, err := a.confirm(change, fmt.Sprintf("close %d letters", n))
			if err != nil {
				return err
			}
			p, audit := letterPrinter{a: a}, deadletter.NewAuditLog(store)
			o.Progress = a.progress()
			_, err = d.Each(ctx, o, func(j deadletter.Judgement) error {
				l := j.Letter
				end, why := sweeps(j, now)
				switch {
				case end == "" && do:
					_, err := d.Note(ctx, j)
					return err
				case end == "":
					return nil
				case do:
					if err := audit.Add(ctx, deadletter.Audit{
						ID: deadletter.AuditID(deadletter.ActionSweep, l.ID, fmt.Sprint(l.Revision)), At: now, Action: deadletter.ActionSweep, LetterID: l.ID,
						EventID: l.EventID, Fingerprint: j.Fingerprint, Decision: j.Decision, OriginalTarget: j.Target, ConsumerVersion: l.ConsumerVersion,
						IdempotencyKey: l.Key, FinalStatus: string(end), OperatorOrRule: by.who, Reason: "sweep: " + why,
					}); err != nil {
						return err
					}
					if err := d.Close(ctx, l.ID, end, "sweep", why); err != nil {
						return err
					}
					j.Letter.FinalStatus, j.Letter.ClosedBy, j.Letter.CloseReason = end, "sweep", why
				}
				return p.add(letterOf(j))
			})
			if err != nil {
				return err
			}
			return p.end(true)
		}),
	}
	change.add(cmd)
	a.deskFlags(cmd, &flowsFile)
	a.outputFlag(cmd, outputTable, outputJSON, outputJSONL)
	return cmd
}

// sweeps says how and why a sweep ends an open letter, "" where it leaves it.
func sweeps(j deadletter.Judgement, now time.Time) (end letter.FinalStatus, why string) {
	switch {
	case j.Decision == deadletter.SkipCompleted:
		return letter.FinalSkippedCompleted, j.Rule
	case j.Letter.ExpiresAt.Before(now):
		return letter.FinalExpired, "its time is over"
	}
	return "", ""
}
