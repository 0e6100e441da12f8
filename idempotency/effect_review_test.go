package idempotency

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

func openOf(kind ReviewKind) Review {
	r := conflictOf("d2")
	if kind == ReviewOutcome {
		r = outcomeOf("")
	}
	r.State, r.Revision, r.Resolution, r.Reviewer, r.TargetRecordID = ReviewOpen, 1, "", "", ""
	return r
}

func TestReviewTakesTheAnswersOfItsKind(t *testing.T) {
	for _, kind := range []ReviewKind{ReviewConflict, ReviewOutcome, "guess"} {
		for _, a := range []Resolution{ResolvedKeepOld, ResolvedUseNew, ResolvedDiscard, ResolvedDone, ResolvedNotDone, ResolvedCompensated, "", "maybe"} {
			r := openOf(kind)
			r.Kind = kind
			got, err := r.Answer(a, "li", "looked", "n1", start)
			allowed := false
			for _, one := range Resolutions[kind] {
				allowed = allowed || one == a
			}
			if (err == nil) != allowed {
				t.Errorf("%s to %s: %v", a, kind, err)
			}
			if err == nil && (got.State != ReviewClosed || got.Resolution != a || got.Reviewer != "li" || got.Reason != "looked" || got.Revision != 2 || !got.ResolvedAt.Equal(milli(start))) {
				t.Errorf("%s to %s: %+v", a, kind, got)
			}
		}
	}
	for name, c := range map[string]struct {
		r                                    Review
		as                                   Resolution
		reviewer, reason, number, wantInText string
	}{
		"done without the number":  {openOf(ReviewOutcome), ResolvedDone, "li", "looked", "", "number"},
		"nobody":                   {openOf(ReviewOutcome), ResolvedNotDone, "", "looked", "", "reviewer"},
		"without a reason":         {openOf(ReviewOutcome), ResolvedNotDone, "li", "", "", "reason"},
		"one that is answered":     {outcomeOf(ResolvedDone), ResolvedNotDone, "li", "looked", "", "confirmed_done already"},
		"one that nobody has made": {Review{}, ResolvedKeepOld, "li", "looked", "", ""},
	} {
		if got, err := c.r.Answer(c.as, c.reviewer, c.reason, c.number, start); err == nil || !strings.Contains(err.Error(), c.wantInText) || !cmp.Equal(got, Review{}) {
			t.Errorf("%s: got %+v %v", name, got, err)
		}
	}
	long := strings.Repeat("é", 500)
	if got, err := openOf(ReviewOutcome).Answer(ResolvedDone, long, long, long, start); err != nil || len(got.Reason) > maxSummary || len(got.Reviewer) > maxSummary || len(got.TargetRecordID) > maxSummary {
		t.Errorf("texts are not bounded: %v", err)
	}
}

func TestOutcomeIDIsOfOneSending(t *testing.T) {
	id := OutcomeID("k", 1)
	if id != HashOf(map[string]string{"effect_key": "k", "kind": "outcome_unknown", "attempt": "1"}) {
		t.Errorf("got %s", id)
	}
	for _, other := range []string{OutcomeID("k", 2), OutcomeID("k2", 1), ConflictID("k", "1")} {
		if other == id {
			t.Error("two questions have one id")
		}
	}
}

func TestReviewReadsBackAsItWasAnswered(t *testing.T) {
	for _, kind := range []ReviewKind{ReviewConflict, ReviewOutcome} {
		s := newStand(t)
		shown, err := s.reviews.Open(t.Context(), openOf(kind))
		if err != nil {
			t.Fatal(err)
		}
		answered, err := shown.Answer(Resolutions[kind][0], "li", "looked", "n1", start)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.reviews.Close(t.Context(), shown, answered); err != nil {
			t.Fatal(err)
		}
		got, _, err := s.reviews.Get(t.Context(), shown.ID)
		if diff := cmp.Diff(answered, got); diff != "" || err != nil {
			t.Errorf("%v\n%s", err, diff)
		}
	}
}

func TestAnswerWhoseWriteIsLost(t *testing.T) {
	for _, phase := range []cloudtest.Phase{cloudtest.Before, cloudtest.After} {
		for _, f := range lostAnswers("UpdateRow", phase) {
			t.Run(faultName(f), func(t *testing.T) {
				s := newStand(t)
				shown, err := s.reviews.Open(t.Context(), openOf(ReviewOutcome))
				if err != nil {
					t.Fatal(err)
				}
				answered, err := shown.Answer(ResolvedDone, "li", "looked", "n1", start)
				if err != nil {
					t.Fatal(err)
				}
				s.srv.Faults.Add(f)
				err = s.reviews.Close(t.Context(), shown, answered)
				if phase == cloudtest.After && err != nil || phase == cloudtest.Before && !errors.Is(err, ErrUnavailable) {
					t.Errorf("got %v", err)
				}
				// Whoever is told nothing may say it again.
				if err := s.reviews.Close(t.Context(), shown, answered); err != nil {
					t.Errorf("again: %v", err)
				}
			})
		}
	}
}

func TestOfTwoReviewersOneAnswers(t *testing.T) {
	s := newStand(t)
	shown, err := s.reviews.Open(t.Context(), openOf(ReviewOutcome))
	if err != nil {
		t.Fatal(err)
	}
	var both sync.WaitGroup
	var errs [2]error
	for i, as := range []Resolution{ResolvedNotDone, ResolvedCompensated} {
		both.Go(func() {
			answered, err := shown.Answer(as, "reviewer"+string(as), "looked", "", start.Add(time.Duration(i)))
			if err != nil {
				t.Error(err)
				return
			}
			errs[i] = s.reviews.Close(t.Context(), shown, answered)
		})
	}
	both.Wait()
	if (errs[0] == nil) == (errs[1] == nil) {
		t.Fatalf("got %v and %v, want one of them to win", errs[0], errs[1])
	}
	stored, _, err := s.reviews.Get(t.Context(), shown.ID)
	if err != nil || stored.Revision != 2 || (stored.Resolution == ResolvedNotDone) != (errs[0] == nil) {
		t.Errorf("stored %+v %v", stored, err)
	}
	for _, err := range errs {
		if err != nil && !strings.Contains(err.Error(), "meanwhile") {
			t.Errorf("the loser is told %v", err)
		}
	}
}
