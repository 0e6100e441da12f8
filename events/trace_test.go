package events

import (
	"encoding/json"
	"strings"
	"testing"
)

const (
	traceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	traceState  = "congo=t61rcWkgMzE,rojo@tenant=00f067aa0ba902b7"
)

func traced(t *testing.T, extensions map[string]any) Trace {
	t.Helper()
	all := map[string]any{"specversion": "1.0", "id": "e", "source": "s", "type": "t"}
	for name, v := range extensions {
		all[name] = v
	}
	raw, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	e, err := Decode(raw)
	if err != nil {
		t.Fatal(err)
	}
	return e.Trace()
}

func TestAWellFormedTraceIsHandedOnAsItCame(t *testing.T) {
	for _, parent := range []string{
		traceParent,
		"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00",
		"cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-ff", // a later version of this length
	} {
		for _, state := range []string{"", traceState, "a=1 2", "a=1,, b=2\t", strings.Repeat("k", 256) + "=" + strings.Repeat("v", 255)} {
			got := traced(t, map[string]any{"traceparent": parent, "tracestate": state})
			if got != (Trace{parent, state}) || got.ID() != "0af7651916cd43dd8448eb211c80319c" {
				t.Errorf("%s, %q: got %+v", parent, state, got)
			}
		}
	}
}

func TestATraceparentThatIsNotWellFormedIsNoTrace(t *testing.T) {
	const trace, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	for name, v := range map[string]any{
		"none": nil, "empty": "", "a number": 1, "an object": map[string]any{"traceparent": traceParent},
		"version ff":         "ff-" + trace + "-" + parent + "-01",
		"trace of zeros":     "00-" + strings.Repeat("0", 32) + "-" + parent + "-01",
		"parent of zeros":    "00-" + trace + "-" + strings.Repeat("0", 16) + "-01",
		"upper case":         "00-" + strings.ToUpper(trace) + "-" + parent + "-01",
		"upper case version": "0A-" + trace + "-" + parent + "-01",
		"upper case parent":  "00-" + trace + "-" + strings.ToUpper(parent) + "-01",
		"upper case flags":   "00-" + trace + "-" + parent + "-0A",
		"no hex within":      "00-0af7651916cd43dd84g8eb211c80319c-" + parent + "-01",
		"another divider":    "00_" + trace + "_" + parent + "_01",
		"short":              traceParent[:54], "long": traceParent + "0",
		"what a later version adds": "01-" + trace + "-" + parent + "-01-more",
		"a line break":              traceParent[:53] + "\r\n",
		"a header of its own":       traceParent + "\r\nAuthorization: x",
		"four kilobytes":            strings.Repeat("a", 4096),
		"blanks around":             " " + traceParent[:53] + " ",
		"digits of another script":  "00-" + strings.Repeat("٣", 16) + "-" + parent + "-01",
	} {
		if got := traced(t, map[string]any{"traceparent": v, "tracestate": traceState}); got != (Trace{}) || got.ID() != "" {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}

func TestATracestateThatIsNotWellFormedIsLeftOut(t *testing.T) {
	for name, v := range map[string]any{
		"a number": 5, "no pair": "congo", "no key": "=1", "no value": "a=", "two values": "a=1=2", "upper-case key": "A=1",
		"key that begins with a sign": "@a=1", "a line break": "a=1\r\nX-Other: 1", "a tab within": "a=1\t2", "not ASCII": "a=é",
		"too long":         "a=" + strings.Repeat("v", 250) + ",b=" + strings.Repeat("v", 250) + ",c=123456",
		"a long value":     "a=" + strings.Repeat("v", 257),
		"a long key":       strings.Repeat("k", 257) + "=1",
		"too many members": strings.Repeat("a=1,", 32) + "a=1",
		"four kilobytes":   strings.Repeat("a=1,", 1024),
	} {
		if got := traced(t, map[string]any{"traceparent": traceParent, "tracestate": v}); got != (Trace{Parent: traceParent}) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
}
