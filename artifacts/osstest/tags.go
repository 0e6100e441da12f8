package osstest

import (
	"encoding/xml"
	"net/http"
	"net/url"
	"strings"
)

const (
	maxTags     = 10
	maxTagKey   = 128
	maxTagValue = 256
)

type tag struct {
	Key   string `xml:"Key"`
	Value string `xml:"Value"`
}

type tagging struct {
	XMLName xml.Name `xml:"Tagging"`
	Tags    []tag    `xml:"TagSet>Tag"`
}

func invalidTag(message string) *refusal { return refuse(http.StatusBadRequest, "InvalidTag", message) }

// parseTags reads the x-oss-tagging header: key=value or key, joined by &, all escaped.
func parseTags(header string) ([]tag, error) {
	if header == "" {
		return nil, nil
	}
	var tags []tag
	for pair := range strings.SplitSeq(header, "&") {
		k, v, _ := strings.Cut(pair, "=")
		if strings.Contains(v, "=") {
			return nil, invalidTag("The tagging must be in the form key=value.")
		}
		key, err1 := url.QueryUnescape(k)
		value, err2 := url.QueryUnescape(v)
		if err1 != nil || err2 != nil {
			return nil, invalidTag("The tagging is not URL-encoded.")
		}
		tags = append(tags, tag{key, value})
	}
	return tags, checkTags(tags)
}

func checkTags(tags []tag) error {
	if len(tags) > maxTags {
		return invalidTag("An object can't have more than 10 tags.")
	}
	seen := map[string]bool{}
	for _, t := range tags {
		switch {
		case t.Key == "" || len(t.Key) > maxTagKey:
			return invalidTag("A tag key must have 1 to 128 characters.")
		case len(t.Value) > maxTagValue:
			return invalidTag("A tag value can't have more than 256 characters.")
		case !tagText(t.Key) || !tagText(t.Value):
			return invalidTag("A tag may hold letters, digits, spaces and + - = . _ : / only.")
		case seen[t.Key]:
			return invalidTag("A tag key can't be given twice.")
		}
		seen[t.Key] = true
	}
	return nil
}

func tagText(s string) bool {
	for i := range len(s) {
		if ch := s[i]; !isLower(ch) && !isUpper(ch) && !isDigit(ch) && !strings.ContainsRune(" +-=._:/", rune(ch)) {
			return false
		}
	}
	return true
}

func (e *engine) putObjectTagging(c *call, b *bucket) (reply, error) {
	var t tagging
	if err := xml.Unmarshal(c.body, &t); err != nil {
		return reply{}, malformedXML()
	}
	if err := checkTags(t.Tags); err != nil {
		return reply{}, err
	}
	return e.retag(c, b, t.Tags, http.StatusOK)
}

func (e *engine) deleteObjectTagging(c *call, b *bucket) (reply, error) {
	return e.retag(c, b, nil, http.StatusNoContent)
}

func (e *engine) retag(c *call, b *bucket, tags []tag, status int) (reply, error) {
	v, err := b.read(c)
	if err != nil {
		return reply{}, err
	}
	changed := *v
	changed.Tags = tags
	if err := e.store.commit(change{add: []*version{&changed}}); err != nil {
		return reply{}, err
	}
	h := http.Header{}
	b.showID(h, v)
	return reply{status: status, header: h}, nil
}

func (e *engine) getObjectTagging(c *call, b *bucket) (reply, error) {
	v, err := b.read(c)
	if err != nil {
		return reply{}, err
	}
	rep := xmlReply(tagging{Tags: v.Tags})
	b.showID(rep.header, v)
	return rep, nil
}
