package main

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"

	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/handler/fctest"
	"github.com/oncegate/oncegate/idempotency"
)

// members checks an acknowledged batch: each member keeps the promise of a
// delivery of its own.
func (w *world) members(t *testing.T, resp fctest.Response, raw ...[]byte) []handler.Result {
	t.Helper()
	var batch handler.BatchResult
	if resp.FunctionError != "" {
		t.Fatalf("not acknowledged: %s", resp.Payload)
	}
	if err := json.Unmarshal(resp.Payload, &batch); err != nil || batch.Decision != handler.DecisionBatch || len(batch.Members) != len(raw) {
		t.Fatalf("got %s, %v", resp.Payload, err)
	}
	for i, r := range batch.Members {
		w.checkAcknowledged(raw[i], r)
	}
	return batch.Members
}

func TestArrayThatCannotBeReadIsOneDeadLetter(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	for i, payload := range []string{"[]", `[{"specversion":"1.0"}`, "[1] and more"} {
		for range 2 {
			got := w.members(t, w.deliver([]byte(payload)), []byte(payload))
			if got[0].Decision != handler.DecisionDeadLetter {
				t.Errorf("%s: %+v", payload, got[0])
			}
		}
		if n := len(w.letters()); n != i+1 {
			t.Errorf("%d letters after %d arrays", n, i+1)
		}
	}
}

func TestS36MemberThatMustComeAgainDoesNotRunItsNeighboursTwice(t *testing.T) {
	t.Parallel()
	w := newWorld(t, options{})
	done := business{"batch done", "Order 17 is late."}
	again := business{"batch again", "[[model status=503]] Order 18 is late."}
	raw := [][]byte{done.event("evt-1"), again.event("evt-2"), done.event("evt-3"), []byte(`{"id":"no event"}`)}
	array := bytes.Join([][]byte{[]byte("["), bytes.Join(raw, []byte(",")), []byte("]")}, nil)

	resp := w.deliver(array)
	if resp.Ending != fctest.Failed || resp.ErrorType != string(idempotency.CodeTemporaryUnavailable) {
		t.Fatalf("got %s %s", resp.Ending, resp.Payload)
	}
	until(t, "an acknowledgement", func() bool {
		time.Sleep(200 * time.Millisecond)
		resp = w.deliver(array)
		return resp.Ending == fctest.Returned
	})
	got := w.members(t, resp, raw...)
	for i, want := range []handler.Decision{
		handler.DecisionDuplicate, handler.DecisionExecuted, handler.DecisionDuplicate, handler.DecisionDeadLetter,
	} {
		if got[i].Decision != want {
			t.Errorf("member %d: %+v, want %s", i, got[i], want)
		}
	}
	if n := w.model.Calls(); n != 3 {
		t.Errorf("%d model calls, want 1 and 2", n)
	}
	if n := len(w.letters()); n != 1 {
		t.Errorf("%d letters, want 1", n)
	}
}
