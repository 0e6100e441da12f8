package events

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"
)

// busAttribute names the bus that an event is published on.
const busAttribute = "aliyuneventbusname"

// What PutEvents takes of an attribute, in characters.
// https://www.alibabacloud.com/help/en/eventbridge/product-overview/limits
var attributeLimits = []struct {
	name  string
	limit int
}{{"id", 128}, {"source", 128}, {"type", 64}, {"subject", 512}}

// Outgoing is an event that may be published.
type Outgoing struct {
	*Event
	Raw []byte // as it is sent: with its bus, otherwise byte by byte as it was
	Bus string
}

// ReadOutgoing reads an event that is to be published on its own bus, or on bus
// where it names none. An error says what PutEvents would refuse; its text holds
// nothing of the event.
func ReadOutgoing(raw []byte, bus string) (Outgoing, error) {
	raw = bytes.TrimSpace(raw)
	e, err := Decode(raw)
	if err != nil {
		return Outgoing{}, err
	}
	tree := e.Tree()
	for _, a := range attributeLimits {
		s, _ := tree[a.name].(string)
		if _, present := tree[a.name]; present && s == "" {
			return Outgoing{}, fmt.Errorf("%s is empty or no string", a.name)
		}
		if n := utf8.RuneCountInString(s); n > a.limit {
			return Outgoing{}, fmt.Errorf("%s has %d characters; the bus takes %d at most", a.name, n, a.limit)
		}
	}
	out := Outgoing{e, raw, bus}
	switch named := tree[busAttribute].(type) {
	case nil:
		if _, present := tree[busAttribute]; present {
			return Outgoing{}, errors.New(busAttribute + " is null")
		}
		name, err := json.Marshal(bus)
		if err != nil || bus == "" {
			return Outgoing{}, errors.New("the event names no bus, and no other is known")
		}
		out.Raw = append([]byte(`{"`+busAttribute+`":`+string(name)+`,`), bytes.TrimLeft(raw[1:], " \t\r\n")...)
	case string:
		if named == "" {
			return Outgoing{}, errors.New(busAttribute + " is empty")
		}
		out.Bus = named
	default:
		return Outgoing{}, errors.New(busAttribute + " is no string")
	}
	if len(out.Raw) > MaxSize {
		return Outgoing{}, fmt.Errorf("the event has %d bytes with the name of its bus; the bus takes %d at most: put large content into OSS and name the object in the event", len(out.Raw), MaxSize)
	}
	return out, nil
}
