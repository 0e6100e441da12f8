package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/letter"
)

// groupView is the letters of one fingerprint.
type groupView struct {
	Fingerprint string                      `json:"fingerprint"`
	ErrorCode   letter.Code                 `json:"error_code"`
	Target      string                      `json:"target"`
	Open        int                         `json:"open"`
	Closed      int                         `json:"closed"`
	Decisions   map[deadletter.Decision]int `json:"decisions"` // of the open ones
	FirstFailed string                      `json:"first_failed_at"`
	LastFailed  string                      `json:"last_failed_at"`
}

func groupOf(g deadletter.Group) groupView {
	return groupView{g.Fingerprint, g.Code, g.Target, g.Open, g.Closed, g.Decisions, utc(g.FirstFailed), utc(g.LastFailed)}
}

func (a *app) dlqGroupsCommand() *cobra.Command {
	var flowsFile string
	var fresh bool
	var limit int
	cmd := &cobra.Command{
		Use:   "groups",
		Short: "Group dead letters by fingerprint: one fault is one group",
		Args:  cobra.NoArgs,
		RunE: runE(func(ctx context.Context, _ []string) error {
			if limit < 0 {
				return usageErrorf("--limit must not be negative")
			}
			d, done, err := a.openDesk(flowsFile)
			if err != nil {
				return err
			}
			defer done()
			c, err := d.Count(ctx, deadletter.EachOptions{Fresh: fresh, Progress: a.progress()})
			if err != nil {
				return err
			}
			a.saveScan(c)
			a.basis(c.Basis)
			complete := limit == 0 || len(c.Groups) <= limit
			if !complete {
				c.Groups = c.Groups[:limit]
			}
			if err := a.printGroups(c, complete); err != nil {
				return err
			}
			all := "complete"
			if !complete {
				all = "not complete: there are more"
			}
			fmt.Fprintf(a.err, "%d groups, %s\n", len(c.Groups), all)
			return nil
		}),
	}
	cmd.Flags().BoolVar(&fresh, "fresh", false, "read the record of every letter, however many there are")
	cmd.Flags().IntVar(&limit, "limit", 0, "groups shown at most, the largest first (default: all)")
	a.deskFlags(cmd, &flowsFile)
	a.outputFlag(cmd, outputTable, outputJSON, outputJSONL)
	return cmd
}

func (a *app) printGroups(c deadletter.Counts, complete bool) error {
	switch a.output {
	case outputJSON:
		views := make([]groupView, len(c.Groups))
		for i, g := range c.Groups {
			views[i] = groupOf(g)
		}
		return printJSON(a.out, struct {
			SchemaVersion int         `json:"schema_version"`
			Groups        []groupView `json:"groups"`
			Complete      bool        `json:"complete"`
		}{1, views, complete}, true)
	case outputJSONL:
		for _, g := range c.Groups {
			if err := printJSON(a.out, groupOf(g), false); err != nil {
				return err
			}
		}
		return nil
	}
	var rows [][]string
	for _, g := range c.Groups {
		var decisions strings.Builder
		for _, name := range slices.Sorted(maps.Keys(g.Decisions)) {
			fmt.Fprintf(&decisions, "%s %d  ", name, g.Decisions[name])
		}
		rows = append(rows, []string{
			g.Fingerprint, string(g.Code), g.Target, strconv.Itoa(g.Open), strconv.Itoa(g.Closed), decisions.String(), utc(g.LastFailed),
		})
	}
	printTable(a.out, []string{"fingerprint", "code", "target", "open", "closed", "decisions", "last failed"}, rows)
	return nil
}

// scanFile keeps the counts of the last scan, to be shown while the next one runs.
// Nothing reads them as counts.
const scanFile = "last-scan.json"

// lastScan is what scanFile holds.
type lastScan struct {
	At      time.Time                   `json:"at"`
	Seconds float64                     `json:"seconds"`
	Open    map[deadletter.Decision]int `json:"open"`
	Closed  map[letter.FinalStatus]int  `json:"closed"`
	Groups  int                         `json:"groups"`
}

// scanPath is where the last scan's counts of the target are kept.
func (a *app) scanPath() (string, error) {
	target, err := a.chosenTarget()
	if err != nil || target == targetLocal {
		return filepath.Join(a.stateDir, scanFile), err
	}
	dir := a.getenv("XDG_CACHE_HOME")
	if dir == "" {
		home := a.getenv("HOME")
		if home == "" {
			return "", fmt.Errorf("neither XDG_CACHE_HOME nor HOME is set")
		}
		dir = filepath.Join(home, ".cache")
	}
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return '_'
	}, strings.ToLower(a.getenv("ONCEGATE_TABLESTORE_INSTANCE")+"-"+a.getenv("ONCEGATE_ENVIRONMENT")))
	return filepath.Join(dir, "oncegate", name, scanFile), nil
}

// saveScan keeps counts for the next command; failing that is no failure of this one.
func (a *app) saveScan(c deadletter.Counts) {
	path, err := a.scanPath()
	if err == nil {
		err = os.MkdirAll(filepath.Dir(path), 0o700)
	}
	if err == nil {
		var raw []byte
		if raw, err = json.Marshal(lastScan{c.At, c.Took.Seconds(), c.Open, c.Closed, len(c.Groups)}); err == nil {
			// In one step: another command may be reading it.
			if err = os.WriteFile(path+".new", raw, 0o600); err == nil {
				err = os.Rename(path+".new", path)
			}
		}
	}
	if err != nil {
		fmt.Fprintf(a.err, "the counts are not kept for the next time: %v\n", err)
	}
}

// showLastScan says on stderr what the last scan has counted, if there was one.
func (a *app) showLastScan() {
	path, err := a.scanPath()
	if err != nil {
		return
	}
	raw, err := os.ReadFile(path)
	var s lastScan
	if err != nil || json.Unmarshal(raw, &s) != nil || s.At.IsZero() {
		return
	}
	open, closed := 0, 0
	for _, n := range s.Open {
		open += n
	}
	for _, n := range s.Closed {
		closed += n
	}
	fmt.Fprintf(a.err, "last scan, %s ago: %d open, %d closed, %d groups; counting anew (that took %.1f s) ...\n", ago(time.Since(s.At)), open, closed, s.Groups, s.Seconds)
}

func (a *app) dlqStatusCommand() *cobra.Command {
	var flowsFile string
	var fresh bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Count dead letters by decision and by how they ended",
		Long: `Count dead letters by decision and by how they ended. The last scan's counts are
shown at once, with their age; those that follow are exact, from the letters.`,
		Args: cobra.NoArgs,
		RunE: runE(func(ctx context.Context, _ []string) error {
			a.showLastScan()
			d, done, err := a.openDesk(flowsFile)
			if err != nil {
				return err
			}
			defer done()
			c, err := d.Count(ctx, deadletter.EachOptions{Fresh: fresh, Progress: a.progress()})
			if err != nil {
				return err
			}
			a.saveScan(c)
			a.basis(c.Basis)
			if a.output == outputJSON {
				return printJSON(a.out, struct {
					SchemaVersion int                         `json:"schema_version"`
					Open          map[deadletter.Decision]int `json:"open"`
					Closed        map[letter.FinalStatus]int  `json:"closed"`
					Groups        int                         `json:"groups"`
					Stored        int                         `json:"decisions_as_stored"`
					Oldest        string                      `json:"oldest_decision"`
					Complete      bool                        `json:"complete"`
				}{1, c.Open, c.Closed, len(c.Groups), c.Basis.Stored, utc(c.Basis.Oldest), true}, true)
			}
			var rows [][]string
			for _, name := range slices.Sorted(maps.Keys(c.Open)) {
				rows = append(rows, []string{"open", string(name), strconv.Itoa(c.Open[name])})
			}
			for _, name := range slices.Sorted(maps.Keys(c.Closed)) {
				rows = append(rows, []string{"closed", string(name), strconv.Itoa(c.Closed[name])})
			}
			printTable(a.out, []string{"letters", "decision or end", "count"}, rows)
			return nil
		}),
	}
	cmd.Flags().BoolVar(&fresh, "fresh", false, "read the record of every letter, however many there are")
	a.deskFlags(cmd, &flowsFile)
	a.outputFlag(cmd, outputTable, outputJSON)
	return cmd
}
