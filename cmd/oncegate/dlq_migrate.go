package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/internal/aliyun"
)

// migrationView is one letter's migration as it is printed.
type migrationView struct {
	ID         string              `json:"id"`
	EventID    string              `json:"event_id"`
	Migration  string              `json:"migration"`
	ChildID    string              `json:"child_id"`
	ChildEvent string              `json:"child_event_id"`
	OriginalID string              `json:"original_event_id"`
	Generation int64               `json:"generation"`
	Changes    []deadletter.Change `json:"changes"`
	Done       bool                `json:"done"`
	Refused    string              `json:"refused"` // why; "" where it is not
}

func (a *app) dlqMigrateCommand() *cobra.Command {
	var flowsFile, to string
	var by author
	var change changeFlags
	cmd := &cobra.Command{
		Use:   "migrate EVENT|FINGERPRINT --to VERSION --reason TEXT",
		Short: "Make migrated children of letters, and close the letters as MIGRATED",
		Long: `Make migrated children of letters, and close the letters as MIGRATED.

A migration is code in flows/: it turns data of one schema_version into data of
another. --to names the version, FROM..TO where several lead there, or identity:
the data stays byte for byte, for a fault that new code has repaired.

The child has a new event id and originaleventid; source, type, subject and
business key stay. Its data is checked as today's code would. What changed is
shown by place and kind, without values. The child is an open letter of the same
group: oncegate dlq repair verify looks at it next. Interrupted, the same command
goes on where it was, to the same child.

Exit codes: 3 every letter was refused, 4 some were.`,
		Example: `  oncegate dlq migrate evt-2001 --to 2 --reason 'the producer wrote money as text'
  oncegate dlq migrate b36dd252a8bd --to identity --reason 'bug 17 is fixed' --execute --yes`,
		Args: cobra.ExactArgs(1),
		RunE: runE(func(ctx context.Context, args []string) error {
			if err := by.check(); err != nil {
				return err
			}
			if to == "" {
				return usageErrorf("--to is needed: a version, FROM..TO, or identity")
			}
			d, store, done, err := a.openDeskStore(flowsFile)
			if err != nil {
				return err
			}
			defer done()
			if err := by.identify(ctx, a, store, "migrate"); err != nil {
				return err
			}
			m := &deadletter.Migrator{Desk: d, Audit: deadletter.NewAuditLog(store), Migrations: flows.Migrations(), Now: time.Now}
			found, complete, err := pick(ctx, d, args[0], true)
			if err != nil {
				return err
			}
			if !complete {
				fmt.Fprintf(a.err, "more letters than %d have that name: these are the first, run it again for the rest\n", maxSorted)
			}
			var views []migrationView
			var ready []int // places in found and views
			for _, j := range found {
				c, err := m.Prepare(ctx, j.Letter, to)
				if errors.Is(err, deadletter.ErrMade) && len(found) > 1 {
					fmt.Fprintf(a.err, "letter %s: %v; left as it is\n", short(j.Letter.ID), err)
					continue
				}
				if aliyun.KindOf(err) == aliyun.KindDenied {
					return err // it is about who asks, not about the letter
				}
				v := migrationView{ID: j.Letter.ID, EventID: j.Letter.EventID, Changes: []deadletter.Change{}}
				if err != nil {
					v.Refused = err.Error()
				} else {
					v.Migration, v.ChildID, v.ChildEvent, v.OriginalID = c.Letter.Migration, c.Letter.ID, c.Letter.EventID, c.Letter.OriginalEventID
					v.Generation, v.Changes = c.Letter.Generation, c.Diff
					ready = append(ready, len(views))
				}
				views = append(views, v)
			}
			if a.output == outputTable {
				if err := a.printMigrations(views); err != nil {
					return err
				}
			}
			if len(ready) > 0 {
				do, err := a.confirm(change, "migrate "+strconv.Itoa(len(ready))+" letters")
				if err != nil {
					return err
				}
				if do {
					if err := a.migrate(ctx, m, found, views, ready, to, by); err != nil {
						return err
					}
				}
			}
			if a.output != outputTable {
				if err := a.printMigrations(views); err != nil {
					return err
				}
			}
			switch refused := len(views) - len(ready); {
			case refused == 0:
				return nil
			case len(ready) == 0:
				return refusedf("%d letters were refused", refused)
			default:
				return notFoundf("%d of %d letters were refused", refused, len(views))
			}
		}),
	}
	cmd.Flags().StringVar(&to, "to", "", "the version to migrate to, FROM..TO, or identity (required)")
	by.add(cmd)
	change.add(cmd)
	a.deskFlags(cmd, &flowsFile)
	a.outputFlag(cmd, outputTable, outputJSON, outputJSONL)
	return cmd
}

// migrate makes the children of the letters that are ready.
func (a *app) migrate(ctx context.Context, m *deadletter.Migrator, found []deadletter.Judgement, views []migrationView, ready []int, to string, by author) error {
	for _, at := range ready {
		v := &views[at]
		for _, j := range found {
			if j.Letter.ID != v.ID {
				continue
			}
			child, _, err := m.Migrate(ctx, j.Letter, to, by.who, by.why)
			if err != nil {
				return fmt.Errorf("letter %s: %w", short(v.ID), err)
			}
			v.ChildID, v.Done = child.ID, true
			fmt.Fprintf(a.err, "letter %s is closed as MIGRATED; its child %s %s is open\n", short(v.ID), short(child.ID), child.EventID)
		}
	}
	return nil
}

func (a *app) printMigrations(views []migrationView) error {
	switch a.output {
	case outputJSON:
		return printJSON(a.out, struct {
			SchemaVersion int             `json:"schema_version"`
			Letters       []migrationView `json:"letters"`
		}{1, append([]migrationView{}, views...)}, true)
	case outputJSONL:
		for _, v := range views {
			if err := printJSON(a.out, v, false); err != nil {
				return err
			}
		}
		return nil
	}
	var rows [][]string
	for _, v := range views {
		var changes []string
		for _, c := range v.Changes {
			changes = append(changes, c.Kind+" "+c.Path)
		}
		said := strings.Join(changes, ", ")
		if v.Refused != "" {
			said = "refused: " + v.Refused
		}
		rows = append(rows, []string{short(v.ID), v.EventID, v.Migration, short(v.ChildID), v.ChildEvent, said})
	}
	printTable(a.out, []string{"letter", "event", "migration", "child", "child event", "changes"}, rows)
	return nil
}
