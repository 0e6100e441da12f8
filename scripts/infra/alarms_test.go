package infra

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/plan"
)

func TestAlertRulesUseWhatIsPrinted(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "alarms", "prometheus.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Name, Interval string
			Rules          []struct {
				Alert, Expr, For string
				Labels           map[string]string
				Annotations      map[string]string
			}
		}
	}
	if err := yaml.UnmarshalWithOptions(raw, &rules, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	var printed bytes.Buffer
	states := []plan.State{plan.StatePlanned, plan.StateRunning, plan.StatePaused, plan.StateStopped, plan.StateRejected, plan.StateDone}
	m := deadletter.Metrics{Plans: map[plan.State]int{}}
	for _, s := range states {
		m.Plans[s] = 1
	}
	if _, err := m.WriteTo(&printed); err != nil {
		t.Fatal(err)
	}
	// Those of tasks are written by the command itself.
	command, err := os.ReadFile(filepath.Join("..", "..", "cmd", "oncegate", "metrics.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`w\.Gauge\("([a-z_]+)"`).FindAllStringSubmatch(string(command), -1) {
		printed.WriteString("# TYPE oncegate_" + m[1] + " gauge\n")
	}
	seen := map[string]bool{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			seen[r.Alert] = true
			for _, name := range regexp.MustCompile(`oncegate_[a-z0-9_]+`).FindAllString(r.Expr, -1) {
				if !strings.Contains(printed.String(), "# TYPE "+name+" ") {
					t.Errorf("%s: nobody prints %s", r.Alert, name)
				}
			}
			for _, m := range regexp.MustCompile(`state=~"([a-z|]+)"`).FindAllStringSubmatch(r.Expr, -1) {
				for state := range strings.SplitSeq(m[1], "|") {
					if !strings.Contains(printed.String(), `{state="`+state+`"}`) {
						t.Errorf("%s: a plan is never %s", r.Alert, state)
					}
				}
			}
			file, anchor, _ := strings.Cut(r.Annotations["runbook"], "#")
			book, err := os.ReadFile(filepath.Join("..", "..", file))
			if err != nil || !strings.Contains(strings.ToLower(string(book)), "\n## "+anchor+"\n") {
				t.Errorf("%s: the runbook has no section %s", r.Alert, anchor)
			}
		}
	}
	for _, alert := range []string{"OncegateNewDeadLetter", "OncegateReviewOlderThanADay", "OncegateReplayStopped", "OncegateStuckTasks"} {
		if !seen[alert] {
			t.Errorf("there is no alert %s", alert)
		}
	}
}
