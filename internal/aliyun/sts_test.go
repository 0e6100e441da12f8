package aliyun

import (
	"errors"
	"net/http"
	"testing"
)

func TestIdentityHasAShortNameForPeople(t *testing.T) {
	for _, c := range []struct{ arn, name, role, user string }{
		{"acs:ram::1:assumed-role/oncegate-operator/amy", "oncegate-operator/amy", "oncegate-operator", ""},
		{"acs:ram::1:user/amy", "amy", "", "amy"},
		{"acs:ram::1:root", "account 1", "", ""},
		{"acs:ram::1:user/user/amy", "", "", ""},
		{"acs:ram::1:assumed-role/oncegate-operator", "", "", ""},
		{"acs:ram::1:assumed-role//amy", "", "", ""},
		{"acs:ram::1:assumed-role/r/", "", "", ""},
		{"acs:ram::1:user/", "", "", ""},
		{"acs:ram:::user/amy", "", "", ""},
		{"arn:aws::1:user/amy", "", "", ""},
		{"acs:ram::1:group/amy", "", "", ""},
		{"", "", "", ""},
	} {
		i := Identity{ARN: c.arn}
		if i.Name() != c.name || i.Role() != c.role || i.User() != c.user {
			t.Errorf("%s: got %q %q %q", c.arn, i.Name(), i.Role(), i.User())
		}
		if err := i.Check(); (err == nil) != (c.name != "") || err != nil && !errors.Is(err, ErrNoIdentity) {
			t.Errorf("%s: %v", c.arn, err)
		}
	}
	first := Identity{ARN: "acs:ram::1:assumed-role/r/amy", PrincipalID: "1:amy"}
	again := Identity{ARN: "acs:ram::1:assumed-role/r/amy", PrincipalID: "2:amy"}
	if first.Name() != again.Name() {
		t.Error("two sessions of one role and name differ")
	}
}

func TestCallerIdentityReadsTheAnswerAndRefusesOneThatNamesNobody(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		want   Identity
		kind   Kind
		fails  bool
	}{
		"a role": {
			200, `{"AccountId":"1","Arn":"acs:ram::1:assumed-role/r/amy","IdentityType":"AssumedRoleUser","PrincipalId":"33:amy","RequestId":"x","RoleId":"33"}`,
			Identity{"acs:ram::1:assumed-role/r/amy", "1", "AssumedRoleUser", "33:amy"},
			"", false,
		},
		"nobody":       {200, `{}`, Identity{}, KindUnknown, true},
		"no JSON":      {200, `<html>`, Identity{}, KindUnknown, true},
		"a wrong type": {200, `{"Arn":1}`, Identity{}, KindUnknown, true},
		"unknown key":  {404, `{"Code":"InvalidAccessKeyId.NotFound"}`, Identity{}, KindDenied, true},
		"a bad day":    {503, ``, Identity{}, KindUnknown, true},
	} {
		var calls int
		s, err := NewSTS("https://sts.aliyuncs.com", Options{Credentials: someone, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
			if r.URL.String() != "https://sts.aliyuncs.com/" || r.Header.Get("x-acs-action") != "GetCallerIdentity" || r.Header.Get("x-acs-version") != "2015-04-01" || r.Header.Get("Accept") != "application/json" {
				t.Errorf("%s %v", r.URL, r.Header)
			}
			return answering(&calls, c.status, nil, []byte(c.body)).RoundTrip(r)
		})})
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.CallerIdentity(t.Context())
		if (err != nil) != c.fails || got != c.want && !c.fails || c.fails && KindOf(err) != c.kind {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
	if _, err := NewSTS("https://sts.aliyuncs.com", Options{}); err == nil {
		t.Error("a client without a source of credentials was made")
	}
}

func TestErrorsSayWhatTheyAreAbout(t *testing.T) {
	var e *Error
	s, err := NewTablestore("http://in-process", "i", Options{Credentials: someone, Transport: answering(new(int), 503, nil, []byte("x"))})
	if err != nil {
		t.Fatal(err)
	}
	for op, call := range otsCalls {
		want := "tasks"
		if op == "CreateTable" {
			want = "other"
		}
		if err := call(t.Context(), s); !errors.As(err, &e) || e.Resource != want || e.Op != op {
			t.Errorf("%s: %#v", op, err)
		}
	}
	if err := s.DeleteFixed(t.Context(), tasks, "k"); !errors.As(err, &e) || e.Resource != "tasks" || e.Op != "DeleteRow" {
		t.Errorf("DeleteRow: %#v", err)
	}
	b, err := NewBucket("http://127.0.0.1", "room", Options{Credentials: someone, Transport: answering(new(int), 503, nil, []byte("x"))})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.DeleteVersion(t.Context(), "a/b", "v"); !errors.As(err, &e) || e.Resource != "room/a/b" || e.Op != "DeleteObject" {
		t.Errorf("DeleteObject: %#v", err)
	}
	for op, want := range map[string]string{"PutObject": "room/a/b", "GetObject": "room/old", "ListObjects": "room"} {
		if err := ossCalls[op](t.Context(), b); !errors.As(err, &e) || e.Resource != want || e.Op != op {
			t.Errorf("%s: %#v", op, err)
		}
	}
}
