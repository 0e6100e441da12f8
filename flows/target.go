package flows

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/oncegate/oncegate/idempotency"
)

// Target is a system that effects send to.
type Target struct {
	Name  string // notify, robot, records: names the target of failures
	URL   string // "" where the deployment has none
	Token string // bearer token, may be empty
}

var (
	_ = registerEffect("notify", func(t Tools) Effect { return webhook{t, t.Notify, true} })
	_ = registerEffect("robot", func(t Tools) Effect { return webhook{t, t.Robot, false} })
	_ = registerEffect("record.create", func(t Tools) Effect { return records{t, t.Records} })
)

// maxTargetAnswer bounds what is read of one answer, in bytes.
const maxTargetAnswer = 1 << 20

// maxRecordID is the length of a target's record number, in bytes.
const maxRecordID = 64

// ErrSeveral says that a target shows more than one record of one number: a side
// effect has happened twice, and a person has to look.
var ErrSeveral = errors.New("the target shows several records of one number")

// errLost says that nobody knows whether the target has done it.
var errLost = errors.New("the target's answer was lost")

type targetAnswer struct {
	status int
	header http.Header
	body   []byte
}

// call sends one request. The error is a *Error where the target was not
// reached at all, and wraps errLost where it may have been.
func (t Target) call(ctx context.Context, tools Tools, method, path, key string, body any) (targetAnswer, error) {
	target := "effect:" + t.Name
	if t.URL == "" {
		return targetAnswer{}, &Error{Failure: idempotency.Failure{Code: idempotency.CodeTargetNotFound, Target: target, Summary: "no URL is configured"}}
	}
	var payload io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			return targetAnswer{}, &Error{Failure: idempotency.Failure{Code: idempotency.CodeInvalidRequest, Target: target, Summary: "the request cannot be encoded"}, Err: err}
		}
		payload = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(t.URL, "/")+path, payload)
	if err != nil {
		return targetAnswer{}, &Error{Failure: idempotency.Failure{Code: idempotency.CodeInvalidRequest, Target: target, Summary: "the URL cannot be used"}, Err: err}
	}
	// net/http itself resends a POST with this header on a cut connection, unless
	// it cannot get the body again.
	req.GetBody = nil
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	if t.Token != "" {
		req.Header.Set("Authorization", "Bearer "+t.Token)
	}
	SetTrace(req)
	client := http.Client{Transport: tools.transport(), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return targetAnswer{}, fmt.Errorf("%w: %w", errLost, err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxTargetAnswer))
	if err != nil {
		return targetAnswer{}, fmt.Errorf("%w: %w", errLost, err)
	}
	return targetAnswer{resp.StatusCode, resp.Header, raw}, nil
}

func (t Tools) transport() http.RoundTripper {
	if t.Transport == nil {
		return http.DefaultTransport
	}
	return t.Transport
}

// refusal is what an answer other than success means: a definite no below 500,
// and a lost answer from there on, since a gateway may say it for a target that
// has done its work.
func (t Target) refusal(a targetAnswer, now time.Time) error {
	if a.status < 400 || a.status >= 500 || a.status == http.StatusRequestTimeout {
		return fmt.Errorf("%w: HTTP %d", errLost, a.status)
	}
	f := idempotency.Failure{Code: ModelCode(a.status, ""), Target: "effect:" + t.Name, Summary: fmt.Sprintf("HTTP %d", a.status)}
	if code, _ := providerCode(a.body); code != "" && code != "error" {
		f.Summary += " code " + code
	}
	if f.Code.Class() == idempotency.ClassRetryable {
		f.RetryAfter = retryAfter(a.header.Get("Retry-After"), now)
	}
	return &Error{Failure: f}
}

// webhook posts a notice. With keyed it sends the effect key, and the target
// does once what comes twice; without, a group robot, every request is a message.
type webhook struct {
	tools  Tools
	target Target
	keyed  bool
}

func (w webhook) Send(ctx context.Context, c EffectCall) (string, error) {
	key := ""
	if w.keyed {
		key = c.Key
	}
	answer, err := w.target.call(ctx, w.tools, http.MethodPost, "", key, map[string]any{
		"effect": c.Name, "task": c.TaskKey, "fields": c.Fields, "result": json.RawMessage(c.Output),
	})
	if err != nil {
		return "", err
	}
	if answer.status < 200 || answer.status > 299 {
		return "", w.target.refusal(answer, w.tools.now())
	}
	return idOf(answer.body), nil
}

// records creates a record in a target system: POST with the key, 409 where the
// business number is taken, GET by number.
type records struct {
	tools  Tools
	target Target
}

func (records) Needs() []string { return []string{"number"} }

func (r records) Send(ctx context.Context, c EffectCall) (string, error) {
	body := map[string]any{"number": c.Fields["number"], "data": c.Payload}
	answer, err := r.target.call(ctx, r.tools, http.MethodPost, "", c.Key, body)
	switch {
	case err != nil:
		return "", err
	case answer.status == http.StatusConflict:
		id := idOf(answer.body)
		if id == "" {
			// It is there, and only a look-up tells its number.
			found, ok, err := r.Find(ctx, c)
			if err != nil || !ok {
				return "", fmt.Errorf("%w: the target says that it has the number, and does not show it", errLost)
			}
			id = found
		}
		return "", &Exists{id}
	case answer.status < 200 || answer.status > 299:
		return "", r.target.refusal(answer, r.tools.now())
	}
	return idOf(answer.body), nil
}

func (r records) Find(ctx context.Context, c EffectCall) (string, bool, error) {
	answer, err := r.target.call(ctx, r.tools, http.MethodGet, "?number="+url.QueryEscape(c.Fields["number"]), "", nil)
	if err != nil {
		return "", false, err
	}
	var list struct {
		Records []json.RawMessage `json:"records"`
	}
	if answer.status != http.StatusOK || json.Unmarshal(answer.body, &list) != nil {
		return "", false, fmt.Errorf("look up: HTTP %d", answer.status)
	}
	if len(list.Records) == 0 {
		return "", false, nil
	}
	if len(list.Records) > 1 {
		return "", false, ErrSeveral
	}
	return idOf(list.Records[0]), true, nil
}

// idOf reads the number that a target gives, a text or an integer, "" where it
// gives none that can be kept.
func idOf(body []byte) string {
	var shape struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(body, &shape) != nil {
		return ""
	}
	var id string
	if json.Unmarshal(shape.ID, &id) != nil {
		id = string(shape.ID)
	}
	if len(id) > maxRecordID || id == "null" {
		return ""
	}
	for _, r := range id {
		if (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_' && r != '.' {
			return ""
		}
	}
	return id
}
