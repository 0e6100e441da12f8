package letter

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/oncegate/oncegate/idempotency/otstest"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// seenAt is when the first delivery came, with a fraction that milliseconds
// cannot hold.
var seenAt = time.Date(2026, 3, 1, 8, 0, 0, 123_456_789, time.UTC)

// letterAt is a delivery's letter, n seconds after the first.
func letterAt(n int) Letter {
	now := seenAt.Add(time.Duration(n) * time.Second)
	return Letter{
		ID: ID("shop", "e1", "d1"), Code: CodeThrottled, Target: "model:m", Reason: "HTTP 429",
		EventID: "e1", EventSource: "shop", EventTime: time.Date(2026, 3, 1, 7, 59, 0, 0, time.UTC), RawSHA256: "raw1", RawRef: "dead-letters/x/event.bin",
		Key: "k", InputDigest: "d1", Flow: "summary", Environment: "prod", ConsumerVersion: "7", TraceID: "t", OriginalEventID: "e0", Generation: 2, ParentID: "p0", ChildID: "c0", Migration: "1..2", ReplayBatchID: "rp-1",
		FirstFailedAt: now, LastFailedAt: now, ExpiresAt: now.Add(time.Hour),
	}
}

type stand struct {
	t     *testing.T
	srv   *otstest.Server
	store *aliyun.Tablestore
	table *Table
}

func newStand(t *testing.T) *stand {
	t.Helper()
	creds := new(cloudtest.Credentials)
	cred := creds.Issue(time.Time{})
	srv, err := otstest.New(otstest.Options{Credentials: creds})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	store, err := aliyun.NewTablestore("http://in-process", "oncegate", aliyun.Options{
		Credentials: func(context.Context) (aliyun.Credentials, error) {
			return aliyun.Credentials{AccessKeyID: cred.AccessKeyID, AccessKeySecret: cred.AccessKeySecret, SecurityToken: cred.SecurityToken}, nil
		},
		Transport: srv.Transport(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := store.CreateTable(t.Context(), LetterTable); err != nil {
		t.Fatal(err)
	}
	srv.Faults.ResetCalls()
	return &stand{t: t, srv: srv, store: store, table: NewTable(store)}
}

func (s *stand) open(l Letter) Letter { s.t.Helper(); return s.sight(l, true) }

func (s *stand) see(l Letter) Letter { s.t.Helper(); return s.sight(l, false) }

// sight notes a sighting, and holds what the table said of it against its row.
func (s *stand) sight(l Letter, reopen bool) Letter {
	s.t.Helper()
	said, err := s.table.See(s.t.Context(), l, reopen)
	if err != nil {
		s.t.Fatal(err)
	}
	if diff := cmp.Diff(s.stored(l.ID), said); diff != "" {
		s.t.Errorf("said otherwise than stored:\n%s", diff)
	}
	return said
}

func (s *stand) stored(id string) Letter {
	s.t.Helper()
	l, ok, err := s.table.Get(s.t.Context(), id)
	if err != nil || !ok {
		s.t.Fatalf("read letter: %v %v", ok, err)
	}
	return l
}

// close ends the stored letter as an operator would.
func (s *stand) close(end FinalStatus) Letter {
	s.t.Helper()
	l := s.stored(letterAt(0).ID)
	row := aliyun.Row{"final_status": string(end), "closed_at": seenAt.Add(time.Minute).UnixMilli(), "revision": l.Revision + 1}
	if err := s.store.Update(s.t.Context(), LetterTable, l.ID, row, l.Revision); err != nil {
		s.t.Fatal(err)
	}
	return s.stored(l.ID)
}
