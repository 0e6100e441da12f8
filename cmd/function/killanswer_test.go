package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/handler/fctest"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

const reviewReadCall = "tablestore GetRow reviews"

// answered is a person's answer about a message whose answer the robot lost.
type answered struct {
	flow       string
	content    string
	resolution idempotency.Resolution
	messages   int // before the answer
	more       int // by the next delivery
}

var answers = []answered{
	{"message", "[[target cut_after]] Order 17", idempotency.ResolvedDone, 1, 0},
	{"message", "[[target cut]] Order 17", idempotency.ResolvedNotDone, 0, 1},
	{"both", "[[target cut_after]] Order 17", idempotency.ResolvedDone, 1, 0},
	{"both", "[[target cut_after]] Order 17", idempotency.ResolvedCompensated, 1, 0},
}

func (a answered) work() work { return work{a.flow, "N-1", a.content} }

// answer closes the one open review of a task as a person does, and returns the
// call that tells the function.
func (w *world) answer(t *testing.T, k work, a idempotency.Resolution) (call []byte) {
	t.Helper()
	open, _ := w.reviews(k.key())
	if len(open) != 1 {
		t.Fatalf("%d open reviews", len(open))
	}
	own := w.accepted.Issue(time.Time{})
	transport := aliyun.NewTransport(1)
	defer transport.CloseIdleConnections()
	store, err := aliyun.NewTablestore(w.tables.Endpoint(), "oncegate", as(own, transport))
	if err != nil {
		t.Fatal(err)
	}
	reviews := idempotency.NewReviews(store)
	shown, ok, err := reviews.Get(t.Context(), open[0])
	if err != nil || !ok {
		t.Fatalf("review: %v, %v", ok, err)
	}
	number := ""
	if a == idempotency.ResolvedDone {
		number = "seen-1"
	}
	given, err := shown.Answer(a, "li", "looked at the group", number, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if err := reviews.Close(t.Context(), shown, given); err != nil {
		t.Fatal(err)
	}
	call, err = json.Marshal(handler.Envelope{Oncegate: handler.EnvelopeResolve, Review: open[0]})
	if err != nil {
		t.Fatal(err)
	}
	return call
}

// doubted brings a task to OUTCOME_UNKNOWN by itself and answers for a person.
func (w *world) doubted(t *testing.T, a answered) (call []byte) {
	t.Helper()
	if r := w.redeliver(a.work().event("evt-1")); r.Decision != handler.DecisionOutcomeUnknown {
		t.Fatalf("got %+v", r)
	}
	w.checkUnknown(t, a.work())
	if n := len(w.targets.RobotMessages()); n != a.messages || len(w.targets.Notifications()) > 0 {
		t.Fatalf("%d messages and %d notifications before the answer", n, len(w.targets.Notifications()))
	}
	return w.answer(t, a.work(), a.resolution)
}

// carriedOn delivers once more after an answer: the rest is done, and no more.
func (w *world) carriedOn(t *testing.T, a answered) {
	t.Helper()
	k := a.work()
	if rec := w.recordOf(k); rec.Status != idempotency.StatusFailedRetryable || rec.AttemptBudget != rec.Attempt+2 || rec.Reviewer != "li" {
		t.Errorf("after the answer the record is %+v", rec)
	}
	if r := w.redeliver(k.event("evt-1")); r.Decision != handler.DecisionExecuted || r.Status != idempotency.StatusSucceeded {
		t.Errorf("then %+v", r)
	}
	w.deliver(k.event("evt-1"))
	if n := len(w.targets.RobotMessages()); n != a.messages+a.more {
		t.Errorf("%d messages, want %d and %d more", n, a.messages, a.more)
	}
	w.checkDone(t, k)
	if n := w.model.Calls(); n != 1 {
		t.Errorf("%d model calls", n)
	}
	rec := w.recordOf(k)
	if a.flow == "both" && (len(rec.Effects) != 2 || len(w.targets.Notifications()) != 1) {
		t.Errorf("the second effect: %+v, %d notifications", rec.Effects, len(w.targets.Notifications()))
	}
	e := w.effects(k.key())["message"]
	if a.resolution == idempotency.ResolvedDone && (e.TargetRecordID != "seen-1" || e.Outcome != idempotency.OutcomeConfirmedDone || e.Reviewer != "li") {
		t.Errorf("the effect says %+v", e)
	}
	if open, closed := w.reviews(k.key()); len(open) != 0 || len(closed) != 1 {
		t.Errorf("reviews %v open, %v closed", open, closed)
	}
}

func TestS37KilledAtEveryCallThatCarriesOutAnAnswer(t *testing.T) {
	t.Parallel()
	type killedAnswer struct {
		answered
		strike
	}
	var cases []killedAnswer
	for _, a := range answers {
		w := newWorld(t, watchedEffects)
		call := w.doubted(t, a)
		from := w.journalled()
		if r := result(t, w.deliver(call)); r.Decision != handler.DecisionResolved || r.Status != idempotency.StatusFailedRetryable {
			t.Fatalf("got %+v", r)
		}
		calls := w.calls(from)
		wantCalls(t, calls, reviewReadCall, readCall, readCall, updateCall, updateCall)
		w.carriedOn(t, a)
		for _, s := range matrix(calls) {
			cases = append(cases, killedAnswer{a, s})
		}
	}
	each(t, cases, func(c killedAnswer) string { return c.flow + " " + string(c.resolution) + " " + c.strike.String() },
		func(t *testing.T, c killedAnswer) {
			w := newWorld(t, watchedEffects)
			call := w.doubted(t, c.answered)
			w.strikes = []strike{c.strike}
			if resp := w.deliver(call); resp.Ending != fctest.Crashed {
				t.Errorf("got %s %s", resp.Ending, resp.Payload)
			}
			for range 2 {
				if r := result(t, w.deliver(call)); r.Decision != handler.DecisionResolved || r.Status != idempotency.StatusFailedRetryable || r.ErrorCode == idempotency.CodeInvalidRequest {
					t.Errorf("called again: %+v", r)
				}
			}
			w.killed(t, 1)
			w.carriedOn(t, c.answered)
			if r := result(t, w.deliver(call)); r.Decision != handler.DecisionResolved || r.Status != idempotency.StatusSucceeded {
				t.Errorf("called once more at the end: %+v", r)
			}
		})
}

func TestAnAnswerWhoseCallNeverCameIsCarriedOutByTheNextDelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t, watchedEffects)
	a := answers[1]
	call := w.doubted(t, a)
	if r := w.redeliver(a.work().event("evt-1")); r.Decision != handler.DecisionExecuted {
		t.Errorf("got %+v", r)
	}
	w.deliver(call) // late, and of no effect any more
	w.checkDone(t, a.work())
	if n := len(w.targets.RobotMessages()); n != a.messages+a.more {
		t.Errorf("%d messages, want %d and %d more", n, a.messages, a.more)
	}
}
