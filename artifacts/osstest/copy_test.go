package osstest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"
)

func TestCopies(t *testing.T) {
	tags := func(v string) oss.Option {
		return oss.SetTagging(oss.Tagging{Tags: []oss.Tag{{Key: "class", Value: v}}})
	}
	original := func(e *env) {
		e.put("src/ü 1+%?.txt", "body", oss.Meta("owner", "me"), oss.ContentType("text/plain"), oss.CacheControl("no-store"), tags("input"), oss.ServerSideEncryption("AES256"))
	}
	const src = "src/ü 1+%?.txt"
	last := func(e *env, key string) Object {
		var found Object
		for _, o := range e.srv.Objects("room") {
			if o.Key == key {
				found = o
			}
		}
		return found
	}
	each(t, map[string]func(*testing.T, *env){
		"a copy takes all along but the encryption": func(t *testing.T, e *env) {
			original(e)
			var h http.Header
			r, err := e.bucket.CopyObject(src, "dst", oss.Meta("owner", "ignored"), oss.ContentType("text/html"), tags("ignored"), oss.GetResponseHeader(&h))
			must(t, err)
			head, err := e.bucket.GetObjectDetailedMeta("dst")
			must(t, err)
			want(t, r.ETag, head.Get("ETag"))
			want(t, h.Get("x-oss-hash-crc64ecma"), head.Get("x-oss-hash-crc64ecma"))
			want(t, r.LastModified.IsZero(), false)
			want(t, h.Get("x-oss-copy-source-version-id"), "")
			want(t, h.Get("x-oss-version-id"), "")
			o := last(e, "dst")
			want(t, string(o.Body)+o.ContentType+o.Metadata["owner"]+o.Tags["class"]+o.SSE, "bodytext/plainmeinput")
			want(t, head.Get("Cache-Control"), "no-store")
			want(t, e.get(src), "body")
			want(t, e.srv.Faults.Calls()["CopyObject"], 1)
		},
		"REPLACE takes the request's meta and tags": func(t *testing.T, e *env) {
			original(e)
			_, err := e.bucket.CopyObject(src, "dst", oss.MetadataDirective(oss.MetaReplace), oss.Meta("new", "1"))
			must(t, err)
			o := last(e, "dst")
			want(t, len(o.Metadata), 1)
			want(t, o.Metadata["new"]+o.ContentType+o.Tags["class"], "1application/octet-streaminput")
			_, err = e.bucket.CopyObject(src, "dst", oss.TaggingDirective(oss.TaggingReplace), tags("output"), oss.ServerSideEncryption("KMS"))
			must(t, err)
			o = last(e, "dst")
			want(t, o.Tags["class"]+o.Metadata["owner"]+o.SSE, "outputmeKMS")
			_, err = e.bucket.CopyObject(src, "dst", oss.TaggingDirective(oss.TaggingReplace))
			must(t, err)
			want(t, len(last(e, "dst").Tags), 0)
			for _, opt := range []oss.Option{oss.MetadataDirective("MOVE"), oss.TaggingDirective("MOVE")} {
				_, err = e.bucket.CopyObject(src, "dst", opt)
				want(t, verdict(err), "400 InvalidArgument")
			}
		},
		"meta is set by a copy of an object to itself": func(t *testing.T, e *env) {
			original(e)
			must(t, e.bucket.SetObjectMeta(src, oss.Meta("attempt", "2"), oss.ContentType("text/css")))
			o := last(e, src)
			want(t, string(o.Body)+o.ContentType+o.Metadata["attempt"]+o.Metadata["owner"]+o.Tags["class"], "bodytext/css2input")
			want(t, len(e.srv.Objects("room")), 1)
			_, err := e.bucket.CopyObject(src, src)
			must(t, err)
			want(t, len(last(e, src).Metadata), 0)
			e.versioning("Enabled")
			_, err = e.bucket.CopyObject(src, src, oss.Meta("a", "1"))
			must(t, err)
			want(t, len(last(e, src).Metadata), 0)
			want(t, len(e.srv.Objects("room")), 2)
			want(t, verdict(e.bucket.SetObjectMeta("nope")), "404 NoSuchKey")
		},
		"an old version is copied to the top": func(t *testing.T, e *env) {
			e.versioning("Enabled")
			old := e.put("k", "old", oss.Meta("n", "1"))
			newer := e.put("k", "new")
			var h http.Header
			_, err := e.bucket.CopyObject("k", "k", oss.VersionId(old), oss.GetResponseHeader(&h))
			must(t, err)
			want(t, h.Get("x-oss-copy-source-version-id"), old)
			want(t, h.Get("x-oss-version-id") > newer, true)
			want(t, e.get("k"), "old")
			want(t, last(e, "k").Metadata["n"], "1")
			_, err = e.bucket.CopyObject("k", "k2", oss.GetResponseHeader(&h))
			must(t, err)
			want(t, h.Get("x-oss-copy-source-version-id") > newer, true)
			_, err = e.bucket.CopyObject("k", "k2", oss.VersionId("CAEQ0"))
			want(t, verdict(err), "404 NoSuchVersion")
			must(t, e.bucket.DeleteObject("k", oss.GetResponseHeader(&h)))
			marker := h.Get("x-oss-version-id")
			_, err = e.bucket.CopyObject("k", "k2")
			want(t, verdict(err), "404 NoSuchKey")
			_, err = e.bucket.CopyObject("k", "k2", oss.VersionId(marker))
			want(t, verdict(err), "404 NoSuchKey")
		},
		"a copy goes to another bucket": func(t *testing.T, e *env) {
			original(e)
			must(t, e.client().CreateBucket("other"))
			must(t, e.client().SetBucketVersioning("other", oss.VersioningConfig{Status: "Suspended"}))
			var h http.Header
			_, err := e.bucket.CopyObjectTo("other", "dst", src, oss.GetResponseHeader(&h))
			must(t, err)
			want(t, h.Get("x-oss-copy-source-version-id")+h.Get("x-oss-version-id"), "null")
			_, err = e.bucket.CopyObjectFrom("other", "dst", "back", oss.GetResponseHeader(&h))
			must(t, err)
			want(t, h.Get("x-oss-copy-source-version-id"), "null")
			want(t, h.Get("x-oss-version-id"), "")
			o := e.srv.Objects("other")
			want(t, len(o), 1)
			want(t, o[0].VersionID+string(o[0].Body), "nullbody")
			_, err = e.bucket.CopyObjectFrom("nowhere", "k", "dst")
			want(t, verdict(err), "404 NoSuchBucket")
			_, err = e.bucket.CopyObjectTo("nowhere", "dst", src)
			want(t, verdict(err), "404 NoSuchBucket")
		},
		"conditions are held against the source": func(t *testing.T, e *env) {
			original(e)
			h, err := e.bucket.GetObjectDetailedMeta(src)
			must(t, err)
			etag := h.Get("ETag")
			modified, err := http.ParseTime(h.Get("Last-Modified"))
			must(t, err)
			for _, tt := range []struct {
				opt  oss.Option
				want string
			}{
				{oss.CopySourceIfMatch(etag), "ok"},
				{oss.CopySourceIfMatch(`"0"`), "412 PreconditionFailed"},
				{oss.CopySourceIfNoneMatch(`"0"`), "ok"},
				{oss.CopySourceIfNoneMatch(etag), "304"},
				{oss.CopySourceIfModifiedSince(modified.Add(-time.Second)), "ok"},
				{oss.CopySourceIfModifiedSince(modified), "304"},
				{oss.CopySourceIfUnmodifiedSince(modified), "ok"},
				{oss.CopySourceIfUnmodifiedSince(modified.Add(-time.Second)), "412 PreconditionFailed"},
				{oss.SetHeader("x-oss-copy-source-if-unmodified-since", modified.Format(xmlTime)), "ok"},
				{oss.SetHeader("x-oss-copy-source-if-modified-since", "soon"), "400 InvalidArgument"},
			} {
				before := len(e.srv.Objects("room"))
				_, err := e.bucket.CopyObject(src, "dst", tt.opt)
				got := verdict(err)
				if strings.Contains(got, "returned 304") {
					got = "304"
				}
				want(t, got, tt.want)
				if tt.want != "ok" {
					want(t, len(e.srv.Objects("room")), before)
				}
			}
		},
		"a header may come with and without the prefix of the source": func(t *testing.T, e *env) {
			original(e)
			twin := func(name, a, b string) string {
				return e.call("PUT", "dst", nil, "", oss.SetHeader("x-oss-copy-source", "/room/src%2F%C3%BC%201%2B%25%3F.txt"),
					oss.SetHeader(name, a), oss.SetHeader("x-oss-copy-source-"+name, b))
			}
			want(t, twin("If-Match", `"0"`, `"0"`), "412 PreconditionFailed")
			want(t, twin("If-Match", `"1"`, `"0"`), "501 NotImplemented")
			want(t, twin("Content-Type", "text/css", "text/css"), "200")
			want(t, twin("Content-Type", "text/css", "text/html"), "501 NotImplemented")
			want(t, verdict(e.bucket.PutObject("dst", strings.NewReader("x"), oss.IfMatch("*"))), "501 NotImplemented")
		},
		"a copy may be forbidden to overwrite": func(t *testing.T, e *env) {
			original(e)
			_, err := e.bucket.CopyObject(src, "dst", oss.ForbidOverWrite(true))
			must(t, err)
			_, err = e.bucket.CopyObject(src, "dst", oss.ForbidOverWrite(true))
			want(t, verdict(err), "409 FileAlreadyExists")
			_, err = e.bucket.CopyObject(src, "dst", oss.SetHeader("x-oss-forbid-overwrite", "yes"))
			want(t, verdict(err), "400 InvalidArgument")
			e.versioning("Enabled")
			_, err = e.bucket.CopyObject(src, "dst", oss.ForbidOverWrite(true))
			must(t, err)
		},
		"a source that is none is refused": func(t *testing.T, e *env) {
			original(e)
			_, err := e.bucket.CopyObject("nope", "dst")
			want(t, verdict(err), "404 NoSuchKey")
			for _, source := range []string{"room", "/room", "/room/", "/Bad_Room/k", "/room/%zz", "/room/k?version=1", "/room/k?versionId="} {
				want(t, e.call("PUT", "dst", nil, "", oss.SetHeader("x-oss-copy-source", source)), "400 InvalidArgument")
			}
			want(t, e.call("PUT", "dst", nil, "", oss.SetHeader("x-oss-copy-source", "room/src%2F%C3%BC%201%2B%25%3F.txt")), "200")
			want(t, e.call("PUT", "dst", map[string]any{"partNumber": "1", "uploadId": "x"}, "", oss.SetHeader("x-oss-copy-source", "/room/k")), "501 NotImplemented")
			want(t, e.call("PUT", "dst", nil, "", oss.SetHeader("x-oss-copy-source", "/room/k"), oss.SetHeader("x-oss-copy-source-range", "bytes=0-1")), "501 NotImplemented")
			want(t, e.call("PUT", "dst", map[string]any{"tagging": nil}, "", oss.SetHeader("x-oss-copy-source", "/room/k")), "501 NotImplemented")
		},
		"the default encryption of the bucket applies": func(t *testing.T, e *env) {
			original(e)
			must(t, e.client().SetBucketEncryption("room", oss.ServerEncryptionRule{SSEDefault: oss.SSEDefaultRule{SSEAlgorithm: "KMS"}}))
			_, err := e.bucket.CopyObject(src, "dst")
			must(t, err)
			want(t, last(e, "dst").SSE, "KMS")
		},
	})
}
