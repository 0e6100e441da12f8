package flows

import (
	"errors"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/events"
)

func TestATrialIsOneBusinessUnderEveryEventIDAndNoOther(t *testing.T) {
	set, err := Embedded(nil)
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, f := range set.Flows {
		t.Run(f.Name, func(t *testing.T) {
			trial, err := f.NewTrial("preflight-1", 7, "prod", nil)
			if f.content != nil {
				if !errors.Is(err, ErrTrialContent) {
					t.Errorf("got %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			tried++
			other, err := f.NewTrial("preflight-2", 8, "prod", nil)
			if err != nil {
				t.Fatal(err)
			}
			meaning := func(raw []byte, err error) (string, string) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
				e, err := events.Decode(raw)
				if err != nil {
					t.Fatal(err)
				}
				if set.Find(e) != f || f.Environment(e) != "prod" {
					t.Errorf("not the flow's, or of %q: %s", f.Environment(e), raw)
				}
				key, digest, err := trial.meaning(raw)
				if err != nil {
					t.Fatal(err)
				}
				return key, digest
			}
			key, digest := meaning(trial.Event("a"))
			if k, d := meaning(trial.Event("b")); k != key || d != digest {
				t.Error("another event id is another business")
			}
			if k, d := meaning(trial.Changed("c")); k != key || d == digest {
				t.Error("a changed input has another key or the same digest")
			}
			if k, _ := meaning(other.Event("a")); k == key {
				t.Error("another mark is the same business")
			}
		})
	}
	if tried < 8 {
		t.Errorf("%d flows were tried", tried)
	}
}

func TestATrialSaysWhyAFlowCannotBeTried(t *testing.T) {
	load := func(key, extra string) *Flow {
		t.Helper()
		set, err := Load([]byte(`schema_version: 1
flows:
  - name: f
    owner: o
    number_owner: p
    match: {type: t}
    key: {operation: {const: x}, `+key+`}
    processor: summary
    processor_version: "1"
`+extra+`
    sample: '{"specversion":"1.0","id":"1","source":"s","type":"t","aliyuneventbusname":"b","data":{"n":7,"tenant":"t1"}}'
`), nil)
		if err != nil {
			t.Fatal(err)
		}
		return set.Flows[0]
	}
	if _, err := load("number: {path: $.data.n}", "").NewTrial("m", 1, "e", []string{"number"}); !errors.Is(err, ErrTrialNumber) {
		t.Errorf("got %v", err)
	}
	f := load("number: {path: $.data.n}, tenant: {path: $.data.tenant}", "")
	trial, err := f.NewTrial("m", 41, "e", []string{"tenant"})
	if err != nil || len(trial.Marked) != 1 || trial.Marked["number"] != "41" {
		t.Fatalf("%+v %v", trial, err)
	}
	strict := load("number: {path: $.data.n}", `    schema_version: "1"
    data_schema: {type: object, additionalProperties: false, properties: {n: {type: integer, maximum: 10}, tenant: {enum: [t1]}}}`)
	if _, err := strict.NewTrial("m", 11, "e", nil); err == nil || !strings.Contains(err.Error(), "the schema refuses the mark") {
		t.Errorf("got %v", err)
	}
	if trial, err = strict.NewTrial("m", 9, "e", nil); err != nil {
		t.Fatal(err)
	}
	if _, err := trial.Changed("c"); !errors.Is(err, ErrTrialInput) {
		t.Errorf("got %v", err)
	}
}
