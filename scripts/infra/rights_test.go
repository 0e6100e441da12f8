package infra

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/cloudtest"
	"github.com/oncegate/oncegate/scripts/ram"
)

var owned = ram.Values{Region: "cn-hangzhou", Account: account, Instance: "og-prod", Bucket: "oncegate-prod-" + account, Function: "oncegate-tasks", Bus: "prod"}

const (
	aRole     = "acs:ram::" + account + ":role/oncegate-function-prod-cn-hangzhou"
	aPolicy   = "acs:ram::" + account + ":policy/oncegate-function-prod-cn-hangzhou"
	aQueue    = "acs:mns:cn-hangzhou:" + account + ":/queues/oncegate-dead-letters-prod"
	anInst    = "acs:ots:cn-hangzhou:" + account + ":instance/og-prod"
	aBucket   = "acs:oss:*:" + account + ":oncegate-prod-" + account
	aBus      = "acs:eventbridge:cn-hangzhou:" + account + ":eventbus/prod"
	aRule     = aBus + "/rule/oncegate-tasks"
	aFunction = "acs:fc:cn-hangzhou:" + account + ":functions/oncegate-tasks"
	anIntake  = "acs:fc:cn-hangzhou:" + account + ":functions/oncegate-intake"
	aProject  = "acs:log:cn-hangzhou:" + account + ":project/" + account + "-cn-hangzhou-logproject"
	aStack    = "acs:ros:cn-hangzhou:" + account + ":stack/s-1"
)

// founder is the document of who deploys for the first time.
func founder(t *testing.T) cloudtest.Policy {
	t.Helper()
	raw, err := os.ReadFile("founder.json")
	if err != nil {
		t.Fatal(err)
	}
	filled := strings.NewReplacer("${region}", owned.Region, "${account}", owned.Account, "${bucket}", owned.Bucket, "${function}", owned.Function, "${intake}", "oncegate-intake").Replace(string(raw))
	if strings.Contains(filled, "${") {
		t.Fatalf("a placeholder is left: %s", filled)
	}
	var short bytes.Buffer
	if err := json.Compact(&short, []byte(filled)); err != nil {
		t.Fatal(err)
	}
	if short.Len() > 2048 {
		t.Errorf("founder.json: %d characters, RAM may take 2048", short.Len())
	}
	p, err := cloudtest.ParsePolicy(short.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func deployer(t *testing.T) cloudtest.Policy {
	t.Helper()
	raw, err := ram.Document(ram.Deployer, owned)
	if err != nil {
		t.Fatal(err)
	}
	p, err := cloudtest.ParsePolicy(raw)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

type right struct{ action, resource string }

func rights(resource, actions string) []right {
	var all []right
	for a := range strings.FieldsSeq(actions) {
		all = append(all, right{a, resource})
	}
	return all
}

// made are the rights that making a resource takes, of the account that deploys:
// ROS and Serverless Devs act with its keys. A type that is not here fails.
var made = map[string][]right{
	"ALIYUN::OTS::Instance": rights(anInst, "ots:InsertInstance ots:GetInstance"),
	"ALIYUN::OTS::Table":    rights(anInst+"/table/reviews", "ots:CreateTable ots:DescribeTable ots:UpdateTable"),
	"ALIYUN::OSS::Bucket": rights(aBucket, `oss:PutBucket oss:GetBucketInfo oss:PutBucketVersioning oss:PutBucketEncryption
		oss:PutBucketAcl oss:PutBucketPublicAccessBlock`),
	"ALIYUN::MNS::Queue":        rights(aQueue, "mns:CreateQueue mns:GetQueueAttributes mns:SetQueueAttributes"),
	"ALIYUN::EventBridge::Rule": rights(aRule, "eventbridge:CreateRule eventbridge:GetRule eventbridge:UpdateRule eventbridge:PutTargets eventbridge:ListTargets"),
	"ALIYUN::RAM::Role": append(rights(aRole, "ram:CreateRole ram:GetRole ram:AttachPolicyToRole"),
		rights(aPolicy, "ram:CreatePolicy ram:AttachPolicyToRole ram:CreatePolicyVersion ram:DeletePolicyVersion")...),
	"ALIYUN::CMS::ResourceMetricRule": rights("*", "cms:PutResourceMetricRule cms:DescribeMetricRuleList"),
	"terraform":                       rights(aBus, "eventbridge:CreateEventBus eventbridge:GetEventBus eventbridge:UpdateEventBus"),
}

// always are the rights of every deployment, the first and the hundredth.
var always = [][]right{
	rights(aStack, "ros:CreateStack ros:GetStack ros:UpdateStack ros:ListStacks"),
	rights(aFunction, "fc:CreateFunction fc:GetFunction fc:UpdateFunction fc:PublishFunctionVersion fc:ListFunctionVersions fc:CreateAlias fc:GetAlias fc:UpdateAlias"),
	rights(anIntake, "fc:CreateFunction fc:UpdateFunction fc:PublishFunctionVersion fc:CreateAlias fc:UpdateAlias fc:CreateTrigger fc:GetTrigger fc:UpdateTrigger"),
	rights("acs:eventbridge:cn-hangzhou:"+account+":eventstreaming/x", "eventbridge:CreateEventStreaming eventbridge:GetEventStreaming eventbridge:UpdateEventStreaming eventbridge:StartEventStreaming"),
	rights(aRule, "eventbridge:GetRule eventbridge:UpdateRule eventbridge:PutTargets"),
	rights(aBucket, "oss:PutBucketLifecycle oss:GetBucketLifecycle"),
}

// removed are the rights that scripts/teardown.sh takes.
var removed = [][]right{
	rights(aRule, "eventbridge:DeleteTargets eventbridge:DeleteRule"),
	rights(aBus, "eventbridge:DeleteEventBus"),
	rights(anIntake+"/triggers/dead-letters", "fc:DeleteTrigger"),
	rights(aFunction+"/aliases/live", "fc:DeleteAlias"),
	rights(aFunction+"/versions/1", "fc:DeleteFunctionVersion"),
	rights(aFunction, "fc:DeleteFunction"),
	rights(aRole, "ram:DetachPolicyFromRole ram:DeleteRole"),
	rights(aPolicy, "ram:DetachPolicyFromRole ram:DeletePolicyVersion ram:DeletePolicy"),
	rights(aStack, "ros:DeleteStack"),
	rights("*", "cms:DeleteMetricRules"),
}

func allowed(policies []cloudtest.Policy, r right, context map[string]string) bool {
	return cloudtest.Evaluate(policies, cloudtest.Access{Action: r.action, Resource: r.resource, Context: context}) == cloudtest.Allow
}

func TestWhoDeploysMayDoAllThatADeploymentTakes(t *testing.T) {
	again := []cloudtest.Policy{deployer(t)}
	first := append(again, founder(t))
	need := func(what string, policies []cloudtest.Policy, all []right) {
		for _, r := range all {
			if !allowed(policies, r, nil) {
				t.Errorf("%s takes %s on %s, which is not granted", what, r.action, r.resource)
			}
		}
	}
	files := append([]string{alarmTemplate}, templateFiles...)
	for _, name := range files {
		tpl := readTemplate(t, name)
		if tpl.Transform != "" {
			need(name, first, made["terraform"])
		}
		for id, r := range tpl.Resources {
			if made[r.Type] == nil {
				t.Errorf("%s, %s: nobody says which rights %s takes", name, id, r.Type)
			}
			need(name+", "+id, first, made[r.Type])
		}
	}
	for _, all := range always {
		need("every deployment", again, all)
	}
	for _, all := range removed {
		need("scripts/teardown.sh", first, all)
	}
	need("logConfig auto", first, append(rights(aProject, "log:GetProject log:CreateProject"), rights(aProject+"/logstore/fc", "log:GetLogStore log:CreateLogStore log:GetIndex log:CreateIndex")...))
	for _, service := range []string{"fc.aliyuncs.com", "sendevent-fc.eventbridge.aliyuncs.com", "sendevent-mns.eventbridge.aliyuncs.com"} {
		if !allowed(first, right{"ram:CreateServiceLinkedRole", "*"}, map[string]string{"ram:ServiceName": service}) {
			t.Errorf("the service-linked role of %s cannot be made", service)
		}
	}
	if !allowed(again, right{"ram:PassRole", aRole}, map[string]string{"acs:Service": "fc.aliyuncs.com"}) {
		t.Error("the functions cannot be given their roles")
	}
}

// TestTheFirstDeploymentOpensNothingElse says what founder.json keeps closed. That
// who makes roles can make one for himself it cannot: docs/DEPLOY.md says so.
func TestTheFirstDeploymentOpensNothingElse(t *testing.T) {
	both := []cloudtest.Policy{deployer(t), founder(t)}
	for _, r := range []right{
		{"ram:CreateRole", "acs:ram::" + account + ":role/admin"},
		{"ram:AttachPolicyToRole", "acs:ram::" + account + ":role/admin"},
		{"ram:CreatePolicy", "acs:ram::" + account + ":policy/admin"},
		{"ram:AttachPolicyToUser", aPolicy},
		{"ram:CreateAccessKey", "acs:ram::" + account + ":user/x"},
		{"ram:CreateServiceLinkedRole", "*"},
		{"sts:AssumeRole", aRole},
		{"oss:DeleteBucket", aBucket},
		{"oss:PutBucketPolicy", aBucket},
		{"oss:PutBucketAcl", "acs:oss:*:" + account + ":elsewhere"},
		{"oss:GetObject", aBucket + "/tasks/x"},
		{"oss:DeleteObjectVersion", aBucket + "/tasks/x"},
		{"ots:GetRow", anInst + "/table/task_records"},
		{"ots:DeleteTable", anInst + "/table/task_records"},
		{"ots:DeleteInstance", anInst},
		{"mns:ReceiveMessage", aQueue + "/messages"},
		{"log:GetLogStoreLogs", aProject + "/logstore/fc"},
		{"log:DeleteProject", aProject},
		{"fc:InvokeFunction", aFunction},
		{"fc:DeleteFunction", "acs:fc:cn-hangzhou:" + account + ":functions/elsewhere"},
		{"fc:DeleteFunction", "acs:fc:cn-hangzhou:" + account + ":functions/oncegate-tasks-of-another"},
		{"eventbridge:PutEvents", aBus},
	} {
		if allowed(both, r, nil) {
			t.Errorf("%s on %s is allowed", r.action, r.resource)
		}
	}
	if allowed(both, right{"ram:CreateServiceLinkedRole", "*"}, map[string]string{"ram:ServiceName": "ecs.aliyuncs.com"}) {
		t.Error("the service-linked role of any service can be made")
	}
}
