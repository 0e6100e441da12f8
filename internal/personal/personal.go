// Package personal finds values in an event that are shaped like a secret or
// like personal data, so that a person can be warned before they travel.
//
// It looks at shapes alone, and prefers silence to a false alarm: an order
// number of 18 digits is an id card number only where region, birthday and check
// digit are right. A finding says where, never what.
package personal

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Shape is what a value looks like.
type Shape string

// The closed set of shapes.
const (
	AccessKey Shape = "access key"
	Token     Shape = "token"
	IDCard    Shape = "id card number"
	Phone     Shape = "phone number"
)

// Finding is one place with a value of one shape.
type Finding struct {
	// Path is a JSONPath such as $.data.note, or $.data.* for the name of a
	// member itself. A name that is itself of a shape is shown as *.
	Path  string
	Shape Shape
}

// maxFindings bounds what is said of one event.
const maxFindings = 20

// Find looks through a tree as package strictjson reads it, in order of names.
// known are places that may hold such values, as steps of names (string) and
// indices (int).
func Find(tree any, known [][]any) []Finding {
	f := finder{known: known}
	f.value(tree, nil, "$")
	return f.found
}

type finder struct {
	known [][]any
	found []Finding
}

func (f *finder) value(v any, steps []any, path string) {
	if len(f.found) >= maxFindings || slices.ContainsFunc(f.known, func(k []any) bool { return slices.Equal(k, steps) }) {
		return
	}
	switch v := v.(type) {
	case string:
		f.text(v, path)
	case json.Number:
		f.text(v.String(), path)
	case []any:
		for i, one := range v {
			f.value(one, append(slices.Clip(steps), i), path+"["+strconv.Itoa(i)+"]")
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			shown := pathOf(name)
			if len(shapesIn(name)) > 0 {
				f.text(name, path+".*")
				shown = ".*"
			}
			f.value(v[name], append(slices.Clip(steps), name), path+shown)
		}
	}
}

func (f *finder) text(s, path string) {
	for _, shape := range shapesIn(s) {
		one := Finding{path, shape}
		if len(f.found) < maxFindings && !slices.Contains(f.found, one) {
			f.found = append(f.found, one)
		}
	}
}

// pathOf is a name as a step of a JSONPath.
func pathOf(name string) string {
	plain := name != "" && (name[0] < '0' || name[0] > '9')
	for _, r := range name {
		plain = plain && (r == '_' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9')
	}
	if plain {
		return "." + name
	}
	if len(name) > 64 {
		return ".*"
	}
	return "['" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(name) + "']"
}
