package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/deadletter"
)

// auditView is an audit row as it is printed.
type auditView struct {
	At                string              `json:"at"`
	Action            deadletter.Action   `json:"action"`
	OperatorOrRule    string              `json:"operator_or_rule"`
	Reason            string              `json:"reason"`
	LetterID          string              `json:"letter_id"`
	EventID           string              `json:"event_id"`
	Fingerprint       string              `json:"fingerprint"`
	Decision          deadletter.Decision `json:"decision"`
	OriginalTarget    string              `json:"original_target"`
	ConsumerVersion   string              `json:"consumer_version"`
	ReplayBatchID     string              `json:"replay_batch_id"`
	IdempotencyKey    string              `json:"idempotency_key"`
	IdempotencyResult string              `json:"idempotency_result"`
	FinalStatus       string              `json:"final_status"`
}

func auditOf(r deadletter.Audit) auditView {
	return auditView{
		utc(r.At), r.Action, r.OperatorOrRule, r.Reason, r.LetterID, r.EventID, r.Fingerprint, r.Decision, r.OriginalTarget,
		r.ConsumerVersion, r.ReplayBatchID, r.IdempotencyKey, r.IdempotencyResult, r.FinalStatus,
	}
}

func (a *app) dlqAuditCommand() *cobra.Command {
	var flowsFile string
	var q deadletter.AuditQuery
	cmd := &cobra.Command{
		Use:     "audit",
		Short:   "Show what was done about dead letters, by whom and why, newest first",
		Example: `  oncegate dlq audit --event evt-1008`,
		Args:    cobra.NoArgs,
		RunE: runE(func(ctx context.Context, _ []string) error {
			if q.Limit < 1 || q.Limit > maxSorted {
				return usageErrorf("--limit must be from 1 to %d", maxSorted)
			}
			_, store, done, err := a.openDeskStore(flowsFile)
			if err != nil {
				return err
			}
			defer done()
			rows, complete, err := deadletter.NewAuditLog(store).Find(ctx, q)
			if err != nil {
				return err
			}
			all := "complete"
			if !complete {
				all = "not complete: there are older ones (--limit)"
			}
			defer fmt.Fprintf(a.err, "%d rows, %s, newest first\n", len(rows), all)
			views := make([]auditView, len(rows))
			for i, r := range rows {
				views[i] = auditOf(r)
			}
			switch a.output {
			case outputJSON:
				return printJSON(a.out, struct {
					SchemaVersion int         `json:"schema_version"`
					Audit         []auditView `json:"audit"`
					Complete      bool        `json:"complete"`
				}{1, views, complete}, true)
			case outputJSONL:
				for _, v := range views {
					if err := printJSON(a.out, v, false); err != nil {
						return err
					}
				}
				return nil
			}
			var cells [][]string
			for _, v := range views {
				cells = append(cells, []string{v.At, string(v.Action), v.OperatorOrRule, short(v.LetterID), v.EventID, v.ReplayBatchID, v.FinalStatus, v.Reason})
			}
			printTable(a.out, []string{"at", "action", "by", "letter", "event", "plan", "ended", "reason"}, cells)
			return nil
		}),
	}
	cmd.Flags().StringVar(&q.EventID, "event", "", "of this event alone")
	cmd.Flags().StringVar(&q.BatchID, "batch", "", "of this plan alone")
	cmd.Flags().IntVar(&q.Limit, "limit", 100, "rows at most, the newest")
	a.deskFlags(cmd, &flowsFile)
	a.outputFlag(cmd, outputTable, outputJSON, outputJSONL)
	return cmd
}
