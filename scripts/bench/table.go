package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
)

// shown are the modules whose versions a table names: they make the calls.
var shown = []string{
	"github.com/aliyun/aliyun-tablestore-go-sdk", "github.com/aliyun/aliyun-oss-go-sdk", "github.com/aliyun/fc-runtime-go-sdk",
	"github.com/cloudevents/sdk-go/v2", "github.com/go-json-experiment/json",
}

// describe says what the figures were measured with.
func describe() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s/%s, %d cores", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU())
	if cpu := field("/proc/cpuinfo", "model name"); cpu != "" {
		fmt.Fprintf(&b, ", %s", cpu)
	}
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		fmt.Fprintf(&b, "; load before the run %s", strings.Join(strings.Fields(string(load))[:3], " "))
	}
	b.WriteByte('\n')
	out, err := exec.Command("go", append([]string{"list", "-m", "-f", "{{.Path}} {{.Version}}"}, shown...)...).Output()
	if err == nil {
		b.WriteString(strings.ReplaceAll(strings.TrimSpace(string(out)), "\n", ", ") + "\n")
	}
	return b.String()
}

// field is the value of the first line of a file that begins with a name.
func field(file, name string) string {
	raw, _ := os.ReadFile(file)
	for line := range strings.Lines(string(raw)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func render(w io.Writer, rows []row) error {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	t.AppendHeader(table.Row{"what", "value", "unit", "target", "met"})
	for _, r := range rows {
		target, met := "", ""
		if r.Target != nil {
			target, met = *r.Target, "no"
			if *r.Met {
				met = "yes"
			}
		}
		t.AppendRow(table.Row{r.Name, fmt.Sprintf("%.4g", r.Value), r.Unit, target, met})
	}
	_, err := fmt.Fprintln(w, t.Render())
	return err
}
