package osstest

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

const (
	maxSkew      = 15 * time.Minute
	v4Algorithm  = "OSS4-HMAC-SHA256"
	v4DateFormat = "20060102T150405Z"
)

// authorization is what an Authorization header claims. V1 has a key and a
// signature only.
type authorization struct {
	keyID      string
	signature  string
	v4         bool
	day        string
	region     string
	additional []string // further signed headers, lower case
}

// authorize checks the key, its token and expiry, the clock and the signature, in this order,
// and returns whose call it is.
func (e *engine) authorize(c *call) (cloudtest.Credential, error) {
	var nobody cloudtest.Credential
	h := c.request.Header
	if h.Get("Authorization") == "" {
		if c.has("Signature") || c.has("OSSAccessKeyId") || c.has("x-oss-signature-version") {
			return nobody, notImplemented("signed URLs")
		}
		return nobody, refuse(http.StatusForbidden, "AccessDenied", "You have no right to access this object because of bucket acl.")
	}
	a, err := parseAuthorization(h.Get("Authorization"))
	if err != nil {
		return nobody, err
	}
	cred, known, expired := e.credentials.Lookup(a.keyID, c.now)
	token := h.Get("x-oss-security-token")
	switch {
	case !known, cred.SecurityToken != "" && token == "":
		return nobody, refuse(http.StatusForbidden, "InvalidAccessKeyId", "The OSS Access Key Id you provided does not exist in our records.")
	case token != cred.SecurityToken:
		return nobody, refuse(http.StatusForbidden, "InvalidSecurityToken", "The security token you provided is invalid.")
	case expired && token == "":
		return nobody, refuse(http.StatusForbidden, "InvalidAccessKeyId", "The OSS Access Key Id you provided is disabled.")
	case expired:
		return nobody, refuse(http.StatusForbidden, "SecurityTokenExpired", "The security token you provided has expired.")
	}
	date, err := callDate(h)
	if err != nil {
		return nobody, err
	}
	if c.now.Sub(date).Abs() > maxSkew {
		return nobody, refuse(http.StatusForbidden, "RequestTimeTooSkewed", "The difference between the request time and the current time is too large.")
	}
	want := signV1(c, cred.AccessKeySecret)
	if a.v4 {
		if h.Get("x-oss-content-sha256") != "UNSIGNED-PAYLOAD" {
			return nobody, invalidArgument("x-oss-content-sha256 must be UNSIGNED-PAYLOAD.")
		}
		if a.day != date.UTC().Format("20060102") {
			return nobody, invalidArgument("The date of the credential does not match the date of the request.")
		}
		want = signV4(c, a, cred.AccessKeySecret)
	}
	if !hmac.Equal([]byte(want), []byte(a.signature)) {
		return nobody, refuse(http.StatusForbidden, "SignatureDoesNotMatch",
			"The request signature we calculated does not match the signature you provided. Check your key and signing method.")
	}
	return cred, nil
}

func parseAuthorization(s string) (a authorization, err error) {
	bad := invalidArgument("The Authorization header is invalid.")
	scheme, rest, _ := strings.Cut(s, " ")
	switch scheme {
	case "OSS":
		i := strings.LastIndexByte(rest, ':')
		if i < 0 {
			return a, bad
		}
		return authorization{keyID: rest[:i], signature: rest[i+1:]}, nil
	case v4Algorithm:
		a.v4 = true
		for part := range strings.SplitSeq(rest, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
			switch name {
			case "Credential":
				scope := strings.Split(value, "/")
				if len(scope) != 5 || scope[3] != "oss" || scope[4] != "aliyun_v4_request" {
					return a, bad
				}
				a.keyID, a.day, a.region = scope[0], scope[1], scope[2]
			case "AdditionalHeaders":
				a.additional = strings.Split(value, ";")
			case "Signature":
				a.signature = value
			default:
				return a, bad
			}
		}
		if a.keyID == "" {
			return a, bad
		}
		return a, nil
	case "OSS2":
		return a, notImplemented("signature V2")
	}
	return a, bad
}

// callDate reads x-oss-date, which the Node.js client sends in the place of Date
// and V1 spells as HTTP does.
func callDate(h http.Header) (time.Time, error) {
	if s := h.Get("x-oss-date"); s != "" {
		for _, layout := range []string{v4DateFormat, http.TimeFormat} {
			if t, err := time.Parse(layout, s); err == nil {
				return t, nil
			}
		}
	} else if t, err := http.ParseTime(h.Get("Date")); err == nil {
		return t, nil
	}
	return time.Time{}, refuse(http.StatusForbidden, "AccessDenied", "OSS authentication requires a valid Date.")
}

// signV1 signs the method, three headers, the x-oss- headers and the resource.
func signV1(c *call, secret string) string {
	h := c.request.Header
	var b strings.Builder
	for _, s := range []string{c.request.Method, c.header("Content-MD5"), c.header("Content-Type"), cmp.Or(c.header("x-oss-date"), c.header("Date"))} {
		b.WriteString(s + "\n")
	}
	for _, name := range signedHeaders(h, func(name string) bool { return strings.HasPrefix(name, "x-oss-") }) {
		b.WriteString(name + ":" + c.header(name) + "\n")
	}
	b.WriteByte('/')
	if c.bucket != "" {
		b.WriteString(c.bucket + "/" + c.key)
	}
	sep := "?"
	for _, name := range slices.Sorted(maps.Keys(c.query)) {
		if !isSubResource(name) {
			continue
		}
		b.WriteString(sep + name)
		if v := c.query[name]; v != "" {
			b.WriteString("=" + v)
		}
		sep = "&"
	}
	return base64.StdEncoding.EncodeToString(keyed(sha1.New, []byte(secret), b.String()))
}

// signV4 signs a hash of the whole request but its body, with a key that is
// derived for one day, region and service.
func signV4(c *call, a authorization, secret string) string {
	r := c.request
	query := make([]string, 0, len(c.query))
	for name, value := range c.query {
		s := escape(name)
		if value != "" {
			s += "=" + escape(value)
		}
		query = append(query, s)
	}
	slices.Sort(query)
	h := r.Header.Clone()
	h.Set("Host", r.Host) // net/http moves it out of the header
	var headers strings.Builder
	for _, name := range signedHeaders(h, func(name string) bool {
		return strings.HasPrefix(name, "x-oss-") || name == "content-type" || name == "content-md5" || slices.Contains(a.additional, name)
	}) {
		headers.WriteString(name + ":" + strings.TrimSpace(h.Get(name)) + "\n")
	}
	path := "/"
	if c.bucket != "" {
		path += c.bucket + "/" + strings.ReplaceAll(escape(c.key), "%2F", "/")
	}
	canonical := sha256.Sum256([]byte(strings.Join([]string{
		r.Method, path, strings.Join(query, "&"), headers.String(), strings.Join(a.additional, ";"), r.Header.Get("x-oss-content-sha256"),
	}, "\n")))
	date := r.Header.Get("x-oss-date")
	if date == "" {
		date = r.Header.Get("Date")
	}
	scope := []string{a.day, a.region, "oss", "aliyun_v4_request"}
	key := []byte("aliyun_v4" + secret)
	for _, s := range scope {
		key = keyed(sha256.New, key, s)
	}
	text := strings.Join([]string{v4Algorithm, date, strings.Join(scope, "/"), hex.EncodeToString(canonical[:])}, "\n")
	return hex.EncodeToString(keyed(sha256.New, key, text))
}

func keyed(h func() hash.Hash, key []byte, text string) []byte {
	m := hmac.New(h, key)
	m.Write([]byte(text))
	return m.Sum(nil)
}

func signedHeaders(h http.Header, signed func(lower string) bool) []string {
	var names []string
	for name := range h {
		if lower := strings.ToLower(name); signed(lower) {
			names = append(names, lower)
		}
	}
	slices.Sort(names)
	return names
}

// escape percent-encodes all but unreserved characters, spaces included.
func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

// isSubResource says whether V1 signs a query parameter. It knows more of them
// than the routes do: a call that isn't modelled must end in NotImplemented,
// not in a signature error.
func isSubResource(name string) bool {
	switch name {
	case "acl", "append", "asyncFetch", "bucketInfo", "callback", "callback-var", "cloudboxes", "cname", "comp",
		"continuation-token", "cors", "delete", "encryption", "endTime", "img", "inventory", "inventoryId", "lifecycle", "live",
		"location", "logging", "metaQuery", "objectMeta", "partNumber", "policy", "position", "qos", "qosInfo", "referer",
		"regionList", "replication", "replicationLocation", "replicationProgress", "requestPayment", "resourceGroup",
		"responseHeader", "restore", "rtc", "security-token", "sequential", "startTime", "stat", "status", "style", "styleName",
		"symlink", "tagging", "transferAcceleration", "udf", "udfApplication", "udfApplicationLog", "udfId", "udfImage",
		"udfImageDesc", "udfName", "uploadId", "uploads", "versionId", "versioning", "versions", "vod", "website",
		"withHashContext", "worm", "wormExtend", "wormId":
		return true
	case "response-cache-control", "response-content-disposition", "response-content-encoding",
		"response-content-language", "response-content-type", "response-expires":
		return true
	case "x-oss-ac-forward-allow", "x-oss-ac-source-ip", "x-oss-ac-subnet-mask", "x-oss-ac-vpc-id", "x-oss-async-process",
		"x-oss-enable-md5", "x-oss-enable-sha1", "x-oss-enable-sha256", "x-oss-hash-ctx", "x-oss-md5-ctx", "x-oss-process",
		"x-oss-request-payer", "x-oss-traffic-limit":
		return true
	}
	return false
}
