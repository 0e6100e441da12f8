package aliyun

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Signed by hand: darabonba-openapi adds 14 modules, and raises golang/protobuf
// under the Tablestore SDK for the function too.

const acs3Algorithm = "ACS3-HMAC-SHA256"

// signACS3 signs a request as OpenAPI's signature V3 has it: the method, the
// path, the query, the host, the content type, all x-acs- headers and the body.
// It must be the last that touches the request, whose x-acs-date and
// x-acs-signature-nonce the caller has set.
// https://www.alibabacloud.com/help/en/sdk/product-overview/v3-request-structure-and-signature
func signACS3(req *http.Request, body []byte, c Credentials) {
	hash := sha256Hex(body)
	req.Header.Set("x-acs-content-sha256", hash)
	if c.SecurityToken != "" {
		req.Header.Set("x-acs-security-token", c.SecurityToken)
	}
	host := req.Host
	if host == "" {
		host = req.URL.Host
	}
	signed := map[string]string{"host": host}
	for name, values := range req.Header {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-acs-") || lower == "content-type" {
			signed[lower] = strings.TrimSpace(strings.Join(values, ","))
		}
	}
	names := make([]string, 0, len(signed))
	for name := range signed {
		names = append(names, name)
	}
	slices.Sort(names)
	var headers strings.Builder
	for _, name := range names {
		headers.WriteString(name + ":" + signed[name] + "\n")
	}
	path := req.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	list := strings.Join(names, ";")
	canonical := strings.Join([]string{req.Method, path, acs3Query(req.URL.Query()), headers.String(), list, hash}, "\n")
	mac := hmac.New(sha256.New, []byte(c.AccessKeySecret))
	mac.Write([]byte(acs3Algorithm + "\n" + sha256Hex([]byte(canonical))))
	req.Header.Set("Authorization", acs3Algorithm+" Credential="+c.AccessKeyID+",SignedHeaders="+list+",Signature="+hex.EncodeToString(mac.Sum(nil)))
}

// acs3Query is a query in rising order with all but unreserved characters escaped.
func acs3Query(q url.Values) string {
	return strings.ReplaceAll(q.Encode(), "+", "%20")
}

func sha256Hex(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
