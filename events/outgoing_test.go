package events

import (
	"strings"
	"testing"
)

func TestAnEventIsSentAsItIsWithTheNameOfItsBus(t *testing.T) {
	const tail = `"specversion":"1.0","id":"e1","source":"s","type":"t","data":{"n":9007199254740993,  "x":1.50}}`
	out, err := ReadOutgoing([]byte(" { "+tail+"\n"), "orders")
	if err != nil || string(out.Raw) != `{"aliyuneventbusname":"orders",`+tail || out.Bus != "orders" {
		t.Errorf("%s %s %v", out.Raw, out.Bus, err)
	}
	own := `{"aliyuneventbusname":"payroll",` + tail
	if out, err = ReadOutgoing([]byte(own), "orders"); err != nil || string(out.Raw) != own || out.Bus != "payroll" {
		t.Errorf("%s %s %v", out.Raw, out.Bus, err)
	}
}

func TestWhatTheBusWouldRefuseIsSaidBeforehand(t *testing.T) {
	event := func(id, source, kind, more string) string {
		return `{"specversion":"1.0","id":"` + id + `","source":"` + source + `","type":"` + kind + `"` + more + `}`
	}
	long := strings.Repeat("é", 600)
	for _, c := range []struct{ name, raw, bus, want string }{
		{"fits", event(long[:256], long[:256], long[:128], `,"subject":"`+long[:1024]+`"`), "b", ""},
		{"id", event(long[:258], "s", "t", ""), "b", "id has 129 characters; the bus takes 128 at most"},
		{"source", event("i", long[:258], "t", ""), "b", "source has 129"},
		{"type", event("i", "s", long[:130], ""), "b", "type has 65 characters"},
		{"subject", event("i", "s", "t", `,"subject":"`+long[:1026]+`"`), "b", "subject has 513"},
		{"empty subject", event("i", "s", "t", `,"subject":""`), "b", "subject is empty"},
		{"no bus", event("i", "s", "t", ""), "", "names no bus"},
		{"null bus", event("i", "s", "t", `,"aliyuneventbusname":null`), "b", "is null"},
		{"bus is a number", event("i", "s", "t", `,"aliyuneventbusname":1`), "b", "is no string"},
		{"too large", event("i", "s", "t", `,"data":"`+strings.Repeat("x", MaxSize)+`"`), "b", "larger than 256 KB"},
		{"too large with its bus", event("i", "s", "t", `,"data":"`+strings.Repeat("x", MaxSize-80)+`"`), "a-bus-of-a-long-name", "with the name of its bus"},
		{"no JSON", `{"specversion":`, "b", "not valid JSON"},
		{"two ids", `{"specversion":"1.0","id":"a","id":"b","source":"s","type":"t"}`, "b", "not valid JSON"},
	} {
		_, err := ReadOutgoing([]byte(c.raw), c.bus)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
