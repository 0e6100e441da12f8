// Package targettest stands in for the systems that side effects go to. One
// server has one of each kind, so that what a caller may conclude from a lost
// answer can be tried on all of them:
//
//	POST /notify    idempotent   a repeated Idempotency-Key delivers nothing new
//	POST /robot     opaque       every accepted call sends one more message
//	/records        readable     POST creates, GET finds by number
//
// Bodies are JSON objects, errors are {"error":{"code":...,"message":...}}.
//
// POST /notify answers 200 {"id":"ntf-1"}, and the same id to a repeat. After
// [Options.KeyTTL] the key is forgotten and a repeat delivers again. A key that
// comes with another body is refused with 422 idempotency_key_reused. Bodies
// are compared byte by byte. A call without the header always delivers.
//
// POST /robot answers 200 {"errcode":0}. It takes no notice of a key and has
// nothing to read back.
//
// POST /records takes {"number":"R-17",...} and answers 201 {"id":"rec-1",
// "number":"R-17"}, or 409 with the code exists and the id of the record that
// has the number already. GET /records?number=R-17, or
// /records/by-number/R-17, answers 200 {"records":[{"id","number",
// "created_at"}]}, oldest first and empty where there are none. A new record
// can stay out of sight for [Options.VisibleAfter], as in a store with lagging
// replicas; [Options.ConflictAfterVisible] blinds POST for as long, and then a
// number can be there twice.
//
// # Scripts
//
// Whoever writes the body scripts the answer. Directives may stand in any
// string value of it, not in names, and count in the order of the document:
//
//	{"text": "[[target status=429 retry_after=1 times=2]] [[target cut_after]] Order 17"}
//
// The first two calls get 429, the third has its effect and no answer, and
// every later one goes its normal way. Calls are counted by path and
// Idempotency-Key, or by path and body where there is no key. The words are:
//
//	status=400..599        an error and no effect; code=TEXT and retry_after=SECONDS go with it
//	cut                    no effect and no answer, the connection is closed
//	cut_after              the effect, then no answer
//	delay=DURATION         before the rest; a caller that leaves has no effect
//	delay_after=DURATION   after the effect
//	times=N                calls the directive lasts, default 1, -1 for ever
//
// The delays stand alone or with another word; delay_after needs an effect. A
// directive that is not understood is answered with 400 invalid_directive: a
// scenario with a typing error must not pass as a normal call.
//
// A cut call may come again by itself: Go's http.Transport repeats a POST that
// has an Idempotency-Key, whatever its target does with it, where a reused
// connection ends before the answer and Request.GetBody can rewind the body.
//
// Error messages repeat the request's body on purpose: a client that logs a
// target's text is found out.
package targettest

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

// Options configures a server. The zero value is ready: everything in memory,
// keys kept for ever, records visible at once, nobody asked for a token.
type Options struct {
	// Token is the bearer token that every call must carry; empty accepts all.
	Token string
	// KeyTTL is how long a key is remembered after the effect that it made; at
	// its end it is forgotten. 0 is for ever.
	KeyTTL time.Duration
	// VisibleAfter is the age at which a record shows in GET.
	VisibleAfter time.Duration
	// ConflictAfterVisible makes POST see what GET sees and no more, so that a
	// second record of one number is created while the first is out of sight.
	ConflictAfterVisible bool
	// RecordsHonourKey makes POST /records answer a repeated key, within
	// KeyTTL, as POST /notify does. Otherwise the key is kept and not looked at.
	RecordsHonourKey bool
	// Dir holds the database targets.db and is created where it is missing.
	// What is in it, script counts included, outlives the process but not a
	// power cut. Empty keeps everything in memory.
	Dir string
	// Now is the server's clock; nil means time.Now. Delays don't use it.
	Now func() time.Time
}

// Server is one stand-in for all three targets; all methods are safe for
// concurrent use.
//
// In Faults the operations are Notify, Robot, CreateRecord and FindRecord. The
// target of the first two is the Idempotency-Key, that of the others the number.
type Server struct {
	Faults *cloudtest.Faults

	engine  *engine
	service *cloudtest.Service

	mu       sync.Mutex
	listener *cloudtest.Listener
	closed   bool
}

// New opens the state and returns a server that Transport reaches; Start gives
// it a socket as well. It fails where a duration is negative, where the
// database can't be read, and after a second where another process holds it.
func New(o Options) (*Server, error) {
	if o.KeyTTL < 0 || o.VisibleAfter < 0 {
		return nil, errors.New("new target server: negative duration")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	st, err := openState(o)
	if err != nil {
		return nil, fmt.Errorf("new target server: %w", err)
	}
	e := &engine{token: o.Token, state: st}
	faults := &cloudtest.Faults{}
	return &Server{
		Faults: faults, engine: e,
		service: &cloudtest.Service{Name: "target", Engine: e, Faults: faults, Now: o.Now},
	}, nil
}

// Start serves on a free port of 127.0.0.1.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.listener != nil {
		return errors.New("start target server: already started or closed")
	}
	l, err := cloudtest.Listen(s.service.Handler())
	if err != nil {
		return fmt.Errorf("start target server: %w", err)
	}
	s.listener = l
	return nil
}

// Endpoint returns the base URL, without a slash at its end. Before Start its
// host does not resolve, which suits Transport.
func (s *Server) Endpoint() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return "http://target.invalid"
	}
	return s.listener.URL
}

// Close stops the socket, cuts open calls and releases the database, if there
// is one. With a database, later effects through Transport fail. A second Close
// does nothing.
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
	return errors.Join(err, s.engine.state.close())
}

// Transport reaches the server without a socket, whatever the URL's host, also
// under testing/synctest.
func (s *Server) Transport() http.RoundTripper { return s.service.Transport() }
