package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
)

// Output formats.
const (
	outputTable = "table"
	outputJSON  = "json"
	outputJSONL = "jsonl"
)

// outputFlag adds --output with the formats that a command has; the first is the default.
func (a *app) outputFlag(cmd *cobra.Command, formats ...string) {
	cmd.Flags().StringVarP(&a.output, "output", "o", formats[0], "output format: "+strings.Join(formats, ", "))
	cmd.PreRunE = func(*cobra.Command, []string) error {
		for _, f := range formats {
			if a.output == f {
				return nil
			}
		}
		return usageErrorf("--output %q is not known here; use %s", a.output, strings.Join(formats, ", "))
	}
}

func printJSON(w io.Writer, v any, indent bool) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	if indent {
		enc.SetIndent("", "  ")
	}
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// printTable prints rows with a header; all cells come out inert.
func printTable(w io.Writer, header []string, rows [][]string) {
	t := table.NewWriter()
	style := table.StyleLight
	style.Options = table.Options{SeparateColumns: false, DrawBorder: false, SeparateHeader: true}
	style.Format.Header = 0
	t.SetStyle(style)
	t.AppendHeader(rowOf(header))
	for _, r := range rows {
		t.AppendRow(rowOf(r))
	}
	for line := range strings.Lines(t.Render() + "\n") {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
}

func rowOf(cells []string) table.Row {
	row := make(table.Row, len(cells))
	for i, c := range cells {
		row[i] = inert(c)
	}
	return row
}

// inert takes the power from text that events carry: control characters, escape
// sequences and marks that change the writing direction.
func inert(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == unicode.ReplacementChar {
			return '\uFFFD'
		}
		return r
	}, s)
}

// short is a key's unique-enough beginning for a table.
func short(key string) string {
	if len(key) > 12 {
		return key[:12]
	}
	return key
}

// shortRef shortens the key inside an object name.
func shortRef(name string) string {
	parts := strings.Split(name, "/")
	if len(parts) > 2 && len(parts[1]) == 64 {
		parts[1] = short(parts[1]) + "…"
	}
	return strings.Join(parts, "/")
}

// objectOf is the object name in a reference.
func objectOf(ref string) string {
	name, _, _ := strings.Cut(ref, "?")
	return name
}

func utc(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02T15:04:05.000Z07:00")
}
