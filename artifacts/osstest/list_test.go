package osstest

import (
	"strings"
	"testing"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"
)

func TestListings(t *testing.T) {
	fill := func(e *env) {
		for _, key := range []string{"b/2", "a", "b/1", "b+", "c/x/1", "c/y", "中/文", "d"} {
			e.put(key, key)
		}
	}
	v1 := func(t *testing.T, e *env, size int, opts ...oss.Option) string {
		var pages []string
		marker := ""
		for range 20 {
			l, err := e.bucket.ListObjects(append(opts, oss.MaxKeys(size), oss.Marker(marker))...)
			must(t, err)
			names := append([]string{}, l.CommonPrefixes...)
			for _, o := range l.Objects {
				want(t, o.Size, int64(len(o.Key)))
				names = append(names, o.Key)
			}
			pages = append(pages, strings.Join(names, " "))
			if !l.IsTruncated {
				break
			}
			marker = l.NextMarker
		}
		return strings.Join(pages, " | ")
	}
	v2 := func(t *testing.T, e *env, size int, opts ...oss.Option) string {
		var pages []string
		var more []oss.Option
		for range 20 {
			l, err := e.bucket.ListObjectsV2(append(append(opts, oss.MaxKeys(size)), more...)...)
			must(t, err)
			names := append([]string{}, l.CommonPrefixes...)
			for _, o := range l.Objects {
				names = append(names, o.Key)
			}
			pages = append(pages, strings.Join(names, " "))
			if !l.IsTruncated {
				break
			}
			more = []oss.Option{oss.ContinuationToken(l.NextContinuationToken)}
		}
		return strings.Join(pages, " | ")
	}
	each(t, map[string]func(*testing.T, *env){
		"names come in byte order, in one page or in many": func(t *testing.T, e *env) {
			fill(e)
			want(t, v1(t, e, 100), "a b+ b/1 b/2 c/x/1 c/y d 中/文")
			want(t, v1(t, e, 3), "a b+ b/1 | b/2 c/x/1 c/y | d 中/文")
			want(t, v2(t, e, 3), "a b+ b/1 | b/2 c/x/1 c/y | d 中/文")
			want(t, v2(t, e, 4), "a b+ b/1 b/2 | c/x/1 c/y d 中/文")
		},
		"a prefix narrows and a delimiter groups": func(t *testing.T, e *env) {
			fill(e)
			want(t, v1(t, e, 100, oss.Prefix("b")), "b+ b/1 b/2")
			want(t, v1(t, e, 100, oss.Prefix("c/"), oss.Delimiter("/")), "c/x/ c/y")
			want(t, v1(t, e, 100, oss.Delimiter("/")), "b/ c/ 中/ a b+ d")
			want(t, v1(t, e, 2, oss.Delimiter("/")), "a b+ | b/ c/ | 中/ d")
			want(t, v2(t, e, 1, oss.Delimiter("/")), "a | b+ | b/ | c/ | d | 中/")
			want(t, v2(t, e, 100, oss.Prefix("none")), "")
		},
		"a listing starts behind its marker": func(t *testing.T, e *env) {
			fill(e)
			l, err := e.bucket.ListObjects(oss.Marker("c/y"))
			must(t, err)
			want(t, l.Marker, "c/y")
			want(t, l.Objects[0].Key, "d")
			want(t, v2(t, e, 100, oss.StartAfter("c/x")), "c/x/1 c/y d 中/文")
			want(t, v2(t, e, 2, oss.StartAfter("b/2")), "c/x/1 c/y | d 中/文")
		},
		"bad page sizes and tokens are refused": func(t *testing.T, e *env) {
			for _, n := range []int{0, -1, 1001} {
				_, err := e.bucket.ListObjects(oss.MaxKeys(n))
				want(t, verdict(err), "400 InvalidArgument")
			}
			_, err := e.bucket.ListObjectsV2(oss.ContinuationToken("!"))
			want(t, verdict(err), "400 InvalidArgument")
			_, err = e.bucket.ListObjects(oss.EncodingType("url"), oss.AddParam("list-type", "3"))
			want(t, verdict(err), "400 InvalidArgument")
			_, err = e.bucket.ListObjects(oss.StartAfter("a"))
			want(t, verdict(err), "501 NotImplemented")
		},
	})
}
