package handler_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
)

const payloadFlows = `
schema_version: 1
flows:
  - {name: queue.order, owner: order-team, number_owner: shop, match: {type: demo:queue}, processor: work, processor_version: "1", max_attempts: 3,
     payload: {path: $.data.body, decode: base64+json}, key: {order_no: {path: $.data.order_no}, op: {const: queue.order}}, input: {ignore: [$.data.sent_at]},
     sample: '{"specversion":"1.0","id":"e","source":"shop","type":"demo:queue","aliyuneventbusname":"test","data":{"id":"m","body":"eyJvcmRlcl9ubyI6IjEiLCJzZW50X2F0IjoieCJ9"}}'}
  - {name: hook.order, owner: order-team, number_owner: shop, match: {type: demo:hook}, processor: work, processor_version: "1",
     payload: {path: $.data.body, decode: json}, key: {order_no: {path: $.data.order_no}, op: {const: hook.order}},
     sample: '{"specversion":"1.0","id":"e","source":"shop","type":"demo:hook","aliyuneventbusname":"test","data":{"body":"{\"order_no\":\"1\"}"}}'}
  - {name: file.keep, owner: order-team, number_owner: shop, match: {type: demo:file}, processor: work, processor_version: "1",
     payload: {path: $.data.body, decode: base64}, key: {no: {path: $.subject}, op: {const: file.keep}},
     sample: '{"specversion":"1.0","id":"e","source":"shop","type":"demo:file","aliyuneventbusname":"test","subject":"s","data":{"body":"AA=="}}'}
  - {name: page.keep, owner: order-team, number_owner: shop, match: {type: demo:page}, processor: summary, processor_version: "1",
     payload: {path: $.data.body, decode: text}, key: {no: {path: $.subject}, op: {const: page.keep}},
     sample: '{"specversion":"1.0","id":"e","source":"shop","type":"demo:page","aliyuneventbusname":"test","subject":"s","data":{"body":"text"}}'}
`

// message wraps a body as queues do; every message has its own id.
func message(id, kind, body string) []byte {
	text, _ := json.Marshal(body)
	return event(id, kind, "s", fmt.Sprintf(`{"id":"m-%s","body":%s}`, id, text))
}

func b64(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

func TestTheProcessorWorksOnTheDecodedPayload(t *testing.T) {
	inside := `{"order_no":"17","amount":9007199254740993,"sent_at":"x"}`
	tree := map[string]any{"order_no": "17", "amount": json.Number("9007199254740993"), "sent_at": "x"}
	for _, c := range []struct {
		kind, body string
		payload    any
		binary     []byte
	}{
		{"demo:queue", b64(inside), tree, nil},
		{"demo:hook", inside, tree, nil},
		{"demo:file", "AAEC/f7/", nil, []byte{0, 1, 2, 0xfd, 0xfe, 0xff}},
	} {
		t.Run(c.kind, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				raw := message("e1", c.kind, c.body)
				w.acked(w.deliver(w.running(payloadFlows), raw), handler.DecisionExecuted)
				task := w.work.tasks[0]
				if fmt.Sprint(task.Payload) != fmt.Sprint(c.payload) || !bytes.Equal(task.Binary, c.binary) {
					t.Errorf("the processor got %v and %v", task.Payload, task.Binary)
				}
				// What is stored as the input is the event as it came.
				body, _ := w.object("tasks/" + task.Key + "/input.json")
				var input struct{ Event json.RawMessage }
				if err := json.Unmarshal(body, &input); err != nil || !bytes.Equal(input.Event, raw) {
					t.Errorf("input.json holds %s (%v)", body, err)
				}
			})
		})
	}
	t.Run("as text, for a model", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.acked(w.deliver(w.running(payloadFlows), message("e1", "demo:page", "Order 17 is late.")), handler.DecisionExecuted)
			if body, _ := w.object(w.outputs()[0]); !bytes.Contains(body, []byte("Order 17 is late")) {
				t.Errorf("got %s", body)
			}
		})
	})
}

func TestOneBusinessInTwoWrappingsIsOneBusiness(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		h := w.running(payloadFlows)
		w.acked(w.deliver(h, message("e1", "demo:queue", b64(`{"order_no":"17","amount":5,"sent_at":"x"}`))), handler.DecisionExecuted)
		w.acked(w.deliver(h, message("e2", "demo:queue", b64(`{ "sent_at":"y", "amount":5.0, "order_no":17 }`))), handler.DecisionDuplicate)
		w.acked(w.deliver(w.running(payloadFlows), message("e3", "demo:queue", b64(`{"order_no":"17","amount":5}`))), handler.DecisionDuplicate)
		if w.work.runs() != 1 || len(w.records()) != 1 {
			t.Errorf("%d runs, %d records", w.work.runs(), len(w.records()))
		}
		changed := message("e4", "demo:queue", b64(`{"order_no":"17","amount":500}`))
		w.acked(w.deliver(h, changed), handler.DecisionConflict)
		w.openLetter(letter.CodeConflict, changed)
	})
}

func TestABinaryPayloadsDigestIsTheVectors(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.acked(w.deliver(w.running(payloadFlows), message("e1", "demo:file", "AAEC/f7/")), handler.DecisionExecuted)
		if d := w.record().InputDigest; d != "3f2d1552cdc7483f40dd720c80b900225dfecfd5cae7cd168d79ab6ee5959885" {
			t.Errorf("digest %s", d)
		}
	})
}

func TestAPayloadThatIsNotThereIsADeadLetter(t *testing.T) {
	for name, raw := range map[string][]byte{
		"no body":           event("e1", "demo:queue", "s", `{"id":"m"}`),
		"no data":           event("e1", "demo:queue", "s", ""),
		"a number as body":  event("e1", "demo:queue", "s", `{"body":7}`),
		"an object as body": event("e1", "demo:hook", "s", `{"body":{"order_no":"1"}}`),
		"no base64":         message("e1", "demo:queue", "{}"),
		"base64 of no JSON": message("e1", "demo:queue", b64("hello")),
		"no JSON":           message("e1", "demo:hook", "hello"),
		"two equal names":   message("e1", "demo:hook", `{"order_no":"1","order_no":"2"}`),
		"no key inside":     message("e1", "demo:hook", `{"amount":5}`),
		"a key outside":     event("e1", "demo:hook", "s", `{"order_no":"1","body":"{}"}`),
		"a scalar inside":   message("e1", "demo:hook", `7`),
	} {
		t.Run("S26 "+name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				l := w.deadLetter(w.running(payloadFlows), raw, handler.DecisionDeadLetter, letter.CodeInvalidSchema)
				if l.EventID != "e1" || l.Key != "" || !strings.HasSuffix(l.Flow, ".order") {
					t.Errorf("letter %+v", l)
				}
			})
		})
	}
}

func TestWrappedMembersOfABatch(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		inside := b64(`{"order_no":"17","amount":5}`)
		members := [][]byte{message("e1", "demo:queue", inside), message("e2", "demo:queue", "broken"), message("e3", "demo:queue", inside)}
		w.ackedBatch(w.running(payloadFlows), textsOf(members...), executed, deadLetter, duplicate)
		w.openLetter(letter.CodeInvalidSchema, members[1])
		if w.work.runs() != 1 {
			t.Errorf("%d runs", w.work.runs())
		}
	})
}

func TestAnEventAsAQueueSendsItRuns(t *testing.T) {
	raw, err := os.ReadFile("../events/testdata/mns-queue-event-driven.json")
	if err != nil {
		t.Fatal(err)
	}
	text := `
schema_version: 1
flows:
  - name: queue
    owner: o
    number_owner: o
    match: {type: "mns:Queue:SendMessage"}
    payload: {path: $.data.messageBody, decode: base64}
    key: {queue: {path: $.subject}, op: {const: queue}}
    processor: work
    processor_version: "1"
    sample: '` + string(raw) + `'
`
	inWorld(t, func(t *testing.T, w *world) {
		h := w.instance(func(o *handler.Options) {
			o.Environment = "MNS-java11-mns-queue-trigger-mns-queue-trigger-1"
			o.Flows = w.flows(text, o.Processors)
		})
		w.acked(w.deliver(h, raw), handler.DecisionExecuted)
		w.acked(w.deliver(h, raw), handler.DecisionDuplicate)
		if got := w.work.tasks[0]; string(got.Binary) != "mock mns queue message" || got.InputDigest != idempotency.DigestBinary(got.Binary) {
			t.Errorf("the processor got %q", got.Binary)
		}
	})
}
