package handler_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
)

func TestFailuresOfEachClass(t *testing.T) {
	for code, want := range map[idempotency.Code]struct {
		tries  int64 // until it ends for good
		letter letter.Code
	}{
		idempotency.CodeTimeout:              {3, letter.CodeTimeout},
		idempotency.CodeRateLimited:          {3, letter.CodeThrottled},
		idempotency.CodeTemporaryUnavailable: {3, letter.CodeUpstream5xx},
		idempotency.CodeInvalidRequest:       {1, letter.CodeInvalidSchema},
		idempotency.CodePermissionDenied:     {1, letter.CodeAccessDenied},
		idempotency.CodePolicyRejected:       {1, letter.CodePolicyRejected},
		idempotency.CodeTargetNotFound:       {1, letter.CodeTargetNotFound},
		idempotency.CodeUnclassified:         {2, letter.CodeUnclassified},
		"outside the set":                    {2, letter.CodeUnclassified},
		"":                                   {2, letter.CodeUnclassified},
		idempotency.CodeInProgress:           {2, letter.CodeUnclassified}, // says nothing of a run
	} {
		t.Run("code "+string(code), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				raw, h := order("e1", "17", 5), w.instance()
				w.work.set(failing(idempotency.Failure{Code: code, Target: "model:m"}))
				for attempt := int64(1); attempt < want.tries; attempt++ {
					o := w.deliver(h, raw)
					if o.err == nil || o.ErrorCode == idempotency.CodeInProgress {
						t.Fatalf("attempt %d: got %v", attempt, o)
					}
					w.stands(idempotency.StatusFailedRetryable, attempt)
					time.Sleep(time.Hour)
				}
				w.acked(w.deliver(h, raw), handler.DecisionFinal)
				w.stands(idempotency.StatusFailedFinal, want.tries)
				w.openLetter(want.letter, raw)
			})
		})
	}
	t.Run("an error without a code is unclassified, twice at most and not in a row", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			raw, h := order("e1", "17", 5), w.instance()
			plain := func(context.Context, flows.Task) (map[string]any, error) { return nil, errors.New("surprise") }
			for i, do := range []func(context.Context, flows.Task) (map[string]any, error){plain, failing(unavailable)} {
				w.work.set(do)
				if o := w.deliver(h, raw); o.err == nil {
					t.Fatalf("got %v", o)
				}
				w.stands(idempotency.StatusFailedRetryable, int64(i)+1)
				time.Sleep(time.Hour)
			}
			w.work.set(plain)
			w.acked(w.deliver(h, raw), handler.DecisionFinal)
			w.stands(idempotency.StatusFailedFinal, 3)
		})
	})
}

func TestASummaryIsCutWithoutBreakingItsText(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.work.set(failing(idempotency.Failure{
			Code: idempotency.CodeTimeout, Target: "model:m", Summary: strings.Repeat("s", 199) + "超时",
		}))
		w.retried(w.deliver(w.instance(), order("e1", "17", 5)), idempotency.CodeTimeout)
		r := w.stands(idempotency.StatusFailedRetryable, 1)
		if len(r.LastErrorSummary) > 200 || strings.ToValidUTF8(r.LastErrorSummary, "") != r.LastErrorSummary {
			t.Errorf("summary %q", r.LastErrorSummary)
		}
	})
}
