package handler_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/internal/logline"
)

// TestTheLogSampleIsWhatOneBusinessLeaves writes docs/log-sample.jsonl: an event
// whose model refuses the credentials, its dead letter, the same event again, the
// replay of the letter under an approved plan, and a late copy. Clock and numbers
// are those of the test, so nothing is edited.
func TestTheLogSampleIsWhatOneBusinessLeaves(t *testing.T) {
	const file = "../docs/log-sample.jsonl"
	inWorld(t, func(t *testing.T, w *world) {
		raw := []byte(strings.Replace(string(order("evt-1", "17", 5)), "{", `{"traceparent":"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",`, 1))
		l := w.failedFinal(raw)
		time.Sleep(time.Minute)
		w.acked(w.deliver(w.instance(), raw), handler.DecisionFinal)
		time.Sleep(time.Hour)
		w.acked(w.call(w.instance(), w.approved(raw, w.letterByID(l.ID))), handler.DecisionExecuted)
		time.Sleep(time.Minute)
		w.acked(w.deliver(w.instance(), raw), handler.DecisionDuplicate)

		got := w.logs.String()
		for _, want := range []string{logline.Delivery, logline.Transition, logline.Letter} {
			if len(w.lines(want)) == 0 {
				t.Errorf("the sample has no line of kind %s", want)
			}
		}
		if w.last().Duplicate == "" || w.letterByID(l.ID).Code != letter.CodeAccessDenied {
			t.Errorf("last line %+v", w.last())
		}
		if *update {
			must(t, os.WriteFile(file, []byte(got), 0o644))
		}
		want, err := os.ReadFile(file)
		must(t, err)
		if string(want) != got {
			t.Errorf("docs/log-sample.jsonl is not what is logged: go test ./handler -run LogSample -update\n%s", got)
		}
	})
}
