package osstest

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
)

func (e *engine) getObject(c *call, b *bucket) (reply, error) {
	v, h, err := b.open(c)
	if err != nil {
		return reply{}, err
	}
	rep := reply{header: h, body: v.Body}
	header := c.header("Range")
	if header == "" {
		return rep, nil
	}
	strict := c.header("x-oss-range-behavior")
	if strict != "" && strict != "standard" {
		return reply{}, invalidArgument("x-oss-range-behavior must be standard.")
	}
	if strings.Contains(header, ",") {
		return reply{}, notImplemented("several ranges")
	}
	start, end, ok := cutRange(header, len(v.Body), strict != "")
	switch {
	case ok:
		h.Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", start, end-1, len(v.Body)))
		return reply{status: http.StatusPartialContent, header: h, body: v.Body[start:end]}, nil
	case strict != "":
		return reply{}, refuse(http.StatusRequestedRangeNotSatisfiable, "InvalidRange", "The requested range cannot be satisfied.")
	}
	return rep, nil
}

// cutRange reads bytes=a-b, bytes=a- and bytes=-n into [start, end). Where a
// range reaches over the end, the standard says to shorten it and OSS, unless
// it is told to follow the standard, says to ignore it.
func cutRange(header string, size int, standard bool) (start, end int, ok bool) {
	first, last, ok := strings.Cut(strings.TrimPrefix(header, "bytes="), "-")
	if !ok || !strings.HasPrefix(header, "bytes=") {
		return 0, 0, false
	}
	if first == "" {
		n, err := strconv.ParseUint(last, 10, 31)
		if err != nil || n == 0 || int(n) > size && !standard {
			return 0, 0, false
		}
		return max(size-int(n), 0), size, size > 0
	}
	a, err := strconv.ParseUint(first, 10, 31)
	if err != nil || int(a) >= size {
		return 0, 0, false
	}
	if last == "" {
		return int(a), size, true
	}
	z, err := strconv.ParseUint(last, 10, 31)
	if err != nil || z < a || int(z) >= size && !standard {
		return 0, 0, false
	}
	return int(a), min(int(z)+1, size), true
}

func (e *engine) headObject(c *call, b *bucket) (reply, error) {
	v, h, err := b.open(c)
	if err != nil {
		return reply{}, err
	}
	h.Set("Content-Length", strconv.Itoa(len(v.Body)))
	return reply{header: h}, nil
}

// getObjectMeta is a HEAD that tells the little which needs no user meta.
func (e *engine) getObjectMeta(c *call, b *bucket) (reply, error) {
	v, err := b.read(c)
	if err != nil {
		return reply{}, err
	}
	h := http.Header{
		"Etag":           {v.ETag},
		"Last-Modified":  {v.Modified.UTC().Format(http.TimeFormat)},
		"Content-Length": {strconv.Itoa(len(v.Body))},
	}
	h.Set("x-oss-hash-crc64ecma", strconv.FormatUint(v.CRC, 10))
	b.showID(h, v)
	return reply{header: h}, nil
}

// open finds the object of a GET or HEAD, holds the call's conditions against
// it, and returns the headers of the answer.
func (b *bucket) open(c *call) (*version, http.Header, error) {
	v, err := b.read(c)
	if err != nil {
		return nil, nil, err
	}
	h := http.Header{
		"Etag":          {v.ETag},
		"Last-Modified": {v.Modified.UTC().Format(http.TimeFormat)},
	}
	b.showID(h, v)
	if err := v.conditions(c, ""); err != nil {
		if err.status == http.StatusNotModified {
			err.header = h
		}
		return nil, nil, err
	}
	h.Set("Accept-Ranges", "bytes")
	h.Set("Content-Type", v.ContentType)
	h.Set("x-oss-hash-crc64ecma", strconv.FormatUint(v.CRC, 10))
	h.Set("x-oss-object-type", "Normal")
	h.Set("x-oss-storage-class", "Standard")
	if len(v.Tags) > 0 {
		h.Set("x-oss-tagging-count", strconv.Itoa(len(v.Tags)))
	}
	for name, value := range v.Headers {
		h.Set(name, value)
	}
	for name, value := range v.Meta {
		h.Set(metaPrefix+name, value)
	}
	v.showSSE(h)
	return v, h, nil
}

// conditions returns the refusal of a call whose If- headers don't hold, or nil.
// Those of a copy have a prefix.
func (v *version) conditions(c *call, prefix string) *refusal {
	failed := refuse(http.StatusPreconditionFailed, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold.")
	modified := v.Modified.Truncate(time.Second)
	for _, name := range []string{"If-Match", "If-Unmodified-Since", "If-None-Match", "If-Modified-Since"} {
		value := c.header(prefix + name)
		if value == "" {
			continue
		}
		if strings.HasSuffix(name, "Match") {
			if strings.ContainsAny(value, ",*") {
				return notImplemented("lists and wildcards in " + name)
			}
			same := strings.Trim(value, `"`) == strings.Trim(v.ETag, `"`)
			switch {
			case name == "If-Match" && !same:
				return failed
			case name == "If-None-Match" && same:
				return refuse(http.StatusNotModified, "NotModified", "")
			}
			continue
		}
		t, err := http.ParseTime(value)
		if err != nil && prefix != "" {
			t, err = time.Parse(xmlTime, value) // as the reference of CopyObject spells it
		}
		switch {
		case err != nil:
			return invalidArgument(name + " is not an HTTP date.")
		case name == "If-Unmodified-Since" && modified.After(t):
			return failed
		case name == "If-Modified-Since" && !modified.After(t):
			return refuse(http.StatusNotModified, "NotModified", "")
		}
	}
	return nil
}
