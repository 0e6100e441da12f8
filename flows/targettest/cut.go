package targettest

import (
	"context"
	"io"
	"net/http"
)

// cut lets the engine ask for what a handler cannot do on a recorder: no
// answer. It travels in the request's context, past the faults After.
type cut struct{ asked bool }

type cutKey struct{}

func withCut(r *http.Request) (*http.Request, *cut) {
	c := &cut{}
	return r.WithContext(context.WithValue(r.Context(), cutKey{}, c)), c
}

// askCut is for requests that came through handler or Transport: all of them.
func askCut(ctx context.Context) { ctx.Value(cutKey{}).(*cut).asked = true }

func (s *Server) handler() http.Handler {
	inner := s.service.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r, c := withCut(r)
		inner.ServeHTTP(cutWriter{w, c}, r)
	})
}

type cutWriter struct {
	http.ResponseWriter
	cut *cut
}

func (w cutWriter) WriteHeader(status int) {
	if w.cut.asked {
		panic(http.ErrAbortHandler)
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController find the flusher.
func (w cutWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// Transport reaches the server without a socket, whatever the URL's host, also
// under testing/synctest.
func (s *Server) Transport() http.RoundTripper { return transport{s.service.Transport()} }

type transport struct{ inner http.RoundTripper }

func (t transport) RoundTrip(req *http.Request) (*http.Response, error) {
	r, c := withCut(req)
	resp, err := t.inner.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if c.asked {
		resp.Body.Close()
		if err := req.Context().Err(); err != nil {
			return nil, err
		}
		return nil, io.EOF
	}
	resp.Request = req
	return resp, nil
}
