package aliyun

import (
	"crypto/hmac"
	"crypto/sha1"
	"encoding/base64"
	"net/http"
	"slices"
	"strings"
)

// signACS1 signs a request as services with an API of their own have it:
//
//	Authorization: acs:<key>:base64(HMAC-SHA1(secret, text))
//
// It must be the last that touches the request.
func signACS1(req *http.Request, c Credentials) {
	req.Header.Set("Authorization", "acs:"+c.AccessKeyID+":"+hmacSHA1(c.AccessKeySecret, acs1Text(req)))
}

// acs1Text is what is signed: a line each for the method, the body's MD5, the
// content type, the date and every x-acs- header in order of their names, then
// the path with the query in order of its names. Neither is escaped.
func acs1Text(req *http.Request) string {
	signed := map[string]string{}
	for name, values := range req.Header {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-acs-") {
			signed[lower] = strings.Join(values, ",")
		}
	}
	var headers strings.Builder
	for _, name := range sortedNames(signed) {
		headers.WriteString(name + ":" + signed[name] + "\n")
	}
	resource, sep := req.URL.Path, "?"
	query := map[string]string{}
	for name, values := range req.URL.Query() {
		query[name] = strings.Join(values, ",")
	}
	for _, name := range sortedNames(query) {
		resource += sep + name + "=" + query[name]
		sep = "&"
	}
	h := req.Header
	return strings.Join([]string{req.Method, h.Get("Content-MD5"), h.Get("Content-Type"), h.Get("Date"), headers.String() + resource}, "\n")
}

func sortedNames(m map[string]string) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func hmacSHA1(secret, text string) string {
	mac := hmac.New(sha1.New, []byte(secret))
	mac.Write([]byte(text))
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}
