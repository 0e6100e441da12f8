package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestABrokenFunctionFailsItsDrill builds the function with a fault and expects
// the drill of that fault to notice. Five builds take a while:
//
//	ONCEGATE_DRILL_MUTANTS=1 go test ./cmd/oncegate -run ABrokenFunction -v
func TestABrokenFunctionFailsItsDrill(t *testing.T) {
	if os.Getenv("ONCEGATE_DRILL_MUTANTS") == "" {
		t.Skip("ONCEGATE_DRILL_MUTANTS is not set")
	}
	for name, c := range map[string]struct {
		drill string
		edits [][3]string // file, old, new
	}{
		"what is done is done again": {drillTwice, [][3]string{
			{"handler/handler.go", "known.digest == d.digest && d.received", "false && d.received"},
			{"idempotency/transition.go", "\tcase StatusSucceeded:\n\t\treturn AnswerDuplicate, stored\n", ""},
		}},
		"a claim takes whatever is there": {drillRace, [][3]string{
			{"internal/aliyun/tablestore.go", "RowExistenceExpectation_EXPECT_NOT_EXIST", "RowExistenceExpectation_IGNORE"},
		}},
		"attempts are not counted": {drillModel, [][3]string{
			{"idempotency/transition.go", "\tnext.Attempt++\n\treturn AnswerRun", "\treturn AnswerRun"},
		}},
		"a stored output is not adopted": {drillExit, [][3]string{
			{"handler/run.go", "if rec.Attempt > 1 {", "if rec.Attempt > 1000 {"},
		}},
		"a replay does not say which it was": {drillReplay, [][3]string{
			{"idempotency/replay.go", "r.ReplayBatchID = g.Batch", `r.ReplayBatchID = ""`},
			{"idempotency/replay.go", "next.ReplayBatchID = g.Batch", `next.ReplayBatchID = ""`},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			binary := mutant(t, c.edits)
			var out, errOut bytes.Buffer
			code := run([]string{"drill", "--function", binary, "--output", "json"}, strings.NewReader(""), &out, &errOut, os.Getenv)
			var report drillReport
			if err := json.Unmarshal(out.Bytes(), &report); err != nil || code != exitFailed {
				t.Fatalf("exit code %d, %v\n%s", code, err, errOut.String())
			}
			for _, d := range report.Drills {
				if d.Name == c.drill && d.Passed {
					t.Errorf("%s passes", d.Name)
				}
				if !d.Passed {
					t.Logf("%s: %v", d.Name, d.Wrong)
				}
			}
		})
	}
}

// mutant builds the function with edited files.
func mutant(t *testing.T, edits [][3]string) string {
	t.Helper()
	dir := t.TempDir()
	overlay := map[string]string{}
	for i, e := range edits {
		file, err := filepath.Abs(filepath.Join("../..", e[0]))
		if err != nil {
			t.Fatal(err)
		}
		from := file
		if overlay[file] != "" {
			from = overlay[file]
		}
		raw, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Count(string(raw), e[1]) != 1 {
			t.Fatalf("%s does not hold %q once", e[0], e[1])
		}
		edited := filepath.Join(dir, string(rune('a'+i))+".go")
		if err := os.WriteFile(edited, []byte(strings.Replace(string(raw), e[1], e[2], 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		overlay[file] = edited
	}
	raw, err := json.Marshal(map[string]any{"Replace": overlay})
	if err != nil {
		t.Fatal(err)
	}
	list, binary := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "function")
	if err := os.WriteFile(list, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("go", "build", "-overlay", list, "-o", binary, functionPackage).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return binary
}
