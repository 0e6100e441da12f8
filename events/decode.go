// Package events turns the bytes that EventBridge hands a function into
// CloudEvents.
//
// The CloudEvents SDK's own decoder lets the last of two ids win, accepts bad
// UTF-8, truncates numbers and refuses a whole event for a sloppy time. So one
// strict pass over the raw bytes comes first, and event.Event is built from what
// it found. The raw bytes are kept unchanged: whatever happens to an event, the
// bytes that arrived can be stored and replayed.
package events

import (
	"encoding/base64"
	"errors"
	"mime"
	"strings"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/oncegate/oncegate/internal/strictjson"
)

// MaxSize is EventBridge's limit for one event, in bytes.
const MaxSize = 256 << 10

// maxAttribute bounds id, source, type and subject, in bytes. EventBridge itself
// allows 512 at most.
const maxAttribute = 2048

// Reason says why bytes are no event oncegate can run. The texts are fixed: they
// may be logged and stored.
type Reason string

// The closed set of reasons.
const (
	ReasonTooLarge     Reason = "event is larger than 256 KB"
	ReasonNotJSON      Reason = "not valid JSON"
	ReasonNotObject    Reason = "not a JSON object"
	ReasonSpecVersion  Reason = "specversion is missing or not 1.0"
	ReasonID           Reason = "id is missing, empty or no string"
	ReasonSource       Reason = "source is missing, empty or no URI reference"
	ReasonType         Reason = "type is missing, empty or no string"
	ReasonTwoData      Reason = "data and data_base64 are both present"
	ReasonBase64       Reason = "data_base64 is not base64"
	ReasonBase64JSON   Reason = "data_base64 is declared as JSON and is not valid JSON"
	ReasonAttributeLen Reason = "an attribute is longer than 2048 bytes"
)

// DecodeError is the only error of Decode.
type DecodeError struct {
	Reason Reason
	Detail string // where in the bytes, if known; never a part of them
}

func (e *DecodeError) Error() string {
	if e.Detail == "" {
		return "decode event: " + string(e.Reason)
	}
	return "decode event: " + string(e.Reason) + ": " + e.Detail
}

// Event is one decoded CloudEvent.
type Event struct {
	event.Event
	// Raw is what arrived, unchanged.
	Raw []byte
	// Binary holds the decoded data_base64 where it is not JSON, else nil.
	Binary []byte
	// TimeText is the time attribute as sent. Time() is zero where it could not
	// be understood: an event is never refused for its time.
	TimeText string

	members []member
	payload strictjson.Value
	inside  []member // of the payload, where it is an object that stands in Raw
}

// member is one member of the event's object, as it stands in Raw.
type member struct {
	name  []byte
	value strictjson.Value
}

// Payload is the event's data. Binary data has no JSON payload; base64 data that
// is declared as JSON stands here decoded.
func (e *Event) Payload() strictjson.Value { return e.payload }

// Member returns a member of the event by its name: an attribute, or the payload
// under "data".
func (e *Event) Member(name string) strictjson.Value {
	if name == "data" {
		return e.payload
	}
	return named(e.members, name)
}

func named(members []member, name string) strictjson.Value {
	for _, m := range members {
		if string(m.name) == name {
			return m.value
		}
	}
	return strictjson.Value{}
}

// At returns what a path leads to, from the event's object on.
func (e *Event) At(p strictjson.Path) strictjson.Value {
	switch {
	case len(p) == 0 || p[0].Element:
		return strictjson.Value{}
	case p[0].Name != "data" || len(p) == 1 || e.inside == nil || p[1].Element:
		return e.Member(p[0].Name).At(p[1:])
	}
	return named(e.inside, p[1].Name).At(p[2:])
}

// Tree builds the whole event as package strictjson reads it, with the payload
// under "data".
func (e *Event) Tree() map[string]any {
	tree := make(map[string]any, len(e.members))
	for _, m := range e.members {
		tree[string(m.name)] = m.value.Any()
	}
	delete(tree, "data")
	if e.payload.Exists() {
		tree["data"] = e.payload.Any()
	}
	return tree
}

// Extension returns an extension attribute as text, "" if it is missing or no string.
func (e *Event) Extension(name string) string {
	s, _ := e.Member(name).Text()
	return s
}

// Decode reads one structured CloudEvent. The error is a *DecodeError.
func Decode(raw []byte) (*Event, error) {
	if len(raw) > MaxSize {
		return nil, &DecodeError{Reason: ReasonTooLarge}
	}
	whole, err := strictjson.CheckObject(raw)
	if err != nil {
		var syn *strictjson.SyntaxError
		if errors.As(err, &syn) && syn.Reason == strictjson.NotObject {
			return nil, &DecodeError{Reason: ReasonNotObject}
		}
		return nil, &DecodeError{ReasonNotJSON, strings.TrimPrefix(err.Error(), "parse json: ")}
	}
	e := &Event{Event: event.New(event.CloudEventsVersionV1), Raw: raw, members: make([]member, 0, 16)}
	e.cut(whole)
	if reason := e.setAttributes(); reason != "" {
		return nil, &DecodeError{Reason: reason}
	}
	if reason := e.setData(); reason != "" {
		return nil, &DecodeError{Reason: reason}
	}
	return e, nil
}

// cut finds the members of the event and of its data, in one go: both are asked
// for again and again, and either may stand behind something large.
func (e *Event) cut(whole strictjson.Value) {
	c := whole.Cursor()
	for c.Open(); c.More(); {
		name := strictjson.Unquote(c.Name())
		if string(name) != "data" || c.Kind() != '{' {
			e.members = append(e.members, member{name, c.Value()})
			continue
		}
		e.inside = make([]member, 0, 16)
		begin := c
		for c.Open(); c.More(); {
			inner := c.Name()
			e.inside = append(e.inside, member{strictjson.Unquote(inner), c.Value()})
		}
		e.members = append(e.members, member{name, begin.Until(c)})
	}
	e.payload = named(e.members, "data")
}

func (e *Event) setAttributes() Reason {
	if e.Extension("specversion") != event.CloudEventsVersionV1 {
		return ReasonSpecVersion
	}
	id, source, kind, subject := e.Extension("id"), e.Extension("source"), e.Extension("type"), e.Extension("subject")
	if max(len(id), len(source), len(kind), len(subject)) > maxAttribute {
		return ReasonAttributeLen
	}
	// The SDK trims blanks, so what it made of a text is what is judged.
	e.SetID(id)
	if e.ID() == "" || e.FieldErrors["id"] != nil {
		return ReasonID
	}
	e.SetSource(source)
	if strings.TrimSpace(source) == "" || e.FieldErrors["source"] != nil {
		return ReasonSource
	}
	e.SetType(kind)
	if e.Type() == "" || e.FieldErrors["type"] != nil {
		return ReasonType
	}
	if subject != "" {
		e.SetSubject(subject)
	}
	for _, m := range e.members {
		switch string(m.name) {
		case "specversion", "id", "source", "type", "subject", "data", "data_base64":
		case "datacontenttype":
			if s, _ := m.value.Text(); s != "" {
				e.SetDataContentType(s)
			}
		case "dataschema":
			if s, _ := m.value.Text(); s != "" {
				e.SetDataSchema(s)
			}
		case "time":
			e.TimeText, _ = m.value.Text()
			if t, ok := parseTime(e.TimeText); ok {
				e.SetTime(t)
			}
		default:
			e.extend(string(m.name), m.value)
		}
	}
	// An attribute that the SDK finds odd stays in Raw; it is no reason to lose
	// the event.
	e.FieldErrors = nil
	return ""
}

func (e *Event) extend(name string, v strictjson.Value) {
	switch v.Kind() {
	case '"':
		s, _ := v.Text()
		e.SetExtension(name, s)
	case 't', 'f':
		e.SetExtension(name, v.Kind() == 't')
	case '0':
		// As text: the SDK would cut 1.5 to 1.
		e.SetExtension(name, string(v.Raw()))
	}
}

func (e *Event) setData() Reason {
	coded := e.Member("data_base64")
	if coded.Exists() && coded.Kind() != 'n' {
		if e.payload.Exists() && e.payload.Kind() != 'n' {
			return ReasonTwoData
		}
		text, ok := coded.Text()
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil || !ok {
			return ReasonBase64
		}
		e.DataEncoded, e.DataBase64 = data, true
		e.payload, e.inside = strictjson.Value{}, nil
		if !declaredJSON(e.DataContentType()) {
			e.Binary = data
			return ""
		}
		if e.payload, err = strictjson.Check(data); err != nil {
			return ReasonBase64JSON
		}
		return ""
	}
	if text, ok := e.payload.Text(); ok && e.DataContentType() != "" && !declaredJSON(e.DataContentType()) {
		e.DataEncoded = []byte(text)
		return ""
	}
	e.DataEncoded = e.payload.Raw()
	return ""
}

func declaredJSON(contentType string) bool {
	if contentType == "" {
		return false
	}
	mt, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		mt, _, _ = strings.Cut(strings.ToLower(contentType), ";")
		mt = strings.TrimSpace(mt)
	}
	return mt == "application/json" || mt == "text/json" || strings.HasSuffix(mt, "+json")
}
