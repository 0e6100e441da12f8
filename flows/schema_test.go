package flows

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/events"
)

const orderSchema = `{$schema: "https://json-schema.org/draft/2020-12/schema", type: object, required: [no, amount], properties: {
  no: {type: string}, amount: {type: number, minimum: 0}, at: {type: string, format: date-time},
  lines: {type: array, items: {type: object, required: [sku, quantity], properties: {sku: {type: string}, quantity: {type: integer}}}},
  contact: {type: object, additionalProperties: {type: string}},
  kind: {anyOf: [{const: a}, {const: b}]}}}`

func schemaFlow(t *testing.T, schema string) *Flow {
	t.Helper()
	s, err := loadText(flowText(set("schema_version", `"2"`, "data_schema", schema, "key", "{no: {path: $.data.no}, op: {const: f}}",
		"sample", `'{"specversion":"1.0","id":"e","source":"s","type":"t","aliyuneventbusname":"b","data":{"no":"1","amount":1}}'`)))
	if err != nil {
		t.Fatal(err)
	}
	return s.Flows[0]
}

func validate(t *testing.T, f *Flow, data string) error {
	t.Helper()
	e, err := events.Decode([]byte(`{"specversion":"1.0","id":"e","source":"s","type":"t","aliyuneventbusname":"b","data":` + data + `}`))
	if err != nil {
		t.Fatal(err)
	}
	in, err := f.Input(e)
	if err != nil {
		t.Fatal(err)
	}
	return f.Validate(in)
}

func TestADataSchemaNamesPlaceAndKeywordAndNoValue(t *testing.T) {
	f := schemaFlow(t, orderSchema)
	for data, want := range map[string]string{
		`{"no":"1","amount":5}`:                       "",
		`{"no":"1","amount":0.1,"at":"next tuesday"}`: "",
		`{"no":"1","amount":"SECRET"}`:                "/amount: type",
		`{"no":"1","amount":-5}`:                      "/amount: minimum",
		`{"no":"1"}`:                                  "at /: required amount",
		`{"no":"1","amount":1,"lines":[{"sku":"A","quantity":1},{"sku":"SECRET"}]}`:                           "/lines/1: required quantity",
		`{"no":"1","amount":1,"contact":{"SECRET@example.com":5}}`:                                            "/contact/*: type",
		`{"no":"1","amount":1,"contact":{"13800138000":5}}`:                                                   "/contact/*: type",
		`{"no":"1","amount":1,"kind":"SECRET"}`:                                                               "/kind: anyOf",
		`{"no":"1","amount":1e999999999}`:                                                                     "/amount: number too large",
		`{"no":1,"amount":"SECRET","lines":7}`:                                                                "/amount: type",
		`["SECRET"]`:                                                                                          "at /: type",
		`{"no":"1","amount":1,"lines":[{"sku":"A","quantity":9007199254740993}]}`:                             "",
		`{"no":"1","amount":1,"lines":[{"sku":"A","quantity":1.0}]}`:                                          "",
		`{"no":"1","amount":1,"lines":[{"sku":"A","quantity":1.5}]}`:                                          "/lines/0/quantity: type",
		`{"no":"1","amount":1,"other":"whatever the schema does not name is let through, unless it says so"}`: "",
	} {
		for range 5 {
			err := validate(t, f, data)
			var broken *SchemaError
			switch {
			case want == "" && err != nil, want != "" && (!errors.As(err, &broken) || !strings.HasSuffix(err.Error(), want)):
				t.Errorf("%s: %v, want %q", data, err, want)
			case err != nil && (strings.Contains(err.Error(), "SECRET") || strings.Contains(err.Error(), "138") || !strings.Contains(err.Error(), "version 2")):
				t.Errorf("%s: %v", data, err)
			}
		}
	}
}

func TestADataSchemaReadsNoFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "s.json")
	if err := os.WriteFile(file, []byte(`{"type":"object"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := newSchema(map[string]any{"$ref": "file://" + file}); err == nil {
		t.Error("a schema was read from disk")
	}
	for _, draft := range []string{"https://json-schema.org/draft/2020-12/schema", "http://json-schema.org/draft-07/schema#"} {
		if _, err := newSchema(map[string]any{"$schema": draft}); err != nil {
			t.Errorf("a draft that is built in: %v", err)
		}
	}
}

func TestADataSchemaMayBeATextOfJSON(t *testing.T) {
	f := schemaFlow(t, `'{"required":["amount"]}'`)
	if err := validate(t, f, `{"no":"1"}`); err == nil {
		t.Error("it was let through")
	}
}

func TestAFlowWithoutASchemaTakesAnyData(t *testing.T) {
	s, err := loadText(flowText(nil))
	if err != nil || s.Flows[0].HasSchema() {
		t.Fatal(err)
	}
	if err := validate(t, s.Flows[0], `7`); err != nil {
		t.Error(err)
	}
}
