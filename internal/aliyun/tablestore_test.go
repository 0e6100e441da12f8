package aliyun

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

func (s *otsStand) must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestInsertNeedsAnAbsentRow(t *testing.T) {
	s := newOTS(t, Options{})
	want := Row{"revision": int64(1), "text": "t", "n": int64(-7), "yes": true, "f": 1.5, "raw": []byte{0, 255}}
	s.must(t, s.store.Insert(t.Context(), tasks, "k", want))
	if err := s.store.Insert(t.Context(), tasks, "k", Row{"revision": int64(9)}); KindOf(err) != KindCondition {
		t.Errorf("a second insert: %v", err)
	}
	got, ok, err := s.store.Get(t.Context(), tasks, "k")
	if diff := cmp.Diff(want, got); diff != "" || !ok || err != nil {
		t.Errorf("%v %v\n%s", ok, err, diff)
	}
	if _, ok, err := s.store.Get(t.Context(), tasks, "nothing"); ok || err != nil {
		t.Errorf("no row: %v %v", ok, err)
	}
}

func TestUpdateIsConditionalOnTheLatestRevision(t *testing.T) {
	t.Run("the revision holds", func(t *testing.T) {
		s := newOTS(t, Options{})
		s.must(t, s.store.Insert(t.Context(), tasks, "k", Row{"revision": int64(1), "gone": "x", "kept": "y"}))
		s.must(t, s.store.Update(t.Context(), tasks, "k", Row{"revision": int64(2), "gone": nil, "new": "z"}, 1))
		got, _, err := s.store.Get(t.Context(), tasks, "k")
		if diff := cmp.Diff(Row{"revision": int64(2), "kept": "y", "new": "z"}, got); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
	})
	for name, c := range map[string]struct {
		row      Row
		revision int64
	}{
		"no row":                              {nil, 1},
		"another revision":                    {Row{"revision": int64(3)}, 2},
		"a row without the column":            {Row{"kept": "y"}, 1},
		"a row without the column, zero":      {Row{"kept": "y"}, 0},
		"a revision of another type":          {Row{"revision": "1"}, 1},
		"a revision that only looks the same": {Row{"revision": 1.0}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newOTS(t, Options{})
			if c.row != nil {
				s.must(t, s.store.Insert(t.Context(), tasks, "k", c.row))
			}
			before := s.srv.Rows(tasks.Name)
			if err := s.store.Update(t.Context(), tasks, "k", Row{"revision": int64(9)}, c.revision); KindOf(err) != KindCondition {
				t.Errorf("got %v", err)
			}
			if diff := cmp.Diff(before, s.srv.Rows(tasks.Name)); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("an old version of the column", func(t *testing.T) {
		s := newOTS(t, Options{})
		s.must(t, s.table(t, "versions", 5, -1, tablestore.PrimaryKeyType_STRING, "id"))
		versions := Table{"versions", "id"}
		s.must(t, s.store.Insert(t.Context(), versions, "k", Row{"revision": int64(1)}))
		s.must(t, s.store.Update(t.Context(), versions, "k", Row{"revision": int64(2)}, 1))
		if err := s.store.Update(t.Context(), versions, "k", Row{"revision": int64(3)}, 1); KindOf(err) != KindCondition {
			t.Errorf("got %v", err)
		}
	})
}

// table creates a table of another shape.
func (s *otsStand) table(t *testing.T, name string, versions, ttl int, kind tablestore.PrimaryKeyType, keys ...string) error {
	meta := &tablestore.TableMeta{TableName: name}
	for _, k := range keys {
		meta.AddPrimaryKeyColumn(k, kind)
	}
	return s.store.call(t.Context(), "CreateTable", func(c *tablestore.TableStoreClient) error {
		_, err := c.CreateTable(&tablestore.CreateTableRequest{
			TableMeta: meta, TableOption: &tablestore.TableOption{TimeToAlive: ttl, MaxVersion: versions}, ReservedThroughput: &tablestore.ReservedThroughput{},
		})
		return err
	})
}

func TestCheckTableSaysWhatIsWrong(t *testing.T) {
	s := newOTS(t, Options{})
	text, number := tablestore.PrimaryKeyType_STRING, tablestore.PrimaryKeyType_INTEGER
	s.must(t, s.table(t, "two_keys", 1, -1, text, "id", "id2"))
	s.must(t, s.table(t, "other_key", 1, -1, text, "key"))
	s.must(t, s.table(t, "number_key", 1, -1, number, "id"))
	s.must(t, s.table(t, "versions", 2, -1, text, "id"))
	s.must(t, s.table(t, "ttl", 1, 86400, text, "id"))
	for name, want := range map[string]string{
		"two_keys": "primary key", "other_key": "primary key", "number_key": "primary key", "versions": "max versions is 2", "ttl": "time to live is 86400 s",
	} {
		if err := s.store.CheckTable(t.Context(), Table{name, "id"}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	if err := s.store.CheckTable(t.Context(), tasks); err != nil {
		t.Errorf("the right table: %v", err)
	}
	if err := s.store.CheckTable(t.Context(), Table{"nothing", "id"}); KindOf(err) != KindNotFound {
		t.Errorf("no table: %v", err)
	}
	if err := s.store.CreateTable(t.Context(), tasks); KindOf(err) != KindExists {
		t.Errorf("a table that is there: %v", err)
	}
}

func TestScanPagesBetweenTwoKeys(t *testing.T) {
	s := newOTS(t, Options{})
	for i := range 5 {
		s.must(t, s.store.Insert(t.Context(), tasks, fmt.Sprint("k", i), Row{"revision": int64(i), "other": "x"}))
	}
	page, err := s.store.Scan(t.Context(), tasks, "k1", "k4", 2, []string{"revision"})
	want := Page{[]string{"k1", "k2"}, []Row{{"revision": int64(1)}, {"revision": int64(2)}}, "k3"}
	if diff := cmp.Diff(want, page); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	page, err = s.store.Scan(t.Context(), tasks, page.Next, "k4", 2, nil)
	if diff := cmp.Diff(Page{[]string{"k3"}, []Row{{"revision": int64(3), "other": "x"}}, ""}, page); diff != "" || err != nil {
		t.Errorf("%v\n%s", err, diff)
	}
	if page, err := s.store.Scan(t.Context(), tasks, "", "", 100, nil); err != nil || len(page.Keys) != 5 || page.Next != "" {
		t.Errorf("all: %v %v", page.Keys, err)
	}
}

func TestCredentialsAreAskedForEachCall(t *testing.T) {
	var asked atomic.Int64
	var current atomic.Pointer[cloudtest.Credential]
	s := newOTS(t, Options{Credentials: func(ctx context.Context) (Credentials, error) {
		asked.Add(1)
		c := current.Load()
		return Credentials{c.AccessKeyID, c.AccessKeySecret, c.SecurityToken}, nil
	}})
	for i := range 3 {
		cred := s.creds.Issue(time.Time{})
		current.Store(&cred)
		s.must(t, s.store.Insert(t.Context(), tasks, fmt.Sprint(i), Row{"revision": int64(1)}))
		s.creds.Revoke(cred.AccessKeyID)
		if err := s.store.Insert(t.Context(), tasks, "revoked", Row{"revision": int64(1)}); KindOf(err) != KindDenied {
			t.Errorf("a revoked key: %v", err)
		}
	}
	if asked.Load() != 6 {
		t.Errorf("asked %d times", asked.Load())
	}
}

func TestMissingCredentialsStopTheCall(t *testing.T) {
	none := errors.New("no invocation")
	s := newOTS(t, Options{Credentials: func(context.Context) (Credentials, error) { return Credentials{}, none }})
	for op, call := range otsCalls {
		if err := call(t.Context(), s.store); !errors.Is(err, none) || len(s.srv.Faults.Calls()) != 0 {
			t.Errorf("%s: %v", op, err)
		}
	}
	if _, err := NewTablestore("e", "i", Options{}); err == nil {
		t.Error("a client without a source of credentials")
	}
	if _, err := NewBucket("e", "b", Options{}); err == nil {
		t.Error("a bucket without a source of credentials")
	}
}

func TestFiftyGoroutinesShareOneClient(t *testing.T) {
	s := newOTS(t, Options{})
	s.must(t, s.srv.Start())
	tr := NewTransport(8)
	defer tr.CloseIdleConnections()
	store, err := NewTablestore(s.srv.Endpoint(), "oncegate", Options{Credentials: s.store.o.Credentials, Transport: tr})
	s.must(t, err)
	var all sync.WaitGroup
	var won atomic.Int64
	for i := range 50 {
		all.Go(func() {
			if err := store.Insert(t.Context(), tasks, "one", Row{"revision": int64(1)}); err == nil {
				won.Add(1)
			} else if KindOf(err) != KindCondition {
				t.Error(err)
			}
			key := fmt.Sprint(i)
			if err := store.Insert(t.Context(), tasks, key, Row{"revision": int64(1)}); err != nil {
				t.Error(err)
			}
			if err := store.Update(t.Context(), tasks, key, Row{"revision": int64(2)}, 1); err != nil {
				t.Error(err)
			}
			if row, ok, err := store.Get(t.Context(), tasks, key); err != nil || !ok || row["revision"] != int64(2) {
				t.Error(row, ok, err)
			}
		})
	}
	all.Wait()
	if won.Load() != 1 || len(s.srv.Rows(tasks.Name)) != 51 {
		t.Errorf("%d winners, %d rows", won.Load(), len(s.srv.Rows(tasks.Name)))
	}
}
