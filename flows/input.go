package flows

import (
	"encoding/base64"
	"errors"
	"strings"

	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/internal/strictjson"
)

// Input is what a flow sees of an event: its data, or what a source has wrapped
// inside it.
type Input struct {
	// Binary holds the bytes of a payload that is not JSON.
	Binary []byte

	event   *events.Event
	wrapped bool             // data is not what stands in the event
	data    strictjson.Value // missing where the payload is binary, or there is none
}

// Payload builds the JSON payload as package strictjson reads it, nil where
// there is none. Each call builds one of its own.
func (in *Input) Payload() any { return in.data.Any() }

// At returns what a path leads to, from the event's object on, in which the
// payload stands under "data".
func (in *Input) At(p strictjson.Path) strictjson.Value {
	if in.wrapped && len(p) > 0 && !p[0].Element {
		switch p[0].Name {
		case "data":
			return in.data.At(p[1:])
		case "data_base64":
			return strictjson.Value{}
		}
	}
	return in.event.At(p)
}

// Ways to reach a payload that a source wraps.
const (
	decodeJSON       = "json"        // a text that is JSON
	decodeBase64JSON = "base64+json" // base64 of JSON
	decodeBase64     = "base64"      // base64 of anything: binary
	decodeText       = "text"        // the text itself
)

var decoders = []string{decodeJSON, decodeBase64JSON, decodeBase64, decodeText}

// wrapped says where a payload hides, and in what.
type wrapped struct {
	path   path
	decode string
}

// Errors of Flow.Input; their texts are fixed.
var (
	errNotWrapped = errors.New("the payload's path names no text")
	errNotBase64  = errors.New("the payload is not base64")
	errNotJSON    = errors.New("the payload is not valid JSON")
)

// Input reads what the flow works on. An error says that the event has no such
// payload; its text holds nothing of the event.
func (f *Flow) Input(e *events.Event) (*Input, error) {
	if f.payload == nil {
		return &Input{Binary: e.Binary, event: e, data: e.Payload()}, nil
	}
	found := f.payload.path.find(e)
	text, ok := found.Text()
	if !ok {
		return nil, errNotWrapped
	}
	in := &Input{event: e, wrapped: true}
	raw := []byte(text)
	if f.payload.decode == decodeBase64 || f.payload.decode == decodeBase64JSON {
		var err error
		if raw, err = base64.StdEncoding.DecodeString(text); err != nil {
			return nil, errNotBase64
		}
	}
	switch f.payload.decode {
	case decodeBase64:
		in.Binary = raw
	case decodeText:
		in.data = found
	default:
		var err error
		if in.data, err = strictjson.Check(raw); err != nil {
			return nil, errNotJSON
		}
	}
	return in, nil
}

// reference says where the event names content that lives in OSS, and what pins it.
type reference struct {
	bucket    string // "" for the function's own
	object    path
	sha256    *path
	versionID *path
}

// Content is content that an event refers to.
type Content struct {
	Bucket    string // "" for the function's own
	Object    string
	SHA256    string // hex; "" where the version id alone pins it
	VersionID string
}

var errReference = errors.New("the event names no object, or neither its sha256 nor its version id")

// Content reads the event's reference to content; ok is false where the flow has none.
func (f *Flow) Content(in *Input) (c Content, ok bool, err error) {
	if f.content == nil {
		return Content{}, false, nil
	}
	text := func(p *path) (s string, given bool) {
		if p == nil {
			return "", false
		}
		v := p.find(in)
		s, isText := v.Text()
		return s, v.Exists() && v.Kind() != 'n' && (s != "" || !isText)
	}
	object, _ := text(&f.content.object)
	sum, hasSum := text(f.content.sha256)
	version, hasVersion := text(f.content.versionID)
	sum = strings.TrimPrefix(sum, "sha256:")
	switch {
	case object == "", hasSum && !isSHA256(sum), hasVersion && version == "":
		return Content{}, true, errReference
	case !hasSum && (!hasVersion || version == "null"):
		// "null" is what a bucket without versions calls whatever is there now.
		return Content{}, true, errReference
	}
	return Content{Bucket: f.content.bucket, Object: object, SHA256: sum, VersionID: version}, true, nil
}

func isSHA256(s string) bool {
	if len(s) != 64 {
		return false
	}
	for _, r := range s {
		if (r < '0' || r > '9') && (r < 'a' || r > 'f') {
			return false
		}
	}
	return true
}
