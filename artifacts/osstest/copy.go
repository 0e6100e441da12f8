package osstest

import (
	"cmp"
	"encoding/xml"
	"net/http"
	"net/url"
	"strings"
)

const (
	directiveCopy    = "COPY"
	directiveReplace = "REPLACE"

	copySource = "X-Oss-Copy-Source"
)

type copyResult struct {
	XMLName      xml.Name `xml:"CopyObjectResult"`
	ETag         string   `xml:"ETag"`
	LastModified string   `xml:"LastModified"`
}

// copyObject puts an object that is there already, under the same or another
// name. The bytes come from the source; by default so do its headers, its user
// meta and its tags. Its encryption never comes along.
func (e *engine) copyObject(c *call, b *bucket) (reply, error) {
	forbid, err := c.forbidOverwrite()
	if err != nil {
		return reply{}, err
	}
	from, src, err := e.source(c)
	if err != nil {
		return reply{}, err
	}
	v, err := newVersion(c, b)
	if err != nil {
		return reply{}, err
	}
	// Where a never versioned object is copied onto itself only its meta
	// changes, so that COPY would mean nothing.
	onto := from == b && src.Key == c.key && b.Versioning == ""
	meta, err := c.directive("x-oss-metadata-directive")
	if err != nil {
		return reply{}, err
	}
	if meta == directiveCopy && !onto {
		v.ContentType, v.Headers, v.Meta = src.ContentType, src.Headers, src.Meta
	}
	tagging, err := c.directive("x-oss-tagging-directive")
	if err != nil {
		return reply{}, err
	}
	if tagging == directiveCopy {
		v.Tags = src.Tags
	}
	v.Body, v.ETag, v.CRC = src.Body, src.ETag, src.CRC
	h, err := e.place(b, v, forbid)
	if err != nil {
		return reply{}, err
	}
	if from.Versioning != "" {
		h.Set("x-oss-copy-source-version-id", src.ID)
	}
	rep := xmlReply(copyResult{ETag: v.ETag, LastModified: v.Modified.UTC().Format(xmlTime)})
	rep.header = merge(rep.header, h)
	return rep, nil
}

// source finds the object that x-oss-copy-source names and holds the call's
// conditions against it. A delete marker is no source.
func (e *engine) source(c *call) (*bucket, *version, error) {
	bad := invalidArgument("Copy Source must mention the source bucket and key: /sourcebucket/sourcekey.")
	raw, query, hasQuery := strings.Cut(c.header(copySource), "?")
	name, err := url.QueryUnescape(raw)
	if err != nil {
		return nil, nil, bad
	}
	id := ""
	if hasQuery {
		var ok bool
		if id, ok = strings.CutPrefix(query, "versionId="); !ok || id == "" {
			return nil, nil, bad
		}
	}
	bucketName, key, found := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	if !found || !validBucket(bucketName) || !validKey(key) {
		return nil, nil, bad
	}
	b := e.store.buckets[bucketName]
	if b == nil {
		return nil, nil, noSuchBucket()
	}
	v := b.current(key)
	if id != "" {
		if v = b.find(key, id); v == nil {
			return nil, nil, refuse(http.StatusNotFound, "NoSuchVersion", "The specified version does not exist.")
		}
	}
	if v == nil || v.Marker {
		return nil, nil, refuse(http.StatusNotFound, "NoSuchKey", "The specified key does not exist.")
	}
	if err := v.conditions(c, "x-oss-copy-source-"); err != nil {
		return nil, nil, err
	}
	return b, v, nil
}

// directive reads COPY or REPLACE from a header; COPY is what none means.
func (c *call) directive(header string) (string, error) {
	switch d := strings.ToUpper(cmp.Or(c.header(header), directiveCopy)); d {
	case directiveCopy, directiveReplace:
		return d, nil
	}
	return "", invalidArgument(header + " must be COPY or REPLACE.")
}

func merge(to, from http.Header) http.Header {
	for name, values := range from {
		to[name] = values
	}
	return to
}
