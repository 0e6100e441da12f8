package osstest

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"
)

func TestForbidOverwrite(t *testing.T) {
	each(t, map[string]func(*testing.T, *env){
		"never versioned: the second put is refused and the first object stays": func(t *testing.T, e *env) {
			e.put("k", "one", oss.ForbidOverWrite(true))
			want(t, verdict(e.bucket.PutObject("k", strings.NewReader("two"), oss.ForbidOverWrite(true))), "409 FileAlreadyExists")
			want(t, e.get("k"), "one")
			e.put("k", "three", oss.ForbidOverWrite(false))
			want(t, e.get("k"), "three")
			must(t, e.bucket.DeleteObject("k"))
			e.put("k", "four", oss.ForbidOverWrite(true))
		},
		"versioning enabled: the header has no effect": func(t *testing.T, e *env) {
			e.versioning("Enabled")
			e.put("k", "one", oss.ForbidOverWrite(true))
			e.put("k", "two", oss.ForbidOverWrite(true))
			want(t, e.get("k"), "two")
		},
		"versioning suspended: the header has no effect": func(t *testing.T, e *env) {
			e.versioning("Suspended")
			e.put("k", "one", oss.ForbidOverWrite(true))
			e.put("k", "two", oss.ForbidOverWrite(true))
			want(t, e.get("k"), "two")
			want(t, len(e.srv.Objects("room")), 1)
		},
		"of many that race, one wins": func(t *testing.T, e *env) {
			results := make(chan string)
			for range 16 {
				go func() {
					results <- verdict(e.bucket.PutObject("k", strings.NewReader("x"), oss.ForbidOverWrite(true)))
				}()
			}
			won := 0
			for range 16 {
				switch got := <-results; got {
				case "ok":
					won++
				case "409 FileAlreadyExists":
				default:
					t.Error(got)
				}
			}
			want(t, won, 1)
		},
	})
}

func TestVersions(t *testing.T) {
	each(t, map[string]func(*testing.T, *env){
		"every put makes a version with a rising id": func(t *testing.T, e *env) {
			e.versioning("Enabled")
			var ids []string
			for _, body := range []string{"one", "two", "three"} {
				ids = append(ids, e.put("k", body))
			}
			want(t, slices.IsSorted(ids) && len(slices.Compact(slices.Clone(ids))) == 3, true)
			want(t, e.get("k"), "three")
			want(t, e.get("k", oss.VersionId(ids[0])), "one")
			h, err := e.bucket.GetObjectDetailedMeta("k", oss.VersionId(ids[1]))
			must(t, err)
			want(t, h.Get("x-oss-version-id"), ids[1])
			want(t, e.get("k", oss.VersionId("CAEQ0")), "404 NoSuchVersion")
			want(t, e.call("GET", "k", map[string]any{"versionId": ""}, ""), "400 InvalidArgument")
		},
		"a delete hides the object behind a marker": func(t *testing.T, e *env) {
			e.versioning("Enabled")
			id := e.put("k", "one")
			var h http.Header
			must(t, e.bucket.DeleteObject("k", oss.GetResponseHeader(&h)))
			marker := h.Get("x-oss-version-id")
			want(t, h.Get("x-oss-delete-marker"), "true")
			want(t, marker > id, true)

			_, err := e.bucket.GetObject("k", oss.GetResponseHeader(&h))
			want(t, verdict(err), "404 NoSuchKey")
			want(t, h.Get("x-oss-delete-marker"), "true")
			want(t, e.get("k", oss.VersionId(marker)), "405 MethodNotAllowed")
			_, err = e.bucket.GetObjectDetailedMeta("k", oss.VersionId(marker))
			want(t, verdict(err), "405")
			want(t, e.get("k", oss.VersionId(id)), "one")
			l, err := e.bucket.ListObjects()
			must(t, err)
			want(t, len(l.Objects), 0)

			must(t, e.bucket.DeleteObject("k", oss.VersionId(marker), oss.GetResponseHeader(&h)))
			want(t, h.Get("x-oss-delete-marker"), "true")
			want(t, e.get("k"), "one")
			must(t, e.bucket.DeleteObject("k", oss.VersionId(id)))
			want(t, len(e.srv.Objects("room")), 0)
			must(t, e.bucket.DeleteObject("k", oss.VersionId(id)))
		},
		"a delete of nothing leaves a marker too": func(t *testing.T, e *env) {
			e.versioning("Enabled")
			must(t, e.bucket.DeleteObject("k"))
			want(t, e.srv.Objects("room")[0].DeleteMarker, true)
		},
		"an object from before versioning is the version null": func(t *testing.T, e *env) {
			want(t, e.put("k", "old"), "")
			e.versioning("Enabled")
			id := e.put("k", "new")
			want(t, e.get("k", oss.VersionId("null")), "old")
			h, err := e.bucket.GetObjectDetailedMeta("k")
			must(t, err)
			want(t, h.Get("x-oss-version-id"), id)
		},
		"suspended: puts and deletes replace the version null alone": func(t *testing.T, e *env) {
			e.versioning("Enabled")
			id := e.put("k", "kept")
			e.versioning("Suspended")
			want(t, e.put("k", "one"), "null")
			want(t, e.put("k", "two"), "null")
			want(t, e.get("k"), "two")
			want(t, e.get("k", oss.VersionId("null")), "two")
			want(t, e.get("k", oss.VersionId(id)), "kept")
			want(t, len(e.srv.Objects("room")), 2)
			must(t, e.bucket.DeleteObject("k"))
			want(t, e.get("k"), "404 NoSuchKey")
			want(t, e.get("k", oss.VersionId("null")), "405 MethodNotAllowed")
			want(t, e.get("k", oss.VersionId(id)), "kept")
			want(t, len(e.srv.Objects("room")), 2)
		},
		"all versions are listed, newest first and in pages": func(t *testing.T, e *env) {
			e.versioning("Enabled")
			a1, a2 := e.put("a", "1"), e.put("a", "22")
			e.put("d/x", "1")
			e.put("d/y", "1")
			must(t, e.bucket.DeleteObject("a"))
			var got []string
			keyMarker, idMarker := "", ""
			for range 10 {
				l, err := e.bucket.ListObjectVersions(oss.MaxKeys(1), oss.Delimiter("/"), oss.KeyMarker(keyMarker), oss.VersionIdMarker(idMarker))
				must(t, err)
				for _, m := range l.ObjectDeleteMarkers {
					want(t, m.IsLatest, true)
					got = append(got, "marker "+m.Key)
				}
				for _, v := range l.ObjectVersions {
					want(t, v.IsLatest, false)
					got = append(got, v.Key+" "+v.VersionId)
				}
				got = append(got, l.CommonPrefixes...)
				if !l.IsTruncated {
					break
				}
				keyMarker, idMarker = l.NextKeyMarker, l.NextVersionIdMarker
			}
			want(t, strings.Join(got, ", "), "marker a, a "+a2+", a "+a1+", d/")
			l, err := e.bucket.ListObjectVersions(oss.Prefix("d/"), oss.KeyMarker("d/x"))
			must(t, err)
			want(t, len(l.ObjectVersions), 1)
			want(t, l.ObjectVersions[0].Key, "d/y")
			want(t, l.ObjectVersions[0].IsLatest, true)
			_, err = e.bucket.ListObjectVersions(oss.VersionIdMarker(a1))
			want(t, verdict(err), "400 InvalidArgument")
		},
		"a batch deletes objects and versions": func(t *testing.T, e *env) {
			e.put("a b", "1")
			e.put("c", "1")
			e.put("kept", "1")
			r, err := e.bucket.DeleteObjects([]string{"a b", "c", "missing"})
			must(t, err)
			want(t, strings.Join(r.DeletedObjects, ","), "a b,c,missing")
			want(t, len(e.srv.Objects("room")), 1)
			e.versioning("Enabled")
			id := e.put("v", "1")
			res, err := e.bucket.DeleteObjectVersions([]oss.DeleteObject{{Key: "v"}, {Key: "v", VersionId: id}})
			must(t, err)
			want(t, res.DeletedObjectsDetail[0].DeleteMarker, true)
			want(t, len(e.srv.Objects("room")), 2)
			_, err = e.bucket.DeleteObjects([]string{"kept"}, oss.DeleteObjectsQuiet(true))
			must(t, err)
			want(t, e.get("kept"), "404 NoSuchKey")
			_, err = e.bucket.DeleteObjects([]string{"v", "/bad"})
			want(t, verdict(err), "400 InvalidObjectName")
			want(t, e.call("POST", "", map[string]any{"delete": nil}, "<Delete/>"), "400 MissingArgument")
		},
	})
}
