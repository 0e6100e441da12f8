package handler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// lost are the ways in which a call ends without its answer.
func lost(op string, phase cloudtest.Phase) map[string]cloudtest.Fault {
	faults := map[string]cloudtest.Fault{
		"connection cut":              {Kind: cloudtest.Drop},
		"truncated body":              {Kind: cloudtest.Truncate},
		"503 OTSServerUnavailable":    {Kind: cloudtest.Status, Status: 503, Code: "OTSServerUnavailable"},
		"503 OTSTimeout":              {Kind: cloudtest.Status, Status: 503, Code: "OTSTimeout"},
		"500 OTSInternalServerError":  {Kind: cloudtest.Status, Status: 500, Code: "OTSInternalServerError"},
		"403 OTSConditionCheckFail":   {Kind: cloudtest.Status, Status: 403, Code: "OTSConditionCheckFail"},
		"502 of a proxy":              {Kind: cloudtest.Status, Status: 502, Code: "BadGateway"},
		tooLate:                       {Kind: cloudtest.Delay, Delay: time.Hour},
		"a wait beyond the time-out":  {Kind: cloudtest.Delay, Delay: time.Hour},
		"a wait that is short enough": {Kind: cloudtest.Delay, Delay: time.Second},
	}
	for name, f := range faults {
		f.Op, f.Phase, f.Target = op, phase, idempotency.TaskTable.Name
		faults[name] = f
	}
	return faults
}

const tooLate = "a wait beyond the deadline"

func eachLost(t *testing.T, op string, test func(t *testing.T, w *world, name string, f cloudtest.Fault)) {
	for _, phase := range []cloudtest.Phase{cloudtest.Before, cloudtest.After} {
		for name, f := range lost(op, phase) {
			t.Run(fmt.Sprintf("%s, %s the effect", name, phase), func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					if name == tooLate {
						w.limit = 20 * time.Second // less than a call's time-out
					}
					test(t, w, name, f)
				})
			})
		}
	}
}

// succeedsInTheEnd redelivers until the platform has its acknowledgement, and
// checks that the business has one result.
func succeedsInTheEnd(w *world, raw []byte, runs int) {
	w.t.Helper()
	h := w.instance()
	for range 20 {
		if o := w.deliver(h, raw); o.err == nil {
			w.t.Logf("acknowledged: %v", o)
			break
		}
		time.Sleep(20 * time.Second)
	}
	r := w.record()
	if r.Status != idempotency.StatusSucceeded || w.work.runs() != runs {
		w.t.Fatalf("record %+v after %d runs, want SUCCEEDED after %d\n%s", r, w.work.runs(), runs, w.logs)
	}
	if _, ok := w.object(r.ResultRef.Object); !ok {
		w.t.Errorf("the result %s is not there", r.ResultRef)
	}
}

func TestS7_AClaimWhoseAnswerIsLostIsRecognised(t *testing.T) {
	eachLost(t, "PutRow", func(t *testing.T, w *world, name string, f cloudtest.Fault) {
		raw := order("e1", "17", 5)
		w.tables.Faults.Add(f)
		o := w.deliver(w.instance(), raw)
		switch {
		case name == "a wait that is short enough", f.Phase == cloudtest.After && name != tooLate:
			w.acked(o, handler.DecisionExecuted)
			w.stands(idempotency.StatusSucceeded, 1)
		default:
			w.retried(o, idempotency.CodeTemporaryUnavailable)
			if w.work.runs() != 0 {
				t.Error("it ran without a claim")
			}
		}
		succeedsInTheEnd(w, raw, 1)
	})
}

func TestS7_ATakeoverWhoseAnswerIsLostIsRecognised(t *testing.T) {
	eachLost(t, "UpdateRow", func(t *testing.T, w *world, name string, f cloudtest.Fault) {
		raw := order("e1", "17", 5)
		w.seed(raw, nil)
		time.Sleep(timeLimit + policy.Margin + time.Millisecond)
		w.tables.Faults.Add(f)
		o := w.deliver(w.instance(), raw)
		if name == tooLate {
			w.retried(o, idempotency.CodeTemporaryUnavailable)
			if w.work.runs() != 0 {
				t.Error("it ran without a claim")
			}
		} else {
			// What was not applied is sent again: it is conditional on the revision.
			w.acked(o, handler.DecisionExecuted)
			w.stands(idempotency.StatusSucceeded, 2)
		}
		succeedsInTheEnd(w, raw, 1)
	})
}

func TestS7_ACompletionWhoseAnswerIsLostIsRecognised(t *testing.T) {
	eachLost(t, "UpdateRow", func(t *testing.T, w *world, name string, f cloudtest.Fault) {
		raw := order("e1", "17", 5)
		w.tables.Faults.Add(f)
		o := w.deliver(w.instance(), raw)
		if name == tooLate {
			w.retried(o, idempotency.CodeTemporaryUnavailable)
		} else {
			w.acked(o, handler.DecisionExecuted)
			if r := w.stands(idempotency.StatusSucceeded, 1); r.Revision != 2 {
				t.Errorf("revision %d, want 2", r.Revision)
			}
		}
		succeedsInTheEnd(w, raw, 1)
	})
}

func TestS7_AFailureWhoseAnswerIsLostIsRecognised(t *testing.T) {
	eachLost(t, "UpdateRow", func(t *testing.T, w *world, name string, f cloudtest.Fault) {
		raw := order("e1", "17", 5)
		w.work.set(failing(unavailable))
		w.tables.Faults.Add(f)
		w.retried(w.deliver(w.instance(), raw), idempotency.CodeTemporaryUnavailable)
		w.work.set(nil)
		if name != tooLate {
			if r := w.stands(idempotency.StatusFailedRetryable, 1); r.Revision != 2 || r.LastErrorTarget != "model:m" {
				t.Errorf("record %+v", r)
			}
		}
		succeedsInTheEnd(w, raw, 2)
		w.stands(idempotency.StatusSucceeded, 2)
	})
}

func TestS7_AFinalFailureWhoseAnswerIsLostIsRecognised(t *testing.T) {
	eachLost(t, "UpdateRow", func(t *testing.T, w *world, name string, f cloudtest.Fault) {
		raw := order("e1", "17", 5)
		w.work.set(failing(idempotency.Failure{Code: idempotency.CodePermissionDenied, Target: "model:m"}))
		w.tables.Faults.Add(f)
		o := w.deliver(w.instance(), raw)
		if name == tooLate {
			w.retried(o, idempotency.CodeTemporaryUnavailable)
			time.Sleep(policy.Margin + time.Second)
			o = w.deliver(w.instance(), raw)
		}
		w.acked(o, handler.DecisionFinal)
		w.openLetter(letter.CodeAccessDenied, raw)
	})
}

func TestS7_ALetterWhoseAnswerIsLostIsOneSighting(t *testing.T) {
	for name, f := range lost("PutRow", cloudtest.After) {
		if name == tooLate {
			continue
		}
		t.Run("new, "+name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				raw := []byte("no event")
				f.Target = letter.LetterTable.Name
				w.tables.Faults.Add(f)
				w.acked(w.deliver(w.instance(), raw), handler.DecisionDeadLetter)
				if l := w.openLetter(letter.CodeInvalidSchema, raw); l.DeliveryAttempts != 1 {
					t.Errorf("%d sightings of one delivery", l.DeliveryAttempts)
				}
			})
		})
	}
	for name, f := range lost("UpdateRow", cloudtest.After) {
		if name == tooLate {
			continue
		}
		t.Run("again, "+name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				raw := []byte("no event")
				f.Target = letter.LetterTable.Name
				w.acked(w.deliver(w.instance(), raw), handler.DecisionDeadLetter)
				time.Sleep(time.Second)
				w.tables.Faults.Add(f)
				w.acked(w.deliver(w.instance(), raw), handler.DecisionDeadLetter)
				if l := w.openLetter(letter.CodeInvalidSchema, raw); l.DeliveryAttempts != 2 {
					t.Errorf("%d sightings of two deliveries", l.DeliveryAttempts)
				}
			})
		})
	}
}
