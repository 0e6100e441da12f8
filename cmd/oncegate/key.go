package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/messages"
	"github.com/oncegate/oncegate/internal/strictjson"
)

// keyLine says what an event gets.
type keyLine struct {
	EventID     string            `json:"event_id"`
	Flow        string            `json:"flow"`
	Fields      map[string]string `json:"fields"`
	Canonical   string            `json:"canonical"`
	Key         string            `json:"idempotency_key"`
	InputDigest string            `json:"input_digest"`
	Error       string            `json:"error"`
	ErrorField  string            `json:"error_field"`
}

func (a *app) keyCommand() *cobra.Command {
	var flowsFile string
	cmd := &cobra.Command{
		Use:   "key FILE|FOLDER|-...",
		Short: "Show which flow an event meets and what key it gets",
		Long: `Show which flow an event meets and what key it gets, without any network.

Sensitive key fields need the key secret in ONCEGATE_KEY_SECRET; they are shown
as their HMAC, and another secret makes another key (the local cloud uses a fixed
one where none is set). A file that holds an array is taken member by member. The exit code is 1 where an event gets no key.
Values shaped like keys, tokens, id cards or phone numbers are warned of, by place.`,
		Example: `  oncegate key events/samples/01-summary.json
  oncegate key --output jsonl events/samples
  cat event.json | oncegate key -`,
		Args: cobra.MinimumNArgs(1),
		RunE: runE(func(_ context.Context, args []string) error {
			set, err := loadFlows(flowsFile)
			if err != nil {
				return err
			}
			files, err := readEvents(args, a.in)
			if err != nil {
				return err
			}
			secret := a.getenv("ONCEGATE_KEY_SECRET")
			if secret != "" && len(secret) < 32 {
				return usageErrorf("ONCEGATE_KEY_SECRET must have at least 32 characters, as the function demands")
			}
			var lines []keyLine
			var named []eventFile
			for _, f := range members(files) {
				named = append(named, f)
				lines = append(lines, keyOf(set, f.raw, []byte(secret)))
			}
			a.warnOfPersonal(set, named)
			return a.printKeys(named, lines)
		}),
	}
	cmd.Flags().StringVar(&flowsFile, "flows", "", "a flows.yaml in place of the built-in one")
	a.outputFlag(cmd, outputTable, outputJSON, outputJSONL)
	return cmd
}

// members cuts files that hold an array into their members.
func members(files []eventFile) []eventFile {
	var all []eventFile
	for _, f := range files {
		cut, err := strictjson.Members(f.raw)
		if err != nil || len(cut) == 0 {
			all = append(all, f)
			continue
		}
		for i, raw := range cut {
			all = append(all, eventFile{fmt.Sprintf("%s[%d]", f.name, i), raw})
		}
	}
	return all
}

// loadFlows loads a flows.yaml, the built-in one for "".
func loadFlows(file string) (*flows.Set, error) {
	if file == "" {
		return flows.Embedded(nil)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, messages.Errorf("load flows: %w", err)
	}
	return flows.Load(raw, nil)
}

func keyOf(set *flows.Set, raw []byte, secret []byte) keyLine {
	var line keyLine
	e, err := events.Decode(raw)
	if err != nil {
		line.Error = err.Error()
		return line
	}
	line.EventID = e.ID()
	f := set.Find(e)
	if f == nil {
		line.Error = "no flow wants this event: compare its type with `match` in flows.yaml"
		return line
	}
	line.Flow = f.Name
	in, err := f.Input(e)
	if err != nil {
		line.Error, line.ErrorField = err.Error(), "payload"
		return line
	}
	line.InputDigest = f.Digest(in)
	key, err := f.Key(in, secret)
	if err != nil {
		line.Error = err.Error()
		var field *idempotency.FieldError
		if errors.As(err, &field) {
			line.ErrorField = field.Field
		}
		return line
	}
	line.Key, line.Canonical = key.Hex, key.Canonical
	if err := json.Unmarshal([]byte(key.Canonical), &line.Fields); err != nil {
		line.Error = err.Error()
	}
	return line
}

func (a *app) printKeys(files []eventFile, lines []keyLine) error {
	failed := 0
	for _, l := range lines {
		if l.Error != "" {
			failed++
		}
	}
	var err error
	switch a.output {
	case outputJSONL:
		for _, l := range lines {
			if err = printJSON(a.out, l, false); err != nil {
				break
			}
		}
	case outputJSON:
		err = printJSON(a.out, struct {
			SchemaVersion int       `json:"schema_version"`
			Keys          []keyLine `json:"keys"`
		}{1, lines}, true)
	default:
		for i, l := range lines {
			printKey(a, files[i].name, l)
		}
	}
	if err == nil && failed > 0 {
		return &exitError{exitFailed, messages.Errorf("%d of %d events get no key", failed, len(lines))}
	}
	return err
}

func printKey(a *app, name string, l keyLine) {
	fmt.Fprintf(a.out, "%s\n", inert(name))
	for _, pair := range [][2]string{
		{"event_id", l.EventID},
		{"flow", l.Flow},
		{"canonical", l.Canonical},
		{"idempotency_key", l.Key},
		{"input_digest", l.InputDigest},
		{"error", l.Error},
		{"error_field", l.ErrorField},
	} {
		if pair[1] != "" {
			fmt.Fprintf(a.out, "  %-16s %s\n", pair[0], inert(strings.TrimSpace(pair[1])))
		}
	}
}
