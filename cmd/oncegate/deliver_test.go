package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/flows/targettest"
)

func deliverSamples(t *testing.T, stateDir string, args ...string) (deliveryReport, string) {
	t.Helper()
	var out, errOut bytes.Buffer
	args = append([]string{
		"local", "deliver", "--output", "json", "--function", functionBinary, "--state-dir", stateDir,
	}, args...)
	code := run(args, strings.NewReader(""), &out, &errOut, func(string) string { return "" })
	if code != 0 {
		t.Fatalf("exit code %d\n%s", code, errOut.String())
	}
	var report deliveryReport
	dec := json.NewDecoder(&out)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&report); err != nil {
		t.Fatalf("stdout is not the document: %v", err)
	}
	if dec.More() {
		t.Error("stdout holds more than one document")
	}
	return report, errOut.String()
}

// told is what a delivery line says that does not depend on how fast this
// machine is.
type told struct{ File, Outcome, Decision, Status, Ref, Code string }

func toldOf(r deliveryReport) []told {
	var all []told
	for _, d := range r.Deliveries {
		ref := ""
		if d.ResultRef != "" {
			ref = filepath.Base(d.ResultRef)
		}
		all = append(all, told{strings.TrimSuffix(filepath.Base(d.File), ".json"), d.Outcome, string(d.Decision), string(d.Status), ref, d.ErrorCode})
	}
	return all
}

func TestSamplesEndAsDocumented(t *testing.T) {
	state := t.TempDir()
	first, progress := deliverSamples(t, state, "../../events/samples")
	const out = "output.json"
	want := []told{
		{"01-summary", "acknowledged", "executed", "SUCCEEDED", out, ""},
		{"02-same-event-again", "acknowledged", "duplicate", "SUCCEEDED", out, ""},
		{"03-same-business-other-event", "acknowledged", "duplicate", "SUCCEEDED", out, ""},
		{"04-new-input-version", "acknowledged", "executed", "SUCCEEDED", out, ""},
		{"05-changed-input-same-key", "acknowledged", "conflict", "SUCCEEDED", "", ""},
		{"06-model-rate-limited", "acknowledged", "executed", "SUCCEEDED", out, ""},
		{"07-model-timed-out", "acknowledged", "executed", "SUCCEEDED", out, ""},
		{"08-policy-refusal", "acknowledged", "final", "FAILED_FINAL", "", "policy_rejected"},
		{"09-attempts-end-first", "acknowledged", "final", "FAILED_FINAL", "", "temporary_unavailable"},
		{"10-deliveries-end-first", "dead_lettered", "retry", "FAILED_RETRYABLE", "", "temporary_unavailable"},
		{"11-malformed", "acknowledged", "dead_letter", "", "", ""},
		{"12-no-flow-wants-it", "acknowledged", "dead_letter", "", "", ""},
		{"13-key-field-missing", "acknowledged", "dead_letter", "", "", ""},
		{"14-title", "acknowledged", "executed", "SUCCEEDED", out, ""},
		{"15-flow-is-off", "acknowledged", "parked", "RECEIVED", "", ""},
		{"16-other-environment", "acknowledged", "wrong_environment", "", "", ""},
		{"17-batch.json[0]", "acknowledged", "duplicate", "SUCCEEDED", out, ""},
		{"17-batch.json[1]", "acknowledged", "executed", "SUCCEEDED", out, ""},
		{"17-batch.json[2]", "acknowledged", "duplicate", "SUCCEEDED", out, ""},
		{"17-batch.json[3]", "acknowledged", "dead_letter", "", "", ""},
		{"18-batch-of-texts.json[0]", "acknowledged", "executed", "SUCCEEDED", out, ""},
		{"18-batch-of-texts.json[1]", "acknowledged", "duplicate", "SUCCEEDED", out, ""},
		{"19-wrapped-by-a-queue", "acknowledged", "executed", "SUCCEEDED", out, ""},
		{"20-data-in-base64", "acknowledged", "executed", "SUCCEEDED", out, ""},
		{"21-content-by-reference", "acknowledged", "executed", "SUCCEEDED", out, ""},
		{"22-content-has-changed", "acknowledged", "final", "FAILED_FINAL", "", "invalid_request"},
		{"23-draft-and-notification", "acknowledged", "executed", "SUCCEEDED", out, ""},
		{"24-notification-answer-lost", "acknowledged", "executed", "SUCCEEDED", out, ""},
		{"25-order", "acknowledged", "executed", "SUCCEEDED", out, ""},
		{"26-order-answer-lost", "acknowledged", "executed", "SUCCEEDED", out, ""},
		{"27-order-amount-changed", "acknowledged", "conflict", "SUCCEEDED", "", ""},
		{"28-announcement-answer-lost", "acknowledged", "outcome_unknown", "OUTCOME_UNKNOWN", "", "temporary_unavailable"},
		{"29-reimbursement", "acknowledged", "executed", "SUCCEEDED", out, ""},
	}
	if d := cmp.Diff(want, toldOf(first)); d != "" {
		t.Error(d)
	}
	if first.DeadLetters != 13 {
		t.Errorf("%d dead letters, want 12 in the table and 1 in the queue", first.DeadLetters)
	}
	targets, err := targettest.New(targettest.Options{Dir: state})
	if err != nil {
		t.Fatal(err)
	}
	if n, r, m := len(targets.Notifications()), len(targets.Records()), len(targets.RobotMessages()); n != 2 || r != 3 || m != 1 {
		t.Errorf("at the targets: %d notifications, %d records, %d robot messages; want 2, 3, 1", n, r, m)
	}
	targets.Close()
	if !strings.Contains(progress, "01-summary.json ... executed") {
		t.Errorf("no progress on stderr:\n%s", progress)
	}

	second, _ := deliverSamples(t, state, "../../events/samples")
	refs := map[string]string{}
	for _, d := range first.Deliveries {
		if d.Status == "SUCCEEDED" && d.ResultRef != "" {
			refs[d.Key] = d.ResultRef
		}
	}
	for _, d := range second.Deliveries {
		if want := refs[d.Key]; want != "" && d.Decision != "conflict" && (d.Decision != "duplicate" || d.ResultRef != want) {
			t.Errorf("%s: second run %s %s, want a duplicate of %s", d.File, d.Decision, d.ResultRef, want)
		}
	}
	// The one business that is still retryable may be tried again, and nothing else.
	if n := second.Calls.Model; n > 2 {
		t.Errorf("the second run called the model %d times", n)
	}

	third, _ := deliverSamples(t, state, "--fresh", "../../events/samples/01-summary.json")
	if third.Deliveries[0].Decision != "executed" || third.Calls.Model != 1 || len(third.Tasks) != 1 || third.DeadLetters != 0 {
		t.Errorf("--fresh did not start empty: %+v", third)
	}
}
