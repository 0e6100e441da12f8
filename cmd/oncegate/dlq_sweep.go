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
	o := stackOptions{}
	var change changeFlags
	cmd := &cobra.Command{
		Use:   "sweep",
		Short: "Close letters whose business is done, and expired ones; store the decisions of the rest",
		Long: `Close letters whose business is done, and expired ones; store the decisions of the
rest. Tasks whose last letter was discarded or has expired, and that nobody has
told yet, are abandoned by the function.`,
		Args: cobra.NoArgs,
		RunE: runE(func(ctx context.Context, _ []string) error {
			orphans, err := a.sweep(ctx, o.flowsFile, change)
			if err != nil {
				return err
			}
			return a.abandon(ctx, &o, orphans)
		}),
	}
	change.add(cmd)
	a.stackFlags(cmd, &o)
	cmd.Flags().StringVar(&a.target, "target", "", "local or cloud (default: cloud where ONCEGATE_TABLESTORE_ENDPOINT is set, else local)")
	a.outputFlag(cmd, outputTable, outputJSON, outputJSONL)
	return cmd
}

// maxOrphans bounds how many ended letters one sweep looks at for tasks to abandon.
const maxOrphans = 10_000

// sweep closes what is over, and returns the letters whose tasks are to be abandoned.
func (a *app) sweep(ctx context.Context, flowsFile string, change changeFlags) ([]letter.Letter, error) {
	d, store, done, err := a.openDeskStore(flowsFile)
	if err != nil {
		return nil, err
	}
	defer done()
	var by author
	if change.execute {
		if err := by.identify(ctx, a, store, "dlq sweep"); err != nil {
			return nil, err
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
		return nil, err
	}
	do, err := a.confirm(change, fmt.Sprintf("close %d letters", n))
	if err != nil {
		return nil, err
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
		return nil, err
	}
	if err := p.end(true); err != nil || !do {
		return nil, err
	}
	var ended []letter.Letter
	for from, more := "", true; more && len(ended) < maxOrphans; more = from != "" {
		page, next, err := d.Letters.List(ctx, from, 500)
		if err != nil {
			return nil, err
		}
		for _, l := range page {
			if l.FinalStatus.EndsBusiness() {
				ended = append(ended, l)
			}
		}
		from = next
	}
	return d.Orphans(ctx, ended)
}

// sweeps says how and why a sweep ends an open letter, "" where it leaves it.
func sweeps(j deadletter.Judgement, now time.Time) (end letter.FinalStatus, why string) {
	switch {
	case j.Decision == deadletter.SkipCompleted:
		return letter.FinalSkippedCompleted, j.Rule.String()
	case j.Letter.ExpiresAt.Before(now):
		return letter.FinalExpired, "its time is over"
	}
	return "", ""
}
