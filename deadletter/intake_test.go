package deadletter

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
)

const event = `{"specversion":"1.0","id":"a","source":"s","type":"t","data":{"n":1.0}}`

func TestSplitReadsEveryFormOfADeadLetter(t *testing.T) {
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	quoted, err := json.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	failed, err := os.ReadFile("testdata/fc-on-failure-message-not-a-cloudevent.json")
	if err != nil {
		t.Fatal(err)
	}
	var payload struct{ RequestPayload string }
	if err := json.Unmarshal(failed, &payload); err != nil {
		t.Fatal(err)
	}
	queue := func(body string) string {
		return `{"specversion":"1.0","id":"q","source":"MNS","type":"mns:Queue:SendMessage","data":{"messageBody":` + body + `}}`
	}
	for _, c := range []struct {
		name, in string
		want     []string // raw bytes of each item
		origin   Origin
	}{
		{"an event", event, []string{event}, OriginQueue},
		{"an array", "[" + event + " , " + event + "]", []string{event, event}, OriginQueue},
		{"an array of texts", "[" + string(quoted) + "]", []string{event}, OriginQueue},
		{"a text", string(quoted), []string{event}, OriginQueue},
		{"base64", b64(event), []string{event}, OriginQueue},
		{"base64 of an array", b64("[" + event + "]"), []string{event}, OriginQueue},
		{"FC's message", string(failed), []string{payload.RequestPayload}, OriginFC},
		{"an array of FC's messages", "[" + string(failed) + "]", []string{payload.RequestPayload}, OriginFC},
		{"an event in a queue's event", queue(`"` + b64(event) + `"`), []string{event}, OriginQueue},
		{"an event in a queue's event, as text", queue(string(quoted)), []string{event}, OriginQueue},
		{"a queue's own event", queue(`"bW9jaw=="`), []string{queue(`"bW9jaw=="`)}, OriginQueue},
		{"a plain record", `{"event_id":"e","payload":{"x":1},"error_code":"TIMEOUT","target":"fc:w"}`, []string{`{"event_id":"e","payload":{"x":1},"error_code":"TIMEOUT","target":"fc:w"}`}, OriginRecord},
		{"no JSON", "hello", []string{"hello"}, OriginUnreadable},
		{"half an event", event[:20], []string{event[:20]}, OriginUnreadable},
		{"nothing", "", []string{""}, OriginUnreadable},
		{"a number", "17", []string{"17"}, OriginUnreadable},
		{"base64 of no JSON", b64("hello"), []string{b64("hello")}, OriginUnreadable},
		{"an empty array", "[]", []string{"[]"}, OriginUnreadable},
	} {
		t.Run(c.name, func(t *testing.T) {
			items := Split([]byte(c.in))
			if len(items) != len(c.want) {
				t.Fatalf("%d items, want %d", len(items), len(c.want))
			}
			for i, item := range items {
				if string(item.Raw) != c.want[i] || item.Origin != c.origin {
					t.Errorf("item %d: %s %q, want %s %q", i, item.Origin, item.Raw, c.origin, c.want[i])
				}
			}
		})
	}
}

func TestSplitReadsWhatAMessageSaysOfItsFailure(t *testing.T) {
	failed, err := os.ReadFile("testdata/fc-on-failure-message-not-a-cloudevent.json")
	if err != nil {
		t.Fatal(err)
	}
	item := Split(failed)[0]
	if item.Code != letter.CodeTimeout || item.Target != "acs:fc:cn-hangzhou:1000000000000009:functions/oncegate-tasks" || item.Attempts != 3 || item.FailedAt.IsZero() {
		t.Errorf("got %+v", item)
	}
	for text, want := range map[string]letter.Code{
		"timeout": letter.CodeTimeout, "rate_limited": letter.CodeThrottled, "in_progress": "", "unclassified": letter.CodeUnclassified,
		"FunctionTimeout": "", "my timeout thing": "", "": "",
	} {
		if got := codeOf(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	record := Split([]byte(`{"event_id":"e","payload":{},"error_code":"temporary_unavailable"}`))[0]
	if record.Code != letter.CodeUpstream5xx {
		t.Errorf("a record with our own code: %q", record.Code)
	}
}

// A row with a time that cannot be read would end every list of letters.
func TestATimestampThatIsNoTimeIsNotTheTimeOfAFailure(t *testing.T) {
	w := newWorld(t)
	for i, stamp := range []string{"1785844800", "1", "253402300800000", "9007199254740993000", "-5", "0", "1e3", `"x"`} {
		message := fmt.Sprintf(`{"timestamp":%s,"requestContext":{},"requestPayload":%q}`, stamp, orderEvent(fmt.Sprint("e", i), "1", "5"))
		if j := w.ingest(message)[0]; !j.Letter.FirstFailedAt.Equal(w.now) {
			t.Errorf("%s: failed at %s", stamp, j.Letter.FirstFailedAt)
		}
	}
	if all, _, err := w.desk.Letters.List(t.Context(), "", 100); err != nil || len(all) != 8 {
		t.Errorf("%d letters, %v", len(all), err)
	}
	j := w.ingest(`{"timestamp":1785844800000,"requestContext":{},"requestPayload":` + strconv.Quote(orderEvent("m", "1", "5")) + `}`)[0]
	if want := time.UnixMilli(1785844800000); !j.Letter.FirstFailedAt.Equal(want) {
		t.Errorf("milliseconds: failed at %s", j.Letter.FirstFailedAt)
	}
}

func FuzzSplit(f *testing.F) {
	for _, s := range []string{event, "[" + event + "]", `"x"`, `{"requestContext":{},"requestPayload":"[]"}`, `{"event_id":1,"payload":2}`, "e30="} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		items := Split(raw)
		if len(items) == 0 {
			t.Fatal("a message was dropped")
		}
		for _, item := range items {
			if item.Origin == "" || (item.Origin == OriginUnreadable && !bytes.Equal(item.Raw, raw) && len(items) == 1 && len(item.Raw) > len(raw)) {
				t.Fatalf("got %+v", item)
			}
		}
	})
}
