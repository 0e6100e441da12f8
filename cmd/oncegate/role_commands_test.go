package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/scripts/ram"
)

var update = flag.Bool("update", false, "write scripts/ram/COMMANDS.md anew")

const commandsPage = "../../scripts/ram/COMMANDS.md"

// use is one way of calling a command, or why calling it needs no right. In args
// STATE, FUNCTION, PLAN, TASK and TMP stand for what the prepared state holds.
type use struct {
	on      preparedState
	args    string // behind the command's path
	noCloud string // in place of them
}

// uses are what each command is tried with: as reading, as a dry run and as a
// change where these need other rights.
var uses = map[string][]use{
	"local deliver": {{noCloud: "it is the local cloud, whose function and rules have rights of their own"}},
	"local up":      {{noCloud: "it is the local cloud, and gives out credentials of every role"}},
	"key":           {{noCloud: "it computes from a file alone"}},
	"seal-key new":  {{noCloud: "it writes a file"}},
	"seal-key show": {{noCloud: "it reads a file"}},
	"setup":         {{on: stateOfLetters}},
	"doctor":        {{on: stateOfLetters}},
	"metrics":       {{on: stateOfLetters}},
	"publish":       {{on: stateOfLetters, args: "../../events/samples/01-summary.json --function FUNCTION"}},
	"preflight":     {{noCloud: "locally it is a producer and the function at once; on the cloud it uses the rights of both, and names the one that is missing"}},
	"drill":         {{noCloud: "it has a local cloud of its own"}},
	"flows check":   {{noCloud: "without --against it reads a file"}, {on: stateOfLetters, args: "--against ../../flows/flows.yaml"}},

	"task list":    {{on: stateOfLetters}, {on: stateOfLetters, args: "--stuck"}},
	"task show":    {{on: stateOfLetters, args: "TASK"}},
	"task history": {{on: stateOfLetters, args: "TASK"}},
	"task find":    {{on: stateOfLetters, args: "--flow order.create source_system=erp-1 number=nobody"}},
	"task output":  {{on: stateOfLetters, args: "TASK"}},
	"task approve": {{on: stateOfLetters, args: "TASK --reviewer amy"}},

	"review list":      {{on: stateOfLetters}},
	"review show":      {{on: stateOfLetters, args: "f64f"}},
	"review resolve":   {{on: stateOfLetters, args: "f64f --as confirmed_not_done --reason r --function FUNCTION"}},
	"review carry-out": {{on: stateOfAnswer, args: "f64f --function FUNCTION"}},

	"dlq status":  {{on: stateOfLetters}},
	"dlq groups":  {{on: stateOfLetters}},
	"dlq events":  {{on: stateOfLetters, args: "fe500ee44f76"}},
	"dlq explain": {{on: stateOfLetters, args: "evt-2002"}},
	"dlq sample":  {{on: stateOfLetters, args: "fe500ee44f76"}, {on: stateOfLetters, args: "fe500ee44f76 --reveal --reason r"}},
	"dlq audit":   {{on: stateOfLetters}},
	"dlq metrics": {{on: stateOfLetters}},
	"dlq report":  {{on: stateOfLetters, args: "--out TMP/report"}},

	"dlq ingest":        {{on: stateOfLetters, args: "../../events/dead-letters/three.jsonl"}, {on: stateOfLetters, args: "../../events/dead-letters/three.jsonl --execute --yes"}},
	"dlq reclassify":    {{on: stateOfLetters, args: "lost-1 --code TIMEOUT --reason r"}, {on: stateOfLetters, args: "lost-1 --code TIMEOUT --reason r --execute --yes"}},
	"dlq resolve":       {{on: stateOfLetters, args: "e1 --as keep --reason r --execute --yes"}, {on: stateOfLetters, args: "evt-1022 --as discard --reason r --execute --yes --function FUNCTION"}},
	"dlq migrate":       {{on: stateOfLetters, args: "fe500ee44f76 --to 2 --reason r"}, {on: stateOfLetters, args: "fe500ee44f76 --to 2 --reason r --execute --yes"}},
	"dlq repair verify": {{on: stateOfRepair, args: "fe500ee44f76"}, {on: stateOfRepair, args: "fe500ee44f76 --execute --yes"}},
	"dlq sweep":         {{on: stateOfLetters}, {on: stateOfOrphan, args: "--execute --yes --function FUNCTION"}},
	"dlq purge":         {{on: stateOfLetters, args: "--expired"}, {on: stateOfOld, args: "--expired --execute --yes"}},

	"dlq plan":    {{on: stateOfRepair, args: "fe500ee44f76 --reason r"}, {on: stateOfRepair, args: "fe500ee44f76 --reason r --execute --yes"}},
	"dlq show":    {{on: stateOfPlan}, {on: stateOfPlan, args: "PLAN"}},
	"dlq approve": {{on: stateOfPlan, args: "PLAN"}, {on: stateOfPlan, args: "PLAN --execute --yes"}},
	"dlq reject":  {{on: stateOfPlan, args: "PLAN --reason r --execute --yes"}},
	"dlq replay":  {{on: stateOfApproval, args: "PLAN"}, {on: stateOfApproval, args: "PLAN --execute --yes --function FUNCTION"}},
	"dlq pause":   {{on: stateOfRun, args: "PLAN --reason r --execute --yes"}},
	"dlq resume":  {{on: stateOfPause, args: "PLAN"}, {on: stateOfPause, args: "PLAN --execute --yes --function FUNCTION"}},
	"dlq stop":    {{on: stateOfPlan, args: "PLAN --reason r --execute --yes"}},
}

// leaves are the commands that do something, by path without the program's name.
func leaves(cmd *cobra.Command, path string) map[string]bool {
	out := map[string]bool{}
	for _, c := range cmd.Commands() {
		name := strings.TrimSpace(path + " " + c.Name())
		if name == "help" || name == "completion" {
			continue // cobra's own
		}
		if !c.HasSubCommands() {
			out[name] = true
		}
		for leaf := range leaves(c, name) {
			out[leaf] = true
		}
	}
	return out
}

func TestEveryCommandIsTriedUnderEveryRole(t *testing.T) {
	for leaf := range leaves(newApp(nil).root(), "") {
		if len(uses[leaf]) == 0 {
			t.Errorf("oncegate %s is tried under no role: give it an example in uses, or say there why it needs no right", leaf)
		}
	}
	known := leaves(newApp(nil).root(), "")
	for name := range uses {
		if !known[name] {
			t.Errorf("there is no command %q any more", name)
		}
	}
}

var rightMissing = regexp.MustCompile(`missing right: (.+) on (acs:\S+?|\*)[;\n]`)

// TestCommandsNeedTheRightsThatThePageSays runs each use of each command as each
// role: it is done, or refused with the right that is missing, and nothing else.
func TestCommandsNeedTheRightsThatThePageSays(t *testing.T) {
	states := prepareStates(t)
	var mu sync.Mutex
	verdicts := map[string]string{} // by command line and role
	var lines []string
	t.Run("roles", func(t *testing.T) {
		for name, all := range uses {
			for _, u := range all {
				if u.noCloud != "" {
					continue
				}
				line := strings.TrimSpace(name + " " + u.args)
				lines = append(lines, line)
				for _, role := range ram.Roles {
					t.Run(line+" as "+string(role), func(t *testing.T) {
						t.Parallel()
						code, said := states.run(t, u, name, role)
						verdict, err := verdictOf(code, said)
						if err != nil {
							t.Errorf("%v\n%s", err, said)
						}
						mu.Lock()
						defer mu.Unlock()
						verdicts[line+" as "+string(role)] = verdict
					})
				}
			}
		}
	})
	if t.Failed() {
		return
	}
	slices.Sort(lines)
	page := commandsMarkdown(lines, verdicts)
	if *update {
		if err := os.WriteFile(commandsPage, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(commandsPage)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), page); d != "" {
		t.Errorf("%s does not say what is so (-page +seen); go test ./cmd/oncegate -run PageSays -update writes it anew\n%s", commandsPage, d)
	}
}

// verdictOf is "ok", or the right that a refusal names.
func verdictOf(code int, said string) (string, error) {
	right := rightMissing.FindStringSubmatch(said)
	switch {
	case (code == 0 || code == exitPartial) && right == nil:
		return "ok", nil
	case code == exitRefused && right != nil:
		return right[1] + " on " + right[2], nil
	}
	return "", fmt.Errorf("exit code %d; want 0 or 4, or 3 with the missing right", code)
}

func commandsMarkdown(lines []string, verdicts map[string]string) string {
	var b bytes.Buffer
	b.WriteString(`# Commands under each role

Written by ` + "`go test ./cmd/oncegate -run PageSays -update`" + `, which runs every command on the local cloud as every role. **ok**: the role
may do it. A number: the command ends with exit code 3 and names the right of that number, the first one that it missed.
PLAN, TASK, FUNCTION and TMP stand for a plan, a task's key, the function's binary and a folder.

`)
	b.WriteString("| oncegate |")
	for _, role := range ram.Roles {
		fmt.Fprintf(&b, " %s |", role)
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(ram.Roles)) + "\n")
	var rights []string
	for _, line := range lines {
		fmt.Fprintf(&b, "| %s |", line)
		for _, role := range ram.Roles {
			v := verdicts[line+" as "+string(role)]
			if v != "ok" {
				if !slices.Contains(rights, v) {
					rights = append(rights, v)
				}
				v = fmt.Sprint(slices.Index(rights, v) + 1)
			} else {
				v = "**ok**"
			}
			fmt.Fprintf(&b, " %s |", v)
		}
		b.WriteString("\n")
	}
	b.WriteString("\nMissing rights:\n\n")
	for i, r := range rights {
		action, resource, _ := strings.Cut(r, " on ")
		fmt.Fprintf(&b, "%d. %s on `%s`\n", i+1, action, resource)
	}
	b.WriteString("\nThese need no right of their caller:\n\n")
	var free []string
	for name, all := range uses {
		for _, u := range all {
			if u.noCloud != "" {
				free = append(free, fmt.Sprintf("- %s: %s\n", name, u.noCloud))
			}
		}
	}
	slices.Sort(free)
	b.WriteString(strings.Join(free, ""))
	return b.String()
}

// run calls a command as a role on a copy of its state.
func (s *preparedStates) run(t *testing.T, u use, name string, role ram.Role) (code int, said string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "state")
	copyState(t, s.dirs[u.on], dir)
	words := strings.Fields(name)
	for _, arg := range strings.Fields(u.args) {
		arg = strings.ReplaceAll(arg, "TMP", filepath.Dir(dir))
		switch arg {
		case "FUNCTION":
			arg = functionBinary
		case "PLAN":
			arg = s.plan
		case "TASK":
			arg = s.task
		}
		words = append(words, arg)
	}
	return runAs(append(words, "--state-dir", dir), role)
}
