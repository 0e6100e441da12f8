package handler_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/flows/targettest"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestAWriteIsReadBackAndATwinIsAQuestionForAPerson(t *testing.T) {
	inEffectWorld(t, targettest.Options{VisibleAfter: time.Second, ConflictAfterVisible: true}, []string{entry}, func(t *testing.T, w *effectWorld) {
		// Somebody else's record of the number, which does not show yet.
		client := http.Client{Transport: w.targets.Transport()}
		req, err := http.NewRequest(http.MethodPost, w.targets.Endpoint()+"/records", strings.NewReader(`{"number":"R-17"}`))
		must(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+targetToken)
		resp, err := client.Do(req)
		must(t, err)
		resp.Body.Close()
		time.Sleep(time.Second / 2)
		w.targets.Faults.Add(cloudtest.Fault{Op: "CreateRecord", Phase: cloudtest.After, Kind: cloudtest.Delay, Delay: 2 * time.Second})
		w.acked(w.deliver(w.instance(), place("e1", "17", 5)), handler.DecisionOutcomeUnknown)
		if n := len(w.targets.Records()); n != 2 {
			t.Fatalf("%d records: the scenario needs two", n)
		}
		w.row("entry", idempotency.EffectUnknown)
		w.openReview()
		if code := w.task().LastErrorCode; code != idempotency.CodeDuplicateEffect {
			t.Errorf("the record says %s: a replay would not stop", code)
		}
	})
}

func TestANumberThatOnlyReadingBackShowsIsKept(t *testing.T) {
	inEffectWorld(t, targettest.Options{}, []string{entry}, func(t *testing.T, w *effectWorld) {
		w.acked(w.deliver(w.instance(), place("e1", "17", 5)), handler.DecisionExecuted)
		if row := w.row("entry", idempotency.EffectSettled); row.TargetRecordID != w.targets.Records()[0].ID {
			t.Errorf("kept %q, the target has %q", row.TargetRecordID, w.targets.Records()[0].ID)
		}
	})
}
