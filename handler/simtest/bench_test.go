package simtest

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"github.com/oncegate/oncegate/internal/ratio"
)

var pace = regexp.MustCompile(`(\d+) schedules/s`)

// BenchmarkSimulation measures schedules a second. They need a *testing.T, so a
// test of this very binary runs them.
func BenchmarkSimulation(b *testing.B) {
	const schedules = 300
	best, cpu := 0, 0.0
	for b.Loop() {
		cmd := exec.CommandContext(b.Context(), os.Args[0], "-test.run=^TestSimulation$", "-test.v")
		cmd.Env = append(os.Environ(), "ONCEGATE_SCHEDULES="+strconv.Itoa(schedules))
		out, err := cmd.CombinedOutput()
		m := pace.FindSubmatch(out)
		if err != nil || m == nil {
			b.Fatalf("%v\n%s", err, out)
		}
		n, _ := strconv.Atoi(string(m[1]))
		best = max(best, n)
		cpu = max(cpu, schedules/(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()).Seconds())
	}
	b.ReportMetric(0, "ns/op")
	ratio.AtLeast(b, float64(best), "schedules/s", 50)
	ratio.AtLeast(b, cpu, "schedules/cpu-s", 25) // two cores make 50 of it
}
