package deadletter

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/strictjson"
)

// Origin is where a dead-lettered event was left.
type Origin string

// The origins. The handler's own letters have none.
const (
	OriginQueue      Origin = "eventbridge_dlq" // the raw event, without code or count
	OriginFC         Origin = "fc_on_failure"   // FC's message about an asynchronous invocation
	OriginRecord     Origin = "record"          // a plain record from a file
	OriginUnreadable Origin = "unreadable"      // nothing that can be read: kept as it is
)

// Item is one dead-lettered event on its way in.
type Item struct {
	Origin Origin
	Raw    []byte // the event's bytes; of a record, the record's
	// What the message says, "" and zero where it says nothing.
	Code     letter.Code
	Target   string
	FailedAt time.Time
	Attempts int64
	Record   *PlainRecord // of OriginRecord
}

// PlainRecord is a dead letter as other systems export it.
type PlainRecord struct {
	EventID   string
	Payload   json.RawMessage
	ErrorCode letter.Code
	Target    string
	Flow      string
}

// maxNesting bounds how often a message is unwrapped.
const maxNesting = 4

// Split reads one message into the events it holds: an event or an array of
// events, as JSON or base64, FC's on-failure message, or a plain record. What
// can't be read is one item of its own: nothing is dropped.
func Split(message []byte) []Item { return split(message, Item{Origin: OriginQueue}, maxNesting) }

func split(message []byte, outer Item, depth int) []Item {
	trimmed := bytes.TrimSpace(message)
	keep := func(o Origin) []Item {
		outer.Origin, outer.Raw = o, message
		return []Item{outer}
	}
	if len(trimmed) == 0 || depth == 0 {
		return keep(OriginUnreadable)
	}
	switch trimmed[0] {
	case '{':
		tree, members, err := strictjson.ParseObject(trimmed)
		if err != nil {
			return keep(OriginUnreadable)
		}
		if payload, ok := tree["requestPayload"].(string); ok && tree["requestContext"] != nil {
			return split([]byte(payload), onFailure(tree, outer), depth-1)
		}
		if tree["specversion"] == nil && tree["event_id"] != nil && members["payload"] != nil {
			return []Item{plainRecord(tree, members, trimmed, outer)}
		}
		if body, ok := wrappedLetter(tree); ok {
			return split(body, outer, depth-1)
		}
		if outer.Origin == OriginFC {
			return keep(OriginFC)
		}
		return keep(OriginQueue)
	case '[', '"':
		if trimmed[0] == '"' {
			trimmed = append(append([]byte{'['}, trimmed...), ']')
		}
		members, err := strictjson.Members(trimmed)
		if err != nil || len(members) == 0 {
			return keep(OriginUnreadable)
		}
		var items []Item
		for _, m := range members {
			items = append(items, split(m, outer, depth-1)...)
		}
		return items
	}
	if decoded, err := base64.StdEncoding.DecodeString(string(trimmed)); err == nil {
		inside := bytes.TrimSpace(decoded)
		if len(inside) > 0 && (inside[0] == '{' || inside[0] == '[') {
			return split(decoded, outer, depth-1)
		}
	}
	return keep(OriginUnreadable)
}

// wrappedLetter finds a dead letter inside a queue's own event: an event stream
// wraps what it takes from the queue. A queue event whose body is no event is an
// event of its own.
func wrappedLetter(tree map[string]any) (body []byte, ok bool) {
	if tree["type"] != "mns:Queue:SendMessage" {
		return nil, false
	}
	data, _ := tree["data"].(map[string]any)
	text, _ := data["messageBody"].(string)
	raw := []byte(text)
	if decoded, err := base64.StdEncoding.DecodeString(text); err == nil {
		raw = decoded
	}
	inner, _, err := strictjson.ParseObject(raw)
	if err != nil {
		members, err := strictjson.Members(raw)
		if err != nil || len(members) == 0 {
			return nil, false
		}
		inner, _, err = strictjson.ParseObject(members[0])
		if err != nil {
			return nil, false
		}
	}
	return raw, inner["specversion"] != nil || inner["requestPayload"] != nil
}

// onFailure reads what FC says about an invocation that failed for good.
func onFailure(tree map[string]any, outer Item) Item {
	outer.Origin = OriginFC
	about, _ := tree["requestContext"].(map[string]any)
	outer.Target, _ = about["functionArn"].(string)
	if n, ok := about["approximateInvokeCount"].(json.Number); ok {
		outer.Attempts, _ = n.Int64()
	}
	if ms, ok := tree["timestamp"].(json.Number); ok {
		// What can only be seconds, or no time at all, says nothing.
		if n, err := ms.Int64(); err == nil && aliyun.PlausibleMilli(n) {
			outer.FailedAt = time.UnixMilli(n).UTC()
		}
	}
	if text, ok := tree["responsePayload"].(string); ok {
		var answer struct {
			ErrorType string `json:"errorType"`
		}
		if json.Unmarshal([]byte(text), &answer) == nil {
			outer.Code = codeOf(answer.ErrorType)
		}
	}
	return outer
}

// codeOf maps our own codes as they stand in a message. in_progress says nothing
// of why, and any other text is not a code of ours.
func codeOf(s string) letter.Code {
	c := idempotency.Code(s)
	if c == idempotency.CodeInProgress || c == "" {
		return ""
	}
	if c.Class() != idempotency.ClassUnknown || c == idempotency.CodeUnclassified {
		return letter.CodeOf(c)
	}
	return ""
}

func plainRecord(tree map[string]any, members map[string][]byte, raw []byte, outer Item) Item {
	text := func(name string) string { s, _ := tree[name].(string); return s }
	code := letter.Code(text("error_code"))
	if mapped := codeOf(string(code)); mapped != "" {
		code = mapped
	}
	outer.Origin, outer.Raw, outer.Code, outer.Target = OriginRecord, raw, code, text("target")
	outer.Record = &PlainRecord{text("event_id"), members["payload"], code, text("target"), text("flow")}
	return outer
}

// Errors of a plain record that cannot become an event.
var (
	errRecordID   = errors.New("event_id is missing or no text")
	errRecordFlow = errors.New("no flow is named: give the record a flow, or use --flow")
)
