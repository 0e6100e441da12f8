package flows

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/theory/jsonpath/spec"

	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/strictjson"
)

// MigrationEvent is what a migration turns into another version.
type MigrationEvent struct {
	ID, Source, Type, Subject string // to go by; a migration cannot change them
	// Payload is the flow's payload as package strictjson reads it: numbers are
	// json.Number. A migration may change it in place.
	Payload any
}

// Migration turns data of one version into data of another: explicit code, which
// a person names when a dead letter needs it.
type Migration struct {
	Flow string
	// From and To are schema_version names of the flow, two different ones.
	From, To string
	// Migrate must give the same for the same event. An error's text is shown to
	// operators: it names fields and holds no value of the event.
	Migrate func(MigrationEvent) (MigrationEvent, error)
}

// Identity is the name of the migration that every flow has: the data stays byte
// for byte as it is, for a fault that a new version of the code has repaired.
const Identity = "identity"

// Name is FROM..TO, or identity.
func (m Migration) Name() string {
	if m.Migrate == nil {
		return Identity
	}
	return m.From + ".." + m.To
}

// migrations are the migrations of this package, as constructors are its processors.
var migrations []Migration

// registerMigration makes a migration known. Call it in a package-level
// declaration of the migration's own file:
//
//	var _ = registerMigration(Migration{Flow: "order.create", From: "1", To: "2", Migrate: orderTwo})
func registerMigration(m Migration) bool {
	if m.Flow == "" || m.Migrate == nil || m.From == m.To || !versionName.MatchString(m.From) || !versionName.MatchString(m.To) {
		panic("flows: migration " + m.Flow + " " + m.From + ".." + m.To + " is not complete")
	}
	if slices.ContainsFunc(migrations, func(o Migration) bool { return o.Flow == m.Flow && o.Name() == m.Name() }) {
		panic("flows: migration " + m.Flow + " " + m.Name() + " is registered twice")
	}
	migrations = append(migrations, m)
	return true
}

// Migrations are the registered migrations.
func Migrations() []Migration { return slices.Clone(migrations) }

// FindMigration picks a flow's migration: by the version that it leads to, by
// FROM..TO where several lead there, or Identity.
func FindMigration(all []Migration, flow, to string) (Migration, error) {
	if to == Identity {
		return Migration{Flow: flow}, nil
	}
	var found, known []string
	var one Migration
	for _, m := range all {
		if m.Flow != flow {
			continue
		}
		known = append(known, m.Name())
		if m.Name() == to || m.To == to {
			one = m
			found = append(found, m.Name())
		}
	}
	switch len(found) {
	case 1:
		return one, nil
	case 0:
		return Migration{}, fmt.Errorf("flow %s has no migration to %q; there are %s", flow, to, strings.Join(append(known, Identity), ", "))
	default:
		return Migration{}, fmt.Errorf("flow %s has several migrations to %q: name one of %s", flow, to, strings.Join(found, ", "))
	}
}

// OriginalID is the extension that a migrated event carries: the id of the event
// that its line began with.
const OriginalID = "originaleventid"

// ChildEventID is the id of the event that a migration makes of a letter's
// event: the same however often it is made.
func ChildEventID(letterID, migration string) string {
	return "mig-" + idempotency.HashOf(map[string]string{"letter_id": letterID, "migration": migration})[:32]
}

// Errors of Child; their texts are fixed.
var (
	errBinary    = errors.New("the data is no JSON: the identity migration alone can take it")
	errEnvelope  = errors.New("the migration changes more than the payload")
	errUnchanged = errors.New("the migration changes nothing: is the event of the version that it starts from?")
)

// Child makes the migrated event of a parent: the same source, type and subject,
// a new id, and the id of the event that the line began with. The error says
// what stands against it.
func (f *Flow) Child(parent *events.Event, m Migration, childID string) ([]byte, error) {
	original := parent.Extension(OriginalID)
	if original == "" {
		original = parent.ID()
	}
	_, members, err := strictjson.ParseObject(parent.Raw)
	if err != nil {
		return nil, fmt.Errorf("make child: %w", err)
	}
	changed := map[string]any{"id": childID, OriginalID: original}
	if m.Migrate != nil {
		data, err := f.migrated(parent, m)
		if err != nil {
			return nil, fmt.Errorf("migrate %s: %w", m.Name(), err)
		}
		changed["data"] = data
		// Neither holds for the new data.
		delete(members, "data_base64")
		delete(members, "dataschema")
	}
	for name, v := range changed {
		if members[name], err = encode(v); err != nil {
			return nil, fmt.Errorf("make child: %w", err)
		}
	}
	return compose(members), nil
}

// compose writes an object from raw members: the attributes that people look
// for first, the data last.
func compose(members map[string][]byte) []byte {
	names := slices.Sorted(maps.Keys(members))
	first, last := []string{"specversion", "id", "source", "type", "subject"}, []string{"data", "data_base64"}
	rank := func(name string) int {
		if i := slices.Index(first, name); i >= 0 {
			return i - len(first)
		}
		return slices.Index(last, name) + 1
	}
	slices.SortStableFunc(names, func(a, b string) int { return rank(a) - rank(b) })
	var b bytes.Buffer
	for i, name := range names {
		b.WriteString(map[bool]string{true: "{", false: ","}[i == 0])
		quoted, _ := encode(name)
		b.Write(quoted)
		b.WriteByte(':')
		b.Write(members[name])
	}
	b.WriteByte('}')
	return b.Bytes()
}

// encode writes JSON as people wrote it: without HTML's escapes.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// migrated is the event's data with the payload of the other version.
func (f *Flow) migrated(parent *events.Event, m Migration) (any, error) {
	e, err := events.Decode(parent.Raw)
	if err != nil {
		return nil, err
	}
	in, err := f.Input(e)
	if err != nil {
		return nil, err
	}
	if in.Binary != nil {
		return nil, errBinary
	}
	payload := in.Payload()
	before, err := encode(payload)
	if err != nil {
		return nil, err
	}
	given := MigrationEvent{ID: e.ID(), Source: e.Source(), Type: e.Type(), Subject: e.Subject(), Payload: payload}
	made, err := m.Migrate(given)
	if err != nil {
		return nil, err
	}
	if made.ID != given.ID || made.Source != given.Source || made.Type != given.Type || made.Subject != given.Subject {
		return nil, errEnvelope
	}
	after, err := encode(made.Payload)
	if err != nil {
		return nil, err
	}
	if bytes.Equal(before, after) {
		return nil, errUnchanged
	}
	if f.payload == nil {
		return json.RawMessage(after), nil
	}
	text := string(after)
	if f.payload.decode == decodeBase64JSON {
		text = base64.StdEncoding.EncodeToString(after)
	} else if f.payload.decode == decodeText {
		s, ok := made.Payload.(string)
		if !ok {
			return nil, errors.New("the payload of this flow is a text")
		}
		text = s
	}
	if len(f.payload.path.steps) < 2 || f.payload.path.steps[0] != spec.Name("data") {
		return nil, errors.New("the payload of this flow stands outside the event's data")
	}
	return with(e.Payload().Any(), f.payload.path.steps[1:], text), nil
}

// with returns a value in which the one that the steps name is another.
func with(v any, steps []spec.Selector, leaf any) any {
	if len(steps) == 0 {
		return leaf
	}
	switch step := steps[0].(type) {
	case spec.Name:
		if object, ok := v.(map[string]any); ok {
			object = maps.Clone(object)
			object[string(step)] = with(object[string(step)], steps[1:], leaf)
			return object
		}
	case spec.Index:
		i := int(step)
		if array, ok := v.([]any); ok {
			if i < 0 {
				i += len(array)
			}
			if i >= 0 && i < len(array) {
				array = slices.Clone(array)
				array[i] = with(array[i], steps[1:], leaf)
				return array
			}
		}
	}
	return v
}
