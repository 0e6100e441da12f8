package simtest

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
)

// errand is a call that the desk of dead letters makes: a replay or an abandonment.
type errand struct {
	name     string
	envelope handler.Envelope
	due      time.Time
	flying   bool
	tries    int
	done     bool
}

// granted is what an approved plan allows for one task.
type granted struct {
	key, record, input string
	revision           int64
}

// maxDesk bounds what people do at the desk in one schedule.
const maxDesk = 8

// desk lets a person bring one letter back, or give one business up.
func (w *world) desk() bool {
	if w.desked >= maxDesk {
		return false
	}
	var open []*event
	for _, e := range w.events {
		if e.key != "" && w.check.hasLetter(e) {
			open = append(open, e)
		}
	}
	if len(open) == 0 {
		return false
	}
	w.desked++
	e := open[w.rnd.IntN(len(open))]
	if w.chance(25) && w.discard(e) {
		return true
	}
	w.replay(e)
	return true
}

// replay makes a plan of one letter, gets it approved most of the time, and sends
// it, sometimes twice.
func (w *world) replay(e *event) {
	w.planned++
	id := idempotency.HashOf(map[string]string{"plan": strconv.Itoa(w.planned)})
	row := w.check.now(letter.LetterTable, e.letterID)
	raw, _ := row["raw_sha256"].(string)
	item := plan.Frozen{LetterID: e.letterID, EventID: e.name, RawSHA256: raw, Key: e.key, InputDigest: e.digest, Qualifier: "7"}
	kind := "replay without a record"
	if r, ok := w.check.record(e.key); ok {
		item.RecordRevision, item.RecordDigest = r.Revision, r.InputDigest
		if kind = "replay of " + string(r.Status); item.Migrated() {
			kind = "migration in place of " + string(r.Status)
		}
	}
	tree := new(plan.Tree)
	root, err := "", tree.Add(item)
	if err == nil {
		root, err = tree.Root()
	}
	h := plan.Header{
		Version: 1, ID: id, Environment: environment, Code: letter.CodeTimeout, Target: "fc:gate", Reason: "because", MadeBy: "amy",
		MadeAt: time.Now().UnixMilli(), Count: 1, ItemsRoot: root, Stages: []int64{1},
	}
	store := plan.NewStore(w.admin)
	if err == nil {
		err = store.Create(w.background, plan.Plan{Header: h, State: plan.StateRunning, UpdatedAt: time.Now(), ExpiresAt: time.Now().Add(time.Hour)})
	}
	if w.chance(90) && err == nil {
		err = store.Decide(w.background, plan.Approval{PlanID: id, Digest: h.Digest(), Verdict: plan.VerdictApproved, By: "bob", At: time.Now()})
		w.granted[id] = granted{e.key, item.RecordDigest, e.digest, item.RecordRevision}
	} else {
		kind += ", not approved"
	}
	if err != nil {
		w.check.broken("I8", "%s cannot be planned: %v", e.name, err)
		return
	}
	w.note("a person plans the %s of %s", kind, e.name)
	w.faults["desk: "+kind]++
	envelope := handler.Envelope{Oncegate: plan.EnvelopeReplay, Replay: &plan.Envelope{Oncegate: plan.EnvelopeReplay, Batch: id, Item: item, Raw: e.raw}}
	for range 1 + w.rnd.IntN(2) {
		w.errands = append(w.errands, &errand{name: "replay " + e.name, envelope: envelope, due: time.Now().Add(w.soon())})
	}
}

// discard closes every open letter of a business, and has its task abandoned. It
// is not done while another input of it waits, or an effect is in doubt.
func (w *world) discard(e *event) bool {
	r, ok := w.check.record(e.key)
	if !ok || r.InputDigest != e.digest {
		return false
	}
	for _, effect := range r.Effects {
		if row, _ := w.check.effect(effect.Key); row.State == idempotency.EffectSent || row.State == idempotency.EffectUnknown {
			return false
		}
	}
	var ids []string
	for id, l := range w.check.newest(letter.LetterTable) {
		if l["idempotency_key"] == e.key && l["final_status"] == nil {
			if l["input_digest"] != e.digest {
				return false
			}
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	for _, id := range ids {
		if err := letter.NewTable(w.admin).Close(w.background, id, letter.FinalDiscarded, "rev", "because", time.Now()); err != nil {
			w.check.broken("I8", "letter %.8s cannot be discarded: %v", id, err)
		}
	}
	w.note("a person gives %s up, which is %s", e.name, r.Status)
	w.faults["desk: discard of "+string(r.Status)]++
	w.errands = append(w.errands, &errand{
		name: "abandon " + e.name, envelope: handler.Envelope{Oncegate: handler.EnvelopeAbandon, Letter: e.letterID}, due: time.Now().Add(w.soon()),
	})
	return true
}

func (r *errand) answered(w *world, inv *invocation) {
	r.flying = false
	r.tries++
	w.faults[fmt.Sprintf("desk: answered %s", inv.results[0].Decision)]++
	// A replay is not sent again: the sender reads the record. What is to be
	// abandoned is asked for until nothing is in its way, or a person looks again.
	r.done = r.envelope.Replay != nil || (inv.err == nil && inv.results[0].Decision == handler.DecisionAbandoned) || r.tries > 5
	if !r.done {
		r.due = time.Now().Add(time.Duration(30+w.rnd.IntN(120)) * time.Second)
	}
}

// died: whoever waits for the answer may send it again, or leave it.
func (r *errand) died(w *world) {
	r.flying = false
	r.done = r.envelope.Replay != nil && w.chance(50)
	r.due = time.Now().Add(time.Minute)
}

// discarded reports whether a person has closed the event's letter for good.
func (k *checker) discarded(e *event) bool {
	l := k.now(letter.LetterTable, e.letterID)
	return l != nil && l["final_status"] == string(letter.FinalDiscarded) && k.holdsRaw(l, e)
}

// opens reports whether a write opens a task under a plan, and checks that it was
// approved for this very record.
func (k *checker) opens(before, r idempotency.Record) bool {
	if r.ReplayBatchID == before.ReplayBatchID {
		return false
	}
	g, ok := k.world.granted[r.ReplayBatchID]
	if want := (granted{r.Key, before.InputDigest, r.InputDigest, before.Revision}); !ok || g != want {
		k.broken("I5", "%.8s is opened under plan %.8s, which says %+v (approved: %v)", r.Key, r.ReplayBatchID, g, ok)
	}
	return true
}

// givenUp reports whether a write abandons a task, and checks that somebody has
// discarded a letter of its input.
func (k *checker) givenUp(before, r idempotency.Record) bool {
	if !r.Abandoned || before.Abandoned {
		return false
	}
	for _, l := range k.newest(letter.LetterTable) {
		if l["idempotency_key"] == r.Key && l["input_digest"] == r.InputDigest {
			for _, e := range r.Effects {
				if row, _ := k.effect(e.Key); row.State == idempotency.EffectUnknown || row.State == idempotency.EffectSent {
					k.broken("I2", "%.8s is given up while its effect %s is %s", r.Key, e.Name, row.State)
				}
			}
			return true
		}
	}
	k.broken("I3", "%.8s is given up, and it has no letter", r.Key)
	return true
}
