package handler_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
)

func TestS35_AProcessorThatPanicsOrOverstaysEndsRight(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(release chan struct{}) func(context.Context, flows.Task) (map[string]any, error)
		code idempotency.Code
	}{
		"a panic": {func(chan struct{}) func(context.Context, flows.Task) (map[string]any, error) {
			return func(context.Context, flows.Task) (map[string]any, error) { panic("13800001111") }
		}, idempotency.CodeUnclassified},
		"an index that is not there": {func(chan struct{}) func(context.Context, flows.Task) (map[string]any, error) {
			return func(_ context.Context, t flows.Task) (map[string]any, error) {
				return map[string]any{"13800001111": []int(nil)[t.Attempt]}, nil
			}
		}, idempotency.CodeUnclassified},
		"a time-out that it heeds": {func(chan struct{}) func(context.Context, flows.Task) (map[string]any, error) {
			return func(ctx context.Context, _ flows.Task) (map[string]any, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			}
		}, idempotency.CodeTimeout},
		"a deadline that it ignores": {func(release chan struct{}) func(context.Context, flows.Task) (map[string]any, error) {
			return func(context.Context, flows.Task) (map[string]any, error) {
				<-release
				return map[string]any{"too": "late"}, nil
			}
		}, idempotency.CodeTimeout},
		"no fields": {func(chan struct{}) func(context.Context, flows.Task) (map[string]any, error) {
			return func(context.Context, flows.Task) (map[string]any, error) { return nil, nil }
		}, idempotency.CodeUnclassified},
		"a reserved field": {func(chan struct{}) func(context.Context, flows.Task) (map[string]any, error) {
			return func(context.Context, flows.Task) (map[string]any, error) { return map[string]any{"attempt": 9}, nil }
		}, idempotency.CodeUnclassified},
		"a field that is no JSON": {func(chan struct{}) func(context.Context, flows.Task) (map[string]any, error) {
			return func(context.Context, flows.Task) (map[string]any, error) {
				return map[string]any{"f": func() {}}, nil
			}
		}, idempotency.CodeUnclassified},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				raw, h := order("e1", "17", 5), w.instance()
				release := make(chan struct{})
				defer close(release)
				w.work.set(c.do(release))
				began := time.Now()
				w.retried(w.deliver(h, raw), c.code)
				if since := time.Since(began); since >= w.limit {
					t.Errorf("it took %s of %s", since, w.limit)
				}
				if r := w.stands(idempotency.StatusFailedRetryable, 1); r.LastErrorCode != c.code || r.LastErrorTarget != "fc:gate" {
					t.Errorf("record %+v", r)
				}
				if strings.Contains(w.logs.String(), "13800001111") {
					t.Error("the panic's value is in the log")
				}
				// The instance lives on, and the next delivery ends right.
				w.work.set(nil)
				w.acked(w.deliver(h, order("e2", "18", 5)), handler.DecisionExecuted)
				time.Sleep(time.Minute)
				w.acked(w.deliver(h, raw), handler.DecisionExecuted)
			})
		})
	}
}
