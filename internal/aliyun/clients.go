// Package aliyun is the only room that knows the cloud SDKs: it reads the
// configuration from the environment, builds clients for the credentials of the
// running invocation, and keeps every quirk of the SDKs to itself.
//
// Both SDKs are used without retries of their own. There is one retry loop, the
// platform's: a write that the SDK sends twice behind its caller's back makes
// its own success look like somebody else's claim.
package aliyun

import (
	"context"
	"errors"
	"net/http"
	"time"
)

// Credentials of one invocation. They rotate: never keep them.
type Credentials struct {
	AccessKeyID     string
	AccessKeySecret string
	SecurityToken   string
}

// String hides the secret parts should a credential ever reach a log.
func (c Credentials) String() string { return "credentials " + c.AccessKeyID }

// GoString hides the secret parts from %#v.
func (c Credentials) GoString() string { return c.String() }

// MarshalText hides the secret parts from JSON, which structured logs use.
func (c Credentials) MarshalText() ([]byte, error) { return []byte(c.String()), nil }

// Options are what every client of a process shares.
type Options struct {
	// Credentials returns those of the invocation that ctx belongs to. Required.
	Credentials func(ctx context.Context) (Credentials, error)
	// Transport carries Tablestore's calls, OSSTransport those of OSS; nil
	// means one shared NewTransport(64).
	Transport    http.RoundTripper
	OSSTransport http.RoundTripper
	Now          func() time.Time // nil means time.Now
	// Skew receives what the services' clocks say; nil means nobody watches.
	Skew *Skew
}

var errNoCredentials = errors.New("build client: no source of credentials")

func (o Options) withDefaults() (Options, error) {
	if o.Credentials == nil {
		return o, errNoCredentials
	}
	if o.Transport == nil {
		o.Transport = NewTransport(64)
	}
	if o.OSSTransport == nil {
		o.OSSTransport = o.Transport
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Skew == nil {
		o.Skew = new(Skew)
	}
	return o, nil
}
