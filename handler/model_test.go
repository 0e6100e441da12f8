package handler_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
)

func TestS34_AModelsAnswerIsClassifiedByItsCodes(t *testing.T) {
	for directive, want := range map[string]struct {
		code    idempotency.Code
		summary string
		wait    time.Duration
	}{
		"status=429 retry_after=77":              {idempotency.CodeRateLimited, "HTTP 429", 77 * time.Second},
		"status=429":                             {idempotency.CodeRateLimited, "HTTP 429", 10 * time.Second},
		"status=401":                             {idempotency.CodePermissionDenied, "HTTP 401", 0},
		"status=403":                             {idempotency.CodePermissionDenied, "HTTP 403", 0},
		"status=400 code=Arrearage":              {idempotency.CodePermissionDenied, "HTTP 400 code Arrearage", 0},
		"status=404":                             {idempotency.CodeTargetNotFound, "HTTP 404", 0},
		"status=400":                             {idempotency.CodeInvalidRequest, "HTTP 400", 0},
		"status=422":                             {idempotency.CodeInvalidRequest, "HTTP 422", 0},
		"status=400 code=DataInspectionFailed":   {idempotency.CodePolicyRejected, "HTTP 400 code DataInspectionFailed", 0},
		"status=400 code=data_inspection_failed": {idempotency.CodePolicyRejected, "HTTP 400 code data_inspection_failed", 0},
		"finish=content_filter":                  {idempotency.CodePolicyRejected, "HTTP 200 code content_filter", 0},
		"status=408":                             {idempotency.CodeTimeout, "HTTP 408", 10 * time.Second},
		"status=500":                             {idempotency.CodeTemporaryUnavailable, "HTTP 500", 10 * time.Second},
		"status=503 retry_after=30":              {idempotency.CodeTemporaryUnavailable, "HTTP 503", 30 * time.Second},
		"cut":                                    {idempotency.CodeTemporaryUnavailable, "no answer", 10 * time.Second},
		"delay=10m":                              {idempotency.CodeTimeout, "no answer", 10 * time.Second},
		"garbage":                                {idempotency.CodeUnclassified, "HTTP 200", 10 * time.Second},
		"empty":                                  {idempotency.CodeUnclassified, "HTTP 200", 10 * time.Second},
		"error200 code=DataInspectionFailed":     {idempotency.CodePolicyRejected, "HTTP 200 code DataInspectionFailed", 0},
		"error200":                               {idempotency.CodeUnclassified, "HTTP 200 code", 10 * time.Second},
		"nochoices":                              {idempotency.CodeUnclassified, "HTTP 200", 10 * time.Second},
	} {
		t.Run(directive, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				raw := note("e1", "n1", "[[model "+directive+" times=-1]] hello 13800001111")
				o := w.deliver(w.instance(), raw)
				r := w.record()
				if r.LastErrorCode != want.code || r.LastErrorTarget != "model:qwen-test" || !strings.HasPrefix(r.LastErrorSummary, want.summary) {
					t.Errorf("record has %s of %s: %s\nwant %s: %s", r.LastErrorCode, r.LastErrorTarget, r.LastErrorSummary, want.code, want.summary)
				}
				if want.code.Class() == idempotency.ClassFinal {
					w.acked(o, handler.DecisionFinal)
					w.openLetter(letter.CodeOf(want.code), raw)
				} else {
					w.retried(o, want.code)
					if got := r.NotBefore.Sub(r.UpdatedAt); got != want.wait {
						t.Errorf("the wait is %s, want %s", got, want.wait)
					}
				}
				if w.model.Calls() != 1 {
					t.Errorf("%d calls: there is one retry loop, the platform's", w.model.Calls())
				}
			})
		})
	}
	t.Run("a model that is not there", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			h := w.instance(func(o *handler.Options) {
				o.Processors["summary"] = flows.Processors(flows.Tools{Model: flows.NewModel(flows.ModelOptions{
					BaseURL: w.model.Endpoint(), Name: "missing-model", APIKey: modelKey, Transport: w.model.Transport(),
				})})["summary"]
			})
			w.acked(w.deliver(h, note("e1", "n1", "hello")), handler.DecisionFinal)
			if r := w.record(); r.LastErrorCode != idempotency.CodeTargetNotFound || r.LastErrorTarget != "model:missing-model" {
				t.Errorf("record %+v", r)
			}
		})
	})
}

func TestS32_TheProvidersRequestIDBelongsToTheTaskNotToTheRun(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		raw := note("e1", "n1", "[[model status=503 times=2]] hello")
		for i := range 3 {
			w.deliver(w.instance(), raw)
			raw = note("e"+strconv.Itoa(i+2), "n1", "[[model status=503 times=2]] hello")
			time.Sleep(time.Hour)
		}
		w.acked(w.deliver(w.instance(), note("e9", "n2", "hello")), handler.DecisionExecuted)
		calls := w.model.Requests()
		if len(calls) != 4 || calls[0].RequestID == "" || calls[0].RequestID != calls[1].RequestID || calls[1].RequestID != calls[2].RequestID || calls[3].RequestID == calls[0].RequestID {
			t.Errorf("calls %+v", calls)
		}
	})
}
