package main

import (
	"os/exec"
	"regexp"
	"strconv"
	"testing"
)

// inits are lines of GODEBUG=inittrace=1: a package and what its initialization allocated.
var inits = regexp.MustCompile(`(?m)^init (\S+) @.*, (\d+) allocs$`)

// tolerated are packages that do more before main: JSON Schema's library compiles the
// schemas of five drafts in every process.
var tolerated = map[string]int{"github.com/santhosh-tekuri/jsonschema/v6": 25_000}

// A package that builds tables before main does so in every process, for those
// that never need them too.
func TestNoPackageDoesMuchBeforeMain(t *testing.T) {
	const most = 1000 // allocations
	cmd := exec.Command(binary)
	cmd.Env = []string{"GODEBUG=inittrace=1"}
	out, _ := cmd.CombinedOutput() // without a configuration it ends
	seen := false
	for _, m := range inits.FindAllStringSubmatch(string(out), -1) {
		n, err := strconv.Atoi(m[2])
		if limit := max(most, tolerated[m[1]]); err != nil || n > limit {
			t.Errorf("package %s allocates %s times before main, more than %d", m[1], m[2], limit)
		}
		seen = seen || m[1] == "github.com/oncegate/oncegate/flows"
	}
	if !seen {
		t.Errorf("package flows is not in the trace:\n%s", out)
	}
}
