package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

// local runs a command on the local cloud of a state folder.
func local(t *testing.T, state string, args ...string) (code int, out, errOut string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = run(append(args, localFlags(t, args, state)...), nil, &stdout, &stderr, func(string) string { return "" })
	return code, stdout.String(), stderr.String()
}

// openLocal reaches the state of a local cloud as nobody in particular.
func openLocal(t *testing.T, state string) *cloud {
	t.Helper()
	c, err := openCloud(state)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func samples(names ...string) []string {
	args := []string{"local", "deliver"}
	for _, name := range names {
		args = append(args, filepath.Join("..", "..", "events", "samples", name))
	}
	return args
}

// What docs/RUNBOOK.md says of results and versions.
func TestAResultIsReadByItsVersionUntilThatVersionIsGone(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	if code, _, errOut := local(t, state, samples("01-summary.json")...); code != 0 {
		t.Fatal(errOut)
	}
	_, want, _ := local(t, state, "task", "output", "423fb1")
	c := openLocal(t, state)
	tasks, _, err := idempotency.NewTable(c.store, idempotency.DefaultPolicy()).List(t.Context(), "", "", 10)
	if err != nil || len(tasks) != 1 {
		t.Fatal(tasks, err)
	}
	ref := tasks[0].ResultRef
	if ref.VersionID == "" || want == "" {
		t.Fatalf("got %+v, %q", ref, want)
	}
	top, err := c.bucket.Put(t.Context(), ref.Object, aliyun.Object{Body: []byte(`{"summary":"forged"}`), ContentType: "application/json"})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()

	if code, out, errOut := local(t, state, "task", "output", "423fb1"); code != 0 || out != want {
		t.Fatalf("overwritten: exit code %d, %q %s", code, out, errOut)
	}
	c = openLocal(t, state)
	if err := c.bucket.DeleteVersion(t.Context(), ref.Object, top); err != nil {
		t.Fatal(err)
	}
	current, err := c.bucket.Get(t.Context(), ref.Object, "")
	if err != nil || current.VersionID != ref.VersionID || string(current.Body) != want {
		t.Fatalf("without what lay on top the current version is %q, %v", current.VersionID, err)
	}
	if err := c.bucket.DeleteVersion(t.Context(), ref.Object, ref.VersionID); err != nil {
		t.Fatal(err)
	}
	if _, err := c.bucket.Put(t.Context(), ref.Object, aliyun.Object{Body: []byte(want), ContentType: "application/json"}); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if code, out, _ := local(t, state, "task", "output", "423fb1"); code != exitFailed || out != "" {
		t.Errorf("a copy under another version id stands in for the result: exit code %d, %q", code, out)
	}
}

// What docs/RUNBOOK.md counts as one capacity unit: 4 KB, the primary key included.
func TestTheRowsOfTheSamplesFitInOneCapacityUnit(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	if code, _, errOut := local(t, state, samples("01-summary.json", "07-model-timed-out.json", "23-draft-and-notification.json", "25-order.json")...); code != 0 {
		t.Fatal(errOut)
	}
	c := openLocal(t, state)
	defer c.Close()
	rows, largest := 0, 0
	err := c.store.ScanAll(t.Context(), idempotency.TaskTable, aliyun.ScanOptions{}, func(p aliyun.Page) error {
		for i, row := range p.Rows {
			size := len(idempotency.TaskTable.Key) + len(p.Keys[i])
			for name, value := range row {
				size += len(name) + valueSize(value)
			}
			rows, largest = rows+1, max(largest, size)
		}
		return nil
	})
	if err != nil || rows < 6 {
		t.Fatal(rows, err)
	}
	t.Logf("%d rows, the largest of %d bytes", rows, largest)
	if largest > 4096 {
		t.Errorf("a row has %d bytes", largest)
	}
}

// valueSize is what Tablestore counts of a cell: text by its bytes, a number 8.
func valueSize(v any) int {
	if s, ok := v.(string); ok {
		return len(s)
	}
	return 8
}

func TestAnOutputThatIsNotWhatWasStoredIsNoAnswer(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	if code, _, errOut := local(t, state, samples("01-summary.json")...); code != 0 {
		t.Fatal(errOut)
	}
	c := openLocal(t, state)
	tasks := idempotency.NewTable(c.store, idempotency.DefaultPolicy())
	all, _, err := tasks.List(t.Context(), "", "", 10)
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	ref := all[0].ResultRef
	other, err := c.bucket.Put(t.Context(), ref.Object, aliyun.Object{Body: []byte("{}"), ContentType: "application/json"})
	if err != nil {
		t.Fatal(err)
	}
	ref.VersionID = other
	row := aliyun.Columns{Row: aliyun.Row{}}
	row.Text("result_ref", ref.String())
	if err := c.store.Update(t.Context(), idempotency.TaskTable, all[0].Key, row.Row, all[0].Revision); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if code, out, errOut := local(t, state, "task", "output", "423fb1"); code != exitFailed || out != "" || !strings.Contains(errOut, "its bytes are not the ones that were stored") {
		t.Errorf("exit code %d, %q, %q", code, out, errOut)
	}
}
