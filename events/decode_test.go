package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestEventsAsServicesSendThem(t *testing.T) {
	want := map[string]string{
		"fc-on-failure-message-not-a-cloudevent.json": string(ReasonSpecVersion),
		"oss-native-trigger-not-a-cloudevent.json":    string(ReasonSpecVersion),
		"mns-queue-event-streaming.json":              string(ReasonNotObject),
		"mns-queue-event-driven.json":                 "",
		"oss-object-created.json":                     "",
	}
	files, _ := filepath.Glob("testdata/*.json")
	if len(files) != len(want) {
		t.Fatalf("%d files, want %d", len(files), len(want))
	}
	for _, f := range files {
		raw, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		e, err := Decode(raw)
		reason, known := want[filepath.Base(f)]
		if !known {
			t.Errorf("%s: no expectation", f)
		}
		if reason == "" {
			if err != nil {
				t.Errorf("%s: %v", f, err)
				continue
			}
			if err := e.Validate(); err != nil {
				t.Errorf("%s: the built event is not valid: %v", f, err)
			}
			if !bytes.Equal(e.Raw, raw) || e.Extension("aliyunregionid") != "cn-hangzhou" || e.Time().IsZero() {
				t.Errorf("%s: %v", f, e)
			}
			continue
		}
		var de *DecodeError
		if !errors.As(err, &de) || string(de.Reason) != reason {
			t.Errorf("%s: got %v, want %s", f, err, reason)
		}
	}
}

func TestDecodeRefuses(t *testing.T) {
	const rest = `"source":"s","type":"t"}`
	for _, c := range []struct {
		name, in string
		reason   Reason
	}{
		{"no JSON", `hello`, ReasonNotJSON},
		{"nothing", ``, ReasonNotJSON},
		{"a scalar", `17`, ReasonNotObject},
		{"null", `null`, ReasonNotObject},
		{"two ids", `{"specversion":"1.0","id":"a","id":"b",` + rest, ReasonNotJSON},
		{"two equal names deep in data", `{"specversion":"1.0","id":"a","data":{"x":[{"y":1,"y":1}]},` + rest, ReasonNotJSON},
		{"bad UTF-8", "{\"specversion\":\"1.0\",\"id\":\"\xff\"," + rest, ReasonNotJSON},
		{"another specversion", `{"specversion":"0.3","id":"a",` + rest, ReasonSpecVersion},
		{"a number as specversion", `{"specversion":1.0,"id":"a",` + rest, ReasonSpecVersion},
		{"no specversion", `{"id":"a",` + rest, ReasonSpecVersion},
		{"no id", `{"specversion":"1.0",` + rest, ReasonID},
		{"an empty id", `{"specversion":"1.0","id":"",` + rest, ReasonID},
		{"a blank id", `{"specversion":"1.0","id":"  ",` + rest, ReasonID},
		{"a number as id", `{"specversion":"1.0","id":7,` + rest, ReasonID},
		{"no source", `{"specversion":"1.0","id":"a","type":"t"}`, ReasonSource},
		{"a source that is no URI reference", `{"specversion":"1.0","id":"a","source":"%zz","type":"t"}`, ReasonSource},
		{"no type", `{"specversion":"1.0","id":"a","source":"s"}`, ReasonType},
		{"blank type", `{"specversion":"1.0","id":"a","source":"s","type":" "}`, ReasonType},
		{"blank id", `{"specversion":"1.0","id":" ","source":"s","type":"t"}`, ReasonID},
		{"blank source", `{"specversion":"1.0","id":"a","source":" ","type":"t"}`, ReasonSource},
		{"both kinds of data", `{"specversion":"1.0","id":"a","data":1,"data_base64":"AA==",` + rest, ReasonTwoData},
		{"broken base64", `{"specversion":"1.0","id":"a","data_base64":"A",` + rest, ReasonBase64},
		{"a number as base64", `{"specversion":"1.0","id":"a","data_base64":1,` + rest, ReasonBase64},
		{"base64 of broken JSON", `{"specversion":"1.0","id":"a","datacontenttype":"application/json","data_base64":"AA==",` + rest, ReasonBase64JSON},
		{"a long subject", `{"specversion":"1.0","id":"a","subject":"` + strings.Repeat("x", 3000) + `",` + rest, ReasonAttributeLen},
		{"more than 256 KB", `{"specversion":"1.0","id":"a","data":"` + strings.Repeat("x", MaxSize) + `",` + rest, ReasonTooLarge},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Decode([]byte(c.in))
			var de *DecodeError
			if !errors.As(err, &de) || de.Reason != c.reason {
				t.Fatalf("got %v, want %s", err, c.reason)
			}
		})
	}
}

func TestDecodeAcceptsWhatIsSloppy(t *testing.T) {
	head := `{"specversion":"1.0","id":"a","source":"s","type":"t"`
	for _, c := range []struct {
		name, in string
		check    func(*Event) bool
	}{
		{"no datacontenttype", head + `,"data":{"a":1}}`, func(e *Event) bool { return e.DataContentType() == "" && string(e.DataEncoded) == `{"a":1}` }},
		{"no data", head + `}`, func(e *Event) bool { return !e.Payload().Exists() && e.Binary == nil }},
		{"scalar data", head + `,"data":7}`, func(e *Event) bool { v := e.Payload().Any(); return v == json.Number("7") }},
		{"null data", head + `,"data":null}`, func(e *Event) bool { v := e.Payload(); return v.Any() == nil && v.Exists() }},
		{"text data", head + `,"datacontenttype":"text/plain","data":"hi"}`, func(e *Event) bool { return string(e.DataEncoded) == "hi" }},
		{"binary data", head + `,"data_base64":"AAEC"}`, func(e *Event) bool { return bytes.Equal(e.Binary, []byte{0, 1, 2}) }},
		{
			"JSON in base64", head + `,"datacontenttype":"application/json; charset=utf-8","data_base64":"eyJhIjoxfQ=="}`,
			func(e *Event) bool { v := e.Payload().Any(); return v.(map[string]any)["a"] == json.Number("1") },
		},
		{"an exponent that does not fit", head + `,"data":1e999999999}`, func(e *Event) bool { v := e.Payload().Any(); return v == json.Number("1e999999999") }},
		{"a fractional extension", head + `,"ext":1.5}`, func(e *Event) bool { return e.Extensions()["ext"] == "1.5" }},
		{"an object as extension", head + `,"ext":{"a":1},"under_score":"x"}`, func(e *Event) bool { return e.Tree()["under_score"] == "x" }},
		{"no time that anyone knows", head + `,"time":"yesterday"}`, func(e *Event) bool { return e.Time().IsZero() && e.TimeText == "yesterday" }},
		{"a number as time", head + `,"time":12}`, func(e *Event) bool { return e.Time().IsZero() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			e, err := Decode([]byte(c.in))
			if err != nil {
				t.Fatal(err)
			}
			if !c.check(e) {
				t.Errorf("got %v", e)
			}
		})
	}
}

func TestParseTime(t *testing.T) {
	for in, want := range map[string]string{
		"2026-08-04T10:00:00Z":                 "2026-08-04T10:00:00Z",
		"2022-07-25T12:01:07.9Z":               "2022-07-25T12:01:07.9Z",
		"2026-08-04T10:00:00+08:00":            "2026-08-04T02:00:00Z",
		"2023-1-25T01:45:16.969Z":              "2023-01-25T01:45:16.969Z",
		"2020-08-17T16:04:46.149Asia/Shanghai": "2020-08-17T08:04:46.149Z",
		"2020-11-19T21:04:42.179PRC":           "2020-11-19T13:04:42.179Z",
	} {
		got, ok := parseTime(in)
		if _, err := time.LoadLocation("Asia/Shanghai"); err != nil && strings.HasSuffix(in, "i") {
			continue
		}
		if !ok || got.Format(time.RFC3339Nano) != want {
			t.Errorf("%s: got %v %v, want %s", in, got, ok, want)
		}
	}
	for _, in := range []string{"", "yesterday", "12", "2026-08-04"} {
		if _, ok := parseTime(in); ok {
			t.Errorf("%s was understood", in)
		}
	}
}

func FuzzDecode(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.json")
	more, _ := filepath.Glob("samples/*.json")
	for _, name := range append(files, more...) {
		raw, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Add([]byte(`{"specversion":"1.0","id":"a","source":"s","type":"t","data_base64":"AA=="}`))
	f.Add([]byte(`{"specversion":"1.0","id":" ","source":" ","type":" "}`))
	f.Add([]byte(`{"specversion":"1.0","id":"a","source":"s","type":" "}`))
	f.Add([]byte(`{"specversion":"1.0","id":"a","source":" ","type":"t"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		e, err := Decode(raw)
		if err != nil {
			var de *DecodeError
			if !errors.As(err, &de) || de.Reason == "" {
				t.Fatalf("got %v", err)
			}
			return
		}
		if e.ID() == "" || e.Source() == "" || e.Type() == "" || !bytes.Equal(e.Raw, raw) {
			t.Fatalf("accepted %q", raw)
		}
	})
}
