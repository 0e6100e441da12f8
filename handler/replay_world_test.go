package handler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
)

// identity is the key and the input digest of an event.
func (w *world) identity(set *flows.Set, raw []byte) (source, id, key, digest string) {
	w.t.Helper()
	e, err := events.Decode(raw)
	must(w.t, err)
	f := set.Find(e)
	in, err := f.Input(e)
	must(w.t, err)
	k, err := f.Key(in, []byte(keySecret))
	must(w.t, err)
	return e.Source(), e.ID(), k.Hex, f.Digest(in)
}

// leave stores an open letter of an event, as an intake does.
func (w *world) leave(set *flows.Set, raw []byte) letter.Letter {
	w.t.Helper()
	source, id, key, digest := w.identity(set, raw)
	l := letter.Letter{
		ID: letter.ID(source, id, digest), Code: letter.CodeTimeout, Target: "model:m", EventID: id, EventSource: source,
		RawSHA256: idempotency.DigestBinary(raw), Key: key, InputDigest: digest, Environment: environment,
		FirstFailedAt: time.Now(), LastFailedAt: time.Now(), ExpiresAt: time.Now().Add(policy.Retention),
	}
	must(w.t, letter.NewTable(w.store).EnsureOpen(w.ctx(), l))
	return w.letterByID(l.ID)
}

func (w *world) letterByID(id string) letter.Letter {
	w.t.Helper()
	l, ok, err := letter.NewTable(w.store).Get(w.ctx(), id)
	if err != nil || !ok {
		w.t.Fatalf("letter %s: %v %v", id, ok, err)
	}
	return l
}

// freeze is a letter's item in a plan that is made now.
func (w *world) freeze(l letter.Letter) plan.Frozen {
	w.t.Helper()
	rec, _, err := idempotency.NewTable(w.store, policy).Get(w.ctx(), l.Key)
	must(w.t, err)
	return plan.Frozen{
		LetterID: l.ID, LetterRevision: l.Revision, Generation: l.Generation, EventID: l.EventID, RawRef: l.RawRef, RawSHA256: l.RawSHA256,
		Key: l.Key, InputDigest: l.InputDigest, RecordRevision: rec.Revision, RecordDigest: rec.InputDigest, Qualifier: "7",
	}
}

// planning is a plan that is made, with the choices of a test.
type planning struct {
	edit      func(*plan.Header)
	verdict   func(*plan.Approval) // nil: bob approves
	unjudged  bool
	neighbour bool // the item has another one beside it
}

// planned makes a plan of one item and returns the call that replays it.
func (w *world) planned(raw []byte, i plan.Frozen, p planning) plan.Envelope {
	w.t.Helper()
	tree, items := new(plan.Tree), []plan.Frozen{i}
	if p.neighbour {
		other := i
		other.Seq, other.EventID = 1, "another"
		items = append(items, other)
	}
	for _, one := range items {
		must(w.t, tree.Add(one))
	}
	root, err := tree.Root()
	must(w.t, err)
	h := plan.Header{
		Version: 1, ID: fmt.Sprintf("rp-%d", w.owners.Add(1)), Environment: environment, Fingerprint: "3edcecc95052", Code: letter.CodeTimeout,
		Target: "model:m", Reason: "the model is back", MadeBy: "amy", MadeAt: time.Now().UnixMilli(), Count: int64(len(items)), ItemsRoot: root,
		Stages: []int64{int64(len(items))},
	}
	if p.edit != nil {
		p.edit(&h)
	}
	store := plan.NewStore(w.store)
	must(w.t, store.Create(w.ctx(), plan.Plan{Header: h, State: plan.StateRunning, UpdatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)}))
	if !p.unjudged {
		a := plan.Approval{PlanID: h.ID, Digest: h.Digest(), Verdict: plan.VerdictApproved, By: "bob", At: time.Now()}
		if p.verdict != nil {
			p.verdict(&a)
		}
		must(w.t, store.Decide(w.ctx(), a))
	}
	proof, err := tree.Proof(i.Seq)
	must(w.t, err)
	return plan.Envelope{Oncegate: plan.EnvelopeReplay, Batch: h.ID, Item: i, Proof: proof, Raw: raw}
}

// approved is the call that replays a letter under a plan that is made and approved now.
func (w *world) approved(raw []byte, l letter.Letter) plan.Envelope {
	w.t.Helper()
	return w.planned(raw, w.freeze(l), planning{})
}

// call sends an envelope over the wire.
func (w *world) call(h *handler.Handler, envelope any) outcome {
	w.t.Helper()
	raw, err := json.Marshal(envelope)
	must(w.t, err)
	e, ok := handler.ParseEnvelope(raw)
	if !ok {
		w.t.Fatalf("no envelope: %.200s", raw)
	}
	ctx, cancel := context.WithTimeout(w.ctx(), w.limit)
	defer cancel()
	r, err := h.Call(ctx, e, handler.Delivery{RequestID: "request", FunctionName: "gate", Version: "7"})
	var re *handler.RetryError
	if err != nil && !errors.As(err, &re) {
		w.t.Errorf("an error of type %T", err)
	}
	return outcome{r, err}
}

// all is everything that is stored, in tables and objects.
func (w *world) all() string {
	var all []any
	for _, table := range []string{idempotency.TaskTable.Name, idempotency.ReviewTable.Name, letter.LetterTable.Name, plan.PlanTable.Name, plan.ApprovalTable.Name} {
		all = append(all, w.tables.Rows(table))
	}
	for _, o := range w.objects.Objects(bucketName) {
		all = append(all, o.Key)
	}
	return fmt.Sprint(all)
}

// unchanged fails the test unless a call was answered with a decision and a reason
// and nothing was written or run.
func (w *world) unchanged(call func() outcome, want handler.Decision, why string) {
	w.t.Helper()
	before, runs := w.all(), w.work.runs()
	o := call()
	if o.err != nil || o.Decision != want || !strings.Contains(o.Reason, why) {
		w.t.Fatalf("got %v, want %s with %q\n%s", o, want, why, w.logs)
	}
	if refused := want == handler.DecisionReplayRefused || want == handler.DecisionAbandonRefused; refused && o.ErrorCode != idempotency.CodeInvalidRequest {
		w.t.Errorf("a refusal has the code %q", o.ErrorCode)
	}
	if before != w.all() || w.work.runs() != runs {
		w.t.Fatalf("%v, and yet something was written or run\n%s", o, w.logs)
	}
}
