package osstest

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

type level int

const (
	serviceLevel level = iota
	bucketLevel
	objectLevel
)

// route is one operation: how to recognise it and all that it understands.
type route struct {
	op      string
	method  string
	level   level
	sub     string   // the query parameter that selects it, "" for none
	by      string   // the header that selects it, "" for none
	params  []string // further parameters
	headers []string // x-oss- and conditional headers; a trailing * matches a prefix
	run     func(*call, *bucket) (reply, error)
}

func (e *engine) table() []route {
	page := []string{"prefix", "delimiter", "max-keys", "encoding-type"}
	version := []string{"versionId"}
	upload := []string{
		"X-Oss-Meta-*", "X-Oss-Tagging", "X-Oss-Forbid-Overwrite",
		"X-Oss-Server-Side-Encryption", "X-Oss-Server-Side-Encryption-Key-Id",
		"X-Oss-Object-Acl", "X-Oss-Storage-Class",
	}
	conditions := []string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since"}
	return []route{
		{op: "ListBuckets", method: "GET", level: serviceLevel, params: []string{"prefix", "marker", "max-keys"}, run: e.listBuckets},

		{op: "CreateBucket", method: "PUT", level: bucketLevel, headers: []string{"X-Oss-Acl"}, run: e.createBucket},
		{op: "DeleteBucket", method: "DELETE", level: bucketLevel, run: e.deleteBucket},
		{op: "GetBucketInfo", method: "GET", level: bucketLevel, sub: "bucketInfo", run: e.getBucketInfo},
		{op: "PutBucketVersioning", method: "PUT", level: bucketLevel, sub: "versioning", run: e.putBucketVersioning},
		{op: "GetBucketVersioning", method: "GET", level: bucketLevel, sub: "versioning", run: e.getBucketVersioning},
		{op: "PutBucketEncryption", method: "PUT", level: bucketLevel, sub: "encryption", run: e.putBucketEncryption},
		{op: "GetBucketEncryption", method: "GET", level: bucketLevel, sub: "encryption", run: e.getBucketEncryption},
		{op: "DeleteBucketEncryption", method: "DELETE", level: bucketLevel, sub: "encryption", run: e.deleteBucketEncryption},
		{op: "PutBucketLifecycle", method: "PUT", level: bucketLevel, sub: "lifecycle", headers: []string{sameAction}, run: e.putBucketLifecycle},
		{op: "GetBucketLifecycle", method: "GET", level: bucketLevel, sub: "lifecycle", run: e.getBucketLifecycle},
		{op: "DeleteBucketLifecycle", method: "DELETE", level: bucketLevel, sub: "lifecycle", run: e.deleteBucketLifecycle},
		{op: "ListObjects", method: "GET", level: bucketLevel, params: append(page, "marker"), run: e.listObjects},
		{
			op: "ListObjects", method: "GET", level: bucketLevel, sub: "list-type",
			params: append(page, "continuation-token", "start-after", "fetch-owner"), run: e.listObjectsV2,
		},
		{
			op: "ListObjectVersions", method: "GET", level: bucketLevel, sub: "versions",
			params: append(page, "key-marker", "version-id-marker"), run: e.listObjectVersions,
		},
		{
			op: "DeleteMultipleObjects", method: "POST", level: bucketLevel, sub: "delete",
			params: []string{"encoding-type"}, run: e.deleteMultipleObjects,
		},

		{op: "PutObject", method: "PUT", level: objectLevel, headers: upload, run: e.putObject},
		{
			op: "CopyObject", method: "PUT", level: objectLevel, by: copySource, run: e.copyObject,
			headers: append(slices.Clone(upload), copySource, copySource+"-If-Match", copySource+"-If-None-Match",
				copySource+"-If-Modified-Since", copySource+"-If-Unmodified-Since", "X-Oss-Metadata-Directive", "X-Oss-Tagging-Directive"),
		},
		{
			op: "GetObject", method: "GET", level: objectLevel, params: version, run: e.getObject,
			headers: append(slices.Clone(conditions), "Range", "X-Oss-Range-Behavior"),
		},
		{op: "HeadObject", method: "HEAD", level: objectLevel, params: version, headers: conditions, run: e.headObject},
		{op: "GetObjectMeta", method: "HEAD", level: objectLevel, sub: "objectMeta", params: version, run: e.getObjectMeta},
		{op: "DeleteObject", method: "DELETE", level: objectLevel, params: version, run: e.deleteObject},
		{op: "PutObjectTagging", method: "PUT", level: objectLevel, sub: "tagging", params: version, run: e.putObjectTagging},
		{op: "GetObjectTagging", method: "GET", level: objectLevel, sub: "tagging", params: version, run: e.getObjectTagging},
		{op: "DeleteObjectTagging", method: "DELETE", level: objectLevel, sub: "tagging", params: version, run: e.deleteObjectTagging},
	}
}

// find returns the operation of a call, or nil where one of its parameters is unknown to it.
func (e *engine) find(c *call) *route {
	var found *route
	for i := range e.routes {
		rt := &e.routes[i]
		if rt.method != c.request.Method || rt.level != c.level() {
			continue
		}
		switch {
		case rt.sub != "" && c.has(rt.sub), rt.sub == "" && rt.by == "" && found == nil:
			found = rt
		case rt.by != "" && c.header(rt.by) != "" && (found == nil || found.sub == ""):
			found = rt
		}
	}
	if found == nil {
		return nil
	}
	for name := range c.query {
		if name != found.sub && !slices.Contains(found.params, name) {
			return nil
		}
	}
	return found
}

// unsupported returns a header that would change the operation but is not modelled.
func (rt *route) unsupported(h http.Header) string {
	for _, name := range slices.Sorted(maps.Keys(h)) {
		canonical := http.CanonicalHeaderKey(name)
		switch canonical {
		case "X-Oss-Security-Token", "X-Oss-Date", "X-Oss-Content-Sha256":
			continue
		case "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "Range":
		default:
			if !strings.HasPrefix(canonical, "X-Oss-") {
				continue
			}
		}
		if !rt.understands(canonical) && !doubled(h, canonical) {
			return canonical
		}
	}
	return ""
}

// doubled says whether a header of a copy is there with and without the prefix
// of the source: the Node.js client sends each header of a copy in both ways,
// also where one of the two has no meaning.
func doubled(h http.Header, name string) bool {
	if h.Get(copySource) == "" {
		return false
	}
	if rest, ok := strings.CutPrefix(name, copySource+"-"); ok {
		return len(h.Values(rest)) > 0 && h.Get(rest) == h.Get(name)
	}
	return h.Get(copySource+"-"+name) == h.Get(name)
}

func (rt *route) understands(header string) bool {
	return slices.ContainsFunc(rt.headers, func(known string) bool {
		if prefix, ok := strings.CutSuffix(known, "*"); ok {
			return strings.HasPrefix(header, prefix)
		}
		return header == known
	})
}
