package ebtest

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

// RefusedError is why Signed does not accept a call. The codes are a choice: the
// service's own are not documented.
type RefusedError struct {
	Status int
	Code   string
}

func (e *RefusedError) Error() string { return "refuse call: " + e.Code }

// Codes of RefusedError.
const (
	CodeNotSigned    = "MissingSignature"
	CodeUnknownKey   = "InvalidAccessKeyId.NotFound"
	CodeBadToken     = "InvalidSecurityToken.Malformed"
	CodeExpiredToken = "InvalidSecurityToken.Expired"
	CodeBadDate      = "InvalidTimeStamp.Expired"
	CodeBadSignature = "SignatureDoesNotMatch"
	CodeRepeated     = "SignatureNonceUsed"
	CodeNoPermission = "NoPermission" // a policy does not allow eventbridge:PutEvents on one of the buses
)

// dateSkew is how far a call's date may be from the clock.
const dateSkew = 15 * time.Minute

// Signed returns a check for PutEventsHandler: a call in the service's own form
// must be signed with a key of creds, whose policies must allow
// eventbridge:PutEvents on acs:eventbridge:<region>:<account>:eventbus/<bus> for
// each bus that its events name. The forms that only this stand-in takes are
// accepted unsigned.
func (b *Bus) Signed(creds *cloudtest.Credentials) func(*http.Request) error {
	g := &gate{bus: b, creds: creds, nonces: map[string]time.Time{}}
	return g.accept
}

type gate struct {
	bus   *Bus
	creds *cloudtest.Credentials

	mu     sync.Mutex
	nonces map[string]time.Time
}

func (g *gate) accept(r *http.Request) error {
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind != batchType && r.Header.Get("Authorization") == "" {
		return nil
	}
	keyID, signature, ok := parseSignature(r.Header.Get("Authorization"))
	if !ok || r.Header.Get("X-Acs-Signature-Method") != "HMAC-SHA1" || r.Header.Get("X-Acs-Signature-Version") != "1.0" || r.Header.Get("X-Acs-Signature-Nonce") == "" {
		return &RefusedError{http.StatusBadRequest, CodeNotSigned}
	}
	now := g.bus.opt.Now()
	cred, known, expired := g.creds.Lookup(keyID, now)
	date, err := http.ParseTime(r.Header.Get("Date"))
	switch {
	case !known:
		return &RefusedError{http.StatusNotFound, CodeUnknownKey}
	case r.Header.Get("X-Acs-Security-Token") != cred.SecurityToken:
		return &RefusedError{http.StatusBadRequest, CodeBadToken}
	case expired:
		return &RefusedError{http.StatusBadRequest, CodeExpiredToken}
	case err != nil, now.Sub(date).Abs() > dateSkew:
		return &RefusedError{http.StatusBadRequest, CodeBadDate}
	case !hmac.Equal([]byte(signature), []byte(expectedSignature(r, cred.AccessKeySecret))):
		return &RefusedError{http.StatusBadRequest, CodeBadSignature}
	case !g.fresh(keyID+" "+r.Header.Get("X-Acs-Signature-Nonce"), now):
		return &RefusedError{http.StatusBadRequest, CodeRepeated}
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return &RefusedError{http.StatusBadRequest, "InvalidArgument"}
	}
	for _, name := range g.buses(r.Header, body) {
		resource := "acs:eventbridge:" + g.bus.opt.Region + ":" + cloudtest.AccountID + ":eventbus/" + name
		if !cred.Allows(cloudtest.Access{Action: "eventbridge:PutEvents", Resource: resource}) {
			return &RefusedError{http.StatusForbidden, CodeNoPermission}
		}
	}
	return nil
}

// buses are those that the call's events name; this bus for what names none.
func (g *gate) buses(h http.Header, body []byte) []string {
	events, _, err := readEvents(h, body)
	if err != nil {
		return nil // refused as unreadable
	}
	var names []string
	for _, raw := range events {
		var wire struct{ Aliyuneventbusname string }
		if json.Unmarshal(raw, &wire) != nil || wire.Aliyuneventbusname == "" {
			wire.Aliyuneventbusname = g.bus.opt.Bus
		}
		names = append(names, wire.Aliyuneventbusname)
	}
	return names
}

func (g *gate) fresh(nonce string, now time.Time) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, used := g.nonces[nonce]; used {
		return false
	}
	maps.DeleteFunc(g.nonces, func(_ string, at time.Time) bool { return now.Sub(at) > 2*dateSkew })
	g.nonces[nonce] = now
	return true
}

// parseSignature reads acs:<key>:<signature>; a key of STS holds no colon.
func parseSignature(header string) (keyID, signature string, ok bool) {
	parts := strings.Split(header, ":")
	if len(parts) != 3 || parts[0] != "acs" || parts[1] == "" || parts[2] == "" {
		return "", "", false
	}
	return parts[1], parts[2], true
}

// expectedSignature is what the vendor's SDK computes for a request: see
// util in github.com/aliyun/alibabacloud-eventbridge-sdk.
func expectedSignature(r *http.Request, secret string) string {
	mac := hmac.New(sha1.New, []byte(secret))
	for _, line := range []string{r.Method, r.Header.Get("Content-Md5"), r.Header.Get("Content-Type"), r.Header.Get("Date")} {
		_, _ = io.WriteString(mac, line+"\n")
	}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-acs-") {
			_, _ = io.WriteString(mac, lower+":"+r.Header.Get(name)+"\n")
		}
	}
	_, _ = io.WriteString(mac, r.URL.Path)
	if r.URL.RawQuery != "" {
		_, _ = io.WriteString(mac, "?"+r.URL.RawQuery)
	}
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
