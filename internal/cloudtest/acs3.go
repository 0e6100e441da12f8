package cloudtest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
)

// Refusal is why an OpenAPI call is not accepted.
type Refusal int

// The reasons. Each service has codes of its own for them.
const (
	Accepted      Refusal = iota
	NotSigned             // no signature of version 3, or one that leaves out what it must cover
	UnknownKey            // a key that was never issued, or was revoked
	BadToken              // the security token of another credential, or none
	ExpiredToken          // the credential's time is over
	BadDate               // no date, or one more than 15 minutes away
	BadSignature          // another secret, or a request that was changed on its way
	RepeatedNonce         // the same call a second time
)

// OpenAPI checks calls that are signed with ACS3-HMAC-SHA256. It is safe for
// concurrent use.
type OpenAPI struct {
	Credentials *Credentials
	Now         func() time.Time

	mu     sync.Mutex
	nonces map[string]time.Time
}

const (
	acs3     = "ACS3-HMAC-SHA256"
	acs3Skew = 15 * time.Minute
)

// Accept checks one call and returns the credential that made it.
func (o *OpenAPI) Accept(r *http.Request, body []byte) (Credential, Refusal) {
	claim, ok := parseACS3(r.Header.Get("Authorization"))
	if !ok {
		return Credential{}, NotSigned
	}
	now := o.Now()
	cred, known, expired := o.Credentials.Lookup(claim.keyID, now)
	date, err := time.Parse("2006-01-02T15:04:05Z", r.Header.Get("x-acs-date"))
	hash := sha256.Sum256(body)
	switch {
	case !known:
		return Credential{}, UnknownKey
	case cred.SecurityToken != r.Header.Get("x-acs-security-token"):
		return Credential{}, BadToken
	case expired:
		return Credential{}, ExpiredToken
	case err != nil, now.Sub(date).Abs() > acs3Skew:
		return Credential{}, BadDate
	case !claim.covers(r):
		return Credential{}, NotSigned
	case r.Header.Get("x-acs-content-sha256") != hex.EncodeToString(hash[:]), !hmac.Equal([]byte(claim.signature), []byte(claim.sign(r, cred.AccessKeySecret))):
		return Credential{}, BadSignature
	case !o.fresh(claim.keyID+" "+r.Header.Get("x-acs-signature-nonce"), now):
		return Credential{}, RepeatedNonce
	}
	return cred, Accepted
}

// fresh notes a nonce and reports whether it is new.
func (o *OpenAPI) fresh(nonce string, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.nonces == nil {
		o.nonces = map[string]time.Time{}
	}
	if _, ok := o.nonces[nonce]; ok {
		return false
	}
	for n, at := range o.nonces {
		if now.Sub(at) > 2*acs3Skew {
			delete(o.nonces, n)
		}
	}
	o.nonces[nonce] = now
	return true
}

// acs3Claim is what an Authorization header says.
type acs3Claim struct {
	keyID     string
	headers   []string
	signature string
}

func parseACS3(s string) (c acs3Claim, ok bool) {
	rest, ok := strings.CutPrefix(s, acs3+" ")
	if !ok {
		return c, false
	}
	for part := range strings.SplitSeq(rest, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch name {
		case "Credential":
			c.keyID = value
		case "SignedHeaders":
			c.headers = strings.Split(value, ";")
		case "Signature":
			c.signature = value
		default:
			return c, false
		}
	}
	return c, c.keyID != "" && c.signature != "" && slices.IsSorted(c.headers)
}

// covers says whether the host and every x-acs- header are signed, and the ones
// that a call needs are there.
func (c acs3Claim) covers(r *http.Request) bool {
	for _, name := range []string{"x-acs-action", "x-acs-version", "x-acs-signature-nonce"} {
		if r.Header.Get(name) == "" {
			return false
		}
	}
	for name := range r.Header {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-acs-") && !slices.Contains(c.headers, lower) {
			return false
		}
	}
	return slices.Contains(c.headers, "host")
}

func (c acs3Claim) sign(r *http.Request, secret string) string {
	var query []string
	for name, values := range r.URL.Query() {
		for _, v := range values {
			query = append(query, acs3Escape(name)+"="+acs3Escape(v))
		}
	}
	slices.Sort(query)
	headers := ""
	for _, name := range c.headers {
		value := r.Header.Get(name)
		if name == "host" {
			value = r.Host
		}
		headers += fmt.Sprintf("%s:%s\n", name, strings.TrimSpace(value))
	}
	canonical := fmt.Sprintf("%s\n%s\n%s\n%s\n%s\n%s", r.Method, r.URL.EscapedPath(), strings.Join(query, "&"), headers,
		strings.Join(c.headers, ";"), r.Header.Get("x-acs-content-sha256"))
	inner := sha256.Sum256([]byte(canonical))
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(acs3 + "\n" + hex.EncodeToString(inner[:])))
	return hex.EncodeToString(mac.Sum(nil))
}

func acs3Escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }
