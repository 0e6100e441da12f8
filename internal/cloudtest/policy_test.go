package cloudtest

import (
	"strings"
	"testing"
)

func policy(t *testing.T, statements ...string) Policy {
	t.Helper()
	p, err := ParsePolicy([]byte(`{"Version":"1","Statement":[` + strings.Join(statements, ",") + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

const (
	allowTasks     = `{"Effect":"Allow","Action":["ots:GetRow","ots:PutRow"],"Resource":"acs:ots:*:1:instance/i/table/tasks"}`
	allowAll       = `{"Effect":"Allow","Action":"*","Resource":"*"}`
	denyWrites     = `{"Effect":"Deny","Action":["ots:Put*","ots:Delete*"],"Resource":["acs:ots:*:*:instance/i/table/tasks","acs:ots:*:*:instance/i/table/reviews"]}`
	allButRead     = `{"Effect":"Deny","NotAction":["ots:Get*"],"Resource":"*"}`
	allowInstance  = `{"Effect":"Allow","Action":"ots:*","Resource":"acs:ots:*:1:instance/i"}`
	allowInstances = `{"Effect":"Allow","Action":"ots:*","Resource":"acs:ots:*:1:instance/i*"}`
	allowOne       = `{"Effect":"Allow","Action":"ots:Get???","Resource":"acs:ots:*:1:instance/?/table/task?"}`
	listLetters    = `{"Effect":"Allow","Action":"oss:ListObjects","Resource":"acs:oss:*:1:room","Condition":{"StringLike":{"oss:Prefix":["tasks/*","x"]},"StringEquals":{"oss:Delimiter":"/"}}}`
)

func TestPoliciesAllowWhatAStatementAllowsAndNoneDenies(t *testing.T) {
	const tasks, reviews = "acs:ots:cn-hangzhou:1:instance/i/table/tasks", "acs:ots:cn-hangzhou:1:instance/i/table/reviews"
	for _, c := range []struct {
		name       string
		statements []string
		access     Access
		want       Verdict
	}{
		{"no statement", []string{listLetters}, Access{Action: "ots:GetRow", Resource: tasks}, ImplicitDeny},
		{"an Allow", []string{allowTasks}, Access{Action: "ots:GetRow", Resource: tasks}, Allow},
		{"another action", []string{allowTasks}, Access{Action: "ots:GetRange", Resource: tasks}, ImplicitDeny},
		{"an action that begins alike", []string{allowTasks}, Access{Action: "ots:GetRowX", Resource: tasks}, ImplicitDeny},
		{"another table", []string{allowTasks}, Access{Action: "ots:GetRow", Resource: reviews}, ImplicitDeny},
		{"another account", []string{allowTasks}, Access{Action: "ots:GetRow", Resource: "acs:ots:cn-hangzhou:2:instance/i/table/tasks"}, ImplicitDeny},
		{"a table that begins alike", []string{allowTasks}, Access{Action: "ots:GetRow", Resource: tasks + "2"}, ImplicitDeny},
		{"an action in another case", []string{allowTasks}, Access{Action: "ots:getrow", Resource: tasks}, ImplicitDeny},
		{"a resource in another case", []string{allowTasks}, Access{Action: "ots:GetRow", Resource: strings.ToUpper(tasks)}, ImplicitDeny},
		{"a Deny after an Allow", []string{allowTasks, denyWrites}, Access{Action: "ots:PutRow", Resource: tasks}, ExplicitDeny},
		{"a Deny before an Allow", []string{denyWrites, allowTasks}, Access{Action: "ots:PutRow", Resource: tasks}, ExplicitDeny},
		{"a Deny beside the widest Allow", []string{allowAll, denyWrites}, Access{Action: "ots:DeleteRow", Resource: reviews}, ExplicitDeny},
		{"a Deny of something else", []string{allowAll, denyWrites}, Access{Action: "ots:GetRow", Resource: reviews}, Allow},
		{"a Deny of all but reading", []string{allowAll, allButRead}, Access{Action: "ots:PutRow", Resource: tasks}, ExplicitDeny},
		{"reading beside it", []string{allowAll, allButRead}, Access{Action: "ots:GetRow", Resource: tasks}, Allow},
		{"the instance, for a table of it", []string{allowInstance}, Access{Action: "ots:GetRow", Resource: tasks}, ImplicitDeny},
		{"the instance itself", []string{allowInstance}, Access{Action: "ots:GetInstance", Resource: "acs:ots:cn-hangzhou:1:instance/i"}, Allow},
		{"an instance with a star, for a table of it", []string{allowInstances}, Access{Action: "ots:GetRow", Resource: tasks}, Allow},
		{"a name with a question mark", []string{allowOne}, Access{Action: "ots:GetRow", Resource: tasks}, Allow},
		{"a name that is longer", []string{allowOne}, Access{Action: "ots:GetRow", Resource: tasks + "s"}, ImplicitDeny},
		{"conditions that hold", []string{listLetters}, Access{"oss:ListObjects", "acs:oss:oss-cn-hangzhou:1:room", map[string]string{"oss:Prefix": "tasks/k/", "oss:Delimiter": "/"}}, Allow},
		{"one that does not", []string{listLetters}, Access{"oss:ListObjects", "acs:oss:oss-cn-hangzhou:1:room", map[string]string{"oss:Prefix": "dead-letters/", "oss:Delimiter": "/"}}, ImplicitDeny},
		{"one whose key is missing", []string{listLetters}, Access{"oss:ListObjects", "acs:oss:oss-cn-hangzhou:1:room", map[string]string{"oss:Prefix": "tasks/k/"}}, ImplicitDeny},
		{"an exact one with a wildcard's value", []string{listLetters}, Access{"oss:ListObjects", "acs:oss:oss-cn-hangzhou:1:room", map[string]string{"oss:Prefix": "x", "oss:Delimiter": "//"}}, ImplicitDeny},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Evaluate([]Policy{policy(t, c.statements...)}, c.access); got != c.want {
				t.Errorf("in one policy: %s, want %s", got, c.want)
			}
			var apart []Policy
			for _, s := range c.statements {
				apart = append(apart, policy(t, s))
			}
			if got := Evaluate(apart, c.access); got != c.want {
				t.Errorf("in several policies: %s, want %s", got, c.want)
			}
		})
	}
	if got := Evaluate(nil, Access{Action: "ots:GetRow", Resource: tasks}); got != ImplicitDeny {
		t.Errorf("no policy at all: %s", got)
	}
}

func TestWildcardsCrossSlashesAndColons(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"*", "acs:ots:a/b", true},
		{"a*c", "ac", true},
		{"a*c", "a/b:c", true},
		{"a*c", "a/b:cd", false},
		{"a*b*c", "aXbYbZc", true},
		{"a*b*c", "aXcYb", false},
		{"?", "", false},
		{"?", "/", true},
		{"a?c", "ac", false},
		{"a?c", "abbc", false},
		{"*?", "", false},
		{"**a", "ba", true},
		{"?", "中", true},
		{"ots:Get*", "ots:GetRow", true},
		{"ots:Get*", "oss:GetRow", false},
		{"a.c", "abc", false},
		{"a[b]c", "abc", false},
	} {
		if got := like(c.pattern, c.s); got != c.want {
			t.Errorf("%q like %q: %v", c.s, c.pattern, got)
		}
	}
}

func TestDocumentsThatAreNotUnderstoodAreRefused(t *testing.T) {
	doc := func(statement string) string { return `{"Version":"1","Statement":[` + statement + `]}` }
	for name, text := range map[string]string{
		"no JSON":                 `{`,
		"two documents":           doc(allowAll) + doc(allowAll),
		"another version":         `{"Version":"2","Statement":[` + allowAll + `]}`,
		"no statement":            `{"Version":"1","Statement":[]}`,
		"a statement in no list":  `{"Version":"1","Statement":` + allowAll + `}`,
		"another effect":          doc(`{"Effect":"allow","Action":"*","Resource":"*"}`),
		"no action":               doc(`{"Effect":"Allow","Resource":"*"}`),
		"both kinds of action":    doc(`{"Effect":"Allow","Action":"*","NotAction":"*","Resource":"*"}`),
		"an action of no service": doc(`{"Effect":"Allow","Action":"GetRow","Resource":"*"}`),
		"an action of no name":    doc(`{"Effect":"Allow","Action":"ots:","Resource":"*"}`),
		"no resource":             doc(`{"Effect":"Allow","Action":"*"}`),
		"a resource that is none": doc(`{"Effect":"Allow","Action":"*","Resource":"instance/i"}`),
		"a resource cut short":    doc(`{"Effect":"Allow","Action":"*","Resource":"acs:ots:*:1:"}`),
		"NotResource":             doc(`{"Effect":"Deny","Action":"*","NotResource":"*"}`),
		"Principal":               doc(`{"Effect":"Allow","Action":"*","Resource":"*","Principal":{"Service":["fc"]}}`),
		"an operator of no kind":  doc(`{"Effect":"Allow","Action":"*","Resource":"*","Condition":{"StringEqual":{"acs:Service":["x"]}}}`),
		"a negated operator":      doc(`{"Effect":"Deny","Action":"*","Resource":"*","Condition":{"StringNotEquals":{"acs:Service":["x"]}}}`),
		"a statement's own typo":  doc(`{"Effect":"Allow","Action":"*","Resource":"*","Conditions":{}}`),
		"another operator":        doc(`{"Effect":"Deny","Action":"*","Resource":"*","Condition":{"IpAddress":{"acs:SourceIp":"10.0.0.0/8"}}}`),
		"a condition of no value": doc(`{"Effect":"Deny","Action":"*","Resource":"*","Condition":{"StringEquals":{"acs:Service":[]}}}`),
		"a number for an action":  doc(`{"Effect":"Allow","Action":1,"Resource":"*"}`),
	} {
		if _, err := ParsePolicy([]byte(text)); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
