package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/messages"
)

// flowView is a flow as it is printed.
type flowView struct {
	Name             string `json:"name"`
	Owner            string `json:"owner"`
	NumberOwner      string `json:"number_owner"`
	Environment      string `json:"environment"`
	Enabled          bool   `json:"enabled"`
	Match            string `json:"match"`
	KeyRule          string `json:"key_rule"`
	Ignored          string `json:"ignored"`
	Sensitive        bool   `json:"sensitive"`
	Processor        string `json:"processor"`
	ProcessorVersion string `json:"processor_version"`
	MaxAttempts      int64  `json:"max_attempts"`
	DataVersion      string `json:"data_version"` // schema_version of its data
	HasSchema        bool   `json:"has_schema"`

	Migrations []string `json:"migrations"`

	Effects []effectView `json:"effects"`
}

// effectView is a declared side effect as it is printed.
type effectView struct {
	Name         string                 `json:"name"`
	Uses         string                 `json:"uses"`
	Kind         idempotency.TargetKind `json:"kind"`
	Timeout      string                 `json:"timeout"`
	KeyTTL       string                 `json:"key_ttl"`
	VisibleAfter string                 `json:"visible_after"`
}

func (e effectView) String() string {
	text := fmt.Sprintf("%s uses %s, target %s, time-out %s", e.Name, e.Uses, e.Kind, e.Timeout)
	if e.KeyTTL != "" {
		text += ", remembers a key for " + e.KeyTTL
	}
	if e.VisibleAfter != "" {
		text += ", shows a write within " + e.VisibleAfter
	}
	return text
}

func effectsOf(f *flows.Flow) []effectView {
	views := []effectView{}
	for _, e := range f.Effects {
		v := effectView{Name: e.Name, Uses: e.Uses, Kind: e.Kind, Timeout: e.Timeout.String()}
		if e.KeyTTL > 0 {
			v.KeyTTL = e.KeyTTL.String()
		}
		if e.VisibleAfter > 0 {
			v.VisibleAfter = e.VisibleAfter.String()
		}
		views = append(views, v)
	}
	return views
}

func flowOf(f *flows.Flow) flowView {
	return flowView{
		f.Name, f.Owner, f.NumberOwner, f.EnvironmentPath(), f.Enabled, f.MatchRule(), f.KeyRule(), f.IgnoreRule(), f.NeedsSecret(), f.Processor, f.ProcessorVersion, f.MaxAttempts,
		f.SchemaVersion, f.HasSchema(), migrationsOf(f), effectsOf(f),
	}
}

// migrationsOf names the migrations that dlq migrate can do for a flow.
func migrationsOf(f *flows.Flow) []string {
	names := []string{}
	for _, m := range flows.Migrations() {
		if m.Flow == f.Name {
			names = append(names, m.Name())
		}
	}
	return append(names, flows.Identity)
}

func (a *app) flowsCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "flows", Short: "Check flows.yaml"}
	cmd.AddCommand(a.flowsCheckCommand())
	return parent(cmd)
}

func (a *app) flowsCheckCommand() *cobra.Command {
	var flowsFile, against string
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check flows.yaml and print each flow; with --against, check a change of it",
		Long: `Check flows.yaml and print each flow.

With --against OLD, also refuse a key rule or a key secret that changes while
work of the old one is open: the same business would get a second key. Turn the
flow off in OLD (enabled: false), let its tasks and dead letters end, then change
the rule. The tables of the target are scanned for that; the secret is read from
ONCEGATE_KEY_SECRET.`,
		Example: `  oncegate flows check
  oncegate flows check --flows new.yaml --against flows/flows.yaml --target cloud`,
		Args: cobra.NoArgs,
		RunE: runE(func(ctx context.Context, _ []string) error {
			raw, err := readFlows(flowsFile)
			if err != nil {
				return err
			}
			// The processors' names are checked too; nothing is called.
			set, err := flows.Load(raw, flows.Processors(flows.Tools{Model: flows.NewModel(flows.ModelOptions{})}))
			if err != nil {
				return err
			}
			if err := a.printFlows(set); err != nil {
				return err
			}
			fmt.Fprintf(a.err, "%d flows, no problem found\n", len(set.Flows))
			if against == "" {
				return nil
			}
			old, err := loadFlows(against)
			if err != nil {
				return fmt.Errorf("--against: %w", err)
			}
			return a.checkChange(ctx, old, set)
		}),
	}
	cmd.Flags().StringVar(&flowsFile, "flows", "", "a flows.yaml in place of the built-in one")
	cmd.Flags().StringVar(&against, "against", "", "the flows.yaml that runs now")
	a.targetFlags(cmd)
	a.outputFlag(cmd, outputTable, outputJSON)
	return cmd
}

func readFlows(file string) ([]byte, error) {
	if file == "" {
		return flows.EmbeddedYAML(), nil
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, messages.Errorf("load flows: %w", err)
	}
	return raw, nil
}

func (a *app) printFlows(set *flows.Set) error {
	if a.output == outputJSON {
		views := make([]flowView, len(set.Flows))
		for i, f := range set.Flows {
			views[i] = flowOf(f)
		}
		return printJSON(a.out, struct {
			SchemaVersion int        `json:"schema_version"`
			Flows         []flowView `json:"flows"`
		}{1, views}, true)
	}
	for i, f := range set.Flows {
		if i > 0 {
			fmt.Fprintln(a.out)
		}
		v := flowOf(f)
		enabled := "yes"
		if !v.Enabled {
			enabled = "no: events are kept as PARKED dead letters"
		}
		fmt.Fprintln(a.out, inert(v.Name))
		for _, pair := range [][2]string{
			{"owner", v.Owner},
			{"number_owner", v.NumberOwner},
			{"environment", v.Environment},
			{"enabled", enabled},
			{"match", v.Match},
			{"key", v.KeyRule},
			{"ignored", v.Ignored},
			{"processor", v.Processor + ", version " + v.ProcessorVersion},
			{"max_attempts", strconv.FormatInt(v.MaxAttempts, 10)},
			{"data version", said(v.DataVersion != "", v.DataVersion+said(v.HasSchema, ", checked by its schema")+"; migrations "+strings.Join(v.Migrations, ", "))},
		} {
			if pair[1] != "" {
				fmt.Fprintf(a.out, "  %-13s %s\n", pair[0], inert(pair[1]))
			}
		}
		for _, e := range v.Effects {
			fmt.Fprintf(a.out, "  %-13s %s\n", "effect", inert(e.String()))
		}
	}
	return nil
}

// checkChange refuses a change of keys under open work.
func (a *app) checkChange(ctx context.Context, old, set *flows.Set) error {
	s, err := a.openState()
	if err != nil {
		return messages.Errorf("--against needs the tables, to see whether work is open: %w", err)
	}
	defer s.done()
	open, err := openWork(ctx, s)
	if err != nil {
		return err
	}
	secret := []byte(a.keySecret(s.target))
	var problems []string
	for _, was := range old.Flows {
		i := slices.IndexFunc(set.Flows, func(f *flows.Flow) bool { return f.Name == was.Name })
		rule, changed := "", true
		if i >= 0 {
			rule, changed = set.Flows[i].KeyRuleID(secret), set.Flows[i].KeyRule() != was.KeyRule()
		}
		stale := workCount{}
		for id, n := range open[was.Name] {
			if id != rule {
				stale.tasks += n.tasks
				stale.letters += n.letters
			}
		}
		switch {
		case stale.tasks+stale.letters > 0:
			why := "the key secret is another one than theirs"
			if i < 0 {
				why = "the flow is gone"
			} else if changed {
				why = "its key rule changes"
			}
			problems = append(problems, fmt.Sprintf("flow %s: %s, and %d tasks and %d dead letters of the old rule are open: let them end first",
				was.Name, why, stale.tasks, stale.letters))
		case changed && was.Enabled:
			problems = append(problems, fmt.Sprintf("flow %s: its key rule changes while it is on: turn it off first (enabled: false), so that no event gets an old key any more", was.Name))
		}
	}
	if len(problems) > 0 {
		return refusedf("the change is refused:\n  %s", strings.Join(problems, "\n  "))
	}
	fmt.Fprintln(a.err, "the change is safe: no open work has a key of an old rule")
	return nil
}

// workCount is how much of a flow is open under one key rule.
type workCount struct{ tasks, letters int }

// openWork counts what is open by flow and key rule; scans both tables.
func openWork(ctx context.Context, s *state) (map[string]map[string]workCount, error) {
	open := map[string]map[string]workCount{}
	add := func(flow, rule string, tasks, letters int) {
		if open[flow] == nil {
			open[flow] = map[string]workCount{}
		}
		n := open[flow][rule]
		open[flow][rule] = workCount{n.tasks + tasks, n.letters + letters}
	}
	for from, more := "", true; more; more = from != "" {
		page, next, err := s.tasks.List(ctx, from, "", 500)
		if err != nil {
			return nil, err
		}
		for _, r := range page {
			if r.Status != idempotency.StatusSucceeded && r.Status != idempotency.StatusFailedFinal {
				add(r.Flow, r.KeyRule, 1, 0)
			}
		}
		from = next
	}
	for from, more := "", true; more; more = from != "" {
		page, next, err := s.letters.List(ctx, from, 500)
		if err != nil {
			return nil, err
		}
		for _, l := range page {
			if l.Open() && l.Key != "" {
				add(l.Flow, l.KeyRule, 0, 1)
			}
		}
		from = next
	}
	return open, nil
}
