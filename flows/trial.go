package flows

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/theory/jsonpath/spec"

	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/idempotency"
)

// Trial is a business that exists for a test only: the flow's sample event,
// with key fields that no real business has.
type Trial struct {
	// Marked are the key fields that hold the mark, by name.
	Marked map[string]string

	flow *Flow
	tree map[string]any
}

// Errors of NewTrial and Changed: why a flow cannot be tried with its sample.
var (
	ErrTrialContent = errors.New("the event names content in OSS, whose hash is its business number: try it with an event and an object of your own")
	ErrTrialBinary  = errors.New("the payload is no JSON: there is nothing to mark in it")
	ErrTrialNumber  = errors.New("no key field comes from the event alone: there is nothing to mark")
	ErrTrialInput   = errors.New("nothing of the sample's payload can change without changing the key or breaking the schema")
)

// NewTrial marks every key field that comes from the event, but those named in
// keep and those that the flow also matches by: a text becomes the mark, a
// number becomes number. The event names environment as its own.
func (f *Flow) NewTrial(mark string, number int64, environment string, keep []string) (*Trial, error) {
	if f.content != nil {
		return nil, ErrTrialContent
	}
	in, err := f.Input(f.sample)
	if err != nil {
		return nil, err
	}
	if in.Payload() == nil {
		return nil, ErrTrialBinary
	}
	t := &Trial{map[string]string{}, f, in.Tree()}
	for _, k := range f.key {
		if k.path == nil || slices.Contains(keep, k.name) || slices.ContainsFunc(f.match, func(c condition) bool { return c.path.text == k.path.text }) {
			continue
		}
		var value any = mark
		if isNumber(k.path.find(in).Any()) {
			value = json.Number(fmt.Sprint(number))
		}
		t.tree = replaced(t.tree, k.path.steps, value).(map[string]any)
		t.Marked[k.name] = fmt.Sprint(value)
	}
	if len(t.Marked) == 0 {
		return nil, ErrTrialNumber
	}
	t.tree = replaced(t.tree, f.environment.steps, environment).(map[string]any)
	raw, err := t.Event("trial")
	if err != nil {
		return nil, err
	}
	e, err := events.Decode(raw)
	if err != nil {
		return nil, err
	}
	if in, err = f.Input(e); err != nil {
		return nil, err
	}
	if err := f.Validate(in); err != nil {
		return nil, fmt.Errorf("the schema refuses the mark: %w", err)
	}
	return t, nil
}

func isNumber(v any) bool { _, ok := v.(json.Number); return ok }

// Event is the business under an event id.
func (t *Trial) Event(id string) ([]byte, error) { return t.encode(id, t.tree) }

// Changed is another input of the same business: the same key, another digest.
func (t *Trial) Changed(id string) ([]byte, error) {
	data, ok := t.tree["data"].(map[string]any)
	if !ok {
		return nil, ErrTrialInput
	}
	tries := []map[string]any{replaced(t.tree, []spec.Selector{spec.Name("data"), spec.Name("oncegate_changed")}, true).(map[string]any)}
	for _, name := range slices.Sorted(maps.Keys(data)) {
		if s, ok := data[name].(string); ok {
			tries = append(tries, replaced(t.tree, []spec.Selector{spec.Name("data"), spec.Name(name)}, s+" (changed)").(map[string]any))
		}
	}
	for _, tree := range tries {
		raw, err := t.encode(id, tree)
		if err == nil && t.isChange(raw) {
			return raw, nil
		}
	}
	return nil, ErrTrialInput
}

func (t *Trial) isChange(raw []byte) bool {
	was, err := t.Event("was")
	if err != nil {
		return false
	}
	oldKey, oldDigest, err := t.meaning(was)
	if err != nil {
		return false
	}
	key, digest, err := t.meaning(raw)
	return err == nil && key == oldKey && digest != oldDigest
}

// meaning is key and digest of an event that the flow would run.
func (t *Trial) meaning(raw []byte) (key, digest string, err error) {
	e, err := events.Decode(raw)
	if err != nil {
		return "", "", err
	}
	if !t.flow.Matches(e) {
		return "", "", errors.New("it does not match any more")
	}
	in, err := t.flow.Input(e)
	if err != nil {
		return "", "", err
	}
	if err := t.flow.Validate(in); err != nil {
		return "", "", err
	}
	// Any secret tells equal keys from others.
	var k idempotency.Key
	if k, err = t.flow.Key(in, []byte("only to compare two keys of one event")); err != nil {
		return "", "", err
	}
	return k.Hex, t.flow.Digest(in), nil
}

func (t *Trial) encode(id string, tree map[string]any) ([]byte, error) {
	out := maps.Clone(tree)
	out["id"] = id
	if p := t.flow.payload; p != nil {
		raw, err := json.Marshal(tree["data"])
		if err != nil {
			return nil, fmt.Errorf("encode trial: %w", err)
		}
		text := string(raw)
		if p.decode == decodeBase64JSON {
			text = base64.StdEncoding.EncodeToString(raw)
		}
		out["data"] = t.flow.sample.Tree()["data"]
		out = replaced(out, p.path.steps, text).(map[string]any)
	}
	raw, err := json.Marshal(out)
	if err != nil {
		return nil, fmt.Errorf("encode trial: %w", err)
	}
	return raw, nil
}

// replaced returns v with another value at a place that is there, or one more member
// of an object. v itself is not changed.
func replaced(v any, steps []spec.Selector, value any) any {
	if len(steps) == 0 {
		return value
	}
	switch step := steps[0].(type) {
	case spec.Name:
		if object, ok := v.(map[string]any); ok {
			object = maps.Clone(object)
			object[string(step)] = replaced(object[string(step)], steps[1:], value)
			return object
		}
	case spec.Index:
		array, ok := v.([]any)
		i := int(step)
		if i < 0 {
			i += len(array)
		}
		if ok && i >= 0 && i < len(array) {
			array = slices.Clone(array)
			array[i] = replaced(array[i], steps[1:], value)
			return array
		}
	}
	return v
}
