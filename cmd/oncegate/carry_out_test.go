package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/scripts/ram"
)

// servedCloud is a local cloud that another process serves over sockets until the
// test ends: to commands it is as any cloud is.
func servedCloud(t testing.TB, state string) upReport {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	up := exec.Command(exe, "local", "up", "--output", "json", "--function", functionBinary, "--state-dir", state)
	up.Env = append(os.Environ(), asCommand+"=1", localIdentityVariable+"=")
	stdout, err := up.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = up.Process.Signal(syscall.SIGTERM)
		_ = up.Wait()
	})
	var at upReport
	if err := json.NewDecoder(stdout).Decode(&at); err != nil {
		t.Fatal(err)
	}
	return at
}

// cloudOf is the environment of a command that works on a served cloud as a role.
func cloudOf(at upReport, role ram.Role) map[string]string {
	k := at.Roles[string(role)]
	return map[string]string{
		"ONCEGATE_ENVIRONMENT": localEnvironment, "ONCEGATE_TABLESTORE_ENDPOINT": at.Tablestore.Endpoint, "ONCEGATE_TABLESTORE_INSTANCE": at.Tablestore.Instance,
		"ONCEGATE_OSS_ENDPOINT": at.OSS.Endpoint, "ONCEGATE_OSS_BUCKET": at.OSS.Bucket, "ONCEGATE_STS_ENDPOINT": at.STS.Endpoint,
		"ONCEGATE_FC_ENDPOINT": at.FC.Endpoint, "ONCEGATE_FUNCTION": at.FC.Function,
		"ALIBABA_CLOUD_ACCESS_KEY_ID": k.AccessKeyID, "ALIBABA_CLOUD_ACCESS_KEY_SECRET": k.AccessKeySecret, "ALIBABA_CLOUD_SECURITY_TOKEN": k.SecurityToken,
	}
}

// commandIn runs a command in an environment.
func commandIn(env map[string]string, args ...string) (code int, stdout, stderr string) {
	var out, errOut bytes.Buffer
	code = run(args, strings.NewReader(""), &out, &errOut, func(name string) string { return env[name] })
	return code, out.String(), errOut.String()
}

// shownAnswer is what review resolve and review carry-out print as JSON.
type shownAnswer struct {
	SchemaVersion int                    `json:"schema_version"`
	ID            string                 `json:"id"`
	Resolution    idempotency.Resolution `json:"resolution"`
	Reviewer      string                 `json:"reviewer"`
	Key           string                 `json:"idempotency_key"`
	CarriedOut    bool                   `json:"carried_out"`
	Status        idempotency.Status     `json:"status"`
}

func answerIn(t *testing.T, out string) (a shownAnswer) {
	t.Helper()
	dec := json.NewDecoder(strings.NewReader(out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&a); err != nil || len(a.ID) != 64 || a.SchemaVersion != 1 {
		t.Fatalf("%v: %s", err, out)
	}
	return a
}

func TestAnswersOnTheCloudAreCarriedOutByWhoMayCallTheFunction(t *testing.T) {
	state := t.TempDir()
	deliverSamples(t, state, "../../events/samples/28-announcement-answer-lost.json")
	at := servedCloud(t, state)
	resolve := []string{"review", "resolve", "f64f", "--as", "confirmed_not_done", "--reason", "not there", "--output", "json"}
	carryOut := []string{"review", "carry-out", "f64f", "--output", "json"}
	status := func(want idempotency.Status) {
		t.Helper()
		if _, list, said := commandIn(cloudOf(at, ram.Reviewer), "task", "list", "--output", "json"); !strings.Contains(list, `"`+string(want)+`"`) {
			t.Fatalf("the task is not %s: %s%s", want, list, said)
		}
	}

	// Where the function cannot be named nothing is stored.
	nowhere := cloudOf(at, ram.Reviewer)
	delete(nowhere, "ONCEGATE_FC_ENDPOINT")
	if code, _, said := commandIn(nowhere, resolve...); code != exitFailed || !strings.Contains(said, "ONCEGATE_FC_ENDPOINT") {
		t.Fatalf("exit code %d: %s", code, said)
	}
	// Nor by somebody whom the cloud does not know.
	stranger := cloudOf(at, ram.Reviewer)
	stranger["ONCEGATE_STS_ENDPOINT"] = "http://127.0.0.1:1"
	if code, _, said := commandIn(stranger, resolve...); code != exitRefused || !strings.Contains(said, "find out who you are") {
		t.Fatalf("exit code %d: %s", code, said)
	}
	if code, _, said := commandIn(cloudOf(at, ram.Operator), carryOut...); code != exitRefused || !strings.Contains(said, "is open") {
		t.Fatalf("exit code %d: %s", code, said)
	}

	code, out, said := commandIn(cloudOf(at, ram.Reviewer), resolve...)
	if code != exitRefused || !strings.Contains(said, "missing right: fc:InvokeFunction") || !strings.Contains(said, "these roles have it: replayer, operator") ||
		!strings.Contains(said, "oncegate review carry-out f64f963d1d94") || !strings.Contains(said, "you act as oncegate-reviewer/") {
		t.Fatalf("exit code %d: %s", code, said)
	}
	if a := answerIn(t, out); a.CarriedOut || a.Status != "" || a.Resolution != idempotency.ResolvedNotDone || !strings.HasPrefix(a.Reviewer, "oncegate-reviewer/") {
		t.Errorf("got %+v", a)
	}
	status(idempotency.StatusOutcomeUnknown) // the command itself writes no task
	if code, _, said := commandIn(cloudOf(at, ram.Approver), carryOut...); code != exitRefused || !strings.Contains(said, "missing right: fc:InvokeFunction") {
		t.Errorf("exit code %d: %s", code, said)
	}

	// Again and again, as the call may be repeated.
	for range 2 {
		code, out, said := commandIn(cloudOf(at, ram.Replayer), carryOut...)
		if a := answerIn(t, out); code != 0 || !a.CarriedOut || a.Status != idempotency.StatusFailedRetryable || !strings.HasPrefix(a.Reviewer, "oncegate-reviewer/") {
			t.Fatalf("exit code %d: %+v %s", code, a, said)
		}
	}
	status(idempotency.StatusFailedRetryable)
	// The same answer by somebody who may call is the same answer.
	code, out, said = commandIn(cloudOf(at, ram.Operator), resolve...)
	if a := answerIn(t, out); code != 0 || !a.CarriedOut || !strings.HasPrefix(a.Reviewer, "oncegate-reviewer/") {
		t.Errorf("exit code %d: %+v %s", code, a, said)
	}
}

func TestWhatIsLeftToDoFollowsFromWhyNothingWasCarriedOut(t *testing.T) {
	r := idempotency.Review{ID: strings.Repeat("ab", 32), Resolution: idempotency.ResolvedKeepOld}
	useNew := r
	useNew.Resolution = idempotency.ResolvedUseNew
	denied := &deadletter.CallError{Reason: "denied", Denied: true, Err: &aliyun.Error{Service: "fc", Kind: aliyun.KindDenied}}
	for name, c := range map[string]struct {
		err  error
		code int
		says []string
		not  string
	}{
		"denied":              {notCarriedOut(r, nil, denied), exitRefused, []string{"review carry-out abababababab does it under such a role", "next delivery"}, "asks again"},
		"denied, use_new":     {notCarriedOut(useNew, nil, denied), exitRefused, []string{"review carry-out abababababab does it under such a role"}, "next delivery"},
		"throttled":           {notCarriedOut(r, nil, &deadletter.CallError{Reason: "throttled", Throttled: true}), 0, []string{"throttled", "asks again"}, "such a role"},
		"nobody knows":        {notCarriedOut(r, nil, &aliyun.Error{Service: "fc", Kind: aliyun.KindUnknown}), 0, []string{"outcome_unknown", "asks again"}, "such a role"},
		"the function failed": {notCarriedOut(r, []byte(`{"errorType":"in_progress"}`), nil), 0, []string{"(in_progress)", "asks again"}, "such a role"},
		"by no JSON":          {notCarriedOut(r, []byte(`x`), nil), 0, []string{"could not carry it out yet ()"}, "such a role"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.code != 0 {
				wantExit(t, c.err, c.code, c.says...)
			}
			for _, says := range c.says {
				if !strings.Contains(c.err.Error(), says) || strings.Contains(c.err.Error(), c.not) {
					t.Errorf("said %v", c.err)
				}
			}
		})
	}
}
