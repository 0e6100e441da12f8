package osstest

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestFaults(t *testing.T) {
	each(t, map[string]func(*testing.T, *env){
		"an answer dropped after the effect is an error, and the object is there": func(t *testing.T, e *env) {
			e.srv.Faults.Add(cloudtest.Fault{Op: "PutObject", Target: "room/k", Phase: cloudtest.After, Kind: cloudtest.Drop})
			err := e.bucket.PutObject("k", strings.NewReader("x"))
			if !errors.Is(err, io.EOF) {
				t.Fatalf("got %v, want EOF", err)
			}
			want(t, e.srv.Faults.Calls()["PutObject"], 1)
			want(t, e.get("k"), "x")
		},
		"a call dropped before the effect leaves nothing": func(t *testing.T, e *env) {
			e.srv.Faults.Add(cloudtest.Fault{Op: "PutObject", Phase: cloudtest.Before, Kind: cloudtest.Drop})
			if err := e.bucket.PutObject("k", strings.NewReader("x")); !errors.Is(err, io.EOF) {
				t.Fatalf("got %v, want EOF", err)
			}
			want(t, len(e.srv.Objects("room")), 0)
			e.put("k", "x")
		},
		"a 503 comes before or after the effect": func(t *testing.T, e *env) {
			busy := cloudtest.Fault{Op: "PutObject", Kind: cloudtest.Status, Status: 503, Code: "ServiceUnavailable"}
			e.srv.Faults.Add(busy)
			want(t, verdict(e.bucket.PutObject("k", strings.NewReader("x"))), "503 ServiceUnavailable")
			want(t, len(e.srv.Objects("room")), 0)
			busy.Phase = cloudtest.After
			e.srv.Faults.Add(busy)
			want(t, verdict(e.bucket.PutObject("k", strings.NewReader("x"))), "503 ServiceUnavailable")
			want(t, len(e.srv.Objects("room")), 1)
			e.srv.Faults.Add(cloudtest.Fault{Op: "HeadObject", Kind: cloudtest.Status, Status: 500, Code: "InternalError"})
			_, err := e.bucket.GetObjectDetailedMeta("k")
			want(t, verdict(err), "500")
		},
		"a body cut half way is a read error": func(t *testing.T, e *env) {
			e.put("k", strings.Repeat("x", 1000))
			e.srv.Faults.Add(cloudtest.Fault{Op: "GetObject", Phase: cloudtest.After, Kind: cloudtest.Truncate, Times: 2})
			r, err := e.bucket.GetObject("k")
			must(t, err)
			b, err := io.ReadAll(r)
			want(t, len(b), 500)
			want(t, errors.Is(err, io.ErrUnexpectedEOF), true)
			must(t, r.Close())
			if err := e.bucket.GetObjectToFile("k", t.TempDir()+"/f"); !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Fatalf("got %v, want an unexpected EOF", err)
			}
			want(t, len(e.get("k")), 1000)
		},
		"calls are counted by operation and seen by the hook": func(t *testing.T, e *env) {
			e.srv.Faults.ResetCalls()
			var seen []string
			e.srv.Faults.Hook(func(c cloudtest.Call, p cloudtest.Phase) {
				seen = append(seen, c.Service+" "+c.Op+" "+c.Target+" "+p.String())
			})
			e.put("a/b c", "x")
			e.get("a/b c")
			_, err := e.bucket.ListObjects()
			must(t, err)
			_, err = e.bucket.ListObjectsV2()
			must(t, err)
			_, err = e.bucket.IsObjectExist("a/b c")
			must(t, err)
			_, err = e.bucket.GetObjectTagging("a/b c")
			must(t, err)
			e.versioning("Enabled")
			if want := map[string]int{
				"PutObject": 1, "GetObject": 1, "ListObjects": 2, "GetObjectMeta": 1, "GetObjectTagging": 1, "PutBucketVersioning": 1,
			}; !maps.Equal(e.srv.Faults.Calls(), want) {
				t.Fatalf("got %v, want %v", e.srv.Faults.Calls(), want)
			}
			want(t, seen[0], "oss PutObject room/a/b c before")
			want(t, seen[1], "oss PutObject room/a/b c after")
			want(t, seen[4], "oss ListObjects room before")
		},
	})
}

func TestDeadlines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEnv(t, false)
		e.srv.Faults.Add(
			cloudtest.Fault{Op: "PutObject", Target: "room/late", Phase: cloudtest.After, Kind: cloudtest.Delay, Delay: time.Minute},
			cloudtest.Fault{Op: "PutObject", Target: "room/never", Phase: cloudtest.Before, Kind: cloudtest.Delay, Delay: time.Minute},
			cloudtest.Fault{Op: "PutObject", Target: "room/slow", Phase: cloudtest.Before, Kind: cloudtest.Delay, Delay: time.Second},
		)
		for key, stored := range map[string]bool{"late": true, "never": false} {
			start := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			err := e.bucket.PutObject(key, strings.NewReader("x"), oss.WithContext(ctx))
			cancel()
			want(t, errors.Is(err, context.DeadlineExceeded), true)
			want(t, time.Since(start), 3*time.Second)
			found, err := e.bucket.IsObjectExist(key)
			must(t, err)
			want(t, found, stored)
		}
		start := time.Now()
		e.put("slow", "x")
		want(t, time.Since(start), time.Second)

		o := e.creds.Issue(time.Now().Add(time.Hour))
		b, err := e.clientOf(o).Bucket("room")
		must(t, err)
		must(t, b.PutObject("k", strings.NewReader("x")))
		time.Sleep(time.Hour)
		want(t, verdict(b.PutObject("k", strings.NewReader("x"))), "403 SecurityTokenExpired")
	})
}

func TestAnswersOfTheClosedAndTheUnready(t *testing.T) {
	t.Run("a server without credentials is refused", func(t *testing.T) {
		if _, err := New(Options{}); err == nil {
			t.Fatal("got no error")
		}
	})
	t.Run("a server has an endpoint once it is started, and starts once", func(t *testing.T) {
		s, err := New(Options{Credentials: &cloudtest.Credentials{}})
		must(t, err)
		want(t, s.Endpoint(), "")
		must(t, s.Start())
		want(t, strings.HasPrefix(s.Endpoint(), "http://127.0.0.1:"), true)
		want(t, s.Start() != nil, true)
		must(t, s.Close())
		must(t, s.Close())
		want(t, s.Start() != nil, true)
		s, err = New(Options{Credentials: &cloudtest.Credentials{}})
		must(t, err)
		must(t, s.Close())
		want(t, s.Start() != nil, true)
	})
	t.Run("a write after Close is an internal error and not lost in silence", func(t *testing.T) {
		creds := &cloudtest.Credentials{}
		s, err := New(Options{Credentials: creds, Dir: t.TempDir()})
		must(t, err)
		must(t, s.Close())
		cred := creds.Issue(time.Time{})
		c, err := oss.New("http://127.0.0.1", cred.AccessKeyID, cred.AccessKeySecret, oss.SecurityToken(cred.SecurityToken),
			oss.HTTPClient(&http.Client{Transport: s.Transport()}))
		must(t, err)
		want(t, verdict(c.CreateBucket("room")), "500 InternalError")
	})
}
