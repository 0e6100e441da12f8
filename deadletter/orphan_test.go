package deadletter

import (
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/idempotency"
)

func TestOnlyTheLastLettersDiscardLeavesAnOrphan(t *testing.T) {
	w := newReplayWorld(t)
	w.record(orderEvent("first", "n1", "5"), failed(idempotency.CodeInvalidRequest))
	a := w.ingest(orderEvent("a", "n1", "5"))[0].Letter
	b := w.ingest(orderEvent("b", "n1", "5"))[0].Letter
	none := w.letterOf("never-ran", "TIMEOUT").Letter
	orphans := func(ended ...letter.Letter) []letter.Letter {
		t.Helper()
		for i := range ended {
			ended[i].FinalStatus = letter.FinalDiscarded
		}
		got, err := w.desk.Orphans(t.Context(), ended)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	end := func(l letter.Letter) {
		t.Helper()
		if err := w.desk.Close(t.Context(), l.ID, letter.FinalDiscarded, "amy", "why"); err != nil {
			t.Fatal(err)
		}
	}
	end(a)
	if got := orphans(a); len(got) != 0 {
		t.Errorf("another letter could bring the task back: %v", got)
	}
	end(b)
	if got := orphans(b); len(got) != 1 || got[0].ID != b.ID {
		t.Errorf("got %v", got)
	}
	end(none)
	if got := orphans(none); len(got) != 1 || got[0].ID != none.ID {
		t.Errorf("a late delivery would run what a person has ended: %v", got)
	}
	none.FinalStatus = letter.FinalExpired
	if got, err := w.desk.Orphans(t.Context(), []letter.Letter{none}); err != nil || len(got) != 0 {
		t.Errorf("nobody has decided about it: %v %v", got, err)
	}
	for end, want := range map[letter.FinalStatus]int{
		letter.FinalExpired: 1, letter.FinalSkippedCompleted: 1, letter.FinalSucceeded: 0, letter.FinalMigrated: 0,
	} {
		b.FinalStatus = end
		if got, err := w.desk.Orphans(t.Context(), []letter.Letter{b}); err != nil || len(got) != want {
			t.Errorf("a last letter that ended as %s leaves %v, %v; want %d", end, got, err, want)
		}
	}
}

func TestATaskThatMayHaveActedIsNotDiscarded(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		edit func(*idempotency.Record)
		says string
	}{
		"failed for good": {func(r *idempotency.Record) { r.Status = idempotency.StatusFailedFinal }, ""},
		"a live run":      {func(r *idempotency.Record) { r.Status, r.LeaseUntil = idempotency.StatusRunning, now.Add(time.Minute) }, "a run holds"},
		"a dead run":      {func(r *idempotency.Record) { r.Status, r.LeaseUntil = idempotency.StatusRunning, now.Add(-time.Minute) }, ""},
		"a sent effect": {func(r *idempotency.Record) {
			r.Effects = []idempotency.TaskEffect{{Name: "entry", State: idempotency.EffectSent}}
		}, "effect entry"},
		"a doubted effect": {func(r *idempotency.Record) {
			r.Effects = []idempotency.TaskEffect{{Name: "entry", State: idempotency.EffectUnknown}}
		}, "effect entry"},
		"a refused effect": {func(r *idempotency.Record) {
			r.Effects = []idempotency.TaskEffect{{Name: "entry", State: idempotency.EffectRefused}}
		}, ""},
		"another input": {func(r *idempotency.Record) {
			r.InputDigest, r.Effects = "other", []idempotency.TaskEffect{{State: idempotency.EffectSent}}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			rec := idempotency.Record{Status: idempotency.StatusFailedRetryable, InputDigest: "d"}
			c.edit(&rec)
			got := MayEnd(Judgement{Letter: letter.Letter{InputDigest: "d"}, Record: &rec}, now).String()
			if (got == "") != (c.says == "") || !strings.Contains(got, c.says) {
				t.Errorf("got %q", got)
			}
		})
	}
}

// TestS42AnIntakeThatDies kills intake before and after each of its calls.
func TestS42AnIntakeThatDiesAtAnyStepLosesNothingAndMakesOneLetter(t *testing.T) {
	event := orderEvent("e1", "n1", "5")
	for _, after := range []bool{false, true} {
		for n := 0; ; n++ {
			w := newReplayWorld(t)
			m := &mortal{left: n, after: after}
			dying := w.deskOn(w.storeOf(m))
			_, err := dying.Ingest(t.Context(), Split([]byte(event))[0], "")
			if m.dead == (err == nil) {
				t.Fatalf("call %d after=%v: died %v, and the message is acknowledged: %v", n, after, m.dead, err)
			}
			if m.dead {
				// The queue delivers it again.
				w.now = w.now.Add(time.Second)
				if _, err := w.desk.Ingest(t.Context(), Split([]byte(event))[0], ""); err != nil {
					t.Fatal(err)
				}
			}
			all, _, err := w.desk.Letters.List(t.Context(), "", 10)
			if err != nil || len(all) != 1 || !all[0].Open() {
				t.Fatalf("call %d after=%v: %d letters %v", n, after, len(all), err)
			}
			raw, err := w.desk.RawEvent(t.Context(), all[0])
			if err != nil || string(raw) != event {
				t.Fatalf("call %d after=%v: the event is lost: %v", n, after, err)
			}
			if !m.dead {
				break
			}
		}
	}
}
