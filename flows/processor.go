package flows

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/oncegate/oncegate/idempotency"
)

// Task is what one run works on.
type Task struct {
	Key         string
	Flow        string
	Attempt     int64
	InputDigest string
	// RequestID is derived from the key: the same for every attempt of a task,
	// never of the run. Send it along with every call to another system.
	RequestID string
	// Payload is the event's data as package strictjson reads it; Binary holds
	// the bytes of data that is not JSON.
	Payload any
	Binary  []byte
	// Content holds the bytes of content that the event refers to, checked
	// against what the event says of them; nil where the flow has no content.
	Content []byte
}

// Processor does the work of a flow. It must not change anything outside: its
// result is stored first, and what happens to the world comes after that.
type Processor interface {
	// Version names everything that shapes the result beside the input: code,
	// prompt, model. A stored result of another version is not used again.
	Version() string
	// Process returns the fields of output.json. It should stop when ctx ends. An
	// *Error says what kind of failure it is; any other error is unclassified.
	Process(ctx context.Context, t Task) (map[string]any, error)
}

// Error is a failure whose kind is known.
type Error struct {
	idempotency.Failure
	Err error // may be nil; never logged or stored
}

func (e *Error) Error() string {
	return fmt.Sprintf("process: %s (%s)", e.Code, e.Target)
}

func (e *Error) Unwrap() error { return e.Err }

// Reserved are the names in output.json that oncegate writes itself.
var Reserved = []string{"schema_version", "idempotency_key", "flow", "attempt", "input_digest", "processor_version"}

// Tools are what a processor may work with.
type Tools struct {
	Model *Model

	// Of effects.
	Drafts                 Drafts
	Notify, Robot, Records Target
	Transport              http.RoundTripper // nil means http.DefaultTransport
	Now                    func() time.Time  // nil means time.Now
}

func (t Tools) now() time.Time {
	if t.Now == nil {
		return time.Now()
	}
	return t.Now()
}

// constructors are the processors of this package by name. It is written while
// the package is initialised and only read afterwards: the price of adding a
// processor in one file.
var constructors = map[string]func(Tools) Processor{}

// register makes a processor known under the name that flows.yaml uses. Call it
// in a package-level declaration of the processor's own file:
//
//	var _ = register("word_count", func(Tools) Processor { return wordCount{} })
func register(name string, construct func(Tools) Processor) bool {
	if constructors[name] != nil {
		panic("flows: processor " + name + " is registered twice")
	}
	constructors[name] = construct
	return true
}

// Processors builds every processor that flows.yaml can name, once a process.
func Processors(t Tools) map[string]Processor {
	built := make(map[string]Processor, len(constructors))
	for name, construct := range constructors {
		built[name] = construct(t)
	}
	return built
}
