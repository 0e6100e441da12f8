package events

import "strings"

// Trace is the place of an event in a distributed trace: the values of the HTTP
// headers of W3C Trace Context, which CloudEvents carries in two extension
// attributes of the same names. The zero value is no trace.
type Trace struct {
	Parent string // traceparent
	State  string // tracestate; "" where there is none
}

const (
	traceParentLen = len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	// What every participant must be able to carry, and so what is carried.
	maxTraceState   = 512
	maxTraceMembers = 32
	maxTraceKey     = 256
	maxTraceValue   = 256
)

// Trace is the event's trace. Only what W3C Trace Context allows is returned, so
// it is fit for a header as it is: a traceparent that is not well-formed is no
// trace, and a tracestate that is not is left out.
//
// oncegate has no spans of its own, and so it hands the trace on unchanged, as the
// specification asks of those who do not take part: under a new parent id the
// calls would hang on a span that nobody ever reports.
func (e *Event) Trace() Trace {
	parent := e.Extension("traceparent")
	if !wellFormedParent(parent) {
		return Trace{}
	}
	t := Trace{Parent: parent}
	if state := e.Extension("tracestate"); wellFormedState(state) {
		t.State = state
	}
	return t
}

// ID is the trace id, 32 hex digits, "" for no trace.
func (t Trace) ID() string {
	if t.Parent == "" {
		return ""
	}
	return t.Parent[3:35]
}

// wellFormedParent takes version-traceid-parentid-flags, all in lower-case hex. A
// later version may add to it; what it adds is not known to be harmless, so a
// longer text is refused whatever its version.
func wellFormedParent(s string) bool {
	if len(s) != traceParentLen || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return false
	}
	version, trace, parent, flags := s[:2], s[3:35], s[36:52], s[53:]
	return lowerHex(version) && version != "ff" && lowerHex(trace) && strings.Trim(trace, "0") != "" &&
		lowerHex(parent) && strings.Trim(parent, "0") != "" && lowerHex(flags)
}

func lowerHex(s string) bool { return only(s, "0123456789abcdef") }

// only reports whether a text has no other characters than these.
func only(s, characters string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return !strings.ContainsRune(characters, r) }) < 0
}

// wellFormedState takes a list of key=value, as the specification bounds it.
func wellFormedState(s string) bool {
	if s == "" || len(s) > maxTraceState {
		return false
	}
	members := strings.Split(s, ",")
	if len(members) > maxTraceMembers {
		return false
	}
	for _, m := range members {
		if m = strings.Trim(m, " \t"); m == "" {
			continue
		}
		key, value, found := strings.Cut(m, "=")
		if !found || !stateKey(key) || !stateValue(value) {
			return false
		}
	}
	return true
}

func stateKey(s string) bool {
	if s == "" || len(s) > maxTraceKey || strings.IndexByte("_-*/@", s[0]) >= 0 {
		return false
	}
	return only(s, "abcdefghijklmnopqrstuvwxyz0123456789_-*/@")
}

func stateValue(s string) bool {
	if s == "" || len(s) > maxTraceValue {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' || r == ',' || r == '=' }) < 0
}
