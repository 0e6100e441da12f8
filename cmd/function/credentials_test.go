package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/handler/fctest"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestCredentialsBelongToTheInvocation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	for i := range 8 {
		b := business{fmt.Sprintf("rotated %d", i), "Order 17 is late."}
		if r := result(t, w.deliver(b.event("evt-1"))); r.Decision != handler.DecisionExecuted || r.Attempt != 1 {
			t.Errorf("delivery %d: %+v", i, r)
		}
	}
	if s := w.fn.Stats(); s.Starts != 1 {
		t.Errorf("%d processes ran, want one warm one", s.Starts)
	}
	// One for the process itself, one for each invocation; all but the last are revoked.
	if len(w.secrets) != 2*9 {
		t.Errorf("%d secrets were handed out", len(w.secrets))
	}
}

func TestExpiredCredentialsAreARetryableError(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		cred func(w *world) cloudtest.Credential
	}{
		{"expired", func(w *world) cloudtest.Credential { return w.accepted.Issue(time.Now().Add(-time.Minute)) }},
		{"never issued", func(*world) cloudtest.Credential {
			return cloudtest.Credential{AccessKeyID: "STS.unknown", AccessKeySecret: "unknown-secret", SecurityToken: "unknown-token"}
		}},
		{"absent", func(*world) cloudtest.Credential { return cloudtest.Credential{} }},
	} {
		t.Run(c.name, func(t *testing.T) {
			var w *world
			bad := false
			w = newWorld(t, options{issue: func() *cloudtest.Credential {
				if !bad {
					return nil
				}
				cred := c.cred(w)
				return &cred
			}})
			warm := business{"warm", "Order 17 is late."}
			if r := result(t, w.deliver(warm.event("evt-1"))); r.Decision != handler.DecisionExecuted {
				t.Fatalf("got %+v", r)
			}
			b := business{"expired", "Order 17 is late."}
			bad = true
			for range 2 {
				resp := w.deliver(b.event("evt-2"))
				if resp.Ending != fctest.Failed || resp.ErrorType != string(idempotency.CodeTemporaryUnavailable) || resp.ErrorMessage != "not done yet; deliver again" {
					t.Errorf("got %s %s", resp.Ending, resp.Payload)
				}
			}
			if n := w.model.Calls(); n != 1 {
				t.Errorf("%d model calls: the work began without a claim", n)
			}
			bad = false
			if r := result(t, w.deliver(b.event("evt-2"))); r.Decision != handler.DecisionExecuted || r.Attempt != 1 {
				t.Errorf("then %+v", r)
			}
			if s := w.fn.Stats(); s.Starts != 1 || s.Crashes != 0 {
				t.Errorf("the process did not live on: %+v", s)
			}
		})
	}
}

func TestCredentialsThatEndInTheMiddleOfARun(t *testing.T) {
	t.Parallel()
	for _, at := range []string{claimCall, modelCall, outputCall} {
		t.Run("after "+at, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, options{timeout: short})
			revoked := false // calls come one after the other here
			hook := func(c cloudtest.Call, p cloudtest.Phase) {
				if kindOf(c) == at && p == cloudtest.After && !revoked {
					revoked = true
					w.accepted.Revoke(w.lastKey())
				}
				w.hook(c, p)
			}
			for service, f := range w.faults() {
				if at[:len(service)] == service {
					f.Hook(hook)
				}
			}
			b := business{"revoked", "Order 17 is late."}
			resp := w.deliver(b.event("evt-1"))
			if resp.Ending != fctest.Failed || resp.ErrorType != string(idempotency.CodeTemporaryUnavailable) {
				t.Errorf("got %s %s", resp.Ending, resp.Payload)
			}
			if r := w.redeliver(b.event("evt-1")); r.Decision != handler.DecisionExecuted {
				t.Errorf("then %+v", r)
			}
			w.settledOnce(t, 1)
		})
	}
}

func (w *world) lastKey() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last
}
