package cloudtest

import (
	"testing"
	"time"
)

func TestCredentialsAreIssuedRevokedAndExpire(t *testing.T) {
	now := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	c := new(Credentials)
	if _, known, expired := c.Lookup("nobody", now); known || expired {
		t.Error("the zero value knows somebody")
	}
	lasting, passing := c.Issue(time.Time{}), c.Issue(now)
	c.Add(Credential{AccessKeyID: "plain", AccessKeySecret: "s"})
	if lasting.AccessKeyID == passing.AccessKeyID || lasting.AccessKeySecret == passing.AccessKeySecret || lasting.SecurityToken == passing.SecurityToken {
		t.Error("two credentials are alike")
	}
	for name, step := range map[string]struct {
		id             string
		at             time.Time
		known, expired bool
	}{
		"one that lasts":         {lasting.AccessKeyID, now.AddDate(100, 0, 0), true, false},
		"right before its end":   {passing.AccessKeyID, now.Add(-1), true, false},
		"at its end":             {passing.AccessKeyID, now, true, true},
		"one made elsewhere":     {"plain", now, true, false},
		"one that nobody issued": {"other", now, false, false},
	} {
		cred, known, expired := c.Lookup(step.id, step.at)
		if known != step.known || expired != step.expired || (known && cred.AccessKeyID != step.id) {
			t.Errorf("%s: got %v %v", name, known, expired)
		}
	}
	c.Revoke(lasting.AccessKeyID)
	if _, known, expired := c.Lookup(lasting.AccessKeyID, now); known || expired {
		t.Error("a revoked one is known")
	}
	if _, known, _ := c.Lookup("plain", now); !known {
		t.Error("another one was revoked")
	}
}
