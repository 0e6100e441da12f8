package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/logline"
	"github.com/oncegate/oncegate/internal/metrics"
)

func (a *app) metricsCommand() *cobra.Command {
	var flowsFile, logs string
	var retrySpan time.Duration
	cmd := &cobra.Command{
		Use:   "metrics",
		Short: "Print what tables and logs count, in the text format of Prometheus",
		Long: `Print counts in the text format of Prometheus: those of oncegate dlq metrics, and
tasks by status with their attempts, effects by state and stuck tasks, all from the
rows themselves.

Copies that were recognised leave no row. --logs reads the function's log, a file
or - for standard input, and adds what its lines add up to: claims, duplicates by
how they were recognised, attempts, replays by their end, new letters. On the local
cloud its function.log is read without being named.

Labels are codes, states, decisions and fingerprints, never what an event carries.`,
		Example: `  oncegate metrics >/var/lib/node_exporter/oncegate.prom
  oncegate metrics --target cloud --logs today.jsonl`,
		Args: cobra.NoArgs,
		RunE: runE(func(ctx context.Context, _ []string) error {
			target, err := a.chosenTarget()
			if err != nil {
				return err
			}
			d, store, done, err := a.openDeskStore(flowsFile)
			if err != nil {
				return err
			}
			defer done()
			m, err := d.Measure(ctx, store, deadletter.EachOptions{Progress: a.progress()})
			if err != nil {
				return err
			}
			a.saveScan(m.Counts)
			t, err := a.countTasks(ctx, newState(target, store, func() {}), store, retrySpan)
			if err != nil {
				return err
			}
			sums, err := a.sumLogs(target, logs)
			if err != nil {
				return err
			}
			all := append(m.Families(),
				metrics.By("oncegate_tasks", "Tasks by status.", metrics.Gauge, "status", t.status),
				metrics.By("oncegate_effects", "Side effects by state.", metrics.Gauge, "state", t.effects),
				metrics.One("oncegate_task_attempts", "Attempts of all tasks that there are.", metrics.Gauge, float64(t.attempts)),
				metrics.One("oncegate_tasks_tried_again", "Tasks with more than one attempt.", metrics.Gauge, float64(t.again)),
				metrics.One("oncegate_tasks_stuck", "Tasks that nothing moves on any more and that nobody was told of.", metrics.Gauge, float64(t.stuck)))
			if sums != nil {
				all = append(all, familiesOf(sums)...)
			}
			_, err = metrics.Write(a.out, all)
			return err
		}),
	}
	cmd.Flags().StringVar(&logs, "logs", "", "the function's log, or - for standard input")
	cmd.Flags().DurationVar(&retrySpan, "retry-span", 0, "how long the rule goes on delivering, for stuck tasks (default 24h; locally 15m)")
	a.deskFlags(cmd, &flowsFile)
	return cmd
}

func familiesOf(s *logline.Sums) []metrics.Family {
	return []metrics.Family{
		metrics.One("oncegate_claims_total", "New records, by the log.", metrics.Counter, float64(s.Claims)),
		metrics.One("oncegate_attempts_total", "Runs that began, by the log.", metrics.Counter, float64(s.Attempts)),
		metrics.By("oncegate_deliveries_total", "Deliveries by decision, by the log.", metrics.Counter, "decision", s.Deliveries),
		metrics.By("oncegate_duplicates_total", "Copies by how they were recognised, by the log.", metrics.Counter, "kind", s.Duplicates),
		metrics.By("oncegate_transitions_total", "Tasks by the status that they came to, by the log.", metrics.Counter, "status", s.Transitions),
		metrics.By("oncegate_replays_total", "Replayed events by decision, by the log.", metrics.Counter, "decision", s.Replays),
		metrics.By("oncegate_letters_total", "New dead letters by fingerprint, by the log.", metrics.Counter, "fingerprint", s.Letters),
	}
}

// sumLogs reads a log; nil where there is none to read.
func (a *app) sumLogs(target, name string) (*logline.Sums, error) {
	in := a.in
	if name != "-" {
		byName := name != ""
		if !byName {
			if target != targetLocal {
				return nil, nil
			}
			name = filepath.Join(a.stateDir, "function.log")
		}
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) && !byName {
			return nil, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read log: %w", err)
		}
		defer f.Close()
		in = f
	}
	s, err := logline.Sum(in)
	if err == nil {
		fmt.Fprintf(a.err, "%d lines of the log counted, %d of others passed over\n", s.Lines, s.Other)
	}
	return &s, err
}

type taskCounts struct {
	status          map[idempotency.Status]int
	effects         map[idempotency.EffectState]int
	attempts, again int64
	stuck           int
}

// countTasks scans the records' table, the columns alone that it counts by.
func (a *app) countTasks(ctx context.Context, s *state, store *aliyun.Tablestore, span time.Duration) (taskCounts, error) {
	c := taskCounts{status: map[idempotency.Status]int{}, effects: map[idempotency.EffectState]int{}}
	stuck, err := a.stuckTasks(ctx, s, span)
	if err != nil {
		return c, err
	}
	columns := []string{"kind", "status", "attempt", "lease_until", "not_before", "updated_at", "source", "event_id"}
	err = store.ScanAll(ctx, idempotency.TaskTable, aliyun.ScanOptions{Columns: columns}, func(p aliyun.Page) error {
		for i, row := range p.Rows {
			r := &aliyun.Reader{Row: row}
			if r.Text("kind") == idempotency.KindEffect {
				c.effects[idempotency.EffectState(r.Text("status"))]++
				continue
			}
			task := idempotency.Record{
				Key: p.Keys[i], Status: idempotency.Status(r.Text("status")), Attempt: r.Number("attempt"), LeaseUntil: r.Time("lease_until"),
				NotBefore: r.Time("not_before"), UpdatedAt: r.Time("updated_at"), Source: r.Text("source"), EventID: r.Text("event_id"),
			}
			if r.Err != nil {
				return fmt.Errorf("row %s: %w", p.Keys[i], r.Err)
			}
			c.status[task.Status]++
			c.attempts += task.Attempt
			if task.Attempt > 1 {
				c.again++
			}
			if stuck(task) {
				c.stuck++
			}
		}
		return nil
	})
	if err != nil {
		return c, fmt.Errorf("count tasks: %w", err)
	}
	return c, nil
}
