// Package flows says what runs: which events belong to which business, what
// makes two events the same business, and which processor does the work.
//
// flows.yaml is checked as a whole when it is loaded, against a sample event of
// each flow: a path that names nothing in the sample, two flows that could match
// the same event, and two flows that could make equal keys are refused by name
// before any event is touched.
package flows

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/theory/jsonpath/spec"

	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/strictjson"
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
	Effects          []*DeclaredEffect
	SchemaVersion    string // name of the data's version, where migrations lead to; "" where it has none
	Sample           []byte // one event of the flow, as flows.yaml gives it

	environment path
	match       []condition
	payload     *wrapped
	key         []keyField
	ignore      []path
	without     []strictjson.Path // what noInput returns
	content     *reference
	schema      *dataSchema
	sample      *events.Event
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
		s, ok := c.path.find(e).Text()
		if !ok || !slices.Contains(c.want, s) {
			return false
		}
	}
	return true
}

// Environment is the event's environment, "" where it names none.
func (f *Flow) Environment(e *events.Event) string {
	s, _ := f.environment.find(e).Text()
	return s
}

// Key derives the input's idempotency key. The error is an *idempotency.FieldError.
func (f *Flow) Key(in *Input, secret []byte) (idempotency.Key, error) {
	fields := make([]idempotency.Field, len(f.key))
	for i, k := range f.key {
		fields[i] = idempotency.Field{Name: k.name, Value: k.constant, Sensitive: k.sensitive}
		if k.path != nil {
			fields[i].Value = k.path.find(in).Any()
		}
	}
	return idempotency.DeriveKey(fields, secret)
}

// Digest is the input digest: the payload less the key's own paths and the
// ignored ones. Two events of one key with different digests are a conflict.
func (f *Flow) Digest(in *Input) string {
	if in.Binary != nil {
		return idempotency.DigestBinary(in.Binary)
	}
	return idempotency.Digest(in.data, f.without...)
}

// noInput leads, within the data, to what the key and the ignored paths name.
func (f *Flow) noInput() []strictjson.Path {
	paths := slices.Clone(f.ignore)
	for _, k := range f.key {
		if k.path != nil {
			paths = append(paths, *k.path)
		}
	}
	return inData(paths)
}

// MatchRule is what an event must hold, as text.
func (f *Flow) MatchRule() string {
	var rule []string
	for _, c := range f.match {
		rule = append(rule, c.path.text+" in "+strings.Join(c.want, " | "))
	}
	return strings.Join(rule, ", ")
}

// IgnoreRule is what does not belong to the input, as text.
func (f *Flow) IgnoreRule() string {
	var rule []string
	for _, p := range f.ignore {
		rule = append(rule, p.text)
	}
	return strings.Join(rule, ", ")
}

// KeyRule is the key rule as text: names, and for each its constant or path. Two
// rules with different texts may give one business two keys.
func (f *Flow) KeyRule() string {
	var rule []string
	if f.payload != nil {
		rule = append(rule, "payload="+f.payload.path.text+" "+f.payload.decode)
	}
	for _, k := range f.key {
		switch {
		case k.path == nil:
			rule = append(rule, k.name+"="+strconv.Quote(k.constant))
		case k.sensitive:
			rule = append(rule, k.name+"="+k.path.text+" (sensitive)")
		default:
			rule = append(rule, k.name+"="+k.path.text)
		}
	}
	return strings.Join(rule, ", ")
}

// KeyRuleID is a fingerprint of the key rule and, where the key has sensitive
// fields, of the secret: it changes with either. It tells nothing of the secret.
func (f *Flow) KeyRuleID(secret []byte) string {
	parts := map[string]string{"flow": f.Name, "rule": f.KeyRule()}
	if f.NeedsSecret() {
		mac := hmac.New(sha256.New, secret)
		mac.Write([]byte("oncegate key rule v1"))
		parts["secret"] = hex.EncodeToString(mac.Sum(nil))
	}
	return idempotency.HashOf(parts)[:12]
}

// Compose makes an event of the flow from a bare payload, for records that other
// systems export: the flow's first type and source, this environment, and the
// payload as it is.
func (f *Flow) Compose(eventID, environment string, payload json.RawMessage) ([]byte, error) {
	attributes := map[string]string{"specversion": "1.0", "id": eventID, "source": "oncegate.record", "datacontenttype": "application/json"}
	for _, c := range f.match {
		if len(c.path.steps) == 1 {
			if name, ok := c.path.steps[0].(spec.Name); ok {
				attributes[string(name)] = c.want[0]
			}
		}
	}
	if len(f.environment.steps) == 1 {
		if name, ok := f.environment.steps[0].(spec.Name); ok {
			attributes[string(name)] = environment
		}
	}
	head, err := json.Marshal(attributes)
	if err != nil {
		return nil, fmt.Errorf("compose event: %w", err)
	}
	raw := append(head[:len(head)-1], `,"data":`...)
	return append(append(raw, payload...), '}'), nil
}

// EnvironmentPath is where the event's environment is read from.
func (f *Flow) EnvironmentPath() string { return f.environment.text }

// FieldKey derives the key of named values, as a person types them: constants
// are filled in, every other field must be given.
func (f *Flow) FieldKey(values map[string]string, secret []byte) (idempotency.Key, error) {
	var fields []idempotency.Field
	used := 0
	for _, k := range f.key {
		field := idempotency.Field{Name: k.name, Value: k.constant, Sensitive: k.sensitive}
		if k.path != nil {
			v, given := values[k.name]
			if !given {
				return idempotency.Key{}, &idempotency.FieldError{Field: k.name, Reason: "is not given"}
			}
			field.Value = v
			used++
		}
		fields = append(fields, field)
	}
	if used != len(values) {
		for name := range values {
			if !slices.ContainsFunc(f.key, func(k keyField) bool { return k.name == name && k.path != nil }) {
				return idempotency.Key{}, &idempotency.FieldError{Field: name, Reason: "is no field of the flow's key that can be given"}
			}
		}
	}
	return idempotency.DeriveKey(fields, secret)
}

// NeedsSecret reports whether the key has sensitive fields.
func (f *Flow) NeedsSecret() bool {
	sensitive := func(k keyField) bool { return k.sensitive }
	return slices.ContainsFunc(f.key, sensitive) ||
		slices.ContainsFunc(f.Effects, func(d *DeclaredEffect) bool { return slices.ContainsFunc(d.fields, sensitive) })
}

// Set is a checked flows.yaml.
type Set struct {
	Flows  []*Flow
	Replay Replay // bounds of replays; package deadletter checks them
}

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
