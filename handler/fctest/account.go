package fctest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

// FrontOptions describe a Front. Only Credentials is required.
type FrontOptions struct {
	Credentials *cloudtest.Credentials
	Now         func() time.Time // nil means time.Now
	RetryAfter  time.Duration    // sent with a planned 429 in whole seconds; 0: not sent
}

// Front is the endpoint of an account: it checks signatures (ACS3-HMAC-SHA256)
// and policies, hands an invocation to the version that its qualifier names, and
// answers what GetFunction, GetAlias and ListFunctionVersions ask. Beside what Handler refuses with:
//
//	400 MissingRequiredHeader   not signed, or no date that can be used
//	403 InvalidAccessKeyID, SignatureNotMatch, AccessDenied
//
// Codes are those of FC's list (https://www.alibabacloud.com/help/doc-detail/154973.htm),
// which says nothing of tokens and repeated nonces: here a wrong or expired token
// is InvalidSecurityToken, a repeated call SignatureNonceUsed. The resource that a
// policy must allow is that of the function (acs:fc:<region>:<account>:functions/f)
// without a qualifier and functions/f/<qualifier> with one; whether the service
// looks at the qualifier is not documented.
type Front struct {
	// Faults plans disturbances. The target of InvokeFunction is "name/qualifier",
	// LATEST for none; that of GetAlias, GetFunction and ListFunctionVersions is
	// the path.
	Faults *cloudtest.Faults

	gate     cloudtest.OpenAPI
	wait     time.Duration
	service  *cloudtest.Service
	listener *cloudtest.Listener

	mu      sync.Mutex
	deploys map[string]*Function // by "name/version"
	aliases map[string]string    // "name/alias" -> version

	overlay  map[string]map[string]string // of Redeploy, by function
	timeouts map[string]time.Duration
}

// NewFront returns an endpoint without a function.
func NewFront(o FrontOptions) (*Front, error) {
	if o.Credentials == nil {
		return nil, errors.New("function front needs credentials")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	f := &Front{
		Faults: new(cloudtest.Faults), gate: cloudtest.OpenAPI{Credentials: o.Credentials, Now: o.Now}, wait: o.RetryAfter,
		deploys: map[string]*Function{}, aliases: map[string]string{}, overlay: map[string]map[string]string{}, timeouts: map[string]time.Duration{},
	}
	f.service = &cloudtest.Service{Name: "fc", Engine: frontEngine{f}, Faults: f.Faults, Now: o.Now}
	return f, nil
}

// Deploy makes a function reachable under its name with its version
// (Options.VersionID) and with Options.Qualifier, a version or an alias. The
// caller still owns and closes the function.
func (f *Front) Deploy(fn *Function) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := fn.o
	f.deploys[o.FunctionName+"/"+o.VersionID] = fn
	if isVersion(o.Qualifier) {
		f.deploys[o.FunctionName+"/"+o.Qualifier] = fn
	} else {
		f.aliases[o.FunctionName+"/"+o.Qualifier] = o.VersionID
	}
}

// Alias points an alias of a function at a version that was deployed.
func (f *Front) Alias(function, alias, version string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.deploys[function+"/"+version] == nil {
		return fmt.Errorf("point alias %s: version %s of function %s was not deployed", alias, version, function)
	}
	if isVersion(alias) {
		return fmt.Errorf("point alias: %q is a version", alias)
	}
	f.aliases[function+"/"+alias] = version
	return nil
}

// Remove takes a version away, as a deleted one is.
func (f *Front) Remove(function, version string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.deploys, function+"/"+version)
}

// isVersion tells versions from aliases: an alias does not begin with a digit.
func isVersion(qualifier string) bool {
	_, err := strconv.ParseUint(qualifier, 10, 64)
	return err == nil || qualifier == "LATEST"
}

// Handler serves the endpoint. Faults do not reach it, those of Start and Transport do.
func (f *Front) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /2023-03-30/functions/{name}/invocations", f.serve)
	mux.HandleFunc("GET /2023-03-30/functions/{name}/aliases/{alias}", f.serveAlias)
	mux.HandleFunc("GET /2023-03-30/functions/{name}", f.serveFunction)
	mux.HandleFunc("GET /2023-03-30/functions/{name}/versions", f.serveVersions)
	return mux
}

// Transport reaches the endpoint without a socket.
func (f *Front) Transport() http.RoundTripper { return f.service.Transport() }

// Start listens on a free port of 127.0.0.1.
func (f *Front) Start() error {
	if f.listener != nil {
		return errors.New("function front listens already")
	}
	l, err := cloudtest.Listen(f.service.Handler())
	if err != nil {
		return fmt.Errorf("listen for function front: %w", err)
	}
	f.listener = l
	return nil
}

// Endpoint is http://127.0.0.1:port, "" before Start.
func (f *Front) Endpoint() string {
	if f.listener == nil {
		return ""
	}
	return f.listener.URL
}

// Close stops the listener and leaves the functions to their owner.
func (f *Front) Close() error {
	if f.listener == nil {
		return nil
	}
	return f.listener.Close()
}

func (f *Front) serve(w http.ResponseWriter, r *http.Request) {
	name, qualifier := r.PathValue("name"), r.URL.Query().Get("qualifier")
	resource := name
	if qualifier != "" {
		resource += "/" + qualifier
	}
	id, body, ok := f.admit(w, r, "InvokeFunction", resource)
	if !ok {
		return
	}
	fn, err := f.find(name, qualifier)
	if err != nil {
		refuse(w, id, err)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	fn.answer(w, r, id)
}

// serveAlias answers GetAlias.
func (f *Front) serveAlias(w http.ResponseWriter, r *http.Request) {
	name, alias := r.PathValue("name"), r.PathValue("alias")
	id, _, ok := f.admit(w, r, "GetAlias", name+"/aliases/"+alias)
	if !ok {
		return
	}
	f.mu.Lock()
	version, known := f.aliases[name+"/"+alias]
	f.mu.Unlock()
	if !known {
		_, err := f.find(name, alias)
		refuse(w, id, err)
		return
	}
	body, _ := json.Marshal(map[string]any{"aliasName": alias, "versionId": version, "description": "", "additionalVersionWeight": map[string]float64{}})
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(body)
}

// admit reads a request and asks whether its caller may make it; ok is false where
// the answer is written already.
func (f *Front) admit(w http.ResponseWriter, r *http.Request, action, resource string) (id string, body []byte, ok bool) {
	id = newRequestID(f.gate.Now())
	w.Header().Set("X-Fc-Request-Id", id)
	body, err := io.ReadAll(io.LimitReader(r.Body, MaxPayload+1))
	if err != nil {
		refuse(w, id, invalid("the body could not be read"))
		return id, nil, false
	}
	_, _ = io.Copy(io.Discard, r.Body) // else net/http may close the connection before the answer is read
	cred, refusal := f.gate.Accept(r, body)
	if refusal != cloudtest.Accepted {
		refuse(w, id, refusedBy(refusal))
		return id, nil, false
	}
	if r.Header.Get("x-acs-action") != action || r.Header.Get("x-acs-version") != "2023-03-30" {
		refuse(w, id, invalid("x-acs-action and x-acs-version do not fit the path"))
		return id, nil, false
	}
	arn := "acs:fc:" + cloudtest.Region + ":" + cloudtest.AccountID + ":functions/" + resource
	if !cred.Allows(cloudtest.Access{Action: "fc:" + action, Resource: arn}) {
		refuse(w, id, &apiError{http.StatusForbidden, "AccessDenied", "the caller is not authorized to perform 'fc:" + action + "' on resource '" + arn + "'"})
		return id, nil, false
	}
	return id, body, true
}

// find returns the version that a qualifier names.
func (f *Front) find(name, qualifier string) (*Function, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	setDefault(&qualifier, "LATEST")
	version := qualifier
	if !isVersion(qualifier) {
		var ok bool
		if version, ok = f.aliases[name+"/"+qualifier]; !ok && f.has(name) {
			return nil, &apiError{http.StatusNotFound, "AliasNotFound", fmt.Sprintf("alias '%s' of function '%s' does not exist", qualifier, name)}
		}
	}
	fn := f.deploys[name+"/"+version]
	switch {
	case fn != nil:
		return fn, nil
	case f.has(name):
		return nil, &apiError{http.StatusNotFound, "VersionNotFound", fmt.Sprintf("version '%s' of function '%s' does not exist", version, name)}
	}
	return nil, &apiError{http.StatusNotFound, "FunctionNotFound", fmt.Sprintf("function '%s' does not exist", name)}
}

func (f *Front) has(name string) bool {
	for key := range f.deploys {
		if strings.HasPrefix(key, name+"/") {
			return true
		}
	}
	return false
}

func refusedBy(r cloudtest.Refusal) error {
	switch r {
	case cloudtest.UnknownKey:
		return &apiError{http.StatusForbidden, "InvalidAccessKeyID", "invalid access key ID"}
	case cloudtest.BadToken, cloudtest.ExpiredToken:
		return &apiError{http.StatusForbidden, "InvalidSecurityToken", "the security token is invalid or has expired"}
	case cloudtest.BadSignature:
		return &apiError{
			http.StatusForbidden, "SignatureNotMatch",
			"The request signature we calculated does not match the signature you provided. Check your access key and signing method",
		}
	case cloudtest.RepeatedNonce:
		return &apiError{http.StatusBadRequest, "SignatureNonceUsed", "the request was sent before"}
	}
	return &apiError{http.StatusBadRequest, "MissingRequiredHeader", "the request is not signed, or its date cannot be used"}
}

// frontEngine is the Front as cloudtest.Service reaches it.
type frontEngine struct{ f *Front }

func (e frontEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.f.Handler().ServeHTTP(w, r)
}

func (e frontEngine) Name(r *http.Request, _ []byte) (op, target string) {
	name, ok := strings.CutPrefix(r.URL.Path, "/2023-03-30/functions/")
	name, invocation := strings.CutSuffix(name, "/invocations")
	if !ok || !invocation {
		if op := r.Header.Get("x-acs-action"); ok && r.Method == http.MethodGet && op != "" {
			return op, r.URL.Path
		}
		return "Unknown", r.URL.Path
	}
	qualifier := r.URL.Query().Get("qualifier")
	setDefault(&qualifier, "LATEST")
	return "InvokeFunction", name + "/" + qualifier
}

func (e frontEngine) Fail(w http.ResponseWriter, status int, code string) {
	if code == "" {
		w.WriteHeader(max(status, http.StatusOK))
		return
	}
	id := newRequestID(e.f.gate.Now())
	w.Header().Set("X-Fc-Request-Id", id)
	if status == http.StatusTooManyRequests && e.f.wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(e.f.wait/time.Second)))
	}
	refuse(w, id, &apiError{status, code, "A planned fault."})
}
