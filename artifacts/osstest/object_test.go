package osstest

import (
	"crypto/md5"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc64"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"
	"github.com/google/go-cmp/cmp"
)

func TestObjects(t *testing.T) {
	each(t, map[string]func(*testing.T, *env){
		"what is put comes back with its headers": func(t *testing.T, e *env) {
			var h http.Header
			must(t, e.bucket.PutObject("a.json", strings.NewReader(`{"a":1}`),
				oss.ContentType("application/json"), oss.Meta("Attempt", "3"), oss.Meta("input-digest", "ab cd"),
				oss.ContentDisposition("inline"), oss.SetTagging(oss.Tagging{Tags: []oss.Tag{{Key: "class", Value: "a b+c=d"}, {Key: "x"}}}),
				oss.ServerSideEncryption("KMS"), oss.ServerSideEncryptionKeyID("key-1"), oss.GetResponseHeader(&h)))
			sum := md5.Sum([]byte(`{"a":1}`))
			etag := fmt.Sprintf(`"%X"`, sum)
			crc := fmt.Sprint(crc64.Checksum([]byte(`{"a":1}`), crc64.MakeTable(crc64.ECMA)))
			want(t, h.Get("ETag"), etag)
			want(t, h.Get("x-oss-hash-crc64ecma"), crc)
			want(t, h.Get("x-oss-version-id"), "")
			if h.Get("x-oss-request-id") == "" {
				t.Fatal("no request id")
			}
			h, err := e.bucket.GetObjectDetailedMeta("a.json")
			must(t, err)
			for name, value := range map[string]string{
				"ETag": etag, "x-oss-hash-crc64ecma": crc, "Content-Type": "application/json", "Content-Length": "7",
				"x-oss-meta-attempt": "3", "x-oss-meta-input-digest": "ab cd", "Content-Disposition": "inline",
				"x-oss-server-side-encryption": "KMS", "x-oss-server-side-encryption-key-id": "key-1",
				"x-oss-tagging-count": "2", "x-oss-object-type": "Normal", "Accept-Ranges": "bytes",
			} {
				if h.Get(name) != value {
					t.Errorf("%s: got %q, want %q", name, h.Get(name), value)
				}
			}
			if _, err := http.ParseTime(h.Get("Last-Modified")); err != nil {
				t.Error(err)
			}
			want(t, e.get("a.json"), `{"a":1}`)
			got := e.srv.Objects("room")
			if d := cmp.Diff([]Object{{
				Key: "a.json", VersionID: "null", Body: []byte(`{"a":1}`), ContentType: "application/json", SSE: "KMS",
				Metadata: map[string]string{"attempt": "3", "input-digest": "ab cd"}, Tags: map[string]string{"class": "a b+c=d", "x": ""},
			}}, got); d != "" {
				t.Error(d)
			}
			got[0].Body[0] = 'X'
			got[0].Metadata["attempt"] = "9"
			want(t, string(e.srv.Objects("room")[0].Body), `{"a":1}`)
			want(t, e.srv.Objects("room")[0].Metadata["attempt"], "3")
		},
		"a second put replaces all of the object": func(t *testing.T, e *env) {
			e.put("k", "one", oss.Meta("a", "1"), oss.SetTagging(oss.Tagging{Tags: []oss.Tag{{Key: "a", Value: "1"}}}))
			e.put("k", "two")
			want(t, e.get("k"), "two")
			o := e.srv.Objects("room")
			want(t, len(o), 1)
			want(t, len(o[0].Metadata)+len(o[0].Tags), 0)
		},
		"an empty object is an object": func(t *testing.T, e *env) {
			e.put("k", "")
			want(t, e.get("k"), "")
			h, err := e.bucket.GetObjectDetailedMeta("k")
			must(t, err)
			want(t, h.Get("Content-Length"), "0")
			want(t, h.Get("x-oss-hash-crc64ecma"), "0")
		},
		"names come back as they went out": func(t *testing.T, e *env) {
			for _, key := range []string{
				"a/b//c", "a b", "任务/结果.json", "1+1=2", "100%", "%2F", "a?b&c=d#e", "..", "a/../b", "./x", "tab\there", "a:b", `q"uote'<>`,
				strings.Repeat("x", 1023),
			} {
				e.put(key, "body of "+key)
				want(t, e.get(key), "body of "+key)
				found, err := e.bucket.IsObjectExist(key)
				must(t, err)
				want(t, found, true)
				l, err := e.bucket.ListObjects(oss.Prefix(key))
				must(t, err)
				want(t, l.Objects[0].Key, key)
				must(t, e.bucket.DeleteObject(key))
				want(t, len(e.srv.Objects("room")), 0)
			}
		},
		"names that the service refuses are refused": func(t *testing.T, e *env) {
			for _, key := range []string{"/a", `\a`, strings.Repeat("x", 1024), "a\xffb"} {
				want(t, verdict(e.bucket.PutObject(key, strings.NewReader("x"))), "400 InvalidObjectName")
				want(t, e.get(key), "400 InvalidObjectName")
			}
		},
		"a missing object is 404 NoSuchKey, and a HEAD has no code": func(t *testing.T, e *env) {
			want(t, e.get("nope"), "404 NoSuchKey")
			_, err := e.bucket.GetObjectDetailedMeta("nope")
			want(t, verdict(err), "404")
			found, err := e.bucket.IsObjectExist("nope")
			must(t, err)
			want(t, found, false)
			must(t, e.bucket.DeleteObject("nope"))
			want(t, e.get("nope", oss.VersionId("x")), "404 NoSuchVersion")
		},
		"a deleted object is gone at once": func(t *testing.T, e *env) {
			e.put("k", "x")
			must(t, e.bucket.DeleteObject("k"))
			want(t, e.get("k"), "404 NoSuchKey")
			l, err := e.bucket.ListObjectsV2()
			must(t, err)
			want(t, len(l.Objects), 0)
		},
		"Content-MD5 is verified": func(t *testing.T, e *env) {
			sum := md5.Sum([]byte("x"))
			e.put("k", "x", oss.ContentMD5(base64.StdEncoding.EncodeToString(sum[:])))
			for _, bad := range []string{base64.StdEncoding.EncodeToString(make([]byte, 16)), "not base64", "c2hvcnQ="} {
				want(t, verdict(e.bucket.PutObject("k2", strings.NewReader("x"), oss.ContentMD5(bad))), "400 InvalidDigest")
			}
			want(t, len(e.srv.Objects("room")), 1)
		},
		"a body changed on the way up is seen by the SDK after it was stored": func(t *testing.T, e *env) {
			err := e.through(replaceBody).PutObject("k", strings.NewReader("abc"))
			if _, ok := errors.AsType[oss.CRCCheckError](err); !ok {
				t.Fatalf("got %v, want a CRCCheckError", err)
			}
			want(t, string(e.srv.Objects("room")[0].Body), "`bc")
		},
		"a body changed on the way down does not fit its CRC": func(t *testing.T, e *env) {
			e.put("k", "abc")
			b := e.open("room", oss.HTTPClient(&http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
				resp, err := e.rt.RoundTrip(r)
				if err == nil {
					resp.Body = struct {
						io.Reader
						io.Closer
					}{io.MultiReader(strings.NewReader("X"), io.LimitReader(resp.Body, 2)), resp.Body}
				}
				return resp, err
			})}))
			err := b.GetObjectToFile("k", t.TempDir()+"/f")
			if _, ok := errors.AsType[oss.CRCCheckError](err); !ok {
				t.Fatalf("got %v, want a CRCCheckError", err)
			}
		},
		"options out of their limits are refused": func(t *testing.T, e *env) {
			for name, opt := range map[string]oss.Option{
				"400 InvalidEncryptionAlgorithmError": oss.ServerSideEncryption("ROT13"),
				"400 InvalidArgument":                 oss.SetHeader("x-oss-forbid-overwrite", "yes"),
			} {
				want(t, verdict(e.bucket.PutObject("k", strings.NewReader("x"), opt)), name)
			}
			for _, opts := range [][]oss.Option{
				{oss.Meta("big", strings.Repeat("x", 8<<10))},
				{oss.Meta("a", strings.Repeat("x", 5000)), oss.Meta("b", strings.Repeat("x", 5000))},
				{oss.Meta("under_score", "x")},
				{oss.Meta("name", "中文")},
				{oss.ServerSideEncryption("AES256"), oss.ServerSideEncryptionKeyID("k")},
			} {
				want(t, verdict(e.bucket.PutObject("k", strings.NewReader("x"), opts...)), "400 InvalidArgument")
			}
			must(t, e.bucket.PutObject("k", strings.NewReader("x"), oss.Meta("big", strings.Repeat("x", 8000))))
			must(t, e.bucket.PutObject("k", strings.NewReader("x"), oss.ServerSideEncryption("AES256"),
				oss.ObjectACL(oss.ACLPrivate), oss.ObjectStorageClass(oss.StorageStandard)))
		},
		"a reader of unknown length is stored in full": func(t *testing.T, e *env) {
			must(t, e.bucket.PutObject("k", io.MultiReader(strings.NewReader("ab"), strings.NewReader("cd"))))
			want(t, e.get("k"), "abcd")
		},
		"what is not modelled is refused and has no effect": func(t *testing.T, e *env) {
			e.put("src", "x")
			for _, opt := range []oss.Option{
				oss.ObjectACL(oss.ACLPublicRead), oss.ObjectStorageClass(oss.StorageIA), oss.IfNoneMatch("*"),
				oss.SetHeader("x-oss-unheard-of", "1"), oss.ServerSideEncryption("SM4"),
			} {
				want(t, verdict(e.bucket.PutObject("k", strings.NewReader("x"), opt)), "501 NotImplemented")
			}
			_, err := e.bucket.AppendObject("k", strings.NewReader("x"), 0)
			want(t, verdict(err), "501 NotImplemented")
			_, err = e.bucket.InitiateMultipartUpload("k")
			want(t, verdict(err), "501 NotImplemented")
			_, err = e.bucket.GetObjectACL("src")
			want(t, verdict(err), "501 NotImplemented")
			want(t, verdict(e.bucket.PutSymlink("k", "src")), "501 NotImplemented")
			want(t, e.get("src", oss.ResponseContentType("text/html")), "501 NotImplemented")
			want(t, e.get("src", oss.AddParam("unheard-of", "1")), "501 NotImplemented")
			want(t, e.call("PATCH", "src", nil, ""), "501 NotImplemented")
			want(t, len(e.srv.Objects("room")), 1)
			want(t, e.srv.Faults.Calls()["Unknown"] > 0, true)
		},
	})
}

func TestConditions(t *testing.T) {
	each(t, map[string]func(*testing.T, *env){
		"GET and HEAD answer 304 and 412": func(t *testing.T, e *env) {
			e.put("k", "abc")
			h, err := e.bucket.GetObjectDetailedMeta("k")
			must(t, err)
			etag := h.Get("ETag")
			modified, err := http.ParseTime(h.Get("Last-Modified"))
			must(t, err)
			for _, c := range []struct {
				opt  oss.Option
				want string
			}{
				{oss.IfMatch(etag), "200"},
				{oss.IfMatch(strings.Trim(etag, `"`)), "200"},
				{oss.IfMatch(`"0"`), "412 PreconditionFailed"},
				{oss.IfNoneMatch(`"0"`), "200"},
				{oss.IfNoneMatch(etag), "304"},
				{oss.IfModifiedSince(modified.Add(-time.Second)), "200"},
				{oss.IfModifiedSince(modified), "304"},
				{oss.IfUnmodifiedSince(modified), "200"},
				{oss.IfUnmodifiedSince(modified.Add(-time.Second)), "412 PreconditionFailed"},
				{oss.IfMatch("*"), "501 NotImplemented"},
				{oss.SetHeader("If-Modified-Since", "soon"), "400 InvalidArgument"},
			} {
				for _, method := range []string{"GET", "HEAD"} {
					got := e.call(method, "k", nil, "", c.opt)
					if strings.Contains(got, "returned 304") {
						got = "304"
					}
					expect := c.want
					if method == "HEAD" && expect[0] > '3' {
						expect = expect[:3]
					}
					want(t, got, expect)
				}
			}
		},
		"a range is cut out, or ignored where it reaches over the end": func(t *testing.T, e *env) {
			e.put("k", "0123456789")
			for r, body := range map[string]string{
				"2-4": "234", "7-": "789", "-3": "789", "0-9": "0123456789", "5-99": "0123456789", "10-": "0123456789", "4-2": "0123456789", "-0": "0123456789", "-99": "0123456789",
			} {
				want(t, e.get("k", oss.NormalizedRange(r)), body)
			}
			standard := oss.RangeBehavior("standard")
			want(t, e.get("k", oss.NormalizedRange("5-99"), standard), "56789")
			want(t, e.get("k", oss.NormalizedRange("-99"), standard), "0123456789")
			want(t, e.get("k", oss.NormalizedRange("10-"), standard), "416 InvalidRange")
			want(t, e.get("k", oss.NormalizedRange("0-1,3-4")), "501 NotImplemented")
			want(t, e.call("GET", "k", nil, "", oss.Range(1, 2)), "206")
		},
	})
}
