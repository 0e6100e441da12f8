package targettest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

const byNumber = "/records/by-number/"

// engine is the targets without their network.
type engine struct {
	token string
	state *state
	heard heard
}

// operation says what a request is for: "" where the path does not take the
// method, with what it takes, and "" with nothing where there is no such path.
func operation(method, path string) (op string, allowed []string) {
	ops := map[string]string{}
	switch {
	case path == "/notify":
		ops[http.MethodPost] = "Notify"
	case path == "/robot":
		ops[http.MethodPost] = "Robot"
	case path == "/records":
		ops[http.MethodPost], ops[http.MethodGet] = "CreateRecord", "FindRecord"
	case strings.HasPrefix(path, byNumber):
		ops[http.MethodGet] = "FindRecord"
	}
	for m := range ops {
		allowed = append(allowed, m)
	}
	slices.Sort(allowed)
	return ops[method], allowed
}

func wantedNumber(r *http.Request) string {
	if n, ok := strings.CutPrefix(r.URL.Path, byNumber); ok {
		return n
	}
	return readQuery(r.URL)
}

// Name implements cloudtest.Engine.
func (e *engine) Name(r *http.Request, body []byte) (op, target string) {
	op, _ = operation(r.Method, r.URL.Path)
	switch op {
	case "Notify", "Robot":
		return op, r.Header.Get("Idempotency-Key")
	case "CreateRecord":
		number, _, _ := readBody(body)
		return op, number
	case "FindRecord":
		return op, wantedNumber(r)
	}
	return "Unknown", r.URL.Path
}

// Fail implements cloudtest.Engine.
func (e *engine) Fail(w http.ResponseWriter, status int, code string) {
	writeError(w, status, code, "planned fault")
}

// ServeHTTP implements cloudtest.Engine.
func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		writeError(w, http.StatusBadRequest, "", "unreadable body")
		return
	}
	op, allowed := operation(r.Method, r.URL.Path)
	if op != "" {
		_, target := e.Name(r, body)
		e.heard.add(op, target, r)
	}
	switch {
	case len(allowed) == 0:
		writeError(w, http.StatusNotFound, "", "no such path: "+r.URL.Path)
	case op == "":
		w.Header().Set("Allow", strings.Join(allowed, ", "))
		writeError(w, http.StatusMethodNotAllowed, "method_not_allowed", "only "+strings.Join(allowed, ", "))
	case e.token != "" && r.Header.Get("Authorization") != "Bearer "+e.token:
		w.Header().Set("WWW-Authenticate", "Bearer")
		writeError(w, http.StatusUnauthorized, "", "no valid token for: "+string(body))
	case op == "FindRecord":
		e.find(w, r)
	default:
		e.post(w, r, op, body)
	}
}

func (e *engine) find(w http.ResponseWriter, r *http.Request) {
	number := wantedNumber(r)
	if number == "" {
		writeError(w, http.StatusBadRequest, "", "say one number: "+r.URL.RequestURI())
		return
	}
	found := []foundRecord{}
	for _, rec := range e.state.find(number) {
		found = append(found, foundRecord{rec.ID, rec.Number, rec.Time})
	}
	writeJSON(w, http.StatusOK, map[string][]foundRecord{"records": found})
}

// post carries a call through its script: before the effect, the effect, after it.
func (e *engine) post(w http.ResponseWriter, r *http.Request, op string, body []byte) {
	c, err := readCall(r, body)
	if err == nil && op == "CreateRecord" && c.number == "" {
		err = errors.New("the record has no number")
	}
	if err != nil {
		writeError(w, http.StatusBadRequest, "", err.Error()+": "+string(body))
		return
	}
	script, err := parseDirectives(c.texts)
	if err != nil {
		writeError(w, http.StatusBadRequest, "invalid_directive", err.Error()+": "+string(body))
		return
	}
	d, err := e.next(c, script)
	if err != nil {
		writeError(w, http.StatusInternalServerError, "", err.Error())
		return
	}
	switch {
	case !wait(r.Context(), d.delay) || d.cut:
		cloudtest.NoAnswer(r.Context())
		return
	case d.status != 0:
		if d.retryAfter != "" {
			w.Header().Set("Retry-After", d.retryAfter)
		}
		writeError(w, d.status, d.code, "scripted for: "+string(body))
		return
	}
	e.effect(w, op, c, body)
	if !wait(r.Context(), d.delayAfter) || d.cutAfter {
		cloudtest.NoAnswer(r.Context())
	}
}

// next counts the call and returns what its script has for it.
func (e *engine) next(c call, script []directive) (directive, error) {
	if len(script) == 0 {
		return directive{}, nil
	}
	id := "key " + c.key
	if c.key == "" {
		id = "body " + c.sha
	}
	n, err := e.state.count(digest(c.path + " " + id))
	return pick(script, n), err
}

func (e *engine) effect(w http.ResponseWriter, op string, c call, body []byte) {
	var status int
	var answer any
	var err error
	switch op {
	case "Notify":
		var n Notification
		n, err = e.state.notify(c)
		status, answer = http.StatusOK, map[string]string{"id": n.ID}
	case "Robot":
		err = e.state.send(c)
		status, answer = http.StatusOK, map[string]int{"errcode": 0}
	case "CreateRecord":
		var rec Record
		rec, err = e.state.create(c)
		status, answer = http.StatusCreated, map[string]string{"id": rec.ID, "number": rec.Number}
		if errors.Is(err, errExists) {
			status, answer = http.StatusConflict, errorBody{errorText{"exists", err.Error() + ": " + string(body)}, rec.ID}
			err = nil
		}
	}
	switch {
	case err == nil:
		writeJSON(w, status, answer)
	case errors.Is(err, errKeyReused):
		writeError(w, http.StatusUnprocessableEntity, "idempotency_key_reused", err.Error()+": "+string(body))
	default:
		writeError(w, http.StatusInternalServerError, "", err.Error())
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
