package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/messages"
)

func (a *app) taskApproveCommand() *cobra.Command {
	var reviewer string
	cmd := &cobra.Command{
		Use:   "approve KEY",
		Short: "Write the settled result as tasks/<key>/approved/result.md, with reviewer and time",
		Args:  cobra.ExactArgs(1),
		RunE: runE(func(ctx context.Context, args []string) error {
			key, err := checkKey(args[0])
			if err != nil {
				return err
			}
			if reviewer == "" {
				return usageErrorf("--reviewer is needed: who has read the result")
			}
			tasks, objects, done, err := a.openTasksAndObjects()
			if err != nil {
				return err
			}
			defer done()
			r, err := findRecord(ctx, tasks, key)
			if err != nil {
				return err
			}
			if r.Status != idempotency.StatusSucceeded {
				return messages.Errorf("task %s is %s: only a settled result can be approved", short(r.Key), r.Status)
			}
			body, err := objects.Read(ctx, r.ResultRef)
			if err != nil {
				return err
			}
			text, err := approvedText(r, body, reviewer, time.Now())
			if err != nil {
				return err
			}
			name, err := objects.PutApproved(ctx, r.Key, text)
			if err != nil {
				return err
			}
			if a.output == outputJSON {
				return printJSON(a.out, struct {
					SchemaVersion int    `json:"schema_version"`
					Key           string `json:"idempotency_key"`
					Object        string `json:"object"`
					Reviewer      string `json:"reviewer"`
				}{1, r.Key, name, reviewer}, true)
			}
			fmt.Fprintf(a.out, "approved: %s\n", name)
			return nil
		}),
	}
	cmd.Flags().StringVar(&reviewer, "reviewer", a.getenv("USER"), "who has read the result (required; default: $USER)")
	a.targetFlags(cmd)
	a.outputFlag(cmd, outputTable, outputJSON)
	return cmd
}

func (a *app) taskOutputCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "output KEY",
		Short: "Print the settled result of a task, checked against its hash",
		Args:  cobra.ExactArgs(1),
		RunE: runE(func(ctx context.Context, args []string) error {
			key, err := checkKey(args[0])
			if err != nil {
				return err
			}
			tasks, objects, done, err := a.openTasksAndObjects()
			if err != nil {
				return err
			}
			defer done()
			r, err := findRecord(ctx, tasks, key)
			if err != nil {
				return err
			}
			if r.Status != idempotency.StatusSucceeded {
				return notFoundf("task %s is %s: it has no settled result", short(r.Key), r.Status)
			}
			body, err := objects.Read(ctx, r.ResultRef)
			if err != nil {
				return err
			}
			_, err = a.out.Write(body)
			return err
		}),
	}
	a.targetFlags(cmd)
	return cmd
}

// openTasksAndObjects reaches records and objects of the chosen target.
func (a *app) openTasksAndObjects() (*idempotency.Table, *artifacts.Store, func(), error) {
	target, err := a.chosenTarget()
	if err != nil {
		return nil, nil, nil, err
	}
	var store *aliyun.Tablestore
	var bucket *aliyun.Bucket
	done := func() {}
	if target == targetCloud {
		if store, bucket, err = a.cloudStore(); err != nil {
			return nil, nil, nil, err
		}
	} else {
		if err := a.needLocalState(); err != nil {
			return nil, nil, nil, err
		}
		c, err := openCloud(a.stateDir)
		if err != nil {
			return nil, nil, nil, err
		}
		if err := a.actOn(c); err != nil {
			c.Close()
			return nil, nil, nil, err
		}
		store, bucket, done = c.store, c.bucket, c.Close
	}
	return idempotency.NewTable(store, idempotency.DefaultPolicy()), artifacts.NewStore(bucket, a.encryption()), done, nil
}

func (a *app) encryption() string {
	switch v := a.getenv("ONCEGATE_OSS_ENCRYPTION"); v {
	case "":
		return "AES256"
	case "bucket":
		return ""
	default:
		return v
	}
}

// approvedText is the result as a page: what the processor made, and who has
// read it.
func approvedText(r idempotency.Record, body []byte, reviewer string, now time.Time) ([]byte, error) {
	var fields map[string]any
	if err := json.Unmarshal(body, &fields); err != nil {
		return nil, fmt.Errorf("read the result: %w", err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", r.Flow)
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if slices.Contains(flows.Reserved, name) {
			continue
		}
		if s, ok := fields[name].(string); ok {
			fmt.Fprintf(&b, "## %s\n\n%s\n\n", name, s)
			continue
		}
		raw, err := json.Marshal(fields[name])
		if err != nil {
			return nil, fmt.Errorf("read the result: %w", err)
		}
		fmt.Fprintf(&b, "## %s\n\n    %s\n\n", name, raw)
	}
	fmt.Fprintf(&b, "---\n\ntask %s, attempt %d, result %s\n\napproved by %s at %s\n", r.Key, r.Attempt, r.ResultRef.Object, reviewer, utc(now))
	return []byte(b.String()), nil
}
