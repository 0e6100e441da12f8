// Package cloudtest is what oncegate's stand-ins for cloud services share: one
// set of planned faults, counters and hooks, credentials that can be rotated,
// and two ways to reach an engine, a socket on 127.0.0.1 and an in-process
// transport, that show the caller the same faults.
//
// A call passes through in one order:
//
//	arrive -> hook(Before) -> faults Before -> effect -> hook(After) -> faults After -> answer
//
// The faults After are the ones that matter: the effect is there and the
// caller cannot know it.
package cloudtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"time"
)

// Engine is a service without its network. ServeHTTP carries out one call and
// must be safe for concurrent use.
type Engine interface {
	http.Handler
	// Name says which operation a request is and what it is about.
	Name(r *http.Request, body []byte) (op, target string)
	// Fail answers in the service's own error format.
	Fail(w http.ResponseWriter, status int, code string)
}

// Service joins an engine to its faults.
type Service struct {
	Name   string
	Engine Engine
	Faults *Faults
	Now    func() time.Time // source of the Date header; nil means time.Now
}

// noAnswer lets an engine ask for what it cannot do on a recorder.
type noAnswer struct{ asked bool }

type noAnswerKey struct{}

// NoAnswer makes the call end without an answer, after its effect and the hook
// and faults of that side: an engine calls it for a connection that is cut.
func NoAnswer(ctx context.Context) {
	if n, ok := ctx.Value(noAnswerKey{}).(*noAnswer); ok {
		n.asked = true
	}
}

// errDropped is what a call that got no answer ends with.
var errDropped = errors.New("connection dropped")

type answer struct {
	*httptest.ResponseRecorder
	truncated bool
}

func (s *Service) do(r *http.Request) (*answer, error) {
	var body []byte
	if r.Body != nil {
		var all bytes.Buffer
		all.Grow(int(min(max(r.ContentLength, 0), 1<<20)) + bytes.MinRead)
		if _, err := all.ReadFrom(r.Body); err != nil {
			return nil, err
		}
		body = all.Bytes()
		r.Body.Close()
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	op, target := s.Engine.Name(r, body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	call := s.Faults.arrive(s.Name, op, target)

	rec := httptest.NewRecorder()
	now := time.Now
	if s.Now != nil {
		now = s.Now
	}
	rec.Header().Set("Date", now().UTC().Format(http.TimeFormat))
	if f := s.Faults.next(call, Before); f != nil {
		done, err := s.apply(r.Context(), f, rec)
		if err != nil {
			return nil, err
		}
		if done {
			return finish(rec, false), nil
		}
	}
	cut := new(noAnswer)
	s.Engine.ServeHTTP(rec, r.WithContext(context.WithValue(r.Context(), noAnswerKey{}, cut)))
	if f := s.Faults.next(call, After); f != nil {
		if f.Kind == Truncate {
			return finish(rec, true), nil
		}
		broken := httptest.NewRecorder()
		broken.Header().Set("Date", rec.Header().Get("Date"))
		done, err := s.apply(r.Context(), f, broken)
		if err != nil {
			return nil, err
		}
		if done {
			return finish(broken, false), nil
		}
	}
	if cut.asked {
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		return nil, errDropped
	}
	return finish(rec, false), nil
}

func finish(rec *httptest.ResponseRecorder, truncated bool) *answer {
	if rec.Header().Get("Content-Length") == "" {
		rec.Header().Set("Content-Length", strconv.Itoa(rec.Body.Len()))
	}
	return &answer{rec, truncated}
}

// apply carries a fault out; done says that rec holds the whole answer.
func (s *Service) apply(ctx context.Context, f *Fault, rec *httptest.ResponseRecorder) (done bool, err error) {
	switch f.Kind {
	case Delay:
		t := time.NewTimer(f.Delay)
		defer t.Stop()
		select {
		case <-t.C:
			return false, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	case Status:
		s.Engine.Fail(rec, f.Status, f.Code)
		return true, nil
	default:
		return false, errDropped
	}
}

// Handler serves the engine on a socket.
func (s *Service) Handler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ans, err := s.do(r)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		h := w.Header()
		for k, v := range ans.Header() {
			h[k] = v
		}
		w.WriteHeader(ans.Code)
		out := ans.Body.Bytes()
		if r.Method == http.MethodHead {
			return
		}
		if ans.truncated {
			if len(out) == 0 {
				panic(http.ErrAbortHandler)
			}
			_, _ = w.Write(out[:len(out)/2])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		_, _ = w.Write(out)
	})
}

// Transport reaches the engine without a socket.
func (s *Service) Transport() http.RoundTripper { return roundTripper{s} }

type roundTripper struct{ s *Service }

func (t roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := req.Context().Err(); err != nil {
		return nil, err
	}
	r := req.Clone(req.Context())
	if r.Host == "" {
		r.Host = req.URL.Host
	}
	r.RequestURI = req.URL.RequestURI()
	r.RemoteAddr = "127.0.0.1:0"
	ans, err := t.s.do(r)
	if errors.Is(err, errDropped) {
		return nil, io.EOF
	}
	if err != nil {
		return nil, err
	}
	out := ans.Body.Bytes()
	if ans.truncated && len(out) == 0 {
		return nil, io.EOF // half of nothing is a cut connection, as on a socket
	}
	resp := ans.Result()
	resp.Request = req
	if n, err := strconv.ParseInt(ans.Header().Get("Content-Length"), 10, 64); err == nil {
		resp.ContentLength = n
	}
	switch {
	case req.Method == http.MethodHead:
		resp.Body = http.NoBody
	case ans.truncated:
		resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(out[:len(out)/2]), cutReader{}))
	default:
		resp.Body = io.NopCloser(bytes.NewReader(out))
	}
	return resp, nil
}

type cutReader struct{}

func (cutReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// Listener is a stand-in's socket.
type Listener struct {
	URL string // http://127.0.0.1:port
	srv *http.Server
}

// Listen serves h on a free port of 127.0.0.1.
func Listen(h http.Handler) (*Listener, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	go func() { _ = srv.Serve(l) }()
	return &Listener{URL: "http://" + l.Addr().String(), srv: srv}, nil
}

// Close stops the listener and cuts its open connections.
func (l *Listener) Close() error { return l.srv.Close() }
