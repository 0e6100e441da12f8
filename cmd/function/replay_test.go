package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/handler/fctest"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

const (
	planCall       = "tablestore GetRow replay_plans"
	approvalCall   = "tablestore GetRow replay_approvals"
	letterReadCall = "tablestore GetRow dead_letters"
)

// refusedOnce is a task that the model refuses for good at its first try.
var refusedOnce = work{"notice", "N-1", "[[model status=400 times=1]] Order 17"}

// admin is a client of people and of their tools.
func (w *world) admin(t *testing.T) *aliyun.Tablestore {
	t.Helper()
	transport := aliyun.NewTransport(1)
	t.Cleanup(transport.CloseIdleConnections)
	store, err := aliyun.NewTablestore(w.tables.Endpoint(), "oncegate", as(w.accepted.Issue(time.Time{}), transport))
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// deadLettered brings a task to FAILED_FINAL and returns its letter.
func (w *world) deadLettered(t *testing.T, store *aliyun.Tablestore, k work) letter.Letter {
	t.Helper()
	r := w.redeliver(k.event("evt-1"))
	if r.Decision != handler.DecisionFinal {
		t.Fatalf("got %+v", r)
	}
	l, ok, err := letter.NewTable(store).Get(t.Context(), r.LetterID)
	if err != nil || !ok {
		t.Fatalf("letter: %v, %v", ok, err)
	}
	return l
}

// approved makes a plan of one letter, approves it, and returns the call of its replay.
func (w *world) approved(t *testing.T, store *aliyun.Tablestore, k work, l letter.Letter) (call []byte) {
	t.Helper()
	rec := w.recordOf(k)
	item := plan.Frozen{
		LetterID: l.ID, LetterRevision: l.Revision, EventID: l.EventID, RawRef: l.RawRef, RawSHA256: l.RawSHA256, Key: l.Key,
		InputDigest: l.InputDigest, RecordRevision: rec.Revision, RecordDigest: rec.InputDigest, Qualifier: "LATEST",
	}
	tree := new(plan.Tree)
	if err := tree.Add(item); err != nil {
		t.Fatal(err)
	}
	root, err := tree.Root()
	if err != nil {
		t.Fatal(err)
	}
	h := plan.Header{
		Version: 1, ID: "rp-1", Environment: environment, Fingerprint: l.Fingerprint, Code: l.Code, Target: l.Target, Reason: "the model is back",
		MadeBy: "amy", MadeAt: time.Now().UnixMilli(), Count: 1, ItemsRoot: root, HighImpact: []string{"a permanent code"}, Stages: []int64{1},
	}
	plans := plan.NewStore(store)
	if err := plans.Create(t.Context(), plan.Plan{Header: h, State: plan.StateRunning, UpdatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	if err := plans.Decide(t.Context(), plan.Approval{PlanID: h.ID, Digest: h.Digest(), Verdict: plan.VerdictApproved, By: "bob", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	call, err = json.Marshal(plan.Envelope{Oncegate: plan.EnvelopeReplay, Batch: h.ID, Item: item, Proof: []string{}, Raw: k.event("evt-1")})
	if err != nil {
		t.Fatal(err)
	}
	return call
}

func TestS42KilledAtEveryCallOfAReplay(t *testing.T) {
	t.Parallel()
	k := refusedOnce
	w := newWorld(t, watchedEffects)
	store := w.admin(t)
	call := w.approved(t, store, k, w.deadLettered(t, store, k))
	from := w.journalled()
	if r := result(t, w.deliver(call)); r.Decision != handler.DecisionExecuted || r.Attempt != 2 {
		t.Fatalf("undisturbed: %+v", r)
	}
	calls := w.calls(from)
	// The effect's row may be there after a first attempt, so it is read.
	wantCalls(t, calls, planCall, approvalCall, letterReadCall, readCall, updateCall, readCall, listCall, modelCall, inputCall, outputCall,
		claimCall, noticeCall, updateCall, updateCall)
	w.checkDone(t, k)
	if r := result(t, w.deliver(call)); r.Decision != handler.DecisionDuplicate {
		t.Errorf("a second copy: %+v", r)
	}

	each(t, matrix(calls), strike.String, func(t *testing.T, s strike) {
		w := newWorld(t, watchedEffects)
		store := w.admin(t)
		call := w.approved(t, store, k, w.deadLettered(t, store, k))
		w.strikes = []strike{s}
		if resp := w.deliver(call); resp.Ending != fctest.Crashed {
			t.Errorf("got %s %s", resp.Ending, resp.Payload)
		}
		w.deliver(call) // the sender's second copy
		w.redeliver(k.event("evt-1"))
		if w.recordOf(k).Status == idempotency.StatusFailedFinal {
			t.Errorf("neither the second copy nor the redelivery has run: %+v", w.recordOf(k))
		}
		w.checkDone(t, k)
		if rec := w.recordOf(k); rec.ReplayBatchID != "rp-1" {
			t.Errorf("record %+v", rec)
		}
		w.killed(t, 1)
		if r := result(t, w.deliver(call)); r.Decision != handler.DecisionDuplicate {
			t.Errorf("a copy at the end: %+v", r)
		}
	})
}

func TestADiscardedLettersTaskIsAbandoned(t *testing.T) {
	t.Parallel()
	k := refusedOnce
	w := newWorld(t, watchedEffects)
	store := w.admin(t)
	l := w.deadLettered(t, store, k)
	call, err := json.Marshal(handler.Envelope{Oncegate: handler.EnvelopeAbandon, Letter: l.ID})
	if err != nil {
		t.Fatal(err)
	}
	if r := result(t, w.deliver(call)); r.Decision != handler.DecisionAbandonRefused || r.ErrorCode != idempotency.CodeInvalidRequest {
		t.Errorf("while the letter is open: %+v", r)
	}
	if err := letter.NewTable(store).Close(t.Context(), l.ID, letter.FinalDiscarded, "li", "nobody needs it any more", time.Now()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r := result(t, w.deliver(call)); r.Decision != handler.DecisionAbandoned || r.ErrorCode != "" || r.Status != idempotency.StatusFailedFinal {
			t.Errorf("got %+v", r)
		}
	}
	if r := w.redeliver(k.event("evt-1")); r.Decision != handler.DecisionFinal || r.LetterID != l.ID {
		t.Errorf("a late delivery: %+v", r)
	}
	if rec := w.recordOf(k); !rec.Abandoned || rec.Attempt != 1 || len(w.targets.Notifications()) != 0 {
		t.Errorf("record %+v", rec)
	}
}
