package flows

import (
	"context"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/idempotency"
)

// EffectCall is one side effect to carry out.
type EffectCall struct {
	Key       string // the effect key: the same for every attempt of the task, never of the run
	Name      string
	TaskKey   string
	RequestID string
	Fields    map[string]string // the key's own fields as text, sensitive ones as they are
	Payload   any               // of the event
	Output    []byte            // output.json that the effect is made from
}

// Effect changes something outside. It runs after its output is stored, sends
// one request, and retries nothing.
//
// A nil error says that it happened; an *Exists that it had happened before; an
// *Error that the target has definitely not done it. Every other error means
// that the answer was lost: it may have happened.
type Effect interface {
	Send(ctx context.Context, c EffectCall) (recordID string, err error)
}

// Reader is an effect whose target can be asked what it has. Kind readable needs it.
type Reader interface {
	// Find looks for what Send would make; found is false where the target has
	// nothing of it. An error says that nobody knows.
	Find(ctx context.Context, c EffectCall) (recordID string, found bool, err error)
}

// Needs is an effect that cannot do without some of its fields.
type Needs interface{ Needs() []string }

// Exists is what Send returns where the target has the record already.
type Exists struct{ RecordID string }

func (*Exists) Error() string { return "the target has it already" }

// DeclaredEffect is one side effect of a flow.
type DeclaredEffect struct {
	idempotency.EffectSpec
	Uses string // name of the effect that carries it out

	fields []keyField
}

// Fields reads the effect's key fields from the input. The error is an
// *idempotency.FieldError that names the effect.
func (d *DeclaredEffect) fieldsOf(taskKey string, in *Input) []idempotency.Field {
	fields := []idempotency.Field{{Name: "task_key", Value: taskKey}, {Name: "effect", Value: d.Name}}
	for _, k := range d.fields {
		field := idempotency.Field{Name: k.name, Value: k.constant, Sensitive: k.sensitive}
		if k.path != nil {
			field.Value = k.path.find(in).Any()
		}
		fields = append(fields, field)
	}
	return fields
}

// Key derives the effect key for a task: of the task's key, the effect's name and
// its own fields, which come from the input and never from the output.
func (d *DeclaredEffect) Key(taskKey string, in *Input, secret []byte) (idempotency.Key, error) {
	return idempotency.DeriveKey(d.fieldsOf(taskKey, in), secret)
}

// Values are the effect's own fields as its target needs them.
func (d *DeclaredEffect) Values(in *Input) map[string]string {
	values := map[string]string{}
	for _, f := range d.fieldsOf("", in)[2:] {
		values[f.Name] = fmt.Sprint(f.Value)
	}
	return values
}

// TaskEffects are the flow's effects as a task row names them. The error is an
// *idempotency.FieldError.
func (f *Flow) TaskEffects(taskKey string, in *Input, secret []byte) ([]idempotency.TaskEffect, error) {
	var all []idempotency.TaskEffect
	for _, d := range f.Effects {
		k, err := d.Key(taskKey, in, secret)
		if err != nil {
			return nil, err
		}
		all = append(all, idempotency.TaskEffect{Name: d.Name, Key: k.Hex, Kind: d.Kind})
	}
	return all, nil
}

// Effect returns the flow's effect of a name, nil where there is none.
func (f *Flow) Effect(name string) *DeclaredEffect {
	for _, d := range f.Effects {
		if d.Name == name {
			return d
		}
	}
	return nil
}

// DefaultEffectTimeout is how long one request of an effect may take.
const DefaultEffectTimeout = 10 * time.Second

// effectConstructors are the effects of this package by name, as constructors are.
var effectConstructors = map[string]func(Tools) Effect{}

// registerEffect makes an effect known under the name that flows.yaml uses.
func registerEffect(name string, construct func(Tools) Effect) bool {
	if effectConstructors[name] != nil {
		panic("flows: effect " + name + " is registered twice")
	}
	effectConstructors[name] = construct
	return true
}

// Effects builds every effect that flows.yaml can name, once a process.
func Effects(t Tools) map[string]Effect {
	built := make(map[string]Effect, len(effectConstructors))
	for name, construct := range effectConstructors {
		built[name] = construct(t)
	}
	return built
}
