package handler_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/handler"
)

func TestAReplayCarriesTheRawBytesUnchanged(t *testing.T) {
	for _, raw := range [][]byte{[]byte("no event"), {0, 255, '\n'}, bytes.Repeat([]byte{'x'}, 256<<10)} {
		want := plan.Envelope{Oncegate: plan.EnvelopeReplay, Batch: "rp-1", Item: plan.Frozen{Seq: 3, LetterID: "l", Key: "k"}, Proof: []string{"a", "b"}, Raw: raw}
		wire, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		e, ok := handler.ParseEnvelope(wire)
		if !ok || e.Oncegate != plan.EnvelopeReplay || e.Replay == nil || !reflect.DeepEqual(*e.Replay, want) {
			t.Errorf("%d bytes: got %v", len(raw), ok)
		}
	}
}

func TestAReplayThatIsNotWellFormedIsRefusedAndIsNoEvent(t *testing.T) {
	inWorld(t, func(_ *testing.T, w *world) {
		for _, raw := range []string{
			`{"oncegate":"replay"}`, `{"oncegate":"replay","batch":5}`, `{"oncegate":"replay","raw":"!"}`, `{"oncegate":"replay","item":[]}`,
			`{"oncegate":"replay","item":{"sequence":1}}`, `{"oncegate":"replay","Batch":"b"}`, `{"oncegate":"replay","more":1}`,
			fmt.Sprintf(`{"oncegate":"replay","batch":%q}`, strings.Repeat("b", 5000)),
		} {
			e, ok := handler.ParseEnvelope([]byte(raw))
			if !ok {
				w.t.Errorf("%.60s: taken for an event", raw)
				continue
			}
			w.unchanged(func() outcome {
				r, err := w.instance().Call(w.ctx(), e, handler.Delivery{Version: "7"})
				return outcome{r, err}
			}, handler.DecisionReplayRefused, "not well-formed")
		}
	})
}
