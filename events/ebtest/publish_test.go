package ebtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/events/ebtest"
)

func TestEnrichmentKeepsEveryByteOfThePublisher(t *testing.T) {
	const (
		core = `"type":"t","specversion" : "1.0", "id":"1","source":"s","data":{"b":1.50,"a":1e2,"z":"\u00e9<&>","n":12345678901234567890}`
		bus  = `"aliyuneventbusname":"bus \"a\"",`
		reg  = `"aliyunregionid":"cn-test",`
		at   = `"aliyunpublishtime":"2026-03-01T10:00:00.042Z",`
		acct = `"aliyunaccountid":"42",`
	)
	for _, tc := range []struct{ name, raw, want string }{
		{"all four are added after the brace", "{" + core + "}", "{" + bus + reg + at + acct + core + "}"},
		{"leading and trailing space stays", " \n{\t" + core + "\r\n} ", " \n{" + bus + reg + at + acct + "\t" + core + "\r\n} "},
		{
			"one that it has is not added",
			"{" + core + `,"aliyunpublishtime":"2020-11-19T21:04:42.179PRC"}`,
			"{" + bus + reg + acct + core + `,"aliyunpublishtime":"2020-11-19T21:04:42.179PRC"}`,
		},
		{
			"one of any type counts",
			"{" + core + `,"aliyunregionid":null,"aliyunaccountid":7e1}`,
			"{" + bus + at + core + `,"aliyunregionid":null,"aliyunaccountid":7e1}`,
		},
		{
			"one spelled with escapes counts",
			"{" + core + `,"\u0061liyunregionid":"x"}`,
			"{" + bus + at + acct + core + `,"\u0061liyunregionid":"x"}`,
		},
		{
			"one inside data does not count",
			"{" + core + `,"x":{"aliyunregionid":"y"}}`,
			"{" + bus + reg + at + acct + core + `,"x":{"aliyunregionid":"y"}}`,
		},
		{
			"nothing is added to a captured event",
			"{" + bus + reg + at + acct + core + "}",
			"{" + bus + reg + at + acct + core + "}",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tg := &target{}
			b := newBus(t, ebtest.Options{
				Bus: `bus "a"`, Region: "cn-test", AccountID: "42",
				Now: func() time.Time {
					return time.Date(2026, 3, 1, 18, 0, 0, 42e6, time.FixedZone("", 8*3600))
				},
				Rules: []ebtest.Rule{{Name: "r", Target: tg.invoke}},
			})
			tr, err := b.Publish(context.Background(), []byte(tc.raw))
			if err != nil {
				t.Fatal(err)
			}
			wait(t, tr)
			if got := string(tg.got[0].EventRaw); got != tc.want || got != string(tr.Raw()) {
				t.Errorf("delivered\n%s\nwant\n%s", got, tc.want)
			}
			if !json.Valid(tg.got[0].EventRaw) {
				t.Error("delivered bytes are no JSON")
			}
		})
	}
}

func TestPublishRefusesWhatPutEventsRefuses(t *testing.T) {
	pad := func(size int) string {
		head := `{"specversion":"1.0","id":"1","source":"s","type":"t","data":"`
		return head + strings.Repeat("x", size-len(head)-2) + `"}`
	}
	with := func(name, value string) string {
		m := map[string]string{"specversion": "1.0", "id": "1", "source": "s", "type": "t"}
		m[name] = value
		raw, _ := json.Marshal(m)
		return string(raw)
	}
	for _, tc := range []struct{ name, raw, code string }{
		{"the limit itself", pad(ebtest.MaxEvent), ""},
		{"a byte over the limit", pad(ebtest.MaxEvent + 1), ebtest.CodeTooLarge},
		{"nothing", ``, ebtest.CodeNotJSON},
		{"half an object", `{"id":`, ebtest.CodeNotJSON},
		{"two objects", with("id", "1") + with("id", "2"), ebtest.CodeNotJSON},
		{"an id twice", `{"specversion":"1.0","id":"1","id":"2","source":"s","type":"t"}`, ebtest.CodeNotJSON},
		{"bad UTF-8", "{\"specversion\":\"1.0\",\"id\":\"\xff\",\"source\":\"s\",\"type\":\"t\"}", ebtest.CodeNotJSON},
		{"a byte order mark", "\ufeff" + with("id", "1"), ebtest.CodeNotJSON},
		{"a list", `[` + with("id", "1") + `]`, ebtest.CodeNotEvent},
		{"a string", `"x"`, ebtest.CodeNotEvent},
		{"null", `null`, ebtest.CodeNotEvent},
		{"an empty object", `{}`, ebtest.CodeNotEvent},
		{"an old version", with("specversion", "0.3"), ebtest.CodeNotEvent},
		{"an empty id", with("id", ""), ebtest.CodeNotEvent},
		{"a number as id", `{"specversion":"1.0","id":1,"source":"s","type":"t"}`, ebtest.CodeNotEvent},
		{"no source", `{"specversion":"1.0","id":"1","type":"t"}`, ebtest.CodeNotEvent},
		{"no type", `{"specversion":"1.0","id":"1","source":"s"}`, ebtest.CodeNotEvent},
		{"a null subject", `{"specversion":"1.0","id":"1","source":"s","type":"t","subject":null}`, ebtest.CodeNotEvent},
		{"a long id", with("id", strings.Repeat("é", 128)), ""},
		{"a too long id", with("id", strings.Repeat("x", 129)), ebtest.CodeTooLong},
		{"a too long source", with("source", strings.Repeat("x", 129)), ebtest.CodeTooLong},
		{"a too long type", with("type", strings.Repeat("x", 65)), ebtest.CodeTooLong},
		{"a too long subject", with("subject", strings.Repeat("x", 513)), ebtest.CodeTooLong},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBus(t, ebtest.Options{})
			tr, err := b.Publish(context.Background(), []byte(tc.raw))
			if tc.code == "" {
				if err != nil {
					t.Fatal(err)
				}
				if out := wait(t, tr); out[0].Outcome != ebtest.Unmatched {
					t.Errorf("outcome %+v", out)
				}
				return
			}
			refused, ok := errors.AsType[*ebtest.PublishError](err)
			if !ok || refused.Code != tc.code {
				t.Fatalf("error %v, want code %s", err, tc.code)
			}
			if !strings.HasPrefix(err.Error(), "publish event: "+tc.code) {
				t.Errorf("error text %q", err)
			}
			if b.Counts()["published"] != 0 {
				t.Error("a refused event was counted")
			}
		})
	}
}

func TestABusRefusesRulesItCannotKeep(t *testing.T) {
	ok := (&target{}).invoke
	for name, o := range map[string]ebtest.Options{
		"no name":             {Rules: []ebtest.Rule{{Target: ok}}},
		"no target":           {Rules: []ebtest.Rule{{Name: "r"}}},
		"a name twice":        {Rules: []ebtest.Rule{{Name: "r", Target: ok}, {Name: "r", Target: ok}}},
		"an unknown policy":   {Rules: []ebtest.Rule{{Name: "r", Target: ok, Policy: "FOREVER"}}},
		"unknown tolerance":   {Rules: []ebtest.Rule{{Name: "r", Target: ok, ErrorsTolerance: "SOME"}}},
		"a negative scale":    {TimeScale: -1},
		"negative concurrent": {Concurrency: -1},
	} {
		if _, err := ebtest.New(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
