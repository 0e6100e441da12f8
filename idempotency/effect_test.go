package idempotency

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/internal/aliyun"
)

var effectKey = Key{Hex: HashOf(map[string]string{"effect": "notice"}), Canonical: `{"effect":"notice"}`}

func specOf(kind TargetKind) EffectSpec {
	return EffectSpec{Name: "notice", Kind: kind, Timeout: 5 * time.Second}
}

// taskOf is a running task with one effect, as an owner has claimed it.
func taskOf(owner string, attempt int64) Record {
	c := claimOf(owner, start)
	c.Effects = []TaskEffect{{Name: "notice", Key: effectKey.Hex, Kind: TargetOpaque}}
	r := DefaultPolicy().First(c)
	r.Attempt = attempt
	return r
}

func sendingOf(kind TargetKind, owner string, attempt int64, now time.Time) Sending {
	return Sending{Key: effectKey, Spec: specOf(kind), Task: taskOf(owner, attempt), OutputRef: refOfAttempt("s"), Now: now}
}

func sentOf(kind TargetKind) Effect {
	return DefaultPolicy().Send(nil, sendingOf(kind, ownerA, 1, start))
}

func inState(kind TargetKind, s EffectState) Effect {
	e := sentOf(kind)
	e.State = s
	return e
}

func TestNextMove(t *testing.T) {
	at := milli(start)
	ttl, visible := specOf(TargetIdempotent), specOf(TargetReadable)
	ttl.KeyTTL, visible.VisibleAfter = time.Hour, time.Minute
	stored := func(kind TargetKind, s EffectState) *Effect { e := inState(kind, s); return &e }
	for _, c := range []struct {
		name   string
		stored *Effect
		spec   EffectSpec
		after  time.Duration
		want   Move
		until  time.Duration
	}{
		{"no row", nil, specOf(TargetOpaque), 0, MoveSend, 0},
		{"idempotent, for ever", stored(TargetIdempotent, EffectSent), specOf(TargetIdempotent), 10000 * time.Hour, MoveSend, 0},
		{"S39 idempotent, a copy that arrives in time", stored(TargetIdempotent, EffectSent), ttl, time.Hour - 5*time.Second - time.Millisecond, MoveSend, 0},
		{"S39 idempotent, a copy that may arrive at the edge", stored(TargetIdempotent, EffectSent), ttl, time.Hour - 5*time.Second, MoveUnknown, 0},
		{"S39 idempotent, long after", stored(TargetIdempotent, EffectSent), ttl, 24 * time.Hour, MoveUnknown, 0},
		{"readable, at once", stored(TargetReadable, EffectSent), visible, 0, MoveWait, 65 * time.Second},
		{"S39 readable, just before it shows", stored(TargetReadable, EffectSent), visible, 65*time.Second - time.Millisecond, MoveWait, 65 * time.Second},
		{"S39 readable, once it shows", stored(TargetReadable, EffectSent), visible, 65 * time.Second, MoveLookUp, 0},
		{"readable, shown at once, its request may be on the way", stored(TargetReadable, EffectSent), specOf(TargetReadable), 4 * time.Second, MoveWait, 5 * time.Second},
		{"opaque", stored(TargetOpaque, EffectSent), specOf(TargetOpaque), time.Hour, MoveUnknown, 0},
		{"undeclared means opaque", stored("", EffectSent), specOf(""), time.Hour, MoveUnknown, 0},
		{"a kind that nobody knows", stored("magic", EffectSent), specOf("magic"), time.Hour, MoveUnknown, 0},
		{"idempotent, and declared opaque now", stored(TargetIdempotent, EffectSent), specOf(TargetOpaque), 0, MoveUnknown, 0},
		{"opaque, and declared idempotent now", stored(TargetOpaque, EffectSent), specOf(TargetIdempotent), 0, MoveUnknown, 0},
		{"readable, and declared idempotent now", stored(TargetReadable, EffectSent), specOf(TargetIdempotent), time.Hour, MoveUnknown, 0},
		{"a state that nobody knows", stored(TargetIdempotent, "LOST"), specOf(TargetIdempotent), 0, MoveUnknown, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, until := NextMove(c.stored, c.spec, at.Add(c.after))
			want := time.Time{}
			if c.until > 0 {
				want = at.Add(c.until)
			}
			if got != c.want || !until.Equal(want) {
				t.Errorf("got %s until %s, want %s until %s", got, until, c.want, want)
			}
		})
	}
	for _, kind := range TargetKinds {
		for state, want := range map[EffectState]Move{EffectSettled: MoveDone, EffectRefused: MoveSend, EffectUnknown: MoveUnknown} {
			for _, after := range []time.Duration{0, time.Hour, 10000 * time.Hour} {
				if got, _ := NextMove(stored(kind, state), ttl, at.Add(after)); got != want {
					t.Errorf("%s %s after %s: got %s, want %s", kind, state, after, got, want)
				}
			}
		}
	}
}

func TestSendWritesWhoSendsWhatAndWhen(t *testing.T) {
	p, now := DefaultPolicy(), milli(start)
	want := Effect{
		Key: effectKey.Hex, TaskKey: testKey.Hex, Name: "notice", Kind: TargetIdempotent, RecordVersion: 1, State: EffectSent, Revision: 1,
		History: []Step{{1, "SENT", 1, now.UnixMilli(), "", "run/aaaaaaaaaaaa"}}, Attempt: 1, Owner: ownerA,
		FirstSentAt: now, SentAt: now, Timeout: 5 * time.Second, OutputRef: refOfAttempt("s"), KeyFields: effectKey.Canonical,
		Flow: "summary", Environment: "prod", UpdatedAt: now, ExpiresAt: now.Add(90 * 24 * time.Hour),
	}
	first := sentOf(TargetIdempotent)
	if diff := cmp.Diff(want, first); diff != "" {
		t.Error(diff)
	}
	later := now.Add(time.Hour)
	copied := p.Send(&first, sendingOf(TargetIdempotent, ownerB, 2, later))
	if !copied.FirstSentAt.Equal(now) || !copied.SentAt.Equal(later) || copied.Attempt != 2 || copied.Owner != ownerB || copied.Revision != 2 {
		t.Errorf("a copy keeps the time of the first one: %+v", copied)
	}
	refused, err := p.Refuse(copied, ownerB, later, Failure{Code: CodeRateLimited})
	if err != nil {
		t.Fatal(err)
	}
	again := p.Send(&refused, sendingOf(TargetOpaque, ownerC, 3, later.Add(time.Hour)))
	if !again.FirstSentAt.Equal(later.Add(time.Hour)) || again.Outcome != "" || again.Kind != TargetOpaque || again.Key != first.Key {
		t.Errorf("after a definite no the count begins anew: %+v", again)
	}
}

func TestEffectsMoveOnlyAsTheDesignAllows(t *testing.T) {
	p, now := DefaultPolicy(), start.Add(time.Minute)
	answer := func(r Resolution) func(Effect) (Effect, error) {
		return func(e Effect) (Effect, error) {
			return p.Resolve(e, Review{ID: OutcomeID(e.Key, 1), Attempt: 1, Resolution: r, Reviewer: "li", TargetRecordID: "n1"}, now)
		}
	}
	for _, m := range []struct {
		name     string
		move     func(Effect) (Effect, error)
		from, to EffectState
		outcome  Outcome
		number   string
	}{
		{"settle", func(e Effect) (Effect, error) { return p.Settle(e, ownerA, now, "n1", "") }, EffectSent, EffectSettled, "", "n1"},
		{"settle what existed", func(e Effect) (Effect, error) { return p.Settle(e, ownerA, now, "n1", OutcomeTargetExists) }, EffectSent, EffectSettled, OutcomeTargetExists, "n1"},
		{"refuse", func(e Effect) (Effect, error) { return p.Refuse(e, ownerA, now, Failure{Code: CodeTimeout}) }, EffectSent, EffectRefused, OutcomeConfirmedRetryable, ""},
		{"doubt", func(e Effect) (Effect, error) { return p.Doubt(e, ownerA, now) }, EffectSent, EffectUnknown, OutcomeAwaitingReview, ""},
		{"confirmed done", answer(ResolvedDone), EffectUnknown, EffectSettled, OutcomeConfirmedDone, "n1"},
		{"confirmed not done", answer(ResolvedNotDone), EffectUnknown, EffectRefused, OutcomeConfirmedRetryable, ""},
		{"compensated", answer(ResolvedCompensated), EffectUnknown, EffectSettled, OutcomeCompensated, ""},
	} {
		for _, from := range append([]EffectState{"", "LOST"}, effectStates...) {
			t.Run(fmt.Sprintf("%s from %q", m.name, from), func(t *testing.T) {
				before := inState(TargetOpaque, from)
				got, err := m.move(before)
				if from != m.from {
					if !errors.Is(err, errEffectState) || !cmp.Equal(got, Effect{}) {
						t.Errorf("got %+v %v", got, err)
					}
					return
				}
				if err != nil || got.State != m.to || got.Outcome != m.outcome || got.TargetRecordID != m.number || got.Revision != 2 || len(got.History) != 2 {
					t.Fatalf("got %+v %v", got, err)
				}
				if last := got.History[1]; last.Revision != 2 || last.Status != Status(m.to) || last.Actor != actorOf(got.Owner) || len(before.History) != 1 {
					t.Errorf("step %+v", last)
				}
			})
		}
	}
	for _, r := range []Resolution{"", ResolvedKeepOld, ResolvedUseNew, "maybe"} {
		if _, err := answer(r)(inState(TargetOpaque, EffectUnknown)); err == nil {
			t.Errorf("%q was taken as an answer", r)
		}
	}
	older := inState(TargetOpaque, EffectUnknown)
	older.Attempt = 2
	if _, err := answer(ResolvedNotDone)(older); !errors.Is(err, errEffectState) {
		t.Errorf("an answer about attempt 1 of an effect that attempt 2 sent: %v", err)
	}
}

func TestEffectRowsReadBackAsTheyWereWritten(t *testing.T) {
	p := DefaultPolicy()
	sent := sentOf(TargetReadable)
	refused, err := p.Refuse(sent, ownerA, start, Failure{Code: CodeRateLimited, Target: "effect:notice", Summary: "HTTP 429"})
	if err != nil {
		t.Fatal(err)
	}
	settled, err := p.Settle(sent, ownerA, start, "n1", OutcomeTargetExists)
	if err != nil {
		t.Fatal(err)
	}
	settled.Reviewer = "li"
	for name, want := range map[string]Effect{"sent": sent, "refused": refused, "settled": settled} {
		row, err := want.Columns()
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseEffect(want.Key, row)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v\n%s", name, err, diff)
		}
	}
}

func TestEffectRowThatCannotBeReadIsRefused(t *testing.T) {
	for name, edit := range map[string]aliyun.Row{
		"a newer version": {"record_version": int64(2)}, "no version": {"record_version": nil}, "an unknown state": {"status": "PAUSED"},
		"no state": {"status": nil}, "no revision": {"revision": nil}, "a task": {"kind": KindTask}, "a history that is none": {"history": "{"},
		"a text for a number": {"attempt": "1"}, "a time in seconds": {"sent_at": start.Unix()}, "no reference": {"output_ref": "o?%zz"},
	} {
		t.Run(name, func(t *testing.T) {
			row, err := sentOf(TargetOpaque).Columns()
			if err != nil {
				t.Fatal(err)
			}
			for column, v := range edit {
				row[column] = v
				if v == nil {
					delete(row, column)
				}
			}
			if e, err := ParseEffect(effectKey.Hex, row); !errors.Is(err, ErrRecord) || e.State != "" {
				t.Errorf("got %+v %v", e, err)
			}
		})
	}
}

func TestAnEffectIsNoTask(t *testing.T) {
	row, err := sentOf(TargetOpaque).Columns()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ParseRecord(effectKey.Hex, row); !errors.Is(err, ErrRecord) {
		t.Errorf("got %v", err)
	}
}

func TestEffectHistoryAndTextsAreBounded(t *testing.T) {
	p := DefaultPolicy()
	e := sentOf(TargetOpaque)
	for i := range int64(100) {
		var err error
		if e, err = p.Refuse(e, ownerA, start, Failure{Code: CodeTimeout, Summary: strings.Repeat("é", 500), Target: strings.Repeat("x", 500)}); err != nil {
			t.Fatal(err)
		}
		e = p.Send(&e, sendingOf(TargetOpaque, ownerA, i+2, start))
	}
	if len(e.History) != maxHistory || e.History[maxHistory-1].Revision != e.Revision || e.Revision != 201 {
		t.Errorf("%d steps, revision %d", len(e.History), e.Revision)
	}
	if len(e.LastErrorSummary) > maxSummary || len(e.LastErrorTarget) > maxSummary {
		t.Errorf("texts of %d and %d bytes", len(e.LastErrorSummary), len(e.LastErrorTarget))
	}
	if settled, err := p.Settle(e, ownerA, start, strings.Repeat("n", 500), ""); err != nil || len(settled.TargetRecordID) > maxSummary {
		t.Errorf("number of %d bytes, %v", len(settled.TargetRecordID), err)
	}
}
