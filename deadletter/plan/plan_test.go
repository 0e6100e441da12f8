package plan

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/idempotency/otstest"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var madeAt = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)

func frozen(seq int64) Frozen {
	return Frozen{
		Seq: seq, LetterID: fmt.Sprintf("letter-%d", seq), LetterRevision: 2, Generation: 1, EventID: fmt.Sprintf("e%d", seq),
		RawRef: "dead-letters/x/event.bin", RawSHA256: "aa", Key: "k", InputDigest: "d", RecordRevision: 3, RecordDigest: "d", Qualifier: "7",
	}
}

// planOf is a plan of n items with its tree.
func planOf(t testing.TB, n int64) (Plan, *Tree) {
	t.Helper()
	tree := new(Tree)
	for seq := range n {
		if err := tree.Add(frozen(seq)); err != nil {
			t.Fatal(err)
		}
	}
	root, err := tree.Root()
	if err != nil {
		t.Fatal(err)
	}
	p := Plan{SelfAt: madeAt, SelfReason: "mine", State: StatePlanned, UpdatedAt: madeAt, ExpiresAt: madeAt.Add(time.Hour), Header: Header{
		Version: 1, ID: "rp-1", Environment: "prod", Fingerprint: "3edcecc95052", Code: letter.CodeTimeout, Target: "fc:worker", Reason: "the worker is back",
		MadeBy: "amy", MadeAt: madeAt.UnixMilli(), Count: n, ItemsRoot: root, Stages: []int64{1, n - 1}, ObserveMS: 1000, RateMilli: 10_000, Burst: 1, Concurrency: 4, MaxErrors: 20,
	}}
	p.Digest = p.Header.Digest()
	return p, tree
}

func TestEveryFieldOfAHeaderIsInItsDigest(t *testing.T) {
	p, _ := planOf(t, 3)
	v := reflect.ValueOf(&p.Header).Elem()
	for i := range v.NumField() {
		changed, _ := planOf(t, 3)
		f := reflect.ValueOf(&changed.Header).Elem().Field(i)
		switch f.Kind() {
		case reflect.String:
			f.SetString(f.String() + "x")
		case reflect.Int, reflect.Int64:
			f.SetInt(f.Int() + 1)
		case reflect.Slice:
			f.Set(reflect.Append(f, reflect.New(f.Type().Elem()).Elem()))
		}
		if err := changed.Check(); err == nil {
			t.Errorf("%s may be changed after the approval", v.Type().Field(i).Name)
		}
	}
}

func TestAnItemIsProvedToBelongToThePlan(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.Int64Range(1, 60).Draw(rt, "n")
		seq := rapid.Int64Range(0, n-1).Draw(rt, "seq")
		p, tree := planOf(t, n)
		proof, err := tree.Proof(seq)
		if err != nil {
			rt.Fatal(err)
		}
		if err := p.CheckItem(frozen(seq), proof); err != nil {
			rt.Fatal(err)
		}
		field := rapid.IntRange(0, reflect.TypeFor[Frozen]().NumField()-1).Draw(rt, "field")
		other := frozen(seq)
		switch f := reflect.ValueOf(&other).Elem().Field(field); f.Kind() {
		case reflect.String:
			f.SetString(f.String() + "x")
		default:
			f.SetInt(f.Int() + 1)
		}
		if err := p.CheckItem(other, proof); !errors.Is(err, ErrItemElsewhere) {
			rt.Fatalf("an item with another %s passes: %v", reflect.TypeFor[Frozen]().Field(field).Name, err)
		}
		if err := p.CheckItem(frozen(seq), append(proof, proof...)); n > 1 && !errors.Is(err, ErrItemElsewhere) {
			rt.Fatalf("another proof passes: %v", err)
		}
	})
}

func TestOnlyAnApprovalOfThisDigestByTheRightPersonLetsItemsGo(t *testing.T) {
	p, _ := planOf(t, 3)
	high, _ := planOf(t, 3)
	high.HighImpact = []string{"more than 100 events"}
	high.Digest = high.Header.Digest()
	roleHigh := high
	roleHigh.MadeBy = "oncegate-operator/amy"
	roleHigh.Digest = roleHigh.Header.Digest()
	edited := p
	edited.Reason = "another"
	stopped := p
	stopped.State = StateStopped
	by := func(p Plan, who string) *Approval {
		return &Approval{PlanID: p.ID, Digest: p.Digest, Verdict: VerdictApproved, By: who, At: madeAt}
	}
	rejected := by(p, "bob")
	rejected.Verdict = VerdictRejected
	elsewhere := by(p, "bob")
	elsewhere.PlanID = "rp-2"
	self, highSelf, oldSelf := p, high, p
	self.SelfDigest, highSelf.SelfDigest, oldSelf.SelfDigest = p.Digest, high.Digest, strings.Repeat("0", 64)
	for name, c := range map[string]struct {
		p    Plan
		a    *Approval
		want error
	}{
		"the maker's own word in the plan's row":              {self, nil, nil},
		"S49 the maker's own word on a plan of high impact":   {highSelf, nil, ErrNotApproved},
		"S49 the maker's own word on another digest":          {oldSelf, nil, ErrNotApproved},
		"an approver's no holds against the maker's own word": {self, rejected, ErrPlanRejected},

		"the maker approves a plan of low impact":      {p, by(p, "amy"), nil},
		"another approves a plan of high impact":       {high, by(high, "bob"), nil},
		"S49 the maker approves a plan of high impact": {high, by(high, "amy"), ErrSameIdentity},
		"S49 nobody in particular approves it":         {high, by(high, ""), ErrSameIdentity},
		"S49 the maker's role under another session":   {roleHigh, by(roleHigh, "oncegate-operator/bob"), ErrSameIdentity},
		"another role with the maker's session":        {roleHigh, by(roleHigh, "oncegate-approver/amy"), nil},
		"a role whose name begins with the maker's":    {roleHigh, by(roleHigh, "oncegate-operator2/bob"), nil},
		"a user approves the plan of a role":           {roleHigh, by(roleHigh, "bob"), nil},
		"no verdict":                                   {p, nil, ErrNotApproved},
		"rejected":                                     {p, rejected, ErrPlanRejected},
		"S49 an approval of another digest":            {p, by(high, "bob"), ErrOtherDigest},
		"an approval of another plan":                  {p, elsewhere, ErrOtherDigest},
		"a plan edited after its approval":             {edited, by(p, "bob"), ErrDigest},
		"a plan that has ended":                        {stopped, by(p, "bob"), ErrPlanOver},
	} {
		t.Run(name, func(t *testing.T) {
			if err := CheckApproval(c.p, c.a); !errors.Is(err, c.want) {
				t.Errorf("got %v, want %v", err, c.want)
			}
		})
	}
}

func newStore(t *testing.T) (*Store, *otstest.Server) {
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
	for _, table := range []aliyun.Table{PlanTable, ItemTable, ApprovalTable} {
		if err := store.CreateTable(t.Context(), table); err != nil {
			t.Fatal(err)
		}
	}
	return NewStore(store), srv
}

func TestPlansItemsAndVerdictsAreReadBackAsWritten(t *testing.T) {
	s, _ := newStore(t)
	ctx := t.Context()
	p, _ := planOf(t, 3)
	for seq := range int64(3) {
		if err := s.AddItem(ctx, Item{Frozen: frozen(seq), PlanID: p.ID}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AddItem(ctx, Item{Frozen: frozen(0), PlanID: "rp-10"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Create(ctx, p); err != nil {
		t.Fatal(err)
	}
	got, ok, err := s.Get(ctx, p.ID)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	want := p
	want.Revision = 1
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	next := got
	next.State, next.LockOwner, next.LockUntil = StateRunning, "r1", madeAt.Add(time.Minute)
	next.Runs = []StageRun{{Stage: 0, Size: 1, Counts: Counts{Selected: 1, Succeeded: 1}}}
	if next, err = s.Update(ctx, got, next); err != nil {
		t.Fatal(err)
	}
	if stored, _, _ := s.Get(ctx, p.ID); !cmp.Equal(stored, next) {
		t.Error(cmp.Diff(next, stored))
	}
	if _, err := s.Update(ctx, got, got); !errors.Is(err, ErrChanged) {
		t.Errorf("a stale writer changes the plan: %v", err)
	}
	items, more, err := s.Items(ctx, p.ID, 0, 2)
	if err != nil || len(items) != 2 || more != 2 {
		t.Fatal(items, more, err)
	}
	items, more, err = s.Items(ctx, p.ID, more, 2)
	if err != nil || len(items) != 1 || more != -1 || items[0].Frozen != frozen(2) {
		t.Fatalf("%v %v %v", items, more, err)
	}
	sent := items[0]
	sent.Sender, sent.SentAt = "r1", madeAt
	if _, err := s.UpdateItem(ctx, items[0], sent); err != nil {
		t.Fatal(err)
	}
	sent.Sender = "r2"
	if _, err := s.UpdateItem(ctx, items[0], sent); !errors.Is(err, ErrChanged) {
		t.Errorf("an item is sent by two: %v", err)
	}
	a := Approval{PlanID: p.ID, Digest: p.Digest, Verdict: VerdictApproved, By: "bob", At: madeAt}
	if err := s.Decide(ctx, a); err != nil {
		t.Fatal(err)
	}
	if err := s.Decide(ctx, Approval{PlanID: p.ID, Digest: p.Digest, Verdict: VerdictRejected, By: "eve", At: madeAt}); !errors.Is(err, ErrVerdict) {
		t.Errorf("a verdict is replaced: %v", err)
	}
	if stored, err := s.Approval(ctx, p.ID); err != nil || *stored != a {
		t.Errorf("got %+v %v", stored, err)
	}
	if none, err := s.Approval(ctx, "rp-9"); err != nil || none != nil {
		t.Errorf("got %+v %v", none, err)
	}
}

func TestALostAnswerOfAPlanTableIsRecognised(t *testing.T) {
	for _, op := range []string{"PutRow", "UpdateRow"} {
		s, srv := newStore(t)
		ctx := t.Context()
		p, _ := planOf(t, 1)
		fault := func() {
			srv.Faults.Add(cloudtest.Fault{Op: op, Phase: cloudtest.After, Kind: cloudtest.Drop})
		}
		if op == "PutRow" {
			for _, write := range []func() error{
				func() error { return s.Create(ctx, p) },
				func() error { return s.AddItem(ctx, Item{Frozen: frozen(0), PlanID: p.ID}) },
				func() error {
					return s.Decide(ctx, Approval{PlanID: p.ID, Digest: p.Digest, Verdict: VerdictApproved, By: "bob", At: madeAt.Add(time.Nanosecond)})
				},
			} {
				fault()
				if err := write(); err != nil {
					t.Error(err)
				}
			}
			continue
		}
		if err := s.Create(ctx, p); err != nil {
			t.Fatal(err)
		}
		p.Revision = 1
		next := p
		next.State = StatePaused
		fault()
		if _, err := s.Update(ctx, p, next); err != nil {
			t.Error(err)
		}
		i := Item{Frozen: frozen(0), PlanID: p.ID}
		if err := s.AddItem(ctx, i); err != nil {
			t.Fatal(err)
		}
		i.Revision = 1
		sent := i
		sent.Sender, sent.SentAt = "r1", madeAt
		fault()
		if _, err := s.UpdateItem(ctx, i, sent); err != nil {
			t.Error(err)
		}
	}
}

func TestWhatHasAnIdAlreadyIsNotTakenForAnother(t *testing.T) {
	s, srv := newStore(t)
	ctx := t.Context()
	p, _ := planOf(t, 1)
	other := p
	other.Reason, other.Count = "another reason", 2
	i, otherItem := Item{Frozen: frozen(0), PlanID: p.ID}, Item{Frozen: frozen(0), PlanID: p.ID}
	otherItem.EventID = "another"
	for range 2 { // the same again is fine
		if err := errors.Join(s.AddItem(ctx, i), s.Create(ctx, p)); err != nil {
			t.Fatal(err)
		}
	}
	before := srv.Rows(ItemTable.Name)
	if err := s.AddItem(ctx, otherItem); !errors.Is(err, idempotency.ErrUnavailable) {
		t.Errorf("another item: %v", err)
	}
	if err := s.Create(ctx, other); !errors.Is(err, idempotency.ErrUnavailable) {
		t.Errorf("another plan: %v", err)
	}
	if diff := cmp.Diff(before, srv.Rows(ItemTable.Name)); diff != "" {
		t.Error(diff)
	}
	if got, _, err := s.Get(ctx, p.ID); err != nil || got.Reason != p.Reason {
		t.Errorf("the plan is %q, %v", got.Reason, err)
	}
}
