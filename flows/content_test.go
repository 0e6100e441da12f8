package flows

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// referring is an event whose data names an object.
func referring(data string) string { return head + `,"data":{"no":"1",` + data + `}}` }

const goodReference = `"object":"a/b.txt","sha256":"` + sha + `","version":"v1"`

func withContent(t *testing.T, content string) *Flow {
	t.Helper()
	return loaded(t, "content", content, "sample", "'"+referring(goodReference)+"'")
}

func TestContentIsWhatTheEventPins(t *testing.T) {
	bySum, byVersion := "{object: $.data.object, sha256: $.data.sha256}", "{object: $.data.object, version_id: $.data.version}"
	both := "{bucket: other, object: $.data.object, sha256: $.data.sha256, version_id: $.data.version}"
	for _, c := range []struct {
		name, content, data string
		want                *Content // nil: refused
	}{
		{"a hash", bySum, goodReference, &Content{Object: "a/b.txt", SHA256: sha}},
		{"a hash with its name before it", bySum, `"object":"a","sha256":"sha256:` + sha + `"`, &Content{Object: "a", SHA256: sha}},
		{"a version", byVersion, goodReference, &Content{Object: "a/b.txt", VersionID: "v1"}},
		{"both, in another bucket", both, goodReference, &Content{Bucket: "other", Object: "a/b.txt", SHA256: sha, VersionID: "v1"}},
		{"both wanted, a hash alone", both, `"object":"a","sha256":"` + sha + `"`, &Content{Bucket: "other", Object: "a", SHA256: sha}},
		{"both wanted, a version alone", both, `"object":"a","version":"v1","sha256":null`, &Content{Bucket: "other", Object: "a", VersionID: "v1"}},
		{"a hash, of a bucket without versions", both, `"object":"a","version":"null","sha256":"` + sha + `"`, &Content{Bucket: "other", Object: "a", SHA256: sha, VersionID: "null"}},
		{"no hash", bySum, `"object":"a","version":"v1"`, nil},
		{"no version", byVersion, `"object":"a","sha256":"` + sha + `"`, nil},
		{"neither", both, `"object":"a","sha256":"","version":""`, nil},
		{"no object", bySum, `"sha256":"` + sha + `"`, nil},
		{"an empty object name", bySum, `"object":"","sha256":"` + sha + `"`, nil},
		{"a number as object", bySum, `"object":7,"sha256":"` + sha + `"`, nil},
		{"a short hash", bySum, `"object":"a","sha256":"` + sha[1:] + `"`, nil},
		{"a long hash", bySum, `"object":"a","sha256":"` + sha + `0"`, nil},
		{"no hexadecimal digits", bySum, `"object":"a","sha256":"` + strings.Repeat("g", 64) + `"`, nil},
		{"the name of a hash alone", bySum, `"object":"a","sha256":"sha256:"`, nil},
		{"another hash's name", bySum, `"object":"a","sha256":"sha512:` + sha + `"`, nil},
		{"a broken hash beside a version", both, `"object":"a","sha256":"x","version":"v1"`, nil},
		{"a hash's bare name beside a version", both, `"object":"a","sha256":"sha256:","version":"v1"`, nil},
		{"a number as hash beside a version", both, `"object":"a","sha256":7,"version":"v1"`, nil},
		{"a number as version beside a hash", both, `"object":"a","sha256":"` + sha + `","version":7`, nil},
		{"S27 the version of a bucket without versions", byVersion, `"object":"a","version":"null"`, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := withContent(t, c.content)
			got, ok, err := f.Content(input(t, f, decode(t, referring(c.data))))
			if !ok {
				t.Fatal("the flow has content")
			}
			if c.want == nil {
				if !errors.Is(err, errReference) || got != (Content{}) {
					t.Errorf("got %+v %v", got, err)
				}
			} else if err != nil || got != *c.want {
				t.Errorf("got %+v %v, want %+v", got, err, *c.want)
			}
		})
	}
	f := loaded(t)
	if _, ok, err := f.Content(input(t, f, decode(t, referring(goodReference)))); ok || err != nil {
		t.Errorf("a flow without content: %v %v", ok, err)
	}
}

func TestContentIsNamedByTheDecodedPayload(t *testing.T) {
	body := `{"no":"1",` + goodReference + `}`
	f := loaded(t, "payload", "{path: $.data.body, decode: json}", "content", "{object: $.data.object, sha256: $.data.sha256}", "sample", "'"+around(body)+"'")
	text, _ := json.Marshal(body)
	e := decode(t, head+`,"data":{"body":`+string(text)+`,"object":"outside"}}`)
	if c, ok, err := f.Content(input(t, f, e)); err != nil || !ok || c.Object != "a/b.txt" {
		t.Errorf("got %+v %v %v", c, ok, err)
	}
}

func TestLoadRefusesContentThatIsNotPinned(t *testing.T) {
	for _, c := range []struct{ name, content, field, reason string }{
		{"neither hash nor version", "{object: $.data.object}", "content", "may change under its name"},
		{"no object", "{sha256: $.data.sha256}", "content.object", "no JSONPath"},
		{"an object path to many", "{object: '$.data.*', sha256: $.data.sha256}", "content.object", "more than one value"},
		{"a hash that is no path", "{object: $.data.object, sha256: " + sha + "}", "content.sha256", "no JSONPath"},
		{"a version that is no path", "{object: $.data.object, version_id: v1}", "content.version_id", "no JSONPath"},
		{"an object that the sample does not name", "{object: $.data.nope, sha256: $.data.sha256}", "content.object", "names nothing"},
		{"a hash that the sample does not name", "{object: $.data.object, sha256: $.data.nope}", "content.sha256", "names nothing"},
		{"a version that the sample does not name", "{object: $.data.object, version_id: $.data.nope}", "content.version_id", "names nothing"},
		{"what is no hash in the sample", "{object: $.data.object, sha256: $.data.version}", "content", "of the sample event"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := loadText(flowText(set("content", c.content, "sample", "'"+referring(goodReference)+"'")))
			refused(t, err, c.field, c.reason)
		})
	}
}
