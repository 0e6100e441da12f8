package infra

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/oncegate/oncegate/internal/npmtest"
)

// account is what the tests deploy to: nothing leaves the machine.
const account = "1234567890123456"

// stub is a component that notes what it is given and answers as the real one
// would. It stands in for ros and fc3, which the command line downloads.
const stub = `const fs = require('fs');
module.exports = class {
  async deploy(inputs) {
    const name = inputs.resource.name;
    fs.appendFileSync(process.env.STUB_LOG, JSON.stringify({ name, props: inputs.props }) + '\n');
    return JSON.parse(process.env.STUB_OUTPUTS)[name] || {};
  }
};
`

// cli runs Serverless Devs' own command line on a copy of the deployment.
type cli struct {
	t    *testing.T
	s    string // the program
	dir  string
	envs []string
}

func newCLI(t *testing.T) *cli {
	t.Helper()
	modules := npmtest.Modules(t)
	dir := t.TempDir()
	copyFile(t, filepath.Join("..", "..", "s.yaml"), filepath.Join(dir, "s.yaml"))
	for _, name := range templateFiles {
		copyFile(t, name, filepath.Join(dir, "scripts", "infra", name))
	}
	return &cli{t, filepath.Join(modules, ".bin", "s"), dir, []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + filepath.Join(dir, "home"),
		"ONCEGATE_ENVIRONMENT=prod", "ONCEGATE_MODEL_NAME=qwen-plus",
		"ONCEGATE_MODEL_API_KEY=a-model-key-that-only-tests-use", "ONCEGATE_KEY_SECRET=a-key-secret-that-only-tests-use-0001",
	}}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	raw, err := os.ReadFile(from)
	if err == nil {
		if err = os.MkdirAll(filepath.Dir(to), 0o755); err == nil {
			err = os.WriteFile(to, raw, 0o644)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
}

func (c *cli) run(args ...string) []byte {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.s, args...)
	cmd.Dir, cmd.Env = c.dir, c.envs
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		c.t.Fatalf("s %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return out
}

type previewed struct {
	Resources map[string]struct {
		Component string
		Props     map[string]any
	}
}

func (c *cli) preview() previewed {
	c.t.Helper()
	var p previewed
	if out := c.run("preview", "-o", "json", "--silent"); json.Unmarshal(out, &p) != nil {
		c.t.Fatalf("no JSON: %s", out)
	}
	return p
}

func TestServerlessDevsReadsTheDeployment(t *testing.T) {
	p := newCLI(t).preview()
	if n := len(p.Resources); n != 6 {
		t.Errorf("%d resources", n)
	}
	for resource, want := range map[string]string{"tasks": "oncegate-tasks", "intake": "oncegate-intake"} {
		if got := p.Resources[resource].Props["functionName"]; got != want {
			t.Errorf("%s is function %v", resource, got)
		}
	}
	if got := at(p.Resources["tasks"].Props, "environmentVariables", "ONCEGATE_ENVIRONMENT"); got != "prod" {
		t.Errorf("environment %v", got)
	}
	if got, _ := p.Resources["stores"].Props["template"].(string); !filepath.IsAbs(got) {
		t.Errorf("template %q is looked for in the current folder", got)
	}
}

func TestServerlessDevsReadsTheAlarms(t *testing.T) {
	c := newCLI(t)
	for _, name := range []string{"s.yaml", "queue.yaml"} {
		copyFile(t, filepath.Join("..", "alarms", name), filepath.Join(c.dir, "scripts", "alarms", name))
	}
	c.envs = append(c.envs, "ONCEGATE_ALARM_CONTACT_GROUP=people on call")
	var p previewed
	if out := c.run("preview", "-t", "scripts/alarms/s.yaml", "-o", "json", "--silent"); json.Unmarshal(out, &p) != nil {
		t.Fatalf("no JSON: %s", out)
	}
	props := p.Resources["alarms"].Props
	if got := at(props, "parameters", "ContactGroup"); got != "people on call" {
		t.Errorf("told is %v", got)
	}
	if file, _ := props["template"].(string); file == "" || !filepath.IsAbs(file) {
		t.Errorf("template %q", file)
	} else if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

// TestFunctionsAreWhatTheComponentTakes needs the JSON Schema of devsapp/fc3
// (src/schema.json there), which is not ours to ship.
func TestFunctionsAreWhatTheComponentTakes(t *testing.T) {
	file := os.Getenv("ONCEGATE_FC3_SCHEMA")
	if file == "" {
		t.Skip("ONCEGATE_FC3_SCHEMA names no schema of the component fc3")
	}
	schema, err := jsonschema.NewCompiler().Compile(file)
	if err != nil {
		t.Fatal(err)
	}
	for name, r := range newCLI(t).preview().Resources {
		if r.Component != "fc3" {
			continue
		}
		if err := schema.Validate(map[string]any(r.Props)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		r.Props["runtime"] = "go2"
		if bad := new(jsonschema.ValidationError); !errors.As(schema.Validate(map[string]any(r.Props)), &bad) {
			t.Errorf("%s: the schema takes runtime go2", name)
		}
	}
}

func TestEachResourceIsDeployedAfterWhatItUses(t *testing.T) {
	c := newCLI(t)
	outputs := map[string]map[string]string{
		"stores": {
			"InstanceName": "instance-of-stores", "BucketName": "bucket-of-stores", "TablestoreEndpoint": "https://ots.of.stores",
			"OssEndpoint": "https://oss.of.stores", "QueueName": "queue-of-stores", "QueueArn": "acs:mns:r:1:/queues/queue-of-stores",
		},
		"roles":  {"FunctionRoleArn": "acs:ram::1:role/function", "IntakeRoleArn": "acs:ram::1:role/intake"},
		"bus":    {"BusName": "bus-of-bus"},
		"tasks":  {"functionName": "function-of-tasks"},
		"intake": {"functionName": "function-of-intake"},
	}
	answers, err := json.Marshal(outputs)
	if err != nil {
		t.Fatal(err)
	}
	component, log := filepath.Join(c.dir, "stub"), filepath.Join(c.dir, "deployed.jsonl")
	if err := errors.Join(os.MkdirAll(component, 0o755), os.WriteFile(filepath.Join(component, "index.js"), []byte(stub), 0o644)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(c.dir, "s.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	hooks := filepath.Join(c.dir, "hooks")
	changed := strings.NewReplacer("component: ros", "component: "+component, "component: fc3", "component: "+component,
		"run: bash scripts/", "run: echo >>"+hooks+" ").Replace(string(text))
	if err := os.WriteFile(file, []byte(changed), 0o644); err != nil {
		t.Fatal(err)
	}
	c.envs = append(c.envs, "STUB_LOG="+log, "STUB_OUTPUTS="+string(answers),
		`test_serverless_devs_key={"AccountID":"`+account+`","AccessKeyID":"access-key-id-of-a-test","AccessKeySecret":"access-key-secret-of-a-test"}`)
	c.run("deploy", "-y", "-a", "test_serverless_devs_key")

	raw, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	given := map[string]map[string]any{}
	for sc := bufio.NewScanner(bytes.NewReader(raw)); sc.Scan(); {
		var one struct {
			Name  string
			Props map[string]any
		}
		if err := json.Unmarshal(sc.Bytes(), &one); err != nil {
			t.Fatal(err)
		}
		order, given[one.Name] = append(order, one.Name), one.Props
	}
	for _, pair := range [][2]string{{"stores", "roles"}, {"roles", "tasks"}, {"roles", "intake"}, {"bus", "routing"}, {"tasks", "routing"}, {"intake", "routing"}} {
		if before, after := slices.Index(order, pair[0]), slices.Index(order, pair[1]); before < 0 || after < before {
			t.Errorf("%s is deployed before %s: %v", pair[1], pair[0], order)
		}
	}
	for _, c := range []struct {
		resource string
		path     []any
		want     string
	}{
		{"stores", []any{"parameters", "BucketName"}, "oncegate-prod-" + account},
		{"roles", []any{"parameters", "InstanceName"}, "instance-of-stores"},
		{"tasks", []any{"role"}, "acs:ram::1:role/function"},
		{"tasks", []any{"environmentVariables", "ONCEGATE_OSS_ENDPOINT"}, "https://oss.of.stores"},
		{"intake", []any{"role"}, "acs:ram::1:role/intake"},
		{"intake", []any{"triggers", 0, "triggerConfig", "eventSourceConfig", "eventSourceParameters", "sourceMNSParameters", "QueueName"}, "queue-of-stores"},
		{"routing", []any{"parameters", "BusName"}, "bus-of-bus"},
		{"routing", []any{"parameters", "FunctionName"}, "function-of-tasks"},
		{"routing", []any{"parameters", "QueueArn"}, "acs:mns:r:1:/queues/queue-of-stores"},
	} {
		if got := at(given[c.resource], c.path...); got != c.want {
			t.Errorf("%s %v is %v, want %s", c.resource, c.path, got, c.want)
		}
	}
	ran, err := os.ReadFile(hooks)
	if err != nil {
		t.Fatal(err)
	}
	if want := "build.sh\nrelease.sh oncegate-tasks cn-hangzhou\nbuild.sh\nrelease.sh oncegate-intake cn-hangzhou\n"; string(ran) != want {
		t.Errorf("hooks ran:\n%swant\n%s", ran, want)
	}
}
