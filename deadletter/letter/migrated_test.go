package letter

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestCreateLeavesALetterThatIsThereAsItIs(t *testing.T) {
	s := newStand(t)
	s.srv.Faults.Add(cloudtest.Fault{Op: "PutRow", Phase: cloudtest.After, Kind: cloudtest.Drop})
	if err := s.table.Create(t.Context(), letterAt(0)); err != nil {
		t.Fatalf("a lost answer: %v", err)
	}
	if diff := cmp.Diff(asStored(letterAt(0)), s.stored(letterAt(0).ID)); diff != "" {
		t.Error(diff)
	}
	closed := s.close(FinalDiscarded)
	other := letterAt(0)
	other.Reason = "another"
	if err := s.table.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(closed, s.stored(closed.ID)); diff != "" {
		t.Error(diff)
	}
	s.srv.Faults.Add(cloudtest.Fault{Op: "PutRow", Kind: cloudtest.Drop})
	fresh := letterAt(0)
	fresh.ID = "fresh"
	if err := s.table.Create(t.Context(), fresh); err == nil {
		t.Error("a letter that was not written is said to be there")
	}
}

func TestAMigratedLetterStaysClosedWhateverIsSeen(t *testing.T) {
	s := newStand(t)
	s.open(letterAt(0))
	closed := s.close(FinalMigrated)
	again := s.open(letterAt(60))
	if again.FinalStatus != FinalMigrated || again.DeliveryAttempts != closed.DeliveryAttempts+1 || len(again.History) != 0 {
		t.Errorf("got %+v", again)
	}
	if twice := s.open(letterAt(60)); twice.Revision != again.Revision {
		t.Errorf("one sighting counts twice: %+v", twice)
	}
}
