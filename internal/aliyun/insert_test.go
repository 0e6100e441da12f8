package aliyun

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestARowThatIsWrittenOnceIsToldFromWhatIsThereAlready(t *testing.T) {
	mine := Row{"revision": int64(1), "by": "me", "raw": []byte{1, 0}, "yes": true}
	lost := cloudtest.Fault{Op: "PutRow", Phase: cloudtest.After, Kind: cloudtest.Drop}
	never := cloudtest.Fault{Op: "PutRow", Kind: cloudtest.Drop}
	status := func(op string, status int, code string) cloudtest.Fault {
		return cloudtest.Fault{Op: op, Kind: cloudtest.Status, Status: status, Code: code}
	}
	for _, c := range []struct {
		name   string
		before Row // nil for none
		faults []cloudtest.Fault
		found  Row
		kind   Kind // of the error, "" for none
		reads  int
	}{
		{"nothing was there", nil, nil, nil, "", 0},
		{"its answer was lost", nil, []cloudtest.Fault{lost}, nil, "", 1},
		{"half of its answer was lost", nil, []cloudtest.Fault{{Op: "PutRow", Phase: cloudtest.After, Kind: cloudtest.Truncate}}, nil, "", 1},
		{"it never arrived", nil, []cloudtest.Fault{never}, nil, KindUnknown, 1},
		{"another was first", Row{"revision": int64(3), "by": "amy"}, nil, Row{"revision": int64(3), "by": "amy"}, "", 1},
		{"it never arrived, and another was first", Row{"revision": int64(3), "by": "amy"}, []cloudtest.Fault{never}, Row{"revision": int64(3), "by": "amy"}, "", 1},
		{"an earlier call of the same row", mine, nil, mine, "", 1},
		{
			"a column more than the same row",
			Row{"revision": int64(1), "by": "me", "raw": []byte{1, 0}, "yes": true, "more": "x"},
			[]cloudtest.Fault{never},
			Row{"revision": int64(1), "by": "me", "raw": []byte{1, 0}, "yes": true, "more": "x"},
			"", 1,
		},
		{
			"other bytes than the same row",
			Row{"revision": int64(1), "by": "me", "raw": []byte{1}, "yes": true},
			[]cloudtest.Fault{never},
			Row{"revision": int64(1), "by": "me", "raw": []byte{1}, "yes": true},
			"", 1,
		},
		{"it may not be written", nil, []cloudtest.Fault{status("PutRow", 403, "OTSNoPermissionAccess")}, nil, KindDenied, 0},
		{"it is one too many", nil, []cloudtest.Fault{status("PutRow", 403, "OTSNotEnoughCapacityUnit")}, nil, KindThrottled, 0},
		{"it is refused", nil, []cloudtest.Fault{status("PutRow", 400, "OTSParameterInvalid")}, nil, KindInvalid, 0},
		{"what is there may not be read", mine, []cloudtest.Fault{status("GetRow", 403, "OTSNoPermissionAccess")}, nil, KindDenied, 1},
		{"its answer was lost, and the next one too", nil, []cloudtest.Fault{lost, {Op: "GetRow", Phase: cloudtest.After, Kind: cloudtest.Drop}}, nil, KindUnknown, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newOTS(t, Options{})
			if c.before != nil {
				s.must(t, s.store.Insert(t.Context(), tasks, "k", c.before))
			}
			s.srv.Faults.ResetCalls()
			s.srv.Faults.Add(c.faults...)
			found, err := s.store.InsertOnce(t.Context(), tasks, "k", mine)
			if diff := cmp.Diff(c.found, found); diff != "" || (err == nil) != (c.kind == "") || err != nil && KindOf(err) != c.kind {
				t.Errorf("%v\n%s", err, diff)
			}
			if calls := s.srv.Faults.Calls(); calls["PutRow"] != 1 || calls["GetRow"] != c.reads {
				t.Errorf("it took %v", calls)
			}
			if err != nil || found != nil {
				return
			}
			if row, ok, err := s.store.Get(t.Context(), tasks, "k"); err != nil || !ok || !cmp.Equal(row, mine) {
				t.Errorf("the row is %v, %v", row, err)
			}
		})
	}
}
