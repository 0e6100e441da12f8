package ebtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxEvent is the size limit of one published event in bytes.
const MaxEvent = 256 << 10

// Codes of PublishError.
const (
	CodeTooLarge = "EventTooLarge"   // over MaxEvent
	CodeNotJSON  = "InvalidJSON"     // no single JSON value, a name twice in an object, or bad UTF-8
	CodeNotEvent = "InvalidEvent"    // JSON, but no CloudEvent of version 1.0
	CodeTooLong  = "InvalidArgument" // an attribute over the length the service documents
)

// PublishError says why an event was not accepted. Its text holds nothing of the event.
type PublishError struct {
	Code   string
	Reason string
}

func (e *PublishError) Error() string {
	return "publish event: " + e.Code + ": " + e.Reason
}

// checkEvent admits what PutEvents admits and returns the event decoded.
func checkEvent(raw []byte) (map[string]any, error) {
	if len(raw) > MaxEvent {
		return nil, &PublishError{CodeTooLarge, fmt.Sprintf("%d bytes, at most %d", len(raw), MaxEvent)}
	}
	if !jsontext.Value(raw).IsValid() {
		return nil, &PublishError{CodeNotJSON, "not one valid JSON value"}
	}
	v, err := decode(raw)
	if err != nil {
		return nil, &PublishError{CodeNotJSON, "not one valid JSON value"}
	}
	event, ok := v.(map[string]any)
	if !ok {
		return nil, &PublishError{CodeNotEvent, "not an object"}
	}
	if event["specversion"] != "1.0" {
		return nil, &PublishError{CodeNotEvent, "specversion is not 1.0"}
	}
	for _, a := range [...]struct {
		name     string
		limit    int // characters
		required bool
	}{
		{"id", 128, true},
		{"source", 128, true},
		{"type", 64, true},
		{"subject", 512, false},
	} {
		got, present := event[a.name]
		if !present && !a.required {
			continue
		}
		s, ok := got.(string)
		if !ok || s == "" {
			return nil, &PublishError{CodeNotEvent, a.name + " is not a non-empty string"}
		}
		if utf8.RuneCountInString(s) > a.limit {
			return nil, &PublishError{CodeTooLong, fmt.Sprintf("%s is over %d characters", a.name, a.limit)}
		}
	}
	return event, nil
}

// enrich adds the service's extensions that the event does not carry, right
// after its first brace, and leaves every other byte alone: a consumer that
// digests the event must see the publisher's number spellings and key order.
func (b *Bus) enrich(raw []byte, event map[string]any) []byte {
	var added bytes.Buffer
	for _, ext := range [...]struct{ name, value string }{
		{"aliyuneventbusname", b.opt.Bus},
		{"aliyunregionid", b.opt.Region},
		{"aliyunpublishtime", b.opt.Now().UTC().Format("2006-01-02T15:04:05.000Z07:00")},
		{"aliyunaccountid", b.opt.AccountID},
	} {
		if _, present := event[ext.name]; present {
			continue
		}
		event[ext.name] = ext.value // patterns see the event as it is delivered
		value, _ := json.Marshal(ext.value)
		fmt.Fprintf(&added, "%q:%s,", ext.name, value)
	}
	brace := bytes.IndexByte(raw, '{') + 1
	out := make([]byte, 0, len(raw)+added.Len())
	out = append(out, raw[:brace]...)
	out = append(out, added.Bytes()...)
	return append(out, raw[brace:]...)
}
