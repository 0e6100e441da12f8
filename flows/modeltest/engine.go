package modeltest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

// Request is one chat completion call that reached the server.
type Request struct {
	Number        int    // 1 for the first call
	RequestID     string // the caller's X-Request-Id
	Model         string
	ContentSHA256 string // hex, of the user messages' text; empty if unreadable
	Time          time.Time
	Status        int // as answered; 0 while open, where cut, and where the caller left
	TraceParent   string
	TraceState    string
}

// Requests returns all calls in order of arrival, as copies.
func (s *Server) Requests() []Request {
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	return slices.Clone(s.engine.requests)
}

// Calls returns how many chat completion calls the service saw, refused ones
// included; one that a fault kept from the service is not among them.
func (s *Server) Calls() int {
	s.engine.mu.Lock()
	defer s.engine.mu.Unlock()
	return len(s.engine.requests)
}

// engine is the service without its network.
type engine struct {
	opt Options

	mu       sync.Mutex
	requests []Request
	seen     map[string]int // calls by content
}

func isChat(path string) bool {
	return path == "/v1/chat/completions" || path == "/compatible-mode/v1/chat/completions"
}

// modelOf reads what a look-up asks for: one model, or the list of all.
func modelOf(path string) (name string, ok bool) {
	for _, base := range []string{"/v1/models", "/compatible-mode/v1/models"} {
		if path == base {
			return "", true
		}
		if name, ok := strings.CutPrefix(path, base+"/"); ok && name != "" {
			return name, true
		}
	}
	return "", false
}

// Name implements cloudtest.Engine.
func (e *engine) Name(r *http.Request, _ []byte) (op, target string) {
	if r.Method == http.MethodPost && isChat(r.URL.Path) {
		return "ChatCompletion", r.Header.Get("X-Request-Id")
	}
	if name, ok := modelOf(r.URL.Path); ok && r.Method == http.MethodGet {
		if name == "" {
			return "ListModels", ""
		}
		return "GetModel", name
	}
	return "Unknown", r.URL.Path
}

// Fail implements cloudtest.Engine.
func (e *engine) Fail(w http.ResponseWriter, status int, code string) {
	writeError(w, status, code, "planned fault", "req-fault")
}

// ServeHTTP implements cloudtest.Engine.
func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if name, ok := modelOf(r.URL.Path); ok && r.Method == http.MethodGet {
		e.lookUp(w, r, name)
		return
	}
	if !isChat(r.URL.Path) {
		writeError(w, http.StatusNotFound, "not_found", "no such path: "+r.URL.Path, "req-none")
		return
	}
	if r.Method != http.MethodPost {
		w.Header().Set("Allow", http.MethodPost)
		writeError(w, http.StatusMethodNotAllowed, "method_not_allowed", "only POST", "req-none")
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		writeError(w, http.StatusBadRequest, "invalid_request", "unreadable body", "req-none")
		return
	}
	in, err := parseChat(body)
	number := e.arrive(r, in)
	status := &statusWriter{ResponseWriter: w}
	e.answer(status, r, in, err, number)
	e.leave(number, status.status)
}

// accepted reports whether a call carries a key that the server knows.
func (e *engine) accepted(r *http.Request) bool {
	key, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return bearer && key != "" && (e.opt.APIKey == "" || key == e.opt.APIKey)
}

// lookUp answers GET /models and GET /models/NAME. Every model is there but those
// named missing-*; the list has those that Options names.
func (e *engine) lookUp(w http.ResponseWriter, r *http.Request, name string) {
	type entry struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		OwnedBy string `json:"owned_by"`
	}
	switch {
	case !e.accepted(r):
		writeError(w, http.StatusUnauthorized, "", "incorrect API key", "req-models")
	case name == "":
		all := []entry{}
		for _, m := range e.opt.Models {
			all = append(all, entry{m, "model", "modeltest"})
		}
		writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": all})
	case e.opt.NoModelLookUp:
		writeError(w, http.StatusNotFound, "not_found", "no such path: "+r.URL.Path, "req-none")
	case strings.HasPrefix(name, "missing-"):
		writeError(w, http.StatusNotFound, "model_not_found", "the model "+name+" does not exist", "req-models")
	default:
		writeJSON(w, http.StatusOK, entry{name, "model", "modeltest"})
	}
}

func (e *engine) arrive(r *http.Request, in chat) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests = append(e.requests, Request{
		Number: len(e.requests) + 1, RequestID: r.Header.Get("X-Request-Id"),
		Model: in.Model, ContentSHA256: in.digest(), Time: e.opt.Now(),
		TraceParent: r.Header.Get("Traceparent"), TraceState: r.Header.Get("Tracestate"),
	})
	return len(e.requests)
}

func (e *engine) leave(number, status int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests[number-1].Status = status
}

// next counts the call and returns what the script has for it.
func (e *engine) next(in chat, script []directive) directive {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := e.seen[in.content]
	e.seen[in.content]++
	return pick(script, n)
}

func (e *engine) answer(w http.ResponseWriter, r *http.Request, in chat, invalid error, number int) {
	requestID := fmt.Sprintf("req-%06d", number)
	w.Header().Set("X-Request-Id", requestID)
	script, text, err := parseDirectives(in.content)
	switch {
	case !e.accepted(r):
		writeError(w, http.StatusUnauthorized, "", "incorrect API key for: "+in.content, requestID)
		return
	case invalid != nil:
		writeError(w, http.StatusBadRequest, "", invalid.Error(), requestID)
		return
	case strings.HasPrefix(in.Model, "missing-"):
		writeError(w, http.StatusNotFound, "", "the model "+in.Model+" does not exist, asked: "+in.content, requestID)
		return
	case err != nil:
		writeError(w, http.StatusBadRequest, "invalid_directive", err.Error(), requestID)
		return
	}
	d := e.next(in, script)
	if !wait(r.Context(), d.delay) {
		d.act = actCut
	}
	switch d.act {
	case actCut:
		cloudtest.NoAnswer(r.Context())
		return
	case actStatus:
		if d.retryAfter != "" {
			w.Header().Set("Retry-After", d.retryAfter)
		}
		writeError(w, d.status, d.code, "scripted for: "+in.content, requestID)
	case actGarbage:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusOK)
		_, _ = io.WriteString(w, "<html><body>gateway page for "+html.EscapeString(in.content)+"</body></html>")
	case actEmpty:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusOK)
	case actError200:
		writeErrorAs(w, http.StatusOK, d.code, "scripted for: "+in.content, requestID)
	default:
		writeJSON(w, http.StatusOK, complete(in, text, d, number, e.opt.Now()))
	}
}

// wait holds a call; false says that the caller left.
func wait(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

type statusWriter struct {
	http.ResponseWriter
	status int
}

func (w *statusWriter) WriteHeader(status int) {
	w.status = status
	w.ResponseWriter.WriteHeader(status)
}

func digest(content string) string {
	sum := sha256.Sum256([]byte(content))
	return hex.EncodeToString(sum[:])
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v)
}
