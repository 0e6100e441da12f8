package osstest

import (
	"encoding/base64"
	"encoding/xml"
	"maps"
	"slices"
	"strconv"
	"strings"
)

const (
	defaultMaxKeys = 100
	mostMaxKeys    = 1000
)

// maxKeys returns the page size of a listing.
func (c *call) maxKeys() (int, error) {
	if !c.has("max-keys") {
		return defaultMaxKeys, nil
	}
	n, err := strconv.Atoi(c.query["max-keys"])
	if err != nil || n < 1 || n > mostMaxKeys {
		return 0, invalidArgument("max-keys must be 1 to 1000.")
	}
	return n, nil
}

// encoder returns how names are written into a listing.
func (c *call) encoder() (func(string) string, error) {
	switch c.query["encoding-type"] {
	case "":
		return func(s string) string { return s }, nil
	case "url":
		return escape, nil
	}
	return nil, invalidArgument("encoding-type must be url.")
}

// group returns the common prefix that a key hides behind, or "".
func group(key, prefix, delimiter string) string {
	if delimiter == "" {
		return ""
	}
	head, _, found := strings.Cut(key[len(prefix):], delimiter)
	if !found {
		return ""
	}
	return prefix + head + delimiter
}

// listing is one page of current objects.
type listing struct {
	objects  []*version
	prefixes []string
	next     string // the last name of a page that isn't the last one
}

// page collects up to limit names behind marker. A common prefix counts as one
// name, and a marker that is a common prefix has all of its keys behind it.
func (b *bucket) page(prefix, delimiter, marker string, limit int) listing {
	var out listing
	last := ""
	for _, key := range slices.Sorted(maps.Keys(b.keys)) {
		v := b.current(key)
		if v.Marker || !strings.HasPrefix(key, prefix) || key <= marker {
			continue
		}
		g := group(key, prefix, delimiter)
		if g != "" && (g == marker || g == last) {
			continue
		}
		if len(out.objects)+len(out.prefixes) == limit {
			out.next = last
			return out
		}
		if g != "" {
			out.prefixes = append(out.prefixes, g)
			last = g
			continue
		}
		out.objects = append(out.objects, v)
		last = key
	}
	return out
}

type contents struct {
	Key          string `xml:"Key"`
	LastModified string `xml:"LastModified"`
	ETag         string `xml:"ETag"`
	Type         string `xml:"Type"`
	Size         int    `xml:"Size"`
	StorageClass string `xml:"StorageClass"`
	Owner        *owner `xml:"Owner"`
}

type commonPrefix struct {
	Prefix string `xml:"Prefix"`
}

type objectList struct {
	XMLName        xml.Name       `xml:"ListBucketResult"`
	Name           string         `xml:"Name"`
	Prefix         string         `xml:"Prefix"`
	MaxKeys        int            `xml:"MaxKeys"`
	Delimiter      string         `xml:"Delimiter"`
	EncodingType   string         `xml:"EncodingType,omitempty"`
	IsTruncated    bool           `xml:"IsTruncated"`
	Contents       []contents     `xml:"Contents"`
	CommonPrefixes []commonPrefix `xml:"CommonPrefixes"`

	Marker     *string `xml:"Marker"` // v1
	NextMarker string  `xml:"NextMarker,omitempty"`

	StartAfter            string `xml:"StartAfter,omitempty"` // v2
	ContinuationToken     string `xml:"ContinuationToken,omitempty"`
	NextContinuationToken string `xml:"NextContinuationToken,omitempty"`
	KeyCount              *int   `xml:"KeyCount"`
}

// list answers a listing from marker on, without the parts in which v1 and v2 differ.
func (c *call) list(b *bucket, marker string, withOwner bool) (objectList, string, error) {
	limit, err := c.maxKeys()
	if err != nil {
		return objectList{}, "", err
	}
	enc, err := c.encoder()
	if err != nil {
		return objectList{}, "", err
	}
	prefix, delimiter := c.query["prefix"], c.query["delimiter"]
	p := b.page(prefix, delimiter, marker, limit)
	out := objectList{
		Name: b.Name, Prefix: enc(prefix), Delimiter: enc(delimiter), MaxKeys: limit,
		EncodingType: c.query["encoding-type"], IsTruncated: p.next != "",
	}
	for _, v := range p.objects {
		item := contents{
			Key: enc(v.Key), LastModified: v.Modified.UTC().Format(xmlTime), ETag: v.ETag,
			Type: "Normal", Size: len(v.Body), StorageClass: "Standard",
		}
		if withOwner {
			o := theOwner()
			item.Owner = &o
		}
		out.Contents = append(out.Contents, item)
	}
	for _, name := range p.prefixes {
		out.CommonPrefixes = append(out.CommonPrefixes, commonPrefix{enc(name)})
	}
	return out, p.next, nil
}

func (e *engine) listObjects(c *call, b *bucket) (reply, error) {
	marker := c.query["marker"]
	out, next, err := c.list(b, marker, true)
	if err != nil {
		return reply{}, err
	}
	enc, err := c.encoder()
	if err != nil {
		return reply{}, err
	}
	marker = enc(marker)
	out.Marker, out.NextMarker = &marker, enc(next)
	return xmlReply(out), nil
}

func (e *engine) listObjectsV2(c *call, b *bucket) (reply, error) {
	if c.query["list-type"] != "2" {
		return reply{}, invalidArgument("list-type must be 2.")
	}
	switch c.query["fetch-owner"] {
	case "", "true", "false":
	default:
		return reply{}, invalidArgument("fetch-owner must be true or false.")
	}
	marker := c.query["start-after"]
	if c.has("continuation-token") {
		raw, err := base64.RawURLEncoding.DecodeString(c.query["continuation-token"])
		if err != nil || len(raw) == 0 {
			return reply{}, invalidArgument("The continuation-token is not valid.")
		}
		marker = string(raw)
	}
	out, next, err := c.list(b, marker, c.query["fetch-owner"] == "true")
	if err != nil {
		return reply{}, err
	}
	enc, err := c.encoder()
	if err != nil {
		return reply{}, err
	}
	count := len(out.Contents) + len(out.CommonPrefixes)
	out.KeyCount = &count
	out.StartAfter = enc(c.query["start-after"])
	out.ContinuationToken = c.query["continuation-token"]
	if next != "" {
		out.NextContinuationToken = base64.RawURLEncoding.EncodeToString([]byte(next))
	}
	return xmlReply(out), nil
}
