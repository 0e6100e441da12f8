package aliyun

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxOpenAPIAnswer bounds what is read of one answer, in bytes: FC's own limit
// of a synchronous result.
const maxOpenAPIAnswer = 32 << 20

// openAPI makes signed calls of one endpoint, each of them once.
type openAPI struct {
	service, version, endpoint string
	o                          Options
	http                       *http.Client
	// sign is the last that touches a request.
	sign func(req *http.Request, op string, body []byte, c Credentials, now time.Time, nonce string)
}

func newOpenAPI(service, version, endpoint string, o Options) (*openAPI, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	a := &openAPI{service: service, version: version, endpoint: strings.TrimRight(endpoint, "/"), o: o, http: &http.Client{
		Transport:     watched{o.Transport, o.Now, o.Skew},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	a.sign = a.signACS3
	return a, nil
}

// signACS3 signs as the services of OpenAPI want it.
func (a *openAPI) signACS3(req *http.Request, op string, body []byte, c Credentials, now time.Time, nonce string) {
	req.Header.Set("x-acs-action", op)
	req.Header.Set("x-acs-version", a.version)
	req.Header.Set("x-acs-date", now.UTC().Format("2006-01-02T15:04:05Z"))
	req.Header.Set("x-acs-signature-nonce", nonce)
	signACS3(req, body, c)
}

// answer is what the service said.
type answer struct {
	header http.Header
	body   []byte
}

// call posts body once. An error is an *Error unless there are no credentials.
func (a *openAPI) call(ctx context.Context, op, resource, path, contentType string, body []byte, timeout time.Duration) (answer, error) {
	return a.send(ctx, http.MethodPost, op, resource, path, contentType, body, timeout)
}

func (a *openAPI) send(ctx context.Context, method, op, resource, path, contentType string, body []byte, timeout time.Duration) (answer, error) {
	creds, err := a.o.Credentials(ctx)
	if err != nil {
		return answer{}, fmt.Errorf("call %s %s: %w", a.service, op, err)
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, a.endpoint+path, bytes.NewReader(body))
	if err != nil {
		return answer{}, fmt.Errorf("call %s %s: the endpoint is no URL", a.service, op)
	}
	// Nothing below may send the call again: no body to rewind, and no warm
	// connection whose end would leave open whether the call had left.
	req.GetBody, req.Close = nil, true
	var nonce [16]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return answer{}, fmt.Errorf("call %s %s: %w", a.service, op, err)
	}
	req.Header.Set("Accept", "application/json")
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	a.sign(req, op, body, creds, a.o.Now(), hex.EncodeToString(nonce[:]))

	failed := &Error{Service: a.service, Op: op, Resource: resource, Kind: KindUnknown}
	resp, err := a.http.Do(req)
	if err != nil {
		failed.Code, failed.err = noConnection(err), withoutURL(err)
		return answer{}, failed
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxOpenAPIAnswer+1))
	failed.Status, failed.RequestID = resp.StatusCode, safeToken(resp.Header.Get("X-Fc-Request-Id"))
	switch {
	case err != nil:
		failed.err = err
	case len(raw) > maxOpenAPIAnswer:
		failed.err = fmt.Errorf("the service answered more than %d bytes", maxOpenAPIAnswer)
	case resp.StatusCode == http.StatusOK:
		return answer{resp.Header, raw}, nil
	default:
		failed.classify(raw)
		failed.RetryAfter = retryAfter(resp.Header.Get("Retry-After"), a.o.Now())
	}
	return answer{}, failed
}

// withoutURL drops what net/http puts around an error, which names the address.
func withoutURL(err error) error {
	for {
		inner := errors.Unwrap(err)
		if _, ok := err.(interface{ Timeout() bool }); !ok || inner == nil {
			return err
		}
		err = inner
	}
}

// classify reads an answer other than 200. A refusal counts as one where the
// service gave its code or the status can mean nothing else.
func (e *Error) classify(body []byte) {
	var wire struct{ Code, ErrorCode, RequestID string }
	if json.Unmarshal(body, &wire) == nil {
		e.Code = safeToken(wire.Code)
		if e.Code == "" {
			e.Code = safeToken(wire.ErrorCode)
		}
		if e.RequestID == "" {
			e.RequestID = safeToken(wire.RequestID)
		}
	}
	switch {
	case e.Status == http.StatusTooManyRequests, e.Status < 500 && strings.HasPrefix(e.Code, "Throttling"):
		e.Kind = KindThrottled
	case e.Status == http.StatusUnauthorized, e.Status == http.StatusForbidden,
		e.Status < 500 && (strings.HasPrefix(e.Code, "InvalidAccessKeyId") || strings.HasPrefix(e.Code, "InvalidSecurityToken") ||
			e.Code == "SignatureDoesNotMatch"):
		e.Kind = KindDenied
	case e.Status == http.StatusNotFound:
		e.Kind = KindNotFound
	case e.Status >= 400 && e.Status < 500 && e.Status != http.StatusRequestTimeout && e.Code != "":
		e.Kind = KindInvalid
	}
}

// retryAfter reads seconds or a date, 0 for anything else and for the past.
func retryAfter(s string, now time.Time) time.Duration {
	if n, err := strconv.ParseInt(s, 10, 32); err == nil {
		return max(0, time.Duration(n)*time.Second)
	}
	if at, err := http.ParseTime(s); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
