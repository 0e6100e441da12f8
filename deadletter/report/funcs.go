package report

import (
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/letter"
)

func (w *writer) funcs() template.FuncMap {
	return template.FuncMap{
		"t": w.words.say, "n": number, "when": when, "span": w.words.span, "short": shortID, "file": fileName, "chart": w.chart,
		"decisions": func() []deadletter.Decision { return decisions }, "ends": func() []letter.FinalStatus { return ends },
		"path": func(parts ...any) string {
			return strings.Trim(strings.ReplaceAll(fmt.Sprintln(parts...), " ", "."), "\n")
		},
		"left": func(t time.Time) string { return w.words.left(w.Now, t) }, "pct": pct, "int64": func(n int) int64 { return int64(n) },
		"keys": keys, "args": func(a ...any) []any { return a },
	}
}

// keys sorts by count, then by name.
func keys(m map[string]int64) []string {
	all := make([]string, 0, len(m))
	for k := range m {
		all = append(all, k)
	}
	slices.SortFunc(all, func(x, y string) int {
		if m[x] != m[y] {
			return int(max(-1, min(1, m[y]-m[x])))
		}
		return strings.Compare(x, y)
	})
	return all
}

// number shows a number and says where report.json holds it.
func number(path string, n int64) template.HTML {
	return template.HTML(fmt.Sprintf(`<data value="%d" class="p:%s">%s</data>`, n, template.HTMLEscapeString(path), grouped(n)))
}

func grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func when(t time.Time) template.HTML {
	if t.IsZero() {
		return "–"
	}
	u := t.UTC()
	return template.HTML(`<time datetime="` + u.Format(time.RFC3339) + `">` + u.Format("2006-01-02 15:04:05") + `</time>`)
}

func shortID(s string) string {
	if len(s) > 12 && plainName.MatchString(s) {
		return s[:12]
	}
	return s
}

func pct(part, all int64) string {
	if all == 0 {
		return "0"
	}
	return strconv.FormatFloat(float64(part)*100/float64(all), 'f', 1, 64)
}

// bar is one bucket of a chart, in its own units.
type bar struct {
	X, OpenY, OpenH, EndedY, EndedH int64
	From                            time.Time
	Open, Ended                     int64
}

// chartView is a timeline as a drawing of 960 by 160.
type chartView struct {
	Timeline
	Bars         []bar
	Width        int64
	To           time.Time
	Top          int64 // letters at the upper edge
	Span         string
	OpenN, EndN  int64
	Busiest      time.Time
	BusiestCount int64
}

const chartHeight = 150

func (w *writer) chart(t Timeline) chartView {
	v := chartView{Timeline: t, Span: w.words.span(t.Seconds), To: t.From.Add(time.Duration(len(t.Open)) * time.Duration(t.Seconds) * time.Second)}
	for i := range t.Open {
		v.Top = max(v.Top, t.Open[i]+t.Ended[i])
	}
	if len(t.Open) == 0 {
		return v
	}
	v.Width = 960 / max(12, int64(len(t.Open)))
	for i := range t.Open {
		b := bar{X: int64(i) * v.Width, From: t.From.Add(time.Duration(i) * time.Duration(t.Seconds) * time.Second), Open: t.Open[i], Ended: t.Ended[i]}
		b.OpenH, b.EndedH = height(b.Open, v.Top), height(b.Ended, v.Top)
		b.OpenY = chartHeight - b.OpenH
		b.EndedY = b.OpenY - b.EndedH
		if n := b.Open + b.Ended; n > v.BusiestCount {
			v.BusiestCount, v.Busiest = n, b.From
		}
		v.OpenN += b.Open
		v.EndN += b.Ended
		v.Bars = append(v.Bars, b)
	}
	v.Width = max(1, v.Width-2)
	return v
}

// height is at least 2 for what is there at all.
func height(n, top int64) int64 {
	if n == 0 || top == 0 {
		return 0
	}
	return max(2, n*(chartHeight-6)/top)
}
