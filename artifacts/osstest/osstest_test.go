package osstest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"
	"go.uber.org/goleak"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// env is one server with one bucket and the real SDK in front of it.
type env struct {
	t        *testing.T
	srv      *Server
	creds    *cloudtest.Credentials
	cred     cloudtest.Credential
	offset   atomic.Int64 // how far the server's clock is ahead, in ns
	endpoint string
	rt       http.RoundTripper
	bucket   *oss.Bucket
}

func newEnv(t *testing.T, socket bool) *env {
	t.Helper()
	e := &env{t: t, creds: &cloudtest.Credentials{}, endpoint: "http://127.0.0.1"}
	e.cred = e.creds.Issue(time.Now().Add(time.Hour))
	var err error
	e.srv, err = New(Options{Credentials: e.creds, Now: func() time.Time { return time.Now().Add(time.Duration(e.offset.Load())) }})
	must(t, err)
	t.Cleanup(func() { must(t, e.srv.Close()) })
	e.rt = e.srv.Transport()
	if socket {
		must(t, e.srv.Start())
		e.endpoint = e.srv.Endpoint()
		tr := &http.Transport{}
		t.Cleanup(tr.CloseIdleConnections)
		e.rt = tr
	}
	must(t, e.client().CreateBucket("room"))
	e.bucket = e.open("room")
	return e
}

// both runs a test over a socket and in process: what a caller sees must not differ.
func both(t *testing.T, run func(t *testing.T, e *env)) {
	t.Helper()
	for name, socket := range map[string]bool{"over a socket": true, "in process": false} {
		t.Run(name, func(t *testing.T) { run(t, newEnv(t, socket)) })
	}
}

// each runs named subtests, all in both ways and each on its own server.
func each(t *testing.T, tests map[string]func(t *testing.T, e *env)) {
	t.Helper()
	for name, run := range tests {
		t.Run(name, func(t *testing.T) { both(t, run) })
	}
}

func (e *env) client(opts ...oss.ClientOption) *oss.Client { return e.clientOf(e.cred, opts...) }

func (e *env) clientOf(cred cloudtest.Credential, opts ...oss.ClientOption) *oss.Client {
	e.t.Helper()
	opts = append([]oss.ClientOption{
		oss.HTTPClient(&http.Client{Transport: e.rt}), oss.SecurityToken(cred.SecurityToken),
	}, opts...)
	c, err := oss.New(e.endpoint, cred.AccessKeyID, cred.AccessKeySecret, opts...)
	must(e.t, err)
	return c
}

func (e *env) open(name string, opts ...oss.ClientOption) *oss.Bucket {
	e.t.Helper()
	b, err := e.client(opts...).Bucket(name)
	must(e.t, err)
	return b
}

// put stores body and returns the version id that the answer carries.
func (e *env) put(key, body string, opts ...oss.Option) string {
	e.t.Helper()
	var h http.Header
	must(e.t, e.bucket.PutObject(key, strings.NewReader(body), append(opts, oss.GetResponseHeader(&h))...))
	return h.Get("x-oss-version-id")
}

// get returns the body of an object, or what went wrong.
func (e *env) get(key string, opts ...oss.Option) string {
	e.t.Helper()
	r, err := e.bucket.GetObject(key, opts...)
	if err != nil {
		return verdict(err)
	}
	defer r.Close()
	b, err := io.ReadAll(r)
	if err != nil {
		return "read: " + err.Error()
	}
	return string(b)
}

// call sends a signed request that the SDK has no method for.
func (e *env) call(method, key string, params map[string]any, body string, opts ...oss.Option) string {
	e.t.Helper()
	resp, err := e.bucket.Do(method, key, params, opts, strings.NewReader(body), nil)
	if err != nil {
		return verdict(err)
	}
	defer resp.Body.Close()
	_, err = io.ReadAll(resp.Body)
	must(e.t, err)
	return fmt.Sprint(resp.StatusCode)
}

func (e *env) versioning(status string) {
	e.t.Helper()
	must(e.t, e.client().SetBucketVersioning("room", oss.VersioningConfig{Status: status}))
}

// verdict shortens an error of the SDK to its status and code.
func verdict(err error) string {
	if err == nil {
		return "ok"
	}
	if se, ok := errors.AsType[oss.ServiceError](err); ok {
		if se.RequestID == "" {
			return "no request id: " + err.Error()
		}
		return strings.TrimSpace(fmt.Sprintf("%d %s", se.StatusCode, se.Code))
	}
	return err.Error()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func want[T comparable](t *testing.T, got, want T) {
	t.Helper()
	if got != want {
		t.Fatalf("got %v, want %v", got, want)
	}
}

// roundTripper is a function that stands between the SDK and the server.
type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// through returns the bucket with every request changed before it is sent.
func (e *env) through(change func(*http.Request)) *oss.Bucket {
	return e.open("room", oss.HTTPClient(&http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		r = r.Clone(r.Context())
		change(r)
		return e.rt.RoundTrip(r)
	})}))
}

// replaceBody makes a request carry another body of the same length.
func replaceBody(r *http.Request) {
	b, _ := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if len(b) > 0 {
		b[0] ^= 1
	}
	r.Body = io.NopCloser(bytes.NewReader(b))
}
