package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// functionBinary is the function that all tests of this package deliver to.
var functionBinary string

func TestMain(m *testing.M) {
	if os.Getenv(asCommand) != "" {
		os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
	}
	testscript.Main(builtFunction{m}, map[string]func(){
		"oncegate": func() { os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv)) },
	})
}

// builtFunction builds the function before the tests run.
type builtFunction struct{ m *testing.M }

func (b builtFunction) Run() int {
	dir, err := os.MkdirTemp("", "oncegate-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	functionBinary = filepath.Join(dir, "function")
	args := []string{"build", "-o", functionBinary}
	if raceEnabled {
		args = append(args, "-race")
	}
	if out, err := exec.Command("go", append(args, functionPackage)...).CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build function: %v\n%s", err, out)
		return 1
	}
	return b.m.Run()
}

func TestScripts(t *testing.T) {
	samples, err := filepath.Abs("../../events/samples")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir:  "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"planid": planID},
		Setup: func(env *testscript.Env) error {
			env.Setenv("SAMPLES", samples)
			env.Setenv("FUNCTION", functionBinary)
			return nil
		},
	})
}

// planID sets $PLAN to the first plan's id that a file names.
func planID(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: planid FILE")
	}
	id := regexp.MustCompile(`rp-[0-9a-f]{16}`).FindString(ts.ReadFile(args[0]))
	if id == "" {
		ts.Fatalf("%s names no plan", args[0])
	}
	ts.Setenv("PLAN", id)
}
