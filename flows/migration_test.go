package flows

import (
	"encoding/base64"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/events"
)

func decoded(t *testing.T, raw []byte) *events.Event {
	t.Helper()
	e, err := events.Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func embeddedFlow(t *testing.T, name string) *Flow {
	t.Helper()
	set, err := Embedded(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range set.Flows {
		if f.Name == name {
			return f
		}
	}
	t.Fatal("no flow " + name)
	return nil
}

func TestAShippedMigrationMakesAnEventThatTodaysSchemaTakes(t *testing.T) {
	f := embeddedFlow(t, "order.create")
	raw, err := os.ReadFile("../events/dead-letters/order-of-version-1.json")
	if err != nil {
		t.Fatal(err)
	}
	parent := decoded(t, raw)
	in, err := f.Input(parent)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Validate(in); err == nil {
		t.Fatal("the parent is valid already")
	}
	m, err := FindMigration(Migrations(), "order.create", "2")
	if err != nil {
		t.Fatal(err)
	}
	made, err := f.Child(parent, m, "mig-1")
	if err != nil {
		t.Fatal(err)
	}
	child := decoded(t, made)
	childIn, err := f.Input(child)
	if err != nil || f.Validate(childIn) != nil {
		t.Fatal(err, f.Validate(childIn))
	}
	was, _ := f.Key(in, nil)
	is, err := f.Key(childIn, nil)
	if err != nil || was.Hex != is.Hex {
		t.Errorf("another business: %v", err)
	}
	if child.ID() != "mig-1" || child.Extension(OriginalID) != "evt-2001" || child.Source() != parent.Source() || child.Type() != parent.Type() || child.TimeText != parent.TimeText {
		t.Errorf("got %s", made)
	}
	want := []Change{
		{"/data/amount", "changed"},
		{"/data/lines/0/qty", "removed"},
		{"/data/lines/0/quantity", "added"},
		{"/id", "changed"},
		{"/originaleventid", "added"},
	}
	if d := cmp.Diff(want, Diff(parent, child)); d != "" {
		t.Error(d)
	}
	again, err := f.Child(parent, m, "mig-1")
	if err != nil || string(again) != string(made) {
		t.Error("a repeat gives another child")
	}
	if _, err := f.Child(child, m, "mig-2"); !errors.Is(err, errUnchanged) {
		t.Errorf("an event of the new version: %v", err)
	}
	grandchild, err := f.Child(child, Migration{Flow: f.Name}, "mig-2")
	if err != nil || decoded(t, grandchild).Extension(OriginalID) != "evt-2001" {
		t.Errorf("the line begins elsewhere: %s %v", grandchild, err)
	}
}

func TestAnIdentityMigrationKeepsTheDataByteForByte(t *testing.T) {
	for _, member := range []string{`"data": {"no" : "1",  "amount": 5.00, "x":"<&>"}`, `"data_base64":"AAEC"`} {
		raw := `{"specversion":"1.0","id":"e","source":"s","type":"t", "time":"yesterday","dataschema":"urn:v1",` + member + `}`
		made, err := new(Flow).Child(decoded(t, []byte(raw)), Migration{}, "c")
		if err != nil {
			t.Fatal(err)
		}
		_, value, _ := strings.Cut(member, ":")
		if !strings.Contains(string(made), strings.TrimSpace(value)) || !strings.Contains(string(made), `"time":"yesterday"`) || !strings.Contains(string(made), `"dataschema":"urn:v1"`) {
			t.Errorf("got %s", made)
		}
	}
}

func TestAMigrationReachesAPayloadThatASourceWraps(t *testing.T) {
	f := embeddedFlow(t, "content_review.from_queue")
	body := base64.StdEncoding.EncodeToString([]byte(`{"tenant_id":"t","input_version":"v1","content":"x"}`))
	parent := decoded(t, []byte(`{"specversion":"1.0","id":"e","source":"s","type":"mns:Queue:SendMessage","data":{"messageId":"m","messageBody":"`+body+`"}}`))
	m := Migration{Flow: f.Name, From: "1", To: "2", Migrate: func(e MigrationEvent) (MigrationEvent, error) {
		e.Payload.(map[string]any)["language"] = "zh"
		return e, nil
	}}
	made, err := f.Child(parent, m, "c")
	if err != nil {
		t.Fatal(err)
	}
	in, err := f.Input(decoded(t, made))
	if err != nil || in.Payload().(map[string]any)["language"] != "zh" || !strings.Contains(string(made), `"messageId":"m"`) {
		t.Errorf("got %s %v", made, err)
	}
	if in, _ := f.Input(parent); in.Payload().(map[string]any)["language"] != nil {
		t.Error("the parent was changed")
	}
}

func TestAMigrationCannotChangeTheEnvelope(t *testing.T) {
	f := embeddedFlow(t, "order.create")
	parent := decoded(t, []byte(`{"specversion":"1.0","id":"e","source":"s","type":"t","data":{"n":1}}`))
	for name, edit := range map[string]func(*MigrationEvent){
		"id":      func(e *MigrationEvent) { e.ID = "x" },
		"source":  func(e *MigrationEvent) { e.Source = "x" },
		"type":    func(e *MigrationEvent) { e.Type = "x" },
		"subject": func(e *MigrationEvent) { e.Subject = "x" },
	} {
		m := Migration{Flow: f.Name, From: "1", To: "2", Migrate: func(e MigrationEvent) (MigrationEvent, error) {
			edit(&e)
			return e, nil
		}}
		if _, err := f.Child(parent, m, "c"); !errors.Is(err, errEnvelope) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAMigrationIsFoundByWhereItLeads(t *testing.T) {
	same := func(e MigrationEvent) (MigrationEvent, error) { return e, nil }
	all := []Migration{{"f", "1", "2", same}, {"f", "1", "3", same}, {"f", "2", "3", same}, {"g", "1", "2", same}}
	for to, want := range map[string]string{"2": "1..2", "2..3": "2..3", Identity: Identity, "3": "", "1": "", "": "", "1..9": ""} {
		m, err := FindMigration(all, "f", to)
		if (err == nil) != (want != "") || (err == nil && (m.Name() != want || m.Flow != "f")) {
			t.Errorf("%q: %v %v", to, m.Name(), err)
		}
	}
	if _, err := FindMigration(all, "f", "3"); err == nil || !strings.Contains(err.Error(), "1..3, 2..3") {
		t.Errorf("an error that does not help: %v", err)
	}
	if ChildEventID("l", "1..2") == ChildEventID("l", "1..3") || ChildEventID("l", "1..2") == ChildEventID("m", "1..2") {
		t.Error("two children of one id")
	}
}

func FuzzAnIdentityMigrationChangesTheIDsAlone(f *testing.F) {
	for _, seed := range []string{
		`{"specversion":"1.0","id":"e","source":"s","type":"t","data":{"a":[1.0,{"b":null}],"/":"~"}}`,
		`{"data":"x","specversion":"1.0","id":" e","source":"s","type":"t","originaleventid":7,"": true}`,
		`{"specversion":"1.0","id":"e","source":"s","type":"t","originaleventid":"first","data_base64":"e30=","datacontenttype":"application/json"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		parent, err := events.Decode(raw)
		if err != nil || len(raw) > events.MaxSize-200 {
			return
		}
		made, err := new(Flow).Child(parent, Migration{}, "mig-0")
		if err != nil {
			t.Fatal(err)
		}
		child, err := events.Decode(made)
		if err != nil {
			t.Fatalf("%s: %v", made, err)
		}
		for _, c := range Diff(parent, child) {
			if c.Path != "/id" && c.Path != "/originaleventid" {
				t.Errorf("%s: %v", made, c)
			}
		}
		if child.ID() != "mig-0" || child.Extension(OriginalID) == "" || string(child.DataEncoded) != string(parent.DataEncoded) {
			t.Errorf("%s", made)
		}
	})
}
