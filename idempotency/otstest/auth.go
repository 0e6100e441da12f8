package otstest

import (
	"crypto/hmac"
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"hash"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

const (
	headerPrefix      = "x-ots-"
	headerDate        = "x-ots-date"
	headerAPIVersion  = "x-ots-apiversion"
	headerKeyID       = "x-ots-accesskeyid"
	headerInstance    = "x-ots-instancename"
	headerMD5         = "x-ots-contentmd5"
	headerToken       = "x-ots-ststoken"
	headerSignature   = "x-ots-signature"
	headerSignatureV4 = "x-ots-signaturev4"
	headerSignRegion  = "x-ots-signregion"
	headerSignDate    = "x-ots-signdate"
	headerRequestID   = "x-ots-requestid"

	apiVersion = "2015-12-31"
	maxSkew    = 15 * time.Minute
)

// authenticate checks everything that the headers promise about a request, and
// returns whose it is.
func (e *engine) authenticate(r *http.Request, body []byte, now time.Time) (cloudtest.Credential, error) {
	var nobody cloudtest.Credential
	h, err := otsHeaders(r.Header)
	if err != nil {
		return nobody, err
	}
	for _, name := range []string{headerDate, headerAPIVersion, headerKeyID, headerInstance, headerMD5} {
		if h[name] == "" {
			return nobody, invalid("Missing header: `%s`.", name)
		}
	}
	date, err := parseDate(h[headerDate])
	if err != nil {
		return nobody, err
	}
	if skew := now.Sub(date); skew > maxSkew || skew < -maxSkew {
		return nobody, authFailed("Mismatch between system time and x-ots-date: `%s`.", h[headerDate])
	}
	if h[headerAPIVersion] != apiVersion {
		return nobody, invalid("Invalid API version: `%s`.", h[headerAPIVersion])
	}
	if h[headerInstance] != e.instance {
		return nobody, authFailed("The instance is not found.")
	}
	cred, known, expired := e.creds.Lookup(h[headerKeyID], now)
	switch {
	case !known:
		return nobody, authFailed("The AccessKeyID does not exist.")
	case expired:
		return nobody, authFailed("The security token has expired.")
	case cred.SecurityToken != h[headerToken]:
		return nobody, authFailed("The security token is invalid.")
	}
	sum := md5.Sum(body)
	if base64.StdEncoding.EncodeToString(sum[:]) != h[headerMD5] {
		return nobody, authFailed("Mismatch between MD5 value of request body and x-ots-contentmd5 in header.")
	}
	return cred, checkSignature(h, r.URL.EscapedPath(), cred, date)
}

// otsHeaders returns the headers that a signature covers.
func otsHeaders(in http.Header) (map[string]string, error) {
	out := make(map[string]string, 12)
	for name, values := range in {
		lower := strings.ToLower(name)
		if !strings.HasPrefix(lower, headerPrefix) {
			continue
		}
		if len(values) != 1 {
			return nil, invalid("Duplicated header: `%s`.", lower)
		}
		if v := strings.TrimSpace(values[0]); v != "" {
			out[lower] = v
		}
	}
	return out, nil
}

// parseDate reads x-ots-date to the second. What follows is thrown away: the
// Go SDK fills the fraction with digits of the date.
func parseDate(s string) (time.Time, error) {
	const layout = "2006-01-02T15:04:05"
	if len(s) > len(layout) {
		rest := strings.TrimRight(s[len(layout):], "0123456789Z")
		if rest == "" || rest == "." {
			if t, err := time.Parse(layout, s[:len(layout)]); err == nil {
				return t, nil
			}
		}
	}
	return time.Time{}, invalid("Invalid date format: `%s`.", s)
}

func checkSignature(h map[string]string, path string, cred cloudtest.Credential, date time.Time) error {
	v2, v4 := h[headerSignature], h[headerSignatureV4]
	var want []byte
	given := v2
	switch {
	case v2 != "" && v4 != "":
		return invalid("Duplicated header: `%s`.", headerSignature)
	case v4 != "":
		given = v4
		for _, name := range []string{headerSignDate, headerSignRegion} {
			if h[name] == "" {
				return invalid("Missing header: `%s`.", name)
			}
		}
		day, err := time.Parse("20060102", h[headerSignDate])
		if err != nil {
			return invalid("Invalid date format: `%s`.", h[headerSignDate])
		}
		if age := date.Sub(day); age < -maxSkew || age > 48*time.Hour {
			return authFailed("Mismatch between system time and x-ots-signdate: `%s`.", h[headerSignDate])
		}
		key := signingKey(cred.AccessKeySecret, h[headerSignDate], h[headerSignRegion])
		want = sum(sha256.New, key, canonical(h, path)+"ots")
	case v2 != "":
		want = sum(sha1.New, []byte(cred.AccessKeySecret), canonical(h, path))
	default:
		return invalid("Missing header: `%s`.", headerSignature)
	}
	got, err := base64.StdEncoding.DecodeString(given)
	if err != nil || !hmac.Equal(got, want) {
		return authFailed("Signature mismatch.")
	}
	return nil
}

// canonical is the text that both versions of the signature cover.
func canonical(h map[string]string, path string) string {
	names := make([]string, 0, len(h))
	for name := range h {
		if name != headerSignature && name != headerSignatureV4 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	var b strings.Builder
	b.WriteString(path + "\nPOST\n\n")
	for _, name := range names {
		b.WriteString(name + ":" + h[name] + "\n")
	}
	return b.String()
}

// signingKey derives the key of a day and a region. The signature is keyed
// with its base64 text, not with its bytes.
func signingKey(secret, day, region string) []byte {
	key := []byte("aliyun_v4" + secret)
	for _, part := range []string{day, region, "ots", "aliyun_v4_request"} {
		key = sum(sha256.New, key, part)
	}
	return []byte(base64.StdEncoding.EncodeToString(key))
}

func sum(h func() hash.Hash, key []byte, text string) []byte {
	mac := hmac.New(h, key)
	mac.Write([]byte(text))
	return mac.Sum(nil)
}
