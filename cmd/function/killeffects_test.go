package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/handler/fctest"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

const (
	noticeCall = "target Notify"
	robotCall  = "target Robot"
	createCall = "target CreateRecord"
	findCall   = "target FindRecord"
	reviewCall = "tablestore PutRow reviews"
)

// killing is a task whose process is killed, once in each of the first deliveries.
type killing struct {
	work
	strikes []strike
}

func (k killing) String() string {
	return fmt.Sprintf("%s %v", k.flow, k.strikes)
}

func TestKilledAtEveryCallOfADeliveryWithEffects(t *testing.T) {
	t.Parallel()
	var cases []killing
	for _, c := range []struct {
		work work
		want []string
	}{
		{work{"notice", "N-1", "Order 17"}, []string{modelCall, claimCall, noticeCall, updateCall}},
		{work{"message", "N-1", "Order 17"}, []string{modelCall, claimCall, robotCall, updateCall}},
		{work{"record", "N-1", "Order 17"}, []string{claimCall, findCall, createCall, findCall, updateCall}},
		{work{"publish", "N-1", "Order 17"}, []string{modelCall, claimCall, draftCall(work{"publish", "N-1", ""}), updateCall, claimCall, noticeCall, updateCall}},
	} {
		w := newWorld(t, watchedEffects)
		if r := w.redeliver(c.work.event("evt-1")); r.Decision != handler.DecisionExecuted {
			t.Fatalf("undisturbed: %+v", r)
		}
		calls := w.calls(0)
		wantCalls(t, calls, append(c.want, claimCall, inputCall, outputCall, updateCall)...)
		w.checkDone(t, c.work)
		for _, s := range matrix(calls) {
			cases = append(cases, killing{c.work, []strike{s}})
		}
	}
	each(t, cases, killing.String, survives)
}

// draftCall is the call that stores a task's draft; its name tells the effect.
func draftCall(k work) string {
	key := idempotency.HashOf(map[string]string{"task_key": k.key(), "effect": "draft", "artifact_type": "draft"})
	return "oss PutObject draft-" + key[:12] + ".json"
}

func TestKilledAgainAtTheTargetOnTheRedelivery(t *testing.T) {
	t.Parallel()
	var cases []killing
	for _, c := range []struct{ flow, first, second string }{
		{"notice", noticeCall, noticeCall},
		{"record", findCall, findCall},
		{"record", createCall, findCall},
		{"publish", noticeCall, noticeCall},
	} {
		for _, a := range []cloudtest.Phase{cloudtest.Before, cloudtest.After} {
			for _, b := range []cloudtest.Phase{cloudtest.Before, cloudtest.After} {
				cases = append(cases, killing{work{c.flow, "N-1", "Order 17"}, []strike{{c.first, 1, a}, {c.second, 1, b}}})
			}
		}
	}
	// Only what was not created is created by the redelivery.
	for _, b := range []cloudtest.Phase{cloudtest.Before, cloudtest.After} {
		cases = append(cases, killing{work{"record", "N-1", "Order 17"}, []strike{{createCall, 1, cloudtest.Before}, {createCall, 1, b}}})
	}
	each(t, cases, killing.String, survives)
}

// The lease is over before the target shows the record: looking then, or creating
// again, would make a second one.
func TestS39TakeoverWaitsUntilTheTargetMustShowTheRecord(t *testing.T) {
	t.Parallel()
	k := work{"record", "N-1", "Order 17"}
	slow := watchedEffects
	slow.flows, slow.lag = strings.ReplaceAll(effectFlows, "visible_after: 1s", "visible_after: 6s"), 5*time.Second
	w := newWorld(t, slow)
	w.strikes = []strike{{createCall, 1, cloudtest.After}}
	r := w.redeliver(k.event("evt-1"))
	if r.Decision != handler.DecisionExecuted {
		t.Errorf("got %+v", r)
	}
	w.killed(t, 1)
	w.checkDone(t, k)
	if e := w.effects(k.key())["record"]; e.Outcome != idempotency.OutcomeTargetExists || e.Attempt != 1 {
		t.Errorf("the effect ends as %+v", e)
	}
}

// The robot has the message and nobody knows: what comes next asks a person, and
// dies at each of its own calls.
func TestKilledAtEveryCallThatHandsAnOpaqueEffectToAPerson(t *testing.T) {
	t.Parallel()
	k := work{"message", "N-1", "Order 17"}
	first := strike{robotCall, 1, cloudtest.After}
	w := newWorld(t, watchedEffects)
	w.strikes = []strike{first}
	w.deliver(k.event("evt-1"))
	if len(w.targets.RobotMessages()) != 1 {
		t.Fatal("the message was not sent")
	}
	from := 0
	until(t, "an acknowledgement", func() bool {
		from = w.journalled()
		return w.deliver(k.event("evt-1")).Ending == fctest.Returned
	})
	calls := w.calls(from)
	wantCalls(t, calls, claimCall, readCall, updateCall, readCall, adoptCall, inputCall, updateCall, reviewCall, rawCall, letterCall, updateCall)
	w.checkUnknown(t, k)

	var cases []killing
	for _, s := range matrix(calls) {
		cases = append(cases, killing{k, []strike{first, s}})
	}
	each(t, cases, killing.String, survives)
}

// survives kills a task's process at each strike and redelivers until all is
// quiet. What must have become of the task follows from its effects at the time
// of the last kill.
func survives(t *testing.T, k killing) {
	w := newWorld(t, watchedEffects)
	w.strikes = k.strikes
	raw := k.event("evt-1")
	left := func() int {
		w.mu.Lock()
		defer w.mu.Unlock()
		return len(w.strikes)
	}
	for range 20 * len(k.strikes) {
		if w.deliver(raw); left() == 0 {
			break
		}
		waitABit()
	}
	atDeath := w.effects(k.key())
	paid := w.model.Calls()
	stored := len(w.versions("output.json"))

	first := w.redeliver(raw)
	again := w.redeliver(raw)
	w.killed(t, len(k.strikes))
	if len(atDeath) > 0 && stored == 0 {
		t.Error("an effect was sent before its output was stored")
	}
	if n := w.model.Calls(); stored > 0 && n != paid {
		t.Errorf("%d model calls, and %d before, although the output is stored", n, paid)
	}
	message := atDeath["message"]
	unknown := message.State == idempotency.EffectSent || message.State == idempotency.EffectUnknown
	if unknown || w.spare() > 0 && first.Status == idempotency.StatusOutcomeUnknown {
		w.checkUnknown(t, k.work)
		return
	}
	if first.Status != idempotency.StatusSucceeded || again.Decision != handler.DecisionDuplicate || again.ResultRef != first.ResultRef {
		t.Errorf("acknowledged as %+v, then as %+v", first, again)
	}
	w.checkDone(t, k.work)
	w.settledOnce(t, int64(len(k.strikes)))
	for name, e := range w.effects(k.key()) {
		if before, ok := atDeath[name]; ok && (before.Key != e.Key || before.FirstSentAt != e.FirstSentAt || before.OutputRef != e.OutputRef) {
			t.Errorf("effect %s was %+v and is %+v", name, before, e)
		}
	}
}
