package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/artifacts/osstest"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// examples are the code blocks of ARCHITECTURE.md that stand for files.
func examples(t *testing.T) map[string]string {
	t.Helper()
	raw, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, m := range regexp.MustCompile("(?s)<!-- example: (\\S+) -->\n```\\w+\n(.*?)```").FindAllStringSubmatch(string(raw), -1) {
		found[m[1]] = m[2]
	}
	return found
}

func TestTheExampleInArchitectureRuns(t *testing.T) {
	files := examples(t)
	dir := t.TempDir()
	write := func(name string) string {
		t.Helper()
		if files[name] == "" {
			t.Fatalf("ARCHITECTURE.md has no example %s", name)
		}
		path := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(path, []byte(files[name]), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	const source = "flows/word_count.go"
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(root, source): write(source)}})
	if err != nil {
		t.Fatal(err)
	}
	overlayFile := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(overlayFile, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "function")
	if out, err := exec.Command("go", "build", "-overlay", overlayFile, "-o", binary, functionPackage).CombinedOutput(); err != nil {
		t.Fatalf("the example does not build: %v\n%s", err, out)
	}

	var out, errOut bytes.Buffer
	state := filepath.Join(dir, "state")
	code := run([]string{
		"local", "deliver", "--output", "json", "--state-dir", state, "--function", binary,
		"--flows", write("flows.yaml"), write("event.json"),
	}, strings.NewReader(""), &out, &errOut, func(string) string { return "" })
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, errOut.String())
	}
	var report deliveryReport
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatal(err)
	}
	if d := report.Deliveries[0]; d.Decision != "executed" || report.Calls.Model != 0 {
		t.Fatalf("got %+v", d)
	}
	oss, err := osstest.New(osstest.Options{Dir: state, Credentials: new(cloudtest.Credentials)})
	if err != nil {
		t.Fatal(err)
	}
	defer oss.Close()
	for _, o := range oss.Objects(localBucket) {
		if o.Key == report.Deliveries[0].ResultRef {
			if !strings.Contains(string(o.Body), `"words":4`) {
				t.Errorf("got %s", o.Body)
			}
			return
		}
	}
	t.Error("the output is not stored")
}
