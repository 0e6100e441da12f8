// Package osstest is a stand-in for Alibaba Cloud OSS that speaks its wire
// protocol, so that code under test runs on the real SDK, unchanged.
//
// What a client may rely on here is what it may rely on there:
//
//   - Every call is signed. V1 (HMAC-SHA1) and V4 (HMAC-SHA256) headers are
//     recomputed from the request; the key, the STS token, its expiry and the
//     clock skew are checked before anything else.
//
//   - A write is visible to every later read and listing, and it is atomic.
//
//   - A delete without a version id removes the object from a bucket that was
//     never versioned and leaves a delete marker in any other.
//
//   - Uploads answer with the CRC-64 of what arrived, Content-MD5 is verified,
//     and an ETag is the upper-case MD5 of the body.
//
// A bucket is in one of three versioning states, and x-oss-forbid-overwrite
// protects an object in the first of them alone:
//
//	never enabled   a put replaces the object   409 FileAlreadyExists
//	Enabled         a put adds a version        no effect
//	Suspended       a put replaces "null"       no effect
//
// Version ids are unique and rise as strings. Buckets, objects and the version
// counter survive kill -9 (not a power cut) where [Options.Dir] is set.
//
// Some of its answers are traps that the service sets as well:
//
//   - two lifecycle rules of which one's prefix holds the other's may not have
//     the same action, to which the removal of delete markers belongs, unless
//     x-oss-allow-same-action-overlap says so;
//   - a copy leaves the encryption of its source behind;
//   - a copy of a never versioned object onto itself drops the meta that the
//     call does not repeat, also under COPY.
//
// # Limits
//
// A sub-resource, parameter or x-oss- header that is not modelled is refused
// with 501 NotImplemented and never ignored. Not modelled: multipart and append
// uploads, symbolic links, ACLs other than private, storage classes other than
// Standard and transitions to them, SM4, signed URLs and signature V2, response-*
// overrides, bucket policies and quotas. The policies of a credential's identity
// hold; one without an identity may do everything. Lifecycle rules are checked and kept but never run. Server-side encryption is recorded
// and echoed, no byte is encrypted.
//
// Where the service's documents are silent the stand-in does the following. Tags
// don't keep the prefixes of lifecycle rules apart. A copy of a delete marker by
// its version id ends in NoSuchKey. Of a header that a copy carries both with and
// without x-oss-copy-source- in front, as the Node.js client sends it, the
// form that means something counts.
package osstest

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

// Options say how a Server keeps its objects and whom it lets in.
type Options struct {
	// Dir holds the database oss.db; it is created where it is missing.
	// Empty keeps everything in memory.
	Dir string
	// Credentials are the keys that are accepted. Required.
	Credentials *cloudtest.Credentials
	// Now is the server's clock; nil means time.Now. A call dated more than
	// 15 minutes away from it is refused.
	Now func() time.Time
}

// Server is one stand-in for OSS with any number of buckets.
type Server struct {
	// Faults are this server's planned faults, hooks and call counters.
	Faults *cloudtest.Faults

	engine  *engine
	service *cloudtest.Service

	mu       sync.Mutex
	listener *cloudtest.Listener
	closed   bool
}

// New opens the store and returns a server that answers through
// [Server.Transport]. It fails without credentials, where the database can't
// be read, and where another process holds it.
func New(o Options) (*Server, error) {
	if o.Credentials == nil {
		return nil, errors.New("new oss stand-in: Options.Credentials is nil")
	}
	now := o.Now
	if now == nil {
		now = time.Now
	}
	st, err := openStore(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("new oss stand-in: %w", err)
	}
	e := &engine{credentials: o.Credentials, now: now, store: st}
	e.routes = e.table()
	faults := &cloudtest.Faults{}
	return &Server{
		Faults:  faults,
		engine:  e,
		service: &cloudtest.Service{Name: "oss", Engine: e, Faults: faults, Now: now},
	}, nil
}

// Start listens on a free port of 127.0.0.1. It fails where the server runs
// already or was closed.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.listener != nil {
		return errors.New("start oss stand-in: already started or closed")
	}
	l, err := cloudtest.Listen(s.service.Handler())
	if err != nil {
		return fmt.Errorf("start oss stand-in: %w", err)
	}
	s.listener = l
	return nil
}

// Endpoint returns http://127.0.0.1:port, or "" before Start. Its IP address
// makes the SDK put the bucket into the path.
func (s *Server) Endpoint() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return ""
	}
	return s.listener.URL
}

// Transport reaches the server without a socket, also under testing/synctest.
// The host of a request matters only where it names the bucket, as in
// bucket.oss-cn-hangzhou.aliyuncs.com.
func (s *Server) Transport() http.RoundTripper { return s.service.Transport() }

// Close stops listening and releases the database. Later calls through
// Transport fail where they would write to it. A second Close does nothing.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	s.closed = true
	var err error
	if s.listener != nil {
		err = s.listener.Close()
	}
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	return errors.Join(err, s.engine.store.close())
}

// Object is one version of an object, a copy.
type Object struct {
	Key          string
	VersionID    string            // "null" where it was written without versioning
	Body         []byte            // nil for a delete marker
	Metadata     map[string]string // x-oss-meta-* without the prefix, lower case
	Tags         map[string]string
	ContentType  string
	DeleteMarker bool
	SSE          string // AES256, KMS or ""
}

// Objects returns all versions in a bucket, delete markers included, sorted by
// key and then from the oldest to the current one. An unknown bucket has none.
func (s *Server) Objects(bucket string) []Object {
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	b := s.engine.store.buckets[bucket]
	if b == nil {
		return nil
	}
	var out []Object
	for _, versions := range b.keys {
		for _, v := range versions {
			out = append(out, v.plain())
		}
	}
	slices.SortStableFunc(out, func(a, b Object) int { return strings.Compare(a.Key, b.Key) })
	return out
}
