package cloudtest

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/aliyun"
)

func TestSTSSaysWhoseACredentialIs(t *testing.T) {
	creds, now := new(Credentials), time.Now()
	s, err := NewSTS(creds, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ask := func(c Credential, rt http.RoundTripper) (aliyun.Identity, error) {
		client, err := aliyun.NewSTS(s.Endpoint(), aliyun.Options{Transport: rt, Credentials: func(context.Context) (aliyun.Credentials, error) {
			return aliyun.Credentials{AccessKeyID: c.AccessKeyID, AccessKeySecret: c.AccessKeySecret, SecurityToken: c.SecurityToken}, nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		return client.CallerIdentity(t.Context())
	}
	for want, id := range map[string]*Identity{
		"oncegate-operator/amy": AssumedRole("oncegate-operator", "amy"),
		"amy":                   RAMUser("amy"),
		"account " + AccountID:  nil,
	} {
		cred := creds.IssueTo(id, time.Time{})
		for name, rt := range map[string]http.RoundTripper{"in process": s.Transport(), "over a socket": &http.Transport{}} {
			got, err := ask(cred, rt)
			if err != nil || got.Name() != want || got.AccountID != AccountID || got.PrincipalID == "" || got.Type == "" {
				t.Errorf("%s: got %+v, %v, want %s", name, got, err, want)
			}
		}
	}
	good := creds.Issue(time.Time{})
	wrong, plain := good, good
	wrong.AccessKeySecret, plain.SecurityToken = "x", ""
	for code, cred := range map[string]Credential{
		"InvalidAccessKeyId.NotFound":    {AccessKeyID: "x", AccessKeySecret: "y"},
		"SignatureDoesNotMatch":          wrong,
		"InvalidSecurityToken.Malformed": plain,
		"InvalidSecurityToken.Expired":   creds.Issue(now),
	} {
		_, err := ask(cred, s.Transport())
		if e, ok := errors.AsType[*aliyun.Error](err); !ok || e.Kind != aliyun.KindDenied || e.Code != code || e.RequestID == "" {
			t.Errorf("%s: got %#v", code, err)
		}
	}
	s.Faults.Add(Fault{Phase: Before, Kind: Status, Status: 503, Code: "ServiceUnavailable"})
	if id, err := ask(good, s.Transport()); aliyun.KindOf(err) != aliyun.KindUnknown || id != (aliyun.Identity{}) {
		t.Errorf("a look-up that fails: %+v, %v", id, err)
	}
	if _, err := NewSTS(nil, nil); err == nil {
		t.Error("a stand-in without credentials was made")
	}
}

func TestACredentialAllowsWhatItsIdentityMayDo(t *testing.T) {
	creds := new(Credentials)
	access := Access{Action: "ots:GetRow", Resource: "acs:ots:cn-hangzhou:1:instance/i/table/tasks"}
	for name, c := range map[string]struct {
		id   *Identity
		want bool
	}{
		"nobody in particular":      {nil, true},
		"a role without a policy":   {AssumedRole("r", "s"), false},
		"a role that may":           {AssumedRole("r", "s", policy(t, allowTasks)), true},
		"a role that is denied":     {AssumedRole("r", "s", policy(t, allowTasks), policy(t, `{"Effect":"Deny","Action":"ots:*","Resource":"*"}`)), false},
		"a user that may":           {RAMUser("amy", policy(t, allowAll)), true},
		"a role of another service": {AssumedRole("r", "s", policy(t, listLetters)), false},
	} {
		held, _, _ := creds.Lookup(creds.IssueTo(c.id, time.Time{}).AccessKeyID, time.Now())
		if got := held.Allows(access); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
