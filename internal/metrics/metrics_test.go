package metrics

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/sample.prom anew")

// sample has every form that Write prints. Prometheus' own parser reads its text in
// testdata/expfmt, which is a module of its own.
var sample = []Family{
	One("oncegate_one", "A number.", Gauge, 1.5),
	One("oncegate_large", "Large \\ odd\nhelp.", Counter, 1e21),
	By("oncegate_by", "By a label.", Gauge, "state", map[string]int{"b": 2, "a": 1, "a \"b\"\\\nc": 3, "bad \xff": 4}),
	ByTwo("oncegate_by_two", "By two.", Counter, [2]string{"call", "decision"}, map[[2]string]int64{{"event", "retry"}: 2, {"event", "executed"}: 1, {"", ""}: 0}),
	{Name: "oncegate_took_seconds", Help: "How long.", Type: Summary, Samples: []Sample{{Suffix: "_sum", Value: 0.25}, {Suffix: "_count", Value: 3}}},
	{Name: "oncegate_none", Help: "Without samples.", Type: Gauge},
}

func TestFamiliesAreWrittenInTheTextFormat(t *testing.T) {
	var text bytes.Buffer
	n, err := Write(&text, sample)
	if err != nil || n != int64(text.Len()) {
		t.Fatal(n, err)
	}
	const golden = "testdata/sample.prom"
	if *update {
		if err := os.WriteFile(golden, text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil || !bytes.Equal(want, text.Bytes()) {
		t.Errorf("%v: got\n%s", err, text.String())
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no room") }

func TestAWriterThatFailsIsAnError(t *testing.T) {
	if _, err := Write(broken{}, sample); err == nil {
		t.Error("no error")
	}
}
