package deadletter

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// overWorld holds one row of each kind that is over ("old-"), and one beside it
// that must stay ("keep-").
func overWorld(t *testing.T) (*world, *Purger) {
	t.Helper()
	w := newWorld(t)
	old, later := w.now.Add(-time.Hour).UnixMilli(), w.now.Add(time.Hour).UnixMilli()
	put := func(table aliyun.Table, key string, row aliyun.Row) {
		t.Helper()
		if err := w.store.Insert(t.Context(), table, key, row); err != nil {
			t.Fatal(err)
		}
	}
	one := int64(1)
	letters := func(id, task string, expires int64, end string) {
		ref, err := w.desk.Artifacts.PutLetter(t.Context(), id, []byte("raw"))
		if err != nil {
			t.Fatal(err)
		}
		row := aliyun.Row{"revision": one, "expires_at": expires, "raw_ref": ref.String(), "raw_sha256": ref.SHA256, "error_code": "TIMEOUT", "first_failed_at": old}
		if end != "" {
			row["final_status"] = end
		}
		if task != "" {
			row["idempotency_key"] = task
		}
		put(letter.LetterTable, id, row)
	}
	letters("old-ended", "", old, "DISCARDED")
	letters("keep-open", "keep-asked", old, "")
	letters("keep-young", "", later, "DISCARDED")
	task := func(key, status string, expires int64) {
		put(idempotency.TaskTable, key, aliyun.Row{"kind": "task", "status": status, "revision": one, "record_version": one, "expires_at": expires})
	}
	task("old-done", "SUCCEEDED", old)
	task("old-failed", "FAILED_FINAL", old)
	task("keep-asked", "FAILED_FINAL", old)
	task("keep-doubt", "FAILED_FINAL", old)
	task("keep-running", "RUNNING", old)
	task("keep-young", "SUCCEEDED", later)
	effect := func(key, task, status string) {
		put(idempotency.TaskTable, key, aliyun.Row{"kind": "effect", "status": status, "revision": one, "record_version": one, "expires_at": old, "task_key": task})
	}
	effect("old-effect", "old-done", "SETTLED")
	effect("old-left", "gone-before", "REFUSED")
	effect("keep-effect", "keep-asked", "SETTLED")
	effect("keep-unknown", "old-done", "UNKNOWN")
	effect("keep-runs", "keep-running", "SETTLED")
	review := func(id, state, task string) {
		put(idempotency.ReviewTable, id, aliyun.Row{"state": state, "revision": one, "expires_at": old, "idempotency_key": task})
	}
	review("old-review", "closed", "old-done")
	review("keep-review", "open", "keep-doubt")
	for id, state := range map[string]plan.State{"old-plan": plan.StateDone, "keep-plan": plan.StateRunning} {
		put(plan.PlanTable, id, aliyun.Row{"state": string(state), "revision": one, "expires_at": old})
		put(plan.ItemTable, plan.ItemID(id, 1), aliyun.Row{"revision": one})
		put(plan.ItemTable, plan.ItemID(id, 2), aliyun.Row{"revision": one})
		put(plan.ApprovalTable, id, aliyun.Row{"digest": "d"})
	}
	for _, table := range []aliyun.Table{EvidenceTable, AuditTable} {
		put(table, "old-row", aliyun.Row{"at": w.now.Add(-91 * 24 * time.Hour).UnixMilli()})
		put(table, "keep-row", aliyun.Row{"at": old})
	}
	w.ots.Faults.ResetCalls()
	return w, &Purger{Desk: w.desk, Store: w.store, Retention: 90 * 24 * time.Hour, Now: func() time.Time { return w.now }}
}

// left names the rows and objects that are there, as table/key.
func (w *world) left() (all []string) {
	for _, table := range []aliyun.Table{
		letter.LetterTable, idempotency.TaskTable, idempotency.ReviewTable, plan.PlanTable, plan.ItemTable, plan.ApprovalTable, EvidenceTable, AuditTable,
	} {
		for _, r := range w.ots.Rows(table.Name) {
			all = append(all, fmt.Sprint(table.Name, "/", r.PrimaryKey[0].Value))
		}
	}
	return all
}

func TestPurgeRemovesWhatIsOverAndNothingElse(t *testing.T) {
	w, p := overWorld(t)
	before := w.left()
	seen, err := p.Run(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, w.left()); diff != "" {
		t.Errorf("a look changed something\n%s", diff)
	}
	done, err := p.Run(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(seen, done); diff != "" {
		t.Errorf("a look promised something else\n%s", diff)
	}
	want := Purged{Letters: 1, Objects: 1, Tasks: 2, Effects: 2, Reviews: 1, Plans: 1, Items: 2, Approvals: 1, Evidence: 1, Audit: 1, Kept: 7, Overdue: 1}
	if diff := cmp.Diff(want, done); diff != "" {
		t.Error(diff)
	}
	w.purged(t, before)
	again, err := p.Run(t.Context(), true)
	if err != nil || again.Total() != 0 {
		t.Errorf("a second run removed %+v: %v", again, err)
	}
}

// purged checks that of what was there before all that is over is gone, and all
// else there.
func (w *world) purged(t *testing.T, before []string) {
	t.Helper()
	want := slices.DeleteFunc(slices.Clone(before), func(name string) bool { return strings.Contains(name, "/old-") })
	if diff := cmp.Diff(want, w.left()); diff != "" {
		t.Error(diff)
	}
	for id, ok := range map[string]bool{"keep-open": true, "keep-young": true} {
		l, _, err := w.desk.Letters.Get(w.t.Context(), id)
		if err == nil {
			_, err = w.desk.RawEvent(w.t.Context(), l)
		}
		if (err == nil) != ok {
			t.Errorf("raw bytes of %s: %v", id, err)
		}
	}
}

func TestPurgeKilledAtAnyCallIsFinishedByTheNextRun(t *testing.T) {
	for _, phase := range []cloudtest.Phase{cloudtest.Before, cloudtest.After} {
		for at := 0; ; at++ {
			w, p := overWorld(t)
			before := w.left()
			w.ots.Faults.Add(cloudtest.Fault{Phase: phase, Kind: cloudtest.Drop, Skip: at, Times: -1})
			_, err := p.Run(t.Context(), true)
			w.ots.Faults.Clear()
			// What a task's effects need in order not to be sent again outlives the task.
			names := w.left()
			if slices.Contains(names, "task_records/old-done") && !slices.Contains(names, "task_records/old-effect") {
				t.Errorf("%v call %d: the effect went before its task", phase, at)
			}
			if slices.Contains(names, "replay_items/old-plan/00000001") && !slices.Contains(names, "replay_plans/old-plan") {
				t.Errorf("%v call %d: the plan went before its items", phase, at)
			}
			if _, again := p.Run(t.Context(), true); again != nil {
				t.Fatalf("%v call %d, the next run: %v", phase, at, again)
			}
			w.purged(t, before)
			if err == nil {
				if at < 15 {
					t.Errorf("only %d calls were tried", at)
				}
				break
			}
		}
	}
	w, p := overWorld(t)
	before := w.left()
	w.oss.Faults.Add(cloudtest.Fault{Op: "DeleteObject", Kind: cloudtest.Drop})
	if _, err := p.Run(t.Context(), true); err == nil {
		t.Error("an object that could not be removed is no error")
	}
	if _, err := p.Run(t.Context(), true); err != nil {
		t.Error(err)
	}
	w.purged(t, before)
}

func TestPurgeLeavesWhatIsOpenedAgainMeanwhile(t *testing.T) {
	w, p := overWorld(t)
	w.ots.Faults.Hook(func(c cloudtest.Call, phase cloudtest.Phase) {
		if c.Op != "DeleteRow" || phase != cloudtest.Before || !strings.Contains(c.Target, "old-ended") {
			return
		}
		w.ots.Faults.Hook(nil)
		ref, err := w.desk.Artifacts.PutLetter(t.Context(), "old-ended", []byte("again"))
		if err == nil {
			err = w.desk.Letters.EnsureOpen(t.Context(), letter.Letter{
				ID: "old-ended", Code: letter.CodeTimeout, RawRef: ref.String(), RawSHA256: ref.SHA256, FirstFailedAt: w.now, LastFailedAt: w.now, ExpiresAt: w.now.Add(time.Hour),
			})
		}
		if err != nil {
			t.Error(err)
		}
	})
	done, err := p.Run(t.Context(), true)
	if err != nil || done.Letters != 0 {
		t.Fatalf("%+v %v", done, err)
	}
	l, ok, err := w.desk.Letters.Get(t.Context(), "old-ended")
	if err != nil || !ok || !l.Open() {
		t.Fatalf("%+v %v %v", l, ok, err)
	}
	if raw, err := w.desk.RawEvent(t.Context(), l); err != nil || string(raw) != "again" {
		t.Errorf("%q %v", raw, err)
	}
}
