package targettest

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// call is what the targets read of a POST.
type call struct {
	path   string
	key    string   // empty: none
	sha    string   // hex, of the body
	number string   // the top-level member, where it is a string
	texts  []string // all string values, in order
}

func readCall(r *http.Request, body []byte) (call, error) {
	c := call{path: r.URL.Path, sha: digest(string(body))}
	var err error
	if c.key, err = readKey(r.Header); err != nil {
		return c, err
	}
	c.number, c.texts, err = readBody(body)
	return c, err
}

// readKey refuses what could be read as another key, or as none, by another reader.
func readKey(h http.Header) (string, error) {
	keys := h.Values("Idempotency-Key")
	switch {
	case len(keys) == 0:
		return "", nil
	case len(keys) > 1:
		return "", errors.New("more than one Idempotency-Key")
	case len(keys[0]) > 255:
		return "", errors.New("the Idempotency-Key is longer than 255 characters")
	}
	for _, c := range []byte(keys[0]) {
		if c <= ' ' || c > '~' {
			return "", errors.New("the Idempotency-Key is not visible ASCII")
		}
	}
	return keys[0], nil
}

// readBody takes exactly one JSON object; duplicate names and invalid UTF-8
// are errors.
func readBody(body []byte) (number string, texts []string, err error) {
	d := jsontext.NewDecoder(bytes.NewReader(body))
	if d.PeekKind() != '{' {
		return "", nil, errors.New("the body is no JSON object")
	}
	var name string
	for {
		tok, err := d.ReadToken()
		if err != nil {
			return "", nil, errors.New("the body is no valid JSON")
		}
		depth := d.StackDepth()
		if depth == 0 {
			break
		}
		if tok.Kind() != '"' {
			continue
		}
		text := tok.String()
		// In an object the names have odd places and their values even ones.
		if kind, length := d.StackIndex(depth); kind == '{' && length%2 == 1 {
			name = text
			continue
		}
		if depth == 1 && name == "number" {
			number = text
		}
		texts = append(texts, text)
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return "", nil, errors.New("the body is more than one JSON value")
	}
	return number, texts, nil
}

// readQuery returns the number of GET /records, empty where there is not
// exactly one.
func readQuery(u *url.URL) string {
	values, err := url.ParseQuery(u.RawQuery)
	if err != nil || len(values["number"]) != 1 {
		return ""
	}
	return values.Get("number")
}

type errorBody struct {
	Error errorText `json:"error"`
	ID    string    `json:"id,omitempty"` // of the record that is in the way
}

type errorText struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type foundRecord struct {
	ID        string    `json:"id"`
	Number    string    `json:"number"`
	CreatedAt time.Time `json:"created_at"`
}

// writeError answers in the targets' error format; an empty code means the
// usual one of the status.
func writeError(w http.ResponseWriter, status int, code, text string) {
	if code == "" {
		code = codeOf(status)
	}
	writeJSON(w, status, errorBody{Error: errorText{code, text}})
}

func codeOf(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "invalid_request"
	case http.StatusUnauthorized:
		return "unauthorized"
	case http.StatusForbidden:
		return "forbidden"
	case http.StatusNotFound:
		return "not_found"
	case http.StatusConflict:
		return "conflict"
	case http.StatusTooManyRequests:
		return "rate_limited"
	case http.StatusServiceUnavailable:
		return "unavailable"
	}
	if status < 500 {
		return "refused"
	}
	return "internal_error"
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	_ = out.Encode(v)
}

func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}
