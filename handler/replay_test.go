package handler_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

var denied = idempotency.Failure{Code: idempotency.CodePermissionDenied, Target: "model:m"}

// failedFinal is an order that failed for good, with its letter.
func (w *world) failedFinal(raw []byte) letter.Letter {
	w.t.Helper()
	w.work.set(failing(denied))
	w.acked(w.deliver(w.instance(), raw), handler.DecisionFinal)
	w.work.set(nil)
	return w.openLetter(letter.CodeAccessDenied, raw)
}

func TestAnApprovedReplayRunsOnceFromEveryStateThatALetterStandsFor(t *testing.T) {
	raw := order("e1", "17", 5)
	expired := func(*idempotency.Record) {}
	for name, c := range map[string]struct {
		seed    func(*idempotency.Record)
		attempt int64
		budget  int64
	}{
		"no record":    {nil, 1, 3},
		"RECEIVED":     {func(r *idempotency.Record) { inStatus(idempotency.StatusReceived)(r); r.Attempt = 0 }, 1, 2},
		"FAILED_FINAL": {inStatus(idempotency.StatusFailedFinal), 2, 3},
		"used up": {func(r *idempotency.Record) {
			inStatus(idempotency.StatusFailedFinal)(r)
			r.Attempt, r.AttemptBudget = 6, 6
		}, 7, 8},
		"FAILED_RETRY":    {inStatus(idempotency.StatusFailedRetryable), 2, 3},
		"RUNNING expired": {expired, 2, 3},
		"abandoned":       {func(r *idempotency.Record) { inStatus(idempotency.StatusFailedFinal)(r); r.Abandoned = true }, 2, 3},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				if c.seed != nil {
					w.seed(raw, c.seed)
				}
				l := w.leave(w.flows(flowsText, nil), raw)
				e := w.approved(raw, l)
				time.Sleep(timeLimit + policy.Margin + time.Second)
				o := w.call(w.instance(), e)
				w.acked(o, handler.DecisionExecuted)
				r := w.stands(idempotency.StatusSucceeded, c.attempt)
				if r.ReplayBatchID != e.Batch || r.AttemptBudget != c.budget || r.Abandoned || r.ConsumerVersion != "7" || o.Key != l.Key {
					t.Errorf("record %+v", r)
				}
				if !strings.Contains(w.logs.String(), `"replay_batch_id":"`+e.Batch+`"`) {
					t.Error("no transition in the log names the plan")
				}
				w.unchanged(func() outcome { return w.call(w.instance(), e) }, handler.DecisionDuplicate, "")
				w.unchanged(func() outcome { return w.deliver(w.instance(), raw) }, handler.DecisionDuplicate, "")
				if w.work.runs() != 1 {
					t.Errorf("%d runs", w.work.runs())
				}
			})
		})
	}
}

func TestS41_ARecordCompletedBetweenPlanAndReplayIsSkippedUnchanged(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		raw := order("e1", "17", 5)
		w.work.set(failing(unavailable))
		w.retried(w.deliver(w.instance(), raw), idempotency.CodeTemporaryUnavailable)
		w.work.set(nil)
		e := w.approved(raw, w.leave(w.flows(flowsText, nil), raw))
		time.Sleep(time.Hour)
		w.acked(w.deliver(w.instance(), raw), handler.DecisionExecuted)
		w.unchanged(func() outcome { return w.call(w.instance(), e) }, handler.DecisionDuplicate, "")
		if r := w.stands(idempotency.StatusSucceeded, 2); r.ReplayBatchID != "" {
			t.Errorf("record %+v", r)
		}
	})
}

func TestAReplayThatFailsAgainIsAnsweredAsADeliveryIs(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		raw := order("e1", "17", 5)
		l := w.failedFinal(raw)
		w.work.set(failing(unavailable))
		e := w.approved(raw, l)
		w.retried(w.call(w.instance(), e), idempotency.CodeTemporaryUnavailable)
		w.stands(idempotency.StatusFailedRetryable, 2)
		w.unchanged(func() outcome { return w.call(w.instance(), e) }, handler.DecisionReplayRefused, "may not be tried before")
		time.Sleep(time.Hour)
		w.unchanged(func() outcome { return w.call(w.instance(), e) }, handler.DecisionReplayRefused, "moved on")
		w.acked(w.deliver(w.instance(), raw), handler.DecisionFinal) // a plan grants two attempts, whoever makes the second
		if r := w.stands(idempotency.StatusFailedFinal, 3); r.ReplayBatchID != e.Batch {
			t.Errorf("record %+v", r)
		}
	})
}

func TestWhatIsNotApprovedIsNeverReplayed(t *testing.T) {
	raw := order("e1", "17", 5)
	high := func(h *plan.Header) { h.HighImpact = []string{"more than 50 events"} }
	for name, c := range map[string]struct {
		plan planning
		edit func(w *world, e *plan.Envelope)
		why  string
	}{
		"S51 a permanent code, and nobody has approved": {planning{unjudged: true}, nil, "nobody has approved"},
		"a rejected plan":                   {planning{verdict: func(a *plan.Approval) { a.Verdict = plan.VerdictRejected }}, nil, "rejected"},
		"S49 an approval of another digest": {planning{verdict: func(a *plan.Approval) { a.Digest = strings.Repeat("0", 64) }}, nil, "of another plan"},
		"S49 a high-impact plan that its maker approved": {
			planning{edit: high, verdict: func(a *plan.Approval) { a.By = "amy" }}, nil, "another identity",
		},
		"S49 a plan that calls itself one of low impact, and is not by the function's rules": {
			planning{verdict: func(a *plan.Approval) { a.By = "amy" }}, nil, "another identity than its maker to approve it: another role or user, for a session's name is free to choose (more than 0 events)",
		},
		"S49 another session of the maker's role": {
			planning{edit: func(h *plan.Header) { h.MadeBy = "oncegate-operator/amy" }, verdict: func(a *plan.Approval) { a.By = "oncegate-operator/bob" }}, nil, "another identity",
		},
		"a plan of another environment": {planning{edit: func(h *plan.Header) { h.Environment = "prod" }}, nil, "another environment"},
		"no such plan":                  {planning{}, func(_ *world, e *plan.Envelope) { e.Batch = "rp-none" }, "no such plan"},
		"a plan that was changed after its approval": {planning{}, func(w *world, e *plan.Envelope) {
			must(w.t, w.store.Update(w.ctx(), plan.PlanTable, e.Batch, aliyun.Row{"digest": strings.Repeat("0", 64), "revision": int64(2)}, 1))
		}, "not what its digest says"},
		"a plan that was stopped": {planning{}, func(w *world, e *plan.Envelope) {
			must(w.t, w.store.Update(w.ctx(), plan.PlanTable, e.Batch, aliyun.Row{"state": "stopped", "revision": int64(2)}, 1))
		}, "has ended"},
		"no batch":              {planning{}, func(_ *world, e *plan.Envelope) { e.Batch = "" }, "not well-formed"},
		"no raw event":          {planning{}, func(_ *world, e *plan.Envelope) { e.Raw = nil }, "not well-formed"},
		"a raw event too large": {planning{}, func(_ *world, e *plan.Envelope) { e.Raw = make([]byte, 256<<10+1) }, "larger"},
		"a raw byte changed": {planning{}, func(_ *world, e *plan.Envelope) {
			e.Raw = []byte(strings.Replace(string(e.Raw), `"amount":5`, `"amount":6`, 1))
		}, "not the one that the item names"},
		"a raw byte changed, and the item with it": {planning{}, func(_ *world, e *plan.Envelope) {
			e.Raw = []byte(strings.Replace(string(e.Raw), `"amount":5`, `"amount":6`, 1))
			e.Item.RawSHA256 = idempotency.DigestBinary(e.Raw)
		}, "not in the approved plan"},
		"a proof changed":           {planning{neighbour: true}, func(_ *world, e *plan.Envelope) { e.Proof[0] = strings.Repeat("0", 64) }, "not in the approved plan"},
		"no proof":                  {planning{neighbour: true}, func(_ *world, e *plan.Envelope) { e.Proof = nil }, "not in the approved plan"},
		"a neighbour's place":       {planning{neighbour: true}, func(_ *world, e *plan.Envelope) { e.Item.Seq = 1 }, "not in the approved plan"},
		"a letter closed meanwhile": {planning{}, func(w *world, e *plan.Envelope) { w.discard(e.Item.LetterID) }, "letter is closed"},
		"a letter of other bytes": {planning{}, func(w *world, e *plan.Envelope) {
			must(w.t, letter.NewTable(w.store).Amend(w.ctx(), e.Item.LetterID, func(l letter.Letter) (letter.Letter, error) { l.RawSHA256 = "0"; return l, nil }))
		}, "another raw event"},
		"a record that moved on": {planning{}, func(w *world, e *plan.Envelope) {
			must(w.t, w.store.Update(w.ctx(), idempotency.TaskTable, e.Item.Key, aliyun.Row{"revision": e.Item.RecordRevision + 1}, e.Item.RecordRevision))
		}, "moved on"},
		"a record that is gone": {planning{}, func(w *world, e *plan.Envelope) { w.deleteRow(e.Item.Key) }, "is gone"},
		"a run that holds the lease": {planning{}, func(w *world, e *plan.Envelope) {
			until := time.Now().Add(time.Hour).UnixMilli()
			must(w.t, w.store.Update(w.ctx(), idempotency.TaskTable, e.Item.Key, aliyun.Row{"status": "RUNNING", "lease_until": until, "revision": e.Item.RecordRevision + 1}, e.Item.RecordRevision))
		}, "holds the lease until 2026-08-04T11:"},
		"a task in doubt": {planning{}, func(w *world, e *plan.Envelope) {
			must(w.t, w.store.Update(w.ctx(), idempotency.TaskTable, e.Item.Key, aliyun.Row{"status": "OUTCOME_UNKNOWN", "revision": e.Item.RecordRevision + 1}, e.Item.RecordRevision))
		}, "a person has to say"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(_ *testing.T, w *world) {
				e := w.planned(raw, w.freeze(w.failedFinal(raw)), c.plan)
				if c.edit != nil {
					c.edit(w, &e)
				}
				w.unchanged(func() outcome { return w.call(w.instance(), e) }, handler.DecisionReplayRefused, c.why)
			})
		})
	}
}

func TestNoFieldOfAnItemCanBeChangedAfterTheApproval(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		raw := order("e1", "17", 5)
		e := w.approved(raw, w.failedFinal(raw))
		for n := range reflect.TypeFor[plan.Frozen]().NumField() {
			other := e
			switch f := reflect.ValueOf(&other.Item).Elem().Field(n); f.Kind() {
			case reflect.String:
				f.SetString(f.String() + "x")
			default:
				f.SetInt(f.Int() + 1)
			}
			w.unchanged(func() outcome { return w.call(w.instance(), other) }, handler.DecisionReplayRefused, "")
		}
		w.acked(w.call(w.instance(), e), handler.DecisionExecuted)
	})
}

func TestAReplayGoesWhereTheItemSaysAndNowhereElse(t *testing.T) {
	raw := order("e1", "17", 5)
	for name, c := range map[string]struct {
		item     func(*plan.Frozen)
		instance func(*handler.Options)
		why      string // "": it runs
	}{
		"another version":               {func(i *plan.Frozen) { i.Qualifier = "8" }, nil, "another version"},
		"an alias":                      {func(i *plan.Frozen) { i.Qualifier = "live" }, nil, ""},
		"a flow that is off":            {nil, off, "the flow is off"},
		"a function without plans":      {nil, func(o *handler.Options) { o.Plans = nil }, "reads no plans"},
		"no flow for it":                {nil, func(o *handler.Options) { o.Flows.Flows = o.Flows.Flows[1:] }, "no flow"},
		"another key secret's keys":     {func(i *plan.Frozen) { i.Key = strings.Repeat("0", 64) }, nil, "another key"},
		"another input digest":          {func(i *plan.Frozen) { i.InputDigest = strings.Repeat("0", 64) }, nil, "another input digest"},
		"a record with another input":   {func(i *plan.Frozen) { i.RecordDigest = strings.Repeat("0", 64) }, nil, "another input than the plan names"},
		"a letter that is not there":    {func(i *plan.Frozen) { i.LetterID = "nothing" }, nil, "no such letter"},
		"a record where none was known": {func(i *plan.Frozen) { i.RecordRevision, i.RecordDigest = 0, "" }, nil, "moved on"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				i := w.freeze(w.failedFinal(raw))
				if c.item != nil {
					c.item(&i)
				}
				e, edits := w.planned(raw, i, planning{}), []func(*handler.Options){}
				if c.instance != nil {
					edits = append(edits, c.instance)
				}
				call := func() outcome { return w.call(w.instance(edits...), e) }
				if c.why == "" {
					w.acked(call(), handler.DecisionExecuted)
					return
				}
				w.unchanged(call, handler.DecisionReplayRefused, c.why)
			})
		})
	}
}

func TestOfTwoCopiesOfAReplayOneRuns(t *testing.T) {
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprintf("a record is known %v", known), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				raw := order("e1", "17", 5)
				if known {
					w.seed(raw, inStatus(idempotency.StatusFailedFinal))
				}
				e := w.approved(raw, w.leave(w.flows(flowsText, nil), raw))
				var all []<-chan outcome
				for range 4 {
					h := w.instance()
					all = append(all, w.start(func() outcome { return w.call(h, e) }))
				}
				executed := 0
				for _, one := range all {
					switch o := <-one; {
					case o.err == nil && o.Decision == handler.DecisionExecuted:
						executed++
					case o.err == nil && (o.Decision == handler.DecisionReplayRefused || o.Decision == handler.DecisionDuplicate):
					default:
						t.Errorf("got %v", o)
					}
				}
				if executed != 1 || w.work.runs() != 1 {
					t.Errorf("%d executed, %d runs", executed, w.work.runs())
				}
			})
		})
	}
}
