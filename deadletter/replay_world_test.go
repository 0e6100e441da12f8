package deadletter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

// replayWorld is a world with a function that answers replays as scripted.
type replayWorld struct {
	*world
	function *function
	clock    sync.Mutex
	planIDs  int
	owners   int
	rules    Rules
	slept    []time.Duration
}

func newReplayWorld(t *testing.T) *replayWorld {
	w := &replayWorld{world: newWorld(t), rules: DefaultRules()}
	w.rules.Observe = time.Second
	w.rules.Rate, w.rules.Burst, w.rules.Concurrency = 1000, 100, 1
	w.desk.Retention = 30 * 24 * time.Hour
	w.function = &function{w: w, script: map[string]string{}, calls: map[string]int{}}
	w.desk.Now = w.time
	return w
}

func (w *replayWorld) time() time.Time {
	w.clock.Lock()
	defer w.clock.Unlock()
	return w.now
}

func (w *replayWorld) sleep(_ context.Context, d time.Duration) error {
	w.clock.Lock()
	defer w.clock.Unlock()
	w.now = w.now.Add(d)
	w.slept = append(w.slept, d)
	return nil
}

// function stands where the function would: it changes the record, or not, as a
// script says for each event.
type function struct {
	w      *replayWorld
	mu     sync.Mutex
	script map[string]string // event id -> what happens; "" succeeds
	calls  map[string]int    // event id -> calls that reached it
	sentAt []time.Time
}

func (f *function) Invoke(ctx context.Context, qualifier string, e plan.Envelope) (Answer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	what := f.script[e.Item.EventID]
	f.sentAt = append(f.sentAt, f.w.time())
	if what == "platform throttles once" {
		f.script[e.Item.EventID] = ""
		return Answer{}, &CallError{Reason: "throttled", Throttled: true, RetryAfter: 7 * time.Second}
	}
	if what == "platform throttles" {
		return Answer{}, &CallError{Reason: "throttled", Throttled: true, RetryAfter: 7 * time.Second}
	}
	if what == "caller is denied" {
		return Answer{}, &CallError{Reason: "missing right: fc:InvokeFunction", Denied: true}
	}
	if what == "no such version" {
		return Answer{}, &CallError{Reason: "the function has no version " + qualifier}
	}
	f.calls[e.Item.EventID]++
	w := f.w
	p, _, err := plan.NewStore(w.store).Get(ctx, e.Batch)
	if err != nil {
		return Answer{}, err
	}
	a, err := plan.NewStore(w.store).Approval(ctx, e.Batch)
	if err != nil {
		return Answer{}, err
	}
	if err := errors.Join(plan.CheckApproval(p, a), p.CheckItem(e.Item, e.Proof)); err != nil || hashOf(e.Raw) != e.Item.RawSHA256 {
		return Answer{Refused: true, Reason: "the plan does not allow it"}, nil
	}
	if what == "never arrives" {
		return Answer{}, errors.New("connection reset")
	}
	if what == "answers with an error" {
		return Answer{Failed: true}, nil
	}
	if what == "done by another delivery" {
		w.record(orderEvent("other", "number-"+e.Item.EventID, "5"), succeeded)
		return Answer{}, nil
	}
	tasks := idempotency.NewTable(w.store, idempotency.DefaultPolicy())
	var stored *idempotency.Record
	if rec, ok, err := tasks.Get(ctx, e.Item.Key); err != nil {
		return Answer{}, err
	} else if ok {
		stored = &rec
	}
	answer, next, err := tasks.PlanReplay(stored, idempotency.Claim{
		Key: idempotency.Key{Hex: e.Item.Key, Canonical: "{}"}, InputDigest: e.Item.InputDigest, Owner: fmt.Sprintf("run-%d", len(f.sentAt)), Now: w.time(),
		Deadline: w.time().Add(time.Minute), Budget: 2, Flow: "order", Target: "fc:worker", ConsumerVersion: qualifier, EventID: e.Item.EventID,
	}, idempotency.Grant{Batch: e.Batch, Revision: e.Item.RecordRevision, RecordDigest: e.Item.RecordDigest})
	if err != nil || answer != idempotency.AnswerRun {
		return Answer{Refused: err != nil, Reason: fmt.Sprint(err)}, nil
	}
	running, err := tasks.Reopen(ctx, stored, next)
	if err != nil {
		return Answer{Failed: true}, nil
	}
	if what == "dies at work" {
		return Answer{Failed: true}, nil
	}
	end := succeeded
	if code, ok := fails[what]; ok {
		end = failed(code)
	}
	if what == "is refused by the worker" {
		end = func(p idempotency.Policy, r idempotency.Record) (idempotency.Record, error) {
			return p.Fail(r, r.Owner, r.UpdatedAt, idempotency.Failure{Code: idempotency.CodePermissionDenied, Target: "fc:worker"})
		}
	}
	done, err := end(idempotency.DefaultPolicy(), running)
	if err == nil {
		_, err = tasks.Settle(ctx, running, done)
	}
	if err != nil {
		return Answer{}, err
	}
	if what == "answer is lost" {
		return Answer{}, errors.New("connection reset")
	}
	return Answer{}, nil
}

var fails = map[string]idempotency.Code{
	"times out": idempotency.CodeTimeout, "is refused": idempotency.CodePermissionDenied, "is throttled": idempotency.CodeRateLimited,
	"is invalid": idempotency.CodeInvalidRequest, "shows two": idempotency.CodeDuplicateEffect,
}

// mortal lets a replayer die at one of its calls: that one and all later ones fail.
type mortal struct {
	mu    sync.Mutex
	left  int  // calls until death; negative for ever
	after bool // the fatal call has its effect, and its answer is lost
	dead  bool
	calls int
}

var errDead = errors.New("the process is dead")

// over returns a transport whose calls the process makes.
func (m *mortal) over(inner http.RoundTripper) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) { return m.call(inner, r) })
}

type roundTrip func(*http.Request) (*http.Response, error)

func (fn roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return fn(r) }

func (m *mortal) call(inner http.RoundTripper, r *http.Request) (*http.Response, error) {
	m.mu.Lock()
	m.calls++
	fatal := false
	if !m.dead && m.left == 0 {
		m.dead, fatal = true, true
	} else {
		m.left--
	}
	dead := m.dead
	m.mu.Unlock()
	if fatal && m.after {
		if resp, err := inner.RoundTrip(r); err == nil {
			resp.Body.Close()
		}
	}
	if dead {
		return nil, errDead
	}
	return inner.RoundTrip(r)
}

func (w *replayWorld) storeOf(m *mortal) *aliyun.Tablestore {
	w.t.Helper()
	options := w.options
	options.Transport = m.over(w.options.Transport)
	store, err := aliyun.NewTablestore("http://tables", "oncegate", options)
	if err != nil {
		w.t.Fatal(err)
	}
	return store
}

func (w *replayWorld) deskOn(store *aliyun.Tablestore) *Desk {
	d := *w.desk
	d.Tasks, d.Reviews, d.Letters = idempotency.NewTable(store, idempotency.DefaultPolicy()), idempotency.NewReviews(store), letter.NewTable(store)
	return &d
}

// mortalDesk is a desk whose process dies at one of its calls, to tables or bucket.
func (w *replayWorld) mortalDesk(m *mortal) *Desk {
	w.t.Helper()
	options := w.options
	options.OSSTransport = m.over(w.options.OSSTransport)
	bucket, err := aliyun.NewBucket("http://127.0.0.1", "letters", options)
	if err != nil {
		w.t.Fatal(err)
	}
	d := w.deskOn(w.storeOf(m))
	d.Artifacts = artifacts.NewStore(bucket, "AES256")
	return d
}

func (w *replayWorld) planner(store *aliyun.Tablestore) *Planner {
	d := w.deskOn(store)
	return &Planner{
		Desk: d, Plans: plan.NewStore(store), Evidence: NewEvidenceLog(store), Audit: NewAuditLog(store), Rules: w.rules, Now: w.time,
		NewID:   func() string { w.planIDs++; return fmt.Sprintf("%04d", w.planIDs) },
		Current: func(context.Context) (string, error) { return "7", nil },
		Each: func(ctx context.Context, fingerprint string, each func(Judgement) error) error {
			for from, more := "", true; more; more = from != "" {
				page, next, err := d.Letters.List(ctx, from, 100)
				if err != nil {
					return err
				}
				for _, l := range page {
					if !l.Open() {
						continue
					}
					j, err := d.Judge(ctx, l)
					if err != nil {
						return err
					}
					if j.Fingerprint != fingerprint {
						continue
					}
					if err := each(j); err != nil {
						return err
					}
				}
				from = next
			}
			return nil
		},
	}
}

func (w *replayWorld) approver(store *aliyun.Tablestore) *Approver {
	return &Approver{Plans: plan.NewStore(store), Evidence: NewEvidenceLog(store), Audit: NewAuditLog(store), Now: w.time}
}

func (w *replayWorld) replayer(store *aliyun.Tablestore) *Replayer {
	w.owners++
	return &Replayer{
		Desk: w.deskOn(store), Plans: plan.NewStore(store), Evidence: NewEvidenceLog(store), Audit: NewAuditLog(store),
		Effects: idempotency.NewLedger(store, idempotency.DefaultPolicy()), Invoker: w.function, Rules: w.rules,
		By: "amy", Owner: fmt.Sprintf("replayer-%d", w.owners), Now: w.time, Sleep: w.sleep,
		Current: func(context.Context) (string, error) { return "7", nil },
	}
}

// letters takes in n events that timed out at the worker.
func (w *replayWorld) letters(n int) string {
	w.t.Helper()
	for i := range n {
		w.letterOf(fmt.Sprintf("e%02d", i), "TIMEOUT")
	}
	return letter.Fingerprint(letter.CodeTimeout, "fc:worker")
}

func (w *replayWorld) letterOf(id, code string) Judgement {
	w.t.Helper()
	items := Split([]byte(orderEvent(id, "number-"+id, "5")))
	items[0].Code, items[0].Target = letter.Code(code), "fc:worker"
	j, err := w.desk.Ingest(w.t.Context(), items[0], "")
	if err != nil {
		w.t.Fatal(err)
	}
	return j
}

func (w *replayWorld) make(fingerprint string) plan.Plan {
	w.t.Helper()
	d, err := w.planner(w.store).Make(w.t.Context(), Request{Fingerprint: fingerprint, Reason: "the worker is back", By: "amy"})
	if err != nil {
		w.t.Fatal(err)
	}
	return d.Plan
}

func (w *replayWorld) approve(p plan.Plan, by string) {
	w.t.Helper()
	given := plan.Approval{PlanID: p.ID, Digest: p.Digest, Verdict: plan.VerdictApproved, By: by, At: w.time()}
	if err := w.approver(w.store).Decide(w.t.Context(), p, given); err != nil {
		w.t.Fatal(err)
	}
}

func (w *replayWorld) run(p plan.Plan) (plan.Plan, error) {
	w.t.Helper()
	return w.replayer(w.store).Run(w.t.Context(), w.t.Context(), p.ID)
}

// outcomes are those of a plan's items by event id.
func (w *replayWorld) outcomes(p plan.Plan) map[string]plan.Item {
	w.t.Helper()
	all := map[string]plan.Item{}
	for from := int64(0); from >= 0; {
		items, next, err := plan.NewStore(w.store).Items(w.t.Context(), p.ID, from, 3)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, i := range items {
			all[i.EventID] = i
		}
		from = next
	}
	return all
}

func (w *replayWorld) audits(action Action) []Audit {
	w.t.Helper()
	rows, _, err := NewAuditLog(w.store).List(w.t.Context(), "", "", 1000)
	if err != nil {
		w.t.Fatal(err)
	}
	return slices.DeleteFunc(rows, func(a Audit) bool { return a.Action != action })
}

// balanced checks the sum and that items and sum agree.
func (w *replayWorld) balanced(p plan.Plan) {
	w.t.Helper()
	var c plan.Counts
	for _, i := range w.outcomes(p) {
		c = tally(c, i.Outcome, 1)
	}
	if !p.Counts.Balanced() || c != p.Counts || c.Selected != p.Count {
		w.t.Errorf("the sum does not balance: plan %+v, items %+v", p.Counts, c)
	}
}
