package ram

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

var update = flag.Bool("update", false, "write MATRIX.md anew")

// row is one resource and the actions that it is asked for.
type row struct {
	name     string // for people
	resource string // behind acs:service:region:account:
	actions  []string
	context  map[string]string
}

// part is one table of the page.
type part struct {
	service, title string
	rows           []row
}

func (p part) access(r row, action string) cloudtest.Access {
	where := cloudtest.Region
	switch p.service {
	case "oss":
		where = "oss-" + cloudtest.Region
	case "ram":
		where = ""
	}
	return cloudtest.Access{
		Action: p.service + ":" + action, Resource: "acs:" + p.service + ":" + where + ":" + cloudtest.AccountID + ":" + r.resource, Context: r.context,
	}
}

var (
	tableActions = strings.Fields("GetRow GetRange PutRow UpdateRow DeleteRow BatchGetRow BatchWriteRow DescribeTable CreateTable UpdateTable DeleteTable")

	objectActions = strings.Fields(`GetObject GetObjectVersion PutObject DeleteObject DeleteObjectVersion GetObjectTagging GetObjectVersionTagging
		PutObjectTagging PutObjectVersionTagging DeleteObjectTagging DeleteObjectVersionTagging`)
	bucketActions = strings.Fields(`PutBucket DeleteBucket GetBucketInfo PutBucketVersioning GetBucketVersioning PutBucketEncryption GetBucketEncryption
		PutBucketLifecycle GetBucketLifecycle`)
	listActions = strings.Fields("ListObjects ListObjectVersions")

	functionActions = strings.Fields("CreateFunction GetFunction UpdateFunction DeleteFunction ListFunctionVersions PublishFunctionVersion")
	aliasActions    = strings.Fields("CreateAlias GetAlias UpdateAlias DeleteAlias")
	ruleActions     = strings.Fields("CreateRule GetRule ListRules UpdateRule EnableRule DisableRule DeleteRule PutTargets ListTargets DeleteTargets")
)

// matrix is everything that roles are asked about: all operations of the
// stand-ins, and those of the services that only a deployment uses.
func matrix() []part {
	instance := "instance/" + values.Instance
	ots := part{"ots", "Tablestore", nil}
	for _, t := range tables {
		ots.rows = append(ots.rows, row{t.Name, instance + "/table/" + t.Name, tableActions, nil})
	}
	ots.rows[len(ots.rows)-1].name = "a table of somebody else"
	ots.rows = append(
		ots.rows,
		row{"a table to come, dead_letter_next", instance + "/table/dead_letter_next", tableActions, nil},
		row{"a table to come, replay_next", instance + "/table/replay_next", tableActions, nil},
		row{"task_records of another instance", "instance/other/table/task_records", tableActions, nil},
		row{"the list of tables", instance + "/table/*", []string{"ListTable"}, nil},
		row{"the instance", instance, strings.Fields("InsertInstance GetInstance UpdateInstance DeleteInstance"), nil},
	)
	oss := part{"oss", "OSS", nil}
	for _, o := range [][2]string{
		{"tasks/: outputs", outputName}, {"tasks/*/approved/", approvedName}, {"dead-letters/", letterName}, {"content", contentName}, {"another object", "elsewhere/x.txt"},
	} {
		oss.rows = append(oss.rows, row{o[0], values.Bucket + "/" + o[1], objectActions, nil})
	}
	oss.rows = append(
		oss.rows,
		row{"dead-letters/ of another bucket", otherBucket + "/" + letterName, objectActions, nil},
		row{"the bucket", values.Bucket, bucketActions, nil},
		row{"the names below tasks/", values.Bucket, listActions, map[string]string{"oss:Prefix": "tasks/k/", "oss:Delimiter": ""}},
		row{"the names below dead-letters/", values.Bucket, listActions, map[string]string{"oss:Prefix": "dead-letters/", "oss:Delimiter": ""}},
		row{"all names", values.Bucket, listActions, map[string]string{"oss:Prefix": "", "oss:Delimiter": ""}},
		row{"another bucket", otherBucket, slices.Concat(bucketActions, listActions), map[string]string{"oss:Prefix": "tasks/k/", "oss:Delimiter": ""}},
		row{"the list of buckets", "*", []string{"ListBuckets"}, nil},
	)
	fc := part{"fc", "Function Compute", []row{
		{"the function, no qualifier", "functions/" + values.Function, append([]string{"InvokeFunction"}, functionActions...), nil},
		{"its alias live", "functions/" + values.Function + "/live", []string{"InvokeFunction"}, nil},
		{"its version 7", "functions/" + values.Function + "/7", []string{"InvokeFunction"}, nil},
		{"what its alias points to", "functions/" + values.Function + "/aliases/live", aliasActions, nil},
		{"the intake function", "functions/oncegate-intake", append([]string{"InvokeFunction"}, functionActions...), nil},
		{"a function of somebody else", "functions/other", append([]string{"InvokeFunction"}, functionActions...), nil},
		{"its alias", "functions/other/live", []string{"InvokeFunction"}, nil},
	}}
	bus := "eventbus/oncegate"
	return []part{
		ots, oss, fc,
		{"eventbridge", "EventBridge", []row{
			{"the bus", bus, strings.Fields("PutEvents CreateEventBus GetEventBus ListEventBuses UpdateEventBus DeleteEventBus"), nil},
			{"its rule", bus + "/rule/tasks", ruleActions, nil},
			{"the intake's stream", "eventstreaming/intake", strings.Fields("CreateEventStreaming GetEventStreaming ListEventStreamings UpdateEventStreaming StartEventStreaming PauseEventStreaming DeleteEventStreaming"), nil},
		}},
		{"mns", "Message queue", []row{
			{"the dead-letter queue", "/queues/oncegate-dead-letters", strings.Fields("CreateQueue GetQueueAttributes SetQueueAttributes DeleteQueue"), nil},
			{"its messages", "/queues/oncegate-dead-letters/messages", strings.Fields("SendMessage ReceiveMessage PeekMessage DeleteMessage ChangeMessageVisibility"), nil},
		}},
		{"ram", "RAM", []row{
			{"an oncegate role, to Function Compute", "role/oncegate-function", []string{"PassRole"}, map[string]string{"acs:Service": "fc.aliyuncs.com"}},
			{"an oncegate role, to another service", "role/oncegate-function", []string{"PassRole"}, map[string]string{"acs:Service": "ecs.aliyuncs.com"}},
			{"another role", "role/admin", []string{"PassRole"}, map[string]string{"acs:Service": "fc.aliyuncs.com"}},
			{"policies and roles", "*", strings.Fields("CreateRole AttachPolicyToRole CreatePolicyVersion"), nil},
		}},
	}
}

func matrixMarkdown(t *testing.T) string {
	t.Helper()
	policies := map[Role][]cloudtest.Policy{}
	for _, role := range Roles {
		policies[role] = []cloudtest.Policy{parse(t, render(t, role))}
	}
	var b bytes.Buffer
	b.WriteString("# Who may do what\n\nWritten by `go test ./scripts/ram -run MatrixPage -update` from the documents of this folder: every role is asked for every operation on every\n" +
		"resource. A cell holds what is allowed; **nothing else is**. All that was asked stands below each table. `GetObject` is reading and HEAD alike.\n")
	for _, p := range matrix() {
		fmt.Fprintf(&b, "\n## %s\n\n| resource |", p.title)
		for _, role := range Roles {
			fmt.Fprintf(&b, " %s |", role)
		}
		b.WriteString("\n|---|" + strings.Repeat("---|", len(Roles)) + "\n")
		var asked []string
		for _, r := range p.rows {
			fmt.Fprintf(&b, "| %s |", r.name)
			for _, role := range Roles {
				var may []string
				for _, action := range r.actions {
					if cloudtest.Evaluate(policies[role], p.access(r, action)) == cloudtest.Allow {
						may = append(may, action)
					}
				}
				if len(may) == 0 {
					may = []string{"-"}
				}
				fmt.Fprintf(&b, " %s |", strings.Join(may, " "))
			}
			b.WriteString("\n")
			for _, a := range r.actions {
				if !slices.Contains(asked, a) {
					asked = append(asked, a)
				}
			}
		}
		fmt.Fprintf(&b, "\nAsked: `%s:` %s.\n", p.service, strings.Join(asked, ", "))
	}
	return b.String()
}

func TestTheMatrixPageSaysWhatThePoliciesSay(t *testing.T) {
	page := matrixMarkdown(t)
	if *update {
		if err := os.WriteFile("MATRIX.md", []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("MATRIX.md")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), page); d != "" {
		t.Errorf("MATRIX.md does not say what the documents say (-page +documents); go test ./scripts/ram -run MatrixPage -update writes it anew\n%s", d)
	}
}

// otherRight are operations of the stand-ins whose right has another name.
var otherRight = map[string]string{
	"HeadObject": "GetObject", "GetObjectMeta": "GetObject", "CopyObject": "PutObject", "DeleteMultipleObjects": "DeleteObject", "CreateBucket": "PutBucket",
	"DeleteBucketLifecycle": "PutBucketLifecycle", "DeleteBucketEncryption": "PutBucketEncryption",
}

func TestTheMatrixAsksForEveryOperationThatTheStandInsServe(t *testing.T) {
	asked := map[string]bool{}
	for _, p := range matrix() {
		for _, r := range p.rows {
			for _, a := range r.actions {
				asked[p.service+":"+a] = true
			}
		}
	}
	for _, source := range []struct{ service, file, form string }{
		{"ots", "../../idempotency/otstest/engine.go", `\tcase "([A-Z]\w+)":`},
		{"oss", "../../artifacts/osstest/routes.go", `op: "(\w+)"`},
		{"fc", "../../handler/fctest/account.go", `f\.admit\(w, r, "(\w+)"`},
	} {
		raw, err := os.ReadFile(source.file)
		if err != nil {
			t.Fatal(err)
		}
		found := regexp.MustCompile(source.form).FindAllStringSubmatch(string(raw), -1)
		if len(found) < 2 {
			t.Errorf("%s names no operations in the form %s", source.file, source.form)
		}
		for _, m := range found {
			action := m[1]
			if other := otherRight[action]; other != "" {
				action = other
			}
			if !asked[source.service+":"+action] {
				t.Errorf("%s: the matrix does not ask for %s", source.file, action)
			}
		}
	}
}
