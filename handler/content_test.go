package handler_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/flows/modeltest"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

const contentFlows = `
schema_version: 1
flows:
  - {name: doc.review, owner: doc-team, number_owner: desk, match: {type: demo:doc}, processor: work, processor_version: "1", max_attempts: 3,
     key: {doc: {path: $.subject}, op: {const: doc.review}}, content: {object: $.data.object, sha256: $.data.sha256, version_id: $.data.version},
     sample: '{"specversion":"1.0","id":"e","source":"desk","type":"demo:doc","aliyuneventbusname":"test","subject":"n","data":{"object":"o","sha256":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08","version":"v"}}'}
  - {name: doc.elsewhere, owner: doc-team, number_owner: desk, match: {type: demo:elsewhere}, processor: work, processor_version: "1",
     key: {doc: {path: $.subject}, op: {const: doc.elsewhere}}, content: {bucket: archive, object: $.data.object, sha256: $.data.sha256},
     sample: '{"specversion":"1.0","id":"e","source":"desk","type":"demo:elsewhere","aliyuneventbusname":"test","subject":"n","data":{"object":"o","sha256":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}}'}
  - {name: doc.summary, owner: doc-team, number_owner: desk, match: {type: demo:summary}, processor: summary, processor_version: "1",
     key: {doc: {path: $.subject}, op: {const: doc.summary}}, content: {object: $.data.object, sha256: $.data.sha256},
     sample: '{"specversion":"1.0","id":"e","source":"desk","type":"demo:summary","aliyuneventbusname":"test","subject":"n","data":{"object":"o","sha256":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}}'}
`

// running gives an instance other flows.
func (w *world) running(text string) *handler.Handler {
	return w.instance(func(o *handler.Options) { o.Flows = w.flows(text, o.Processors) })
}

// upload stores a user's object and returns its version.
func (w *world) upload(bucket, name, body string) string {
	w.t.Helper()
	b := w.bucket.Named(bucket)
	_, err := b.Create(w.ctx())
	must(w.t, err)
	version, err := b.Put(w.ctx(), name, aliyun.Object{Body: []byte(body), ContentType: "text/plain"})
	must(w.t, err)
	return version
}

func sumOf(body string) string { return idempotency.DigestBinary([]byte(body)) }

// doc is an event about an object of a user; data adds to the object's name.
func doc(id, object, data string) []byte {
	return event(id, "demo:doc", "doc-1", fmt.Sprintf(`{"object":%q,%s}`, object, data))
}

func pinned(body string) string { return fmt.Sprintf(`"sha256":%q`, sumOf(body)) }

// refusedContent fails the test unless the event failed for good and its letter says why.
func (w *world) refusedContent(o outcome, raw []byte, code idempotency.Code) {
	w.t.Helper()
	w.acked(o, handler.DecisionFinal)
	r := w.stands(idempotency.StatusFailedFinal, 1)
	if r.LastErrorCode != code || r.LastErrorTarget != "oss:content" || r.LastErrorSummary == "" || w.work.runs() != 0 || len(w.outputs()) != 0 {
		w.t.Fatalf("record %+v, %d runs, outputs %v", r, w.work.runs(), w.outputs())
	}
	if l := w.openLetter(letter.CodeOf(code), raw); l.ID != o.LetterID || l.Target != "oss:content" {
		w.t.Fatalf("letter %+v, answered %v", l, o)
	}
}

func TestContentReachesTheProcessor(t *testing.T) {
	for name, prepare := range map[string]func(w *world) []byte{
		"pinned by its hash": func(w *world) []byte {
			w.upload(bucketName, "docs/a", "one")
			return doc("e1", "docs/a", pinned("one"))
		},
		"by a hash with its name before it": func(w *world) []byte {
			w.upload(bucketName, "docs/a", "one")
			return doc("e1", "docs/a", strings.Replace(pinned("one"), `:"`, `:"sha256:`, 1))
		},
		"S27 by its version, though overwritten": func(w *world) []byte {
			v := w.upload(bucketName, "docs/a", "one")
			w.upload(bucketName, "docs/a", "two")
			return doc("e1", "docs/a", fmt.Sprintf(`"version":%q`, v))
		},
		"by both": func(w *world) []byte {
			v := w.upload(bucketName, "docs/a", "one")
			w.upload(bucketName, "docs/a", "two")
			return doc("e1", "docs/a", fmt.Sprintf(`"version":%q,`, v)+pinned("one"))
		},
		"in another bucket": func(w *world) []byte {
			w.upload(bucketName, "docs/a", "two")
			w.upload("archive", "docs/a", "one")
			return event("e1", "demo:elsewhere", "doc-1", `{"object":"docs/a",`+pinned("one")+`}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				raw := prepare(w)
				w.acked(w.deliver(w.running(contentFlows), raw), handler.DecisionExecuted)
				if task := w.work.tasks[0]; string(task.Content) != "one" || task.Payload.(map[string]any)["object"] != "docs/a" {
					t.Errorf("the processor got %q and %v", task.Content, task.Payload)
				}
				w.objects.Faults.ResetCalls()
				w.acked(w.deliver(w.running(contentFlows), raw), handler.DecisionDuplicate)
				if calls := w.objects.Faults.Calls(); len(calls) != 0 || w.work.runs() != 1 {
					t.Errorf("a duplicate made the calls %v and %d runs", calls, w.work.runs())
				}
			})
		})
	}
	t.Run("being empty", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.upload(bucketName, "docs/a", "")
			w.acked(w.deliver(w.running(contentFlows), doc("e1", "docs/a", pinned(""))), handler.DecisionExecuted)
			if c := w.work.tasks[0].Content; c == nil || len(c) != 0 {
				t.Errorf("the processor got %v", c)
			}
		})
	})
	t.Run("and the model", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.upload(bucketName, "docs/a", "Order 17 is late.")
			o := w.deliver(w.running(contentFlows), event("e1", "demo:summary", "doc-1", `{"object":"docs/a",`+pinned("Order 17 is late.")+`}`))
			w.acked(o, handler.DecisionExecuted)
			if body, _ := w.object(o.ResultRef); !strings.Contains(string(body), modeltest.Summary("Order 17 is late.")) {
				t.Errorf("got %s", body)
			}
		})
	})
	t.Run("nil where the flow has none", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.acked(w.deliver(w.instance(), order("e1", "17", 5)), handler.DecisionExecuted)
			if w.work.tasks[0].Content != nil || w.objects.Faults.Calls()["GetObject"] != 0 {
				t.Error("content was read")
			}
		})
	})
}

func TestS27_ContentThatChangedUnderItsNameIsRefused(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.upload(bucketName, "docs/a", "one")
		raw := doc("e1", "docs/a", pinned("one"))
		w.upload(bucketName, "docs/a", "two")
		w.refusedContent(w.deliver(w.running(contentFlows), raw), raw, idempotency.CodeInvalidRequest)
		// Not a second meaning either, once the right bytes are back.
		w.upload(bucketName, "docs/a", "one")
		w.acked(w.deliver(w.running(contentFlows), raw), handler.DecisionFinal)
		if w.work.runs() != 0 {
			t.Error("it ran")
		}
	})
	t.Run("between two attempts", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.upload(bucketName, "docs/a", "one")
			raw := doc("e1", "docs/a", pinned("one"))
			w.work.set(failing(unavailable))
			w.retried(w.deliver(w.running(contentFlows), raw), unavailable.Code)
			w.upload(bucketName, "docs/a", "two")
			time.Sleep(time.Minute)
			w.acked(w.deliver(w.running(contentFlows), raw), handler.DecisionFinal)
			if r := w.stands(idempotency.StatusFailedFinal, 2); r.LastErrorCode != idempotency.CodeInvalidRequest || w.work.runs() != 1 {
				t.Errorf("record %+v, %d runs", r, w.work.runs())
			}
		})
	})
}

func TestContentThatCannotBeHadEndsByItsKind(t *testing.T) {
	for name, c := range map[string]struct {
		data string
		code idempotency.Code
	}{
		"no such object":   {`"object":"docs/none",` + pinned("one"), idempotency.CodeTargetNotFound},
		"no such version":  {`"object":"docs/a","version":"CAEQ00000000000000FF"`, idempotency.CodeTargetNotFound},
		"a broken hash":    {`"object":"docs/a","sha256":"abc"`, idempotency.CodeInvalidRequest},
		"no object":        {pinned("one"), idempotency.CodeInvalidRequest},
		"nothing to pin":   {`"object":"docs/a"`, idempotency.CodeInvalidRequest},
		"a hash as number": {`"object":"docs/a","sha256":7`, idempotency.CodeInvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(_ *testing.T, w *world) {
				w.upload(bucketName, "docs/a", "one")
				raw := event("e1", "demo:doc", "doc-1", "{"+c.data+"}")
				w.refusedContent(w.deliver(w.running(contentFlows), raw), raw, c.code)
			})
		})
	}
	t.Run("denied", func(t *testing.T) {
		inWorld(t, func(_ *testing.T, w *world) {
			w.upload(bucketName, "docs/a", "one")
			w.objects.Faults.Add(cloudtest.Fault{Op: "GetObject", Kind: cloudtest.Status, Status: 403, Code: "AccessDenied", Times: -1})
			raw := doc("e1", "docs/a", pinned("one"))
			w.refusedContent(w.deliver(w.running(contentFlows), raw), raw, idempotency.CodePermissionDenied)
		})
	})
	t.Run("no such bucket", func(t *testing.T) {
		inWorld(t, func(_ *testing.T, w *world) {
			raw := event("e1", "demo:elsewhere", "doc-1", `{"object":"docs/a",`+pinned("one")+`}`)
			w.refusedContent(w.deliver(w.running(contentFlows), raw), raw, idempotency.CodeTargetNotFound)
		})
	})
}

func TestAStoreThatFailsToReadContentIsTriedAgain(t *testing.T) {
	for _, c := range []struct {
		fault cloudtest.Fault
		code  idempotency.Code
	}{
		{cloudtest.Fault{Kind: cloudtest.Drop}, idempotency.CodeTemporaryUnavailable},
		{cloudtest.Fault{Kind: cloudtest.Truncate, Phase: cloudtest.After}, idempotency.CodeTemporaryUnavailable},
		{cloudtest.Fault{Kind: cloudtest.Status, Status: 503, Code: "InternalError"}, idempotency.CodeTemporaryUnavailable},
		{cloudtest.Fault{Kind: cloudtest.Status, Status: 429, Code: "QpsLimitExceeded"}, idempotency.CodeTemporaryUnavailable},
	} {
		t.Run(fmt.Sprint(c.fault.Kind, c.fault.Code), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.upload(bucketName, "docs/a", "one")
				c.fault.Op = "GetObject"
				w.objects.Faults.Add(c.fault)
				raw := doc("e1", "docs/a", pinned("one"))
				h := w.running(contentFlows)
				w.retried(w.deliver(h, raw), c.code)
				if r := w.stands(idempotency.StatusFailedRetryable, 1); r.LastErrorTarget != "oss:content" || w.work.runs() != 0 {
					t.Errorf("record %+v, %d runs", r, w.work.runs())
				}
				time.Sleep(time.Minute)
				w.acked(w.deliver(h, raw), handler.DecisionExecuted)
				w.stands(idempotency.StatusSucceeded, 2)
			})
		})
	}
}

func TestAdoptingAnOutputReadsNoContent(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.upload(bucketName, "docs/a", "one")
		raw := doc("e1", "docs/a", pinned("one"))
		w.work.set(func(context.Context, flows.Task) (map[string]any, error) {
			w.tables.Faults.Add(drop("UpdateRow", "", -1))
			return map[string]any{"a": 1}, nil
		})
		w.retried(w.deliver(w.running(contentFlows), raw), idempotency.CodeTemporaryUnavailable)
		w.tables.Faults.Clear()
		w.upload(bucketName, "docs/a", "two")
		time.Sleep(timeLimit + policy.Margin + time.Second)
		w.acked(w.deliver(w.running(contentFlows), raw), handler.DecisionExecuted)
		w.stands(idempotency.StatusSucceeded, 2)
		if w.work.runs() != 1 {
			t.Errorf("%d runs", w.work.runs())
		}
	})
}
