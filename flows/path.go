package flows

import (
	"errors"
	"fmt"

	"github.com/theory/jsonpath"
	"github.com/theory/jsonpath/spec"

	"github.com/oncegate/oncegate/internal/strictjson"
)

// path is a JSONPath that names at most one value of an event.
type path struct {
	text  string
	steps []spec.Selector
	place strictjson.Path // the steps, once more
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
	p := path{text: text}
	for _, segment := range q.Query().Segments() {
		p.steps = append(p.steps, segment.Selectors()...)
	}
	for _, step := range p.steps {
		switch step := step.(type) {
		case spec.Name:
			p.place = append(p.place, strictjson.Step{Name: string(step)})
		case spec.Index:
			p.place = append(p.place, strictjson.Step{Index: int(step), Element: true})
		default:
			return path{}, errNotSingular
		}
	}
	if len(p.steps) == 0 {
		return path{}, errWholeEvent
	}
	return p, nil
}

// source is what paths are read from: an event, or what a flow sees of one.
type source interface {
	At(strictjson.Path) strictjson.Value
}

// find returns the value that the path names, a missing one where there is none.
func (p path) find(in source) strictjson.Value { return in.At(p.place) }

// inData returns those of the paths that name a part of the event's data, as
// they lead there from the data.
func inData(paths []path) []strictjson.Path {
	var places []strictjson.Path
	for _, p := range paths {
		if len(p.place) > 1 && p.place[0].Name == "data" {
			places = append(places, p.place[1:])
		}
	}
	return places
}
