package fctest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// account is a front and the credentials that it knows.
type account struct {
	*Front
	creds *cloudtest.Credentials
}

func newAccount(t *testing.T, o FrontOptions) account {
	t.Helper()
	o.Credentials = new(cloudtest.Credentials)
	f, err := NewFront(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return account{f, o.Credentials}
}

func (a account) client(t *testing.T, c cloudtest.Credential, wrap func(*http.Request)) *aliyun.Functions {
	t.Helper()
	rt := http.RoundTripper(a.Transport())
	if wrap != nil {
		rt = changing{rt, wrap}
	}
	client, err := aliyun.NewFunctions("http://fc.local", aliyun.Options{Transport: rt, Credentials: func(context.Context) (aliyun.Credentials, error) {
		return aliyun.Credentials{AccessKeyID: c.AccessKeyID, AccessKeySecret: c.AccessKeySecret, SecurityToken: c.SecurityToken}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// changing changes a request after it was signed.
type changing struct {
	rt     http.RoundTripper
	change func(*http.Request)
}

func (c changing) RoundTrip(r *http.Request) (*http.Response, error) {
	c.change(r)
	return c.rt.RoundTrip(r)
}

// wantRefusal holds an error against the service's kind and code.
func wantRefusal(t *testing.T, err error, kind aliyun.Kind, code string) {
	t.Helper()
	var e *aliyun.Error
	if !errors.As(err, &e) || e.Kind != kind || e.Code != code || e.RequestID == "" {
		t.Errorf("got %#v, want %s %s", err, kind, code)
	}
}

func TestFrontRunsVersionsSideBySide(t *testing.T) {
	a := newAccount(t, FrontOptions{})
	if err := a.Start(); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"1", "2"} {
		a.Deploy(start(t, Options{VersionID: version, Qualifier: "v" + version}))
	}
	a.Deploy(start(t, Options{FunctionName: "other"}))
	if err := a.Alias("oncegate-tasks", "live", "1"); err != nil {
		t.Fatal(err)
	}
	c := a.issue()
	client, err := aliyun.NewFunctions(a.Endpoint(), aliyun.Options{Credentials: func(context.Context) (aliyun.Credentials, error) { return c, nil }, Transport: &http.Transport{}})
	if err != nil {
		t.Fatal(err)
	}
	invoke := func(function, qualifier string) (aliyun.Invocation, error) {
		return client.Invoke(t.Context(), function, qualifier, order("echo", "hello", ""))
	}
	runs := func(function, qualifier, version string) {
		t.Helper()
		out, err := invoke(function, qualifier)
		if err != nil || out.VersionID != version || string(out.Payload) != `"hello"` || out.RequestID == "" {
			t.Errorf("%s %s: got %+v, %v", function, qualifier, out, err)
		}
	}
	runs("oncegate-tasks", "1", "1")
	runs("oncegate-tasks", "2", "2")
	runs("oncegate-tasks", "v2", "2")
	runs("oncegate-tasks", "live", "1")
	runs("other", "", "LATEST")
	if err := a.Alias("oncegate-tasks", "live", "2"); err != nil {
		t.Fatal(err)
	}
	runs("oncegate-tasks", "live", "2")
	if version, err := client.AliasVersion(t.Context(), "oncegate-tasks", "live"); err != nil || version != "2" {
		t.Errorf("the alias points to %q, %v", version, err)
	}
	_, err = client.AliasVersion(t.Context(), "oncegate-tasks", "beta")
	wantRefusal(t, err, aliyun.KindNotFound, "AliasNotFound")
	_, err = client.AliasVersion(t.Context(), "nobody", "live")
	wantRefusal(t, err, aliyun.KindNotFound, "FunctionNotFound")
	a.Remove("oncegate-tasks", "2")
	for _, c := range []struct{ function, qualifier, code string }{
		{"oncegate-tasks", "2", "VersionNotFound"},
		{"oncegate-tasks", "live", "VersionNotFound"},
		{"oncegate-tasks", "", "VersionNotFound"},
		{"oncegate-tasks", "beta", "AliasNotFound"},
		{"oncegate", "1", "FunctionNotFound"},
		{"nobody", "live", "FunctionNotFound"},
	} {
		_, err := invoke(c.function, c.qualifier)
		wantRefusal(t, err, aliyun.KindNotFound, c.code)
	}
	for alias, version := range map[string]string{"live": "9", "3": "1", "LATEST": "1"} {
		if err := a.Alias("oncegate-tasks", alias, version); err == nil {
			t.Errorf("alias %s points at %s", alias, version)
		}
	}
}

func (a account) issue() aliyun.Credentials {
	c := a.creds.Issue(time.Time{})
	return aliyun.Credentials{AccessKeyID: c.AccessKeyID, AccessKeySecret: c.AccessKeySecret, SecurityToken: c.SecurityToken}
}

func TestFrontRefusesWhatIsNotSignedByAKnownKey(t *testing.T) {
	now := time.Now()
	a := newAccount(t, FrontOptions{Now: func() time.Time { return now }})
	good := a.creds.Issue(time.Time{})
	wrongSecret, wrongToken := good, good
	wrongSecret.AccessKeySecret, wrongToken.SecurityToken = "other", "other"
	plain := good
	plain.SecurityToken = ""
	for name, c := range map[string]struct {
		cred   cloudtest.Credential
		change func(*http.Request)
		kind   aliyun.Kind
		code   string
	}{
		"a good call of a function that is not there": {good, nil, aliyun.KindNotFound, "FunctionNotFound"},
		"an unknown key":   {cloudtest.Credential{AccessKeyID: "x", AccessKeySecret: "y"}, nil, aliyun.KindDenied, "InvalidAccessKeyID"},
		"another secret":   {wrongSecret, nil, aliyun.KindDenied, "SignatureNotMatch"},
		"another token":    {wrongToken, nil, aliyun.KindDenied, "InvalidSecurityToken"},
		"no token":         {plain, nil, aliyun.KindDenied, "InvalidSecurityToken"},
		"an expired key":   {a.creds.Issue(now), nil, aliyun.KindDenied, "InvalidSecurityToken"},
		"no signature":     {good, func(r *http.Request) { r.Header.Del("Authorization") }, aliyun.KindInvalid, "MissingRequiredHeader"},
		"an odd signature": {good, func(r *http.Request) { r.Header.Set("Authorization", "ACS3-HMAC-SHA256 x=y") }, aliyun.KindInvalid, "MissingRequiredHeader"},
		"an old date":      {good, func(r *http.Request) { r.Header.Set("x-acs-date", "2020-01-01T00:00:00Z") }, aliyun.KindInvalid, "MissingRequiredHeader"},
		"another date": {good, func(r *http.Request) {
			r.Header.Set("x-acs-date", now.Add(-time.Minute).UTC().Format("2006-01-02T15:04:05Z"))
		}, aliyun.KindDenied, "SignatureNotMatch"},
		"a header that is not signed": {good, func(r *http.Request) { r.Header.Set("x-acs-more", "x") }, aliyun.KindInvalid, "MissingRequiredHeader"},
		"another qualifier":           {good, func(r *http.Request) { r.URL.RawQuery = "qualifier=2" }, aliyun.KindDenied, "SignatureNotMatch"},
		"another function":            {good, func(r *http.Request) { r.URL.Path = "/2023-03-30/functions/other/invocations" }, aliyun.KindDenied, "SignatureNotMatch"},
		"another host":                {good, func(r *http.Request) { r.Host = "elsewhere" }, aliyun.KindDenied, "SignatureNotMatch"},
		"another body": {good, func(r *http.Request) {
			r.Body = io.NopCloser(bytes.NewReader([]byte("other")))
		}, aliyun.KindDenied, "SignatureNotMatch"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := a.client(t, c.cred, c.change).Invoke(t.Context(), "f", "1", []byte("event"))
			wantRefusal(t, err, c.kind, c.code)
		})
	}
	t.Run("the same call twice", func(t *testing.T) {
		var first *http.Request
		client := a.client(t, good, func(r *http.Request) { first = r.Clone(context.Background()) })
		_, err := client.Invoke(t.Context(), "f", "1", nil)
		wantRefusal(t, err, aliyun.KindNotFound, "FunctionNotFound")
		first.Body = http.NoBody
		resp, err := a.Transport().RoundTrip(first)
		if err != nil || resp.StatusCode != 400 {
			t.Errorf("got %v, %v", resp, err)
		}
	})
}

func TestFrontAsksThePoliciesForTheQualifier(t *testing.T) {
	a := newAccount(t, FrontOptions{})
	a.Deploy(start(t, Options{VersionID: "1", Qualifier: "live"}))
	for name, c := range map[string]struct {
		action, resource  string
		named, whole, ver bool
	}{
		"the function alone": {"fc:InvokeFunction", "acs:fc:*:*:functions/oncegate-tasks", false, true, false},
		"its qualifiers":     {"fc:InvokeFunction", "acs:fc:*:*:functions/oncegate-tasks/*", true, false, true},
		"one version":        {"fc:InvokeFunction", "acs:fc:*:*:functions/oncegate-tasks/1", false, false, true},
		"another function":   {"fc:InvokeFunction", "acs:fc:*:*:functions/other*", false, false, false},
		"another account":    {"fc:InvokeFunction", "acs:fc:*:1:functions/*", false, false, false},
		"another action":     {"fc:GetFunction", "*", false, false, false},
	} {
		p, err := cloudtest.ParsePolicy(fmt.Appendf(nil, `{"Version":"1","Statement":[{"Effect":"Allow","Action":%q,"Resource":%q}]}`, c.action, c.resource))
		if err != nil {
			t.Fatal(err)
		}
		client := a.client(t, a.creds.IssueTo(cloudtest.AssumedRole("r", "amy", p), time.Time{}), nil)
		for qualifier, want := range map[string]bool{"live": c.named, "": c.whole, "1": c.ver} {
			_, err := client.Invoke(t.Context(), "oncegate-tasks", qualifier, order("echo", "x", ""))
			switch {
			case !want:
				wantRefusal(t, err, aliyun.KindDenied, "AccessDenied")
			case qualifier == "":
				wantRefusal(t, err, aliyun.KindNotFound, "VersionNotFound")
			case err != nil:
				t.Errorf("%s, qualifier %q: %v", name, qualifier, err)
			}
		}
	}
}

func TestFrontLosesAnswersAndThrottlesAsPlanned(t *testing.T) {
	a := newAccount(t, FrontOptions{RetryAfter: 3 * time.Second})
	f := start(t, Options{VersionID: "1", Qualifier: "live"})
	a.Deploy(f)
	client := a.client(t, a.creds.Issue(time.Time{}), nil)
	a.Faults.Add(
		cloudtest.Fault{Target: "oncegate-tasks/live", Phase: cloudtest.After, Kind: cloudtest.Drop},
		cloudtest.Fault{Op: "InvokeFunction", Phase: cloudtest.Before, Kind: cloudtest.Status, Status: 429, Code: "ResourceExhausted", Skip: 1},
	)
	if _, err := client.Invoke(t.Context(), "oncegate-tasks", "live", order("echo", "x", "")); aliyun.KindOf(err) != aliyun.KindUnknown || f.Stats().Invocations != 1 {
		t.Errorf("a lost answer: %v, %d runs", err, f.Stats().Invocations)
	}
	_, err := client.Invoke(t.Context(), "oncegate-tasks", "live", order("echo", "x", ""))
	wantRefusal(t, err, aliyun.KindThrottled, "ResourceExhausted")
	if e, ok := errors.AsType[*aliyun.Error](err); !ok || e.RetryAfter != 3*time.Second || f.Stats().Invocations != 1 {
		t.Errorf("got %#v, %d runs", err, f.Stats().Invocations)
	}
	out, err := client.Invoke(t.Context(), "oncegate-tasks", "live", order("typed error", "words", ""))
	if err != nil || out.FunctionError != UnhandledInvocationError || out.ErrorType != "rate_limited" {
		t.Errorf("a fault of the function: %+v, %v", out, err)
	}
	if _, err := NewFront(FrontOptions{}); err == nil {
		t.Error("a front without credentials was made")
	}
}
