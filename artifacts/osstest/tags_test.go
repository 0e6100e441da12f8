package osstest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"
)

func TestTags(t *testing.T) {
	tags := func(n int) (out oss.Tagging) {
		for i := range n {
			out.Tags = append(out.Tags, oss.Tag{Key: fmt.Sprint("k", i), Value: "v"})
		}
		return out
	}
	each(t, map[string]func(*testing.T, *env){
		"tags are set, read, replaced and deleted, and the object stays": func(t *testing.T, e *env) {
			e.put("k", "x", oss.SetTagging(tags(2)), oss.Meta("a", "1"))
			got, err := e.bucket.GetObjectTagging("k")
			must(t, err)
			want(t, len(got.Tags), 2)
			want(t, got.Tags[1].Key, "k1")
			must(t, e.bucket.PutObjectTagging("k", oss.Tagging{Tags: []oss.Tag{{Key: "class", Value: "a b/c:d_e.f-g=h+i"}}}))
			got, err = e.bucket.GetObjectTagging("k")
			must(t, err)
			want(t, len(got.Tags), 1)
			want(t, got.Tags[0].Value, "a b/c:d_e.f-g=h+i")
			must(t, e.bucket.DeleteObjectTagging("k"))
			o := e.srv.Objects("room")
			want(t, len(o[0].Tags), 0)
			want(t, o[0].Metadata["a"], "1")
			want(t, e.get("k"), "x")
		},
		"tags belong to a version": func(t *testing.T, e *env) {
			e.versioning("Enabled")
			id := e.put("k", "one")
			e.put("k", "two")
			must(t, e.bucket.PutObjectTagging("k", tags(1), oss.VersionId(id)))
			got, err := e.bucket.GetObjectTagging("k")
			must(t, err)
			want(t, len(got.Tags), 0)
			got, err = e.bucket.GetObjectTagging("k", oss.VersionId(id))
			must(t, err)
			want(t, len(got.Tags), 1)
			want(t, e.get("k"), "two")
			must(t, e.bucket.DeleteObject("k"))
			want(t, verdict(e.bucket.PutObjectTagging("k", tags(1))), "404 NoSuchKey")
		},
		"the limits are 10 tags, 128 and 256 characters": func(t *testing.T, e *env) {
			long := func(k, v int) oss.Tagging {
				return oss.Tagging{Tags: []oss.Tag{{Key: strings.Repeat("k", k), Value: strings.Repeat("v", v)}}}
			}
			e.put("k", "x", oss.SetTagging(tags(10)))
			must(t, e.bucket.PutObjectTagging("k", tags(10)))
			must(t, e.bucket.PutObjectTagging("k", long(128, 256)))
			twice := tags(1)
			twice.Tags = append(twice.Tags, twice.Tags[0])
			for _, bad := range []oss.Tagging{
				tags(11), long(129, 1), long(1, 257), long(0, 1), twice,
				{Tags: []oss.Tag{{Key: "a", Value: "中"}}},
				{Tags: []oss.Tag{{Key: "a&b", Value: ""}}},
			} {
				want(t, verdict(e.bucket.PutObject("k", strings.NewReader("y"), oss.SetTagging(bad))), "400 InvalidTag")
				want(t, verdict(e.bucket.PutObjectTagging("k", bad)), "400 InvalidTag")
			}
			want(t, verdict(e.bucket.PutObject("k", strings.NewReader("y"), oss.SetHeader("x-oss-tagging", "a=b=c"))), "400 InvalidTag")
			want(t, verdict(e.bucket.PutObject("k", strings.NewReader("y"), oss.SetHeader("x-oss-tagging", "a=%zz"))), "400 InvalidTag")
			want(t, e.call("PUT", "k", map[string]any{"tagging": nil}, "<Tagging"), "400 MalformedXML")
			want(t, e.get("k"), "x")
		},
		"a missing object has no tags": func(t *testing.T, e *env) {
			_, err := e.bucket.GetObjectTagging("nope")
			want(t, verdict(err), "404 NoSuchKey")
			want(t, verdict(e.bucket.DeleteObjectTagging("nope")), "404 NoSuchKey")
		},
	})
}
