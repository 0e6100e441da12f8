package targettest_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/oncegate/oncegate/flows/targettest"
)

func TestAServerStartsOnceAndClosesTwice(t *testing.T) {
	s, err := targettest.New(targettest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Endpoint() != "http://target.invalid" {
		t.Errorf("endpoint before start %s", s.Endpoint())
	}
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(); err == nil {
		t.Error("started twice")
	}
	if e := s.Endpoint(); !strings.HasPrefix(e, "http://127.0.0.1:") || strings.HasSuffix(e, "/") {
		t.Errorf("endpoint %s", e)
	}
	if err := errors.Join(s.Close(), s.Close()); err != nil {
		t.Error(err)
	}
	if err := s.Start(); err == nil {
		t.Error("started after Close")
	}
}

func TestNegativeDurationsAreRefused(t *testing.T) {
	for _, o := range []targettest.Options{{KeyTTL: -1}, {VisibleAfter: -1}} {
		if _, err := targettest.New(o); err == nil {
			t.Errorf("%+v was taken", o)
		}
	}
}

func TestEverythingOutlivesTheServer(t *testing.T) {
	c := newClock()
	o := targettest.Options{Dir: filepath.Join(t.TempDir(), "new", "dir"), KeyTTL: day, VisibleAfter: time.Minute, Now: c.now}
	const script = `{"x":"[[target status=503 times=2]]"}`
	before := inProcess(t, o)
	for range 2 {
		before.post(t, "/notify", "k", hello)
	}
	for range 257 { // places need more than a byte
		before.post(t, "/robot", "", hello)
	}
	before.post(t, "/records", "k", r17)
	before.post(t, "/notify", "s", script).refused(t, 503, "unavailable")
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(o.Dir, "targets.db")); err != nil {
		t.Error(err)
	}

	after := inProcess(t, o)
	for _, diff := range []string{
		cmp.Diff(before.Notifications(), after.Notifications()),
		cmp.Diff(before.RobotMessages(), after.RobotMessages()),
		cmp.Diff(before.Records(), after.Records()),
	} {
		if diff != "" {
			t.Error(diff)
		}
	}
	after.effects(t, 1, 257, 1)
	after.post(t, "/notify", "k", hello).want(t, 200, `{"id":"ntf-1"}`)
	if got := after.Notifications()[0].Count; got != 3 {
		t.Errorf("count %d", got)
	}
	after.post(t, "/records", "k", r17).refused(t, 409, "exists")
	after.get(t, "/records?number=R-17").want(t, 200, `{"records":[]}`)
	after.post(t, "/notify", "s", script).refused(t, 503, "unavailable")
	after.post(t, "/notify", "s", script).want(t, 200, `{"id":"ntf-2"}`)
	c.pass(day)
	after.post(t, "/notify", "k", hello).want(t, 200, `{"id":"ntf-3"}`)
}

func TestWithoutADirectoryNothingOutlivesTheServer(t *testing.T) {
	inProcess(t, targettest.Options{}).post(t, "/notify", "k", hello)
	inProcess(t, targettest.Options{}).effects(t, 0, 0, 0)
}

func TestADatabaseHasOneServer(t *testing.T) {
	o := targettest.Options{Dir: t.TempDir()}
	inProcess(t, o)
	began := time.Now()
	_, err := targettest.New(o)
	if !errors.Is(err, berrors.ErrTimeout) || !strings.Contains(err.Error(), "targets.db: another process holds it") || time.Since(began) > 10*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
}

func TestAnEffectThatIsNotWrittenDidNotHappen(t *testing.T) {
	s := inProcess(t, targettest.Options{Dir: t.TempDir()})
	s.post(t, "/notify", "k", hello)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s.post(t, "/notify", "k", hello).refused(t, 500, "internal_error")
	s.post(t, "/notify", "k2", hello).refused(t, 500, "internal_error")
	s.post(t, "/robot", "", hello).refused(t, 500, "internal_error")
	s.post(t, "/records", "", r17).refused(t, 500, "internal_error")
	s.post(t, "/robot", "", `{"x":"[[target status=503]]"}`).refused(t, 500, "internal_error")
	s.effects(t, 1, 0, 0)
	if got := s.Notifications()[0].Count; got != 1 {
		t.Errorf("count %d", got)
	}
}

func TestADatabaseThatCantBeReadIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, []byte(strings.Repeat("no database ", 1000)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := targettest.New(targettest.Options{Dir: file}); err == nil {
		t.Error("a file was taken for a directory")
	}
	odd := t.TempDir()
	if err := os.Rename(file, filepath.Join(odd, "targets.db")); err != nil {
		t.Fatal(err)
	}
	if _, err := targettest.New(targettest.Options{Dir: odd}); err == nil {
		t.Error("a text was taken for a database")
	}
	for _, tc := range []struct{ table, key, value string }{
		{"records", "\x00\x00\x00\x00\x00\x00\x00\x00", "no JSON"},
		{"records", "\x00\x00\x00\x00\x00\x00\x00\x01", "{}"},
		{"scripts", "x", `"one"`},
	} {
		o := targettest.Options{Dir: t.TempDir()}
		db, err := bbolt.Open(filepath.Join(o.Dir, "targets.db"), 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = db.Update(func(tx *bbolt.Tx) error {
			b, err := tx.CreateBucket([]byte(tc.table))
			return errors.Join(err, b.Put([]byte(tc.key), []byte(tc.value)))
		})
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
		if _, err := targettest.New(o); err == nil || !strings.Contains(err.Error(), "load "+tc.table) {
			t.Errorf("%+v: %v", tc, err)
		}
	}
}
