package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/idempotency"
)

func (a *app) taskHistoryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history KEY",
		Short: "Show every step of one record; KEY may be a unique beginning of a key",
		Args:  cobra.ExactArgs(1),
		RunE: runE(func(ctx context.Context, args []string) error {
			key, err := checkKey(args[0])
			if err != nil {
				return err
			}
			s, err := a.openState()
			if err != nil {
				return err
			}
			defer s.done()
			r, err := findRecord(ctx, s.tasks, key)
			if err != nil {
				return err
			}
			if a.output == outputJSON {
				return printJSON(a.out, struct {
					SchemaVersion int                `json:"schema_version"`
					Key           string             `json:"idempotency_key"`
					Complete      bool               `json:"complete"`
					History       []idempotency.Step `json:"history"`
				}{1, r.Key, historyComplete(r), r.History}, true)
			}
			printHistory(a, r)
			return nil
		}),
	}
	a.targetFlags(cmd)
	a.outputFlag(cmd, outputTable, outputJSON)
	return cmd
}

// historyComplete reports whether no step has been dropped for room.
func historyComplete(r idempotency.Record) bool {
	return len(r.History) > 0 && r.History[0].Revision == 1
}

func printHistory(a *app, r idempotency.Record) {
	var rows [][]string
	for _, s := range r.History {
		rows = append(rows, []string{
			strconv.FormatInt(s.Revision, 10), string(s.Status), strconv.FormatInt(s.Attempt, 10), utc(time.UnixMilli(s.At)), string(s.Code), s.Actor,
		})
	}
	printTable(a.out, []string{"rev", "status", "attempt", "at", "code", "actor"}, rows)
	if !historyComplete(r) {
		fmt.Fprintln(a.out, "earlier steps were dropped for room")
	}
}

func (a *app) taskFindCommand() *cobra.Command {
	var flowName, flowsFile string
	cmd := &cobra.Command{
		Use:   "find --flow NAME FIELD=VALUE...",
		Short: "Find a task by the business fields of its key",
		Long: `Find a task by the business fields of its key, as flows.yaml names them.

Constants are filled in; every other field must be given. Sensitive fields need
the key secret in ONCEGATE_KEY_SECRET (locally a fixed one is used).`,
		Example: `  oncegate task find --flow content_review.generate_summary tenant_id=opc_demo \
      input_version=sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08`,
		Args: cobra.MinimumNArgs(1),
		RunE: runE(func(ctx context.Context, args []string) error {
			f, err := pickFlow(flowsFile, flowName)
			if err != nil {
				return err
			}
			values := map[string]string{}
			for _, arg := range args {
				name, value, ok := strings.Cut(arg, "=")
				if !ok {
					return usageErrorf("%q must be FIELD=VALUE", arg)
				}
				values[name] = value
			}
			target, err := a.chosenTarget()
			if err != nil {
				return err
			}
			key, err := f.FieldKey(values, []byte(a.keySecret(target)))
			var field *idempotency.FieldError
			if errors.As(err, &field) {
				return usageErrorf("field %s %s; the key of flow %s is %s", field.Field, field.Reason, f.Name, f.KeyRule())
			}
			if err != nil {
				return err
			}
			s, err := a.openState()
			if err != nil {
				return err
			}
			defer s.done()
			r, ok, err := s.tasks.Get(ctx, key.Hex)
			if err != nil {
				return err
			}
			if !ok {
				return notFoundf("there is no task of these fields: their key would be %s", key.Hex)
			}
			return a.printRecord(r)
		}),
	}
	cmd.Flags().StringVar(&flowName, "flow", "", "the flow's name (required)")
	cmd.Flags().StringVar(&flowsFile, "flows", "", "a flows.yaml in place of the built-in one")
	a.targetFlags(cmd)
	a.outputFlag(cmd, outputTable, outputJSON)
	return cmd
}

// keySecret is the secret of sensitive key fields, on the local cloud a public one.
func (a *app) keySecret(target string) string {
	if s := a.getenv("ONCEGATE_KEY_SECRET"); s != "" || target != targetLocal {
		return s
	}
	return localKeySecret
}

func pickFlow(file, name string) (*flows.Flow, error) {
	set, err := loadFlows(file)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, f := range set.Flows {
		if f.Name == name {
			return f, nil
		}
		names = append(names, f.Name)
	}
	return nil, usageErrorf("--flow %q is not known; there are %s", name, strings.Join(names, ", "))
}
