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
	for _, m := range regexp.MustCompile(`metrics\.One\("oncegate_([a-z_]+)"`).FindAllStringSubmatch(string(command), -1) {
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

func TestLettersThatStayInTheQueueRaiseAnAlarm(t *testing.T) {
	tpl := readTemplate(t, alarmTemplate)
	watched := map[string]bool{}
	for name, r := range tpl.Resources {
		metric, _ := at(r.Properties, "MetricName", "Ref").(string)
		watched[metric] = true
		kept, _ := whole(readTemplate(t, "stores.yaml").Resources["Queue"].Properties["MessageRetentionPeriod"])
		period, _ := whole(r.Properties["Period"])
		for _, level := range []string{"Warn", "Critical"} {
			times, _ := whole(at(r.Properties, "Escalations", level, "Times"))
			if times < 1 || 24*times*period > kept {
				t.Errorf("%s, %s: told after %d s, the queue keeps letters for %d s", name, level, times*period, kept)
			}
		}
	}
	if !watched["WaitingMetric"] || !watched["TakenMetric"] {
		t.Errorf("watched: %v", watched)
	}
	raw, err := os.ReadFile(filepath.Join("..", "alarms", "s.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var d deployment
	if err := yaml.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	given, _ := d.Resources["alarms"].Props["parameters"].(map[string]any)
	for name := range given {
		if tpl.Parameters[name] == nil {
			t.Errorf("the template has no parameter %s", name)
		}
	}
	for name, spec := range tpl.Parameters {
		if spec["Default"] == nil && given[name] == nil {
			t.Errorf("parameter %s is not given", name)
		}
	}
	all, _ := readDeployment(t)
	if queue := at(all.Resources["stores"].Props, "parameters", "QueueName"); given["QueueName"] != queue {
		t.Errorf("the alarm watches %v, the deployment makes %v", given["QueueName"], queue)
	}
}
