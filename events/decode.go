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
	"encoding/json"
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
	// Tree is the whole event as package strictjson reads it; base64 data that
	// is declared as JSON stands decoded under "data".
	Tree map[string]any
	// Binary holds the decoded data_base64 where it is not JSON, else nil.
	Binary []byte
	// TimeText is the time attribute as sent. Time() is zero where it could not
	// be understood: an event is never refused for its time.
	TimeText string
}

// Payload is the event's data; ok is false where there is none. Binary data has
// no JSON payload.
func (e *Event) Payload() (data any, ok bool) {
	data, ok = e.Tree["data"]
	return data, ok
}

// Extension returns an extension attribute as text, "" if it is missing or no string.
func (e *Event) Extension(name string) string {
	s, _ := e.Tree[name].(string)
	return s
}

// Decode reads one structured CloudEvent. The error is a *DecodeError.
func Decode(raw []byte) (*Event, error) {
	if len(raw) > MaxSize {
		return nil, &DecodeError{Reason: ReasonTooLarge}
	}
	tree, members, err := strictjson.ParseObject(raw)
	if err != nil {
		var syn *strictjson.SyntaxError
		if errors.As(err, &syn) && syn.Reason == strictjson.NotObject {
			return nil, &DecodeError{Reason: ReasonNotObject}
		}
		return nil, &DecodeError{ReasonNotJSON, strings.TrimPrefix(err.Error(), "parse json: ")}
	}
	e := &Event{Event: event.New(event.CloudEventsVersionV1), Raw: raw, Tree: tree}
	if reason := e.setAttributes(); reason != "" {
		return nil, &DecodeError{Reason: reason}
	}
	if reason := e.setData(members["data"]); reason != "" {
		return nil, &DecodeError{Reason: reason}
	}
	return e, nil
}

func (e *Event) setAttributes() Reason {
	if v, _ := e.Tree["specversion"].(string); v != event.CloudEventsVersionV1 {
		return ReasonSpecVersion
	}
	texts := map[string]string{}
	for name, v := range e.Tree {
		if s, ok := v.(string); ok && name != "data" && name != "data_base64" {
			texts[name] = s
		}
	}
	for _, name := range []string{"id", "source", "type", "subject"} {
		if len(texts[name]) > maxAttribute {
			return ReasonAttributeLen
		}
	}
	// The SDK trims blanks, so what it made of a text is what is judged.
	e.SetID(texts["id"])
	if e.ID() == "" || e.FieldErrors["id"] != nil {
		return ReasonID
	}
	e.SetSource(texts["source"])
	if strings.TrimSpace(texts["source"]) == "" || e.FieldErrors["source"] != nil {
		return ReasonSource
	}
	e.SetType(texts["type"])
	if e.Type() == "" || e.FieldErrors["type"] != nil {
		return ReasonType
	}
	if s := texts["subject"]; s != "" {
		e.SetSubject(s)
	}
	if s := texts["datacontenttype"]; s != "" {
		e.SetDataContentType(s)
	}
	if s := texts["dataschema"]; s != "" {
		e.SetDataSchema(s)
	}
	e.TimeText = texts["time"]
	if t, ok := parseTime(e.TimeText); ok {
		e.SetTime(t)
	}
	for name, v := range e.Tree {
		switch name {
		case "specversion", "id", "source", "type", "subject", "datacontenttype", "dataschema", "time", "data", "data_base64":
			continue
		}
		switch v := v.(type) {
		case string:
			e.SetExtension(name, v)
		case bool:
			e.SetExtension(name, v)
		case json.Number:
			// As text: the SDK would cut 1.5 to 1.
			e.SetExtension(name, string(v))
		}
	}
	// An attribute that the SDK finds odd stays in Tree and Raw; it is no reason
	// to lose the event.
	e.FieldErrors = nil
	return ""
}

func (e *Event) setData(rawData []byte) Reason {
	coded, isBase64 := e.Tree["data_base64"]
	if coded == nil {
		isBase64 = false
	}
	if isBase64 {
		if e.Tree["data"] != nil {
			return ReasonTwoData
		}
		text, _ := coded.(string)
		data, err := base64.StdEncoding.DecodeString(text)
		if err != nil || coded != text {
			return ReasonBase64
		}
		e.DataEncoded, e.DataBase64 = data, true
		if !declaredJSON(e.DataContentType()) {
			delete(e.Tree, "data")
			e.Binary = data
			return ""
		}
		v, err := strictjson.Parse(data)
		if err != nil {
			return ReasonBase64JSON
		}
		e.Tree["data"] = v
		return ""
	}
	if text, ok := e.Tree["data"].(string); ok && e.DataContentType() != "" && !declaredJSON(e.DataContentType()) {
		e.DataEncoded = []byte(text)
		return ""
	}
	e.DataEncoded = rawData
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
