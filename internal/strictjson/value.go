package strictjson

import (
	"bytes"
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"
)

// Value is the text of one JSON value that has passed the strict check. What it
// holds is read when it is asked for, so that an event of which two fields
// matter costs no tree. The zero Value stands for one that is missing.
type Value struct{ raw []byte }

// Check reads exactly one JSON value as Parse does, with the same errors, and
// builds nothing.
func Check(raw []byte) (Value, error) {
	if jsontext.Value(raw).IsValid() && depth(raw) <= MaxDepth {
		return Value{bytes.Trim(raw, blanks)}, nil
	}
	if _, err := Parse(raw); err != nil {
		return Value{}, err
	}
	return Value{}, &SyntaxError{"invalid syntax", 0}
}

// CheckObject reads exactly one JSON object as ParseObject does, with the same
// errors, and builds nothing.
func CheckObject(raw []byte) (Value, error) {
	if v, err := Check(raw); err == nil && v.Kind() == '{' {
		return v, nil
	}
	if _, _, err := ParseObject(raw); err != nil {
		return Value{}, err
	}
	return Value{}, &SyntaxError{"invalid syntax", 0}
}

const blanks = " \t\r\n"

// Exists reports whether there is a value.
func (v Value) Exists() bool { return len(v.raw) > 0 }

// Raw is the value's text, nil where it is missing.
func (v Value) Raw() []byte { return v.raw }

// Kind is the first byte of the value's text: { [ " t f n, or 0 for every number.
// A missing value has none of them.
func (v Value) Kind() byte {
	if !v.Exists() {
		return ' '
	}
	return kind(v.raw[0])
}

// Text is what a string holds; ok is false for every other value.
func (v Value) Text() (text string, ok bool) {
	if v.Kind() != '"' {
		return "", false
	}
	return string(Unquote(v.raw)), true
}

// Member returns a member of an object.
func (v Value) Member(name string) Value {
	if v.Kind() != '{' {
		return Value{}
	}
	c := v.Cursor()
	for c.Open(); c.More(); c.Skip() {
		if NameIs(c.Name(), name) {
			return Value{c.Skip()}
		}
	}
	return Value{}
}

// Element returns an element of an array, counted from the end where i is negative.
func (v Value) Element(i int) Value {
	if v.Kind() != '[' {
		return Value{}
	}
	if i < 0 {
		i += v.Length()
	}
	c := v.Cursor()
	c.Open()
	for n := 0; c.More(); n++ {
		text := c.Skip()
		if n == i {
			return Value{text}
		}
	}
	return Value{}
}

// Members calls each for the members of an object, in their order.
func (v Value) Members(each func(name []byte, member Value)) {
	if v.Kind() != '{' {
		return
	}
	c := v.Cursor()
	for c.Open(); c.More(); {
		name := c.Name()
		each(name, Value{c.Skip()})
	}
}

// Any builds the value as Parse does; nil for a missing one.
func (v Value) Any() any {
	if !v.Exists() {
		return nil
	}
	c := v.Cursor()
	return c.any()
}

// Cursor reads the value from its beginning; the value must not be missing.
func (v Value) Cursor() Cursor { return Cursor{raw: v.raw} }

func (c *Cursor) any() any {
	switch c.Kind() {
	case '{':
		object := map[string]any{}
		for c.Open(); c.More(); {
			name := string(Unquote(c.Name()))
			object[name] = c.any()
		}
		return object
	case '[':
		array := []any{}
		for c.Open(); c.More(); {
			array = append(array, c.any())
		}
		return array
	case '"':
		return string(Unquote(c.Skip()))
	case '0':
		return json.Number(c.Skip())
	case 't':
		c.Skip()
		return true
	case 'f':
		c.Skip()
		return false
	default:
		c.Skip()
		return nil
	}
}
