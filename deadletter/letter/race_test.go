package letter

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestTwoWritersMakeOneLetterWithTwoSightings(t *testing.T) {
	for _, there := range []bool{false, true} {
		t.Run(fmt.Sprintf("letter there %v", there), func(t *testing.T) {
			s := newStand(t)
			want := int64(2)
			if there {
				s.open(letterAt(-1))
				want = 3
			}
			var both sync.WaitGroup
			for i := range 2 {
				both.Go(func() {
					if err := s.table.EnsureOpen(t.Context(), letterAt(i)); err != nil {
						t.Error(err)
					}
				})
			}
			both.Wait()
			got := s.stored(letterAt(0).ID)
			if len(s.srv.Rows(LetterTable.Name)) != 1 || got.DeliveryAttempts != want || got.Revision != want || !got.Open() {
				t.Errorf("got %d sightings, revision %d", got.DeliveryAttempts, got.Revision)
			}
		})
	}
}

func TestSightingThatLosesARaceReadsAgain(t *testing.T) {
	s := newStand(t)
	s.open(letterAt(0))
	s.srv.Faults.Hook(func(c cloudtest.Call, p cloudtest.Phase) {
		if c.Op == "UpdateRow" && p == cloudtest.Before {
			s.srv.Faults.Hook(nil)
			s.close(FinalDiscarded)
		}
	})
	if got := s.open(letterAt(5)); !got.Open() || len(got.History) != 1 || got.DeliveryAttempts != 2 || got.Revision != 3 {
		t.Errorf("got %+v", got)
	}
}

func TestListPagesByRisingID(t *testing.T) {
	s := newStand(t)
	for i := range 5 {
		l := letterAt(i)
		l.ID = fmt.Sprintf("l%d", i)
		s.open(l)
	}
	var ids []string
	from, pages := "", 0
	for {
		letters, next, err := s.table.List(t.Context(), from, 2)
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for _, l := range letters {
			ids = append(ids, l.ID)
		}
		if next == "" {
			break
		}
		from = next
	}
	if diff := cmp.Diff([]string{"l0", "l1", "l2", "l3", "l4"}, ids); diff != "" || pages < 3 {
		t.Errorf("%d pages\n%s", pages, diff)
	}
	for column, v := range map[string]any{"last_failed_at": seenAt.Unix(), "event_id": int64(1), "history": "{"} {
		if err := s.store.Insert(t.Context(), LetterTable, "m"+column, aliyun.Row{"revision": int64(1), column: v}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := s.table.List(t.Context(), "m"+column, 1); err == nil {
			t.Errorf("S4 %s %v was read", column, v)
		}
		if _, _, err := s.table.Get(t.Context(), "m"+column); !errors.Is(err, idempotency.ErrUnavailable) {
			t.Errorf("%s: %v", column, err)
		}
	}
}
