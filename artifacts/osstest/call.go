package osstest

import (
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"
)

// call is one request, taken apart.
type call struct {
	request *http.Request
	bucket  string
	key     string
	query   map[string]string
	body    []byte
	now     time.Time
}

func newCall(r *http.Request, body []byte) (*call, error) {
	c := &call{request: r, query: map[string]string{}, body: body}
	c.bucket, c.key = locate(r.Host, r.URL.Path)
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, invalidArgument("The query string can't be parsed.")
	}
	for name, all := range values {
		if len(all) != 1 {
			return nil, invalidArgument("The parameter " + name + " is given more than once.")
		}
		c.query[name] = all[0]
	}
	return c, nil
}

func (c *call) has(param string) bool {
	_, ok := c.query[param]
	return ok
}

func (c *call) header(name string) string { return strings.TrimSpace(c.request.Header.Get(name)) }

func (c *call) level() level {
	switch {
	case c.bucket == "":
		return serviceLevel
	case c.key == "":
		return bucketLevel
	default:
		return objectLevel
	}
}

// check holds the names of a call against the service's rules.
func (c *call) check(l level) error {
	if l != serviceLevel && !validBucket(c.bucket) {
		return refuse(http.StatusBadRequest, "InvalidBucketName", "The specified bucket is not valid.")
	}
	if l == objectLevel && !validKey(c.key) {
		return refuse(http.StatusBadRequest, "InvalidObjectName", "The specified object is not valid.")
	}
	return nil
}

// locate finds the bucket and the object name in a decoded path. The bucket is
// the first segment, unless the host names it: bucket.oss-region.domain.
// Everything behind it is the object name as it stands, so that a key may hold
// slashes, dots and empty segments.
func locate(host, path string) (bucket, key string) {
	path = strings.TrimPrefix(path, "/")
	if b, ok := bucketOfHost(host); ok {
		return b, path
	}
	bucket, key, _ = strings.Cut(path, "/")
	return bucket, key
}

func bucketOfHost(host string) (string, bool) {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if net.ParseIP(host) != nil {
		return "", false
	}
	first, rest, _ := strings.Cut(host, ".")
	return first, first != "" && strings.HasPrefix(rest, "oss-")
}

// validBucket: 3-63 lower-case letters, digits and hyphens, no hyphen at either end.
func validBucket(name string) bool {
	if len(name) < 3 || len(name) > 63 || name[0] == '-' || name[len(name)-1] == '-' {
		return false
	}
	for i := range len(name) {
		if ch := name[i]; !isLower(ch) && !isDigit(ch) && ch != '-' {
			return false
		}
	}
	return true
}

// validKey: 1-1023 bytes of UTF-8 that do not start with a slash or a backslash.
func validKey(name string) bool {
	return name != "" && len(name) <= 1023 && utf8.ValidString(name) && name[0] != '/' && name[0] != '\\'
}

func isLower(ch byte) bool { return 'a' <= ch && ch <= 'z' }
func isUpper(ch byte) bool { return 'A' <= ch && ch <= 'Z' }
func isDigit(ch byte) bool { return '0' <= ch && ch <= '9' }
