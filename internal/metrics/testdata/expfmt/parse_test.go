// Package expfmt reads what oncegate prints for Prometheus with Prometheus' own
// parser. It is a module of its own, so that the parser's protobuf runtime stays out
// of the product. ONCEGATE_METRICS names a file with what a command has printed.
package expfmt

import (
	"os"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

func parse(t *testing.T, name string) map[string]*dto.MetricFamily {
	t.Helper()
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(file)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	for name, f := range families {
		if f.GetHelp() == "" || f.Type == nil || f.GetType() == dto.MetricType_UNTYPED {
			t.Errorf("%s has no help or no type", name)
		}
		seen := map[string]bool{}
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			id := strings.Join(labels, ",")
			if seen[id] {
				t.Errorf("%s has two samples of {%s}", name, id)
			}
			seen[id] = true
		}
		counter := f.GetType() == dto.MetricType_COUNTER
		if counter != strings.HasSuffix(name, "_total") && name != "oncegate_large" && name != "oncegate_by_two" {
			t.Errorf("%s is of type %s: counters, and they alone, end in _total", name, f.GetType())
		}
	}
	return families
}

func TestEveryFormIsRead(t *testing.T) {
	families := parse(t, "../sample.prom")
	if f := families["oncegate_by"]; len(f.GetMetric()) != 4 || f.Metric[1].Label[0].GetValue() != "a \"b\"\\\nc" {
		t.Errorf("got %v", f)
	}
	if f := families["oncegate_took_seconds"]; f.Metric[0].Summary.GetSampleCount() != 3 || f.Metric[0].Summary.GetSampleSum() != 0.25 {
		t.Errorf("got %v", f)
	}
	if f := families["oncegate_large"]; f.GetHelp() != "Large \\ odd\nhelp." || f.Metric[0].Counter.GetValue() != 1e21 {
		t.Errorf("got %v", f)
	}
}

func TestWhatACommandHasPrintedIsRead(t *testing.T) {
	name := os.Getenv("ONCEGATE_METRICS")
	if name == "" {
		t.Skip("ONCEGATE_METRICS names no file")
	}
	families := parse(t, name)
	for _, want := range []string{
		"oncegate_tasks", "oncegate_tasks_stuck", "oncegate_dlq_letters_open", "oncegate_dlq_reviews_open", "oncegate_deliveries_total",
		"oncegate_duplicates_total", "oncegate_claims_total",
	} {
		if len(families[want].GetMetric()) == 0 {
			t.Errorf("no sample of %s", want)
		}
	}
}
