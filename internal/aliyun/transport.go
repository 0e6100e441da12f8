package aliyun

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// maxAnswer bounds what is read of one Tablestore answer, in bytes.
const maxAnswer = 64 << 20

// tlsSessions is how many hosts a process remembers a TLS session of: a
// connection that comes back after a pause then takes one round trip less.
const tlsSessions = 16

// NewTransport returns the one transport that all clients of a process share.
// idle is how many warm connections each host may keep.
func NewTransport(idle int) *http.Transport {
	return &http.Transport{
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		MaxIdleConnsPerHost:   idle,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12, ClientSessionCache: tls.NewLRUClientSessionCache(tlsSessions)},
		IdleConnTimeout:       55 * time.Second,
		TLSHandshakeTimeout:   5 * time.Second,
		ExpectContinueTimeout: time.Second,
	}
}

// Skew watches how far this machine's clock is from the services' Date headers.
// The zero value is ready.
type Skew struct {
	latest atomic.Int64
	seen   atomic.Bool
}

// Seen reports whether any service has said what time it is.
func (s *Skew) Seen() bool { return s.seen.Load() }

// Value is the last seen distance: positive where this machine is ahead. A Date
// has whole seconds, so a distance inside that uncertainty counts as zero.
func (s *Skew) Value() time.Duration { return time.Duration(s.latest.Load()) }

func (s *Skew) observe(sent, answered time.Time, date string) {
	served, err := http.ParseTime(date)
	if err != nil {
		return
	}
	s.seen.Store(true)
	switch last := served.Add(time.Second); {
	case sent.After(last):
		s.latest.Store(int64(sent.Sub(last)))
	case answered.Before(served):
		s.latest.Store(int64(answered.Sub(served)))
	default:
		s.latest.Store(0)
	}
}

// emptyAnswers are the actions whose answer is a message without fields: for
// them an empty body is a whole answer, for all others a lost one.
var emptyAnswers = map[string]bool{"/CreateTable": true, "/DeleteTable": true}

var (
	errEmptyAnswer = errors.New("the service answered 200 without a body")
	errBigAnswer   = fmt.Errorf("the service answered more than %d bytes", maxAnswer)
)

// expired is what a call ends with once its context is over. It is neither
// Temporary nor a Timeout, so that no SDK goes on retrying behind it.
type expired struct{ cause error }

func (e expired) Error() string { return "call ended by its context: " + e.cause.Error() }
func (e expired) Unwrap() error { return e.cause }

// bound carries a context, which the Tablestore SDK does not take, to the
// shared transport, and shields the SDK from answers that make it panic.
type bound struct {
	ctx  context.Context
	base http.RoundTripper
	now  func() time.Time
	skew *Skew
}

func (b bound) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := b.ctx.Err(); err != nil {
		return nil, expired{err}
	}
	sent := b.now()
	resp, err := b.base.RoundTrip(req.WithContext(b.ctx))
	if err != nil {
		return nil, b.explain(err)
	}
	defer resp.Body.Close()
	b.skew.observe(sent, b.now(), resp.Header.Get("Date"))
	body, err := readAll(resp)
	switch {
	case err != nil:
		return nil, b.explain(err)
	case len(body) > maxAnswer:
		return nil, errBigAnswer
	case len(body) == 0 && resp.StatusCode < 300 && !emptyAnswers[req.URL.Path]:
		return nil, errEmptyAnswer
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	// The SDK's HTTP client would send the call again, token included, to
	// wherever a redirect points; it follows none without this header.
	resp.Header.Del("Location")
	return resp, nil
}

// readAll reads an answer, at most a byte more than is allowed, into a buffer of
// its announced size.
func readAll(resp *http.Response) ([]byte, error) {
	var body bytes.Buffer
	if n := resp.ContentLength; n > 0 && n <= maxAnswer {
		body.Grow(int(n) + bytes.MinRead)
	}
	_, err := body.ReadFrom(io.LimitReader(resp.Body, maxAnswer+1))
	return body.Bytes(), err
}

func (b bound) explain(err error) error {
	if cause := b.ctx.Err(); cause != nil {
		return expired{cause}
	}
	return err
}

// watched is the transport of the OSS client, which honours contexts itself.
type watched struct {
	base http.RoundTripper
	now  func() time.Time
	skew *Skew
}

func (w watched) RoundTrip(req *http.Request) (*http.Response, error) {
	sent := w.now()
	resp, err := w.base.RoundTrip(req)
	if err == nil {
		w.skew.observe(sent, w.now(), resp.Header.Get("Date"))
	}
	return resp, err
}
