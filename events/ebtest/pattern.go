package ebtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
)

// pattern is one object level of an event pattern. All its fields must match;
// of the tests of one field, one must.
type pattern struct {
	fields []patternField
}

type patternField struct {
	name   string
	nested *pattern // nil for a list of tests
	tests  []test
}

// test judges one value of an event. present is false where the event has no
// such field; only "exists" may match then.
type test func(v any, present bool) bool

// parsePattern compiles an event pattern. nil, null and {} match every event.
// What the service documents is understood; anything else is an error, so that
// a rule cannot silently mean something else here than there.
func parsePattern(raw json.RawMessage) (*pattern, error) {
	if len(bytes.TrimSpace(raw)) == 0 {
		return &pattern{}, nil
	}
	v, err := decode(raw)
	if err != nil {
		return nil, fmt.Errorf("parse pattern: %w", err)
	}
	if v == nil {
		return &pattern{}, nil
	}
	obj, ok := v.(map[string]any)
	if !ok {
		return nil, fmt.Errorf("parse pattern: not an object")
	}
	p, err := compile(obj)
	if err != nil {
		return nil, fmt.Errorf("parse pattern: %w", err)
	}
	return p, nil
}

func compile(obj map[string]any) (*pattern, error) {
	p := &pattern{}
	for name, v := range obj {
		f := patternField{name: name}
		switch v := v.(type) {
		case map[string]any:
			nested, err := compile(v)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			f.nested = nested
		case []any:
			if len(v) == 0 {
				return nil, fmt.Errorf("%s: empty list", name)
			}
			for _, one := range v {
				t, err := compileTest(one)
				if err != nil {
					return nil, fmt.Errorf("%s: %w", name, err)
				}
				f.tests = append(f.tests, t)
			}
		default:
			return nil, fmt.Errorf("%s: want a list or an object", name)
		}
		p.fields = append(p.fields, f)
	}
	return p, nil
}

// match judges an event or an object inside it. A list of objects matches if
// one of its members does.
func (p *pattern) match(v any) bool {
	if list, ok := v.([]any); ok {
		return slices.ContainsFunc(list, p.match)
	}
	obj, _ := v.(map[string]any) // nil, where v is no object: every field is absent
	for _, f := range p.fields {
		got, present := obj[f.name]
		if f.nested != nil {
			if !f.nested.match(got) {
				return false
			}
			continue
		}
		if !slices.ContainsFunc(f.tests, func(t test) bool { return t(got, present) }) {
			return false
		}
	}
	return true
}

// decode reads JSON with its numbers as they are spelled: the service compares
// 300, 300.0 and 3.0e2 as different values.
func decode(raw []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("more than one JSON value")
	}
	return v, nil
}
