package targettest_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/flows/targettest"
)

func TestWhatNoTargetTakesIsRefused(t *testing.T) {
	for _, tc := range []struct {
		name, method, path, body string
		status                   int
		code, allow              string
	}{
		{"another path", "POST", "/notices", hello, 404, "not_found", ""},
		{"a path below a path", "POST", "/notify/", hello, 404, "not_found", ""},
		{"the root", "GET", "/", "", 404, "not_found", ""},
		{"a record by its id", "GET", "/records/rec-1", "", 404, "not_found", ""},
		{"reading notifications", "GET", "/notify", "", 405, "method_not_allowed", "POST"},
		{"a put to the robot", "PUT", "/robot", hello, 405, "method_not_allowed", "POST"},
		{"deleting records", "DELETE", "/records", "", 405, "method_not_allowed", "GET, POST"},
		{"a post to a look-up", "POST", "/records/by-number/R-17", r17, 405, "method_not_allowed", "GET"},
		{"no body", "POST", "/notify", "", 400, "invalid_request", ""},
		{"half a body", "POST", "/notify", `{"text":"hello"`, 400, "invalid_request", ""},
		{"a list", "POST", "/robot", `["hello"]`, 400, "invalid_request", ""},
		{"two objects", "POST", "/robot", `{}{}`, 400, "invalid_request", ""},
		{"an object and a bit", "POST", "/robot", `{} x`, 400, "invalid_request", ""},
		{"a name twice", "POST", "/records", `{"number":"1","number":"2"}`, 400, "invalid_request", ""},
		{"invalid UTF-8", "POST", "/notify", "{\"text\":\"\xff\"}", 400, "invalid_request", ""},
		{"no number", "POST", "/records", hello, 400, "invalid_request", ""},
		{"an empty number", "POST", "/records", `{"number":""}`, 400, "invalid_request", ""},
		{"a number that is one", "POST", "/records", `{"number":17}`, 400, "invalid_request", ""},
		{"a number further in", "POST", "/records", `{"number":["17"],"x":{"number":"17"}}`, 400, "invalid_request", ""},
		{"a look-up of nothing", "GET", "/records", "", 400, "invalid_request", ""},
		{"a look-up of an empty number", "GET", "/records?number=", "", 400, "invalid_request", ""},
		{"a look-up of two numbers", "GET", "/records?number=1&number=2", "", 400, "invalid_request", ""},
		{"a look-up in pieces", "GET", "/records?number=1&x=%zz", "", 400, "invalid_request", ""},
		{"a look-up by an empty path", "GET", "/records/by-number/", "", 400, "invalid_request", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			twice(t, targettest.Options{}, func(t *testing.T, s *stand) {
				got := s.call(t, tc.method, tc.path, "k", tc.body)
				got.refused(t, tc.status, tc.code)
				if got.header.Get("Allow") != tc.allow || got.header.Get("Content-Type") != "application/json" {
					t.Errorf("header %v", got.header)
				}
				s.effects(t, 0, 0, 0)
			})
		})
	}
}

func TestANumberBetweenOtherMembersIsRead(t *testing.T) {
	s := inProcess(t, targettest.Options{})
	s.post(t, "/records", "", `{"a":{"number":"1","b":["number","2"]},"number":"R-17","z":["3"],"text":"number"}`).
		want(t, 201, `{"id":"rec-1","number":"R-17"}`)
}

func TestAKeyThatCouldBeReadInTwoWaysIsRefused(t *testing.T) {
	s := inProcess(t, targettest.Options{})
	for _, keys := range [][]string{{"a", "b"}, {"a", "a"}, {""}, {"a b"}, {"ключ"}, {"a\x7f"}, {strings.Repeat("k", 256)}} {
		s.header = http.Header{"Idempotency-Key": keys}
		s.post(t, "/notify", "", hello)
	}
	s.header = http.Header{"Idempotency-Key": {strings.Repeat("~", 255)}}
	s.post(t, "/notify", "", hello).want(t, 200, `{"id":"ntf-2"}`)
}

func TestErrorsRepeatTheBody(t *testing.T) {
	const secret = "the customer's <own> words"
	s := inProcess(t, targettest.Options{RecordsHonourKey: true})
	s.post(t, "/notify", "k", hello)
	s.post(t, "/records", "", r17)
	for _, got := range []answer{
		s.post(t, "/notify", "k", `{"text":"`+secret+`"}`),
		s.post(t, "/notify", "k", `{"text":"`+secret),
		s.post(t, "/robot", "", `{"text":"[[target status=403]]`+secret+`"}`),
		s.post(t, "/robot", "", `{"text":"[[target oops]]`+secret+`"}`),
		s.post(t, "/records", "", `{"number":"R-17","text":"`+secret+`"}`),
		s.post(t, "/records", "", `{"text":"`+secret+`"}`),
	} {
		if got.status < 400 || !strings.Contains(got.body, secret) {
			t.Errorf("%d %s has nothing to leak", got.status, got.body)
		}
	}
	guarded := inProcess(t, targettest.Options{Token: "right"})
	guarded.header = http.Header{"Authorization": {"Bearer wrong"}}
	got := guarded.post(t, "/notify", "", `{"text":"`+secret+`"}`)
	if !strings.Contains(got.body, secret) || strings.Contains(got.body, "wrong") || strings.Contains(got.body, "right") {
		t.Errorf("401 says %s", got.body)
	}
}
