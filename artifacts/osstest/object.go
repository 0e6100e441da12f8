package osstest

import (
	"crypto/md5"
	"encoding/hex"
	"hash/crc64"
	"net/http"
	"strconv"
	"strings"
)

const (
	maxMeta    = 8 << 10 // bytes of all x-oss-meta- names and values
	metaPrefix = "x-oss-meta-"
)

// contentHeaders are kept with an object and come back with it.
func contentHeaders() []string {
	return []string{"Cache-Control", "Content-Disposition", "Content-Encoding", "Content-Language", "Expires"}
}

func (e *engine) putObject(c *call, b *bucket) (reply, error) {
	forbid, err := c.forbidOverwrite()
	if err != nil {
		return reply{}, err
	}
	v, err := newVersion(c, b)
	if err != nil {
		return reply{}, err
	}
	h, err := e.place(b, v, forbid)
	return reply{header: h}, err
}

func (c *call) forbidOverwrite() (bool, error) {
	forbid := c.header("x-oss-forbid-overwrite")
	if len(c.request.Header.Values("x-oss-forbid-overwrite")) > 0 && forbid != "true" && forbid != "false" {
		return false, invalidArgument("x-oss-forbid-overwrite must be true or false.")
	}
	return forbid == "true", nil
}

// place stores a finished version and returns the headers that an upload or a
// copy answers with.
func (e *engine) place(b *bucket, v *version, forbid bool) (http.Header, error) {
	if forbid && b.Versioning == "" && b.current(v.Key) != nil {
		return nil, refuse(http.StatusConflict, "FileAlreadyExists", "The object you specified already exists and can not be overwritten.")
	}
	v.Seq, v.Bucket = e.store.next(), b.Name
	if err := e.store.commit(b.placing(v)); err != nil {
		return nil, err
	}
	h := http.Header{"Etag": {v.ETag}}
	h.Set("x-oss-hash-crc64ecma", strconv.FormatUint(v.CRC, 10))
	v.showSSE(h)
	b.showID(h, v)
	return h, nil
}

// newVersion makes an object out of a put; its place in the bucket is not decided yet.
func newVersion(c *call, b *bucket) (*version, error) {
	sum := md5.Sum(c.body)
	v := &version{
		Key: c.key, Modified: c.now, Body: c.body,
		ETag:        `"` + strings.ToUpper(hex.EncodeToString(sum[:])) + `"`,
		CRC:         crc64.Checksum(c.body, crc64.MakeTable(crc64.ECMA)),
		ContentType: c.header("Content-Type"),
		Headers:     map[string]string{},
	}
	if v.ContentType == "" {
		v.ContentType = "application/octet-stream"
	}
	for _, name := range contentHeaders() {
		if s := c.header(name); s != "" {
			v.Headers[name] = s
		}
	}
	acl, class := c.header("x-oss-object-acl"), c.header("x-oss-storage-class")
	switch {
	case acl != "" && acl != "private" && acl != "default":
		return nil, notImplemented("the object ACL " + acl)
	case class != "" && class != "Standard":
		return nil, notImplemented("the storage class " + class)
	}
	if err := v.encrypt(c, b); err != nil {
		return nil, err
	}
	var err error
	if v.Meta, err = userMeta(c.request.Header); err != nil {
		return nil, err
	}
	v.Tags, err = parseTags(c.header("x-oss-tagging"))
	return v, err
}

func userMeta(h http.Header) (map[string]string, error) {
	meta, size := map[string]string{}, 0
	for name, values := range h {
		lower := strings.ToLower(name)
		key, ok := strings.CutPrefix(lower, metaPrefix)
		if !ok {
			continue
		}
		if len(values) != 1 {
			return nil, invalidArgument("A user meta header is given more than once.")
		}
		value := strings.TrimSpace(values[0])
		if key == "" || strings.ContainsFunc(key, func(r rune) bool {
			return r > 0x7f || !isLower(byte(r)) && !isDigit(byte(r)) && r != '-'
		}) {
			return nil, invalidArgument("The name of a user meta header may hold letters, digits and hyphens only.")
		}
		if strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
			return nil, invalidArgument("The value of a user meta header must be printable ASCII.")
		}
		size += len(lower) + len(value)
		meta[key] = value
	}
	if size > maxMeta {
		return nil, invalidArgument("The total size of user meta is more than 8 KB.")
	}
	return meta, nil
}

// read finds the version that a call is about.
func (b *bucket) read(c *call) (*version, error) {
	if c.has("versionId") {
		id := c.query["versionId"]
		if id == "" {
			return nil, invalidArgument("versionId can't be empty.")
		}
		v := b.find(c.key, id)
		if v == nil {
			return nil, refuse(http.StatusNotFound, "NoSuchVersion", "The specified version does not exist.")
		}
		if v.Marker {
			e := refuse(http.StatusMethodNotAllowed, "MethodNotAllowed", "The specified method is not allowed against this resource.")
			e.header = http.Header{"X-Oss-Delete-Marker": {"true"}, "X-Oss-Version-Id": {v.ID}}
			return nil, e
		}
		return v, nil
	}
	v := b.current(c.key)
	if v == nil || v.Marker {
		e := refuse(http.StatusNotFound, "NoSuchKey", "The specified key does not exist.")
		if v != nil {
			e.header = http.Header{"X-Oss-Delete-Marker": {"true"}, "X-Oss-Version-Id": {v.ID}}
		}
		return nil, e
	}
	return v, nil
}

// showID adds the version id to an answer, which a bucket that was never versioned does not do.
func (b *bucket) showID(h http.Header, v *version) {
	if b.Versioning != "" {
		h.Set("x-oss-version-id", v.ID)
	}
}

func (v *version) showSSE(h http.Header) {
	if v.SSE != "" {
		h.Set("x-oss-server-side-encryption", v.SSE)
	}
	if v.SSEKeyID != "" {
		h.Set("x-oss-server-side-encryption-key-id", v.SSEKeyID)
	}
}

func (e *engine) deleteObject(c *call, b *bucket) (reply, error) {
	h, err := e.remove(c, b, c.key, c.query["versionId"], c.has("versionId"))
	return reply{status: http.StatusNoContent, header: h}, err
}

// remove deletes one version, or the object as a whole. What isn't there is deleted already.
func (e *engine) remove(c *call, b *bucket, key, id string, byID bool) (http.Header, error) {
	h := http.Header{}
	if !byID {
		var seq uint64
		if b.Versioning != "" {
			seq = e.store.next()
		}
		ch, marker := b.deleting(key, seq, c.now)
		if marker != nil {
			h.Set("x-oss-delete-marker", "true")
			h.Set("x-oss-version-id", marker.ID)
		}
		return h, e.store.commit(ch)
	}
	if id == "" {
		return nil, invalidArgument("versionId can't be empty.")
	}
	h.Set("x-oss-version-id", id)
	v := b.find(key, id)
	if v == nil {
		return h, nil
	}
	if v.Marker {
		h.Set("x-oss-delete-marker", "true")
	}
	return h, e.store.commit(change{remove: []*version{v}})
}
