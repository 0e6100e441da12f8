package letter

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

// heard notes what an observer of the table is told.
func (s *stand) heard() (*Table, *[]string) {
	var all []string
	return s.table.Observing(func(_ context.Context, before *Letter, l Letter) {
		from := "none"
		if before != nil {
			from = fmt.Sprint(before.Revision)
		}
		all = append(all, fmt.Sprintf("%s to %d", from, l.Revision))
	}), &all
}

func TestEachRevisionThatLandedIsToldOnce(t *testing.T) {
	lost := func(op string) cloudtest.Fault {
		return cloudtest.Fault{Op: op, Phase: cloudtest.After, Kind: cloudtest.Drop}
	}
	for name, c := range map[string]struct {
		faults []cloudtest.Fault
		want   []string
	}{
		"plainly":                              {nil, []string{"none to 1", "1 to 2"}},
		"the first one's answer is lost":       {[]cloudtest.Fault{lost("PutRow")}, []string{"none to 1", "1 to 2"}},
		"the sighting's answer is lost":        {[]cloudtest.Fault{lost("UpdateRow")}, []string{"none to 1", "1 to 2"}},
		"the sighting comes at the second try": {[]cloudtest.Fault{{Op: "UpdateRow", Kind: cloudtest.Drop}}, []string{"none to 1", "1 to 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t)
			table, heard := s.heard()
			s.srv.Faults.Add(c.faults...)
			for _, l := range []Letter{letterAt(0), letterAt(5)} {
				if _, err := table.See(t.Context(), l, true); err != nil {
					t.Fatal(err)
				}
			}
			if !slices.Equal(*heard, c.want) {
				t.Errorf("told %q, want %q", *heard, c.want)
			}
		})
	}
	t.Run("what was sent first lands late, before the second try", func(t *testing.T) {
		s := newStand(t)
		table, heard := s.heard()
		s.open(letterAt(0))
		s.srv.Faults.Add(cloudtest.Fault{Op: "UpdateRow", Kind: cloudtest.Drop})
		tries := 0
		s.srv.Faults.Hook(func(c cloudtest.Call, p cloudtest.Phase) {
			if c.Op != "UpdateRow" || p != cloudtest.Before {
				return
			}
			if tries++; tries == 2 {
				s.srv.Faults.Hook(nil)
				s.open(letterAt(5))
			}
		})
		if got, err := table.See(t.Context(), letterAt(5), true); err != nil || got.Revision != 2 || !slices.Equal(*heard, []string{"1 to 2"}) {
			t.Errorf("revision %d, told %q, %v", got.Revision, *heard, err)
		}
	})
	t.Run("another's sighting is the other's to tell", func(t *testing.T) {
		s := newStand(t)
		table, heard := s.heard()
		s.open(letterAt(5))
		if _, err := table.See(t.Context(), letterAt(5), true); err != nil || len(*heard) != 0 {
			t.Errorf("told %q, %v", *heard, err)
		}
	})
}
