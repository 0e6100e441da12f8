package deadletter

import (
	"errors"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/idempotency"
)

// A rule that retries for less time than a lease lasts dead-letters the event of a
// crashed run while the dead run still holds it.
func TestS13ACrashedRunsEventIsACandidateAndGoesOnceTheLeaseIsOver(t *testing.T) {
	w := newReplayWorld(t)
	event := orderEvent("e1", "n1", "5")
	l := w.desk.read(Split([]byte(event))[0], "").letter
	claimed, err := w.desk.Tasks.Claim(t.Context(), idempotency.Claim{
		Key: idempotency.Key{Hex: l.Key, Canonical: "{}"}, InputDigest: l.InputDigest, Owner: "dead", Now: w.now, Budget: 6, Flow: "order",
		Target: "fc:worker", ConsumerVersion: "7",
	}, false)
	if err != nil || claimed.Answer != idempotency.AnswerRun {
		t.Fatal(claimed.Answer, err)
	}
	j := w.ingest(event)[0]
	if j.Code != letter.CodeTimeout || j.Decision != ReplayCandidate || j.Target != "fc:worker" {
		t.Fatalf("got %s of %s, %s", j.Code, j.Target, j.Decision)
	}
	d, err := w.planner(w.store).Make(t.Context(), Request{Fingerprint: j.Fingerprint, Reason: "r", By: "amy"})
	if !errors.Is(err, ErrNothingToPlan) || d.Excluded[0].Gate != GateIdempotency {
		t.Fatalf("planned under a live lease: %v %+v", err, d.Excluded)
	}
	w.now = claimed.Record.LeaseUntil.Add(time.Second)
	p := w.make(j.Fingerprint)
	w.approve(p, "amy")
	if p, err = w.run(p); err != nil || p.Counts.Succeeded != 1 {
		t.Fatal(err, p.Counts)
	}
}
