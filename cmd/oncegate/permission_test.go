package main

import (
	"bytes"
	"context"
	"regexp"
	"strings"
	"testing"
)

func TestAReplayRunsAsTheIdentityThatTheCommandBeganWith(t *testing.T) {
	a := &app{getenv: func(string) string { return "" }, target: targetLocal}
	if err := a.permission("oncegate-operator/local")(context.Background()); err != nil {
		t.Error(err)
	}
	if err := a.permission("oncegate-replayer/local")(context.Background()); err == nil || !strings.Contains(err.Error(), "the identity is oncegate-operator/local now") {
		t.Errorf("got %v", err)
	}
}

// Whoever the command began as, what is sent is sent as the same.
func TestAReplayAsksAgainWhoRunsIt(t *testing.T) {
	state := t.TempDir()
	deliverSamples(t, state, "../../events/samples/01-summary.json") // publishes a version
	call := func(getenv func(string) string, args ...string) (code int, said string) {
		var out bytes.Buffer
		code = run(append(args, "--state-dir", state), strings.NewReader(""), &out, &out, getenv)
		return code, out.String()
	}
	none := func(string) string { return "" }
	if code, said := call(none, "dlq", "ingest", "../../events/dead-letters/three.jsonl", "--execute", "--yes"); code != 0 {
		t.Fatal(said)
	}
	code, said := call(none, "dlq", "plan", "3edcecc95052", "--reason", "the worker is back", "--execute", "--yes")
	id := regexp.MustCompile(`rp-[0-9a-f]{16}`).FindString(said)
	if code != 0 || id == "" {
		t.Fatal(said)
	}
	if code, said := call(none, "dlq", "approve", id, "--execute", "--yes"); code != 0 {
		t.Fatal(said)
	}
	for reads := 1; ; reads++ { // of the identity, before it changes
		left := reads
		code, said := call(func(name string) string {
			if name == localIdentityVariable {
				if left--; left < 0 {
					return "replayer"
				}
			}
			return ""
		}, "dlq", "replay", id, "--function", functionBinary, "--execute", "--yes")
		if left >= 0 {
			t.Fatalf("it is never asked again: exit code %d\n%s", code, said)
		}
		if strings.Contains(said, "gate permission refuses: the identity is oncegate-replayer/local now, and was oncegate-operator/local") && code == exitRefused {
			break
		}
	}
}
