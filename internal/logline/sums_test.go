package logline

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLinesAddUp(t *testing.T) {
	log := `FC Invoke Start RequestId: 1
{"msg":"transition","from":"","status":"RUNNING","attempt":1}
{"msg":"transition","from":"RUNNING","status":"FAILED_RETRYABLE","attempt":1}
{"msg":"letter","from":"","state":"open","fingerprint":"fe500ee44f76"}
{"msg":"letter","from":"open","state":"open","fingerprint":"fe500ee44f76"}
{"msg":"delivery","call":"event","decision":"retry"}
{"msg":"transition","from":"FAILED_RETRYABLE","status":"RUNNING","attempt":2}
{"msg":"transition","from":"RUNNING","status":"SUCCEEDED","attempt":2}
{"msg":"delivery","call":"replay","decision":"executed"}
{"msg":"delivery","call":"event","decision":"duplicate","duplicate":"cache"}
{"msg":"of another program"}
` + strings.Repeat("x", 2<<20) + "\n" + `{"msg":"delivery","call":"event","decision":"duplicate","duplicate":"failed_put"}`
	got, err := Sum(strings.NewReader(log))
	if err != nil {
		t.Fatal(err)
	}
	want := Sums{
		Claims: 1, Attempts: 2, Lines: 10, Other: 3,
		Deliveries: map[string]int{"retry": 1, "executed": 1, "duplicate": 2},
		Duplicates: map[string]int{"cache": 1, "failed_put": 1},
		Replays:    map[string]int{"executed": 1}, Letters: map[string]int{"fe500ee44f76": 1},
		Transitions: map[string]int{"RUNNING": 2, "FAILED_RETRYABLE": 1, "SUCCEEDED": 1},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}
