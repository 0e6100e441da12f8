// Package modeltest stands in for an OpenAI-compatible model server, such as
// Alibaba Cloud Model Studio in its compatible mode. It answers chat
// completions on the real wire format, so that the real client is under test.
//
// GET /models and GET /models/NAME are answered as well: a model is there unless
// its name begins with missing-.
//
// Whoever writes the user message scripts the answer. A directive may stand
// anywhere in it:
//
//	[[model status=429 retry_after=1 times=2]] [[model cut]] Order 17 is late.
//
// The first two calls with this content get 429, the third is cut, the fourth
// and every later one get the normal answer. Calls are counted by content, so
// one event's script does not disturb another's. The words are:
//
//	status=400..599   an error answer; code=TEXT and retry_after=SECONDS go with it
//	cut               no answer, the connection is closed
//	garbage           200 with HTML
//	empty             200 without a body
//	error200          200 with an error object; code=TEXT goes with it
//	nochoices         200 with an empty list of choices
//	finish=REASON     200 that ended for stop, length or content_filter
//	delay=DURATION    before the rest, alone or with one of the others
//	times=N           calls the directive lasts, default 1, -1 for ever
//
// A directive that is not understood is answered with 400 and a message that
// says why: a scenario with a typing error must not pass as a normal call.
//
// The stand-in never deduplicates. Every completion has the call's number in
// its id, so a call that was paid twice shows. Error texts and HTML repeat the
// user's content on purpose: a client that logs provider text is found out.
package modeltest

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

// Options configures a server. The zero value is ready.
type Options struct {
	APIKey string           // accepted bearer key; empty: any non-empty one
	Now    func() time.Time // default time.Now
	Models []string         // what GET /models lists
	// NoModelLookUp makes GET /models/NAME a path that is not there, as some
	// services have it: the list is all that can be read.
	NoModelLookUp bool
}

// Server is a running stand-in; all methods are safe for concurrent use.
//
// In Faults the operation is ChatCompletion and the target is the value of the
// X-Request-Id header, or GetModel with the model's name, or ListModels.
type Server struct {
	Faults *cloudtest.Faults

	engine  *engine
	service *cloudtest.Service

	mu       sync.Mutex
	listener *cloudtest.Listener
}

// New returns a server that Transport reaches; Start gives it a socket as well.
func New(o Options) *Server {
	if o.Now == nil {
		o.Now = time.Now
	}
	e := &engine{opt: o, seen: map[string]int{}}
	faults := &cloudtest.Faults{}
	return &Server{
		Faults: faults, engine: e,
		service: &cloudtest.Service{Name: "model", Engine: e, Faults: faults, Now: o.Now},
	}
}

// Start serves on a free port of 127.0.0.1.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener != nil {
		return errors.New("start model server: already started")
	}
	l, err := cloudtest.Listen(s.service.Handler())
	if err != nil {
		return err
	}
	s.listener = l
	return nil
}

// Endpoint returns the base URL for a client, ending in /v1. Before Start its
// host does not resolve, which suits Transport.
func (s *Server) Endpoint() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return "http://model.invalid/v1"
	}
	return s.listener.URL + "/v1"
}

// Close stops the socket, if there is one, and cuts open calls.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listener == nil {
		return nil
	}
	l := s.listener
	s.listener = nil
	return l.Close()
}

// Transport reaches the server without a socket, whatever the URL's host.
func (s *Server) Transport() http.RoundTripper { return s.service.Transport() }
