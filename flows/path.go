package flows

import (
	"errors"
	"fmt"

	"github.com/theory/jsonpath"
	"github.com/theory/jsonpath/spec"
)

// path is a JSONPath that names at most one value of an event.
type path struct {
	text  string
	query *jsonpath.Path
	steps []spec.Selector
}

var (
	errNotSingular = errors.New("may name more than one value: use names and indices only, as in $.data.order_no")
	errWholeEvent  = errors.New("names the whole event: use a path such as $.data.order_no")
)

func parsePath(text string) (path, error) {
	q, err := jsonpath.Parse(text)
	if err != nil {
		return path{}, fmt.Errorf("is no JSONPath: %w", err)
	}
	if q.Query().Singular() == nil {
		return path{}, errNotSingular
	}
	p := path{text: text, query: q}
	for _, segment := range q.Query().Segments() {
		p.steps = append(p.steps, segment.Selectors()...)
	}
	if len(p.steps) == 0 {
		return path{}, errWholeEvent
	}
	return p, nil
}

// find returns the value that the path names; ok is false where there is none.
func (p path) find(tree map[string]any) (v any, ok bool) {
	nodes := p.query.Select(tree)
	if len(nodes) == 0 {
		return nil, false
	}
	return nodes[0], true
}

// prune returns the payload without the values that the paths name. Members of
// objects go; elements of arrays become null, so that their neighbours keep
// their places. The payload itself is not changed. Paths outside $.data name
// nothing of it.
func prune(payload any, paths []path) any {
	for _, p := range paths {
		if len(p.steps) > 1 && p.steps[0] == spec.Name("data") {
			payload = without(payload, p.steps[1:])
		}
	}
	return payload
}

func without(v any, steps []spec.Selector) any {
	switch step := steps[0].(type) {
	case spec.Name:
		object, ok := v.(map[string]any)
		if !ok {
			return v
		}
		child, ok := object[string(step)]
		if !ok {
			return v
		}
		copied := make(map[string]any, len(object))
		for name, member := range object {
			copied[name] = member
		}
		if len(steps) == 1 {
			delete(copied, string(step))
		} else {
			copied[string(step)] = without(child, steps[1:])
		}
		return copied
	case spec.Index:
		array, ok := v.([]any)
		i := int(step)
		if i < 0 {
			i += len(array)
		}
		if !ok || i < 0 || i >= len(array) {
			return v
		}
		copied := append([]any(nil), array...)
		if len(steps) == 1 {
			copied[i] = nil
		} else {
			copied[i] = without(array[i], steps[1:])
		}
		return copied
	default:
		return v
	}
}
