package report

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/idempotency/otstest"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

var asOf = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// folder holds a report's files.
type folder struct {
	mu    sync.Mutex
	files map[string][]byte
}

type file struct {
	bytes.Buffer
	close func([]byte)
}

func (f *file) Close() error { f.close(f.Bytes()); return nil }

func (f *folder) out(name string) (io.WriteCloser, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.files[name]; ok {
		return nil, fmt.Errorf("%s is written twice", name)
	}
	f.files[name] = nil
	return &file{close: func(b []byte) { f.files[name] = b }}, nil
}

// store puts the files where a browser reaches them.
func (f *folder) store(t *testing.T, dir string) {
	t.Helper()
	for name, body := range f.files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, body, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func write(t *testing.T, src Source, change func(*Options)) (*folder, *Report) {
	t.Helper()
	f := &folder{files: map[string][]byte{}}
	o := Options{Out: f.out, Now: asOf, Environment: "prod", Gates: someGates}
	if change != nil {
		change(&o)
	}
	r, err := Write(t.Context(), src, o)
	if err != nil {
		t.Fatal(err)
	}
	return f, r
}

func someGates(context.Context, string) ([]GateRow, error) {
	return []GateRow{
		{Name: "idempotency", Pass: true},
		{Name: "version", Pass: true},
		{Name: "permission", Pass: true},
		{Name: "repair evidence", Reason: "no probe has shown that the cause is gone"},
		{Name: "approval", Reason: "nobody has approved the plan"},
		{Name: "rate", Reason: "the target asked to wait", Until: asOf.Add(90 * time.Second)},
		{Name: "expiry", Pass: true},
	}, nil
}

// world is tables of the stand-in with letters, plans, evidence and audit rows in them.
type world struct {
	t     *testing.T
	ots   *otstest.Server
	desk  *deadletter.Desk
	plans *plan.Store
	proof *deadletter.EvidenceLog
	log   *deadletter.AuditLog
}

func newWorld(t *testing.T) *world {
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
	for _, table := range []aliyun.Table{
		idempotency.TaskTable, idempotency.ReviewTable, letter.LetterTable, plan.PlanTable, plan.ItemTable, plan.ApprovalTable,
		deadletter.EvidenceTable, deadletter.AuditTable,
	} {
		if err := store.CreateTable(t.Context(), table); err != nil {
			t.Fatal(err)
		}
	}
	return &world{
		t: t, ots: srv, plans: plan.NewStore(store), proof: deadletter.NewEvidenceLog(store), log: deadletter.NewAuditLog(store),
		desk: &deadletter.Desk{
			Flows: &flows.Set{}, Tasks: idempotency.NewTable(store, idempotency.DefaultPolicy()), Reviews: idempotency.NewReviews(store),
			Letters: letter.NewTable(store), Environment: "prod", Now: func() time.Time { return asOf },
		},
	}
}

func (w *world) source() Source {
	return Tables{PlanStore: w.plans, Repairs: w.proof, AuditTable: w.log, Judged: func(ctx context.Context, each func(deadletter.Judgement) error) error {
		for from, more := "", true; more; more = from != "" {
			page, next, err := w.desk.Letters.List(ctx, from, 7)
			if err != nil {
				return err
			}
			for _, l := range page {
				j, err := w.desk.Judge(ctx, l)
				if err != nil {
					return err
				}
				if err := each(j); err != nil {
					return err
				}
			}
			from = next
		}
		return nil
	}}
}

// letter stores a letter whose first failure was some minutes ago.
func (w *world) letter(n int, code letter.Code, target string, ago, expires time.Duration, end letter.FinalStatus) letter.Letter {
	w.t.Helper()
	at := asOf.Add(-ago)
	l := letter.Letter{
		ID: letter.ID("shop", fmt.Sprintf("evt-%04d", n), "d"), Code: code, Target: target, EventID: fmt.Sprintf("evt-%04d", n), EventSource: "demo.producer",
		EventTime: at.Add(-time.Minute), RawSHA256: fmt.Sprintf("raw%d", n), RawRef: "dead-letters/x/event.bin", Flow: "summary", Environment: "prod", ConsumerVersion: "7",
		FirstFailedAt: at, LastFailedAt: at.Add(5 * time.Minute), ExpiresAt: asOf.Add(expires), FinalStatus: end, ClosedBy: "amy", CloseReason: "it was looked at",
	}
	if end == "" {
		l.ClosedBy, l.CloseReason = "", ""
	}
	w.put(l)
	return l
}

func (w *world) put(l letter.Letter) {
	w.t.Helper()
	if err := w.desk.Letters.EnsureSeen(w.t.Context(), l); err != nil {
		w.t.Fatal(err)
	}
}

// plan stores a plan with items that ended as the outcomes say.
func (w *world) plan(id string, state plan.State, code letter.Code, target string, outcomes []plan.Outcome, stages []int64, change func(*plan.Plan)) plan.Plan {
	w.t.Helper()
	ctx := w.t.Context()
	var tree plan.Tree
	var c plan.Counts
	var items []plan.Item
	for seq, outcome := range outcomes {
		i := plan.Item{PlanID: id, Outcome: outcome, Frozen: plan.Frozen{
			Seq: int64(seq), LetterID: letter.ID("shop", fmt.Sprintf("evt-%04d", seq), "d"), EventID: fmt.Sprintf("evt-%04d", seq),
		}}
		if outcome != "" {
			i.Sender, i.SentAt, i.EndedAt = "r1", asOf.Add(-time.Hour), asOf.Add(-59*time.Minute)
		}
		if outcome == plan.OutcomeFailed {
			i.Reason, i.NewFingerprint, i.NewCode = "the record failed again", letter.Fingerprint(letter.CodeUpstream5xx, target), letter.CodeUpstream5xx
		}
		if outcome == plan.OutcomeRefused {
			i.Reason = "a review of the business is open"
		}
		if err := tree.Add(i.Frozen); err != nil {
			w.t.Fatal(err)
		}
		if err := w.plans.AddItem(ctx, i); err != nil {
			w.t.Fatal(err)
		}
		items = append(items, i)
		c.Selected++
		switch outcome {
		case plan.OutcomeSucceeded:
			c.Succeeded++
		case plan.OutcomeSkipped:
			c.Skipped++
		case plan.OutcomeRefused:
			c.Refused++
		case plan.OutcomeFailed:
			c.Failed++
		default:
			c.Unresolved++
		}
	}
	root, err := tree.Root()
	if err != nil {
		w.t.Fatal(err)
	}
	p := plan.Plan{State: state, Counts: c, UpdatedAt: asOf, ExpiresAt: asOf.Add(24 * time.Hour), Header: plan.Header{
		Version: 1, ID: id, Environment: "prod", Fingerprint: letter.Fingerprint(code, target), Code: code, Target: target, Reason: "the worker is back",
		MadeBy: "amy", MadeAt: asOf.Add(-2 * time.Hour).UnixMilli(), Count: int64(len(items)), ItemsRoot: root, Stages: stages, RateMilli: 10_000, Burst: 1, Concurrency: 4, MaxErrors: 20,
	}}
	if change != nil {
		change(&p)
	}
	if err := w.plans.Create(ctx, p); err != nil {
		w.t.Fatal(err)
	}
	p.Digest = p.Header.Digest()
	return p
}

func (w *world) verdict(p plan.Plan, v plan.Verdict, by string) {
	w.t.Helper()
	err := w.plans.Decide(w.t.Context(), plan.Approval{PlanID: p.ID, Digest: p.Digest, Verdict: v, By: by, At: asOf.Add(-90 * time.Minute), Reason: "looked at the sample"})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) audit(n int, a deadletter.Audit) {
	w.t.Helper()
	a.ID, a.At = deadletter.AuditID(a.Action, fmt.Sprint(n)), asOf.Add(-time.Duration(n)*time.Minute)
	if err := w.log.Add(w.t.Context(), a); err != nil {
		w.t.Fatal(err)
	}
}

// busy is a world with something of everything.
func busy(t *testing.T) *world {
	t.Helper()
	w := newWorld(t)
	n := 0
	many := func(count int, code letter.Code, target string, ago, expires time.Duration, end letter.FinalStatus) {
		for i := range count {
			w.letter(n, code, target, ago+time.Duration(i*i%37)*13*time.Minute, expires+time.Duration(i)*time.Hour, end)
			n++
		}
	}
	many(34, letter.CodeTimeout, "fc:worker", 20*time.Hour, 5*time.Hour, "")
	many(12, letter.CodeTimeout, "fc:worker", 26*time.Hour, 100*time.Hour, letter.FinalSucceeded)
	many(3, letter.CodeTimeout, "fc:worker", 12*time.Hour, 100*time.Hour, letter.FinalSkippedCompleted)
	many(8, letter.CodeAccessDenied, "model:qwen-max", 9*time.Hour, 400*time.Hour, "")
	many(2, letter.CodeAccessDenied, "model:qwen-max", 9*time.Hour, 400*time.Hour, letter.FinalMigrated)
	many(5, letter.CodeOutcomeUnknown, "fc:worker", 2*time.Hour, 900*time.Hour, "")
	many(1, letter.CodeInvalidSchema, "fc:worker", 70*time.Hour, -time.Hour, "")
	many(2, letter.CodeInvalidSchema, "fc:worker", 70*time.Hour, 50*time.Hour, letter.FinalDiscarded)
	many(1, letter.CodeThrottled, "model:qwen-max", 700*time.Hour, -time.Hour, letter.FinalExpired)
	junk := letter.Letter{
		ID: letter.RawID("junk"), RawSHA256: "junk", Code: letter.CodeInvalidSchema, Target: "fc:worker", Reason: "the bytes are no JSON", Environment: "prod",
		FirstFailedAt: asOf.Add(-time.Hour), LastFailedAt: asOf.Add(-time.Hour), ExpiresAt: asOf.Add(500 * time.Hour),
	}
	w.put(junk)

	const s, k, r, f, u = plan.OutcomeSucceeded, plan.OutcomeSkipped, plan.OutcomeRefused, plan.OutcomeFailed, plan.OutcomeUnresolved
	done := w.plan("rp-20260304-a1", plan.StateDone, letter.CodeTimeout, "fc:worker", []plan.Outcome{s, s, k, s, s, s}, []int64{1, 5}, func(p *plan.Plan) {
		p.Runs = []plan.StageRun{
			{Stage: 0, Size: 1, PreCheck: plan.Counts{Selected: 1}, StartedAt: asOf.Add(-3 * time.Hour).UnixMilli(), EndedAt: asOf.Add(-179 * time.Minute).UnixMilli(), Observed: asOf.Add(-174 * time.Minute).UnixMilli(), Counts: plan.Counts{Selected: 1, Succeeded: 1}},
			{Stage: 1, Size: 5, PreCheck: plan.Counts{Selected: 5, Skipped: 1}, StartedAt: asOf.Add(-173 * time.Minute).UnixMilli(), EndedAt: asOf.Add(-170 * time.Minute).UnixMilli(), Observed: asOf.Add(-165 * time.Minute).UnixMilli(), Counts: plan.Counts{Selected: 5, Succeeded: 4, Skipped: 1}},
		}
	})
	w.verdict(done, plan.VerdictApproved, "ben")
	stopped := w.plan("rp-20260304-b2", plan.StateStopped, letter.CodeTimeout, "fc:worker", []plan.Outcome{s, f, f, r, u, "", "", ""}, []int64{1, 3, 4}, func(p *plan.Plan) {
		p.StoppedBy, p.StopReason = "rule: error rate", "40 % of the items that ended have failed; the limit is 20 %"
		p.HighImpact = []string{"more than 5 events"}
		p.Runs = []plan.StageRun{
			{Stage: 0, Size: 1, PreCheck: plan.Counts{Selected: 1}, StartedAt: asOf.Add(-time.Hour).UnixMilli(), EndedAt: asOf.Add(-59 * time.Minute).UnixMilli(), Counts: plan.Counts{Selected: 1, Succeeded: 1}},
			{Stage: 1, Size: 3, PreCheck: plan.Counts{Selected: 3, Refused: 1}, StartedAt: asOf.Add(-50 * time.Minute).UnixMilli(), Counts: plan.Counts{Selected: 3, Failed: 2, Refused: 1}},
		}
	})
	w.verdict(stopped, plan.VerdictApproved, "ben")
	w.plan("rp-20260304-c3", plan.StatePlanned, letter.CodeAccessDenied, "model:qwen-max", []plan.Outcome{"", "", ""}, []int64{1, 2}, nil)
	w.verdict(w.plan("rp-20260304-d4", plan.StateRejected, letter.CodeThrottled, "model:qwen-max", []plan.Outcome{""}, []int64{1}, nil), plan.VerdictRejected, "ben")
	w.verdict(w.plan("rp-20260304-e5", plan.StatePlanned, letter.CodeTimeout, "fc:worker", []plan.Outcome{"", ""}, []int64{1, 1}, func(p *plan.Plan) {
		p.HighImpact = []string{"the flow pays"}
	}), plan.VerdictApproved, "amy") // its maker: good for nothing

	denied := letter.Fingerprint(letter.CodeAccessDenied, "model:qwen-max")
	for i, ok := range []bool{false, false, true} {
		at := asOf.Add(-time.Duration(9-i) * time.Hour)
		err := w.proof.Add(t.Context(), deadletter.Evidence{
			ID: deadletter.EvidenceID(denied, at), Fingerprint: denied, Probe: "access", OK: ok, Result: map[bool]string{true: "the read-only call answered 200", false: "the read-only call answered 403"}[ok],
			At: at, By: "cleo", Environment: "prod", LetterIDs: []string{"a", "b"},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	timeout := letter.Fingerprint(letter.CodeTimeout, "fc:worker")
	w.audit(1, deadletter.Audit{Action: deadletter.ActionStop, Fingerprint: timeout, ReplayBatchID: "rp-20260304-b2", OperatorOrRule: "rule: error rate", Reason: "40 % of the items that ended have failed"})
	w.audit(2, deadletter.Audit{Action: deadletter.ActionRefused, OperatorOrRule: "dan", Reason: "the identity has no role for replay"})
	w.audit(3, deadletter.Audit{Action: deadletter.ActionReveal, EventID: "evt-0003", Fingerprint: timeout, OperatorOrRule: "cleo", Reason: "compare with the producer's log"})
	for i := range 9 {
		w.audit(10+i, deadletter.Audit{
			Action: deadletter.ActionReplay, EventID: fmt.Sprintf("evt-%04d", i), Fingerprint: timeout, Decision: deadletter.ReplayCandidate, ReplayBatchID: "rp-20260304-a1",
			IdempotencyResult: "SUCCEEDED", FinalStatus: "SUCCEEDED", OperatorOrRule: "replayer", Reason: "sent in stage 2",
		})
	}
	return w
}

func text(f *folder, name string) string { return strings.Clone(string(f.files[name])) }
