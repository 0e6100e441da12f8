package simtest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/idempotency"
)

const (
	environment = "sim"
	bucketName  = "room"
	modelKey    = "sk-planted-model-key"
	keySecret   = "planted-key-secret-0123456789abcdef"
	person      = "planted-person" // in texts of users
	phone       = "+8613800009999" // of a sensitive key field

	effectTimeout = "5s"
)

const flowsText = `
schema_version: 1
flows:
  - {name: sim.text, owner: team, number_owner: desk, match: {type: sim:text}, processor: summary, processor_version: "1", max_attempts: 4,
     key: {no: {path: $.data.no}, op: {const: text}}, input: {ignore: [$.data.sent_at]}, sample: '{SAMPLE,"type":"sim:text"}'}
  - {name: sim.order, owner: team, number_owner: desk, match: {type: sim:order}, processor: record, processor_version: "1", max_attempts: 4,
     key: {no: {path: $.data.no}, op: {const: order}}, input: {ignore: [$.data.sent_at]},
     effects: [{name: record, uses: record.create, kind: readable, timeout: TIMEOUT, visible_after: 20s, fields: {number: {path: $.data.no}}}],
     sample: '{SAMPLE,"type":"sim:order"}'}
  - {name: sim.notice, owner: team, number_owner: desk, match: {type: sim:notice}, processor: summary, processor_version: "1", max_attempts: 4,
     key: {no: {path: $.data.no}, op: {const: notice}}, input: {ignore: [$.data.sent_at]},
     effects: [{name: notice, uses: notify, kind: idempotent, timeout: TIMEOUT, key_ttl: 2h,
       fields: {notification_type: {const: done}, recipient_id: {path: $.data.phone, sensitive: true}}}],
     sample: '{SAMPLE,"type":"sim:notice"}'}
  - {name: sim.alarm, owner: team, number_owner: desk, match: {type: sim:alarm}, processor: summary, processor_version: "1", max_attempts: 3,
     key: {no: {path: $.data.no}, op: {const: alarm}}, input: {ignore: [$.data.sent_at]},
     effects: [{name: alarm, uses: robot, kind: opaque, timeout: TIMEOUT, fields: {notification_type: {const: alarm}}}],
     sample: '{SAMPLE,"type":"sim:alarm"}'}
  - {name: sim.case, owner: team, number_owner: desk, match: {type: sim:case}, processor: summary, processor_version: "1", max_attempts: 5,
     key: {phone: {path: $.data.phone, sensitive: true}, no: {path: $.data.no}, op: {const: case}}, input: {ignore: [$.data.sent_at]},
     effects: [
       {name: notice, uses: notify, kind: idempotent, timeout: TIMEOUT, key_ttl: 2h, fields: {notification_type: {const: opened}}},
       {name: record, uses: record.create, kind: readable, timeout: TIMEOUT, visible_after: 20s, fields: {number: {path: $.data.no}}},
       {name: alarm, uses: robot, kind: opaque, timeout: TIMEOUT, fields: {notification_type: {const: case}}}],
     sample: '{SAMPLE,"type":"sim:case"}'}
`

const sample = `"specversion":"1.0","id":"e","source":"sim","aliyuneventbusname":"sim","data":{"no":"1","amount":1,"phone":"1","content":"c","sent_at":"x"}`

// releases are the flows as deployed: on, off, and with another processor version.
type releases struct{ on, off, next *flows.Set }

func loadFlows(t testing.TB) releases {
	t.Helper()
	load := func(edit ...string) *flows.Set {
		text := strings.NewReplacer(append([]string{"SAMPLE", sample, "TIMEOUT", effectTimeout}, edit...)...).Replace(flowsText)
		set, err := flows.Load([]byte(text), flows.Processors(flows.Tools{Model: flows.NewModel(flows.ModelOptions{Name: "qwen-sim"})}))
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	return releases{load(), load("max_attempts", "enabled: false, max_attempts"), load(`processor_version: "1"`, `processor_version: "2"`)}
}

// event is one message of a producer with all that follows from it.
type event struct {
	raw      []byte
	name     string // for the trace
	key      string
	digest   string
	letterID string
}

func eventOf(set *flows.Set, raw string) *event {
	e := &event{raw: []byte(raw)}
	decoded, err := events.Decode(e.raw)
	if err != nil {
		e.name = "undecodable"
		e.letterID = letter.RawID(idempotency.DigestBinary(e.raw))
		return e
	}
	e.name = decoded.ID()
	flow := set.Find(decoded)
	if flow == nil {
		panic("no flow for " + raw)
	}
	in, err := flow.Input(decoded)
	if err != nil {
		panic(err)
	}
	e.digest = flow.Digest(in)
	e.letterID = letter.ID(decoded.Source(), decoded.ID(), e.digest)
	if key, err := flow.Key(in, []byte(keySecret)); err == nil {
		e.key = key.Hex
	}
	return e
}

func rawEvent(id, kind, no, script string, amount int) string {
	return fmt.Sprintf(`{"specversion":"1.0","id":%q,"source":"sim","type":"sim:%s","aliyuneventbusname":%q,"data":{"no":%q,"amount":%d,"phone":%q,"content":"%s says %s %s","sent_at":%q}}`,
		id, kind, environment, no, amount, phone, person, no, script, id)
}
