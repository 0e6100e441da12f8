// Package flows says what runs: which events belong to which business, what
// makes two events the same business, and which processor does the work.
//
// flows.yaml is checked as a whole when it is loaded, against a sample event of
// each flow: a path that names nothing in the sample, two flows that could match
// the same event, and two flows that could make equal keys are refused by name
// before any event is touched.
package flows

import (
	"slices"

	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/idempotency"
)

// Flow is one checked entry of flows.yaml.
type Flow struct {
	Name             string
	Owner            string // who is asked when a person has to decide
	NumberOwner      string // who generates the business number in the key
	Enabled          bool
	MaxAttempts      int64
	Processor        string
	ProcessorVersion string // of flows.yaml; the effective version adds the processor's own

	environment path
	match       []condition
	key         []keyField
	ignore      []path
}

// condition holds where an event's value is one of the wanted texts.
type condition struct {
	path path
	want []string
}

type keyField struct {
	name      string
	constant  string // where path is not set
	path      *path
	sensitive bool
}

// Matches reports whether an event belongs to the flow.
func (f *Flow) Matches(e *events.Event) bool {
	for _, c := range f.match {
		v, _ := c.path.find(e.Tree)
		s, ok := v.(string)
		if !ok || !slices.Contains(c.want, s) {
			return false
		}
	}
	return true
}

// Environment is the event's environment, "" where it names none.
func (f *Flow) Environment(e *events.Event) string {
	v, _ := f.environment.find(e.Tree)
	s, _ := v.(string)
	return s
}

// Key derives the event's idempotency key. The error is an *idempotency.FieldError.
func (f *Flow) Key(e *events.Event, secret []byte) (idempotency.Key, error) {
	fields := make([]idempotency.Field, len(f.key))
	for i, k := range f.key {
		fields[i] = idempotency.Field{Name: k.name, Value: k.constant, Sensitive: k.sensitive}
		if k.path != nil {
			fields[i].Value, _ = k.path.find(e.Tree)
		}
	}
	return idempotency.DeriveKey(fields, secret)
}

// Digest is the event's input digest: its payload less the key's own paths and
// the ignored ones. Two events of one key with different digests are a conflict.
func (f *Flow) Digest(e *events.Event) (string, error) {
	if e.Binary != nil {
		return idempotency.DigestBinary(e.Binary), nil
	}
	payload, _ := e.Payload()
	return idempotency.Digest(prune(payload, f.inputPaths()))
}

func (f *Flow) inputPaths() []path {
	paths := slices.Clone(f.ignore)
	for _, k := range f.key {
		if k.path != nil {
			paths = append(paths, *k.path)
		}
	}
	return paths
}

// NeedsSecret reports whether the key has sensitive fields.
func (f *Flow) NeedsSecret() bool {
	return slices.ContainsFunc(f.key, func(k keyField) bool { return k.sensitive })
}

// Set is a checked flows.yaml.
type Set struct{ Flows []*Flow }

// Find returns the one flow that an event belongs to, nil where there is none.
func (s *Set) Find(e *events.Event) *Flow {
	for _, f := range s.Flows {
		if f.Matches(e) {
			return f
		}
	}
	return nil
}

// NeedsSecret returns the names of flows whose keys need a key secret.
func (s *Set) NeedsSecret() []string {
	var names []string
	for _, f := range s.Flows {
		if f.NeedsSecret() {
			names = append(names, f.Name)
		}
	}
	return names
}
