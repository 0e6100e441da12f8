package idempotency

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// ledgerWrite is one write of the ledger, and the state that it begins from.
type ledgerWrite struct {
	name string
	op   string
	from EffectState // "" begins without a row
	do   func(t *testing.T, l *Ledger, before *Effect) (Effect, error)
}

var ledgerWrites = []ledgerWrite{
	{"send", "PutRow", "", func(t *testing.T, l *Ledger, _ *Effect) (Effect, error) {
		return l.Send(t.Context(), nil, sendingOf(TargetIdempotent, ownerA, 1, start))
	}},
	{"send a copy", "UpdateRow", EffectSent, func(t *testing.T, l *Ledger, before *Effect) (Effect, error) {
		return l.Send(t.Context(), before, sendingOf(TargetIdempotent, ownerB, 2, start.Add(time.Hour)))
	}},
	{"send again", "UpdateRow", EffectRefused, func(t *testing.T, l *Ledger, before *Effect) (Effect, error) {
		return l.Send(t.Context(), before, sendingOf(TargetIdempotent, ownerB, 2, start.Add(time.Hour)))
	}},
	{"settle", "UpdateRow", EffectSent, func(t *testing.T, l *Ledger, before *Effect) (Effect, error) {
		return l.Settle(t.Context(), *before, ownerA, start, "n1", "")
	}},
	{"refuse", "UpdateRow", EffectSent, func(t *testing.T, l *Ledger, before *Effect) (Effect, error) {
		return l.Refuse(t.Context(), *before, ownerA, start, Failure{Code: CodeTimeout})
	}},
	{"doubt", "UpdateRow", EffectSent, func(t *testing.T, l *Ledger, before *Effect) (Effect, error) {
		return l.Doubt(t.Context(), *before, ownerA, start)
	}},
	{"resolve", "UpdateRow", EffectUnknown, func(t *testing.T, l *Ledger, before *Effect) (Effect, error) {
		return l.Resolve(t.Context(), *before, outcomeOf(ResolvedDone), start)
	}},
}

func outcomeOf(r Resolution) Review {
	return Review{
		ID: OutcomeID(effectKey.Hex, 1), Kind: ReviewOutcome, State: ReviewClosed, Resolution: r, Attempt: 1,
		EffectKey: effectKey.Hex, Reviewer: "li", TargetRecordID: "n1",
	}
}

// begin stores an effect in a state, nil for none.
func (s *stand) begin(state EffectState) (*Ledger, *Effect) {
	s.t.Helper()
	l := NewLedger(s.store, DefaultPolicy())
	if state == "" {
		return l, nil
	}
	e := inState(TargetIdempotent, state)
	row, err := e.Columns()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := s.store.Insert(s.t.Context(), TaskTable, e.Key, row); err != nil {
		s.t.Fatal(err)
	}
	s.srv.Faults.ResetCalls()
	return l, &e
}

func (s *stand) effect() (e Effect, ok bool) {
	s.t.Helper()
	e, ok, err := NewLedger(s.store, DefaultPolicy()).Get(s.t.Context(), effectKey.Hex)
	if err != nil {
		s.t.Fatal(err)
	}
	return e, ok
}

func TestLedgerWriteWhoseAnswerIsLostIsRecognised(t *testing.T) {
	for _, w := range ledgerWrites {
		for _, f := range append(lostAnswers(w.op, cloudtest.After), cloudtest.Fault{
			Op: w.op, Phase: cloudtest.After, Kind: cloudtest.Status, Status: 403, Code: "OTSConditionCheckFail",
		}) {
			t.Run("S7 "+w.name+" "+faultName(f), func(t *testing.T) {
				s := newStand(t)
				l, before := s.begin(w.from)
				s.srv.Faults.Add(f)
				got, err := w.do(t, l, before)
				if err != nil {
					t.Fatal(err)
				}
				stored, _ := s.effect()
				if diff := cmp.Diff(got, stored); diff != "" || s.srv.Faults.Calls()[w.op] != 1 {
					t.Errorf("calls %v\n%s", s.srv.Faults.Calls(), diff)
				}
			})
		}
	}
}

func TestLedgerWriteThatNeverArrived(t *testing.T) {
	for _, w := range ledgerWrites {
		for _, f := range lostAnswers(w.op, cloudtest.Before) {
			t.Run(w.name+" "+faultName(f), func(t *testing.T) {
				s := newStand(t)
				l, before := s.begin(w.from)
				s.srv.Faults.Add(f)
				got, err := w.do(t, l, before)
				stored, ok := s.effect()
				if w.name[:4] == "send" {
					// Nothing may leave on a write that may still arrive: another attempt looks.
					if !errors.Is(err, ErrUnavailable) || errors.Is(err, ErrSentElsewhere) || ok != (before != nil) {
						t.Errorf("got %v, row %v", err, ok)
					}
					return
				}
				if err != nil || s.srv.Faults.Calls()["UpdateRow"] != 2 {
					t.Errorf("got %v, calls %v", err, s.srv.Faults.Calls())
				}
				if diff := cmp.Diff(got, stored); diff != "" {
					t.Error(diff)
				}
			})
		}
		t.Run(w.name+" whose row cannot be read after it", func(t *testing.T) {
			s := newStand(t)
			l, before := s.begin(w.from)
			s.srv.Faults.Add(cloudtest.Fault{Op: w.op, Kind: cloudtest.Drop, Times: -1}, cloudtest.Fault{Op: "GetRow", Kind: cloudtest.Drop})
			if _, err := w.do(t, l, before); !errors.Is(err, ErrUnavailable) || s.srv.Faults.Calls()[w.op] != 1 {
				t.Errorf("got %v, calls %v", err, s.srv.Faults.Calls())
			}
		})
		t.Run(w.name+" that the store refuses", func(t *testing.T) {
			s := newStand(t)
			l, before := s.begin(w.from)
			s.srv.Faults.Add(cloudtest.Fault{Op: w.op, Kind: cloudtest.Status, Status: 403, Code: "OTSNoPermissionAccess"})
			if _, err := w.do(t, l, before); !errors.Is(err, ErrUnavailable) || s.srv.Faults.Calls()[w.op] != 1 {
				t.Errorf("got %v, calls %v", err, s.srv.Faults.Calls())
			}
		})
		if w.from != "" && w.name[:4] != "send" {
			t.Run(w.name+" gives up after three", func(t *testing.T) {
				s := newStand(t)
				l, before := s.begin(w.from)
				s.srv.Faults.Add(cloudtest.Fault{Op: w.op, Kind: cloudtest.Drop, Times: -1})
				if _, err := w.do(t, l, before); !errors.Is(err, ErrUnavailable) || s.srv.Faults.Calls()[w.op] != 3 {
					t.Errorf("got %v, calls %v", err, s.srv.Faults.Calls())
				}
				if stored, _ := s.effect(); stored.Revision != 1 {
					t.Errorf("stored %+v", stored)
				}
			})
		}
	}
}

func TestLedgerWriteOfAStaleRunIsRefusedAndChangesNothing(t *testing.T) {
	for _, w := range ledgerWrites {
		t.Run("S5 "+w.name, func(t *testing.T) {
			s := newStand(t)
			l, before := s.begin(w.from)
			if before == nil {
				s.begin(EffectSettled)
			} else {
				// Of the same attempt and state, by somebody else.
				row := aliyun.Row{"owner": ownerC, "status": "SETTLED", "revision": int64(2)}
				if err := s.store.Update(t.Context(), TaskTable, effectKey.Hex, row, 1); err != nil {
					t.Fatal(err)
				}
			}
			rows := s.srv.Rows(TaskTable.Name)
			got, err := w.do(t, l, before)
			if !errors.Is(err, ErrSentElsewhere) || got.State != EffectSettled {
				t.Errorf("got %v, effect %+v", err, got)
			}
			if diff := cmp.Diff(rows, s.srv.Rows(TaskTable.Name)); diff != "" {
				t.Errorf("the stale run changed the effect:\n%s", diff)
			}
		})
	}
}

func TestOfTwoRunsOneSends(t *testing.T) {
	s := newStand(t)
	l := NewLedger(s.store, DefaultPolicy())
	won := 0
	for _, owner := range []string{ownerA, ownerB, ownerC} {
		got, err := l.Send(t.Context(), nil, sendingOf(TargetOpaque, owner, 1, start))
		switch {
		case err == nil:
			won++
		case !errors.Is(err, ErrSentElsewhere) || got.Owner != ownerA:
			t.Errorf("%s: got %v, effect of %s", owner, err, got.Owner)
		}
	}
	if won != 1 {
		t.Errorf("%d runs may send", won)
	}
}

func TestAFencedEffectCannotBeSentByARunThatReadBefore(t *testing.T) {
	for _, from := range []EffectState{"", EffectRefused} {
		t.Run("from "+string(from), func(t *testing.T) {
			s := newStand(t)
			l, before := s.begin(from)
			task := taskOf(ownerA, 1)
			if _, err := l.Fence(t.Context(), before, task, task.Effects[0], "v1", start); err != nil {
				t.Fatal(err)
			}
			got, err := l.Send(t.Context(), before, sendingOf(TargetOpaque, ownerA, 1, start))
			if !errors.Is(err, ErrSentElsewhere) || got.State != EffectRefused || got.Owner != "v1" {
				t.Errorf("got %v, %s of %s", err, got.State, got.Owner)
			}
		})
	}
}

func TestAFenceThatComesTooLateSaysWhoSent(t *testing.T) {
	s := newStand(t)
	l, _ := s.begin("")
	task := taskOf(ownerA, 1)
	if _, err := l.Send(t.Context(), nil, sendingOf(TargetOpaque, ownerA, 1, start)); err != nil {
		t.Fatal(err)
	}
	got, err := l.Fence(t.Context(), nil, task, task.Effects[0], "v1", start)
	if !errors.Is(err, ErrSentElsewhere) || got.State != EffectSent || got.Owner != ownerA {
		t.Errorf("got %v, %s of %s", err, got.State, got.Owner)
	}
}

func TestResolveThatIsWrittenAlreadyWritesNothing(t *testing.T) {
	for r, state := range map[Resolution]EffectState{ResolvedDone: EffectSettled, ResolvedCompensated: EffectSettled, ResolvedNotDone: EffectRefused} {
		s := newStand(t)
		l, before := s.begin(EffectUnknown)
		first, err := l.Resolve(t.Context(), *before, outcomeOf(r), start)
		if err != nil || first.State != state || first.Owner != outcomeOf(r).ID || first.Reviewer != "li" {
			t.Fatalf("%s: got %+v %v", r, first, err)
		}
		s.srv.Faults.ResetCalls()
		again, err := l.Resolve(t.Context(), first, outcomeOf(r), start.Add(time.Hour))
		if diff := cmp.Diff(first, again); diff != "" || err != nil || len(s.srv.Faults.Calls()) != 0 {
			t.Errorf("%s: %v, calls %v\n%s", r, err, s.srv.Faults.Calls(), diff)
		}
		// Two calls that read the same row: the second finds the first one's write.
		if got, err := l.Resolve(t.Context(), *before, outcomeOf(r), start.Add(time.Hour)); err != nil || got.State != state {
			t.Errorf("%s side by side: %+v %v", r, got, err)
		}
	}
}

func TestLedgerGetRefusesWhatItCannotRead(t *testing.T) {
	s := newStand(t)
	l, _ := s.begin(EffectSent)
	if _, ok, err := l.Get(t.Context(), "nothing"); ok || err != nil {
		t.Errorf("no row: %v %v", ok, err)
	}
	if err := s.store.Update(t.Context(), TaskTable, effectKey.Hex, aliyun.Row{"record_version": int64(2)}, 1); err != nil {
		t.Fatal(err)
	}
	if _, _, err := l.Get(t.Context(), effectKey.Hex); !errors.Is(err, ErrUnavailable) || !errors.Is(err, ErrRecord) {
		t.Errorf("S17 got %v", err)
	}
	// Nor is it written over.
	if _, err := l.Send(t.Context(), nil, sendingOf(TargetOpaque, ownerA, 1, start)); !errors.Is(err, ErrUnavailable) {
		t.Errorf("S17 got %v", err)
	}
}
