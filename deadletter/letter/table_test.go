package letter

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

func milli(t time.Time) time.Time { return time.UnixMilli(t.UnixMilli()).UTC() }

// asStored is a letter after its first write.
func asStored(l Letter) Letter {
	l.Revision, l.DeliveryAttempts, l.Fingerprint = 1, 1, Fingerprint(l.Code, l.Target)
	l.FirstFailedAt, l.LastFailedAt, l.ExpiresAt = milli(l.FirstFailedAt), milli(l.LastFailedAt), milli(l.ExpiresAt)
	return l
}

func TestNewLetterIsStoredWhole(t *testing.T) {
	s := newStand(t)
	got := s.open(letterAt(0))
	if diff := cmp.Diff(asStored(letterAt(0)), got); diff != "" {
		t.Error(diff)
	}
	if got.Fingerprint == "" || !got.Open() {
		t.Errorf("got %+v", got)
	}
	if class := s.srv.Rows(LetterTable.Name)[0].Columns["class"]; class != string(ClassTransient) {
		t.Errorf("class %v", class)
	}
	if _, ok, err := s.table.Get(t.Context(), "nothing"); ok || err != nil {
		t.Errorf("no letter: %v %v", ok, err)
	}
}

func TestColumnsNeverHoldNil(t *testing.T) {
	full := asStored(letterAt(0))
	full.FinalStatus, full.ClosedAt, full.History = FinalDiscarded, seenAt, []Life{{1, FinalDiscarded, CodeTimeout, 1, ""}}
	for name, l := range map[string]Letter{"empty": {}, "full": full} {
		row, err := l.columns()
		if err != nil {
			t.Fatal(err)
		}
		for column, v := range row {
			switch v.(type) {
			case string, int64:
			default:
				t.Errorf("%s: column %s is a %T", name, column, v)
			}
		}
		back, err := parse(l.ID, row)
		if err != nil {
			t.Fatal(err)
		}
		want := l
		want.ClosedAt = time.Time{}
		if !l.ClosedAt.IsZero() {
			want.ClosedAt = milli(l.ClosedAt)
		}
		if diff := cmp.Diff(want, back); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
}

func TestOneMoreSightingOfAnOpenLetter(t *testing.T) {
	for name, ensure := range map[string]func(*stand, Letter) Letter{"EnsureOpen": (*stand).open, "EnsureSeen": (*stand).see} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t)
			first := s.open(letterAt(0))
			again := letterAt(5)
			again.Code, again.Target, again.Reason, again.ConsumerVersion = CodeAccessDenied, "oss:", "HTTP 403", "8"
			again.RawSHA256 = "raw2"
			got := ensure(s, again)
			want := first
			want.Revision, want.DeliveryAttempts = 2, 2
			want.LastFailedAt, want.ExpiresAt = milli(again.LastFailedAt), milli(again.ExpiresAt)
			want.Code, want.Target, want.Reason, want.ConsumerVersion = CodeAccessDenied, "oss:", "HTTP 403", "8"
			want.Fingerprint = Fingerprint(CodeAccessDenied, "oss:")
			// The bytes under raw_ref are those of the last sighting.
			want.RawSHA256 = "raw2"
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSightingRemovesWhatIsNoLongerSaid(t *testing.T) {
	s := newStand(t)
	s.open(letterAt(0))
	again := letterAt(5)
	again.Reason, again.Target, again.ConsumerVersion = "", "", ""
	got := s.open(again)
	if got.Reason != "" || got.Target != "" || got.ConsumerVersion != "" || got.Fingerprint != Fingerprint(again.Code, "") {
		t.Errorf("got reason %q, target %q, version %q", got.Reason, got.Target, got.ConsumerVersion)
	}
}

func TestAnotherCauseInTheSameMomentIsTold(t *testing.T) {
	s := newStand(t)
	s.open(letterAt(0))
	again := letterAt(0)
	again.Code, again.Reason = CodeAccessDenied, "HTTP 403"
	if got := s.open(again); got.Code != CodeAccessDenied || got.Reason != "HTTP 403" || got.DeliveryAttempts != 2 {
		t.Errorf("got %+v", got)
	}
}

func TestReopenedLetterKeepsItsFormerLife(t *testing.T) {
	s := newStand(t)
	s.open(letterAt(0))
	closed := s.close(FinalDiscarded)
	again := letterAt(300)
	again.Code = CodeTimeout
	got := s.open(again)
	if !got.Open() || !got.ClosedAt.IsZero() || got.Revision != 3 || got.Code != CodeTimeout || got.Generation != 2 {
		t.Errorf("S52 got %+v", got)
	}
	want := []Life{{closed.ClosedAt.UnixMilli(), FinalDiscarded, CodeThrottled, 2, ""}}
	if diff := cmp.Diff(want, got.History); diff != "" {
		t.Errorf("S52 history:\n%s", diff)
	}
	if !got.FirstFailedAt.Equal(milli(seenAt)) {
		t.Errorf("S52 first failed at %v", got.FirstFailedAt)
	}
	for i := range 30 {
		s.close(FinalSkippedCompleted)
		got = s.open(letterAt(1000 + i))
	}
	if len(got.History) != 20 || got.History[0].FinalStatus != FinalSkippedCompleted {
		t.Errorf("%d former lives, the oldest %+v", len(got.History), got.History[0])
	}
}

func TestClosedLetterStaysClosedWhenSeen(t *testing.T) {
	s := newStand(t)
	s.open(letterAt(0))
	closed := s.close(FinalDiscarded)
	again := letterAt(300)
	again.Code, again.Target, again.Reason, again.FinalStatus = CodeConflict, "fc:orders", "another", FinalSkippedCompleted
	got := s.see(again)
	want := closed
	want.Revision, want.DeliveryAttempts = closed.Revision+1, 2
	want.LastFailedAt, want.ExpiresAt = milli(again.LastFailedAt), milli(again.ExpiresAt)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("S38:\n%s", diff)
	}
}

func TestNewLetterOfAnAnsweredQuestionIsClosed(t *testing.T) {
	s := newStand(t)
	l := letterAt(0)
	l.FinalStatus = FinalDiscarded
	got := s.see(l)
	if got.Open() || got.FinalStatus != FinalDiscarded || !got.ClosedAt.Equal(milli(seenAt)) || got.DeliveryAttempts != 1 {
		t.Errorf("S38 got %+v", got)
	}
}

func TestLetterWhoseAnswerIsLostIsOneSighting(t *testing.T) {
	for _, f := range []cloudtest.Fault{
		{Kind: cloudtest.Drop},
		{Kind: cloudtest.Truncate},
		{Kind: cloudtest.Status, Status: 503, Code: "OTSTimeout"},
		{Kind: cloudtest.Status, Status: 500, Code: "OTSInternalServerError"},
	} {
		f.Phase = cloudtest.After
		name := fmt.Sprintf(" %s %s", f.Kind, f.Code)
		t.Run("S16 new"+name, func(t *testing.T) {
			s := newStand(t)
			f.Op = "PutRow"
			s.srv.Faults.Add(f)
			if got := s.open(letterAt(0)); got.DeliveryAttempts != 1 || got.Revision != 1 {
				t.Errorf("got %d sightings, revision %d", got.DeliveryAttempts, got.Revision)
			}
		})
		f.Op = "UpdateRow"
		t.Run("S16 sighting"+name, func(t *testing.T) {
			s := newStand(t)
			s.open(letterAt(0))
			s.srv.Faults.Add(f)
			if got := s.open(letterAt(5)); got.DeliveryAttempts != 2 || got.Revision != 2 {
				t.Errorf("got %d sightings, revision %d", got.DeliveryAttempts, got.Revision)
			}
		})
		t.Run("S16 reopening"+name, func(t *testing.T) {
			s := newStand(t)
			s.open(letterAt(0))
			s.close(FinalDiscarded)
			s.srv.Faults.Add(f)
			if got := s.open(letterAt(300)); !got.Open() || len(got.History) != 1 || got.Revision != 3 {
				t.Errorf("got %+v", got)
			}
		})
		t.Run("S16 sighting of a closed one"+name, func(t *testing.T) {
			s := newStand(t)
			s.open(letterAt(0))
			s.close(FinalDiscarded)
			s.srv.Faults.Add(f)
			if got := s.see(letterAt(300)); got.Open() || got.DeliveryAttempts != 2 {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestLetterThatCannotBeStoredIsUnavailable(t *testing.T) {
	for name, c := range map[string]struct {
		faults []cloudtest.Fault
		writes int
	}{
		"the insert never arrives":        {[]cloudtest.Fault{{Op: "PutRow", Kind: cloudtest.Drop}}, 1},
		"the insert is refused":           {[]cloudtest.Fault{{Op: "PutRow", Kind: cloudtest.Status, Status: 403, Code: "OTSAuthFailed"}}, 1},
		"a failed condition, no row":      {[]cloudtest.Fault{{Op: "PutRow", Kind: cloudtest.Status, Status: 403, Code: "OTSConditionCheckFail"}}, 1},
		"the row cannot be read":          {[]cloudtest.Fault{{Op: "PutRow", Phase: cloudtest.After, Kind: cloudtest.Drop}, {Op: "GetRow", Kind: cloudtest.Drop}}, 1},
		"the store asks for fewer writes": {[]cloudtest.Fault{{Op: "PutRow", Kind: cloudtest.Status, Status: 409, Code: "OTSRowOperationConflict"}}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t)
			s.srv.Faults.Add(c.faults...)
			err := s.table.EnsureOpen(t.Context(), letterAt(0))
			if !errors.Is(err, idempotency.ErrUnavailable) || s.srv.Faults.Calls()["PutRow"] != c.writes {
				t.Errorf("got %v, calls %v", err, s.srv.Faults.Calls())
			}
		})
	}
	t.Run("sightings that never arrive are bounded", func(t *testing.T) {
		s := newStand(t)
		before := s.open(letterAt(0))
		s.srv.Faults.Add(cloudtest.Fault{Op: "UpdateRow", Kind: cloudtest.Drop, Times: -1})
		err := s.table.EnsureOpen(t.Context(), letterAt(5))
		if !errors.Is(err, idempotency.ErrUnavailable) || s.srv.Faults.Calls()["UpdateRow"] != 4 {
			t.Errorf("got %v, calls %v", err, s.srv.Faults.Calls())
		}
		if diff := cmp.Diff(before, s.stored(before.ID)); diff != "" {
			t.Error(diff)
		}
	})
}
