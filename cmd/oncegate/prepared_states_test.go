package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/scripts/ram"
)

// preparedState is how far the local cloud's work has come.
type preparedState string

const (
	stateOfLetters  preparedState = "letters"  // tasks, reviews and open letters
	stateOfOrphan   preparedState = "orphan"   // a letter was discarded, and its task not told
	stateOfAnswer   preparedState = "answer"   // a review has an answer that nobody has carried out
	stateOfOld      preparedState = "old"      // an audit row's time is over
	stateOfRepair   preparedState = "repair"   // a group is migrated and verified
	stateOfPlan     preparedState = "plan"     // a plan is made
	stateOfApproval preparedState = "approval" // it is approved
	stateOfRun      preparedState = "run"      // it runs
	stateOfPause    preparedState = "pause"    // it is paused
)

// preparedStates are folders to copy.
type preparedStates struct {
	dirs       map[preparedState]string
	plan, task string
}

// runAs runs a command in process as a role of the local cloud.
func runAs(args []string, role ram.Role) (code int, said string) {
	var out, errOut bytes.Buffer
	env := map[string]string{localIdentityVariable: string(role), "USER": "amy"}
	code = run(args, strings.NewReader(""), &out, &errOut, func(name string) string { return env[name] })
	return code, out.String() + "\n" + errOut.String()
}

func prepareStates(t *testing.T) *preparedStates {
	t.Helper()
	work := filepath.Join(t.TempDir(), "work")
	s := &preparedStates{dirs: map[preparedState]string{}}
	do := func(role ram.Role, line string) string {
		t.Helper()
		code, said := runAs(append(strings.Fields(line), "--state-dir", work), role)
		if code != 0 {
			t.Fatalf("%s: exit code %d\n%s", line, code, said)
		}
		return said
	}
	keep := func(as preparedState) {
		s.dirs[as] = filepath.Join(t.TempDir(), string(as))
		copyState(t, work, s.dirs[as])
	}
	report, _ := deliverSamples(t, work, "../../events/dead-letters/orders-of-version-1.json", "../../events/samples/01-summary.json",
		"../../events/samples/28-announcement-answer-lost.json", "../../events/samples/22-content-has-changed.json")
	for _, d := range report.Deliveries {
		if d.Status == "SUCCEEDED" {
			s.task = d.Key
		}
	}
	do(ram.Operator, "dlq ingest ../../events/dead-letters/three.jsonl --execute --yes")
	lost := filepath.Join(t.TempDir(), "lost.json") // the platform says no more than that it gave up
	if err := os.WriteFile(lost, []byte(`{"specversion":"1.0","id":"lost-1","source":"demo.producer","type":"demo:task:content_review","aliyuneventbusname":"oncegate-local",
 "data":{"tenant_id":"t","task_type":"content_review","operation":"generate_summary","input_version":"v","requested_at":"x","content":"c"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	do(ram.Operator, "dlq ingest "+lost+" --execute --yes")
	keep(stateOfLetters)

	// Without a function a discard cannot tell its task.
	if code, said := runAs([]string{"dlq", "resolve", "evt-1022", "--as", "discard", "--reason", "r", "--execute", "--yes", "--function", "none", "--state-dir", work}, ram.Operator); code == 0 {
		t.Fatal(said)
	}
	keep(stateOfOrphan)
	// Who may not call the function leaves an answer that nobody has carried out.
	if code, said := runAs([]string{"review", "resolve", "f64f", "--as", "confirmed_not_done", "--reason", "r", "--function", functionBinary, "--state-dir", work}, ram.Reviewer); code != exitRefused {
		t.Fatal(said)
	}
	keep(stateOfAnswer)
	s.change(t, work, func(c *cloud) error {
		long := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
		return deadletter.NewAuditLog(c.store).Add(t.Context(), deadletter.Audit{ID: "0123456789abcdef", At: long, Action: deadletter.ActionRefused, OperatorOrRule: "r", Reason: "r"})
	})
	keep(stateOfOld)

	do(ram.Operator, "dlq migrate fe500ee44f76 --to 2 --reason r --execute --yes")
	do(ram.Operator, "dlq repair verify fe500ee44f76 --execute --yes")
	keep(stateOfRepair)
	s.plan = regexp.MustCompile(`rp-[0-9a-f]{16}`).FindString(do(ram.Operator, "dlq plan fe500ee44f76 --reason r --execute --yes"))
	keep(stateOfPlan)
	do(ram.Approver, "dlq approve "+s.plan+" --execute --yes")
	keep(stateOfApproval)
	for state, as := range map[plan.State]preparedState{plan.StateRunning: stateOfRun, plan.StatePaused: stateOfPause} {
		s.change(t, work, func(c *cloud) error {
			plans := plan.NewStore(c.store)
			p, _, err := plans.Get(t.Context(), s.plan)
			if err != nil {
				return err
			}
			next := p
			next.State = state
			_, err = plans.Update(t.Context(), p, next)
			return err
		})
		keep(as)
	}
	return s
}

// change writes to a state with every right.
func (s *preparedStates) change(t *testing.T, dir string, write func(*cloud) error) {
	t.Helper()
	c, err := openCloud(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := write(c); err != nil {
		t.Fatal(err)
	}
}

// copyState copies a state folder; published versions, which nobody changes, are linked.
func copyState(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case e.IsDir():
			return os.MkdirAll(target, 0o700)
		case e.Name() == "function":
			return os.Link(path, target)
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, raw, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}
