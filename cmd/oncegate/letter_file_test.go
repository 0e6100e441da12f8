package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// readTwice walks a file that holds a text twice, as ingest does.
func readTwice(t *testing.T, name, text string, limit int) (got []string, err error) {
	t.Helper()
	f := &letterFile{name: name, stdin: strings.NewReader(text), limit: limit}
	if name != "-" {
		f.name = filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(f.name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	walk := func() (texts []string, err error) {
		err = f.each(func(m []byte) error { texts = append(texts, string(m)); return nil })
		return texts, err
	}
	if got, err = walk(); err != nil {
		return got, err
	}
	again, err := walk()
	if diff := cmp.Diff(got, again); diff != "" {
		t.Errorf("the second time %s", diff)
	}
	return got, err
}

func TestMessagesAreReadAsTheirFileHoldsThem(t *testing.T) {
	const event = `{"specversion":"1.0","id":"e"}`
	lines := event + "\n\n  " + event + "\n"
	spread := "{\n\"specversion\":\"1.0\"\n}"
	array := "[" + event + ",\n" + event + "]"
	for _, tt := range []struct {
		name, text string
		limit      int
		want       []string
	}{
		{"a.jsonl", lines, 40, []string{event, event}},
		{"a.jsonl", "x\n" + event, 40, []string{"x", event}},
		{"a.json", lines, 1000, []string{event, event}},
		{"-", lines, 1000, []string{event, event}},
		{"a.json", spread, 1000, []string{spread}},
		{"a.json", array, 1000, []string{array}},
		{"a.json", "[broken", 1000, []string{"[broken"}},
		// Larger than what is held:
		{"a.ndjson", lines, 40, []string{event, event}},
		{"a.json", array, 40, []string{event, event}},
		{"a.json", "\n[\n" + event + ",\n" + event + "]\n", 40, []string{event, event}},
		{"a.json", "[" + event + "," + event + "]", 40, []string{event, event}},
	} {
		got, err := readTwice(t, tt.name, tt.text, tt.limit)
		if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
			t.Errorf("%s %q, %d bytes: %v %s", tt.name, tt.text, tt.limit, err, diff)
		}
	}
}

func TestAFileThatCannotBeReadSaysWhy(t *testing.T) {
	const event = `{"specversion":"1.0","id":"e"}`
	for _, tt := range []struct {
		name, text, want string
		limit            int
	}{
		{"-", event + event, "is larger than 40 bytes", 40},
		{"a.json", `{"specversion":"1.0",` + "\n" + strings.Repeat(" ", 40), "is larger than 40 bytes", 40},
		{"a.jsonl", event + event, "a line of", 40},
		{"a.json", "[" + event + ",{\"id\":\"" + strings.Repeat("x", 40) + "\"}]", "a member of the array", 40},
		{"a.json", "[" + event + "," + event, "the array in", 40},
		{"a.json", " \n", "holds nothing", 40},
	} {
		if _, err := readTwice(t, tt.name, tt.text, tt.limit); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %q: %v", tt.name, tt.text, err)
		}
	}
	f := &letterFile{name: filepath.Join(t.TempDir(), "missing.json"), limit: 40}
	if err := f.each(nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}
