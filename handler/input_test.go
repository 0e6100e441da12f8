package handler_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// deadLetter delivers an event three times: each must be acknowledged with the
// one letter, and nothing may run or be recorded.
func (w *world) deadLetter(h *handler.Handler, raw []byte, want handler.Decision, code letter.Code) letter.Letter {
	w.t.Helper()
	var l letter.Letter
	for i := range 3 {
		o := w.deliver(h, raw)
		w.acked(o, want)
		l = w.openLetter(code, raw)
		if l.ID != o.LetterID || l.DeliveryAttempts != int64(i)+1 || l.Target != "fc:gate" || l.Environment != environment || l.Reason == "" {
			w.t.Fatalf("delivery %d: letter %+v, answered %v", i+1, l, o)
		}
		time.Sleep(time.Minute)
	}
	if w.work.runs() != 0 || w.model.Calls() != 0 || len(w.records()) != 0 {
		w.t.Fatalf("%d runs, %d model calls, %d records", w.work.runs(), w.model.Calls(), len(w.records()))
	}
	// Storing it comes first, then the acknowledgement.
	w.objects.Faults.Add(drop("PutObject", "", 1))
	w.retried(w.deliver(h, raw), idempotency.CodeTemporaryUnavailable)
	w.tables.Faults.Add(cloudtest.Fault{Kind: cloudtest.Status, Status: 503, Code: "OTSTableNotReady", Times: -1})
	w.retried(w.deliver(h, raw), idempotency.CodeTemporaryUnavailable)
	w.tables.Faults.Clear()
	return l
}

func TestS20_AnAbsentKeyFieldIsADeadLetterAndNoSharedKey(t *testing.T) {
	for name, field := range map[string]string{
		"absent": ``, "null": `"order_no":null,`, "empty": `"order_no":"",`, "blank": `"order_no":" \u3000",`,
		"a fraction": `"order_no":1.5,`, "an exponent": `"order_no":1e3,`, "minus zero": `"order_no":-0,`,
		"an array": `"order_no":[1],`, "an object": `"order_no":{"a":1},`,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				h := w.instance()
				w.deadLetter(h, event("e1", "demo:order", "s", `{`+field+`"amount":5,"sent_at":"x"}`), handler.DecisionDeadLetter, letter.CodeInvalidSchema)
				w.acked(w.deliver(h, event("e2", "demo:order", "s", `{`+field+`"amount":6,"sent_at":"x"}`)), handler.DecisionDeadLetter)
				all := w.letters()
				if len(all) != 2 || all[0].ID == all[1].ID || all[0].Key != "" || all[1].Key != "" || !strings.Contains(all[0].Reason, `"order_no"`) {
					t.Errorf("letters %+v", all)
				}
			})
		})
	}
}

func TestS21_SpellingsOfOneBusinessAreOneBusiness(t *testing.T) {
	for name, pair := range map[string][2]string{
		"a number and its text as a key": {`{"order_no":1001,"amount":5}`, `{"order_no":"1001","amount":5}`},
		"number spellings":               {`{"order_no":"1","amount":10}`, `{"amount":1.0e1,"order_no":"1"}`},
		"Unicode forms of a key":         {`{"order_no":"caf\u00e9","amount":5}`, `{"order_no":"cafe\u0301","amount":5}`},
		"an ignored field":               {`{"order_no":"1","amount":5,"sent_at":"a"}`, `{"order_no":"1","amount":5,"sent_at":"b"}`},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(_ *testing.T, w *world) {
				w.acked(w.deliver(w.instance(), event("e1", "demo:order", "s", pair[0])), handler.DecisionExecuted)
				w.acked(w.deliver(w.instance(), event("e2", "demo:order", "s", pair[1])), handler.DecisionDuplicate)
			})
		})
	}
	t.Run("big integers next to each other are two", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			for i, no := range []string{"9007199254740992", "9007199254740993"} {
				w.acked(w.deliver(w.instance(), event(fmt.Sprint("e", i), "demo:order", "s", `{"order_no":`+no+`,"amount":5}`)), handler.DecisionExecuted)
			}
			if len(w.records()) != 2 {
				t.Errorf("%d records", len(w.records()))
			}
		})
	})
}

func TestS22S25_AConfigurationThatCannotHoldIsRefusedByName(t *testing.T) {
	for name, edit := range map[string][2]string{
		"S22: a key path that matches nothing in the sample": {"$.data.order_no}", "$.data.order_number}"},
		"S22: an ignored path that matches nothing":          {"$.data.sent_at]", "$.data.sent]"},
		"S22: no JSONPath":                          {"$.data.order_no}", "data order}"},
		"S25: two flows that could make equal keys": {"{const: message.send}", "{const: order.create}"},
		"S25: two flows that could match one event": {"type: demo:message", "type: [demo:message, demo:order]"},
	} {
		t.Run(name, func(t *testing.T) {
			text := strings.Replace(flowsText, edit[0], edit[1], 1)
			if strings.HasSuffix(name, "match one event") {
				text = strings.Replace(flowsText, "match: {type: demo:message}", "match: {type: [demo:message, demo:order]}", 1)
			}
			_, err := flows.Load([]byte(text), nil)
			var ce *flows.ConfigError
			if !errors.As(err, &ce) || ce.Flow != "order.create" {
				t.Fatalf("got %v", err)
			}
			if strings.HasPrefix(name, "S25") && !strings.Contains(err.Error(), "message.send") {
				t.Errorf("it does not name the other flow: %v", err)
			}
		})
	}
}

func TestS26_DataOfAnyKindIsADigestOrAClearDeadLetter(t *testing.T) {
	b64 := func(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
	blob := func(id, rest string) []byte {
		return []byte(fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"s","type":"demo:blob","aliyuneventbusname":"test","subject":"n"%s}`, id, rest))
	}
	for name, c := range map[string]struct{ data, same, other string }{
		"none":           {``, ``, `,"data":1`},
		"null":           {`,"data":null`, `,"data": null `, `,"data":0`},
		"a number":       {`,"data":1`, `,"data":1.0`, `,"data":2`},
		"a huge number":  {`,"data":1e999999999`, `,"data":10e999999998`, `,"data":1e999999998`},
		"a boolean":      {`,"data":true`, `,"data":true`, `,"data":"true"`},
		"an array":       {`,"data":[1,{}]`, `,"data":[1.0, {}]`, `,"data":[{},1]`},
		"text":           {`,"datacontenttype":"text/plain","data":"hi"`, `,"datacontenttype":"text/plain","data":"h\u0069"`, `,"datacontenttype":"text/plain","data":"ho"`},
		"base64":         {`,"data_base64":"` + b64([]byte{0, 255}) + `"`, `,"datacontenttype":"image/png","data_base64":"` + b64([]byte{0, 255}) + `"`, `,"data_base64":"` + b64([]byte{0, 254}) + `"`},
		"nothing base64": {`,"data_base64":""`, `,"data_base64":""`, `,"data_base64":"AA=="`},
		"JSON in base64": {`,"datacontenttype":"application/json","data_base64":"` + b64([]byte(`{"a":1}`)) + `"`, `,"data":{"a":1.0}`, `,"data":{"a":2}`},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(_ *testing.T, w *world) {
				w.acked(w.deliver(w.instance(), blob("e1", c.data)), handler.DecisionExecuted)
				w.acked(w.deliver(w.instance(), blob("e2", c.same)), handler.DecisionDuplicate)
				w.acked(w.deliver(w.instance(), blob("e3", c.other)), handler.DecisionConflict)
			})
		})
	}
	for name, c := range map[string]struct{ data, code string }{
		"two names":        {`,"data":{"a":1,"a":2}`, "dead_letter"},
		"both kinds":       {`,"data":1,"data_base64":"AA=="`, "dead_letter"},
		"broken base64":    {`,"data_base64":"A"`, "dead_letter"},
		"bad UTF-8":        {",\"data\":\"\xff\"", "dead_letter"},
		"a lone surrogate": {`,"data":"\ud800"`, "dead_letter"},
		"nested too deep":  {`,"data":` + strings.Repeat("[", 100) + strings.Repeat("]", 100), "dead_letter"},
	} {
		t.Run(name+" is a dead letter", func(t *testing.T) {
			inWorld(t, func(_ *testing.T, w *world) {
				w.deadLetter(w.instance(), blob("e1", c.data), handler.DecisionDeadLetter, letter.CodeInvalidSchema)
			})
		})
	}
	for name, data := range map[string]string{"a scalar": `,"data":7`, "null": `,"data":null`, "base64": `,"data_base64":"AAEC"`, "none": ``} {
		t.Run(name+" where a processor wants text", func(t *testing.T) {
			inWorld(t, func(_ *testing.T, w *world) {
				raw := []byte(`{"specversion":"1.0","id":"e1","source":"s","type":"demo:note","aliyuneventbusname":"test","subject":"n"` + data + `}`)
				w.acked(w.deliver(w.instance(), raw), handler.DecisionFinal)
				w.openLetter(letter.CodeInvalidSchema, raw)
				w.stands(idempotency.StatusFailedFinal, 1)
			})
		})
	}
	t.Run("a scalar where a key is read from data", func(t *testing.T) {
		inWorld(t, func(_ *testing.T, w *world) {
			w.deadLetter(w.instance(), event("e1", "demo:order", "s", `7`), handler.DecisionDeadLetter, letter.CodeInvalidSchema)
		})
	})
}

func TestWhatIsNoEventIsADeadLetter(t *testing.T) {
	for name, raw := range map[string][]byte{
		"nothing": {}, "no JSON": []byte("hello"), "an array": []byte("[]"), "no id": []byte(`{"specversion":"1.0","source":"s","type":"t"}`),
		"binary": {0, 1, 2, 255}, "an FC on-failure message": []byte(`{"requestContext":{},"requestPayload":"{}"}`),
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				l := w.deadLetter(w.instance(), raw, handler.DecisionDeadLetter, letter.CodeInvalidSchema)
				if l.ID != letter.RawID(idempotency.DigestBinary(raw)) || l.EventID != "" || l.Key != "" {
					t.Errorf("letter %+v", l)
				}
			})
		})
	}
	t.Run("too large", func(t *testing.T) {
		inWorld(t, func(_ *testing.T, w *world) {
			raw := order("e1", "17", 5)
			raw = append(raw, bytes.Repeat([]byte(" "), events.MaxSize)...)
			w.deadLetter(w.instance(), raw, handler.DecisionDeadLetter, letter.CodeInvalidSchema)
		})
	})
}

func TestAnEventWithoutAFlowIsADeadLetter(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		raw := event("e1", "demo:nobody", "s", `{"a":1}`)
		l := w.deadLetter(w.instance(), raw, handler.DecisionDeadLetter, letter.CodeTargetNotFound)
		if l.EventID != "e1" || l.EventSource != "shop" || l.Flow != "" || l.Key != "" || l.InputDigest == "" {
			t.Errorf("letter %+v", l)
		}
	})
}

func TestAnEventOfAnotherEnvironmentIsALetterAndRunsNothing(t *testing.T) {
	for _, bus := range []string{`"prod"`, `""`, `null`, `7`} {
		t.Run("bus "+bus, func(t *testing.T) {
			inWorld(t, func(_ *testing.T, w *world) {
				raw := bytes.Replace(order("e1", "17", 5), []byte(`"aliyuneventbusname":"test"`), []byte(`"aliyuneventbusname":`+bus), 1)
				w.deadLetter(w.instance(), raw, handler.DecisionWrongEnvironment, letter.CodeWrongEnvironment)
			})
		})
	}
}
