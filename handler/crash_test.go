package handler_test

import (
	"testing"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestS8_AfterASettleThatFailedTheStoredOutputIsAdopted(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		raw := order("e1", "17", 5)
		w.tables.Faults.Add(drop("UpdateRow", "", -1))
		w.retried(w.deliver(w.instance(), raw), idempotency.CodeTemporaryUnavailable)
		w.tables.Faults.Clear()
		w.stands(idempotency.StatusRunning, 1)
		w.retried(w.deliver(w.instance(), raw), idempotency.CodeInProgress)
		time.Sleep(timeLimit + policy.Margin)
		w.acked(w.deliver(w.instance(), raw), handler.DecisionExecuted)
		r := w.stands(idempotency.StatusSucceeded, 2)
		if w.work.runs() != 1 || len(w.outputs()) != 1 || r.ResultRef.Object != w.outputs()[0] {
			t.Errorf("%d runs, outputs %v, result %s", w.work.runs(), w.outputs(), r.ResultRef)
		}
	})
}

// deleteRow takes a record away behind everybody's back.
func (w *world) deleteRow(key string) {
	w.forged = true
	w.t.Helper()
	client := tablestore.NewClientWithConfig("http://tables.example", "oncegate", w.cred.AccessKeyID, w.cred.AccessKeySecret, w.cred.SecurityToken,
		&tablestore.TableStoreConfig{Transport: w.tables.Transport()})
	pk := new(tablestore.PrimaryKey)
	pk.AddPrimaryKeyColumn(idempotency.TaskTable.Key, key)
	change := &tablestore.DeleteRowChange{TableName: idempotency.TaskTable.Name, PrimaryKey: pk}
	change.SetCondition(tablestore.RowExistenceExpectation_IGNORE)
	if _, err := client.DeleteRow(&tablestore.DeleteRowRequest{DeleteRowChange: change}); err != nil {
		w.t.Error(err)
	}
}

func TestS10_ARecordThatGoesAwayBetweenTwoCallsLeavesTheVerdictRight(t *testing.T) {
	finished := func(r *idempotency.Record) {
		r.Status, r.LeaseUntil = idempotency.StatusSucceeded, time.Time{}
		r.ResultRef = idempotency.Ref{Object: "o", SHA256: "s"}
	}
	retryable := func(r *idempotency.Record) {
		r.Status, r.LeaseUntil, r.LastErrorCode = idempotency.StatusFailedRetryable, time.Time{}, idempotency.CodeTimeout
	}
	for _, c := range []struct {
		name   string
		seed   func(*idempotency.Record)
		before string // the call before which the row goes
		first  func(*world, []byte) outcome
		runs   int // of the delivery that met it
	}{
		{"a finished one, after a failed put", finished, "GetRow", func(w *world, raw []byte) outcome { return w.deliver(w.instance(), raw) }, 0},
		{"a finished one, before a read", finished, "GetRow", func(w *world, raw []byte) outcome { return w.again(w.instance(), raw) }, 1},
		{"an expired one, before its takeover", nil, "UpdateRow", func(w *world, raw []byte) outcome { return w.again(w.instance(), raw) }, 0},
		{"a failed one, before its next claim", retryable, "UpdateRow", func(w *world, raw []byte) outcome { return w.deliver(w.instance(), raw) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				raw := order("e1", "17", 5)
				r := w.seed(raw, c.seed)
				time.Sleep(timeLimit + policy.Margin + time.Second)
				w.onTables(once(c.before, r.Key, cloudtest.Before, func() { w.deleteRow(r.Key) }))
				o := c.first(w, raw)
				if c.runs == 0 {
					w.retried(o, idempotency.CodeTemporaryUnavailable)
				} else {
					w.acked(o, handler.DecisionExecuted)
				}
				if w.work.runs() != c.runs {
					t.Errorf("%d runs, want %d", w.work.runs(), c.runs)
				}
				succeedsInTheEnd(w, raw, 1)
			})
		})
	}
	t.Run("one whose revision goes away, before its takeover", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			raw := order("e1", "17", 5)
			r := w.seed(raw, nil)
			time.Sleep(timeLimit + policy.Margin + time.Second)
			w.onTables(once("UpdateRow", r.Key, cloudtest.Before, func() {
				must(t, w.store.Update(w.ctx(), idempotency.TaskTable, r.Key, aliyun.Row{"revision": nil}, r.Revision))
			}))
			w.retried(w.deliver(w.instance(), raw), idempotency.CodeTemporaryUnavailable)
			if row := w.tables.Rows(idempotency.TaskTable.Name)[0].Columns; row["owner"] != r.Owner || w.work.runs() != 0 {
				t.Errorf("it was taken over: %v", row)
			}
		})
	})
	t.Run("a running one, before it is settled", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			raw := order("e1", "17", 5)
			key := w.claimOf(raw).Key.Hex
			w.onTables(once("UpdateRow", key, cloudtest.Before, func() { w.deleteRow(key) }))
			w.retried(w.deliver(w.instance(), raw), idempotency.CodeTemporaryUnavailable)
			if len(w.records()) != 0 {
				t.Error("settling made a record anew")
			}
		})
	})
}

func TestS16_AKillAroundLetterAndSettleLeavesOneOpenLetter(t *testing.T) {
	denied := failing(idempotency.Failure{Code: idempotency.CodePermissionDenied, Target: "model:m"})
	for _, c := range []struct {
		name         string
		op, target   string
		phase        cloudtest.Phase
		object       bool
		wantRecord   idempotency.Status // right after the kill
		wantLetters  int
		wantAttempts int64
	}{
		{"before the letter's object", "PutObject", "dead-letters/", cloudtest.Before, true, idempotency.StatusRunning, 0, 2},
		{"after the letter's object", "PutObject", "dead-letters/", cloudtest.After, true, idempotency.StatusRunning, 0, 2},
		{"before the letter's row", "PutRow", "dead_letters", cloudtest.Before, false, idempotency.StatusRunning, 0, 2},
		{"between letter and settle", "PutRow", "dead_letters", cloudtest.After, false, idempotency.StatusRunning, 1, 2},
		{"before settle", "UpdateRow", "task_records", cloudtest.Before, false, idempotency.StatusRunning, 1, 2},
		{"between settle and acknowledgement", "UpdateRow", "task_records", cloudtest.After, false, idempotency.StatusFailedFinal, 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				raw := order("e1", "17", 5)
				w.work.set(denied)
				// From the moment of the kill on nothing of this run gets out or in.
				kill := once(c.op, c.target, c.phase, func() {
					for _, f := range []*cloudtest.Faults{w.tables.Faults, w.objects.Faults} {
						f.Add(drop("", "", -1), cloudtest.Fault{Phase: cloudtest.After, Kind: cloudtest.Drop, Times: -1})
					}
				})
				if c.object {
					w.onObjects(kill)
				} else {
					w.onTables(kill)
				}
				w.retried(w.deliver(w.instance(), raw), idempotency.CodeTemporaryUnavailable)
				w.tables.Faults.Clear()
				w.objects.Faults.Clear()
				w.stands(c.wantRecord, 1)
				if n := len(w.letters()); n != c.wantLetters {
					t.Errorf("%d letters after the kill, want %d", n, c.wantLetters)
				}
				time.Sleep(timeLimit + policy.Margin)
				h := w.instance()
				for range 3 {
					time.Sleep(time.Minute)
					o := w.deliver(h, raw)
					w.acked(o, handler.DecisionFinal)
					if l := w.openLetter(letter.CodeAccessDenied, raw); l.ID != o.LetterID || l.Target != "model:m" {
						t.Errorf("letter %+v, answered %s", l, o.LetterID)
					}
				}
				w.stands(idempotency.StatusFailedFinal, c.wantAttempts)
			})
		})
	}
}
