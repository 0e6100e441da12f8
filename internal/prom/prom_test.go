package prom

import (
	"errors"
	"strings"
	"testing"
)

func TestTheTextIsWhatPrometheusReads(t *testing.T) {
	var out strings.Builder
	w := NewWriter(&out, "x_")
	w.Gauge("age_seconds", "How old.", 1.5)
	Gauges(w, "open", "By name.", "name", map[string]int{"b": 2, "a\"\n\\\xff": 1})
	Counters(w, "done_total", "By end.", "end", map[string]int{"ok": 3})
	if n, err := w.Flush(); err != nil || n != int64(out.Len()) {
		t.Errorf("%d bytes, %v", n, err)
	}
	want := "# HELP x_age_seconds How old.\n# TYPE x_age_seconds gauge\nx_age_seconds 1.5\n" +
		"# HELP x_open By name.\n# TYPE x_open gauge\nx_open{name=\"a\\\"\\n\\\\?\"} 1\nx_open{name=\"b\"} 2\n" +
		"# HELP x_done_total By end.\n# TYPE x_done_total counter\nx_done_total{end=\"ok\"} 3\n"
	if out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("full") }

func TestAFullDiskIsAnError(t *testing.T) {
	w := NewWriter(full{}, "x_")
	w.Gauge("a", "b", 1)
	if _, err := w.Flush(); err == nil {
		t.Error("nothing is said")
	}
}
