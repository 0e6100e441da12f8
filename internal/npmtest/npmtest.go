// Package npmtest runs the clients of other languages against a stand-in: a
// script on Node.js with the service's own npm package.
package npmtest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// Run runs testdata/node/client.cjs of the calling package with STAND_IN set to
// at, and returns its lines, {"check","got"} each, as "check: got".
func Run(t *testing.T, modules, at string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", filepath.Join("testdata", "node", "client.cjs"))
	cmd.Env = append(os.Environ(), "NODE_PATH="+modules, "NODE_NO_WARNINGS=1", "STAND_IN="+at)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node: %v\n%s%s", err, out, stderr.Bytes())
	}
	var lines []string
	for sc := bufio.NewScanner(bytes.NewReader(out)); sc.Scan(); {
		var line struct {
			Check string `json:"check"`
			Got   any    `json:"got"`
		}
		if err := json.Unmarshal(sc.Bytes(), &line); err != nil {
			t.Fatalf("%q: %v", sc.Text(), err)
		}
		got, err := json.Marshal(line.Got) // with sorted keys
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%s: %s", line.Check, got))
	}
	return lines
}

// Modules installs what testdata/node/package.json of the calling package pins,
// once for each state of that file, and returns the folder of modules. The test
// is skipped where that cannot be done, unless ONCEGATE_NPM=1 demands it.
func Modules(t *testing.T) string {
	t.Helper()
	giveUp := t.Skipf
	if os.Getenv("ONCEGATE_NPM") == "1" {
		giveUp = t.Fatalf
	}
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			giveUp("the client needs %s: %v", tool, err)
		}
	}
	pinned, err := os.ReadFile(filepath.Join("testdata", "node", "package.json"))
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.UserCacheDir()
	if err == nil {
		root = filepath.Join(root, "oncegate-test")
		err = os.MkdirAll(root, 0o755)
	}
	if err != nil {
		root = t.TempDir()
	}
	dir := filepath.Join(root, fmt.Sprintf("node-%x", sha256.Sum256(pinned))[:21])
	modules := filepath.Join(dir, "node_modules")
	if _, err := os.Stat(modules); err == nil {
		return modules
	}
	fresh, err := os.MkdirTemp(root, "install-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(fresh)
	if err := os.WriteFile(filepath.Join(fresh, "package.json"), pinned, 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--ignore-scripts",
		"--fetch-retries=1", "--fetch-retry-mintimeout=1000")
	cmd.Dir = fresh
	if out, err := cmd.CombinedOutput(); err != nil {
		giveUp("npm install: %v\n%s", err, out)
	}
	// Whole or not at all, and another process may have been faster.
	if err := os.Rename(fresh, dir); err != nil {
		if _, err := os.Stat(modules); err != nil {
			t.Fatal(err)
		}
	}
	return modules
}
