package deadletter

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/idempotency"
)

func TestAnApprovedPlanIsSentOnceInWideningStages(t *testing.T) {
	w := newReplayWorld(t)
	fp := w.letters(12)
	p := w.make(fp)
	if want := []int64{1, 5, 6}; fmt.Sprint(p.Stages) != fmt.Sprint(want) {
		t.Fatalf("stages %v", p.Stages)
	}
	if _, err := w.run(p); !strings.Contains(fmt.Sprint(err), "nobody has approved") || len(w.function.calls) != 0 {
		t.Fatalf("sent without an approval: %v", err)
	}
	w.approve(p, "amy")
	p, err := w.run(p)
	if err != nil || p.State != plan.StateDone || p.Counts.Succeeded != 12 {
		t.Fatalf("%v %+v", err, p)
	}
	w.balanced(p)
	for id, n := range w.function.calls {
		if n != 1 {
			t.Errorf("%s was sent %d times", id, n)
		}
	}
	for id, i := range w.outcomes(p) {
		l := w.letter(i.LetterID)
		if l.FinalStatus != letter.FinalSucceeded || !strings.Contains(l.ClosedBy, p.ID) {
			t.Errorf("%s: the letter says %s by %s", id, l.FinalStatus, l.ClosedBy)
		}
	}
	if len(p.Runs) != 3 || p.Runs[1].PreCheck.Unresolved != 5 || p.Runs[1].Observed-p.Runs[1].EndedAt < 1000 {
		t.Errorf("runs %+v", p.Runs)
	}
	if n := len(w.audits(ActionReplay)); n != 12 {
		t.Errorf("%d audit rows of 12 events", n)
	}
	if _, err := w.run(p); !strings.Contains(fmt.Sprint(err), "the plan has ended") {
		t.Errorf("a plan runs twice: %v", err)
	}
}

func TestS40NewcomersAreNotTouched(t *testing.T) {
	w := newReplayWorld(t)
	p := w.make(w.letters(3))
	w.letterOf("late", "TIMEOUT")
	w.approve(p, "amy")
	p, err := w.run(p)
	if err != nil || p.Counts.Selected != 3 || w.function.calls["late"] != 0 {
		t.Fatal(err, p.Counts, w.function.calls)
	}
}

func TestS41ARecordThatCompletedMeanwhileIsSkipped(t *testing.T) {
	w := newReplayWorld(t)
	p := w.make(w.letters(3))
	w.record(orderEvent("other", "number-e01", "5"), succeeded)
	w.approve(p, "amy")
	p, err := w.run(p)
	if err != nil || p.Counts.Skipped != 1 || p.Counts.Succeeded != 2 || w.function.calls["e01"] != 0 {
		t.Fatal(err, p.Counts, w.function.calls)
	}
	i := w.outcomes(p)["e01"]
	rec, _, _ := w.desk.Tasks.Get(t.Context(), i.Key)
	if rec.Revision != 2 || rec.ReplayBatchID != "" || w.letter(i.LetterID).FinalStatus != letter.FinalSkippedCompleted {
		t.Errorf("the finished task was changed: %+v", rec)
	}
	w.balanced(p)
}

func TestARecordThatMovedOnSinceThePlanIsRefused(t *testing.T) {
	w := newReplayWorld(t)
	p := w.make(w.letters(2))
	w.record(orderEvent("other", "number-e01", "5"), failed(idempotency.CodeTimeout))
	w.approve(p, "amy")
	w.now = w.now.Add(time.Hour) // past its back-off
	p, err := w.run(p)
	if err != nil || p.Counts.Refused != 1 || !strings.Contains(w.outcomes(p)["e01"].Reason, "moved on since the plan") {
		t.Fatal(err, p.Counts, w.outcomes(p)["e01"].Reason)
	}
	w.balanced(p)
}

// TestS42 kills the replayer before and after every one of its calls, and lets
// another go on.
func TestS42AReplayerThatDiesAtAnyStepSendsNothingTwiceAndForgetsNothing(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := 0; ; n++ {
			w := newReplayWorld(t)
			p := w.make(w.letters(4))
			w.approve(p, "amy")
			bad := w.order(p)[3]
			w.function.script[bad] = "is invalid"
			m := &mortal{left: n, after: after}
			_, err := w.replayer(w.storeOf(m)).Run(t.Context(), t.Context(), p.ID)
			died := m.dead
			if died && err == nil {
				t.Fatalf("call %d after=%v: death without an error", n, after)
			}
			w.now = w.now.Add(w.rules.CallTimeout + 2*lockFor)
			if died {
				if p, err = w.run(p); err != nil && !strings.Contains(err.Error(), "has ended") {
					t.Fatalf("call %d after=%v: the next replayer: %v", n, after, err)
				}
			}
			p, _, _ = plan.NewStore(w.store).Get(t.Context(), p.ID)
			if p.State != plan.StateDone {
				t.Fatalf("call %d after=%v: state %s (%s)", n, after, p.State, p.StopReason)
			}
			w.balanced(p)
			for id, i := range w.outcomes(p) {
				l := w.letter(i.LetterID)
				switch {
				case w.function.calls[id] > 1:
					t.Errorf("call %d after=%v: %s was sent %d times", n, after, id, w.function.calls[id])
				case i.Outcome == plan.OutcomeUnresolved && w.function.calls[id] == 0:
				case id == bad && i.Outcome == plan.OutcomeFailed && l.Open() && l.Generation == 1 && len(l.History) == 1:
				case id != bad && i.Outcome == plan.OutcomeSucceeded && w.function.calls[id] == 1 && l.FinalStatus == letter.FinalSucceeded:
				default:
					t.Errorf("call %d after=%v: %s is %q (%s) after %d sends", n, after, id, i.Outcome, i.Reason, w.function.calls[id])
				}
			}
			if !died {
				if n < 50 {
					t.Fatalf("a run has %d calls only", n)
				}
				break
			}
		}
	}
}

func TestS42APlannerAndAnApproverThatDieLeaveNothingHalf(t *testing.T) {
	for _, after := range []bool{false, true} {
		for n := 0; ; n++ {
			w := newReplayWorld(t)
			fp := w.letters(3)
			m := &mortal{left: n, after: after}
			store := w.storeOf(m)
			d, err := w.planner(store).Make(t.Context(), Request{Fingerprint: fp, Reason: "r", By: "amy"})
			if err == nil {
				given := plan.Approval{PlanID: d.Plan.ID, Digest: d.Plan.Digest, Verdict: plan.VerdictApproved, By: "amy", At: w.time()}
				err = w.approver(store).Decide(t.Context(), d.Plan, given)
			}
			died := m.dead
			if died == (err == nil) {
				t.Fatalf("call %d after=%v: %v", n, after, err)
			}
			// Whatever plan is there is whole, and runs once it is approved.
			page, _, err := plan.NewStore(w.store).List(t.Context(), "", 10)
			if err != nil || len(page) > 1 {
				t.Fatal(page, err)
			}
			for _, p := range page {
				a, err := plan.NewStore(w.store).Approval(t.Context(), p.ID)
				if err != nil {
					t.Fatal(err)
				}
				if p.Given(a) == nil {
					w.approve(p, "amy")
				}
				if p, err = w.run(p); err != nil || p.Counts.Succeeded != 3 {
					t.Fatalf("call %d after=%v: %v %+v", n, after, err, p.Counts)
				}
			}
			if !died {
				break
			}
		}
	}
}

func TestS42TwoReplayersDoNotShareAPlan(t *testing.T) {
	w := newReplayWorld(t)
	p := w.make(w.letters(2))
	w.approve(p, "amy")
	p, _, _ = plan.NewStore(w.store).Get(t.Context(), p.ID)
	held := p
	held.State, held.LockOwner, held.LockUntil = plan.StateRunning, "another", w.now.Add(time.Minute)
	if _, err := plan.NewStore(w.store).Update(t.Context(), p, held); err != nil {
		t.Fatal(err)
	}
	if _, err := w.run(p); !errors.Is(err, ErrLocked) || len(w.function.calls) != 0 {
		t.Fatal(err, w.function.calls)
	}
	w.now = w.now.Add(time.Minute)
	if p, err := w.run(p); err != nil || p.Counts.Succeeded != 2 {
		t.Fatal("a dead replayer's lock does not run out", err)
	}
}

// order is the event ids of a plan as they go.
func (w *replayWorld) order(p plan.Plan) []string {
	ids := make([]string, p.Count)
	for id, i := range w.outcomes(p) {
		ids[i.Seq] = id
	}
	return ids
}

func TestS47AnIdThatNoLongerResolvesIsListedAsUnresolved(t *testing.T) {
	w := newReplayWorld(t)
	fp := w.letters(3)
	planner := w.planner(w.store)
	each := planner.Each
	planner.Each = func(ctx context.Context, fingerprint string, f func(Judgement) error) error {
		return each(ctx, fingerprint, func(j Judgement) error {
			if j.Letter.EventID == "e01" {
				j.Letter.ID = strings.Repeat("0", 64) // as if its letter were purged between plan and run
			}
			return f(j)
		})
	}
	d, err := planner.Make(t.Context(), Request{Fingerprint: fp, Reason: "r", By: "amy"})
	if err != nil {
		t.Fatal(err)
	}
	p := d.Plan
	w.approve(p, "amy")
	p, err = w.run(p)
	i := w.outcomes(p)["e01"]
	if err != nil || p.Counts.Unresolved != 1 || i.Outcome != plan.OutcomeUnresolved || i.Reason != reasonGone || w.function.calls["e01"] != 0 {
		t.Fatal(err, p.Counts, i)
	}
	w.balanced(p)
}

func TestS48TheSendsOfAnyOneSecondStayWithinRateAndBurst(t *testing.T) {
	w := newReplayWorld(t)
	w.rules.Rate, w.rules.Burst, w.rules.Stages = 4, 2, []int64{30}
	p := w.make(w.letters(30))
	w.approve(p, "amy")
	if p, err := w.run(p); err != nil || p.Counts.Succeeded != 30 {
		t.Fatal(err, p.Counts)
	}
	for i, at := range w.function.sentAt {
		n := 0
		for _, later := range w.function.sentAt[i:] {
			if later.Sub(at) < time.Second {
				n++
			}
		}
		if n > 4+2 {
			t.Fatalf("%d sends within one second", n)
		}
	}
}

func TestS49AnApprovalHoldsForWhatWasShownAndByWhoMayGiveIt(t *testing.T) {
	w := newReplayWorld(t)
	w.rules.High.Count = 2
	p := w.make(w.letters(3))
	if len(p.HighImpact) != 1 {
		t.Fatalf("impact %v", p.HighImpact)
	}
	ctx := t.Context()
	given := plan.Approval{PlanID: p.ID, Digest: p.Digest, Verdict: plan.VerdictApproved, By: "amy", At: w.now}
	var refused *RefusedError
	if err := w.approver(w.store).Decide(ctx, p, given); !errors.As(err, &refused) {
		t.Fatalf("the maker approves a plan of high impact: %v", err)
	}
	// Around the tool: the verdict is written, and still nothing goes.
	if err := plan.NewStore(w.store).Decide(ctx, given); err != nil {
		t.Fatal(err)
	}
	if _, err := w.run(p); !errors.As(err, &refused) || refused.Gate.Name != GateApproval || len(w.function.calls) != 0 {
		t.Fatalf("got %v", err)
	}
	if len(w.audits(ActionRefused)) != 2 {
		t.Errorf("refusals are audited: %+v", w.audits(ActionRefused))
	}

	w = newReplayWorld(t)
	p = w.make(w.letters(3))
	other := given
	other.PlanID, other.Digest, other.By = p.ID, strings.Repeat("0", 64), "bob"
	if err := plan.NewStore(w.store).Decide(ctx, other); err != nil {
		t.Fatal(err)
	}
	if _, err := w.run(p); !errors.As(err, &refused) || len(w.function.calls) != 0 {
		t.Fatalf("an approval of another digest: %v", err)
	}
}

func TestS49EvidenceThatChangedVoidsTheApproval(t *testing.T) {
	w := newReplayWorld(t)
	ctx := t.Context()
	w.letterOf("e1", "ACCESS_DENIED")
	w.letterOf("e2", "ACCESS_DENIED")
	fp := letter.Fingerprint(letter.CodeAccessDenied, "fc:worker")
	request := Request{Fingerprint: fp, Reason: "the right is back", By: "amy"}
	d, err := w.planner(w.store).Make(ctx, request)
	if !errors.Is(err, ErrNothingToPlan) || len(d.Excluded) != 1 || d.Excluded[0].Gate != GateRepair {
		t.Fatalf("S51 a permanent code is planned without evidence: %v %+v", err, d)
	}
	log := NewEvidenceLog(w.store)
	evidence := func(ok bool) {
		w.now = w.now.Add(time.Second)
		if err := log.Add(ctx, Evidence{ID: EvidenceID(fp, w.now), Fingerprint: fp, Probe: "access", Environment: "prod", OK: ok, Result: "r", At: w.now, By: "rita"}); err != nil {
			t.Fatal(err)
		}
	}
	evidence(true)
	p := w.make(fp)
	if p.Evidence == "" || p.Count != 2 || len(p.HighImpact) != 1 {
		t.Fatalf("%+v", p)
	}
	w.approve(p, "bob")
	evidence(true)
	var refused *RefusedError
	if _, err := w.run(p); !errors.As(err, &refused) || refused.Gate.Name != GateRepair || len(w.function.calls) != 0 {
		t.Fatalf("an approval from before the evidence changed: %v", err)
	}
	p = w.make(fp)
	w.approve(p, "bob")
	w.function.script[w.order(p)[0]] = "is refused"
	p, err = w.run(p)
	if !errors.Is(err, ErrStopped) && p.Counts.Failed != 1 {
		t.Fatal(err, p.Counts)
	}
}

func TestS50WithoutTheRightNothingGoesAndThatIsAudited(t *testing.T) {
	w := newReplayWorld(t)
	p := w.make(w.letters(2))
	w.approve(p, "amy")
	r := w.replayer(w.store)
	r.Permission = func(context.Context) error { return errors.New("the role could not be looked up") }
	var refused *RefusedError
	if _, err := r.Run(t.Context(), t.Context(), p.ID); !errors.As(err, &refused) || refused.Gate.Name != GatePermission || len(w.function.calls) != 0 {
		t.Fatal(err)
	}
	if rows := w.audits(ActionRefused); len(rows) != 1 || rows[0].OperatorOrRule != "amy" || rows[0].ReplayBatchID != p.ID {
		t.Errorf("%+v", rows)
	}
}

func TestS51TheGenerationCapEndsTheLoop(t *testing.T) {
	w := newReplayWorld(t)
	w.letterOf("e1", "TIMEOUT")
	fp := letter.Fingerprint(letter.CodeTimeout, "fc:worker")
	w.function.script["e1"] = "dies at work"
	for generation := range int64(3) {
		p := w.make(fp)
		w.approve(p, "amy")
		p, _ = w.run(p)
		if p.Counts.Failed != 1 {
			t.Fatalf("generation %d: %+v", generation, p.Counts)
		}
		w.now = w.now.Add(time.Hour)
	}
	d, err := w.planner(w.store).Make(t.Context(), Request{Fingerprint: fp, Reason: "r", By: "amy"})
	if !errors.Is(err, ErrNothingToPlan) || len(d.Excluded) != 1 || !strings.Contains(d.Excluded[0].Reason.String(), "failed 3 times") {
		t.Fatalf("%v %+v", err, d.Excluded)
	}
}

func TestS52AnEventThatFailsAgainReturnsToItsGroupWithItsFormerLife(t *testing.T) {
	w := newReplayWorld(t)
	id := w.letterOf("e1", "TIMEOUT").Letter.ID
	w.function.script["e1"] = "is invalid"
	p := w.make(letter.Fingerprint(letter.CodeTimeout, "fc:worker"))
	w.approve(p, "amy")
	p, err := w.run(p)
	if err != nil || p.Counts.Failed != 1 {
		t.Fatal(err, p.Counts)
	}
	l := w.letter(id)
	if !l.Open() || l.Generation != 1 || l.ReplayBatchID != p.ID || l.Code != letter.CodeInvalidSchema || l.Target != "model:m" ||
		len(l.History) != 1 || l.History[0].Code != letter.CodeTimeout || l.History[0].Batch != p.ID {
		t.Fatalf("%+v", l)
	}
	if i := w.outcomes(p)["e1"]; i.NewFingerprint != letter.Fingerprint(letter.CodeInvalidSchema, "model:m") {
		t.Errorf("%+v", i)
	}
}

func TestLostAnswersAreReadFromTheRecord(t *testing.T) {
	w := newReplayWorld(t)
	p := w.make(w.letters(6))
	ids := w.order(p)
	w.function.script[ids[1]] = "answer is lost"
	w.function.script[ids[2]] = "never arrives"
	w.function.script[ids[3]] = "answers with an error"
	w.function.script[ids[4]] = "no such version"
	w.function.script[ids[5]] = "done by another delivery"
	w.approve(p, "amy")
	p, err := w.run(p)
	if err != nil {
		t.Fatal(err)
	}
	got := w.outcomes(p)
	for n, want := range map[int]plan.Outcome{
		1: plan.OutcomeSucceeded, 2: plan.OutcomeUnresolved, 3: plan.OutcomeUnresolved, 4: plan.OutcomeRefused, 5: plan.OutcomeSkipped,
	} {
		if got[ids[n]].Outcome != want {
			t.Errorf("item %d: %s (%s), want %s", n, got[ids[n]].Outcome, got[ids[n]].Reason, want)
		}
	}
	w.balanced(p)
}

func TestItemsThatWereTamperedWithAreNotSent(t *testing.T) {
	w := newReplayWorld(t)
	p := w.make(w.letters(3))
	w.approve(p, "amy")
	store := plan.NewStore(w.store)
	i, _, _ := store.Item(t.Context(), p.ID, 1)
	other := i
	other.Key = strings.Repeat("a", 64)
	if _, err := store.UpdateItem(t.Context(), i, other); err != nil {
		t.Fatal(err)
	}
	if _, err := w.run(p); !errors.Is(err, ErrTampered) || len(w.function.calls) != 0 {
		t.Fatal(err, w.function.calls)
	}
}

// migrated takes in an event that failed for good with text where a number
// belongs, and migrates it; its child has evidence.
