package flows

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/oncegate/oncegate/events"
)

const sampleYAML = `{"specversion":"1.0","id":"e","source":"s","type":"t","aliyuneventbusname":"b","subject":"sub","data":{"no":"1","kind":"k","at":"x","list":[{"id":"i"},2]}}`

func flowText(edit func(map[string]string)) string {
	fields := map[string]string{
		"name": "f", "owner": "o", "number_owner": "p", "match": "{type: t}",
		"key": "{no: {path: $.data.no}, op: {const: f}}", "processor": "work", "processor_version": `"1"`,
		"sample": "'" + sampleYAML + "'",
	}
	if edit != nil {
		edit(fields)
	}
	var b strings.Builder
	sep := "  - "
	for _, name := range []string{"name", "owner", "number_owner", "environment", "enabled", "match", "payload", "key", "input", "content", "processor", "processor_version", "max_attempts", "schema_version", "data_schema", "sample", "extra"} {
		if v := fields[name]; v != "" {
			b.WriteString(sep + name + ": " + v + "\n")
			sep = "    "
		}
	}
	return b.String()
}

func set(pairs ...string) func(map[string]string) {
	return func(m map[string]string) {
		for i := 0; i < len(pairs); i += 2 {
			m[pairs[i]] = pairs[i+1]
		}
	}
}

func loadText(flows ...string) (*Set, error) {
	return Load([]byte("schema_version: 1\nflows:\n"+strings.Join(flows, "")), map[string]Processor{"work": text{}})
}

func TestEmbeddedFlowsLoad(t *testing.T) {
	if _, err := Embedded(Processors(Tools{Model: NewModel(ModelOptions{})})); err != nil {
		t.Fatal(err)
	}
}

func TestLoadRefusesByName(t *testing.T) {
	for _, c := range []struct {
		name        string
		flows       []string
		flow, field string
	}{
		{"a path that is no JSONPath", []string{flowText(set("key", "{no: {path: data.no}, op: {const: f}}"))}, "f", "key.no"},
		{"a path with a wildcard", []string{flowText(set("key", "{no: {path: '$.data.*'}, op: {const: f}}"))}, "f", "key.no"},
		{"a path with a filter", []string{flowText(set("key", "{no: {path: '$.data.list[?@.id==1]'}, op: {const: f}}"))}, "f", "key.no"},
		{"the whole event as a path", []string{flowText(set("key", "{no: {path: $}, op: {const: f}}"))}, "f", "key.no"},
		{"a key path that names nothing in the sample", []string{flowText(set("key", "{no: {path: $.data.order}, op: {const: f}}"))}, "f", "key.no"},
		{"an ignored path that names nothing in the sample", []string{flowText(set("input", "{ignore: [$.data.time]}"))}, "f", "input.ignore"},
		{"an environment that names nothing in the sample", []string{flowText(set("environment", "$.stage"))}, "f", "environment"},
		{"a match that names nothing in the sample", []string{flowText(set("match", "{type: t, $.data.nope: x}"))}, "f", "match"},
		{"a match that the sample does not meet", []string{flowText(set("match", "{type: u}"))}, "f", "match"},
		{"a sample without a key value", []string{flowText(set("sample", `'{"specversion":"1.0","id":"e","source":"s","type":"t","aliyuneventbusname":"b","data":{"no":""}}'`))}, "f", "key"},
		{"a sample that is no event", []string{flowText(set("sample", "'{}'"))}, "f", "sample"},
		{"no sample", []string{flowText(set("sample", ""))}, "f", "sample"},
		{"a data schema that the sample breaks", []string{flowText(set("schema_version", `"2"`, "data_schema", "{properties: {no: {type: number}}}"))}, "f", "data_schema"},
		{"a data schema without a version", []string{flowText(set("data_schema", "{type: object}"))}, "f", "schema_version"},
		{"a data schema that is none", []string{flowText(set("schema_version", `"2"`, "data_schema", "{type: thing}"))}, "f", "data_schema"},
		{"a data schema that refers to the network", []string{flowText(set("schema_version", `"2"`, "data_schema", "{$ref: 'https://example.com/s.json'}"))}, "f", "data_schema"},
		{"a data schema that refers to a file", []string{flowText(set("schema_version", `"2"`, "data_schema", "{$ref: 'file:///etc/hostname'}"))}, "f", "data_schema"},
		{"a data schema that is a text and no JSON", []string{flowText(set("schema_version", `"2"`, "data_schema", "'{'"))}, "f", "data_schema"},
		{"a schema version with two dots", []string{flowText(set("schema_version", "1..2"))}, "f", "schema_version"},
		{"no owner", []string{flowText(set("owner", ""))}, "f", "owner"},
		{"no number owner", []string{flowText(set("number_owner", ""))}, "f", "number_owner"},
		{"no processor version", []string{flowText(set("processor_version", ""))}, "f", "processor_version"},
		{"a processor that is not there", []string{flowText(set("processor", "nope"))}, "f", "processor"},
		{"no event type", []string{flowText(set("match", "{source: s}"))}, "f", "match.type"},
		{"an empty key", []string{flowText(set("key", ""))}, "f", "key"},
		{"a key of constants alone", []string{flowText(set("key", "{op: {const: f}}"))}, "f", "key"},
		{"a field with const and path", []string{flowText(set("key", "{no: {path: $.data.no, const: x}}"))}, "f", "key.no"},
		{"a sensitive constant", []string{flowText(set("key", "{no: {path: $.data.no}, op: {const: f, sensitive: true}}"))}, "f", "key.op"},
		{"no attempts", []string{flowText(set("max_attempts", "0"))}, "f", "max_attempts"},
		{"a name used twice", []string{flowText(nil), flowText(nil)}, "f", "name"},
		{"two flows that match the same events", []string{
			flowText(nil), flowText(set("name", "g", "key", "{no: {path: $.data.no}, op: {const: g}}")),
		}, "f", "match"},
		{"two flows that could make equal keys", []string{
			flowText(set("match", "{type: t, $.data.kind: k}")),
			flowText(set("name", "g", "match", "{type: t, $.data.kind: l}", "sample", "'"+strings.Replace(sampleYAML, `"kind":"k"`, `"kind":"l"`, 1)+"'")),
		}, "f", "key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := loadText(c.flows...)
			var ce *ConfigError
			if !errors.As(err, &ce) || ce.Flow != c.flow || ce.Field != c.field {
				t.Fatalf("got %v, want an error of flow %s, field %s", err, c.flow, c.field)
			}
		})
	}
	if _, err := loadText(flowText(set("extra", "1"))); err == nil || !strings.Contains(err.Error(), "extra") {
		t.Errorf("an unknown key: got %v", err)
	}
	if _, err := Load([]byte("flows: []"), nil); err == nil {
		t.Error("no schema version was accepted")
	}
	if _, err := Load([]byte("schema_version: 1"), nil); err == nil {
		t.Error("no flow was accepted")
	}
	if s, err := loadText(flowText(nil)); err != nil || !s.Flows[0].Enabled || s.Flows[0].MaxAttempts != DefaultMaxAttempts {
		t.Errorf("the plain flow: %v %v", s, err)
	}
}

func TestAMatchListsTextsHoweverTheyAreWritten(t *testing.T) {
	for written, want := range map[string][]string{
		"{type: t}":                 {"t"},
		"{type: 't'}":               {"t"},
		"{type: [t, u]}":            {"t", "u"},
		"{type: [t:a, u:b]}":        {"t:a", "u:b"},
		"{type: t:a}":               {"t:a"},
		"{type: ['t: a', u]}":       {"t: a", "u"},
		"{type: 't: a'}":            {"t: a"},
		"\n      type: \"t: a\"":    {"t: a"},
		"{type: [t, 7, true, 1.5]}": {"t", "7", "true", "1.5"},
		"{type: &all [t, u], $.data.kind: &k k, source: *k}": {"t", "u"},
		"\n      type: t:a":                           {"t:a"},
		"\n      type: [t:a, 'u']":                    {"t:a", "u"},
		"\n      type: [t:a, u] # of old":             {"t:a", "u"},
		"\n      type:\n        - t:a\n        - u":   {"t:a", "u"},
		"\n      type: &k t:a\n      $.data.kind: *k": {"t:a"},
	} {
		var y flowYAML
		if err := yaml.Unmarshal([]byte("match: "+written), &y); err != nil || !slices.Equal(y.Match["type"], want) {
			t.Errorf("%s: %q %v, want %q", written, y.Match["type"], err, want)
		}
	}
	for _, written := range []string{"{type: {t: a}}", "{type: [[t]]}", "{type: [{t: a}]}", "{type: [t: a]}", "{type: t: a}", "{type: t: a: b}", "\n      type:\n        t: a"} {
		var y flowYAML
		if err := yaml.Unmarshal([]byte("match: "+written), &y); err == nil {
			t.Errorf("%s was taken for %q", written, y.Match["type"])
		}
	}
}

func TestFlowsThatCouldMakeEqualKeysAreBothNamed(t *testing.T) {
	_, err := loadText(
		flowText(set("match", "{type: t, $.data.kind: k}")),
		flowText(set("name", "g", "match", "{type: t, $.data.kind: l}", "sample", "'"+strings.Replace(sampleYAML, `"kind":"k"`, `"kind":"l"`, 1)+"'")))
	if err == nil || !strings.Contains(err.Error(), `"f"`) || !strings.Contains(err.Error(), `"g"`) {
		t.Errorf("got %v", err)
	}
}

func decode(t *testing.T, text string) *events.Event {
	t.Helper()
	e, err := events.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func input(t *testing.T, f *Flow, e *events.Event) *Input {
	t.Helper()
	in, err := f.Input(e)
	if err != nil {
		t.Fatal(err)
	}
	return in
}

func TestDigestLeavesOutKeyAndIgnoredPaths(t *testing.T) {
	s, err := loadText(flowText(set("input", "{ignore: [$.data.at, '$.data.list[0].id', '$.data.list[-1]']}")))
	if err != nil {
		t.Fatal(err)
	}
	f := s.Flows[0]
	digest := func(data string) string {
		t.Helper()
		return f.Digest(input(t, f, decode(t, `{"specversion":"1.0","id":"e","source":"s","type":"t","data":`+data+`}`)))
	}
	base := digest(`{"no":"1","kind":"k","at":"x","list":[{"id":"i"},2]}`)
	if got := digest(`{"list":[{"id":"other"},3],"at":"y","kind":"k","no":"2"}`); got != base {
		t.Error("ignored and key paths entered the digest")
	}
	for name, data := range map[string]string{
		"another value":       `{"no":"1","kind":"l","list":[{"id":"i"},2]}`,
		"a further element":   `{"no":"1","kind":"k","list":[{"id":"i"},2,2]}`,
		"another member":      `{"no":"1","kind":"k","list":[{"id":"i","x":1},2]}`,
		"elements that moved": `{"no":"1","kind":"k","list":[2,{"id":"i"}]}`,
		"a scalar":            `7`,
		"null":                `null`,
	} {
		if digest(data) == base {
			t.Errorf("%s has the same digest", name)
		}
	}
	text := `{"specversion":"1.0","id":"e","source":"s","type":"t","data":{"no":"1","at":"x"}}`
	e := decode(t, text)
	f.Digest(input(t, f, e))
	if v, _ := e.Payload().Any().(map[string]any); len(v) != 2 {
		t.Error("the digest changed the event")
	}
}

func TestSampleFilesMeetTheEmbeddedFlows(t *testing.T) {
	s, err := Embedded(nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("../events/samples/01-summary.json")
	if err != nil {
		t.Fatal(err)
	}
	e := decode(t, string(raw))
	f := s.Find(e)
	if f == nil {
		t.Fatal("no flow wants the first sample")
	}
	k, err := f.Key(input(t, f, e), nil)
	if want := "423fb1e078de33c0940bbc7c9356c6f6f083e7d8b699791acba9f4238e69641a"; err != nil || k.Hex != want {
		t.Errorf("got %v %v, want the first vector's key %s", k, err, want)
	}
}
