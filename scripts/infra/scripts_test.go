package infra

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// shell runs one of the scripts with stand-ins for s and go on the PATH, which
// note how they were called.
func shell(t *testing.T, stdin string, env []string, script string, args ...string) (code int, said, calls string) {
	t.Helper()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("the scripts need bash")
	}
	bin, log := t.TempDir(), filepath.Join(t.TempDir(), "calls")
	for _, name := range []string{"s", "go"} {
		text := "#!" + bash + "\necho " + name + ` "$@" >>"$CALLS"` + "\n" + `case "$*" in *"$FAILS"*) exit "${FAILS_WITH:-1}" ;; esac` + "\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), bash, append([]string{filepath.Join("..", script)}, args...)...)
	cmd.Env = append([]string{"PATH=" + bin + ":/usr/bin:/bin", "CALLS=" + log, "FAILS=no such argument"}, env...)
	cmd.Stdin = strings.NewReader(stdin)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(log)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), string(raw)
}

var complete = []string{"ONCEGATE_ENVIRONMENT=prod", "ONCEGATE_MODEL_NAME=m", "ONCEGATE_MODEL_API_KEY=k", "ONCEGATE_KEY_SECRET=0123456789abcdef0123456789abcdef"}

func TestDeployNamesAllThatIsMissingBeforeItDoesAnything(t *testing.T) {
	code, said, calls := shell(t, "", []string{"ONCEGATE_ENVIRONMENT=Prod_1", "ONCEGATE_KEY_SECRET=short"}, "deploy.sh")
	if code != 2 || calls != "" {
		t.Errorf("exit code %d, calls %q", code, calls)
	}
	for _, want := range []string{"ONCEGATE_MODEL_NAME", "ONCEGATE_MODEL_API_KEY", "2 to 13 of a-z", "at least 32 characters"} {
		if !strings.Contains(said, want) {
			t.Errorf("%q is not said:\n%s", want, said)
		}
	}
	if strings.Contains(said, "short") {
		t.Errorf("the secret is said: %s", said)
	}
}

func TestTheBusOfCloudServicesIsNoEnvironment(t *testing.T) {
	env := append([]string{"ONCEGATE_ENVIRONMENT=default"}, complete[1:]...)
	if code, said, calls := shell(t, "", env, "deploy.sh"); code != 2 || calls != "" || !strings.Contains(said, "cannot be default") {
		t.Errorf("exit code %d, calls %q\n%s", code, calls, said)
	}
}

func TestDeployBringsUpAndThenLooks(t *testing.T) {
	keys := append([]string{"ALIBABA_CLOUD_ACCESS_KEY_ID=id", "ALIBABA_CLOUD_ACCESS_KEY_SECRET=secret", "ONCEGATE_ACCOUNT=1"}, complete...)
	code, said, calls := shell(t, "", keys, "deploy.sh", "-a", "work")
	if want := "s deploy -y -a work\ngo run ./cmd/oncegate setup --target cloud\ngo run ./cmd/oncegate doctor --target cloud\n"; code != 0 || calls != want {
		t.Errorf("exit code %d, calls\n%s%s", code, calls, said)
	}
	code, _, calls = shell(t, "", append([]string{"ONCEGATE_ALARM_CONTACT_GROUP=ops"}, keys...), "deploy.sh")
	if code != 0 || !strings.HasPrefix(calls, "s deploy -y -a default\ns deploy -t scripts/alarms/s.yaml -y -a default\ngo run") {
		t.Errorf("with somebody to tell: exit code %d, calls\n%s", code, calls)
	}
	code, _, calls = shell(t, "", append([]string{"FAILS=doctor"}, keys...), "deploy.sh")
	if code != 1 || !strings.Contains(calls, "doctor") {
		t.Errorf("a doctor that fails: exit code %d, calls\n%s", code, calls)
	}
	code, _, calls = shell(t, "", append([]string{"FAILS=deploy"}, keys...), "deploy.sh")
	if code != 1 || strings.Contains(calls, "setup") {
		t.Errorf("a deployment that fails: exit code %d, calls\n%s", code, calls)
	}
	if code, said, _ := shell(t, "", complete, "deploy.sh"); code != 0 || !strings.Contains(said, "oncegate doctor --target cloud") {
		t.Errorf("without keys: exit code %d\n%s", code, said)
	}
}

func TestTeardownRemovesNoDataAndNothingUnasked(t *testing.T) {
	for name, c := range map[string]struct {
		stdin string
		args  []string
		code  int
	}{
		"no environment":      {"prod\n", nil, 2},
		"another environment": {"prod\n", []string{"--environment", "test"}, 2},
		"not typed":           {"", []string{"--environment", "prod"}, 3},
		"typed wrong":         {"yes\n", []string{"--environment", "prod"}, 3},
		"an unknown option":   {"prod\n", []string{"--environment", "prod", "--delete-data"}, 2},
	} {
		if code, said, calls := shell(t, c.stdin, complete, "teardown.sh", c.args...); code != c.code || calls != "" {
			t.Errorf("%s: exit code %d, calls %q\n%s", name, code, calls, said)
		}
	}
	code, said, calls := shell(t, "prod\n", complete, "teardown.sh", "--environment", "prod")
	if want := "s routing remove -y -a default\ns intake remove -y -a default\ns tasks remove -y -a default\ns bus remove -y -a default\ns roles remove -y -a default\n"; code != 0 || calls != want {
		t.Errorf("exit code %d, calls\n%s", code, calls)
	}
	if _, _, calls := shell(t, "prod\n", append([]string{"ONCEGATE_ALARM_CONTACT_GROUP=ops"}, complete...), "teardown.sh", "--environment", "prod"); !strings.HasPrefix(calls, "s remove -t scripts/alarms/s.yaml -y -a default\ns routing remove") {
		t.Errorf("alarms that were made: calls\n%s", calls)
	}
	if !strings.Contains(said, "does NOT delete: Tablestore instance og-prod") {
		t.Errorf("what stays is not said:\n%s", said)
	}
	if code, _, calls := shell(t, "prod\n", append([]string{"FAILS=intake"}, complete...), "teardown.sh", "--environment", "prod"); code == 0 || strings.Contains(calls, "tasks") {
		t.Errorf("a step that fails: exit code %d, calls\n%s", code, calls)
	}
}

func TestAReleasePublishesAVersionAndMovesTheAlias(t *testing.T) {
	code, _, calls := shell(t, "", []string{"ONCEGATE_ACCESS=work"}, "release.sh", "oncegate-tasks", "cn-hangzhou")
	want := "s cli fc3 version publish --region cn-hangzhou --function-name oncegate-tasks --description oncegate deploy -a work\n" +
		"s cli fc3 alias publish --region cn-hangzhou --function-name oncegate-tasks --alias-name live --version-id latest -a work\n"
	if code != 0 || calls != want {
		t.Errorf("exit code %d, calls\n%s", code, calls)
	}
	if code, _, calls := shell(t, "", []string{"FAILS=version publish"}, "release.sh", "f", "r"); code == 0 || strings.Contains(calls, "alias") {
		t.Errorf("the alias moves though no version was published: %d\n%s", code, calls)
	}
	if code, _, _ := shell(t, "", nil, "release.sh", "f"); code != 2 {
		t.Errorf("without a region: exit code %d", code)
	}
}

func TestSamplesThatNoBusTakesAreNamed(t *testing.T) {
	env := []string{"ONCEGATE_EVENTBRIDGE_ENDPOINT=https://bus", "FAILS=11-malformed", "FAILS_WITH=2"}
	code, said, calls := shell(t, "", env, "replay-samples.sh")
	if code != 0 || !strings.Contains(said, "no bus takes them: events/samples/11-malformed.json\n") || !strings.Contains(calls, "events/samples/29-") {
		t.Errorf("exit code %d\n%s", code, said)
	}
	if code, _, _ := shell(t, "", append(env, "FAILS_WITH=3"), "replay-samples.sh"); code != 3 {
		t.Errorf("a refused right: exit code %d", code)
	}
	if code, _, calls := shell(t, "", nil, "replay-samples.sh"); code != 2 || calls != "" {
		t.Errorf("without an endpoint: exit code %d, calls %q", code, calls)
	}
}

func TestShellcheckFindsNothing(t *testing.T) {
	program, err := exec.LookPath("shellcheck")
	if err != nil {
		t.Skip("shellcheck is not installed")
	}
	scripts, err := filepath.Glob(filepath.Join("..", "*.sh"))
	if err != nil || len(scripts) < 6 {
		t.Fatalf("%d scripts, %v", len(scripts), err)
	}
	if said, err := exec.CommandContext(t.Context(), program, append(scripts, filepath.Join("..", "..", ".ci", "run"))...).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}
