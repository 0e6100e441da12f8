package handler_test

import (
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
)

// strict is an instance whose orders may have an amount of 100 at most.
func (w *world) strict(edits ...func(*handler.Options)) *handler.Handler {
	const schema = `schema_version: "2", data_schema: {properties: {amount: {type: number, maximum: 100}}},
     sample: '{"specversion":"1.0","id":"e","source":"shop","type":"demo:order"`
	return w.instance(append([]func(*handler.Options){func(o *handler.Options) {
		text := strings.Replace(flowsText, `sample: '{"specversion":"1.0","id":"e","source":"shop","type":"demo:order"`, schema, 1)
		o.Flows = w.flows(text, o.Processors)
	}}, edits...)...)
}

func TestDataThatBreaksItsFlowsSchemaIsADeadLetterAndRunsNothing(t *testing.T) {
	for name, edits := range map[string][]func(*handler.Options){"on": nil, "off": {off}} {
		t.Run("flow "+name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				l := w.deadLetter(w.strict(edits...), order("e1", "17", 4711), handler.DecisionDeadLetter, letter.CodeInvalidSchema)
				if l.Reason != "the data breaks schema version 2 at /amount: maximum" || l.Key == "" {
					t.Errorf("letter %+v", l)
				}
				if strings.Contains(w.logs.String(), "4711") {
					t.Error("a value of the event is in the log")
				}
			})
		})
	}
	inWorld(t, func(_ *testing.T, w *world) {
		w.acked(w.deliver(w.strict(), order("e2", "18", 5)), handler.DecisionExecuted)
	})
	t.Run("and asks nobody about another input", func(t *testing.T) {
		inWorld(t, func(_ *testing.T, w *world) {
			w.seed(order("e1", "17", 5), inStatus(idempotency.StatusSucceeded))
			w.acked(w.deliver(w.strict(), order("e2", "17", 4711)), handler.DecisionDeadLetter)
			w.openLetter(letter.CodeInvalidSchema, order("e2", "17", 4711))
			w.stands(idempotency.StatusSucceeded, 1)
		})
	})
	t.Run("and comes again where nobody can say whether it is new", func(t *testing.T) {
		inWorld(t, func(_ *testing.T, w *world) {
			w.tables.Faults.Add(drop("GetRow", "task_records", -1))
			w.retried(w.deliver(w.strict(), order("e1", "17", 4711)), idempotency.CodeTemporaryUnavailable)
		})
	})
}

func TestABusinessThatWasTakenBeforeItsSchemaGoesOn(t *testing.T) {
	for status, want := range map[idempotency.Status]handler.Decision{
		idempotency.StatusSucceeded: handler.DecisionDuplicate, idempotency.StatusFailedFinal: handler.DecisionFinal, idempotency.StatusFailedRetryable: handler.DecisionExecuted,
	} {
		t.Run(string(status), func(t *testing.T) {
			inWorld(t, func(_ *testing.T, w *world) {
				raw := order("e1", "17", 4711)
				w.seed(raw, inStatus(status))
				time.Sleep(time.Hour)
				w.acked(w.deliver(w.strict(), raw), want)
			})
		})
	}
}
