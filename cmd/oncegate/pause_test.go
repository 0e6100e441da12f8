package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/scripts/ram"
)

// meanwhile does something at the first of some words that a command says, before the
// command goes on.
type meanwhile struct {
	strings.Builder
	word string
	do   func()
}

func (m *meanwhile) Write(p []byte) (int, error) {
	n, err := m.Builder.Write(p)
	if m.do != nil && strings.Contains(m.String(), m.word) {
		do := m.do
		m.do = nil
		do()
	}
	return n, err
}

// An operator pauses from another terminal what one is sending, and a third goes on.
func TestAReplayIsPausedAndStoppedByOtherCommands(t *testing.T) {
	at := servedCloud(t, t.TempDir())
	operator := cloudOf(at, ram.Operator)
	must := func(env map[string]string, args ...string) string {
		t.Helper()
		code, out, said := commandIn(env, args...)
		if code != 0 {
			t.Fatalf("%v: exit code %d\n%s%s", args, code, out, said)
		}
		return out
	}
	var records strings.Builder
	for i := range 9 {
		fmt.Fprintf(&records, `{"event_id":"p%d","flow":"order.create","payload":{"source_system":"erp-1","number":"P-%d","amount":1},"error_code":"TIMEOUT","target":"fc:worker"}`+"\n", i, i)
	}
	file := filepath.Join(t.TempDir(), "records.jsonl")
	if err := os.WriteFile(file, []byte(records.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	flowsFile := filepath.Join(t.TempDir(), "flows.yaml")
	if err := os.WriteFile(flowsFile, append(flows.EmbeddedYAML(), "\nreplay: {stages: [2, 3], observe: 1ms}\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	must(operator, "dlq", "ingest", file, "--execute", "--yes")
	plan := regexp.MustCompile(`rp-[0-9a-f]{16}`).FindString(must(operator, "dlq", "plan", "3edcecc95052", "--flows", flowsFile, "--reason", "the worker is back", "--execute", "--yes"))
	must(cloudOf(at, ram.Approver), "dlq", "approve", plan, "--execute", "--yes")

	run := func(what, control string) (code int, said string) {
		t.Helper()
		m := &meanwhile{word: "watching until", do: func() {
			must(operator, "dlq", control, plan, "--reason", "the target complains", "--execute", "--yes")
		}}
		code = run([]string{"dlq", what, plan, "--flows", flowsFile, "--execute", "--yes"}, strings.NewReader(""), m, m, func(name string) string { return operator[name] })
		return code, m.String()
	}
	if code, said := run("replay", "pause"); code != exitPartial || !strings.Contains(said, "selected 9 = succeeded 2 + skipped 0 + refused 0 + failed 0 + unresolved 7") || !strings.Contains(said, "paused by oncegate-operator") {
		t.Fatalf("exit code %d\n%s", code, said)
	}
	if code, said := run("resume", "stop"); code != exitPartial || !strings.Contains(said, "selected 9 = succeeded 5 + skipped 0 + refused 0 + failed 0 + unresolved 4") || !strings.Contains(said, "stopped by oncegate-operator") {
		t.Fatalf("exit code %d\n%s", code, said)
	}
	code, _, said := commandIn(operator, "dlq", "resume", plan, "--flows", flowsFile, "--execute", "--yes")
	if code != exitRefused {
		t.Errorf("a stopped plan is resumed: exit code %d\n%s", code, said)
	}
	if list := must(operator, "task", "list", "--output", "json"); strings.Count(list, `"SUCCEEDED"`) != 5 {
		t.Errorf("not five tasks have run:\n%s", list)
	}
}
