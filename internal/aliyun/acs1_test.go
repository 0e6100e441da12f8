package aliyun

import (
	"net/http"
	"net/url"
	"testing"
)

// The cases and the signature are the vendor's own, of the tests of its SDK:
// github.com/aliyun/alibabacloud-eventbridge-sdk, util/python/tests.
func TestTheTextToSignIsTheVendors(t *testing.T) {
	for _, c := range []struct {
		name, method, path, query string
		header                    map[string]string
		want                      string
	}{
		{"nothing", "GET", "", "", nil, "GET\n\n\n\n"},
		{"a query", "POST", "", "test=tests", nil, "POST\n\n\n\n?test=tests"},
		{"an MD5", "GET", "", "", map[string]string{"Content-MD5": "md5"}, "GET\nmd5\n\n\n"},
		{
			"all of it", "GET", "Pathname", "test1=&test=tests&ccp=ok",
			map[string]string{"x-acs-meta": "user", "accept": "application/json", "content-md5": "md5", "content-type": "application/json", "date": "date"},
			"GET\nmd5\napplication/json\ndate\nx-acs-meta:user\nPathname?ccp=ok&test=tests&test1=",
		},
	} {
		req := &http.Request{Method: c.method, URL: &url.URL{Path: c.path, RawQuery: c.query}, Header: http.Header{}}
		for name, value := range c.header {
			req.Header.Set(name, value)
		}
		if got := acs1Text(req); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestTheSignatureIsTheVendors(t *testing.T) {
	if got := hmacSHA1("secret", "GET\n\n\n\n"); got != "Mzu+31oD5IDdv3WFBNIi4Y7JZto=" {
		t.Error(got)
	}
}

func TestHeadersOfTheServiceItselfAreNotSigned(t *testing.T) {
	req := &http.Request{Method: "POST", URL: &url.URL{Path: "/openapi/putEvents"}, Header: http.Header{}}
	req.Header.Set("x-eventbridge-version", "2015-06-06")
	req.Header.Set("x-acs-b", "2")
	req.Header.Set("x-acs-a", "1")
	if got := acs1Text(req); got != "POST\n\n\n\nx-acs-a:1\nx-acs-b:2\n/openapi/putEvents" {
		t.Errorf("%q", got)
	}
}
