// Package metrics prints numbers in the text format that Prometheus reads,
// version 0.0.4. A name, once printed, keeps its meaning: alert rules and dashboards
// outlive a release.
package metrics

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Type says what may be computed from a family.
type Type string

const (
	// Gauge is what is there now.
	Gauge Type = "gauge"
	// Counter only rises; it begins anew with what it counts.
	Counter Type = "counter"
	// Summary has the two samples _sum and _count.
	Summary Type = "summary"
)

// Label names one side of a sample. Values are of a small, closed set.
type Label struct{ Name, Value string }

// Sample is one number.
type Sample struct {
	Suffix string // "_sum" or "_count" of a summary
	Labels []Label
	Value  float64
}

// Family is the samples of one name.
type Family struct {
	Name    string
	Help    string
	Type    Type
	Samples []Sample
}

// One is a family of one number.
func One(name, help string, t Type, v float64) Family {
	return Family{name, help, t, []Sample{{Value: v}}}
}

// By is a family with a number for each value of one label, in their order.
func By[K ~string, N ~int | ~int64](name, help string, t Type, label string, counts map[K]N) Family {
	f := Family{Name: name, Help: help, Type: t}
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		f.Samples = append(f.Samples, Sample{Labels: []Label{{label, string(k)}}, Value: float64(counts[k])})
	}
	return f
}

// ByTwo is By for two labels.
func ByTwo[N ~int | ~int64](name, help string, t Type, labels [2]string, counts map[[2]string]N) Family {
	f := Family{Name: name, Help: help, Type: t}
	keys := slices.SortedFunc(maps.Keys(counts), func(x, y [2]string) int {
		return cmp.Or(cmp.Compare(x[0], y[0]), cmp.Compare(x[1], y[1]))
	})
	for _, k := range keys {
		f.Samples = append(f.Samples, Sample{Labels: []Label{{labels[0], k[0]}, {labels[1], k[1]}}, Value: float64(counts[k])})
	}
	return f
}

var (
	escapeLabel = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	escapeHelp  = strings.NewReplacer(`\`, `\\`, "\n", `\n`)
)

// Write prints families in the order they have, and returns how many bytes.
func Write(w io.Writer, families []Family) (int64, error) {
	out := &counted{w: bufio.NewWriter(w)}
	for _, f := range families {
		out.printf("# HELP %s %s\n# TYPE %s %s\n", f.Name, escapeHelp.Replace(f.Help), f.Name, f.Type)
		for _, s := range f.Samples {
			out.printf("%s%s", f.Name, s.Suffix)
			for i, l := range s.Labels {
				out.printf("%c%s=\"%s\"", "{,"[min(i, 1)], l.Name, escapeLabel.Replace(strings.ToValidUTF8(l.Value, "?")))
			}
			if len(s.Labels) > 0 {
				out.printf("}")
			}
			out.printf(" %s\n", strconv.FormatFloat(s.Value, 'g', -1, 64))
		}
	}
	if err := out.w.Flush(); err != nil {
		return out.n, fmt.Errorf("write metrics: %w", err)
	}
	return out.n, nil
}

type counted struct {
	w *bufio.Writer
	n int64
}

func (c *counted) printf(format string, args ...any) {
	n, _ := fmt.Fprintf(c.w, format, args...) // the writer keeps its error for Flush
	c.n += int64(n)
}
