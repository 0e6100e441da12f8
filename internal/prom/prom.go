// Package prom writes the text format that Prometheus reads, version 0.0.4:
// https://prometheus.io/docs/instrumenting/exposition_formats/
package prom

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Writer writes metrics whose names all begin with one prefix. Its first error is
// kept for Flush.
type Writer struct {
	w      *bufio.Writer
	prefix string
	n      int64
}

// NewWriter returns a Writer for names such as oncegate_.
func NewWriter(w io.Writer, prefix string) *Writer {
	return &Writer{w: bufio.NewWriter(w), prefix: prefix}
}

// Flush ends the text; n is how many bytes it has.
func (w *Writer) Flush() (n int64, err error) {
	if err := w.w.Flush(); err != nil {
		return w.n, fmt.Errorf("write metrics: %w", err)
	}
	return w.n, nil
}

func (w *Writer) printf(format string, args ...any) {
	n, _ := fmt.Fprintf(w.w, format, args...)
	w.n += int64(n)
}

// Gauge writes one value that may rise and fall.
func (w *Writer) Gauge(name, help string, v float64) {
	w.head(name, help, "gauge")
	w.printf("%s%s %s\n", w.prefix, name, strconv.FormatFloat(v, 'g', -1, 64))
}

var escapeLabel = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

func (w *Writer) head(name, help, kind string) {
	w.printf("# HELP %s%s %s\n# TYPE %s%s %s\n", w.prefix, name, help, w.prefix, name, kind)
}

// Gauges writes one value for each value of a label, sorted by it.
func Gauges[K ~string](w *Writer, name, help, label string, counts map[K]int) {
	vector(w, name, help, "gauge", label, counts)
}

// Counters writes values that only rise, for each value of a label, sorted by it.
// The name ends in _total.
func Counters[K ~string](w *Writer, name, help, label string, counts map[K]int) {
	vector(w, name, help, "counter", label, counts)
}

func vector[K ~string](w *Writer, name, help, kind, label string, counts map[K]int) {
	w.head(name, help, kind)
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		w.printf("%s%s{%s=\"%s\"} %d\n", w.prefix, name, label, escapeLabel.Replace(strings.ToValidUTF8(string(k), "?")), counts[k])
	}
}
