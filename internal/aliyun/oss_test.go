package aliyun

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestObjectRoundTrip(t *testing.T) {
	srv, b := newOSS(t, nil)
	put := Object{
		Body: []byte("body"), ContentType: "application/json", Metadata: map[string]string{"oncegate-key": "k"},
		Tags: map[string]string{"class": "output"}, Encryption: "AES256",
	}
	version, err := b.Put(t.Context(), "tasks/k 1/output.json", put)
	if err != nil || version == "" {
		t.Fatal(version, err)
	}
	got, err := b.Get(t.Context(), "tasks/k 1/output.json", "")
	want := Object{Body: put.Body, ContentType: put.ContentType, Metadata: put.Metadata, VersionID: version}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	put.Body = []byte("second")
	second, err := b.Put(t.Context(), "tasks/k 1/output.json", put)
	if err != nil || second == version {
		t.Fatal(second, err)
	}
	if first, err := b.Get(t.Context(), "tasks/k 1/output.json", version); err != nil || string(first.Body) != "body" {
		t.Errorf("the first version: %q %v", first.Body, err)
	}
	if _, err := b.Get(t.Context(), "nothing", ""); KindOf(err) != KindNotFound {
		t.Errorf("no object: %v", err)
	}
	if o := srv.Objects("room")[0]; o.Tags["class"] != "output" || o.SSE != "AES256" {
		t.Errorf("stored %+v", o)
	}
}

func TestBytesThatChangeOnTheWayAreAnError(t *testing.T) {
	flip := func(base http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			resp, err := base.RoundTrip(r)
			if err != nil || !strings.Contains(r.URL.Path, "/old") || r.Method != http.MethodGet {
				return resp, err
			}
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				return nil, err
			}
			body[0] ^= 1
			resp.Body = io.NopCloser(bytes.NewReader(body))
			return resp, nil
		})
	}
	_, b := newOSS(t, flip)
	for _, name := range []string{"old", "new"} {
		if _, err := b.Put(t.Context(), name, Object{Body: []byte("body")}); err != nil {
			t.Fatal(err)
		}
	}
	if o, err := b.Get(t.Context(), "old", ""); err == nil || o.Body != nil || KindOf(err) != KindUnknown {
		t.Errorf("got %q %v", o.Body, err)
	}
	if o, err := b.Get(t.Context(), "new", ""); err != nil || string(o.Body) != "body" {
		t.Errorf("a whole one: %q %v", o.Body, err)
	}
}

func TestHalfAnObjectIsAnError(t *testing.T) {
	srv, b := newOSS(t, nil)
	if _, err := b.Put(t.Context(), "old", Object{Body: bytes.Repeat([]byte("x"), 1000)}); err != nil {
		t.Fatal(err)
	}
	srv.Faults.Add(cloudtest.Fault{Op: "GetObject", Phase: cloudtest.After, Kind: cloudtest.Truncate})
	if o, err := b.Get(t.Context(), "old", ""); err == nil || o.Body != nil {
		t.Errorf("got %d bytes %v", len(o.Body), err)
	}
}

func TestListReadsPageByPageUpToItsLimit(t *testing.T) {
	srv, b := newOSS(t, nil)
	names := []string{"a/1", "a/2", "a/3", "b/1"}
	for _, name := range names {
		if _, err := b.Put(t.Context(), name, Object{}); err != nil {
			t.Fatal(err)
		}
	}
	for limit, want := range map[int][]string{1: names[:1], 2: names[:2], 3: names[:3], 1000: names[:3]} {
		if got, err := b.List(t.Context(), "a/", limit); err != nil || cmp.Diff(want, got) != "" {
			t.Errorf("limit %d: %v %v", limit, got, err)
		}
	}
	if n := srv.Faults.Calls()["ListObjects"]; n != 4 {
		t.Errorf("%d calls", n)
	}
}

func TestCreateBucketOnce(t *testing.T) {
	srv, b := newOSS(t, nil)
	if created, err := b.Create(t.Context()); err != nil || created || srv.Faults.Calls()["CreateBucket"] != 0 {
		t.Errorf("a bucket that is there: created %v %v, calls %v", created, err, srv.Faults.Calls())
	}
	var calls int
	other, err := NewBucket("http://127.0.0.1", "room", Options{
		Credentials: func(context.Context) (Credentials, error) { return Credentials{}, errNoCredentials }, Transport: answering(&calls, 200, nil, nil),
	})
	if err != nil {
		t.Fatal(err)
	}
	for op, call := range ossCalls {
		if err := call(t.Context(), other); err == nil || calls != 0 {
			t.Errorf("%s without credentials: %v", op, err)
		}
	}
}
