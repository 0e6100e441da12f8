package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/messages"
)

// taskView is a record as it is printed.
type taskView struct {
	Key              string             `json:"idempotency_key"`
	Flow             string             `json:"flow"`
	Status           idempotency.Status `json:"status"`
	Attempt          int64              `json:"attempt"`
	AttemptBudget    int64              `json:"attempt_budget"`
	Revision         int64              `json:"revision"`
	ResultRef        string             `json:"result_ref"`
	ResultVersionID  string             `json:"result_version_id"`
	ResultSHA256     string             `json:"result_sha256"`
	LastErrorCode    idempotency.Code   `json:"last_error_code"`
	LastErrorTarget  string             `json:"last_error_target"`
	LastErrorSummary string             `json:"last_error_summary"`
	NotBefore        string             `json:"not_before"`
	LeaseUntil       string             `json:"lease_until"`
	KeyFields        string             `json:"key_fields"`
	InputDigest      string             `json:"input_digest"`
	Environment      string             `json:"environment"`
	EventID          string             `json:"event_id"`
	EventSource      string             `json:"event_source"`
	ConsumerVersion  string             `json:"consumer_version"`
	ProcessorVersion string             `json:"processor_version"`
	FirstReceivedAt  string             `json:"first_received_at"`
	LastAttemptAt    string             `json:"last_attempt_at"`
	UpdatedAt        string             `json:"updated_at"`
	ExpiresAt        string             `json:"expires_at"`

	Effects []idempotency.TaskEffect `json:"effects"`
}

func viewOf(r idempotency.Record) taskView {
	return taskView{
		Key: r.Key, Flow: r.Flow, Status: r.Status, Attempt: r.Attempt, AttemptBudget: r.AttemptBudget, Revision: r.Revision,
		ResultRef: r.ResultRef.Object, ResultVersionID: r.ResultRef.VersionID, ResultSHA256: r.ResultRef.SHA256,
		LastErrorCode: r.LastErrorCode, LastErrorTarget: r.LastErrorTarget, LastErrorSummary: r.LastErrorSummary,
		NotBefore: utc(r.NotBefore), LeaseUntil: utc(r.LeaseUntil), KeyFields: r.KeyFields, InputDigest: r.InputDigest,
		Environment: r.Environment, EventID: r.EventID, EventSource: r.Source,
		ConsumerVersion: r.ConsumerVersion, ProcessorVersion: r.ProcessorVersion,
		FirstReceivedAt: utc(r.FirstReceivedAt), LastAttemptAt: utc(r.LastAttemptAt), UpdatedAt: utc(r.UpdatedAt), ExpiresAt: utc(r.ExpiresAt),
		Effects: append([]idempotency.TaskEffect{}, r.Effects...),
	}
}

func (a *app) taskCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "task", Short: "Read the records of tasks, and approve results",
		Example: `  oncegate task list --status FAILED_FINAL
  oncegate task show 423fb1e078de`,
	}
	cmd.AddCommand(a.taskShowCommand(), a.taskHistoryCommand(), a.taskFindCommand(), a.taskListCommand(), a.taskOutputCommand(), a.taskApproveCommand())
	return parent(cmd)
}

func (a *app) taskShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show KEY",
		Short: "Show one record; KEY may be a unique beginning of a key",
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
			return a.printRecord(r)
		}),
	}
	a.targetFlags(cmd)
	a.outputFlag(cmd, outputTable, outputJSON)
	return cmd
}

// checkKey accepts a key or the beginning of one.
func checkKey(arg string) (string, error) {
	key := strings.ToLower(arg)
	if key == "" || len(key) > 64 || strings.Trim(key, "0123456789abcdef") != "" {
		return "", usageErrorf("KEY must be up to 64 hex digits; `oncegate key FILE` shows the key of an event")
	}
	return key, nil
}

func findRecord(ctx context.Context, records *idempotency.Table, key string) (idempotency.Record, error) {
	if len(key) == 64 {
		r, ok, err := records.Get(ctx, key)
		if err == nil && !ok {
			err = notFoundf("there is no task with key %s", key)
		}
		return r, err
	}
	// Keys are hex digits, and "g" comes after all of them.
	found, next, err := records.List(ctx, key, key+"g", 2)
	switch {
	case err != nil:
		return idempotency.Record{}, err
	case len(found) == 0 && next == "":
		return idempotency.Record{}, notFoundf("there is no task whose key begins with %s", key)
	case len(found) != 1 || next != "":
		return idempotency.Record{}, messages.Errorf("more than one key begins with %s: give more of it", key)
	}
	return found[0], nil
}

func (a *app) printRecord(r idempotency.Record) error {
	if a.output == outputJSON {
		return printJSON(a.out, struct {
			SchemaVersion int `json:"schema_version"`
			taskView
			History []idempotency.Step `json:"history"`
		}{1, viewOf(r), r.History}, true)
	}
	printTask(a, r)
	return nil
}

func printTask(a *app, r idempotency.Record) {
	v := viewOf(r)
	for _, pair := range [][2]string{
		{"idempotency_key", v.Key},
		{"flow", v.Flow},
		{"status", string(v.Status)},
		{"attempt", fmt.Sprintf("%d of %d", v.Attempt, v.AttemptBudget)},
		{"result_ref", v.ResultRef},
		{"result_sha256", v.ResultSHA256},
		{"last_error", strings.TrimSpace(string(v.LastErrorCode) + " " + v.LastErrorTarget + " " + v.LastErrorSummary)},
		{"not_before", v.NotBefore},
		{"lease_until", v.LeaseUntil},
		{"key_fields", v.KeyFields},
		{"input_digest", v.InputDigest},
		{"environment", v.Environment},
		{"event", strings.TrimSpace(v.EventSource + " " + v.EventID)},
		{"consumer_version", v.ConsumerVersion},
		{"processor_version", v.ProcessorVersion},
		{"first_received_at", v.FirstReceivedAt},
		{"updated_at", v.UpdatedAt},
		{"expires_at", v.ExpiresAt},
	} {
		if pair[1] != "" {
			fmt.Fprintf(a.out, "%-18s %s\n", pair[0], inert(pair[1]))
		}
	}
	fmt.Fprintln(a.out)
	if len(r.Effects) > 0 {
		var rows [][]string
		for _, e := range r.Effects {
			state := string(e.State)
			if state == "" {
				state = "not sent yet"
			}
			rows = append(rows, []string{e.Name, string(e.Kind), state, string(e.Outcome), e.TargetRecordID, short(e.Key)})
		}
		printTable(a.out, []string{"effect", "target", "state", "outcome", "number at the target", "key"}, rows)
		fmt.Fprintln(a.out)
	}
	printHistory(a, r)
}

func (a *app) taskListCommand() *cobra.Command {
	var status string
	var limit int
	var stuck bool
	var retrySpan time.Duration
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List records; scans the whole table",
		Args:  cobra.NoArgs,
		RunE: runE(func(ctx context.Context, _ []string) error {
			want := idempotency.Status(strings.ToUpper(status))
			if want != "" && !want.Known() {
				return usageErrorf("--status %q is not known; use RECEIVED, RUNNING, SUCCEEDED, FAILED_RETRYABLE, FAILED_FINAL or OUTCOME_UNKNOWN", status)
			}
			if stuck && want != "" {
				return usageErrorf("--stuck and --status exclude each other")
			}
			if limit < 1 {
				return usageErrorf("--limit must be at least 1")
			}
			s, err := a.openState()
			if err != nil {
				return err
			}
			defer s.done()
			keep := func(r idempotency.Record) bool { return want == "" || r.Status == want }
			if stuck {
				if keep, err = a.stuckTasks(ctx, s, retrySpan); err != nil {
					return err
				}
			}
			list, err := a.listTasks(ctx, s.tasks, keep, limit)
			if err != nil {
				return err
			}
			return a.printTasks(list)
		}),
	}
	cmd.Flags().BoolVar(&stuck, "stuck", false, "only tasks that nothing moves on any more, and that nobody has been told of")
	cmd.Flags().DurationVar(&retrySpan, "retry-span", 0, "with --stuck: how long the rule goes on delivering (default 24h; locally 15m)")
	cmd.Flags().StringVar(&status, "status", "", "only tasks with this status")
	cmd.Flags().IntVar(&limit, "limit", 1000, "most tasks to list")
	a.targetFlags(cmd)
	a.outputFlag(cmd, outputTable, outputJSON, outputJSONL)
	return cmd
}

// taskList is what a scan found, and whether it saw the whole table.
type taskList struct {
	SchemaVersion int        `json:"schema_version"`
	Tasks         []taskView `json:"tasks"`
	Scanned       int        `json:"scanned"`
	Complete      bool       `json:"complete"`
}

func (a *app) listTasks(ctx context.Context, records *idempotency.Table, keep func(idempotency.Record) bool, limit int) (taskList, error) {
	list := taskList{SchemaVersion: 1, Tasks: []taskView{}}
	fmt.Fprintf(a.err, "scanning table %s ...\n", idempotency.TaskTable.Name)
	from := ""
	for {
		page, next, err := records.List(ctx, from, "", 500)
		if err != nil {
			return list, err
		}
		for _, r := range page {
			if len(list.Tasks) == limit {
				return list, nil
			}
			list.Scanned++
			if keep(r) {
				list.Tasks = append(list.Tasks, viewOf(r))
			}
		}
		if next == "" {
			list.Complete = true
			return list, nil
		}
		from = next
	}
}

func (a *app) printTasks(list taskList) error {
	switch a.output {
	case outputJSON:
		return printJSON(a.out, list, true)
	case outputJSONL:
		for _, t := range list.Tasks {
			if err := printJSON(a.out, t, false); err != nil {
				return err
			}
		}
	default:
		var rows [][]string
		for _, t := range list.Tasks {
			rows = append(rows, []string{
				short(t.Key), t.Flow, string(t.Status), strconv.FormatInt(t.Attempt, 10), string(t.LastErrorCode), t.UpdatedAt, shortRef(t.ResultRef),
			})
		}
		printTable(a.out, []string{"key", "flow", "status", "attempt", "last error", "updated", "result"}, rows)
	}
	complete := "complete"
	if !list.Complete {
		complete = "NOT complete: raise --limit"
	}
	fmt.Fprintf(a.err, "%d tasks of %d scanned, %s\n", len(list.Tasks), list.Scanned, complete)
	return nil
}
