package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/letter"
)

func emptyApp() *app { return newApp(nil) }

var runbooks = []string{"RUNBOOK.md", "RUNBOOK.zh-CN.md"}

// coming are commands that the runbooks name before they are there. One that is
// there is taken off the list, so that its lines are checked as all others.
var coming []string

// documented is a command as a runbook shows it.
type documented struct {
	at    string // file and line
	env   []string
	words []string // without the program's name
	whole bool     // a line to be typed as it stands, and no mention in a sentence
}

var (
	typedLine = regexp.MustCompile(`^ {4,}((?:[A-Z_]+=\S+ )*)oncegate (.+)$`)
	codeSpan  = regexp.MustCompile("`([^`]+)`")
)

func readRunbook(t *testing.T, name string) []string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(raw), "\n")
}

func commandsOf(t *testing.T, name string) []documented {
	t.Helper()
	commands := emptyApp().root().Commands()
	var all []documented
	for n, line := range readRunbook(t, name) {
		at := fmt.Sprintf("%s:%d", name, n+1)
		if m := typedLine.FindStringSubmatch(line); m != nil {
			all = append(all, documented{at, strings.Fields(m[1]), shellWords(m[2]), true})
			continue
		}
		for _, m := range codeSpan.FindAllStringSubmatch(line, -1) {
			words := shellWords(strings.TrimPrefix(m[1], "oncegate "))
			if strings.HasPrefix(m[1], "oncegate ") || slices.ContainsFunc(commands, func(c *cobra.Command) bool { return c.Name() == words[0] }) {
				all = append(all, documented{at, nil, words, false})
			}
		}
	}
	return all
}

// shellWords splits a line as a shell does, as far as the runbooks go.
func shellWords(line string) []string {
	var words []string
	var word strings.Builder
	quote, open := rune(0), false
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '"' || r == '\'':
			quote, open = r, true
		case r == ' ':
			if open || word.Len() > 0 {
				words = append(words, word.String())
			}
			word.Reset()
			open = false
		default:
			word.WriteRune(r)
		}
	}
	if open || word.Len() > 0 {
		words = append(words, word.String())
	}
	return words
}

// parsed holds a command against the real tree: it exists, its flags are known and,
// in a whole line, what it requires is there.
func parsed(d documented) error {
	cmd, rest, err := emptyApp().root().Find(d.words)
	if err != nil {
		return err
	}
	if err := cmd.ParseFlags(rest); err != nil {
		return fmt.Errorf("%s: %w", cmd.CommandPath(), err)
	}
	args := cmd.Flags().Args()
	if cmd.HasSubCommands() && (d.whole || len(args) > 0) {
		return fmt.Errorf("%s has no command %v", cmd.CommandPath(), args)
	}
	if !d.whole {
		return nil
	}
	if err := cmd.ValidateArgs(args); err != nil {
		return fmt.Errorf("%s: %w", cmd.CommandPath(), err)
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if strings.Contains(f.Usage, "(required)") && !f.Changed {
			err = fmt.Errorf("%s needs --%s", cmd.CommandPath(), f.Name)
		}
	})
	return err
}

func TestEveryCommandOfTheDocumentsIsThere(t *testing.T) {
	for name, least := range map[string]int{"RUNBOOK.md": 40, "RUNBOOK.zh-CN.md": 40, "DEPLOY.md": 2, "DEPLOY.zh-CN.md": 2} {
		lines := 0
		for _, d := range commandsOf(t, name) {
			if d.whole {
				lines++
			}
			if slices.Contains(coming, d.words[0]) {
				continue
			}
			if err := parsed(d); err != nil {
				t.Errorf("%s: oncegate %s: %v", d.at, strings.Join(d.words, " "), err)
			}
		}
		if lines < least {
			t.Errorf("%s has %d lines to type: the test reads it no more", name, lines)
		}
	}
}

func TestNoCommandThatIsThereIsStillComing(t *testing.T) {
	for _, c := range emptyApp().root().Commands() {
		if slices.Contains(coming, c.Name()) {
			t.Errorf("oncegate %s is there: take it off the list `coming`", c.Name())
		}
	}
}

func TestWhatDoesNotParseIsNoticed(t *testing.T) {
	for line, want := range map[string]string{
		"dlq explane EVENT":                 "has no command",
		"dlq":                               "has no command",
		"nothing":                           "unknown command",
		"dlq explain EVENT --colour":        "unknown flag",
		"dlq explain":                       "accepts 1 arg",
		"dlq resolve EVENT --as discard":    "needs --reason",
		"dlq migrate EVENT --reason \"r\"":  "needs --to",
		"dlq resolve EVENT --reason r --as": "needs an argument",
	} {
		if err := parsed(documented{words: shellWords(line), whole: true}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", line, err, want)
		}
	}
}

// TestTheRunbooksLeaveNothingOut holds them against the names that a person may meet.
func TestTheRunbooksLeaveNothingOut(t *testing.T) {
	names := []string{"conflict", "outcome_unknown", "confirmed_done", "confirmed_not_done", "compensated", "keep_old", "use_new", "130"}
	for _, d := range []deadletter.Decision{deadletter.SkipCompleted, deadletter.ReplayCandidate, deadletter.RepairRequired, deadletter.ManualReview} {
		names = append(names, string(d))
	}
	for _, c := range []letter.Code{
		letter.CodeTimeout, letter.CodeThrottled, letter.CodeUpstream5xx, letter.CodeInvalidSchema, letter.CodeAccessDenied, letter.CodeTargetNotFound, letter.CodePolicyRejected,
		letter.CodeUnclassified, letter.CodeUndelivered, letter.CodeConflict, letter.CodeOutcomeUnknown, letter.CodeParked, letter.CodeWrongEnvironment,
	} {
		names = append(names, "| "+string(c)+" |")
	}
	for _, g := range deadletter.Gates(deadletter.GateFacts{}) {
		names = append(names, "| `"+string(g.Name)+"` |")
	}
	for _, name := range runbooks {
		text := strings.Join(readRunbook(t, name), "\n")
		for _, want := range names {
			if !strings.Contains(text, want) {
				t.Errorf("%s says nothing of %s", name, want)
			}
		}
	}
}

func TestTheRunbooksAreTwins(t *testing.T) {
	var commands, headings [2][]string
	for i, name := range runbooks {
		for _, d := range commandsOf(t, name) {
			commands[i] = append(commands[i], fmt.Sprintf("%v %q", d.whole, append(d.env, d.words...)))
		}
		for _, line := range readRunbook(t, name) {
			if level, title, ok := strings.Cut(line, " "); ok && strings.Trim(level, "#") == "" && title != "" && level != "" {
				headings[i] = append(headings[i], level)
			}
		}
	}
	for n := range max(len(commands[0]), len(commands[1])) {
		if n >= len(commands[0]) || n >= len(commands[1]) || commands[0][n] != commands[1][n] {
			t.Fatalf("command %d differs: of %d and %d, after %v", n, len(commands[0]), len(commands[1]), commands[0][max(n-1, 0):min(n+1, len(commands[0]))])
		}
	}
	if !slices.Equal(headings[0], headings[1]) {
		t.Errorf("the headings are %v and %v", headings[0], headings[1])
	}
}

// TestTheRehearsalRunsAsItIsWritten runs the last section's lines on a local cloud:
// each must end with 0, and nothing may be open in the end.
func TestTheRehearsalRunsAsItIsWritten(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	all := commandsOf(t, runbooks[0])
	first := slices.IndexFunc(all, func(d documented) bool { return d.whole && d.words[0] == "local" })
	if first < 0 {
		t.Fatal("there is no rehearsal")
	}
	t.Chdir(filepath.Join("..", ".."))
	plan, last := "", ""
	for _, d := range all[first:] {
		if !d.whole {
			continue
		}
		args := slices.Clone(d.words)
		for i, word := range args {
			if word == "PLAN" {
				args[i] = plan
			}
		}
		args = append(args, localFlags(t, args, state)...)
		env := map[string]string{"USER": "amy"}
		for _, pair := range d.env {
			name, value, _ := strings.Cut(pair, "=")
			env[name] = value
		}
		var out, errOut bytes.Buffer
		if code := run(args, nil, &out, &errOut, func(name string) string { return env[name] }); code != 0 {
			t.Fatalf("%s: oncegate %s: exit code %d\n%s%s", d.at, strings.Join(d.words, " "), code, out.String(), errOut.String())
		}
		if id := regexp.MustCompile(`rp-[0-9a-f]{16}`).FindString(out.String()); id != "" && d.words[1] == "plan" {
			plan = id
		}
		last = out.String()
	}
	if !strings.Contains(last, "SUCCEEDED") || strings.Contains(last, " open ") {
		t.Errorf("at the end:\n%s", last)
	}
}

// localFlags are the flags that point a command at the test's state and function.
func localFlags(t *testing.T, args []string, state string) []string {
	t.Helper()
	cmd, _, err := emptyApp().root().Find(args)
	if err != nil {
		t.Fatal(err)
	}
	var flags []string
	for name, value := range map[string]string{"state-dir": state, "function": functionBinary} {
		if has(cmd, name) {
			flags = append(flags, "--"+name, value)
		}
	}
	return flags
}

func has(cmd *cobra.Command, flag string) bool { return cmd.Flags().Lookup(flag) != nil }
