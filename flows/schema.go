package flows

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"

	"github.com/oncegate/oncegate/internal/strictjson"
)

// dataSchema is the JSON Schema that a flow's payload must meet (draft 2020-12
// unless $schema names another). Keyword format is an annotation, as that draft
// says: an event is never refused for its time.
type dataSchema struct {
	compiled *jsonschema.Schema
	names    map[string]bool // of properties that the schema itself names
}

// SchemaError says where a payload breaks its flow's data schema. Its text holds
// words of the schema and places in arrays, never a value or a name of the event.
type SchemaError struct {
	Version string // of the flow's schema
	Path    string // JSON pointer into the payload; * for a name that the schema does not know
	Keyword string
	Missing []string // of keyword required, as the schema names them
}

func (e *SchemaError) Error() string {
	path := e.Path
	if path == "" {
		path = "/"
	}
	text := fmt.Sprintf("the data breaks schema version %s at %s: %s", e.Version, path, e.Keyword)
	if len(e.Missing) > 0 {
		text += " " + strings.Join(e.Missing, ", ")
	}
	return text
}

// noLoader refuses every reference that leaves the schema: nothing is read from
// disk or network.
type noLoader struct{}

var errForeign = errors.New("a schema may refer to itself alone")

func (noLoader) Load(string) (any, error) { return nil, errForeign }

const schemaURL = "oncegate:///data_schema.json"

// newSchema compiles a schema that stands in flows.yaml as YAML, or as a text of JSON.
func newSchema(from any) (*dataSchema, error) {
	raw, isText := []byte(nil), false
	if s, ok := from.(string); ok {
		raw, isText = []byte(s), true
	} else {
		var err error
		if raw, err = json.Marshal(from); err != nil {
			return nil, errors.New("has names that are no texts")
		}
	}
	doc, err := strictjson.Parse(raw)
	if err != nil {
		if isText {
			return nil, fmt.Errorf("is no JSON: %w", err)
		}
		return nil, err
	}
	if _, ok := doc.(map[string]any); !ok {
		return nil, errors.New("must be an object")
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	if err := c.AddResource(schemaURL, doc); err != nil {
		return nil, fmt.Errorf("is no JSON Schema: %w", err)
	}
	compiled, err := c.Compile(schemaURL)
	if err != nil {
		return nil, fmt.Errorf("is no JSON Schema: %w", err)
	}
	s := &dataSchema{compiled, map[string]bool{}}
	s.collect(doc)
	return s, nil
}

// collect notes the names of properties: those may be shown.
func (s *dataSchema) collect(v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, child := range v {
			if members, ok := child.(map[string]any); ok && name == "properties" {
				for member := range members {
					s.names[member] = true
				}
			}
			s.collect(child)
		}
	case []any:
		for _, child := range v {
			s.collect(child)
		}
	}
}

// hugeExponent matches numbers that no arithmetic should be done with.
var hugeExponent = regexp.MustCompile(`[eE][+-]?0*[0-9]{4,}$`)

// tooLarge looks for a number that exact arithmetic would choke on.
func tooLarge(v any, at []string) ([]string, bool) {
	switch v := v.(type) {
	case json.Number:
		return at, hugeExponent.MatchString(v.String())
	case map[string]any:
		for name, child := range v {
			if path, found := tooLarge(child, append(slices.Clone(at), name)); found {
				return path, true
			}
		}
	case []any:
		for i, child := range v {
			if path, found := tooLarge(child, append(slices.Clone(at), strconv.Itoa(i))); found {
				return path, true
			}
		}
	}
	return nil, false
}

func (s *dataSchema) check(payload any) *SchemaError {
	if path, found := tooLarge(payload, nil); found {
		return &SchemaError{Path: s.show(payload, path), Keyword: "number too large"}
	}
	err := s.compiled.Validate(payload)
	if err == nil {
		return nil
	}
	var broken *jsonschema.ValidationError
	if !errors.As(err, &broken) {
		return &SchemaError{Keyword: "not a JSON value"}
	}
	// The validator walks objects in no order: the first by path and keyword is
	// what every run names.
	var first *SchemaError
	s.leaves(payload, broken, func(e *SchemaError) {
		if first == nil || e.Path < first.Path || (e.Path == first.Path && e.Keyword < first.Keyword) {
			first = e
		}
	})
	return first
}

func (s *dataSchema) leaves(payload any, e *jsonschema.ValidationError, each func(*SchemaError)) {
	whole := false // what failed as a whole: its branches are no finding of their own
	switch e.ErrorKind.(type) {
	case *kind.AnyOf, *kind.OneOf, *kind.Not, *kind.Contains:
		whole = true
	}
	if len(e.Causes) > 0 && !whole {
		for _, cause := range e.Causes {
			s.leaves(payload, cause, each)
		}
		return
	}
	found := &SchemaError{Path: s.show(payload, e.InstanceLocation), Keyword: "false"}
	if words := e.ErrorKind.KeywordPath(); len(words) > 0 {
		found.Keyword = words[0]
	}
	if missing, ok := e.ErrorKind.(*kind.Required); ok {
		found.Missing = slices.Sorted(slices.Values(missing.Missing))
	}
	each(found)
}

// show is a path with the names that the schema knows.
func (s *dataSchema) show(v any, path []string) string {
	var b strings.Builder
	for _, step := range path {
		shown := "*"
		switch at := v.(type) {
		case map[string]any:
			if s.names[step] {
				shown = strings.NewReplacer("~", "~0", "/", "~1").Replace(step)
			}
			v = at[step]
		case []any:
			if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(at) {
				shown, v = step, at[i]
			}
		}
		b.WriteString("/" + shown)
	}
	return b.String()
}

// Validate checks an input against the flow's data schema. The error is a
// *SchemaError; a flow without a schema takes any data.
func (f *Flow) Validate(in *Input) error {
	if f.schema == nil {
		return nil
	}
	if in.Binary != nil {
		return &SchemaError{Version: f.SchemaVersion, Keyword: "not JSON"}
	}
	if err := f.schema.check(in.Payload()); err != nil {
		err.Version = f.SchemaVersion
		return err
	}
	return nil
}

// HasSchema reports whether the flow checks its data.
func (f *Flow) HasSchema() bool { return f.schema != nil }

func (c *checker) schema(f *Flow, version string, schema any) {
	f.SchemaVersion = version
	if version != "" && !versionName.MatchString(version) {
		c.fail("schema_version", "must be letters, digits, dots and dashes")
	}
	if schema == nil {
		return
	}
	if version == "" {
		c.fail("schema_version", "is missing: data_schema needs a name that migrations can lead to")
	}
	s, err := newSchema(schema)
	if err != nil {
		c.fail("data_schema", "%v", err)
		return
	}
	f.schema = s
}

// versionName is what names of schema versions are made of; two dots in a row
// stand between two of them.
var versionName = regexp.MustCompile(`^[A-Za-z0-9]+([.-][A-Za-z0-9]+)*$`)
