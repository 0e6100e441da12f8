package deadletter

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/idempotency"
)

func TestS43OnePoisonEventIsSetAsideAndTwoStop(t *testing.T) {
	w := newReplayWorld(t)
	p := w.make(w.letters(20))
	first := w.order(p)
	w.function.script[first[2]] = "is refused"
	w.approve(p, "amy")
	p, err := w.run(p)
	if err != nil || p.Counts.Failed != 1 || p.Counts.Succeeded != 19 {
		t.Fatal(err, p.Counts, p.StopReason)
	}
	w.balanced(p)

	w = newReplayWorld(t)
	p = w.make(w.letters(20))
	first = w.order(p)
	w.function.script[first[2]], w.function.script[first[4]] = "is refused", "is refused"
	w.approve(p, "amy")
	p, err = w.run(p)
	if !errors.Is(err, ErrStopped) || p.State != plan.StateStopped || !strings.Contains(p.StopReason, "new way") || p.Counts.Failed != 2 || p.Counts.Unresolved != 15 {
		t.Fatal(err, p.Counts, p.StopReason)
	}
	w.balanced(p)
}

func TestS45AThrottledTargetPausesTheBatchAndBurnsNoAttempts(t *testing.T) {
	w := newReplayWorld(t)
	p := w.make(w.letters(10))
	ids := w.order(p)
	w.function.script[ids[2]] = "is throttled"
	w.approve(p, "amy")
	p, err := w.run(p)
	if !errors.Is(err, ErrPaused) || !strings.Contains(p.StopReason, "the target throttles; resume after") || len(w.function.calls) != 3 {
		t.Fatal(err, p.StopReason, w.function.calls)
	}
	w.now = w.now.Add(time.Hour)
	w.function.script[ids[2]] = ""
	p, err = w.run(p)
	if err != nil || p.Counts.Succeeded != 9 || p.Counts.Failed != 1 {
		t.Fatal(err, p.Counts)
	}
	w.balanced(p)
}

func TestS45AThrottlingPlatformIsWaitedForAndItsItemsAreNotBurned(t *testing.T) {
	w := newReplayWorld(t)
	p := w.make(w.letters(3))
	ids := w.order(p)
	w.function.script[ids[1]] = "platform throttles once"
	w.approve(p, "amy")
	before := w.now
	p, err := w.run(p)
	if err != nil || p.Counts.Succeeded != 3 || w.function.calls[ids[1]] != 1 || w.now.Sub(before) < 7*time.Second {
		t.Fatal(err, p.Counts, w.function.calls, w.now.Sub(before))
	}

	w = newReplayWorld(t)
	p = w.make(w.letters(3))
	ids = w.order(p)
	w.function.script[ids[1]] = "platform throttles"
	w.approve(p, "amy")
	if p, err = w.run(p); !errors.Is(err, ErrPaused) || p.Counts.Unresolved != 2 || !w.outcomes(p)[ids[1]].SentAt.IsZero() {
		t.Fatal(err, p.Counts)
	}
	w.function.script[ids[1]] = ""
	if p, err = w.run(p); err != nil || p.Counts.Succeeded != 3 {
		t.Fatal(err, p.Counts)
	}
	w.balanced(p)
}

func TestAnErrorRateAboveTheLimitStops(t *testing.T) {
	w := newReplayWorld(t)
	p := w.make(w.letters(10))
	w.function.script[w.order(p)[0]] = "dies at work"
	w.approve(p, "amy")
	p, err := w.run(p)
	if !errors.Is(err, ErrStopped) || !strings.Contains(p.StopReason, "1 of 1 failed") || len(w.function.calls) != 1 {
		t.Fatal(err, p.StopReason, w.function.calls)
	}
	w.balanced(p)
}

func TestADuplicateEffectStopsAtOnce(t *testing.T) {
	w := newReplayWorld(t)
	p := w.make(w.letters(10))
	w.function.script[w.order(p)[1]] = "shows two"
	w.approve(p, "amy")
	p, err := w.run(p)
	if !errors.Is(err, ErrStopped) || !strings.Contains(p.StopReason, "two records") || len(w.function.calls) != 2 {
		t.Fatal(err, p.StopReason, w.function.calls)
	}
}

func TestAnOperatorPausesAndStopsARun(t *testing.T) {
	w := newReplayWorld(t)
	p := w.make(w.letters(10))
	w.approve(p, "amy")
	ids := w.order(p)
	r := w.replayer(w.store)
	inner := r.Sleep
	paused := false
	r.Sleep = func(ctx context.Context, d time.Duration) error {
		if !paused && w.function.calls[ids[0]] == 1 {
			paused = true
			if _, err := w.approver(w.store).Control(ctx, p.ID, plan.StatePaused, "bob", "lunch"); err != nil {
				t.Error(err)
			}
		}
		return inner(ctx, d)
	}
	got, err := r.Run(t.Context(), t.Context(), p.ID)
	if !errors.Is(err, ErrPaused) || got.State != plan.StatePaused || got.StoppedBy != "bob" || got.StopReason != "lunch" || len(w.function.calls) != 1 {
		t.Fatal(err, got.State, got.StopReason, w.function.calls)
	}
	if got, err = w.run(p); err != nil || got.Counts.Succeeded != 10 {
		t.Fatal(err, got.Counts)
	}
	w.balanced(got)
	if _, err := w.approver(w.store).Control(t.Context(), p.ID, plan.StateStopped, "bob", "late"); err == nil {
		t.Error("a plan that is done is stopped")
	}
}

func TestAnInterruptFinishesWhatIsInFlightAndPauses(t *testing.T) {
	w := newReplayWorld(t)
	p := w.make(w.letters(10))
	w.approve(p, "amy")
	soft, interrupt := context.WithCancel(t.Context())
	r := w.replayer(w.store)
	r.Progress = func(s Progress) {
		if s.Counts.Succeeded == 3 {
			interrupt()
		}
	}
	got, err := r.Run(t.Context(), soft, p.ID)
	if !errors.Is(err, ErrPaused) || got.Counts.Succeeded != 3 || got.State != plan.StatePaused || got.LockOwner != "" {
		t.Fatal(err, got.Counts, got.State)
	}
	w.balanced(got)
	if got, err = w.run(p); err != nil || got.Counts.Succeeded != 10 {
		t.Fatal(err, got.Counts)
	}
}

func (w *replayWorld) migrated(id string) (parent, child letter.Letter) {
	w.t.Helper()
	event := orderEvent(id, "number-"+id, `"5"`)
	w.record(event, failed(idempotency.CodeInvalidRequest))
	w.now = w.now.Add(time.Second)
	parent = w.ingest(event)[0].Letter
	child, _, err := w.migrator().Migrate(w.t.Context(), parent, "2", "amy", "money was text")
	if err != nil {
		w.t.Fatal(err)
	}
	w.now = w.now.Add(time.Second)
	if err := NewEvidenceLog(w.store).Add(w.t.Context(), Evidence{
		ID: EvidenceID(child.Fingerprint, w.now), Fingerprint: child.Fingerprint, Probe: ProbeSchema, OK: true, Result: "r", LetterIDs: []string{child.ID},
		At: w.now, By: "rita", Environment: "prod",
	}); err != nil {
		w.t.Fatal(err)
	}
	return w.letter(parent.ID), w.letter(child.ID)
}

func TestS44OnlyTheChildIsSentAndItsInputTakesThePlaceOfTheOldOne(t *testing.T) {
	w := newReplayWorld(t)
	parent, child := w.migrated("e1")
	p := w.make(child.Fingerprint)
	if p.Count != 1 || w.outcomes(p)[child.EventID].LetterID != child.ID {
		t.Fatalf("planned %+v", w.outcomes(p))
	}
	w.approve(p, "amy")
	p, err := w.run(p)
	if err != nil || p.Counts.Succeeded != 1 || w.function.calls[parent.EventID] != 0 {
		t.Fatal(err, p.Counts, w.function.calls, w.outcomes(p))
	}
	rec, _, _ := w.desk.Tasks.Get(t.Context(), child.Key)
	if rec.InputDigest != child.InputDigest || len(rec.SupersededDigests) != 1 || rec.SupersededDigests[0] != parent.InputDigest {
		t.Errorf("the record holds %s, superseded %v", rec.InputDigest, rec.SupersededDigests)
	}
	if w.letter(parent.ID).FinalStatus != letter.FinalMigrated || w.letter(child.ID).FinalStatus != letter.FinalSucceeded {
		t.Error("the letters do not end as MIGRATED and SUCCEEDED")
	}
}

func TestS44AChildThatFailsAgainGetsANewGeneration(t *testing.T) {
	w := newReplayWorld(t)
	_, child := w.migrated("e1")
	w.function.script[child.EventID] = "is invalid"
	p := w.make(child.Fingerprint)
	w.approve(p, "amy")
	p, _ = w.run(p)
	if l := w.letter(child.ID); p.Counts.Failed != 1 || l.Generation != child.Generation+1 || !l.Open() {
		t.Fatalf("%+v %+v", p.Counts, l)
	}
	if child.Generation != 1 {
		t.Errorf("a child begins in generation %d", child.Generation)
	}
}

func TestS44AParentWhoseMigrationHasBegunIsNotPlannedNorSent(t *testing.T) {
	w := newReplayWorld(t)
	event := orderEvent("e1", "number-e1", `"5"`)
	items := Split([]byte(event))
	items[0].Code, items[0].Target = letter.CodeTimeout, "fc:worker"
	j, err := w.desk.Ingest(t.Context(), items[0], "")
	if err != nil {
		t.Fatal(err)
	}
	fp := j.Letter.Fingerprint
	p := w.make(fp)
	w.approve(p, "amy")
	if err := NewAuditLog(w.store).Add(t.Context(), Audit{ID: migrationID(j.Letter.ID), At: w.now, Action: ActionMigrate}); err != nil {
		t.Fatal(err)
	}
	d, err := w.planner(w.store).Make(t.Context(), Request{Fingerprint: fp, Reason: "r", By: "amy"})
	if !errors.Is(err, ErrNothingToPlan) || d.Excluded[0].Reason.String() != WhyBegun.String() {
		t.Fatalf("planned: %v %+v", err, d.Excluded)
	}
	p, err = w.run(p)
	if err != nil || p.Counts.Refused != 1 || len(w.function.calls) != 0 {
		t.Fatal(err, p.Counts, w.function.calls)
	}
}

func TestAFailureAfterTheRepairVoidsTheEvidenceForTheWholeGroup(t *testing.T) {
	w := newReplayWorld(t)
	w.rules.MaxErrors = 100
	ctx := t.Context()
	for _, id := range []string{"e1", "e2", "e3"} {
		w.letterOf(id, "ACCESS_DENIED")
	}
	fp := letter.Fingerprint(letter.CodeAccessDenied, "fc:worker")
	w.now = w.now.Add(time.Second)
	if err := NewEvidenceLog(w.store).Add(ctx, Evidence{ID: EvidenceID(fp, w.now), Fingerprint: fp, Probe: ProbeAccess, Environment: "prod", OK: true, Result: "r", At: w.now, By: "rita"}); err != nil {
		t.Fatal(err)
	}
	w.now = w.now.Add(time.Second)
	p := w.make(fp)
	w.approve(p, "bob")
	w.function.script[w.order(p)[0]] = "is refused by the worker"
	p, err := w.run(p)
	if err != nil || p.Counts.Failed != 1 || p.Counts.Refused != 2 || len(w.function.calls) != 1 {
		t.Fatal(err, p.Counts, w.function.calls)
	}
	if i := w.outcomes(p)[w.order(p)[1]]; !strings.Contains(i.Reason, WhyReplayed.String()) {
		t.Errorf("refused because: %s", i.Reason)
	}
	w.now = w.now.Add(time.Hour)
	d, err := w.planner(w.store).Make(ctx, Request{Fingerprint: fp, Reason: "r", By: "amy"})
	if !errors.Is(err, ErrNothingToPlan) || len(d.Excluded) != 1 || d.Excluded[0].Reason.String() != WhyReplayed.String() {
		t.Fatalf("planned again on the old evidence: %v %+v", err, d.Excluded)
	}
}

func TestS50ACallerWithoutTheRightPausesTheRunAndBurnsNoItem(t *testing.T) {
	w := newReplayWorld(t)
	p := w.make(w.letters(4))
	ids := w.order(p)
	w.function.script[ids[1]] = "caller is denied"
	w.approve(p, "amy")
	p, err := w.run(p)
	if !errors.Is(err, ErrPaused) || !strings.Contains(p.StopReason, "missing right") || !w.outcomes(p)[ids[1]].SentAt.IsZero() || len(w.function.calls) != 1 {
		t.Fatal(err, p.StopReason, w.function.calls)
	}
	w.function.script[ids[1]] = ""
	if p, err = w.run(p); err != nil || p.Counts.Succeeded != 4 {
		t.Fatal(err, p.Counts)
	}
	w.balanced(p)
}
