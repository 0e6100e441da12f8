package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

func (a *app) setupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Create the tables, locally the bucket, and write the bucket's lifecycle rules",
		Long: `Create the tables that oncegate needs, on the local cloud its bucket, and write
the bucket's lifecycle rules: objects expire by their class tag, former versions
after a month. Rules of others are kept. On the cloud they follow ONCEGATE_RETENTION,
90 days by default: give it as the function has it.

What is there already is checked and left as it is. The function itself never
creates anything.`,
		Example: `  oncegate setup --target local
  oncegate setup --target cloud`,
		Args: cobra.NoArgs,
		RunE: runE(func(ctx context.Context, _ []string) error {
			target, err := a.chosenTarget()
			if err != nil {
				return err
			}
			var created []string
			if target == targetCloud {
				store, bucket, err := a.cloudStore()
				if err != nil {
					return err
				}
				if created, err = createTables(ctx, store); err != nil {
					return err
				}
				env := aliyun.NewEnv(a.getenv)
				days := daysOf(env.Duration("ONCEGATE_RETENTION", idempotency.DefaultPolicy().Retention))
				if err := env.Err(); err != nil {
					return err
				}
				if created, err = setExpiry(ctx, bucket, days, created); err != nil {
					return err
				}
			} else {
				c, err := openCloud(a.stateDir)
				if err != nil {
					return err
				}
				defer c.Close()
				// Who names no role owns the local cloud; operators may not set up.
				if a.getenv(localIdentityVariable) != "" {
					if err := a.actOn(c); err != nil {
						return err
					}
				}
				if created, err = c.setup(ctx); err != nil {
					return err
				}
			}
			if a.output == outputJSON {
				return printJSON(a.out, struct {
					SchemaVersion int      `json:"schema_version"`
					Target        string   `json:"target"`
					Created       []string `json:"created"`
				}{1, target, append([]string{}, created...)}, true)
			}
			if len(created) == 0 {
				fmt.Fprintf(a.out, "%s: everything is there already\n", target)
			}
			for _, name := range created {
				fmt.Fprintf(a.out, "%s: created %s\n", target, name)
			}
			return nil
		}),
	}
	a.targetFlags(cmd)
	a.outputFlag(cmd, outputTable, outputJSON)
	return cmd
}
