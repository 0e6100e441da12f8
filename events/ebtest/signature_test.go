package ebtest_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/events/ebtest"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// through is a transport into a handler; change may spoil a request on its way.
type through struct {
	h      http.Handler
	change func(*http.Request)
}

func (t through) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if t.change != nil {
		t.change(r)
	}
	w := httptest.NewRecorder()
	t.h.ServeHTTP(w, r)
	return w.Result(), nil
}

const signedEvent = `{"specversion":"1.0","id":"e1","source":"s","type":"t","aliyuneventbusname":"orders","data":{}}`

func TestACallIsAcceptedByItsSignatureAndPolicyAlone(t *testing.T) {
	now := time.Date(2026, 8, 4, 10, 0, 0, 0, time.UTC)
	policy, err := cloudtest.ParsePolicy([]byte(`{"Version":"1","Statement":[{"Effect":"Allow","Action":"eventbridge:PutEvents",
		"Resource":"acs:eventbridge:cn-hangzhou:` + cloudtest.AccountID + `:eventbus/orders"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		cred   func(*aliyun.Credentials)
		change func(*http.Request)
		event  string
		clock  time.Duration
		code   string
	}{
		{name: "signed", event: signedEvent},
		{name: "another secret", event: signedEvent, cred: func(c *aliyun.Credentials) { c.AccessKeySecret += "x" }, code: ebtest.CodeBadSignature},
		{name: "another key", event: signedEvent, cred: func(c *aliyun.Credentials) { c.AccessKeyID += "x" }, code: ebtest.CodeUnknownKey},
		{name: "no token", event: signedEvent, cred: func(c *aliyun.Credentials) { c.SecurityToken = "" }, code: ebtest.CodeBadToken},
		{name: "over", event: signedEvent, clock: 2 * time.Hour, code: ebtest.CodeExpiredToken},
		{name: "a clock that is off", event: signedEvent, clock: 20 * time.Minute, code: ebtest.CodeBadDate},
		{name: "no signature", event: signedEvent, change: func(r *http.Request) { r.Header.Del("Authorization") }, code: ebtest.CodeNotSigned},
		{name: "another version of it", event: signedEvent, change: func(r *http.Request) { r.Header.Set("x-acs-signature-version", "1.1") }, code: ebtest.CodeNotSigned},
		{name: "another nonce", event: signedEvent, change: func(r *http.Request) { r.Header.Set("x-acs-signature-nonce", "n") }, code: ebtest.CodeBadSignature},
		{name: "another content type", event: signedEvent, change: func(r *http.Request) { r.Header.Set("Content-Type", "application/cloudevents-batch+json") }, code: ebtest.CodeBadSignature},
		{name: "another bus", event: strings.Replace(signedEvent, "orders", "payroll", 1), code: ebtest.CodeNoPermission},
	} {
		t.Run(c.name, func(t *testing.T) {
			var creds cloudtest.Credentials
			tg := &target{}
			b := newBus(t, ebtest.Options{
				Bus: "orders", Now: func() time.Time { return now.Add(c.clock) },
				Rules: []ebtest.Rule{{Name: "r", Target: tg.invoke}},
			})
			issued := creds.IssueTo(cloudtest.AssumedRole("oncegate-publisher", "p", policy), now.Add(time.Hour))
			own := aliyun.Credentials{AccessKeyID: issued.AccessKeyID, AccessKeySecret: issued.AccessKeySecret, SecurityToken: issued.SecurityToken}
			if c.cred != nil {
				c.cred(&own)
			}
			client, err := aliyun.NewPublisher("http://bus.local", aliyun.Options{
				Credentials: func(context.Context) (aliyun.Credentials, error) { return own, nil },
				Transport:   through{b.PutEventsHandler(b.Signed(&creds)), c.change}, Now: func() time.Time { return now },
			})
			if err != nil {
				t.Fatal(err)
			}
			got, err := client.PutEvents(t.Context(), "orders", [][]byte{[]byte(c.event)})
			if c.code == "" {
				if err != nil || len(got) != 1 || got[0].Code != "" || got[0].TraceID == "" {
					t.Fatalf("%+v %v", got, err)
				}
				return
			}
			var call *aliyun.Error
			if !errors.As(err, &call) || call.Code != c.code || call.Kind == aliyun.KindUnknown {
				t.Errorf("%v, want %s", err, c.code)
			}
		})
	}
}

func TestACallThatIsSentAgainAsItWasIsRefused(t *testing.T) {
	var creds cloudtest.Credentials
	tg := &target{}
	b := newBus(t, ebtest.Options{Bus: "orders", Rules: []ebtest.Rule{{Name: "r", Target: tg.invoke}}})
	issued := creds.Issue(time.Time{})
	h := b.PutEventsHandler(b.Signed(&creds))
	var seen http.Header
	client, err := aliyun.NewPublisher("http://bus.local", aliyun.Options{
		Credentials: func(context.Context) (aliyun.Credentials, error) {
			return aliyun.Credentials{AccessKeyID: issued.AccessKeyID, AccessKeySecret: issued.AccessKeySecret, SecurityToken: issued.SecurityToken}, nil
		},
		Transport: through{h, func(r *http.Request) { seen = r.Header.Clone() }},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.PutEvents(t.Context(), "orders", [][]byte{[]byte(signedEvent)}); err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest("POST", "/openapi/putEvents", strings.NewReader("["+signedEvent+"]"))
	r.Header = seen
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body, _ := io.ReadAll(w.Body)
	if w.Code != http.StatusBadRequest || !strings.Contains(string(body), ebtest.CodeRepeated) {
		t.Errorf("%d %s", w.Code, body)
	}
}
