package flows

import (
	"encoding/base64"
	"errors"
	"maps"
	"strings"

	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/internal/strictjson"
)

// Input is what a flow sees of an event: its data, or what a source has wrapped
// inside it.
type Input struct {
	// Payload is the JSON payload as package strictjson reads it; Binary holds
	// the bytes of a payload that is not JSON.
	Payload any
	Binary  []byte

	tree map[string]any // the event with Payload under "data"
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
		payload, _ := e.Payload()
		return &Input{Payload: payload, Binary: e.Binary, tree: e.Tree}, nil
	}
	v, _ := f.payload.path.find(e.Tree)
	text, ok := v.(string)
	if !ok {
		return nil, errNotWrapped
	}
	in := &Input{tree: maps.Clone(e.Tree)}
	delete(in.tree, "data")
	delete(in.tree, "data_base64")
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
		return in, nil
	case decodeText:
		in.Payload = text
	default:
		var err error
		if in.Payload, err = strictjson.Parse(raw); err != nil {
			return nil, errNotJSON
		}
	}
	in.tree["data"] = in.Payload
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
		v, _ := p.find(in.tree)
		s, _ = v.(string)
		return s, v != nil && v != ""
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
