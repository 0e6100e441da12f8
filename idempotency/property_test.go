package idempotency

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// worker is one run: what it believes to hold, and the write that is under way.
type worker struct {
	owner   string
	held    Record
	pending *Record
	base    int64
}

// protocol is a row with compare-and-set on its revision and some workers whose
// reads and writes interleave.
type protocol struct {
	p       Policy
	now     time.Time
	row     *Record
	workers [4]worker
	owners  int
	won     []Record
	lost    []Record
}

func (m *protocol) pick(t *rapid.T) *worker {
	return &m.workers[rapid.IntRange(0, len(m.workers)-1).Draw(t, "worker")]
}

func (m *protocol) advance(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(0, 7200).Draw(t, "seconds")) * time.Second)
}

// deliver reads and decides; the write follows in commit, or never.
func (m *protocol) deliver(t *rapid.T) {
	w := m.pick(t)
	m.owners++
	*w = worker{owner: fmt.Sprintf("%012d-rest", m.owners)}
	c := claimOf(w.owner, m.now)
	c.Budget = 3
	c.InputDigest = rapid.SampledFrom([]string{testDigest, testDigest, testDigest, "other"}).Draw(t, "digest")
	if m.row == nil {
		first := m.p.First(c)
		w.pending = &first
		return
	}
	switch answer, next := m.p.Deliver(*m.row, c); answer {
	case AnswerRun, AnswerExhausted:
		if c.InputDigest != m.row.InputDigest {
			t.Fatalf("another input was answered with %s", answer)
		}
		w.pending, w.base = &next, m.row.Revision
	default:
		if next.Revision != m.row.Revision {
			t.Fatalf("%s wants to write", answer)
		}
	}
}

func (m *protocol) settle(t *rapid.T, r Record, owner string) (Record, error) {
	if rapid.Bool().Draw(t, "success") {
		return m.p.Complete(r, owner, m.now, Ref{Object: "by-" + owner, SHA256: "s"})
	}
	code := rapid.SampledFrom([]Code{CodeTimeout, CodeInvalidRequest, CodeUnclassified}).Draw(t, "code")
	return m.p.Fail(r, owner, m.now, Failure{Code: code})
}

func (m *protocol) finish(t *rapid.T) {
	w := m.pick(t)
	if w.held.Status != StatusRunning || w.pending != nil {
		return
	}
	next, err := m.settle(t, w.held, w.owner)
	if err != nil {
		t.Fatal(err)
	}
	w.pending, w.base = &next, w.held.Revision
}

// finishOnReadRow settles what is stored now, as a run that reads again would.
func (m *protocol) finishOnReadRow(t *rapid.T) {
	w := m.pick(t)
	if m.row == nil || w.owner == "" || w.pending != nil {
		return
	}
	next, err := m.settle(t, *m.row, w.owner)
	if own := m.row.Status == StatusRunning && m.row.Owner == w.owner; own != (err == nil) || (!own && !errors.Is(err, ErrNotOwner)) {
		t.Fatalf("owner %s on %s of %s: %v", w.owner, m.row.Status, m.row.Owner, err)
	}
	if err == nil {
		w.pending, w.base = &next, m.row.Revision
	}
}

func (m *protocol) commit(t *rapid.T) {
	w := m.pick(t)
	if w.pending == nil {
		return
	}
	next := *w.pending
	w.pending = nil
	var old Record
	if m.row != nil {
		old = *m.row
	}
	if old.Revision != w.base {
		m.lost = append(m.lost, next)
		return
	}
	switch {
	case next.Revision != old.Revision+1:
		t.Fatalf("revision %d after %d", next.Revision, old.Revision)
	case next.Attempt < old.Attempt:
		t.Fatalf("attempt %d after %d", next.Attempt, old.Attempt)
	case old.Status == StatusSucceeded || old.Status == StatusFailedFinal:
		t.Fatalf("%s was moved on to %s", old.Status, next.Status)
	case old.ResultRef != Ref{} && next.ResultRef != old.ResultRef:
		t.Fatalf("result_ref %v after %v", next.ResultRef, old.ResultRef)
	case next.Status == StatusRunning && next.Attempt != old.Attempt+1:
		t.Fatalf("a run of attempt %d after %d", next.Attempt, old.Attempt)
	case next.Attempt > 3:
		t.Fatalf("attempt %d of 3", next.Attempt)
	case old.Status == StatusRunning && next.Owner != old.Owner && !m.now.After(old.LeaseUntil):
		t.Fatal("a live lease was taken over")
	}
	m.row, w.held = &next, next
	m.won = append(m.won, next)
}

func (m *protocol) check(t *rapid.T) {
	succeeded, attempts := 0, map[int64]bool{}
	for _, wrote := range m.won {
		if wrote.Status == StatusSucceeded {
			succeeded++
		}
		if wrote.Status == StatusRunning {
			if attempts[wrote.Attempt] {
				t.Fatalf("two runs have attempt %d", wrote.Attempt)
			}
			attempts[wrote.Attempt] = true
		}
		landed, current := Landed(*m.row, wrote)
		if !landed || current != (wrote.Revision == m.row.Revision) {
			t.Fatalf("the write of revision %d is not recognised", wrote.Revision)
		}
	}
	if succeeded > 1 {
		t.Fatalf("%d SUCCEEDED writes", succeeded)
	}
	for _, wrote := range m.lost {
		if landed, _ := Landed(*m.row, wrote); landed {
			t.Fatalf("a lost write of revision %d by %s is taken for a success", wrote.Revision, wrote.Owner)
		}
	}
}

func TestNoInterleavingGivesTwoResults(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &protocol{p: DefaultPolicy(), now: start}
		t.Repeat(map[string]func(*rapid.T){
			"advance": m.advance, "deliver": m.deliver, "finish": m.finish, "finish on the row read": m.finishOnReadRow,
			"commit": m.commit, "": m.check,
		})
	})
}
