package main

import (
	"bytes"
	"testing"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/idempotency/otstest"
)

func TestKilledAtEveryCallOfADeliveryThatFailsForGood(t *testing.T) {
	t.Parallel()
	b := business{"refused", "[[model status=401 times=-1]] Order 17 is late."}
	raw := b.event("evt-1")
	w := newWorld(t, options{})
	if r := result(t, w.deliver(raw)); r.Decision != handler.DecisionFinal || r.ErrorCode != idempotency.CodePermissionDenied {
		t.Fatalf("undisturbed: %+v", r)
	}
	calls := w.calls(0)
	wantCalls(t, calls, claimCall, modelCall, inputCall, rawCall, letterCall, updateCall)

	each(t, matrix(calls), strike.String, func(t *testing.T, s strike) {
		w := newWorld(t, options{timeout: short})
		w.strikes = []strike{s}
		w.deliver(raw)
		for range 2 {
			if r := w.redeliver(raw); r.Decision != handler.DecisionFinal || r.Status != idempotency.StatusFailedFinal {
				t.Errorf("acknowledged as %+v", r)
			}
		}
		w.killed(t, 1)
		rec := w.record()
		if rec.Status != idempotency.StatusFailedFinal || rec.Attempt > 2+w.spare() || rec.LastErrorCode != idempotency.CodePermissionDenied {
			t.Errorf("record %+v", rec)
		}
		if n := int64(w.model.Calls()); n > rec.Attempt {
			t.Errorf("%d model calls in %d attempts", n, rec.Attempt)
		}
		letters := w.letters()
		if len(letters) != 1 {
			t.Fatalf("%d letters, want 1", len(letters))
		}
		stored, ok := w.openLetter(func(otstest.Row) bool { return true })
		if !ok || !bytes.Equal(stored, raw) {
			t.Errorf("the letter holds %q", stored)
		}
		for name, want := range map[string]any{
			"error_code": string(letter.CodeAccessDenied), "target": "model:demo-model", "idempotency_key": b.key(),
			"event_id": "evt-1", "input_digest": rec.InputDigest,
		} {
			if got := letters[0].Columns[name]; got != want {
				t.Errorf("%s is %v, want %v", name, got, want)
			}
		}
	})
}
