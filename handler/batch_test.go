package handler_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
)

func batchOf(members ...[]byte) []byte {
	return slices.Concat([]byte("["), bytes.Join(members, []byte(",")), []byte("]"))
}

// textsOf is a batch whose members are JSON texts, as some event streams send them.
func textsOf(members ...[]byte) []byte {
	var quoted [][]byte
	for _, m := range members {
		text, _ := json.Marshal(string(m))
		quoted = append(quoted, text)
	}
	return batchOf(quoted...)
}

func (w *world) batch(h *handler.Handler, raw []byte) (handler.BatchResult, error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx(), w.limit)
	defer cancel()
	r, err := h.HandleBatch(ctx, raw, handler.Delivery{RequestID: "request", FunctionName: "gate", Version: "7"})
	var re *handler.RetryError
	if err != nil && !errors.As(err, &re) {
		w.t.Fatalf("an error of type %T", err)
	}
	return r, err
}

// ackedBatch fails the test unless the batch was acknowledged with these decisions.
func (w *world) ackedBatch(h *handler.Handler, raw []byte, want ...handler.Decision) []handler.Result {
	w.t.Helper()
	r, err := w.batch(h, raw)
	if got := decisions(r); err != nil || r.Decision != handler.DecisionBatch || !slices.Equal(got, want) {
		w.t.Fatalf("got %v, error %v, want %v\n%s", got, err, want, w.logs)
	}
	return r.Members
}

// retriedBatch fails the test unless the batch must come again with a code.
func (w *world) retriedBatch(h *handler.Handler, raw []byte, code idempotency.Code, want ...handler.Decision) {
	w.t.Helper()
	r, err := w.batch(h, raw)
	w.retried(outcome{err: err}, code)
	if got := decisions(r); len(want) > 0 && !slices.Equal(got, want) {
		w.t.Fatalf("got %v, want %v\n%s", got, want, w.logs)
	}
}

func decisions(r handler.BatchResult) []handler.Decision {
	var all []handler.Decision
	for _, m := range r.Members {
		all = append(all, m.Decision)
	}
	return all
}

// orderNo is which order a task is about.
func orderNo(t flows.Task) string {
	no, _ := t.Payload.(map[string]any)["order_no"].(string)
	return no
}

const (
	executed  = handler.DecisionExecuted
	duplicate = handler.DecisionDuplicate
	retry     = handler.DecisionRetry
)

func TestEveryMemberOfABatchHasOneResultInOrder(t *testing.T) {
	for name, form := range map[string]func(...[]byte) []byte{"objects": batchOf, "JSON texts": textsOf} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.work.set(func(_ context.Context, task flows.Task) (map[string]any, error) {
					if orderNo(task) == "1" {
						time.Sleep(time.Second) // the first one ends last
					}
					return map[string]any{"a": 1}, nil
				})
				raw := form(order("e1", "1", 5), order("e2", "2", 5), note("e3", "n", "text"))
				if !handler.IsBatch(raw) {
					t.Fatal("it is not taken for a batch")
				}
				for i, r := range w.ackedBatch(w.instance(), raw, executed, executed, executed) {
					if want := fmt.Sprint("e", i+1); r.EventID != want || r.Status != idempotency.StatusSucceeded || r.Attempt != 1 || r.ResultRef == "" || r.Key == "" {
						t.Errorf("member %d: %+v", i, r)
					}
				}
				w.ackedBatch(w.instance(), raw, duplicate, duplicate, duplicate)
				if w.work.runs() != 2 || w.model.Calls() != 1 || len(w.records()) != 3 {
					t.Errorf("%d runs, %d model calls, %d records", w.work.runs(), w.model.Calls(), len(w.records()))
				}
			})
		})
	}
}

func TestABatchIsAnArrayAndNothingElse(t *testing.T) {
	for raw, want := range map[string]bool{"[": true, " \t\r\n[{}]": true, "": false, " ": false, "{}": false, `"[]"`: false, "\ufeff[]": false} {
		if handler.IsBatch([]byte(raw)) != want {
			t.Errorf("%q: want %v", raw, want)
		}
	}
}

func TestABatchAnswersInJSON(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		r, err := w.batch(w.instance(), batchOf(order("e1", "1", 5), []byte("7")))
		must(t, err)
		text, err := json.Marshal(r)
		must(t, err)
		rec, l := w.record(), w.letters()[0]
		want := fmt.Sprintf(`{"decision":"batch","members":[`+
			`{"decision":"executed","event_id":"e1","event_source":"shop","flow":"order.create","idempotency_key":%q,"status":"SUCCEEDED","attempt":1,"result_ref":%q},`+
			`{"decision":"dead_letter","letter_id":%q,"reason":%q}]}`, rec.Key, rec.ResultRef.Object, l.ID, l.Reason)
		if string(text) != want {
			t.Errorf("got %s\nwant %s", text, want)
		}
	})
}

func TestS36_AMemberThatComesAgainBringsTheOthersAlongAndRunsNoneOfThem(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		raw := batchOf(order("e1", "1", 5), order("e2", "2", 5), note("e3", "n", "text"), note("e4", "m", "[[model status=503 times=1]] text"))
		w.work.set(func(_ context.Context, task flows.Task) (map[string]any, error) {
			if orderNo(task) == "2" && task.Attempt == 1 {
				return nil, &flows.Error{Failure: unavailable}
			}
			return map[string]any{"a": 1}, nil
		})
		w.retriedBatch(w.instance(), raw, unavailable.Code, executed, retry, executed, retry)
		before := map[string]idempotency.Record{}
		for _, r := range w.records() {
			before[r.EventID] = r
		}
		h := w.instance()
		w.retriedBatch(h, raw, unavailable.Code, duplicate, retry, duplicate, retry) // too early
		if w.work.runs() != 2 || w.model.Calls() != 2 {
			t.Errorf("%d runs, %d model calls before the back-off is over", w.work.runs(), w.model.Calls())
		}
		time.Sleep(time.Minute)
		w.ackedBatch(h, raw, duplicate, executed, duplicate, executed)
		if w.work.runs() != 3 || w.model.Calls() != 3 || len(w.letters()) != 0 {
			t.Errorf("%d runs, %d model calls, letters %v", w.work.runs(), w.model.Calls(), w.letters())
		}
		for _, r := range w.records() {
			if r.EventID == "e1" || r.EventID == "e3" {
				if !reflect.DeepEqual(r, before[r.EventID]) {
					t.Errorf("%s was settled again: %+v", r.EventID, r)
				}
			} else if r.Status != idempotency.StatusSucceeded || r.Attempt != 2 {
				t.Errorf("%s: %+v", r.EventID, r)
			}
		}
	})
}

func TestMembersOfOneBusinessRunInOrderOnOneWorker(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var c crowd
		w.work.set(c.takes(time.Second))
		raw := batchOf(order("e1", "1", 5), order("e2", "2", 5), order("e1", "1", 5), order("e3", "1", 5), order("e4", "1", 500), order("e5", "2", 5))
		got := w.ackedBatch(w.instance(), raw, executed, executed, duplicate, duplicate, handler.DecisionConflict, duplicate)
		if got[2].ResultRef != got[0].ResultRef || got[3].EventID != "e3" || got[4].ResultRef != "" {
			t.Errorf("got %+v", got)
		}
		w.openLetter(letter.CodeConflict, order("e4", "1", 500))
		if len(w.reviews()) != 1 || w.work.runs() != 2 || c.max != 2 {
			t.Errorf("%d reviews, %d runs, %d at once", len(w.reviews()), w.work.runs(), c.max)
		}
		if calls := w.tables.Faults.Calls(); calls["PutRow"] != 2+1+2 { // two claims, the conflict's look, its review and letter
			t.Errorf("calls %v", calls)
		}
	})
}

func TestAnEarlierMemberOfOneBusinessHoldsTheLaterOnesBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.work.set(failing(unavailable))
		w.retriedBatch(w.instance(), batchOf(order("e1", "1", 5), order("e2", "1", 5)), unavailable.Code, retry, retry)
		if r := w.stands(idempotency.StatusFailedRetryable, 1); r.EventID != "e1" || w.work.runs() != 1 {
			t.Errorf("record of %s after %d runs", r.EventID, w.work.runs())
		}
	})
}
