package targettest

import (
	"net/http"
	"slices"
	"sync"
)

// Call is one call that reached a target, whatever came of it.
type Call struct {
	Op          string // Notify, Robot, CreateRecord or FindRecord
	Target      string // as in Faults
	TraceParent string
	TraceState  string
}

// heard is what the callers of this process said. It is not kept on disk.
type heard struct {
	mu    sync.Mutex
	calls []Call
}

func (h *heard) add(op, target string, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calls = append(h.calls, Call{op, target, r.Header.Get("Traceparent"), r.Header.Get("Tracestate")})
}

// Calls returns all calls in order of arrival, look-ups included, as copies.
func (s *Server) Calls() []Call {
	s.engine.heard.mu.Lock()
	defer s.engine.heard.mu.Unlock()
	return slices.Clone(s.engine.heard.calls)
}
