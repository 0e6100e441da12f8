package flows

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/idempotency"
)

const (
	head   = `{"specversion":"1.0","id":"e","source":"s","type":"t","aliyuneventbusname":"b","subject":"sub"`
	sha    = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
	inside = `{"no":"17","amount":5,"at":"x"}`
)

func coded(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }

// around is an event whose data wraps a text in its body.
func around(body string) string {
	text, _ := json.Marshal(body)
	return head + `,"data":{"id":"m","body":` + string(text) + `}}`
}

func loaded(t *testing.T, pairs ...string) *Flow {
	t.Helper()
	s, err := loadText(flowText(set(pairs...)))
	if err != nil {
		t.Fatal(err)
	}
	return s.Flows[0]
}

// wrapping is a flow that reads data.body in one way.
func wrapping(t *testing.T, decode, body string) *Flow {
	t.Helper()
	key := "{no: {path: $.data.no}, op: {const: f}}"
	if !strings.HasSuffix(decode, "json") {
		key = "{no: {path: $.subject}, op: {const: f}}"
	}
	return loaded(t, "payload", "{path: $.data.body, decode: "+decode+"}", "key", key, "sample", "'"+around(body)+"'")
}

func TestEachWayToAWrappedPayload(t *testing.T) {
	want := map[string]any{"no": "17", "amount": json.Number("5"), "at": "x"}
	for _, c := range []struct {
		decode, body string
		payload      any
		binary       []byte
	}{
		{"json", inside, want, nil},
		{"json", " " + inside + "\n", want, nil},
		{"base64+json", coded(inside), want, nil},
		{"base64+json", coded(inside)[:20] + "\r\n" + coded(inside)[20:], want, nil},
		{"base64", coded(inside), nil, []byte(inside)},
		{"base64", "AAEC/f7/", nil, []byte{0, 1, 2, 0xfd, 0xfe, 0xff}},
		{"base64", "", nil, []byte{}},
		{"text", inside, inside, nil},
		{"text", "", "", nil},
	} {
		t.Run(c.decode+" "+c.body, func(t *testing.T) {
			sample := inside
			if strings.HasPrefix(c.decode, "base64") {
				sample = coded(inside)
			}
			e := decode(t, around(c.body))
			in := input(t, wrapping(t, c.decode, sample), e)
			if d := cmp.Diff([]any{c.payload, c.binary}, []any{in.Payload(), in.Binary}); d != "" {
				t.Error(d)
			}
			if id, _ := e.Payload().Member("id").Text(); id != "m" || e.Tree()["data"] == nil {
				t.Error("the event was changed")
			}
		})
	}
}

func TestAPayloadThatIsNotThereIsRefused(t *testing.T) {
	const secret = "13800001111"
	for _, c := range []struct {
		name, decode, event string
		want                error
	}{
		{"no data", "json", head + "}", errNotWrapped},
		{"no such member", "json", head + `,"data":{"text":"` + secret + `"}}`, errNotWrapped},
		{"data of another kind", "json", head + `,"data":"` + secret + `"}`, errNotWrapped},
		{"a number", "text", head + `,"data":{"body":` + secret + `}}`, errNotWrapped},
		{"null", "text", head + `,"data":{"body":null}}`, errNotWrapped},
		{"an object", "json", head + `,"data":{"body":` + inside + `}}`, errNotWrapped},
		{"binary data", "base64", head + `,"data_base64":"AAEC"}`, errNotWrapped},
		{"no base64", "base64", around(secret + "!"), errNotBase64},
		{"cut base64", "base64+json", around(coded(inside)[:7]), errNotBase64},
		{"base64 of another alphabet", "base64", around("_-8="), errNotBase64},
		{"base64 of no JSON", "base64+json", around(coded(secret + "x")), errNotJSON},
		{"JSON without base64", "base64+json", around(inside), errNotBase64},
		{"base64 for JSON", "json", around(coded(inside)), errNotJSON},
		{"nothing", "json", around(""), errNotJSON},
		{"two values", "json", around(inside + inside), errNotJSON},
		{"two equal names", "json", around(`{"no":"` + secret + `","no":"1"}`), errNotJSON},
		{"bad UTF-8", "base64+json", around(coded("\"\xff\"")), errNotJSON},
		{"deep nesting", "json", around(strings.Repeat("[", 65) + strings.Repeat("]", 65)), errNotJSON},
	} {
		t.Run(c.name, func(t *testing.T) {
			sample := inside
			if strings.HasPrefix(c.decode, "base64") {
				sample = coded(inside)
			}
			in, err := wrapping(t, c.decode, sample).Input(decode(t, c.event))
			if !errors.Is(err, c.want) || in != nil || strings.Contains(err.Error(), secret) {
				t.Errorf("got %v %v, want %v", in, err, c.want)
			}
		})
	}
}

func TestKeyAndDigestAreOfTheDecodedPayload(t *testing.T) {
	f := loaded(t, "payload", "{path: $.data.body, decode: base64+json}", "input", "{ignore: [$.data.at]}", "sample", "'"+around(coded(inside))+"'")
	of := func(body string) (string, string) {
		t.Helper()
		in := input(t, f, decode(t, body))
		key, err := f.Key(in, nil)
		if err != nil {
			t.Fatal(err)
		}
		return key.Hex, f.Digest(in)
	}
	key, digest := of(around(coded(inside)))
	if direct := idempotency.Digest(textOf(t, map[string]any{"amount": 5})); digest != direct {
		t.Errorf("digest %s, of the payload less key and ignored paths %s", digest, direct)
	}
	again := strings.Replace(around(coded(`{"at":"y", "amount":5.0, "no":17}`)), `"id":"m"`, `"id":"m2"`, 1)
	if k, d := of(again); k != key || d != digest {
		t.Error("one business in another wrapping is another one")
	}
	if k, _ := of(around(coded(strings.Replace(inside, "17", "18", 1)))); k == key {
		t.Error("another number has the same key")
	}
	if _, d := of(around(coded(strings.Replace(inside, "5", "6", 1)))); d == digest {
		t.Error("another amount has the same digest")
	}
	// What is outside of the payload is out of a data path's reach.
	if _, err := f.Key(input(t, f, decode(t, strings.Replace(around(coded(`{"amount":5}`)), `"id":"m"`, `"no":"17"`, 1))), nil); err == nil {
		t.Error("the key was read outside of the payload")
	}
}

func TestBinaryHasTheDigestOfItsBytes(t *testing.T) {
	var vectors struct {
		Binary []struct {
			Data   []byte `json:"data_base64"`
			Digest string `json:"digest"`
		} `json:"binary"`
	}
	raw, err := os.ReadFile("../idempotency/testdata/digests.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &vectors); err != nil || len(vectors.Binary) == 0 {
		t.Fatal(len(vectors.Binary), err)
	}
	plain, f := loaded(t, "key", "{no: {path: $.subject}, op: {const: f}}"), wrapping(t, "base64", "AA==")
	for _, v := range vectors.Binary {
		text := base64.StdEncoding.EncodeToString(v.Data)
		for name, in := range map[string]*Input{
			"wrapped": input(t, f, decode(t, around(text))),
			"as data": input(t, plain, decode(t, head+`,"data_base64":"`+text+`"}`)),
		} {
			if d := f.Digest(in); d != v.Digest {
				t.Errorf("%s: got %s, want %s", name, d, v.Digest)
			}
		}
	}
}

func TestTheQueueSampleIsUnwrapped(t *testing.T) {
	raw, err := os.ReadFile("../events/testdata/mns-queue-event-driven.json")
	if err != nil {
		t.Fatal(err)
	}
	e := decode(t, string(raw))
	pairs := []string{"match", "{type: 'mns:Queue:SendMessage'}", "key", "{no: {path: $.subject}, op: {const: f}}", "sample", "'" + string(raw) + "'"}
	f := loaded(t, append(pairs, "payload", "{path: $.data.messageBody, decode: base64}")...)
	if in := input(t, f, e); string(in.Binary) != "mock mns queue message" || !f.Matches(e) {
		t.Errorf("got %q", in.Binary)
	}
	for decode, want := range map[string]error{"base64+json": errNotJSON, "json": errNotJSON} {
		_, err := loadText(flowText(set(append(pairs, "payload", "{path: $.data.messageBody, decode: "+decode+"}")...)))
		refused(t, err, "payload", fmt.Sprint(want))
	}
}

func TestLoadRefusesAPayloadThatCannotBeReached(t *testing.T) {
	for _, c := range []struct{ name, payload, field string }{
		{"no decoding", "{path: $.data.body}", "payload.decode"},
		{"an unknown decoding", "{path: $.data.body, decode: gzip}", "payload.decode"},
		{"no path", "{decode: json}", "payload.path"},
		{"a path to many", "{path: '$.data.*', decode: json}", "payload.path"},
		{"a path that names nothing in the sample", "{path: $.data.nope, decode: json}", "payload"},
		{"another decoding than the sample's", "{path: $.data.body, decode: json}", "payload"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := loadText(flowText(set("payload", c.payload, "sample", "'"+around(coded(inside))+"'")))
			refused(t, err, c.field, "")
		})
	}
	plain, wrapped := loaded(t).KeyRule(), loaded(t, "payload", "{path: $.data.body, decode: json}", "sample", "'"+around(inside)+"'").KeyRule()
	if plain == wrapped || !strings.Contains(wrapped, "$.data.body") {
		t.Errorf("the key rule does not show the wrapping: %s", wrapped)
	}
}
