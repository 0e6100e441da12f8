package idempotency

import (
	"context"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oncegate/oncegate/idempotency/otstest"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start is when every test begins, with a fraction that milliseconds cannot hold.
var start = time.Date(2026, 3, 1, 8, 0, 0, 123_456_789, time.UTC)

var testKey = Key{Hex: HashOf(map[string]string{"order": "17"}), Canonical: `{"order":"17"}`}

const (
	testDigest = "d1"
	ownerA     = "aaaaaaaaaaaa-first"
	ownerB     = "bbbbbbbbbbbb-second"
	ownerC     = "cccccccccccc-third"
)

func claimOf(owner string, now time.Time) Claim {
	return Claim{
		Key: testKey, InputDigest: testDigest, Owner: owner, Now: now, Deadline: now.Add(time.Minute), Budget: 6,
		Target: "fc:orders", Flow: "summary", Environment: "prod", Source: "shop", EventID: "e-" + owner, TraceID: "t-" + owner,
		ConsumerVersion: "7", ProcessorVersion: "p1",
	}
}

func refOfAttempt(sum string) Ref {
	return Ref{Object: "tasks/" + testKey.Hex + "/attempt-001/output.json", VersionID: "v1", SHA256: sum}
}

// stand is a table in front of a stand-in, reached through the real SDK.
type stand struct {
	t       *testing.T
	srv     *otstest.Server
	store   *aliyun.Tablestore
	table   *Table
	reviews *Reviews
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
	for _, table := range []aliyun.Table{TaskTable, ReviewTable} {
		if err := store.CreateTable(t.Context(), table); err != nil {
			t.Fatal(err)
		}
	}
	srv.Faults.ResetCalls()
	return &stand{t, srv, store, NewTable(store, DefaultPolicy()), NewReviews(store)}
}

// claim claims and wants to run.
func (s *stand) claim(owner string, now time.Time, readFirst bool) Record {
	s.t.Helper()
	return s.meet(claimOf(owner, now), readFirst, AnswerRun)
}

func (s *stand) meet(c Claim, readFirst bool, want Answer) Record {
	s.t.Helper()
	got, err := s.table.Claim(s.t.Context(), c, readFirst)
	if err != nil || got.Answer != want {
		s.t.Fatalf("claim by %s: got %q %v, want %q", c.Owner, got.Answer, err, want)
	}
	return got.Record
}

func (s *stand) stored() Record {
	s.t.Helper()
	r, ok, err := s.table.Get(s.t.Context(), testKey.Hex)
	if err != nil || !ok {
		s.t.Fatalf("read record: %v %v", ok, err)
	}
	return r
}
