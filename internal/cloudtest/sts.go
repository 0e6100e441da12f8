package cloudtest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// STS answers GetCallerIdentity, which needs no right. A credential without an
// identity is the account's own.
type STS struct {
	// Faults plans disturbances; the one operation is GetCallerIdentity, its
	// target the access key.
	Faults *Faults

	service  *Service
	listener *Listener
}

// NewSTS returns a stand-in that knows credentials; now nil means time.Now.
func NewSTS(creds *Credentials, now func() time.Time) (*STS, error) {
	if creds == nil {
		return nil, errors.New("sts stand-in needs credentials")
	}
	if now == nil {
		now = time.Now
	}
	faults := new(Faults)
	engine := &stsEngine{gate: OpenAPI{Credentials: creds, Now: now}}
	return &STS{Faults: faults, service: &Service{Name: "sts", Engine: engine, Faults: faults, Now: now}}, nil
}

// Transport reaches the stand-in without a socket.
func (s *STS) Transport() http.RoundTripper { return s.service.Transport() }

// Start listens on a free port of 127.0.0.1.
func (s *STS) Start() error {
	l, err := Listen(s.service.Handler())
	if err != nil {
		return fmt.Errorf("listen for sts stand-in: %w", err)
	}
	s.listener = l
	return nil
}

// Endpoint is http://127.0.0.1:port, "" before Start.
func (s *STS) Endpoint() string {
	if s.listener == nil {
		return ""
	}
	return s.listener.URL
}

// Close stops the listener.
func (s *STS) Close() error {
	if s.listener == nil {
		return nil
	}
	return s.listener.Close()
}

type stsEngine struct {
	gate OpenAPI
	seq  atomic.Int64
}

func (e *stsEngine) Name(r *http.Request, _ []byte) (op, target string) {
	claim, _ := parseACS3(r.Header.Get("Authorization"))
	return r.Header.Get("x-acs-action"), claim.keyID
}

// stsCodes are the codes of the OpenAPI gateway.
var stsCodes = map[Refusal]struct {
	status int
	code   string
}{
	NotSigned:     {http.StatusBadRequest, "MissingSignature"},
	UnknownKey:    {http.StatusNotFound, "InvalidAccessKeyId.NotFound"},
	BadToken:      {http.StatusBadRequest, "InvalidSecurityToken.Malformed"},
	ExpiredToken:  {http.StatusBadRequest, "InvalidSecurityToken.Expired"},
	BadDate:       {http.StatusBadRequest, "InvalidTimeStamp.Expired"},
	BadSignature:  {http.StatusBadRequest, "SignatureDoesNotMatch"},
	RepeatedNonce: {http.StatusBadRequest, "SignatureNonceUsed"},
}

func (e *stsEngine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		e.Fail(w, http.StatusBadRequest, "InvalidParameter")
		return
	}
	cred, refusal := e.gate.Accept(r, body)
	switch {
	case refusal != Accepted:
		e.Fail(w, stsCodes[refusal].status, stsCodes[refusal].code)
	case r.Method != http.MethodPost || r.URL.Path != "/" || r.Header.Get("x-acs-action") != "GetCallerIdentity" || r.Header.Get("x-acs-version") != "2015-04-01":
		e.Fail(w, http.StatusNotFound, "InvalidAction.NotFound")
	case !strings.Contains(r.Header.Get("Accept"), "json"):
		e.Fail(w, http.StatusBadRequest, "NotModelled") // the service would answer with XML
	default:
		id := cred.Identity
		if id == nil {
			id = &Identity{"acs:ram::" + AccountID + ":root", AccountID, "Account", AccountID, nil}
		}
		e.write(w, http.StatusOK, map[string]string{
			"AccountId": id.AccountID, "Arn": id.ARN, "IdentityType": id.Type, "PrincipalId": id.PrincipalID,
		})
	}
}

// Fail implements Engine.
func (e *stsEngine) Fail(w http.ResponseWriter, status int, code string) {
	if code == "" {
		w.WriteHeader(max(status, http.StatusOK))
		return
	}
	e.write(w, status, map[string]string{"Code": code, "Message": "The call was refused.", "HostId": "sts.aliyuncs.com"})
}

func (e *stsEngine) write(w http.ResponseWriter, status int, fields map[string]string) {
	fields["RequestId"] = fmt.Sprintf("00000000-0000-5000-8000-%012X", e.seq.Add(1))
	raw, _ := json.Marshal(fields)
	w.Header().Set("Content-Type", "application/json;charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(raw)
}
