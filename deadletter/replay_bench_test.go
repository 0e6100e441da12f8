package deadletter

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/ratio"
)

// prompt is a function that does each business at once and writes its record, so
// that what is measured is the replayer.
type prompt struct {
	tasks *idempotency.Table
	mu    sync.Mutex
	sent  []time.Time
}

func (f *prompt) Invoke(ctx context.Context, qualifier string, e plan.Envelope) (Answer, error) {
	f.mu.Lock()
	f.sent = append(f.sent, time.Now())
	n := len(f.sent)
	f.mu.Unlock()
	_, next, err := f.tasks.PlanReplay(nil, idempotency.Claim{
		Key: idempotency.Key{Hex: e.Item.Key, Canonical: "{}"}, InputDigest: e.Item.InputDigest, Owner: fmt.Sprintf("run-%d", n), Now: time.Now(),
		Deadline: time.Now().Add(time.Minute), Budget: 2, Flow: "order", Target: "fc:worker", ConsumerVersion: qualifier, EventID: e.Item.EventID,
	}, idempotency.Grant{Batch: e.Batch, Revision: e.Item.RecordRevision, RecordDigest: e.Item.RecordDigest})
	if err != nil {
		return Answer{}, err
	}
	done, err := idempotency.DefaultPolicy().Complete(next, next.Owner, time.Now(), idempotency.Ref{Object: "o", SHA256: "s"})
	if err != nil {
		return Answer{}, err
	}
	_, err = f.tasks.Reopen(ctx, nil, done)
	return Answer{}, err
}

// replayed makes, approves and replays a plan of n letters, and returns when each
// of them was sent, how long the whole took, and how much of processors.
func replayed(b *testing.B, n int, rate float64) (sent []time.Time, took, cpu time.Duration) {
	b.Helper()
	w := newWorldOf(b)
	w.desk.Now, w.desk.Retention = time.Now, 30*24*time.Hour
	fatal := func(err error) {
		b.Helper()
		if err != nil {
			b.Fatal(err)
		}
	}
	for i := range n {
		item := Split([]byte(orderEvent(fmt.Sprintf("e%06d", i), fmt.Sprint(i), "5")))[0]
		item.Code, item.Target = letter.CodeTimeout, "fc:worker"
		_, err := w.desk.Ingest(b.Context(), item, "")
		fatal(err)
	}
	rules := DefaultRules()
	rules.Stages, rules.Cap, rules.Observe = nil, int64(n), 0
	rules.Rate, rules.Burst, rules.Concurrency = rate, 1, 16
	plans, evidence, audit := plan.NewStore(w.store), NewEvidenceLog(w.store), NewAuditLog(w.store)
	current := func(context.Context) (string, error) { return "7", nil }
	planner := &Planner{
		Desk: w.desk, Plans: plans, Evidence: evidence, Audit: audit, Rules: rules, Now: time.Now, NewID: func() string { return "0001" }, Current: current,
		Each: func(ctx context.Context, fingerprint string, each func(Judgement) error) error {
			_, err := w.desk.Each(ctx, EachOptions{Fingerprint: fingerprint, Open: true, Anew: true}, each)
			return err
		},
	}
	made, err := planner.Make(b.Context(), Request{Fingerprint: letter.Fingerprint(letter.CodeTimeout, "fc:worker"), Reason: "the worker is back", By: "amy"})
	fatal(err)
	if made.Plan.Count != int64(n) {
		b.Fatalf("a plan of %d letters, want %d", made.Plan.Count, n)
	}
	approver := &Approver{Plans: plans, Evidence: evidence, Audit: audit, Now: time.Now}
	fatal(approver.Decide(b.Context(), made.Plan, plan.Approval{PlanID: made.Plan.ID, Digest: made.Plan.Digest, Verdict: plan.VerdictApproved, By: "bob", At: time.Now()}))

	function := &prompt{tasks: w.desk.Tasks}
	replayer := &Replayer{
		Desk: w.desk, Plans: plans, Evidence: evidence, Audit: audit, Effects: idempotency.NewLedger(w.store, idempotency.DefaultPolicy()),
		Invoker: function, Rules: rules, By: "amy", Owner: "replayer", Now: time.Now, Current: current,
		Sleep: func(ctx context.Context, d time.Duration) error {
			t := time.NewTimer(d)
			defer t.Stop()
			select {
			case <-t.C:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		},
	}
	began, used := time.Now(), ratio.CPU()
	p, err := replayer.Run(b.Context(), b.Context(), made.Plan.ID)
	fatal(err)
	took, cpu = time.Since(began), ratio.CPU()-used
	if p.Counts.Succeeded != int64(n) {
		b.Fatalf("%+v", p.Counts)
	}
	slices.SortFunc(function.sent, time.Time.Compare)
	return function.sent, took, cpu
}

// BenchmarkReplay measures how many events a second a replay sends with all gates
// on, pre-check included, to a function that answers at once.
func BenchmarkReplay(b *testing.B) {
	const letters = 2000
	var best, busy float64
	for b.Loop() {
		_, took, cpu := replayed(b, letters, 10_000)
		best = max(best, letters/took.Seconds())
		busy = max(busy, letters/cpu.Seconds())
	}
	b.ReportMetric(0, "ns/op")
	ratio.AtLeast(b, best, "events/s", 1000)
	ratio.AtLeast(b, busy, "events/cpu-s", 500) // two cores make 1,000 of it
}

// BenchmarkReplayRate measures how far from a cap of 500 a second a replay is over
// ten seconds.
func BenchmarkReplayRate(b *testing.B) {
	const rate, seconds = 500, 10
	var off float64
	for b.Loop() {
		sent, _, _ := replayed(b, rate*seconds+1, rate)
		off = math.Abs(float64(len(sent)-1)/sent[len(sent)-1].Sub(sent[0]).Seconds()/rate - 1)
	}
	b.ReportMetric(0, "ns/op")
	ratio.AtMost(b, off*100, "%-off", 2)
}
