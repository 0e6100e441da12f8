package ram

import (
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

var values = Values{
	Region: cloudtest.Region, Account: cloudtest.AccountID, Instance: "oncegate", Bucket: "oncegate-local", Function: "oncegate-tasks", Bus: "oncegate-local",
}

func render(t *testing.T, role Role) []byte {
	t.Helper()
	doc, err := Document(role, values)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

func TestEveryRoleHasADocumentThatRAMWouldTake(t *testing.T) {
	for _, role := range Roles {
		doc := render(t, role)
		if len(doc) > 2048 {
			t.Errorf("%s: %d characters", role, len(doc))
		}
		if _, err := cloudtest.ParsePolicy(doc); err != nil {
			t.Errorf("%s: %v", role, err)
		}
	}
	entries, err := documents.ReadDir(".")
	if err != nil || len(entries) != len(Roles) {
		t.Errorf("%d documents for %d roles, %v", len(entries), len(Roles), err)
	}
}

func list(v any) []string {
	if s, ok := v.(string); ok {
		return []string{s}
	}
	var out []string
	for _, one := range v.([]any) {
		out = append(out, one.(string))
	}
	return out
}

func TestAValueThatCouldWidenAResourceIsRefused(t *testing.T) {
	for name, spoil := range map[string]func(*Values){
		"no region":            func(v *Values) { v.Region = "" },
		"no account":           func(v *Values) { v.Account = "" },
		"any instance":         func(v *Values) { v.Instance = "*" },
		"part of an instance":  func(v *Values) { v.Instance = "once?ate" },
		"a bucket and a quote": func(v *Values) { v.Bucket = `b","*` },
		"a function's path":    func(v *Values) { v.Function = "f/*" },
		"all content":          func(v *Values) { v.Content = "*" },
		"content of any room":  func(v *Values) { v.Content = "*/content/*" },
		"a star amid content":  func(v *Values) { v.Content = "room/*/x" },
		"a placeholder":        func(v *Values) { v.Function = "${bucket}" },
		"any bus":              func(v *Values) { v.Bus = "*" },
	} {
		v := values
		spoil(&v)
		if doc, err := Document(Replayer, v); err == nil {
			t.Errorf("%s: %s", name, doc)
		}
	}
	if _, err := Document("admin", values); err == nil {
		t.Error("a role without a document has one")
	}
	v := values
	v.Content = "articles/drafts/*"
	if doc, err := Document(Function, v); err != nil || !strings.Contains(string(doc), ":articles/drafts/*") {
		t.Errorf("%s %v", doc, err)
	}
}
