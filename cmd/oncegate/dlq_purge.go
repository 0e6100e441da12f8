package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/messages"
)

func (a *app) dlqPurgeCommand() *cobra.Command {
	var flowsFile string
	var expired bool
	var days int
	var change changeFlags
	cmd := &cobra.Command{
		Use:   "purge --expired",
		Short: "Remove letters, tasks, effects, reviews and plans whose time is over",
		Long: `Remove what has ended and whose time is over: letters with their raw objects, tasks
with the rows of their effects, answered reviews, plans with their items and
approvals, and evidence and audit rows that are older than --retention-days.

Open letters are never removed: dlq sweep closes expired ones first. A task stays
while it has an open letter or review, and its effects stay as long as it does. It
may be stopped at any time and run again. Former versions of raw objects go by the
bucket's lifecycle rules.`,
		Args: cobra.NoArgs,
		RunE: runE(func(ctx context.Context, _ []string) error {
			switch {
			case !expired:
				return usageErrorf("dlq purge needs --expired: nothing else is ever removed")
			case days < 1:
				return usageErrorf("--retention-days must be at least 1")
			}
			d, store, done, err := a.openDeskStore(flowsFile)
			if err != nil {
				return err
			}
			defer done()
			var by author
			if change.execute {
				if err := by.identify(ctx, a, store, "dlq purge"); err != nil {
					return err
				}
			}
			p := &deadletter.Purger{Desk: d, Store: store, Retention: time.Duration(days) * 24 * time.Hour, Now: time.Now}
			seen, err := p.Run(ctx, false)
			if err != nil {
				return err
			}
			if seen.Overdue > 0 {
				fmt.Fprintf(a.err, "%d open letters have expired: oncegate dlq sweep --execute closes them\n", seen.Overdue)
			}
			do, err := a.confirm(change, fmt.Sprintf("remove %d rows and objects for good", seen.Total()))
			if err != nil {
				return err
			}
			if do && seen.Total() > 0 {
				now := time.Now()
				err := deadletter.NewAuditLog(store).Add(ctx, deadletter.Audit{
					ID: deadletter.AuditID(deadletter.ActionPurge, by.who, strconv.FormatInt(now.UnixNano(), 10)), At: now, Action: deadletter.ActionPurge,
					OperatorOrRule: by.who, Reason: fmt.Sprintf("purge of what has expired: %d rows and objects", seen.Total()),
				})
				if err != nil {
					return messages.Errorf("nothing was removed: %w", err)
				}
				p.Progress = func(table string, n int) { fmt.Fprintf(a.err, "%s: %d removed so far\n", table, n) }
				if seen, err = p.Run(ctx, true); err != nil {
					return messages.Errorf("%d rows and objects were removed; run it again for the rest: %w", seen.Total(), err)
				}
			}
			if a.output == outputJSON {
				return printJSON(a.out, struct {
					SchemaVersion int               `json:"schema_version"`
					Executed      bool              `json:"executed"`
					Purged        deadletter.Purged `json:"purged"`
				}{1, do, seen}, true)
			}
			var rows [][]string
			for _, r := range []struct {
				what string
				n    int
			}{
				{"letters", seen.Letters},
				{"raw objects", seen.Objects},
				{"tasks", seen.Tasks},
				{"effects", seen.Effects},
				{"reviews", seen.Reviews},
				{"plans", seen.Plans},
				{"plan items", seen.Items},
				{"approvals", seen.Approvals},
				{"evidence", seen.Evidence},
				{"audit", seen.Audit},
				{"over, but kept", seen.Kept},
			} {
				rows = append(rows, []string{r.what, strconv.Itoa(r.n)})
			}
			printTable(a.out, []string{"what", "count"}, rows)
			return nil
		}),
	}
	cmd.Flags().BoolVar(&expired, "expired", false, "what has ended and whose time is over (required)")
	cmd.Flags().IntVar(&days, "retention-days", int(idempotency.DefaultPolicy().Retention/(24*time.Hour)), "age of evidence and audit rows to remove, in days")
	change.add(cmd)
	a.deskFlags(cmd, &flowsFile)
	a.outputFlag(cmd, outputTable, outputJSON)
	return cmd
}
