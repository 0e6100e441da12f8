package handler_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/flows/targettest"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
	"github.com/oncegate/oncegate/internal/logline"
)

// last is the line of the newest delivery.
func (w *world) last() line {
	w.t.Helper()
	all := w.lines(logline.Delivery)
	return all[len(all)-1]
}

func TestTheLineOfADeliverySaysHowACopyWasRecognised(t *testing.T) {
	raw := order("e1", "17", 5)
	done := func(w *world) { w.acked(w.deliver(w.instance(), raw), handler.DecisionExecuted) }
	failed := func(w *world) {
		w.work.set(failing(unavailable))
		w.retried(w.deliver(w.instance(), raw), unavailable.Code)
	}
	ended := func(w *world) {
		w.work.set(failing(denied))
		w.acked(w.deliver(w.instance(), raw), handler.DecisionFinal)
	}
	for name, c := range map[string]struct {
		prepare   func(*world)
		deliver   func(*world) outcome
		decision  handler.Decision
		duplicate string
		calls     [2]int64 // to the tables and to the objects
	}{
		"fresh": {nil, func(w *world) outcome { return w.deliver(w.instance(), raw) }, handler.DecisionExecuted, "", [2]int64{2, 2}},
		"known to the instance": {nil, func(w *world) outcome {
			h := w.instance()
			w.deliver(h, raw)
			return w.deliver(h, raw)
		}, handler.DecisionDuplicate, logline.ByCache, [2]int64{0, 0}},
		"by a failed put":          {done, func(w *world) outcome { return w.deliver(w.instance(), raw) }, handler.DecisionDuplicate, logline.ByFailedPut, [2]int64{2, 0}},
		"said to be a retry":       {done, func(w *world) outcome { return w.again(w.instance(), raw) }, handler.DecisionDuplicate, logline.ByRetryRead, [2]int64{1, 0}},
		"while the flow is off":    {done, func(w *world) outcome { return w.deliver(w.instance(off), raw) }, handler.DecisionDuplicate, logline.ByRead, [2]int64{1, 0}},
		"while another run has it": {func(w *world) { w.seed(raw, nil) }, func(w *world) outcome { return w.deliver(w.instance(), raw) }, handler.DecisionInProgress, logline.InProgress, [2]int64{2, 0}},
		"too early":                {failed, func(w *world) outcome { return w.deliver(w.instance(), raw) }, handler.DecisionRetry, logline.TooEarly, [2]int64{2, 0}},
		"again when it is not": {failed, func(w *world) outcome {
			time.Sleep(time.Hour)
			return w.again(w.instance(), raw)
		}, handler.DecisionRetry, "", [2]int64{3, 2}},
		"after its end": {ended, func(w *world) outcome { return w.deliver(w.instance(), raw) }, handler.DecisionFinal, logline.Ended, [2]int64{5, 1}},
		"after it was given up": {func(w *world) {
			ended(w)
			w.discard(w.letters()[0].ID)
			w.acked(w.call(w.instance(), abandonCall(w.letters()[0].ID)), handler.DecisionAbandoned)
		}, func(w *world) outcome { return w.deliver(w.instance(), raw) }, handler.DecisionFinal, logline.Sighting, [2]int64{5, 1}},
		"of another input": {done, func(w *world) outcome { return w.deliver(w.instance(), order("e2", "17", 6)) }, handler.DecisionConflict, "", [2]int64{4, 1}},
		"another run was faster": {nil, func(w *world) outcome {
			w.forged = true
			w.onTables(once("UpdateRow", "", cloudtest.Before, func() {
				r := w.record()
				must(w.t, w.store.Update(w.ctx(), idempotency.TaskTable, r.Key, aliyun.Row{
					"status": "SUCCEEDED", "owner": "another", "result_ref": idempotency.Ref{Object: "o", SHA256: "s"}.String(), "revision": r.Revision + 1,
				}, r.Revision))
			}))
			return w.deliver(w.instance(), raw)
		}, handler.DecisionDuplicate, logline.Overtaken, [2]int64{3, 2}},
		"parked":      {nil, func(w *world) outcome { return w.deliver(w.instance(off), raw) }, handler.DecisionParked, "", [2]int64{3, 1}},
		"undecodable": {nil, func(w *world) outcome { return w.deliver(w.instance(), []byte("no event")) }, handler.DecisionDeadLetter, "", [2]int64{1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				if c.prepare != nil {
					c.prepare(w)
				}
				o := c.deliver(w)
				l := w.last()
				if l.Call != "event" || l.Decision != string(c.decision) || l.Duplicate != c.duplicate || [2]int64{l.Tables, l.Objects} != c.calls {
					t.Errorf("%s %s %q with calls %d and %d, want %s %q with %d", l.Call, l.Decision, l.Duplicate, l.Tables, l.Objects, c.decision, c.duplicate, c.calls)
				}
				level := "INFO"
				if o.err != nil {
					level = "WARN"
				}
				if l.RequestID != "request" || l.Version != "7" || l.Level != level || (l.Cause == "") != (l.Duplicate != "" || o.err == nil) {
					t.Errorf("line %+v", l)
				}
			})
		})
	}
}

func TestEveryLineOfADeliveryCarriesItsEventAndItsTrace(t *testing.T) {
	inEffectWorld(t, targettest.Options{}, []string{notice, alarm}, func(t *testing.T, w *effectWorld) {
		raw := traced(traceParent, "")
		w.doubted(raw, cloudtest.After)
		kinds := map[string]int{}
		for _, l := range w.lines("") {
			kinds[l.Msg]++
			if l.RequestID != "request" || l.Version != "7" || l.EventID != "e1" || l.TraceID != traceID || l.Flow != "order.place" || l.Key != w.task().Key {
				t.Errorf("line %+v", l)
			}
		}
		for _, want := range []string{logline.Delivery, logline.Transition, logline.Effect, logline.Letter, logline.Review} {
			if kinds[want] == 0 {
				t.Errorf("no line of kind %s among %v", want, kinds)
			}
		}
		// What a person has answered is told of the record's event.
		v := w.openReview()
		w.answer(v, idempotency.ResolvedNotDone, "")
		before := len(w.lines(""))
		w.resolved(v.ID)
		for _, l := range w.lines("")[before:] {
			if l.Msg == logline.Effect {
				continue // an effect's row does not know its event
			}
			if l.EventID != "e1" || l.TraceID != traceID || l.Flow != "order.place" || (l.Msg == logline.Delivery && l.Call != "resolve") {
				t.Errorf("line %+v", l)
			}
		}
	})
}

func TestEachStepOfATaskAndOfItsEffectIsOneLine(t *testing.T) {
	inEffectWorld(t, targettest.Options{}, []string{notice}, func(t *testing.T, w *effectWorld) {
		raw := place("e1", "17", 5)
		w.refuse("Notify", 429, 1)
		w.retried(w.deliver(w.instance(), raw), idempotency.CodeRateLimited)
		time.Sleep(time.Hour)
		w.refuse("Notify", 400, 1)
		w.acked(w.deliver(w.instance(), raw), handler.DecisionFinal)
		w.acked(w.call(w.instance(), w.approved(raw, w.letters()[0])), handler.DecisionExecuted)
		var tasks, effects []string
		for _, l := range w.lines(logline.Transition) {
			tasks = append(tasks, fmt.Sprintf("%d %s>%s %d %s %d %s", l.Revision, l.From, l.Status, l.Attempt, l.Code, l.WaitMS, l.Batch))
		}
		for _, l := range w.lines(logline.Effect) {
			effects = append(effects, fmt.Sprintf("%d %s>%s %d %s", l.Revision, l.From, l.State, l.Attempt, l.Code))
		}
		batch := w.task().ReplayBatchID
		if want := []string{
			"1 >RUNNING 1  0 ", "2 RUNNING>FAILED_RETRYABLE 1 rate_limited 10000 ", "3 FAILED_RETRYABLE>RUNNING 2 rate_limited 0 ",
			"4 RUNNING>FAILED_FINAL 2 invalid_request 0 ", "5 FAILED_FINAL>RUNNING 3 invalid_request 0 " + batch, "6 RUNNING>SUCCEEDED 3  0 " + batch,
		}; !slices.Equal(tasks, want) {
			t.Errorf("tasks %q, want %q", tasks, want)
		}
		if want := []string{
			"1 >SENT 1 ", "2 SENT>REFUSED 1 rate_limited", "3 REFUSED>SENT 2 rate_limited", "4 SENT>REFUSED 2 invalid_request",
			"5 REFUSED>SENT 3 invalid_request", "6 SENT>SETTLED 3 ",
		}; !slices.Equal(effects, want) {
			t.Errorf("effects %q, want %q", effects, want)
		}
		if l := w.last(); l.Call != "replay" || l.Batch != batch || batch == "" {
			t.Errorf("line %+v", l)
		}
	})
}

func TestEachMemberOfABatchHasItsLine(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		ctx, cancel := context.WithTimeout(w.ctx(), w.limit)
		defer cancel()
		raw := batchOf(order("e1", "17", 5), order("e2", "17", 5), []byte(`{"no":"event"}`), order("e3", "18", 5))
		if _, err := w.instance().HandleBatch(ctx, raw, handler.Delivery{RequestID: "request", FunctionName: "gate", Version: "7"}); err != nil {
			t.Fatal(err)
		}
		var all []string
		for _, l := range w.lines(logline.Delivery) {
			all = append(all, strings.Join([]string{l.Call, l.EventID, l.Decision, l.Duplicate}, " "))
		}
		slices.Sort(all)
		if want := []string{"member  dead_letter ", "member e1 executed ", "member e2 duplicate cache", "member e3 executed "}; !slices.Equal(all, want) {
			t.Errorf("lines %q, want %q", all, want)
		}
	})
}

func TestAReplayThatNamesNoPlanDoesNotBringItsTextIntoTheLog(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		raw := order("e1", "17", 5)
		w.work.set(failing(denied))
		w.acked(w.deliver(w.instance(), raw), handler.DecisionFinal)
		e := w.approved(raw, w.letters()[0])
		e.Batch = "call " + phone
		w.acked(w.call(w.instance(), e), handler.DecisionReplayRefused)
		if l := w.last(); l.Batch != "" || strings.Contains(w.logs.String(), phone) {
			t.Errorf("line %+v", l)
		}
	})
}

func TestTheLineSaysHowOldTheEventIsAndHowLongItTook(t *testing.T) {
	for published, want := range map[string]int64{
		start.Add(-90 * time.Second).UTC().Format("2006-01-02T15:04:05.000Z07:00"):                          93_000,
		start.Add(-90 * time.Second).In(time.FixedZone("", 8*3600)).Format("2006-01-02T15:04:05.000Z07:00"): 93_000,
		start.Add(time.Hour).UTC().Format(time.RFC3339):                                                     0, // its clock is ahead
		"":                           -1,
		"2020-11-19T21:04:42.179PRC": -1, // as a document of the service has it: which clock that is, nobody says
		phone:                        -1,
	} {
		inWorld(t, func(t *testing.T, w *world) {
			raw := order("e1", "17", 5)
			raw = append(raw[:len(raw)-1], `,"aliyunpublishtime":"`+published+`"}`...)
			w.work.set(func(context.Context, flows.Task) (map[string]any, error) {
				time.Sleep(3 * time.Second)
				return map[string]any{"a": 1}, nil
			})
			w.acked(w.deliver(w.instance(), raw), handler.DecisionExecuted)
			if l := w.last(); l.AgeMS != want || l.TookMS != 3000 || strings.Contains(w.logs.String(), phone) {
				t.Errorf("%q: %d ms old, took %d ms; want %d and 3000", published, l.AgeMS, l.TookMS, want)
			}
		})
	}
}
