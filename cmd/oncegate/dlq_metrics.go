package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/deadletter"
)

func (a *app) dlqMetricsCommand() *cobra.Command {
	var flowsFile string
	var fresh bool
	cmd := &cobra.Command{
		Use:   "metrics",
		Short: "Print counts in the text format of Prometheus",
		Long: `Print counts of dead letters, reviews and plans in the text format of Prometheus,
from the rows themselves. Labels are codes, decisions, states and flows, never
anything that an event carries.`,
		Example: `  oncegate dlq metrics >/var/lib/node_exporter/oncegate.prom`,
		Args:    cobra.NoArgs,
		RunE: runE(func(ctx context.Context, _ []string) error {
			d, store, done, err := a.openDeskStore(flowsFile)
			if err != nil {
				return err
			}
			defer done()
			m, err := d.Measure(ctx, store, deadletter.EachOptions{Fresh: fresh, Progress: a.progress()})
			if err != nil {
				return err
			}
			a.saveScan(m.Counts)
			_, err = m.WriteTo(a.out)
			return err
		}),
	}
	cmd.Flags().BoolVar(&fresh, "fresh", false, "read the record of every letter, however many there are")
	a.deskFlags(cmd, &flowsFile)
	return cmd
}
