// Package infra holds what `s deploy` creates: ROS templates, of which roles.yaml
// is made from the documents in scripts/ram, so that there is one place that says
// who may do what.
package infra

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/scripts/ram"
)

// services are the roles that Function Compute takes; all others are people's.
var services = map[ram.Role]string{ram.Function: "FunctionRoleArn", ram.Intake: "IntakeRoleArn"}

// stand-ins for the values that only ROS knows. They are letters and digits, as
// ram.Document wants its values, and are replaced by what Fn::Sub fills in.
var placeholders = ram.Values{
	Region: "roSregion", Account: "roSaccount", Instance: "roSinstance", Bucket: "rosbucket", Function: "roSfunction", Content: "rosbucket/content/*", Bus: "roSbus",
}

var filledIn = strings.NewReplacer(
	placeholders.Region, "${ALIYUN::Region}",
	placeholders.Account, "${ALIYUN::TenantId}",
	placeholders.Instance, "${InstanceName}",
	placeholders.Bucket, "${BucketName}",
	placeholders.Function, "${FunctionName}",
	placeholders.Bus, "${Environment}",
)

// deployed are the roles that the stack makes. The deployer is who deploys, so it
// must be there before.
func deployed() []ram.Role {
	var roles []ram.Role
	for _, r := range ram.Roles {
		if r != ram.Deployer {
			roles = append(roles, r)
		}
	}
	return roles
}

// Roles is the text of roles.yaml: one RAM role for each document but the
// deployer's, with its policy inside. Function and intake trust Function Compute,
// the others the account, whose users then need sts:AssumeRole on them.
func Roles() ([]byte, error) {
	type list = yaml.MapSlice
	item := func(key string, value any) yaml.MapItem { return yaml.MapItem{Key: key, Value: value} }
	sub := func(text string) list { return list{item("Fn::Sub", text)} }

	var resources, outputs list
	for _, role := range deployed() {
		raw, err := ram.Document(role, placeholders)
		if err != nil {
			return nil, err
		}
		statements, err := statementsOf(raw, sub)
		if err != nil {
			return nil, fmt.Errorf("policy of %s: %w", role, err)
		}
		principal := list{item("RAM", []any{sub("acs:ram::${ALIYUN::TenantId}:root")})}
		if services[role] != "" {
			principal = list{item("Service", []any{"fc.aliyuncs.com"})}
		}
		name := resourceName(role)
		resources = append(resources, item(name, list{
			item("Type", "ALIYUN::RAM::Role"),
			item("Properties", list{
				item("RoleName", sub(role.RoleName()+"-${Environment}-${ALIYUN::Region}")),
				item("Description", "oncegate: scripts/ram/"+string(role)+".json"),
				item("AssumeRolePolicyDocument", list{
					item("Version", "1"),
					item("Statement", []any{list{item("Action", "sts:AssumeRole"), item("Effect", "Allow"), item("Principal", principal)}}),
				}),
				item("Policies", []any{list{
					item("PolicyName", sub(role.RoleName()+"-${Environment}-${ALIYUN::Region}")),
					item("PolicyDocument", list{item("Version", "1"), item("Statement", statements)}),
				}}),
			}),
		}))
		output := services[role]
		if output == "" {
			output = name + "RoleArn"
		}
		outputs = append(outputs, item(output, list{item("Value", list{item("Fn::GetAtt", []any{name, "Arn"})})}))
	}
	parameter := list{item("Type", "String")}
	doc := list{
		item("ROSTemplateFormatVersion", "2015-09-01"),
		item("Description", "oncegate's roles"),
		item("Parameters", list{
			item("Environment", parameter), item("InstanceName", parameter), item("BucketName", parameter), item("FunctionName", parameter),
		}),
		item("Resources", resources),
		item("Outputs", outputs),
	}
	var out bytes.Buffer
	out.WriteString("# Made from the documents in scripts/ram by `go test ./scripts/infra -update`: change those.\n")
	if err := yaml.NewEncoder(&out, yaml.Indent(2), yaml.IndentSequence(true)).Encode(doc); err != nil {
		return nil, fmt.Errorf("write roles.yaml: %w", err)
	}
	return out.Bytes(), nil
}

func resourceName(role ram.Role) string { return strings.ToUpper(string(role[:1])) + string(role[1:]) }

// statementsOf are a document's statements with Fn::Sub wherever a resource holds
// what ROS fills in.
func statementsOf(raw []byte, sub func(string) yaml.MapSlice) ([]any, error) {
	var doc struct {
		Statement []struct {
			Effect           string
			Action, Resource any
			Condition        map[string]map[string]any
		}
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, err
	}
	filled := func(v any) any {
		switch v := v.(type) {
		case string:
			if text := filledIn.Replace(v); text != v {
				return sub(text)
			}
			return v
		case []any:
			all := make([]any, len(v))
			for i, one := range v {
				all[i] = one
				if text, ok := one.(string); ok {
					if s := filledIn.Replace(text); s != text {
						all[i] = sub(s)
					}
				}
			}
			return all
		}
		return v
	}
	var out []any
	for _, s := range doc.Statement {
		one := yaml.MapSlice{{Key: "Effect", Value: s.Effect}, {Key: "Action", Value: s.Action}, {Key: "Resource", Value: filled(s.Resource)}}
		if len(s.Condition) > 0 {
			one = append(one, yaml.MapItem{Key: "Condition", Value: s.Condition})
		}
		out = append(out, one)
	}
	return out, nil
}
