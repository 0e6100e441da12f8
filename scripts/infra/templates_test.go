package infra

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
	"github.com/oncegate/oncegate/scripts/ram"
)

var update = flag.Bool("update", false, "write roles.yaml anew")

// template is a ROS template with the sections that are used; another one does not parse.
type template struct {
	Version     string                      `yaml:"ROSTemplateFormatVersion"`
	Description string                      `yaml:"Description"`
	Transform   string                      `yaml:"Transform"`
	Parameters  map[string]map[string]any   `yaml:"Parameters"`
	Workspace   map[string]string           `yaml:"Workspace"`
	Resources   map[string]templateResource `yaml:"Resources"`
	Outputs     map[string]map[string]any   `yaml:"Outputs"`
}

type templateResource struct {
	Type           string         `yaml:"Type"`
	DeletionPolicy string         `yaml:"DeletionPolicy"`
	Properties     map[string]any `yaml:"Properties"`
}

// alarmTemplate is deployed apart: it wants a contact group that nobody else makes.
const alarmTemplate = "../alarms/queue.yaml"

var templateFiles = []string{"stores.yaml", "roles.yaml", "bus.yaml", "routing.yaml"}

func readTemplate(t *testing.T, name string) template {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return parseTemplate(t, raw)
}

func parseTemplate(t *testing.T, raw []byte) template {
	t.Helper()
	var tpl template
	if err := yaml.UnmarshalWithOptions(raw, &tpl, yaml.Strict()); err != nil {
		t.Fatal(err)
	}
	return tpl
}

// property is what ROS says of one property of a type; see
// https://www.alibabacloud.com/help/en/ros/developer-reference and the generated
// packages @alicloud/ros-cdk-*.
type property struct {
	required bool
	is       func(any) bool // nil for anything
}

func oneOf(values ...any) func(any) bool {
	return func(v any) bool { return slices.Contains(values, v) }
}

func matching(pattern string) func(any) bool {
	re := regexp.MustCompile(pattern)
	return func(v any) bool { s, ok := v.(string); return !ok || re.MatchString(s) }
}

func between(low, high int) func(any) bool {
	return func(v any) bool { n, err := whole(v); return err == nil && n >= low && n <= high }
}

func whole(v any) (int, error) {
	var n int
	_, err := fmt.Sscanf(fmt.Sprint(v), "%d", &n)
	return n, err
}

var must, may = property{required: true}, property{}

var rosTypes = map[string]struct {
	properties map[string]property
	attributes []string
}{
	"ALIYUN::OTS::Instance": {
		map[string]property{"InstanceName": must, "ClusterType": {is: oneOf("SSD", "HYBRID")}, "Network": {is: oneOf("NORMAL", "VPC", "VPC_CONSOLE")}, "Description": may, "Tags": may},
		[]string{"InstanceName", "PublicEndpoint", "PrivateEndpoint", "VpcEndpoint"},
	},
	"ALIYUN::OTS::Table": {
		map[string]property{
			"InstanceName": must, "TableName": {true, matching(`^[_a-zA-Z][_a-zA-Z0-9]{0,254}$`)}, "PrimaryKey": must, "Columns": may,
			"TimeToLive": {is: oneOf(uint64(1), int64(-1))}, "MaxVersions": {is: between(1, 1<<31-1)}, "DeviationCellVersionInSec": may, "ReservedThroughput": may, "SecondaryIndices": may,
		},
		[]string{"TableName"},
	},
	"ALIYUN::OSS::Bucket": {
		map[string]property{
			"BucketName": must, "AccessControl": {is: oneOf("private", "public-read", "public-read-write")}, "StorageClass": may, "RedundancyType": {is: oneOf("LRS", "ZRS")},
			"VersioningConfiguration": may, "ServerSideEncryptionConfiguration": may, "LifecycleConfiguration": may, "CORSConfiguration": may, "LoggingConfiguration": may,
			"RefererConfiguration": may, "WebsiteConfigurationV2": may, "Policy": may, "Tags": may, "ResourceGroupId": may, "BlockPublicAccess": {is: oneOf(true, false)},
			"EnableOssHdfsService": may, "DeletionForce": {is: oneOf(false)},
		},
		[]string{"Name", "Arn", "DomainName", "InternalDomainName"},
	},
	"ALIYUN::MNS::Queue": {
		map[string]property{
			"QueueName": must, "DelaySeconds": {is: between(0, 604800)}, "MaximumMessageSize": {is: between(1024, 65536)}, "MessageRetentionPeriod": {is: between(60, 604800)},
			"VisibilityTimeout": {is: between(1, 43200)}, "PollingWaitSeconds": {is: between(0, 10)}, "LoggingEnabled": may, "DlqPolicy": may, "Tags": may,
		},
		[]string{"QueueName", "QueueUrl", "ARN.WithSlash"},
	},
	"ALIYUN::EventBridge::Rule": {
		map[string]property{
			"EventBusName": must, "RuleName": {true, matching(`^[a-zA-Z0-9][-a-zA-Z0-9]{0,126}$`)}, "FilterPattern": must, "Targets": must,
			"Status": {is: oneOf("ENABLE", "DISABLE")}, "Description": may,
		},
		[]string{"RuleARN", "RuleName", "EventBusName"},
	},
	"ALIYUN::CMS::ResourceMetricRule": {
		map[string]property{
			"RuleName": may, "RuleId": may, "Namespace": must, "MetricName": must, "Resources": must, "ContactGroups": must, "Escalations": must,
			"Period": {is: between(60, 3600)}, "Interval": {is: between(60, 3600)}, "SilenceTime": {is: between(300, 86400)}, "Labels": may,
			"NoDataPolicy": {is: oneOf("KEEP_LAST_STATE", "INSUFFICIENT_DATA", "OK")}, "EffectiveInterval": may, "NoEffectiveInterval": may,
			"EmailSubject": may, "Webhook": may, "DeletionForce": {is: oneOf(false)},
		},
		[]string{"RuleId", "RuleName"},
	},
	"ALIYUN::RAM::Role": {
		map[string]property{
			"RoleName": must, "AssumeRolePolicyDocument": must, "Description": may, "MaxSessionDuration": {is: between(3600, 43200)}, "Policies": may,
			"PolicyAttachments": may, "DeletionForce": may, "IgnoreExisting": may, "Tags": may,
		},
		[]string{"Arn", "RoleId", "RoleName"},
	},
}

// targetProperties are those of a rule's target.
var targetProperties = map[string]property{
	"Id": must, "Type": {true, oneOf("acs.fc.function")}, "Endpoint": must, "ParamList": must,
	"PushRetryStrategy": {is: oneOf("BACKOFF_RETRY", "EXPONENTIAL_DECAY_RETRY")}, "DeadLetterQueue": may, "ErrorsTolerance": {is: oneOf("ALL", "NONE")}, "ConcurrentConfig": may,
}

// escalationProperties are those of one level of an alarm. The threshold is a text.
var escalationProperties = map[string]property{
	"ComparisonOperator": {true, oneOf("GreaterThanThreshold", "GreaterThanOrEqualToThreshold", "LessThanThreshold", "LessThanOrEqualToThreshold", "NotEqualToThreshold")},
	"Statistics":         {true, oneOf("Availability", "Average", "Maximum", "Minimum")},
	"Threshold":          {true, func(v any) bool { _, ok := v.(string); return ok }},
	"Times":              {true, between(1, 12*24)},
}

var pseudo = []string{"ALIYUN::Region", "ALIYUN::TenantId", "ALIYUN::StackName", "ALIYUN::StackId"}

var filled = regexp.MustCompile(`\$\{([^}!]+)\}`)

// faultsOf are what ROS would refuse in a template, or take and mean otherwise.
func faultsOf(tpl template) []string {
	var faults []string
	say := func(format string, args ...any) { faults = append(faults, fmt.Sprintf(format, args...)) }
	if tpl.Version != "2015-09-01" {
		say("ROSTemplateFormatVersion is %q", tpl.Version)
	}
	if tpl.Transform != "" {
		if !regexp.MustCompile(`^Aliyun::Terraform-v1\.[0-9]$`).MatchString(tpl.Transform) || len(tpl.Workspace) == 0 {
			say("transform %q with %d files", tpl.Transform, len(tpl.Workspace))
		}
		for name := range tpl.Outputs {
			if !strings.Contains(strings.Join(slices.Collect(mapsValues(tpl.Workspace)), "\n"), fmt.Sprintf("output %q", name)) {
				say("output %s: Terraform has none of that name", name)
			}
		}
		return faults
	}
	var walk func(at string, v any)
	walk = func(at string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, inner := range v {
				switch key {
				case "Ref":
					name := fmt.Sprint(inner)
					if tpl.Parameters[name] == nil && tpl.Resources[name].Type == "" && !slices.Contains(pseudo, name) {
						say("%s: Ref to %s, which there is not", at, name)
					}
				case "Fn::GetAtt":
					pair, _ := inner.([]any)
					if len(pair) != 2 {
						say("%s: GetAtt takes a resource and an attribute", at)
						continue
					}
					r := tpl.Resources[fmt.Sprint(pair[0])]
					if !slices.Contains(rosTypes[r.Type].attributes, fmt.Sprint(pair[1])) {
						say("%s: %v has no attribute %v", at, pair[0], pair[1])
					}
				case "Fn::Sub":
					for _, m := range filled.FindAllStringSubmatch(fmt.Sprint(inner), -1) {
						if tpl.Parameters[m[1]] == nil && !slices.Contains(pseudo, m[1]) {
							say("%s: Sub of %s, which there is not", at, m[1])
						}
					}
				default:
					walk(at+"."+key, inner)
				}
			}
		case []any:
			for i, inner := range v {
				walk(fmt.Sprintf("%s[%d]", at, i), inner)
			}
		case string:
			if filled.MatchString(v) {
				say("%s: %q is filled in by nobody: it needs Fn::Sub", at, v)
			}
		}
	}
	check := func(at string, known map[string]property, has map[string]any) {
		for name, p := range known {
			v, ok := has[name]
			if p.required && !ok {
				say("%s: %s is required", at, name)
			}
			if ok && p.is != nil && !p.is(v) {
				say("%s: %s cannot be %v", at, name, v)
			}
		}
		for name := range has {
			if _, ok := known[name]; !ok {
				say("%s: there is no property %s", at, name)
			}
		}
	}
	for name, r := range tpl.Resources {
		known, ok := rosTypes[r.Type]
		if !ok {
			say("%s: type %s is not known here", name, r.Type)
			continue
		}
		check(name, known.properties, r.Properties)
		walk(name, map[string]any(r.Properties))
		if r.Type == "ALIYUN::CMS::ResourceMetricRule" {
			levels, _ := r.Properties["Escalations"].(map[string]any)
			if len(levels) == 0 {
				say("%s: no level", name)
			}
			for level, one := range levels {
				if !slices.Contains([]string{"Critical", "Warn", "Info"}, level) {
					say("%s: there is no level %s", name, level)
				}
				properties, _ := one.(map[string]any)
				check(name+" "+level, escalationProperties, properties)
			}
		}
		if r.Type == "ALIYUN::EventBridge::Rule" {
			targets, _ := r.Properties["Targets"].([]any)
			if n := len(targets); n < 1 || n > 5 {
				say("%s: %d targets", name, n)
			}
			for _, one := range targets {
				target, _ := one.(map[string]any)
				check(name+" target", targetProperties, target)
				params, _ := target["ParamList"].([]any)
				for _, p := range params {
					param, _ := p.(map[string]any)
					check(name+" parameter", map[string]property{
						"ResourceKey": must, "Form": {true, oneOf("ORIGINAL", "TEMPLATE", "JSONPATH", "CONSTANT")}, "Value": must, "Template": may,
					}, param)
				}
			}
		}
	}
	for name, o := range tpl.Outputs {
		walk("output "+name, o)
	}
	return faults
}

func mapsValues(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for _, v := range m {
			if !yield(v) {
				return
			}
		}
	}
}

func TestTemplatesAreWhatROSTakes(t *testing.T) {
	for _, name := range append([]string{alarmTemplate}, templateFiles...) {
		for _, fault := range faultsOf(readTemplate(t, name)) {
			t.Errorf("%s: %s", name, fault)
		}
	}
}

func TestTheTemplateCheckFindsWhatItIsFor(t *testing.T) {
	for name, c := range map[string]struct{ file, old, new, want string }{
		"a property with a slip":        {"stores.yaml", "MessageRetentionPeriod", "MessageRetention", "no property MessageRetention"},
		"a value out of range":          {"stores.yaml", "604800", "604801", "MessageRetentionPeriod cannot be 604801"},
		"a required one that is gone":   {"stores.yaml", "      TableName: reviews\n", "", "TableName is required"},
		"a parameter that is not there": {"routing.yaml", "{Ref: BusName}", "{Ref: Bus}", "Ref to Bus, which there is not"},
		"an attribute with a slip":      {"stores.yaml", "ARN.WithSlash", "Arn", "has no attribute Arn"},
		"a text that nobody fills in":   {"routing.yaml", "{'Fn::Sub': 'every event to ${FunctionName}; dead letters come back through ${IntakeName}'}", "every event to ${FunctionName}", "it needs Fn::Sub"},
		"another form":                  {"routing.yaml", "ORIGINAL", "RAW", "Form cannot be RAW"},
		"a threshold that is a number":  {alarmTemplate, "Threshold: '0'", "Threshold: 0", "Threshold cannot be 0"},
		"a level that there is not":     {alarmTemplate, "Warn:", "Warning:", "no level Warning"},
		"an output that nobody gives":   {"bus.yaml", "BusName: {Value: null}", "Bus: {Value: null}", "Terraform has none"},
	} {
		raw, err := os.ReadFile(c.file)
		if err != nil {
			t.Fatal(err)
		}
		changed := strings.Replace(string(raw), c.old, c.new, 1)
		if changed == string(raw) {
			t.Fatalf("%s: nothing changed", name)
		}
		if faults := faultsOf(parseTemplate(t, []byte(changed))); !slices.ContainsFunc(faults, func(f string) bool { return strings.Contains(f, c.want) }) {
			t.Errorf("%s: found %q, want %q", name, faults, c.want)
		}
	}
}

func TestTablesAreThoseThatTheCodeUses(t *testing.T) {
	want := map[string]string{}
	for _, table := range []aliyun.Table{
		idempotency.TaskTable, idempotency.ReviewTable, letter.LetterTable, plan.PlanTable, plan.ItemTable, plan.ApprovalTable,
		deadletter.EvidenceTable, deadletter.AuditTable,
	} {
		want[table.Name] = table.Key
	}
	got := map[string]string{}
	for name, r := range readTemplate(t, "stores.yaml").Resources {
		if r.DeletionPolicy != "Retain" {
			t.Errorf("%s would be deleted with the stack", name)
		}
		if r.Type != "ALIYUN::OTS::Table" {
			continue
		}
		keys, _ := r.Properties["PrimaryKey"].([]any)
		if len(keys) != 1 || r.Properties["MaxVersions"] != uint64(1) || r.Properties["TimeToLive"] != int64(-1) {
			t.Errorf("%s: %v", name, r.Properties)
			continue
		}
		key, _ := keys[0].(map[string]any)
		if key["Type"] != "STRING" {
			t.Errorf("%s: key of type %v", name, key["Type"])
		}
		got[fmt.Sprint(r.Properties["TableName"])] = fmt.Sprint(key["Name"])
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("tables (-code +template):\n%s", d)
	}
}

func TestRolesAreThoseOfTheDocuments(t *testing.T) {
	want, err := Roles()
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile("roles.yaml", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("roles.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Fatal("roles.yaml is not what scripts/ram says: go test ./scripts/infra -update")
	}
	tpl := parseTemplate(t, got)
	values := ram.Values{Region: "cn-hangzhou", Account: "1234567890123456", Instance: "og-prod", Bucket: "oncegate-prod-1", Function: "oncegate-tasks", Content: "oncegate-prod-1/content/*", Bus: "prod"}
	fill := strings.NewReplacer("${ALIYUN::Region}", values.Region, "${ALIYUN::TenantId}", values.Account, "${InstanceName}", values.Instance,
		"${BucketName}", values.Bucket, "${FunctionName}", values.Function, "${Environment}", values.Bus)
	for _, role := range deployed() {
		r := tpl.Resources[resourceName(role)]
		policies, _ := r.Properties["Policies"].([]any)
		if len(policies) != 1 {
			t.Errorf("%s has %d policies", role, len(policies))
			continue
		}
		policy, _ := policies[0].(map[string]any)
		filled, err := json.Marshal(substituted(policy["PolicyDocument"], fill))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cloudtest.ParsePolicy(filled); err != nil {
			t.Errorf("%s: %v", role, err)
		}
		doc, err := ram.Document(role, values)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(anyOf(t, doc), anyOf(t, filled)); d != "" {
			t.Errorf("%s (-document +template):\n%s", role, d)
		}
		trust, _ := json.Marshal(r.Properties["AssumeRolePolicyDocument"])
		if isService := strings.Contains(string(trust), "fc.aliyuncs.com"); isService != (services[role] != "") {
			t.Errorf("%s trusts %s", role, trust)
		}
	}
	if tpl.Resources["Deployer"].Type != "" {
		t.Error("the stack makes the role that makes the stack")
	}
}

func anyOf(t *testing.T, raw []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// substituted is a value with Fn::Sub carried out.
func substituted(v any, fill *strings.Replacer) any {
	switch v := v.(type) {
	case map[string]any:
		if text, ok := v["Fn::Sub"].(string); ok && len(v) == 1 {
			return fill.Replace(text)
		}
		out := map[string]any{}
		for k, inner := range v {
			out[k] = substituted(inner, fill)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = substituted(inner, fill)
		}
		return out
	}
	return v
}

func TestTheRuleBringsWholeEventsAndDeadLettersThem(t *testing.T) {
	targets, _ := readTemplate(t, "routing.yaml").Resources["Rule"].Properties["Targets"].([]any)
	target, _ := targets[0].(map[string]any)
	for name, want := range map[string]any{"PushRetryStrategy": "EXPONENTIAL_DECAY_RETRY", "ErrorsTolerance": "ALL"} {
		if target[name] != want {
			t.Errorf("%s is %v", name, target[name])
		}
	}
	if q, _ := target["DeadLetterQueue"].(map[string]any); q["Arn"] == nil {
		t.Error("there is no dead-letter queue")
	}
	forms := map[string]any{}
	params, _ := target["ParamList"].([]any)
	for _, p := range params {
		param, _ := p.(map[string]any)
		forms[fmt.Sprint(param["ResourceKey"])] = param["Form"]
	}
	if want := map[string]any{"functionName": "CONSTANT", "Qualifier": "CONSTANT", "Body": "ORIGINAL"}; !cmp.Equal(want, forms) {
		t.Errorf("parameters %v", forms)
	}
	if readTemplate(t, "routing.yaml").Parameters["Qualifier"]["Default"] != "live" {
		t.Error("the rule does not deliver to the alias that scripts/release.sh moves")
	}
}

func TestEveryTemplateIsHere(t *testing.T) {
	found, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	want := slices.Sorted(slices.Values(templateFiles))
	if !slices.Equal(found, want) {
		t.Errorf("templates %v, tested are %v", found, want)
	}
}
