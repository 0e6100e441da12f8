package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

func TestTasksAreCountedByWhatTheirRowsSay(t *testing.T) {
	c, err := openCloud(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-48 * time.Hour).UnixMilli()
	for key, row := range map[string]aliyun.Row{
		"a1": {"kind": idempotency.KindTask, "status": "SUCCEEDED", "attempt": int64(1), "updated_at": old},
		"b2": {"kind": idempotency.KindTask, "status": "RUNNING", "attempt": int64(3), "updated_at": old, "lease_until": old},
		"c3": {"kind": idempotency.KindTask, "status": "RUNNING", "attempt": int64(2), "updated_at": old, "lease_until": time.Now().UnixMilli()},
		"d4": {"kind": idempotency.KindEffect, "status": "SENT", "attempt": int64(9), "updated_at": old},
	} {
		if err := c.store.Insert(t.Context(), idempotency.TaskTable, key, row); err != nil {
			t.Fatal(err)
		}
	}
	got, err := newApp(nil).countTasks(t.Context(), newState(targetCloud, c.store, func() {}), c.store, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	want := taskCounts{
		status:   map[idempotency.Status]int{idempotency.StatusSucceeded: 1, idempotency.StatusRunning: 2},
		effects:  map[idempotency.EffectState]int{idempotency.EffectSent: 1},
		attempts: 6, again: 2, stuck: 1,
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(taskCounts{})); d != "" {
		t.Error(d)
	}
}
