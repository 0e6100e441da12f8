package aliyun

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oncegate/oncegate/artifacts/osstest"
	"github.com/oncegate/oncegate/idempotency/otstest"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var tasks = Table{Name: "tasks", Key: "id"}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// answering is a service that gives every call one answer and counts the calls.
func answering(calls *int, status int, header http.Header, body []byte) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		*calls++
		if header == nil {
			header = http.Header{}
		}
		return &http.Response{
			StatusCode: status, Status: http.StatusText(status), Header: header, Request: r,
			ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)),
		}, nil
	})
}

func always(c cloudtest.Credential) func(context.Context) (Credentials, error) {
	return func(context.Context) (Credentials, error) {
		return Credentials{c.AccessKeyID, c.AccessKeySecret, c.SecurityToken}, nil
	}
}

func someone(context.Context) (Credentials, error) { return Credentials{"id", "secret", "token"}, nil }

type otsStand struct {
	srv   *otstest.Server
	creds *cloudtest.Credentials
	store *Tablestore
}

// newOTS returns a client of a stand-in with one table. wrap may be nil.
func newOTS(t *testing.T, o Options) *otsStand {
	t.Helper()
	creds := new(cloudtest.Credentials)
	srv, err := otstest.New(otstest.Options{Credentials: creds})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	if o.Credentials == nil {
		o.Credentials = always(creds.Issue(time.Time{}))
	}
	if o.Transport == nil {
		o.Transport = srv.Transport()
	}
	store, err := NewTablestore("http://in-process", "oncegate", o)
	if err != nil {
		t.Fatal(err)
	}
	s := &otsStand{srv, creds, store}
	setup, err := NewTablestore("http://in-process", "oncegate", Options{Credentials: always(creds.Issue(time.Time{})), Transport: srv.Transport()})
	if err != nil {
		t.Fatal(err)
	}
	if err := setup.CreateTable(t.Context(), tasks); err != nil {
		t.Fatal(err)
	}
	srv.Faults.ResetCalls()
	return s
}

// newOSS returns a client of a stand-in with one bucket.
func newOSS(t *testing.T, wrap func(http.RoundTripper) http.RoundTripper) (*osstest.Server, *Bucket) {
	t.Helper()
	creds := new(cloudtest.Credentials)
	srv, err := osstest.New(osstest.Options{Credentials: creds})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	rt := srv.Transport()
	if wrap != nil {
		rt = wrap(rt)
	}
	b, err := NewBucket("http://127.0.0.1", "room", Options{Credentials: always(creds.Issue(time.Time{})), Transport: rt})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	srv.Faults.ResetCalls()
	return srv, b
}

// otsCalls are all operations of the Tablestore client.
var otsCalls = map[string]func(context.Context, *Tablestore) error{
	"PutRow": func(ctx context.Context, s *Tablestore) error {
		return s.Insert(ctx, tasks, "new", Row{"revision": int64(1)})
	},
	"UpdateRow": func(ctx context.Context, s *Tablestore) error {
		return s.Update(ctx, tasks, "old", Row{"revision": int64(2)}, 1)
	},
	"GetRow": func(ctx context.Context, s *Tablestore) error { _, _, err := s.Get(ctx, tasks, "old"); return err },
	"GetRange": func(ctx context.Context, s *Tablestore) error {
		_, err := s.Scan(ctx, tasks, "", "", 10, nil)
		return err
	},
	"CreateTable":   func(ctx context.Context, s *Tablestore) error { return s.CreateTable(ctx, Table{"other", "id"}) },
	"DescribeTable": func(ctx context.Context, s *Tablestore) error { return s.CheckTable(ctx, tasks) },
}

// ossCalls are the operations of the OSS client that work with objects.
var ossCalls = map[string]func(context.Context, *Bucket) error{
	"PutObject": func(ctx context.Context, b *Bucket) error {
		_, err := b.Put(ctx, "a/b", Object{Body: []byte("body of some length")})
		return err
	},
	"GetObject":   func(ctx context.Context, b *Bucket) error { _, err := b.Get(ctx, "old", ""); return err },
	"ListObjects": func(ctx context.Context, b *Bucket) error { _, err := b.List(ctx, "", 10); return err },
}
