package ebtest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/oncegate/oncegate/events/ebtest"
)

func failing(dir string) ebtest.Options {
	return ebtest.Options{
		Dir: dir, Sleep: (&naps{}).sleep,
		Now:   func() time.Time { return time.Date(2026, 5, 6, 7, 8, 9, 10, time.UTC) },
		Rules: []ebtest.Rule{{Name: "r", Target: (&target{fail: 9}).invoke, DeadLetter: true}},
	}
}

func bodies(t *testing.T, b *ebtest.Bus) (raw, ids []string) {
	t.Helper()
	letters, err := b.DeadLetters()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range letters {
		raw, ids = append(raw, string(l.Raw)), append(ids, l.ID)
	}
	return raw, ids
}

func TestDeadLettersAreKeptOldestFirstUntilDeleted(t *testing.T) {
	for name, dir := range map[string]string{"memory": "", "file": t.TempDir()} {
		t.Run(name, func(t *testing.T) {
			b := newBus(t, failing(dir))
			for _, raw := range []string{"a", "b", "c"} {
				wait(t, b.Deliver(context.Background(), []byte(raw), "r"))
			}
			raw, ids := bodies(t, b)
			if !slices.Equal(raw, []string{"a", "b", "c"}) {
				t.Fatalf("letters %v", raw)
			}
			if err := b.DeleteDeadLetter(ids[1]); err != nil {
				t.Fatal(err)
			}
			if err := b.DeleteDeadLetter(ids[1]); !errors.Is(err, ebtest.ErrNoDeadLetter) {
				t.Errorf("second delete: %v", err)
			}
			if raw, _ := bodies(t, b); !slices.Equal(raw, []string{"a", "c"}) {
				t.Errorf("letters %v", raw)
			}
			letters, _ := b.DeadLetters()
			letters[0].Raw[0] = '!'
			if raw, _ := bodies(t, b); raw[0] != "a" {
				t.Error("a caller changed the queue's bytes")
			}
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := b.DeadLetters(); !errors.Is(err, ebtest.ErrClosed) {
				t.Errorf("list after close: %v", err)
			}
			if err := b.DeleteDeadLetter(ids[0]); !errors.Is(err, ebtest.ErrClosed) {
				t.Errorf("delete after close: %v", err)
			}
		})
	}
}

func TestTheQueueFileOutlivesTheBus(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "made", "below")
	b := newBus(t, failing(dir))
	for _, raw := range []string{"a", "b", "c"} {
		wait(t, b.Deliver(context.Background(), []byte(raw), "r"))
	}
	before, _ := b.DeadLetters()
	_, ids := bodies(t, b)
	for _, id := range ids[1:] {
		if err := b.DeleteDeadLetter(id); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "eventbridge.db")); err != nil {
		t.Fatal(err)
	}

	b = newBus(t, failing(dir))
	after, err := b.DeadLetters()
	if err != nil || len(after) != 1 || after[0].ID != before[0].ID || string(after[0].Raw) != "a" || !after[0].Time.Equal(before[0].Time) {
		t.Fatalf("reopened: %+v, %v, want %+v", after, err, before[:1])
	}
	wait(t, b.Deliver(context.Background(), []byte("d"), "r"))
	raw, again := bodies(t, b)
	if !slices.Equal(raw, []string{"a", "d"}) || slices.Contains(ids, again[1]) {
		t.Errorf("letters %v with ids %v after %v", raw, again, ids)
	}
}

func TestAQueueFileThatCannotBeOpenedIsAnError(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "eventbridge.db"), []byte("this is not a database, whatever its name says"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ebtest.New(ebtest.Options{Dir: dir}); err == nil {
		t.Error("a broken file was opened")
	}
	if _, err := ebtest.New(ebtest.Options{Dir: filepath.Join(dir, "eventbridge.db")}); err == nil {
		t.Error("a file was taken for a directory")
	}
}
