package otstest

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

	"github.com/google/go-cmp/cmp"
)

// TestNodeClient holds the stand-in against a client that shares no code with
// the Go SDK: it verifies the checksums of rows, which the Go SDK does not.
func TestNodeClient(t *testing.T) {
	modules := nodeModules(t)
	s := newStand(t, Options{Now: time.Now}, true)
	at, err := json.Marshal(map[string]string{
		"endpoint": s.Endpoint(), "instance": "oncegate",
		"id": s.cred.AccessKeyID, "secret": s.cred.AccessKeySecret, "token": s.cred.SecurityToken,
	})
	if err != nil {
		t.Fatal(err)
	}
	got := runNode(t, modules, string(at))
	if d := cmp.Diff(nodeWant(), got); d != "" {
		t.Fatal(d)
	}
}

// nodeWant is what the client must see, in the order of client.cjs.
func nodeWant() []string {
	return []string{
		`create a table: "ok"`,
		`create it again: "409 OTSObjectAlreadyExist"`,
		`describe it: {"key":[["k",2]],"ttl":-1,"versions":2}`,
		`update it: [86400,3,3600]`,
		`an unknown table: "404 OTSObjectNotExist"`,
		`put a row that must be absent: "ok"`,
		`put it again: "403 OTSConditionCheckFail"`,
		`get it: {"columns":[["b","bytes 00ff"],["f",2.5],["i",-7],["s","text é"],["t",true]],"key":["a"]}`,
		`get some columns of it: {"columns":[["i",-7],["t",true]],"key":["a"]}`,
		`get a page of its columns: {"columns":[["i",-7]],"key":["a"]}`,
		`get it through a filter: {"columns":[],"key":[]}`,
		`get an absent row: {"columns":[],"key":[]}`,
		`update under a condition that holds: "ok"`,
		`update under one that does not: "403 OTSConditionCheckFail"`,
		`update under both of two: "ok"`,
		`update under neither of two: "403 OTSConditionCheckFail"`,
		`the versions that are left: {"columns":[["s","newer"],["s","new"],["s","text é"]],"key":["a"]}`,
		`increments: [["n",5],["n",3]]`,
		`a put that returns its key: {"columns":[],"key":["key"]}`,
		`delete: {"columns":[],"key":[]}`,
		`delete it again: "403 OTSConditionCheckFail"`,
		`a batch that fails in part: ["b","OTSConditionCheckFail","c","OTSConditionCheckFail","ok"]`,
		`a batch that guards a row twice: "400 OTSParameterInvalid"`,
		`a batch of reads: [[["s","batch"]],[],[["s","newer"]]]`,
		`a range in pages: "a b | c counter"`,
		`a range backwards: "counter c | b"`,
		`a range through a filter: "b | c"`,
		`a range the wrong way round: "400 OTSParameterInvalid"`,
		`auto-increment keys: {"rising":true,"second":[["i",1]]}`,
		`an STS token: ["claims","log"]`,
		`a wrong secret: "403 OTSAuthFailed"`,
		`an unknown key: "403 OTSAuthFailed"`,
		`a wrong token: "403 OTSAuthFailed"`,
		`no token: "403 OTSAuthFailed"`,
		`another instance: "403 OTSAuthFailed"`,
		`delete the tables: []`,
	}
}

// runNode runs testdata/node/client.cjs and returns its lines as "check: got".
func runNode(t *testing.T, modules, at string) []string {
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

// nodeModules installs what testdata/node/package.json pins, once for each
// state of that file. The test is skipped where that cannot be done, unless
// ONCEGATE_NPM=1 demands it.
func nodeModules(t *testing.T) string {
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
