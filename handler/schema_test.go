package handler_test

import (
	"strings"
	"testing"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/handler"
)

func TestDataThatBreaksItsFlowsSchemaIsADeadLetterAndRunsNothing(t *testing.T) {
	const schema = `schema_version: "2", data_schema: {properties: {amount: {type: number, maximum: 100}}},
     sample: '{"specversion":"1.0","id":"e","source":"shop","type":"demo:order"`
	inWorld(t, func(t *testing.T, w *world) {
		h := w.instance(func(o *handler.Options) {
			text := strings.Replace(flowsText, `sample: '{"specversion":"1.0","id":"e","source":"shop","type":"demo:order"`, schema, 1)
			o.Flows = w.flows(text, o.Processors)
		})
		l := w.deadLetter(h, order("e1", "17", 4711), handler.DecisionDeadLetter, letter.CodeInvalidSchema)
		if l.Reason != "the data breaks schema version 2 at /amount: maximum" || l.Key == "" {
			t.Errorf("letter %+v", l)
		}
		if strings.Contains(w.logs.String(), "4711") {
			t.Error("a value of the event is in the log")
		}
		w.acked(w.deliver(h, order("e2", "18", 5)), handler.DecisionExecuted)
	})
}
