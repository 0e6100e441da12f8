package osstest

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"
)

func TestBuckets(t *testing.T) {
	each(t, map[string]func(*testing.T, *env){
		"a bucket is made once, described and deleted when empty": func(t *testing.T, e *env) {
			c := e.client()
			want(t, verdict(c.CreateBucket("room")), "409 BucketAlreadyExists")
			must(t, c.CreateBucket("other"))
			info, err := c.GetBucketInfo("other")
			must(t, err)
			want(t, info.BucketInfo.Name, "other")
			want(t, info.BucketInfo.ACL, "private")
			want(t, info.BucketInfo.Versioning, "")
			e.put("k", "x")
			want(t, verdict(c.DeleteBucket("room")), "409 BucketNotEmpty")
			must(t, c.DeleteBucket("other"))
			found, err := c.IsBucketExist("other")
			must(t, err)
			want(t, found, false)
			_, err = c.GetBucketInfo("other")
			want(t, verdict(err), "404 NoSuchBucket")
		},
		"nothing works in a bucket that is not there": func(t *testing.T, e *env) {
			e.bucket = e.open("nowhere")
			want(t, verdict(e.bucket.PutObject("k", strings.NewReader("x"))), "404 NoSuchBucket")
			want(t, e.get("k"), "404 NoSuchBucket")
			_, err := e.bucket.ListObjects()
			want(t, verdict(err), "404 NoSuchBucket")
			_, err = e.client().GetBucketVersioning("nowhere")
			want(t, verdict(err), "404 NoSuchBucket")
			want(t, len(e.srv.Objects("nowhere")), 0)
		},
		"only a plain private bucket can be made": func(t *testing.T, e *env) {
			c := e.client()
			want(t, verdict(c.CreateBucket("a-b", oss.ACL(oss.ACLPublicRead))), "501 NotImplemented")
			want(t, verdict(c.CreateBucket("a-b", oss.StorageClass(oss.StorageIA))), "501 NotImplemented")
			want(t, verdict(c.CreateBucketXml("a-b", "<nonsense")), "400 MalformedXML")
			must(t, c.CreateBucket("a-b", oss.ACL(oss.ACLPrivate)))
		},
		"the 101st bucket is refused": func(t *testing.T, e *env) {
			for i := range maxBuckets - 1 {
				must(t, e.client().CreateBucket(fmt.Sprint("room-", i)))
			}
			want(t, verdict(e.client().CreateBucket("one-more")), "400 TooManyBuckets")
		},
		"buckets are listed in pages": func(t *testing.T, e *env) {
			c := e.client()
			for _, name := range []string{"room-b", "room-a", "zzz"} {
				must(t, c.CreateBucket(name))
			}
			l, err := c.ListBuckets(oss.Prefix("room"), oss.MaxKeys(2))
			must(t, err)
			want(t, l.IsTruncated, true)
			want(t, l.NextMarker, "room-a")
			l, err = c.ListBuckets(oss.Prefix("room"), oss.Marker(l.NextMarker))
			must(t, err)
			want(t, len(l.Buckets), 1)
			want(t, l.Buckets[0].Name, "room-b")
		},
		"versioning is unset, then Enabled or Suspended": func(t *testing.T, e *env) {
			c := e.client()
			v, err := c.GetBucketVersioning("room")
			must(t, err)
			want(t, v.Status, "")
			for _, status := range []string{"Enabled", "Suspended", "Enabled"} {
				e.versioning(status)
				v, err = c.GetBucketVersioning("room")
				must(t, err)
				want(t, v.Status, status)
			}
			want(t, verdict(c.SetBucketVersioning("room", oss.VersioningConfig{Status: "Off"})), "400 InvalidArgument")
		},
		"a bucket's other settings are refused": func(t *testing.T, e *env) {
			_, err := e.client().GetBucketACL("room")
			want(t, verdict(err), "501 NotImplemented")
			_, err = e.client().GetBucketCORS("room")
			want(t, verdict(err), "501 NotImplemented")
			_, err = e.client().GetBucketPolicy("room")
			want(t, verdict(err), "501 NotImplemented")
		},
		"a bad bucket name is refused before it is looked up": func(t *testing.T, e *env) {
			b := e.through(func(r *http.Request) { r.URL.Path = "/No_Room/k"; r.URL.RawPath = "" })
			want(t, verdict(b.PutObject("k", strings.NewReader("x"))), "403 SignatureDoesNotMatch")
			for name, ok := range map[string]bool{"abc": true, "ab": false, "a_b": false, "-ab": false, "ab-": false, "Abc": false, strings.Repeat("a", 64): false} {
				want(t, validBucket(name), ok)
			}
		},
	})
}
