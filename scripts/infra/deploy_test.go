package infra

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/idempotency"
)

// deployment is s.yaml as it is written, before anything is filled in.
type deployment struct {
	Edition   string                        `yaml:"edition"`
	Access    string                        `yaml:"access"`
	Vars      map[string]string             `yaml:"vars"`
	Resources map[string]deploymentResource `yaml:"resources"`
}

type deploymentResource struct {
	Component string                         `yaml:"component"`
	Actions   map[string][]map[string]string `yaml:"actions"`
	Props     map[string]any                 `yaml:"props"`
}

func readDeployment(t *testing.T) (deployment, string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "s.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var d deployment
	if err := yaml.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	return d, string(raw)
}

var (
	reference   = regexp.MustCompile(`\$\{resources\.([a-z]+)\.([a-z]+)\.([A-Za-z]+)\}`)
	templatePth = regexp.MustCompile(`^\$\{path\('\./scripts/infra/([a-z]+\.yaml)'\)\}$`)
	// functionOutputs are those of the component fc3 that are used.
	functionOutputs = []string{"functionName"}
)

// faultsOfDeployment are what Serverless Devs would take without a word and carry
// out wrongly: a reference to nothing, one that makes no order, a parameter that
// no template has.
func faultsOfDeployment(d deployment, text string, templates map[string]template) []string {
	var faults []string
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	outputs := map[string][]string{}
	for name, r := range d.Resources {
		if r.Component == "fc3" {
			outputs[name] = functionOutputs
			continue
		}
		m := templatePth.FindStringSubmatch(fmt.Sprint(r.Props["template"]))
		if r.Component != "ros" || m == nil {
			say("%s: component %s with template %v", name, r.Component, r.Props["template"])
			continue
		}
		tpl := templates[m[1]]
		for output := range tpl.Outputs {
			outputs[name] = append(outputs[name], output)
		}
		given, _ := r.Props["parameters"].(map[string]any)
		for p := range given {
			if tpl.Parameters[p] == nil && !strings.Contains(tpl.Workspace["main.tf"], fmt.Sprintf("variable %q", p)) {
				say("%s: the template has no parameter %s", name, p)
			}
		}
		for p, spec := range tpl.Parameters {
			if given[p] == nil && spec["Default"] == nil {
				say("%s: parameter %s is not given", name, p)
			}
		}
	}
	for _, m := range reference.FindAllStringSubmatch(text, -1) {
		switch {
		case m[2] != "output":
			say("%s makes no order: take it from .output.", m[0])
		case !slices.Contains(outputs[m[1]], m[3]):
			say("%s: %s gives no %s", m[0], m[1], m[3])
		}
	}
	return faults
}

func allTemplates(t *testing.T) map[string]template {
	t.Helper()
	all := map[string]template{}
	for _, name := range templateFiles {
		all[name] = readTemplate(t, name)
	}
	return all
}

func TestEveryReferenceOfTheDeploymentIsGiven(t *testing.T) {
	d, text := readDeployment(t)
	for _, fault := range faultsOfDeployment(d, text, allTemplates(t)) {
		t.Error(fault)
	}
}

func TestTheReferenceCheckFindsWhatItIsFor(t *testing.T) {
	_, text := readDeployment(t)
	for _, c := range []struct{ old, new, want string }{
		{"${resources.stores.output.QueueName}", "${resources.stores.props.QueueName}", "makes no order"},
		{"${resources.stores.output.QueueName}", "${resources.stores.output.Queue}", "stores gives no Queue"},
		{"${resources.roles.output.FunctionRoleArn}", "${resources.role.output.FunctionRoleArn}", "role gives no FunctionRoleArn"},
		{"        QueueName: oncegate", "        DlqName: oncegate", "the template has no parameter DlqName"},
		{"        bus_name:", "        bus:", "the template has no parameter bus"},
		{"        FunctionName: ${vars.function}\n", "", "parameter FunctionName is not given"},
	} {
		changed := strings.Replace(text, c.old, c.new, 1)
		var d deployment
		if err := yaml.Unmarshal([]byte(changed), &d); err != nil {
			t.Fatal(err)
		}
		if faults := faultsOfDeployment(d, changed, allTemplates(t)); changed == text || !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, c.want) }) {
			t.Errorf("%s for %s: found %q, want %q", c.new, c.old, faults, c.want)
		}
	}
}

// triggerKeys are those of an fc3 eventbridge trigger with source MNS; the schema
// of fc3 lets any other pass. From docs/zh/yaml/triggers.md of devsapp/fc3.
var triggerKeys = map[string]any{
	"triggerEnable": nil, "asyncInvocationType": nil, "eventRuleFilterPattern": nil,
	"eventSourceConfig": map[string]any{
		"eventSourceType":       nil,
		"eventSourceParameters": map[string]any{"sourceMNSParameters": map[string]any{"RegionId": nil, "QueueName": nil, "IsBase64Decode": nil}},
	},
	"eventSinkConfig": map[string]any{"deliveryOption": map[string]any{"eventSchema": nil}},
	"runOptions": map[string]any{
		"mode": nil, "errorsTolerance": nil, "retryStrategy": map[string]any{"PushRetryStrategy": nil},
		"batchWindow": map[string]any{"CountBasedWindow": nil, "TimeBasedWindow": nil},
	},
}

func sameKeys(at string, want, got any) []string {
	w, isMap := want.(map[string]any)
	if !isMap {
		return nil
	}
	g, _ := got.(map[string]any)
	var out []string
	for key := range g {
		if _, ok := w[key]; !ok {
			out = append(out, at+"."+key+" is no key of the trigger")
		}
	}
	for key, inner := range w {
		if _, ok := g[key]; !ok {
			out = append(out, at+"."+key+" is missing")
			continue
		}
		out = append(out, sameKeys(at+"."+key, inner, g[key])...)
	}
	return out
}

// at walks into nested maps and lists.
func at(v any, path ...any) any {
	for _, step := range path {
		switch step := step.(type) {
		case string:
			m, _ := v.(map[string]any)
			v = m[step]
		case int:
			l, _ := v.([]any)
			if step >= len(l) {
				return nil
			}
			v = l[step]
		}
	}
	return v
}

func TestTheIntakeIsFedByAStreamThatDiscardsNothing(t *testing.T) {
	d, _ := readDeployment(t)
	config := at(d.Resources["intake"].Props, "triggers", 0, "triggerConfig")
	for _, fault := range sameKeys("triggerConfig", triggerKeys, config) {
		t.Error(fault)
	}
	for want, path := range map[any][]any{
		"MNS":                     {"eventSourceConfig", "eventSourceType"},
		"event-streaming":         {"runOptions", "mode"},
		"NONE":                    {"runOptions", "errorsTolerance"},
		"EXPONENTIAL_DECAY_RETRY": {"runOptions", "retryStrategy", "PushRetryStrategy"},
		"CloudEvents":             {"eventSinkConfig", "deliveryOption", "eventSchema"},
		"{}":                      {"eventRuleFilterPattern"},
		true:                      {"triggerEnable"},
	} {
		if got := at(config, path...); got != want {
			t.Errorf("%v is %v, want %v", path, got, want)
		}
	}
	// One letter takes two seconds at worst; a batch must end within the time-out.
	batch, _ := whole(at(config, "runOptions", "batchWindow", "CountBasedWindow"))
	limit, _ := whole(d.Resources["intake"].Props["timeout"])
	if batch < 1 || 2*batch > limit {
		t.Errorf("a batch of %d letters and a time-out of %d s", batch, limit)
	}
	if len(sameKeys("c", map[string]any{"a": nil}, map[string]any{"b": 1})) != 2 {
		t.Error("the check of keys finds nothing")
	}
}

func TestTimesAndSizesFitEachOther(t *testing.T) {
	d, _ := readDeployment(t)
	policy := idempotency.DefaultPolicy()
	queue := readTemplate(t, "stores.yaml").Resources["Queue"].Properties
	kept, _ := whole(queue["MessageRetentionPeriod"])
	hidden, _ := whole(queue["VisibilityTimeout"])
	for _, name := range []string{"tasks", "intake"} {
		props := d.Resources[name].Props
		seconds, _ := whole(props["timeout"])
		limit := time.Duration(seconds) * time.Second
		if limit <= 0 || limit > 300*time.Second {
			t.Errorf("%s: EventBridge ends an invocation after 300 s, the time-out is %s", name, limit)
		}
		if name == "intake" && time.Duration(hidden)*time.Second <= limit {
			t.Errorf("a message comes again after %d s, while the intake may still work on it", hidden)
		}
		if memory, _ := whole(props["memorySize"]); memory < 128 || memory%64 != 0 {
			t.Errorf("%s: memory %d", name, memory)
		}
		size := 0
		env, _ := props["environmentVariables"].(map[string]any)
		for key, value := range env {
			if strings.HasPrefix(key, "FC_") || !regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`).MatchString(key) {
				t.Errorf("%s: variable %s", name, key)
			}
			size += len(key) + max(len(fmt.Sprint(value)), 100) // what is filled in is longer
		}
		if size > 4096 {
			t.Errorf("%s: the variables may take %d bytes of 4096", name, size)
		}
		if props["runtime"] != "go1" || props["handler"] != "main" || props["code"] != "./target/function" || env["ONCEGATE_ROLE"] != map[string]string{"tasks": "task", "intake": "intake"}[name] {
			t.Errorf("%s: runtime %v, handler %v, code %v, role %v", name, props["runtime"], props["handler"], props["code"], env["ONCEGATE_ROLE"])
		}
		if run := d.Resources[name].Actions["success-deploy"]; len(run) != 1 || !strings.HasPrefix(run[0]["run"], "bash scripts/release.sh ${vars.") {
			t.Errorf("%s: no version is published: %v", name, run)
		}
	}
	// A day of EventBridge's retries, seven of Function Compute's, the queue's own
	// retention and the thirty in which a letter should be decided.
	if waits := 24*time.Hour + 7*24*time.Hour + time.Duration(kept)*time.Second + 30*24*time.Hour; policy.Retention < waits {
		t.Errorf("records are kept for %s, an event may come back after %s", policy.Retention, waits)
	}
	if n := len("og-") + 13; n > 16 {
		t.Errorf("a Tablestore instance has 16 characters at most, the longest environment makes %d", n)
	}
}

func TestATargetOfEffectsCanHaveAToken(t *testing.T) {
	d, _ := readDeployment(t)
	env, _ := d.Resources["tasks"].Props["environmentVariables"].(map[string]any)
	targets := 0
	for key := range env {
		prefix, isURL := strings.CutSuffix(key, "_URL")
		if !isURL || key == "ONCEGATE_MODEL_BASE_URL" {
			continue
		}
		targets++
		if token := prefix + "_TOKEN"; env[token] != fmt.Sprintf("${env('%s', '')}", token) {
			t.Errorf("%s is set, %s is %v", key, token, env[token])
		}
	}
	if targets != 3 {
		t.Errorf("%d targets", targets)
	}
}

func TestNoSecretIsInAFile(t *testing.T) {
	_, text := readDeployment(t)
	for _, name := range []string{"ONCEGATE_MODEL_API_KEY", "ONCEGATE_KEY_SECRET"} {
		for _, line := range strings.Split(text, "\n") {
			if trimmed := strings.TrimSpace(line); strings.HasPrefix(trimmed, name+":") && trimmed != fmt.Sprintf("%s: ${env('%s')}", name, name) {
				t.Errorf("%s must come from the environment and from nowhere else: %q", name, trimmed)
			}
		}
	}
}
