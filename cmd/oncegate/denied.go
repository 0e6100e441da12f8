package main

import (
	"errors"
	"strings"

	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
	"github.com/oncegate/oncegate/internal/messages"
	"github.com/oncegate/oncegate/scripts/ram"
)

// deniedError says which right is missing where a service refuses a call, as a
// refusal of the command; ok is false for any other error.
func deniedError(err error) (denied error, ok bool) {
	var call *aliyun.Error
	if !errors.As(err, &call) || call.Kind != aliyun.KindDenied {
		return nil, false
	}
	action, resource := missingRight(call)
	if action == "" {
		return refusedf("%w\n%s does not accept the credentials: look at key, secret, token and this machine's clock", err, call.Service), true
	}
	missing := messages.T("missing right: %s on %s", action, resource)
	if roles := rolesWith(call); len(roles) > 0 {
		missing = messages.T("%s; by scripts/ram these roles have it: %s", missing, strings.Join(roles, ", "))
	}
	return refusedf("%w\n%s", err, missing), true
}

// actingAs is what a refused command says about who it was; zero where nobody has
// asked or the refusal was none of a service.
func (a *app) actingAs(err error) messages.Text {
	if a.who == "" || aliyun.KindOf(err) != aliyun.KindDenied {
		return messages.Text{}
	}
	text := messages.T("you act as %s", a.who)
	if target, err := a.chosenTarget(); err == nil && target == targetLocal {
		text = messages.T("%s; %s names another role", text, localIdentityVariable)
	}
	return text
}

// missingRight is the RAM action and resource of a call that a policy refused,
// "" where the credentials were refused before any policy.
func missingRight(e *aliyun.Error) (action, resource string) {
	switch e.Code {
	case "OTSNoPermissionAccess", "AccessDenied", "NoPermission", "Forbidden", "Forbidden.RAM":
	default:
		return "", ""
	}
	switch e.Service {
	case "tablestore":
		return "ots:" + e.Op, "acs:ots:*:*:instance/*/table/" + e.Resource
	case "oss":
		bucket, key, isObject := strings.Cut(e.Resource, "/")
		resource = "acs:oss:*:*:" + bucket
		if isObject {
			folder, _, _ := strings.Cut(key, "/")
			resource += "/" + folder + "/*"
		}
		switch e.Op {
		case "PutObject":
			return "oss:PutObject and oss:PutObjectTagging", resource
		case "GetObject":
			return "oss:GetObject and oss:GetObjectVersion", resource
		case "DeleteObject": // of one version, always
			return "oss:DeleteObjectVersion", resource
		case "CreateBucket":
			return "oss:ListBuckets, oss:PutBucket and oss:PutBucketVersioning", resource
		}
		return "oss:" + e.Op, resource
	case "fc":
		return "fc:" + e.Op, "acs:fc:*:*:functions/" + e.Resource
	case "eventbridge":
		if e.Resource == "*" {
			return "eventbridge:" + e.Op, "*"
		}
		if e.Op == "PutEvents" {
			return "eventbridge:PutEvents", "acs:eventbridge:*:*:eventbus/" + e.Resource
		}
		return "eventbridge:" + e.Op, "acs:eventbridge:*:*:" + e.Resource
	case "mns":
		return "mns:" + e.Op, "acs:mns:*:*:/queues/" + e.Resource
	}
	return e.Service + ":" + e.Op, "*"
}

// rolesWith are the roles whose shipped document allows the call, as far as the
// local cloud's names stand for the real ones.
func rolesWith(e *aliyun.Error) []string {
	a := cloudtest.Access{}
	where := cloudtest.Region + ":" + cloudtest.AccountID + ":"
	switch e.Service {
	case "tablestore":
		a.Action, a.Resource = "ots:"+e.Op, "acs:ots:"+where+"instance/"+localInstance+"/table/"+e.Resource
	case "oss":
		_, key, isObject := strings.Cut(e.Resource, "/")
		if !isObject {
			return nil
		}
		a.Action, a.Resource = "oss:"+e.Op, "acs:oss:"+where+localBucket+"/"+key
		if e.Op == "DeleteObject" {
			a.Action = "oss:DeleteObjectVersion"
		}
	case "fc":
		_, qualifier, _ := strings.Cut(e.Resource, "/")
		a.Action, a.Resource = "fc:"+e.Op, "acs:fc:"+where+"functions/"+localFunctionName+"/"+qualifier
	case "eventbridge":
		a.Action, a.Resource = "eventbridge:"+e.Op, "acs:eventbridge:"+where+"eventbus/"+localEnvironment
	}
	var roles []string
	for _, role := range ram.Roles {
		doc, err := ram.Document(role, localValues)
		if err != nil {
			continue
		}
		policy, err := cloudtest.ParsePolicy(doc)
		if err == nil && cloudtest.Evaluate([]cloudtest.Policy{policy}, a) == cloudtest.Allow {
			roles = append(roles, string(role))
		}
	}
	return roles
}
