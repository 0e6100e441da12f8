package osstest

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestLocate(t *testing.T) {
	for _, c := range []struct{ host, path, bucket, key string }{
		{"127.0.0.1:80", "/", "", ""},
		{"127.0.0.1:80", "/room", "room", ""},
		{"127.0.0.1:80", "/room/", "room", ""},
		{"127.0.0.1:80", "/room/a/b", "room", "a/b"},
		{"127.0.0.1", "/room//a", "room", "/a"},
		{"localhost:80", "/room/../x", "room", "../x"},
		{"[::1]:80", "/room/a", "room", "a"},
		{"oss-cn-hangzhou.aliyuncs.com", "/room/a", "room", "a"},
		{"room.oss-cn-hangzhou.aliyuncs.com", "/a/b", "room", "a/b"},
		{"room.oss-cn-hangzhou.aliyuncs.com:443", "/", "room", ""},
		{".oss-cn-hangzhou.aliyuncs.com", "/room/a", "room", "a"},
		{"", "", "", ""},
	} {
		bucket, key := locate(c.host, c.path)
		if bucket != c.bucket || key != c.key {
			t.Errorf("%s%s: got %q %q, want %q %q", c.host, c.path, bucket, key, c.bucket, c.key)
		}
	}
}

// FuzzPath sends raw paths, hosts and queries to the engine, which must answer
// each of them, and names through the SDK, which must arrive as they were.
func FuzzPath(f *testing.F) {
	creds := &cloudtest.Credentials{}
	cred := creds.Issue(time.Time{})
	s, err := New(Options{Credentials: creds})
	if err != nil {
		f.Fatal(err)
	}
	client, err := oss.New("http://127.0.0.1", cred.AccessKeyID, cred.AccessKeySecret,
		oss.SecurityToken(cred.SecurityToken), oss.HTTPClient(&http.Client{Transport: s.Transport()}))
	if err != nil {
		f.Fatal(err)
	}
	if err := client.CreateBucket("room"); err != nil {
		f.Fatal(err)
	}
	bucket, err := client.Bucket("room")
	if err != nil {
		f.Fatal(err)
	}
	for _, key := range []string{"a", "a/b", "/a", `\a`, "%2F", "..", "中文 +", "a\xff", "?versions", strings.Repeat("x", 1024), "\x00"} {
		f.Add("127.0.0.1", "/room/"+key, key)
		f.Add("room.oss-x.com:1", "//"+key+"?tagging&versionId=%zz;", key)
	}
	f.Fuzz(func(t *testing.T, host, raw, key string) {
		if u, err := url.ParseRequestURI(raw); err == nil {
			r := httptest.NewRequest("GET", "/", nil)
			r.URL, r.Host = u, host
			op, target := s.engine.Name(r, nil)
			bucket, object := locate(host, u.Path)
			if op == "" || (object != "" && target != bucket+"/"+object) {
				t.Fatalf("%q %q: op %q, target %q", host, raw, op, target)
			}
			w := httptest.NewRecorder()
			s.engine.ServeHTTP(w, r)
			if w.Code != 403 && w.Code != 400 && w.Code != 501 {
				t.Fatalf("%q %q: an unsigned call got %d", host, raw, w.Code)
			}
		}
		if key == "" {
			return
		}
		got := verdict(bucket.PutObject(key, strings.NewReader(key)))
		valid := len(key) <= 1023 && utf8.ValidString(key) && !strings.HasPrefix(key, "/") && !strings.HasPrefix(key, `\`)
		switch {
		case valid && got != "ok", !valid && got != "400 InvalidObjectName":
			t.Fatalf("%q: got %s", key, got)
		case valid:
			objects := s.Objects("room")
			if len(objects) != 1 || objects[0].Key != key || string(objects[0].Body) != key {
				t.Fatalf("%q: stored as %+v", key, objects)
			}
			if got := verdict(bucket.DeleteObject(key)); got != "ok" {
				t.Fatalf("%q: delete got %s", key, got)
			}
		}
	})
}
