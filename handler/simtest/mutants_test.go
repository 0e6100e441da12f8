package simtest

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// patch replaces one text of one product file, which must be there exactly once.
type patch struct{ file, old, new string }

// mutant is the product with one thing left out that an invariant rests on.
type mutant struct {
	name    string
	caught  []string // invariants, one of which must be seen broken
	patches []patch
}

var mutants = []mutant{
	{"completing without the revision check", []string{"I1", "I5"}, []patch{{
		"internal/aliyun/tablestore.go",
		"	change.SetColumnCondition(cond)\n",
		"	if columns[\"result_ref\"] == nil {\n		change.SetColumnCondition(cond)\n	}\n",
	}}},
	{"a claim that skips adoption", []string{"I1"}, []patch{{
		"handler/run.go",
		"	if rec.Attempt > 1 {\n		stored, ok, err := d.o.Artifacts.Adopt",
		"	if rec.Attempt > 1<<30 {\n		stored, ok, err := d.o.Artifacts.Adopt",
	}}},
	{"a failed condition read as not mine", []string{"I4"}, []patch{{
		"idempotency/table.go",
		"	landed, current := a.next.landedIn(stored)\n",
		"	landed, current := false, false\n",
	}}},
	{"acknowledging a duplicate of a running event", []string{"I3"}, []patch{{
		"handler/handler.go",
		"		return d.retryOf(DecisionInProgress, idempotency.CodeInProgress, c.Record, nil)\n",
		"		return d.ofRecord(DecisionDuplicate, c.Record), nil\n",
	}}},
	{"a cache without digest check", []string{"I6"}, []patch{{
		"handler/handler.go",
		"ok && known.digest == d.digest && d.received",
		"ok && d.received",
	}}},
	{"an effect before its lease check", []string{"I2"}, []patch{{
		"handler/effects.go",
		"now.Add(declared.Timeout).After(s.workEnd) {",
		"now.Add(declared.Timeout).After(s.workEnd.AddDate(1, 0, 0)) {",
	}}},
	{"settling before output.json", []string{"I1", "I2"}, []patch{{
		"handler/run.go",
		"	ref, err := d.o.Artifacts.PutOutput(ctx, l, body)\n	if err != nil {\n",
		"	ref := idempotency.Ref{Object: artifacts.OutputName(l.Key, l.Attempt), SHA256: idempotency.DigestBinary(body)}\n" +
			"	go func() { _, _ = d.o.Artifacts.PutOutput(context.WithoutCancel(ctx), l, body) }()\n	if err != nil {\n",
	}}},
	{"settling before the letter", []string{"I3"}, []patch{{
		"handler/run.go",
		"		if letterID, err = d.letterOfRecord(ctx, next); err != nil {\n			return d.retry(idempotency.CodeTemporaryUnavailable, err)\n		}\n",
		"		defer func() { _, _ = d.letterOfRecord(ctx, next) }()\n",
	}}},
	{"SUCCEEDED with an effect open", []string{"I2"}, []patch{{
		"handler/run.go",
		"	if failure, err = l.run(work, output, s); failure != nil {\n",
		"	if failure, err = l.run(work, output, s); failure != nil && l.doubt != nil {\n",
	}, {
		"idempotency/transition.go",
		"		if e.State != EffectSettled {\n			return Record{}, fmt.Errorf(\"complete:",
		"		if e.State == \"\" {\n			return Record{}, fmt.Errorf(\"complete:",
	}}},
	{"a replay of a record that has moved on", []string{"I4", "I5"}, []patch{{
		"idempotency/replay.go",
		"	case r.Revision != g.Revision:\n",
		"	case r.Revision < g.Revision:\n",
	}}},
	{"a replay that nobody has approved", []string{"I5"}, []patch{{
		"handler/replay.go",
		"	if err := plan.CheckApproval(p, approval); err != nil {\n",
		"	if err := plan.CheckApproval(p, approval); err != nil && approval != nil {\n",
	}}},
	{"giving up what may have happened", []string{"I2"}, []patch{{
		"idempotency/replay.go",
		"	case r.Status == StatusOutcomeUnknown || r.has(EffectSent) || r.has(EffectUnknown):\n",
		"	case r.Status == StatusRunning && r.LeaseUntil.IsZero():\n",
	}}},
	{"no back-off", []string{"I4"}, []patch{{
		"idempotency/transition.go",
		"max(p.Backoff(r.Attempt), min(f.RetryAfter",
		"max(0, min(f.RetryAfter",
	}}},
}

// inMutant is set in the environment of a mutant's own schedules.
const inMutant = "ONCEGATE_MUTANT"

var brokenLine = regexp.MustCompile(`(?m)^ +(I[1-8]) at step \d+: .*$`)

func TestSimulationCatchesMutants(t *testing.T) {
	if testing.Short() || os.Getenv(inMutant) != "" {
		t.Skip("builds the product once for each mutant")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		t.Run(m.name, func(t *testing.T) {
			overlay := m.overlay(t, root)
			cmd := exec.Command("go", "test", "-overlay", overlay, "-count=1", "-run", "^TestSimulation$", ".")
			cmd.Env = append(os.Environ(), inMutant+"="+m.name, "ONCEGATE_SEED=1", "ONCEGATE_SCHEDULES=1000", "ONCEGATE_TRACE=0", "GOFLAGS=")
			out, err := cmd.CombinedOutput()
			found := brokenLine.FindAllSubmatch(out, -1)
			if err == nil || len(found) == 0 {
				t.Fatalf("nothing was found wrong: %v\n%s", err, out)
			}
			for _, v := range found {
				for _, want := range m.caught {
					if string(v[1]) == want {
						t.Logf("caught:%s", v[0])
						return
					}
				}
			}
			t.Errorf("want one of %v broken, got\n%s", m.caught, out)
		})
	}
}

// overlay writes the mutated files beside the product.
func (m mutant) overlay(t *testing.T, root string) string {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	for _, p := range m.patches {
		path := filepath.Join(root, p.file)
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(raw), p.old); n != 1 {
			t.Fatalf("%s has the text to replace %d times: this mutant has to follow the product\n%s", p.file, n, p.old)
		}
		mutated := filepath.Join(dir, strings.ReplaceAll(p.file, "/", "_"))
		if err := os.WriteFile(mutated, []byte(strings.Replace(string(raw), p.old, p.new, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[path] = mutated
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, list, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
