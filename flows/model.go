package flows

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	openai "github.com/sashabaranov/go-openai"

	"github.com/oncegate/oncegate/idempotency"
)

// Model is an OpenAI-compatible chat model. It never retries: the platform's
// redelivery is the one retry loop.
type Model struct {
	name      string
	base      string
	timeout   time.Duration
	client    *openai.Client
	now       func() time.Time
	transport http.RoundTripper
}

// ModelOptions say which model to call and how.
type ModelOptions struct {
	BaseURL   string // ends in /v1
	Name      string
	APIKey    string
	Timeout   time.Duration     // of one call; 0 leaves it to the run's deadline
	Transport http.RoundTripper // nil means http.DefaultTransport
	Now       func() time.Time  // nil means time.Now
}

// NewModel returns a model client; it makes no call.
func NewModel(o ModelOptions) *Model {
	m := &Model{name: o.Name, base: o.BaseURL, timeout: o.Timeout, now: o.Now, transport: o.Transport}
	if m.now == nil {
		m.now = time.Now
	}
	if m.transport == nil {
		m.transport = http.DefaultTransport
	}
	config := openai.DefaultConfig(o.APIKey)
	config.BaseURL = strings.TrimSuffix(o.BaseURL, "/")
	config.HTTPClient = &http.Client{
		Transport:     modelTransport{m.transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	m.client = openai.NewClientWithConfig(config)
	return m
}

// Completion is what a model answered.
type Completion struct {
	Text             string
	Model            string
	FinishReason     string
	PromptTokens     int
	CompletionTokens int
}

// Complete asks once. The error is an *Error whose code follows the provider's
// status and code, never its text.
func (m *Model) Complete(ctx context.Context, requestID, system, user string) (Completion, error) {
	if m.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, m.timeout)
		defer cancel()
	}
	seen := &answer{requestID: requestID}
	resp, err := m.client.CreateChatCompletion(context.WithValue(ctx, answerKey{}, seen), openai.ChatCompletionRequest{
		Model: m.name,
		Messages: []openai.ChatCompletionMessage{
			{Role: openai.ChatMessageRoleSystem, Content: system},
			{Role: openai.ChatMessageRoleUser, Content: user},
		},
	})
	if err != nil || seen.code != "" {
		return Completion{}, m.failure(ctx, seen, err)
	}
	if len(resp.Choices) == 0 {
		return Completion{}, m.fail(idempotency.CodeUnclassified, seen, errors.New("no choices"))
	}
	choice := resp.Choices[0]
	if choice.FinishReason == openai.FinishReasonContentFilter {
		seen.code = "content_filter"
		return Completion{}, m.fail(idempotency.CodePolicyRejected, seen, nil)
	}
	return Completion{
		Text: choice.Message.Content, Model: resp.Model, FinishReason: string(choice.FinishReason),
		PromptTokens: resp.Usage.PromptTokens, CompletionTokens: resp.Usage.CompletionTokens,
	}, nil
}

func (m *Model) failure(ctx context.Context, seen *answer, err error) error {
	switch {
	case errors.Is(err, context.DeadlineExceeded), ctx.Err() != nil:
		return m.fail(idempotency.CodeTimeout, seen, err)
	case seen.status == 0:
		return m.fail(idempotency.CodeTemporaryUnavailable, seen, err)
	default:
		return m.fail(ModelCode(seen.status, seen.code), seen, err)
	}
}

func (m *Model) fail(code idempotency.Code, seen *answer, err error) error {
	f := idempotency.Failure{Code: code, Target: "model:" + m.name, Summary: seen.summary()}
	if code.Class() == idempotency.ClassRetryable {
		f.RetryAfter = retryAfter(seen.retryAfter, m.now())
	}
	return &Error{f, err}
}

// policyCodes are the provider codes of a refusal by content policy.
var policyCodes = map[string]bool{
	"datainspectionfailed": true, "data_inspection_failed": true, "content_filter": true,
	"content_policy_violation": true, "responsible_ai_policy_violation": true,
}

// ModelCode is the code of a model's answer by HTTP status and provider code.
// Sources: the error-code pages of Alibaba Cloud Model Studio and of the OpenAI API.
func ModelCode(status int, provider string) idempotency.Code {
	switch provider = strings.ToLower(provider); {
	case policyCodes[provider]:
		return idempotency.CodePolicyRejected
	case provider == "arrearage":
		return idempotency.CodePermissionDenied
	}
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusPaymentRequired:
		return idempotency.CodePermissionDenied
	case status == http.StatusNotFound:
		return idempotency.CodeTargetNotFound
	case status == http.StatusRequestTimeout:
		return idempotency.CodeTimeout
	case status == http.StatusTooManyRequests:
		return idempotency.CodeRateLimited
	case status == http.StatusConflict:
		return idempotency.CodeTemporaryUnavailable
	case status >= 400 && status < 500:
		return idempotency.CodeInvalidRequest
	case status >= 500:
		return idempotency.CodeTemporaryUnavailable
	default:
		return idempotency.CodeUnclassified
	}
}

// maxRetryAfter keeps a wait within what a duration can hold, in seconds.
const maxRetryAfter = 365 * 24 * 60 * 60

// retryAfter reads the header's two forms, seconds and an HTTP date.
func retryAfter(header string, now time.Time) time.Duration {
	if seconds, err := strconv.Atoi(header); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(max(seconds, 0), maxRetryAfter)) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(at.Sub(now), 0)
	}
	return 0
}

// answer is what the transport notes of one call, which the client library
// does not return.
type answer struct {
	requestID  string // sent
	status     int
	code       string // provider's error code
	providerID string // provider's id of the request
	retryAfter string
}

type answerKey struct{}

func (a *answer) summary() string {
	text := "no answer"
	if a.status != 0 {
		text = "HTTP " + strconv.Itoa(a.status)
	}
	if a.code != "" {
		text += " code " + a.code
	}
	if a.providerID != "" {
		text += " request " + a.providerID
	}
	return text
}

// maxModelAnswer bounds what is read of one answer, in bytes.
const maxModelAnswer = 4 << 20

// modelTransport adds the stable request id and the trace, and notes status, code and
// Retry-After. Error bodies go no further: they may quote the user's text.
type modelTransport struct{ base http.RoundTripper }

func (t modelTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	seen, _ := req.Context().Value(answerKey{}).(*answer)
	if seen == nil {
		return nil, errors.New("call model: no request id")
	}
	req = req.Clone(req.Context())
	req.Header.Set("X-Request-Id", seen.requestID)
	SetTrace(req)
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxModelAnswer+1))
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if len(body) > maxModelAnswer {
		return nil, errors.New("read answer: too large")
	}
	seen.status, seen.retryAfter = resp.StatusCode, resp.Header.Get("Retry-After")
	seen.code, seen.providerID = providerCode(body)
	if id := safeToken(resp.Header.Get("X-Request-Id")); id != "" && id != seen.requestID {
		seen.providerID = id
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// providerCode finds the error code and request id in both shapes that
// OpenAI-compatible services use: {"error":{"code"}} and {"code","request_id"}.
func providerCode(body []byte) (code, id string) {
	var shape struct {
		Error *struct {
			Code any    `json:"code"`
			Type string `json:"type"`
		} `json:"error"`
		Code      any    `json:"code"`
		RequestID string `json:"request_id"`
	}
	if json.Unmarshal(body, &shape) != nil {
		return "", ""
	}
	id = safeToken(shape.RequestID)
	if shape.Error == nil {
		s, _ := shape.Code.(string)
		return safeCode(s), id
	}
	s, _ := shape.Error.Code.(string)
	if s = safeCode(s); s == "" {
		s = safeCode(shape.Error.Type)
	}
	if s == "" {
		s = "error"
	}
	return s, id
}

// safeCode keeps what is shaped like a code and holds no number of a person:
// seven digits in a row are no part of a code.
func safeCode(s string) string {
	run := 0
	for _, r := range s {
		if run++; r < '0' || r > '9' {
			run = 0
		}
		if run > 6 {
			return ""
		}
	}
	return safeToken(s)
}

// safeToken keeps what is shaped like a code or an id: at most 64 letters,
// digits, dots, dashes and underscores, and no long run of digits alone.
func safeToken(s string) string {
	if len(s) > 64 {
		return ""
	}
	letters := false
	for _, r := range s {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r == '-', r == '_', r == '.':
			letters = true
		case r >= '0' && r <= '9':
		default:
			return ""
		}
	}
	if !letters && len(s) > 6 {
		return ""
	}
	return s
}
