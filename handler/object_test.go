package handler_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
)

func TestAnEventTooLargeForAQueueStoresItsLetterWithItsFirstFailure(t *testing.T) {
	for name, c := range map[string]struct{ size, letters int }{"48 KB": {48 << 10, 0}, "a byte more": {48<<10 + 1, 1}} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				raw := order("e1", "17", 5)
				raw = append(raw, bytes.Repeat([]byte(" "), c.size-len(raw))...)
				w.work.set(failing(unavailable))
				w.retried(w.deliver(w.instance(), raw), unavailable.Code)
				w.stands(idempotency.StatusFailedRetryable, 1)
				if c.letters == 0 {
					if n := len(w.letters()); n != 0 {
						t.Errorf("%d letters", n)
					}
					return
				}
				id := w.openLetter(letter.CodeUpstream5xx, raw).ID
				time.Sleep(time.Hour)
				w.retried(w.deliver(w.instance(), raw), unavailable.Code)
				if l := w.openLetter(letter.CodeUpstream5xx, raw); l.ID != id || l.DeliveryAttempts != 2 {
					t.Errorf("letter %+v, was %s", l, id)
				}
			})
		})
	}
	t.Run("and comes again where that letter cannot be stored", func(t *testing.T) {
		inWorld(t, func(_ *testing.T, w *world) {
			raw := append(order("e1", "17", 5), bytes.Repeat([]byte(" "), 50<<10)...)
			w.work.set(failing(unavailable))
			w.tables.Faults.Add(drop("", "dead_letters", -1))
			w.retried(w.deliver(w.instance(), raw), idempotency.CodeTemporaryUnavailable)
			w.stands(idempotency.StatusRunning, 1)
		})
	})
}

func TestInputAndOutputSayWhatTheyAreOf(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		raw := order("e1", "17", 5)
		o := w.deliver(w.instance(), raw)
		w.acked(o, handler.DecisionExecuted)
		r := w.record()
		var input struct {
			SchemaVersion int             `json:"schema_version"`
			Key           string          `json:"idempotency_key"`
			Flow          string          `json:"flow"`
			InputDigest   string          `json:"input_digest"`
			Event         json.RawMessage `json:"event"`
		}
		body, _ := w.object(artifacts.InputName(r.Key))
		must(t, json.Unmarshal(body, &input))
		if input.SchemaVersion != 1 || input.Key != r.Key || input.Flow != "order.create" || input.InputDigest != r.InputDigest || !bytes.Equal(input.Event, raw) {
			t.Errorf("input.json is %s", body)
		}
		var output map[string]any
		body, _ = w.object(o.ResultRef)
		must(t, json.Unmarshal(body, &output))
		for name, want := range map[string]any{
			"schema_version": 1.0, "idempotency_key": r.Key, "flow": "order.create", "attempt": 1.0,
			"input_digest": r.InputDigest, "processor_version": "1.w1", "answer": "done",
		} {
			if output[name] != want {
				t.Errorf("output.json has %s %v, want %v", name, output[name], want)
			}
		}
		if r.ResultRef.SHA256 != idempotency.DigestBinary(body) || r.ResultRef.VersionID == "" {
			t.Errorf("result_ref %s", r.ResultRef)
		}
		for _, object := range w.objects.Objects(bucketName) {
			class := "output"
			if strings.HasSuffix(object.Key, "/input.json") {
				class = "input"
			}
			if object.Tags["class"] != class || object.SSE != "AES256" || object.Metadata["oncegate-key"] != r.Key {
				t.Errorf("object %s: tags %v, encryption %q, metadata %v", object.Key, object.Tags, object.SSE, object.Metadata)
			}
		}
	})
}
