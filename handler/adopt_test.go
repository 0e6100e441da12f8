package handler_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// unsettled runs an event whose settling never gets out, and waits until its
// lease is over: an output without a SUCCEEDED record.
func (w *world) unsettled(raw []byte) {
	w.t.Helper()
	w.tables.Faults.Add(drop("UpdateRow", "task_records", -1))
	w.retried(w.deliver(w.instance(), raw), idempotency.CodeTemporaryUnavailable)
	w.tables.Faults.Clear()
	time.Sleep(timeLimit + policy.Margin + time.Millisecond)
}

func TestALaterAttemptAdoptsTheStoredOutputAndCallsNoModel(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		raw := note("e1", "n1", "hello")
		w.unsettled(raw)
		o := w.deliver(w.instance(), raw)
		w.acked(o, handler.DecisionExecuted)
		r := w.stands(idempotency.StatusSucceeded, 2)
		if w.model.Calls() != 1 || r.ResultRef.Object != artifacts.OutputName(r.Key, 1) || o.ResultRef != r.ResultRef.Object || len(w.outputs()) != 1 {
			t.Errorf("%d model calls, result %s, outputs %v", w.model.Calls(), r.ResultRef, w.outputs())
		}
		body, _ := w.object(r.ResultRef.Object)
		if r.ResultRef.SHA256 != idempotency.DigestBinary(body) {
			t.Errorf("result_ref %s is not of %s", r.ResultRef, body)
		}
		if n := strings.Count(w.logs.String(), `"made_by_attempt":1`); n != 1 {
			t.Errorf("adoption is logged %d times", n)
		}
	})
}

func TestTheNewestStoredOutputIsAdopted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		raw := order("e1", "17", 5)
		w.unsettled(raw)
		r := w.record()
		body := []byte(`{"from":"attempt 2"}`)
		_, err := artifacts.NewStore(w.bucket, "AES256").PutOutput(w.ctx(), artifacts.Label{Key: r.Key, Attempt: 2, InputDigest: r.InputDigest, ProcessorVersion: r.ProcessorVersion}, body)
		must(t, err)
		must(t, w.store.Update(w.ctx(), idempotency.TaskTable, r.Key, aliyun.Row{"attempt": int64(2), "attempt_budget": int64(20), "revision": r.Revision + 1}, r.Revision))
		// One from a later number than this run's is nobody's.
		_, err = artifacts.NewStore(w.bucket, "AES256").PutOutput(w.ctx(), artifacts.Label{Key: r.Key, Attempt: 9, InputDigest: r.InputDigest, ProcessorVersion: r.ProcessorVersion}, body)
		must(t, err)
		w.acked(w.deliver(w.instance(), raw), handler.DecisionExecuted)
		if got := w.stands(idempotency.StatusSucceeded, 3).ResultRef.Object; got != artifacts.OutputName(r.Key, 2) {
			t.Errorf("result %s", got)
		}
	})
}

func TestAnOutputThatDoesNotFitIsNotAdopted(t *testing.T) {
	for name, spoil := range map[string]func(w *world, r idempotency.Record) *handler.Handler{
		"of another processor": func(w *world, _ idempotency.Record) *handler.Handler {
			w.work.version = "w2"
			return w.instance()
		},
		"of another processor_version in flows.yaml": func(w *world, _ idempotency.Record) *handler.Handler {
			return w.instance(func(o *handler.Options) { o.Flows.Flows[0].ProcessorVersion = "2" })
		},
		"whose bytes are other ones": func(w *world, r idempotency.Record) *handler.Handler {
			w.overwrite(r, func(o *aliyun.Object) { o.Body = append(o.Body[:len(o.Body):len(o.Body)], ' ') })
			return w.instance()
		},
		"without a hash": func(w *world, r idempotency.Record) *handler.Handler {
			w.overwrite(r, func(o *aliyun.Object) { delete(o.Metadata, "oncegate-sha256") })
			return w.instance()
		},
		"of another input": func(w *world, r idempotency.Record) *handler.Handler {
			w.overwrite(r, func(o *aliyun.Object) { o.Metadata["oncegate-input-digest"] = "d" })
			return w.instance()
		},
		"of another key": func(w *world, r idempotency.Record) *handler.Handler {
			w.overwrite(r, func(o *aliyun.Object) { o.Metadata["oncegate-key"] = "k" })
			return w.instance()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				raw := order("e1", "17", 5)
				w.unsettled(raw)
				h := spoil(w, w.record())
				w.acked(w.deliver(h, raw), handler.DecisionExecuted)
				r := w.stands(idempotency.StatusSucceeded, 2)
				if w.work.runs() != 2 || r.ResultRef.Object != artifacts.OutputName(r.Key, 2) {
					t.Errorf("%d runs, result %s", w.work.runs(), r.ResultRef)
				}
			})
		})
	}
}

func (w *world) overwrite(r idempotency.Record, edit func(*aliyun.Object)) {
	w.t.Helper()
	name := artifacts.OutputName(r.Key, r.Attempt)
	o, err := w.bucket.Get(w.ctx(), name, "")
	must(w.t, err)
	edit(&o)
	_, err = w.bucket.Put(w.ctx(), name, o)
	must(w.t, err)
}

func TestAStoreThatCannotBeReadForAdoptionIsAFailureNotASecondRun(t *testing.T) {
	for _, op := range []string{"ListObjects", "GetObject"} {
		for name, f := range map[string]cloudtest.Fault{
			"cut": {Kind: cloudtest.Drop}, "503": {Kind: cloudtest.Status, Status: 503, Code: "ServiceUnavailable"},
			"denied": {Kind: cloudtest.Status, Status: 403, Code: "AccessDenied"}, "half an answer": {Kind: cloudtest.Truncate, Phase: cloudtest.After},
		} {
			t.Run(op+" "+name, func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					raw := order("e1", "17", 5)
					w.unsettled(raw)
					f.Op = op
					w.objects.Faults.Add(f)
					o := w.deliver(w.instance(), raw)
					if injected := w.objects.Faults.Injected(); len(injected) != 1 {
						t.Fatalf("the fault did not fire: %v", w.objects.Faults.Calls())
					}
					w.retried(o, idempotency.CodeTemporaryUnavailable)
					if r := w.stands(idempotency.StatusFailedRetryable, 2); r.LastErrorTarget != "oss:" || w.work.runs() != 1 {
						t.Errorf("%d runs, record %+v", w.work.runs(), r)
					}
					time.Sleep(time.Hour)
					w.acked(w.deliver(w.instance(), raw), handler.DecisionExecuted)
					if w.work.runs() != 1 {
						t.Errorf("%d runs", w.work.runs())
					}
				})
			})
		}
	}
}

func TestAnOutputOrInputThatCannotBeStoredIsRetryable(t *testing.T) {
	for _, object := range []string{"/input.json", "/output.json"} {
		for name, f := range map[string]cloudtest.Fault{
			"cut": {Kind: cloudtest.Drop}, "cut after the effect": {Kind: cloudtest.Drop, Phase: cloudtest.After},
			"503":    {Kind: cloudtest.Status, Status: 503, Code: "ServiceUnavailable"},
			"denied": {Kind: cloudtest.Status, Status: 403, Code: "AccessDenied"},
			"slow":   {Kind: cloudtest.Delay, Delay: time.Hour},
		} {
			t.Run(object+" "+name, func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					raw, h := order("e1", "17", 5), w.instance()
					f.Op, f.Target = "PutObject", object
					w.objects.Faults.Add(f)
					o := w.deliver(h, raw)
					if o.err == nil {
						t.Fatalf("got %v", o)
					}
					r := w.stands(idempotency.StatusFailedRetryable, 1)
					if r.LastErrorCode.Class() != idempotency.ClassRetryable || r.LastErrorTarget != "oss:" {
						t.Errorf("record %+v", r)
					}
					time.Sleep(time.Minute)
					w.acked(w.deliver(h, raw), handler.DecisionExecuted)
					runs := 1
					if object == "/output.json" && f.Phase == cloudtest.Before {
						runs = 2 // the output was never there
					}
					if w.work.runs() != runs {
						t.Errorf("%d runs, want %d", w.work.runs(), runs)
					}
					if _, ok := w.object(artifacts.InputName(r.Key)); !ok {
						t.Error("there is no input.json")
					}
				})
			})
		}
	}
}

func TestAFailureWithoutAnOutputIsNotCoveredUpByTheInputs(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.objects.Faults.Add(drop("PutObject", "/input.json", -1))
		w.work.set(func(context.Context, flows.Task) (map[string]any, error) {
			return nil, &flows.Error{Failure: idempotency.Failure{Code: idempotency.CodePermissionDenied, Target: "model:m"}, Err: errors.New("x")}
		})
		w.acked(w.deliver(w.instance(), order("e1", "17", 5)), handler.DecisionFinal)
		if r := w.stands(idempotency.StatusFailedFinal, 1); r.LastErrorTarget != "model:m" {
			t.Errorf("record %+v", r)
		}
	})
}
