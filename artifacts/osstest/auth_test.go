package osstest

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestSignatures(t *testing.T) {
	v4 := []oss.ClientOption{oss.AuthVersion(oss.AuthV4), oss.Region("cn-hangzhou")}
	put := func(e *env, cred cloudtest.Credential, opts ...oss.ClientOption) string {
		b, err := e.clientOf(cred, opts...).Bucket("room")
		must(e.t, err)
		return verdict(b.PutObject("k/ 1+%.txt", strings.NewReader("x"), oss.Meta("owner", "a b"), oss.ContentType("text/plain")))
	}
	each(t, map[string]func(*testing.T, *env){
		"V1 and V4 are accepted for every kind of resource": func(t *testing.T, e *env) {
			for _, opts := range [][]oss.ClientOption{nil, v4, append([]oss.ClientOption{oss.AdditionalHeaders([]string{"host", "date"})}, v4...)} {
				b := e.open("room", opts...)
				want(t, put(e, e.cred, opts...), "ok")
				must(t, b.PutObject("图/片 ~*!'()", strings.NewReader("x")))
				must(t, b.PutObjectTagging("k/ 1+%.txt", oss.Tagging{Tags: []oss.Tag{{Key: "class", Value: "input"}}}))
				_, err := b.GetObjectTagging("k/ 1+%.txt", oss.VersionId("null"))
				must(t, err)
				_, err = b.ListObjectsV2(oss.Prefix("k/ 1+"), oss.Delimiter("/"))
				must(t, err)
				_, err = e.client(opts...).ListBuckets()
				must(t, err)
			}
		},
		"a long-lived key needs no token and none fits it": func(t *testing.T, e *env) {
			cred := cloudtest.Credential{AccessKeyID: "LTAI0", AccessKeySecret: "secret"}
			e.creds.Add(cred)
			want(t, put(e, cred), "ok")
			cred.SecurityToken = "made-up"
			want(t, put(e, cred), "403 InvalidSecurityToken")
			cred.SecurityToken, cred.Expires = "", time.Now()
			e.creds.Add(cred)
			want(t, put(e, cred), "403 InvalidAccessKeyId")
		},
		"a wrong secret is refused": func(t *testing.T, e *env) {
			cred := e.cred
			cred.AccessKeySecret += "x"
			want(t, put(e, cred), "403 SignatureDoesNotMatch")
			want(t, put(e, cred, v4...), "403 SignatureDoesNotMatch")
			want(t, len(e.srv.Objects("room")), 0)
		},
		"an unknown or revoked key is refused": func(t *testing.T, e *env) {
			cred := e.cred
			cred.AccessKeyID = "nobody"
			want(t, put(e, cred), "403 InvalidAccessKeyId")
			e.creds.Revoke(e.cred.AccessKeyID)
			want(t, put(e, e.cred), "403 InvalidAccessKeyId")
		},
		"a wrong, missing or expired token is refused": func(t *testing.T, e *env) {
			cred := e.cred
			cred.SecurityToken = "other"
			want(t, put(e, cred), "403 InvalidSecurityToken")
			cred.SecurityToken = ""
			want(t, put(e, cred), "403 InvalidAccessKeyId")
			old := e.creds.Issue(time.Now().Add(-time.Second))
			want(t, put(e, old), "403 SecurityTokenExpired")
		},
		"a clock more than 15 minutes off is refused": func(t *testing.T, e *env) {
			for _, off := range []time.Duration{16 * time.Minute, -16 * time.Minute} {
				e.offset.Store(int64(off))
				want(t, put(e, e.cred), "403 RequestTimeTooSkewed")
				want(t, put(e, e.cred, v4...), "403 RequestTimeTooSkewed")
			}
			e.offset.Store(int64(14 * time.Minute))
			want(t, put(e, e.cred), "ok")
		},
		"x-oss-date takes the place of Date": func(t *testing.T, e *env) {
			now := time.Now().UTC()
			for date, code := range map[string]string{
				now.Format(http.TimeFormat): "403 SignatureDoesNotMatch", now.Format(v4DateFormat): "403 SignatureDoesNotMatch",
				now.Add(-time.Hour).Format(http.TimeFormat): "403 RequestTimeTooSkewed", "yesterday": "403 AccessDenied",
			} {
				b := e.through(func(r *http.Request) { r.Header.Set("x-oss-date", date) })
				want(t, verdict(b.PutObject("k", strings.NewReader("x"))), code)
			}
			c := &call{request: &http.Request{Method: "PUT", Header: http.Header{"Date": {"a"}, "X-Oss-Date": {"b"}}}}
			d := &call{request: &http.Request{Method: "PUT", Header: http.Header{"X-Oss-Date": {"b"}}}}
			want(t, signV1(c, "secret"), signV1(d, "secret"))
		},
		"an unsigned, unreadable or undated request is refused": func(t *testing.T, e *env) {
			for header, code := range map[string]string{
				"": "403 AccessDenied", "Basic eDp5": "400 InvalidArgument", "OSS nocolon": "400 InvalidArgument",
				"OSS4-HMAC-SHA256 Credential=a/b": "400 InvalidArgument", "OSS2 AccessKeyId:x,Signature:y": "501 NotImplemented",
			} {
				b := e.through(func(r *http.Request) { r.Header.Set("Authorization", header) })
				want(t, verdict(b.PutObject("k", strings.NewReader("x"))), code)
			}
			b := e.through(func(r *http.Request) {
				day := time.Now().UTC().Format("20060102")
				r.Header.Set("Authorization", strings.Replace(r.Header.Get("Authorization"), day, "20060102", 1))
			})
			b.Client.Config.AuthVersion, b.Client.Config.Region = oss.AuthV4, "cn-hangzhou"
			want(t, verdict(b.PutObject("k", strings.NewReader("x"))), "400 InvalidArgument")
			b = e.through(func(r *http.Request) { r.Header.Set("x-oss-content-sha256", "abc") })
			b.Client.Config.AuthVersion, b.Client.Config.Region = oss.AuthV4, "cn-hangzhou"
			want(t, verdict(b.PutObject("k", strings.NewReader("x"))), "400 InvalidArgument")
			b = e.through(func(r *http.Request) { r.Header.Set("Date", "yesterday") })
			want(t, verdict(b.PutObject("k", strings.NewReader("x"))), "403 AccessDenied")
		},
		"everything that is signed is protected": func(t *testing.T, e *env) {
			changes := map[string]func(*http.Request){
				"key":          func(r *http.Request) { r.URL.Path += "x"; r.URL.RawPath = "" },
				"method":       func(r *http.Request) { r.Method = "DELETE" },
				"meta":         func(r *http.Request) { r.Header.Set("x-oss-meta-owner", "other") },
				"new header":   func(r *http.Request) { r.Header.Set("x-oss-tagging", "a=b") },
				"type":         func(r *http.Request) { r.Header.Set("Content-Type", "text/html") },
				"sub-resource": func(r *http.Request) { r.URL.RawQuery = "versionId=null" },
			}
			for name, change := range changes {
				for _, opts := range [][]oss.ClientOption{nil, v4} {
					b := e.through(change)
					for _, o := range opts {
						o(&b.Client)
					}
					if got := verdict(b.PutObject("k", strings.NewReader("x"), oss.Meta("owner", "me"))); got != "403 SignatureDoesNotMatch" {
						t.Errorf("%s changed: got %s", name, got)
					}
				}
			}
		},
		"a signed URL is refused as not implemented": func(t *testing.T, e *env) {
			signed, err := e.bucket.SignURL("k", oss.HTTPGet, 60)
			must(t, err)
			_, err = e.bucket.GetObjectWithURL(signed)
			want(t, verdict(err), "501 NotImplemented")
		},
	})
}

func TestVirtualHostStyle(t *testing.T) {
	e := newEnv(t, false)
	e.endpoint = "http://oss-cn-hangzhou.aliyuncs.com"
	e.bucket = e.open("room")
	e.put("a/b", "x")
	want(t, e.get("a/b"), "x")
	want(t, e.srv.Objects("room")[0].Key, "a/b")
	ok, err := e.client().IsBucketExist("room")
	must(t, err)
	want(t, ok, true)
}
