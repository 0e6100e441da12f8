package ram

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
	"testing"
)

// knownActions are actions that exist, in the services' own spelling: a service may
// compare with regard to case or without.
//
//	ots          https://www.alibabacloud.com/help/en/tablestore/authorization-policy-syntax-and-elements
//	oss          https://www.alibabacloud.com/help/en/oss/user-guide/ram-policy-overview
//	fc           https://help.aliyun.com/zh/functioncompute/fc/policies-and-sample-policies
//	eventbridge  https://www.alibabacloud.com/help/en/eventbridge/developer-reference/api-eventbridge-2020-04-01-ram
//	mns, ros     the names of their APIs
var knownActions = strings.Fields(`
	ots:GetRow ots:GetRange ots:PutRow ots:UpdateRow ots:DeleteRow ots:BatchGetRow ots:BatchWriteRow
	ots:CreateTable ots:UpdateTable ots:DeleteTable ots:DescribeTable ots:ListTable
	ots:InsertInstance ots:GetInstance ots:UpdateInstance ots:DeleteInstance
	oss:GetObject oss:GetObjectVersion oss:PutObject oss:DeleteObject oss:DeleteObjectVersion
	oss:GetObjectTagging oss:PutObjectTagging oss:DeleteObjectTagging oss:GetObjectVersionTagging oss:PutObjectVersionTagging oss:DeleteObjectVersionTagging
	oss:ListObjects oss:ListObjectVersions oss:ListBuckets oss:PutBucket oss:DeleteBucket oss:GetBucketInfo
	oss:PutBucketVersioning oss:GetBucketVersioning oss:PutBucketLifecycle oss:GetBucketLifecycle oss:PutBucketEncryption oss:GetBucketEncryption
	fc:InvokeFunction fc:CreateFunction fc:GetFunction fc:UpdateFunction fc:DeleteFunction fc:ListFunctions fc:GetFunctionCode
	fc:PublishFunctionVersion fc:ListFunctionVersions fc:DeleteFunctionVersion fc:CreateAlias fc:GetAlias fc:UpdateAlias fc:ListAliases fc:DeleteAlias
	fc:CreateTrigger fc:GetTrigger fc:UpdateTrigger fc:ListTriggers fc:PutConcurrencyConfig fc:GetConcurrencyConfig
	fc:PutFunctionAsyncInvokeConfig fc:GetFunctionAsyncInvokeConfig
	eventbridge:PutEvents eventbridge:CreateEventBus eventbridge:GetEventBus eventbridge:ListEventBuses eventbridge:UpdateEventBus eventbridge:DeleteEventBus
	eventbridge:CreateRule eventbridge:GetRule eventbridge:ListRules eventbridge:UpdateRule eventbridge:DeleteRule eventbridge:EnableRule eventbridge:DisableRule
	eventbridge:PutTargets eventbridge:ListTargets eventbridge:DeleteTargets eventbridge:CreateEventStreaming eventbridge:GetEventStreaming
	eventbridge:ListEventStreamings eventbridge:UpdateEventStreaming eventbridge:DeleteEventStreaming eventbridge:StartEventStreaming eventbridge:PauseEventStreaming
	mns:CreateQueue mns:GetQueueAttributes mns:SetQueueAttributes mns:DeleteQueue mns:ListQueue
	mns:SendMessage mns:ReceiveMessage mns:PeekMessage mns:DeleteMessage mns:ChangeMessageVisibility
	ros:CreateStack ros:GetStack ros:UpdateStack ros:DeleteStack ros:ListStacks ros:ValidateTemplate ros:PreviewStack
	ram:PassRole`)

// isData says whether an action reads or writes data, or makes somebody do so.
func isData(action string) bool {
	switch service, name, _ := strings.Cut(action, ":"); service {
	case "ots":
		return strings.HasSuffix(name, "Row") || name == "GetRange"
	case "oss":
		return strings.Contains(name, "Object")
	case "mns":
		return strings.Contains(name, "Message")
	}
	return action == "fc:InvokeFunction" || action == "eventbridge:PutEvents"
}

type stated struct {
	Effect           string
	Action, Resource any
}

// unscoped knows no resource: RAM asks for it on all of them.
const unscoped = "eventbridge:ListEventStreamings"

// faults are what is wrong with a statement that RAM would take.
func faults(s stated) []string {
	var out []string
	for _, pattern := range list(s.Action) {
		var matched []string
		for _, a := range knownActions {
			if ok, err := path.Match(pattern, a); err == nil && ok {
				matched = append(matched, a)
			}
		}
		wide := strings.ContainsAny(pattern, "*?")
		switch {
		case len(matched) == 0:
			out = append(out, "there is no action "+pattern)
		case pattern == "*":
			out = append(out, "every action of every service")
		case s.Effect == "Allow" && wide && slices.ContainsFunc(matched, isData):
			out = append(out, "a wildcard allows actions on data: "+pattern)
		}
		if s.Effect != "Allow" {
			continue
		}
		for _, resource := range list(s.Resource) {
			fields := strings.SplitN(resource+"::::", ":", 5)
			switch {
			case resource == "*" && pattern != unscoped:
				out = append(out, pattern+" is allowed on every resource")
			case slices.ContainsFunc(matched, isData) && (strings.HasPrefix(fields[4], "*") || fields[3] == "*"):
				out = append(out, pattern+" is allowed on data of any name: "+resource)
			case slices.ContainsFunc(matched, isData) && fields[1] == "ots" && strings.HasSuffix(resource, "/table/*"):
				out = append(out, pattern+" is allowed on any table: "+resource)
			case slices.ContainsFunc(matched, isData) && fields[1] == "oss" && strings.HasSuffix(resource, ":"+values.Bucket+"/*"):
				out = append(out, pattern+" is allowed on any object: "+resource)
			}
		}
	}
	return out
}

func TestNoDocumentAllowsDataByAWildcardAndAllNamesAreReal(t *testing.T) {
	for _, role := range Roles {
		var doc struct{ Statement []stated }
		if err := json.Unmarshal(render(t, role), &doc); err != nil {
			t.Fatal(err)
		}
		for i, s := range doc.Statement {
			for _, fault := range faults(s) {
				t.Errorf("%s, statement %d: %s", role, i, fault)
			}
		}
	}
}

func TestTheLintFindsWhatItIsFor(t *testing.T) {
	const table = "acs:ots:cn-hangzhou:1:instance/i/table/t"
	for name, s := range map[string]stated{
		"everything":               {"Allow", "*", table},
		"all of a service":         {"Allow", "ots:*", table},
		"a part of it":             {"Allow", "ots:*Row", table},
		"objects by a wildcard":    {"Allow", "oss:Get*", "acs:oss:*:1:room/x"},
		"messages by a wildcard":   {"Allow", "mns:*", "acs:mns:cn-hangzhou:1:/queues/q"},
		"every resource":           {"Allow", "fc:InvokeFunction", "*"},
		"every function":           {"Allow", "fc:InvokeFunction", "acs:fc:cn-hangzhou:1:*"},
		"every table":              {"Allow", "ots:GetRow", "acs:ots:cn-hangzhou:1:instance/i/table/*"},
		"every bucket":             {"Allow", "oss:GetObject", "acs:oss:*:1:*"},
		"every object":             {"Allow", "oss:GetObject", "acs:oss:*:1:" + values.Bucket + "/*"},
		"every account":            {"Allow", "ots:GetRow", "acs:ots:cn-hangzhou:*:instance/i/table/t"},
		"one good and one bad":     {"Allow", []any{"ots:GetRow", "ots:*"}, table},
		"a name in another case":   {"Allow", "ots:getRow", table},
		"a name of another time":   {"Deny", "fc:InvokeFunctions", "*"},
		"a wildcard about nothing": {"Deny", "oss:Fetch*", "*"},
		"a Deny of every action":   {"Deny", "*", "*"},
		"an action of no service":  {"Allow", "GetRow", table},
	} {
		if len(faults(s)) == 0 {
			t.Errorf("%s: nothing is found", name)
		}
	}
	for name, s := range map[string]stated{
		"one action on one table": {"Allow", "ots:GetRow", table},
		"a wide Deny":             {"Deny", "oss:*", "acs:oss:*:1:room/*"},
		"management by wildcard":  {"Allow", "fc:Create*", "acs:fc:cn-hangzhou:1:*"},
	} {
		if got := faults(s); len(got) > 0 {
			t.Errorf("%s: %v", name, got)
		}
	}
}
