package otstest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
	"github.com/google/go-cmp/cmp"
)

func TestRowExistence(t *testing.T) {
	const fails = "OTSConditionCheckFail"
	names := map[tablestore.RowExistenceExpectation]string{ignore: "IGNORE", exist: "EXPECT_EXIST", absent: "EXPECT_NOT_EXIST"}
	tests := []struct {
		op      string
		expect  tablestore.RowExistenceExpectation
		present bool
		want    string // code
		after   bool   // the row is there afterwards
	}{
		{"PutRow", ignore, true, "", true},
		{"PutRow", exist, true, "", true},
		{"PutRow", absent, true, fails, true},
		{"PutRow", ignore, false, "", true},
		{"PutRow", exist, false, fails, false},
		{"PutRow", absent, false, "", true},
		{"UpdateRow", ignore, true, "", true},
		{"UpdateRow", exist, true, "", true},
		{"UpdateRow", absent, true, fails, true},
		{"UpdateRow", ignore, false, "", true},
		{"UpdateRow", exist, false, fails, false},
		{"UpdateRow", absent, false, "", true},
		{"DeleteRow", ignore, true, "", false},
		{"DeleteRow", exist, true, "", false},
		{"DeleteRow", absent, true, fails, true},
		{"DeleteRow", ignore, false, "", false},
		{"DeleteRow", exist, false, fails, false},
		{"DeleteRow", absent, false, "", false},
	}
	twice(t, func(t *testing.T, s *stand) {
		s.table("claims", 1)
		for i, tt := range tests {
			t.Run(fmt.Sprintf("%s with %s where the row is there=%t", tt.op, names[tt.expect], tt.present), func(t *testing.T) {
				key := fmt.Sprintf("key-%d", i)
				if tt.present {
					s.put("claims", key, cols{"a": "old"})
				}
				var change any
				switch tt.op {
				case "PutRow":
					change = putChange("claims", key, tt.expect, cols{"a": "new"})
				case "UpdateRow":
					u := updateChange("claims", key, tt.expect)
					u.PutColumn("a", "new")
					change = u
				default:
					change = deleteChange("claims", key, tt.expect)
				}
				err := s.do(change)
				if tt.want == "" && err != nil {
					t.Fatal(err)
				}
				if tt.want != "" {
					expect(t, err, 403, tt.want, "Condition check failed.")
				}
				got, ok := s.get("claims", key)
				if ok != tt.after {
					t.Fatalf("row is there: %t, want %t", ok, tt.after)
				}
				want := cols{}
				switch {
				case ok && tt.want != "":
					want["a"] = "old"
				case ok:
					want["a"] = "new"
				}
				if d := cmp.Diff(want, got); d != "" {
					t.Fatal(d)
				}
			})
		}
	})
}

func TestWrites(t *testing.T) {
	twice(t, func(t *testing.T, s *stand) {
		s.table("claims", 1)
		s.table("history", 3)

		t.Run("every type of value comes back as it went", func(t *testing.T) {
			want := cols{"s": "text é", "i": int64(-7), "f": 2.5, "yes": true, "no": false, "b": []byte{0, 255}, "empty": "", "none": []byte{}}
			s.put("claims", "types", want)
			got, _ := s.get("claims", "types")
			if d := cmp.Diff(want, got); d != "" {
				t.Fatal(d)
			}
		})
		t.Run("a put replaces the whole row", func(t *testing.T) {
			s.put("claims", "replaced", cols{"a": "1", "b": "2"})
			s.put("claims", "replaced", cols{"b": "3"})
			if got, _ := s.get("claims", "replaced"); !cmp.Equal(got, cols{"b": "3"}) {
				t.Fatal(got)
			}
		})
		t.Run("a put takes the history away", func(t *testing.T) {
			s.put("history", "replaced", cols{"a": "1"})
			s.put("history", "replaced", cols{"a": "2"})
			if got := s.versions("history", "replaced", "a", 9); !cmp.Equal(got, []any{"2"}) {
				t.Fatal(got)
			}
		})
		t.Run("an update touches the named columns only", func(t *testing.T) {
			s.put("claims", "touched", cols{"a": "1", "b": "2", "c": "3"})
			u := updateChange("claims", "touched", exist)
			u.PutColumn("b", "new")
			u.DeleteColumn("c")
			s.must(u)
			if got, _ := s.get("claims", "touched"); !cmp.Equal(got, cols{"a": "1", "b": "new"}) {
				t.Fatal(got)
			}
		})
		t.Run("a row whose columns are all deleted still exists", func(t *testing.T) {
			s.put("claims", "bare", cols{"a": "1"})
			u := updateChange("claims", "bare", exist)
			u.DeleteColumn("a")
			s.must(u)
			if got, ok := s.get("claims", "bare"); !ok || len(got) != 0 {
				t.Fatal(got, ok)
			}
			if err := s.do(putChange("claims", "bare", absent, cols{"a": "2"})); code(err) != "OTSConditionCheckFail" {
				t.Fatal(err)
			}
		})
		t.Run("one version of a column can be deleted", func(t *testing.T) {
			base := s.clock.now().UnixMilli()
			u := updateChange("history", "versions", ignore)
			u.PutColumnWithTimestamp("a", "one", base)
			u.PutColumnWithTimestamp("a", "two", base+1)
			u.PutColumnWithTimestamp("a", "three", base+2)
			s.must(u)
			u = updateChange("history", "versions", exist)
			u.DeleteColumnWithTimestamp("a", base+1)
			s.must(u)
			if got := s.versions("history", "versions", "a", 9); !cmp.Equal(got, []any{"three", "one"}) {
				t.Fatal(got)
			}
		})
		t.Run("an increment starts at nothing and returns the sum", func(t *testing.T) {
			var got []any
			for _, n := range []int64{5, -2} {
				u := updateChange("claims", "counter", ignore)
				u.IncrementColumn("n", n)
				u.SetReturnIncrementValue()
				u.AppendIncrementColumnToReturn("n")
				r, err := s.client.UpdateRow(&tablestore.UpdateRowRequest{UpdateRowChange: u})
				if err != nil {
					t.Fatal(err)
				}
				for _, c := range r.Columns {
					got = append(got, c.Value)
				}
			}
			if !cmp.Equal(got, []any{int64(5), int64(3)}) {
				t.Fatal(got)
			}
		})
		t.Run("an increment refuses a column that is no integer", func(t *testing.T) {
			s.put("claims", "words", cols{"n": "five"})
			u := updateChange("claims", "words", exist)
			u.IncrementColumn("n", 1)
			if err := s.do(u); code(err) != "OTSParameterInvalid" {
				t.Fatal(err)
			}
		})
		t.Run("a put returns the primary key when it is asked for", func(t *testing.T) {
			c := putChange("claims", "returned", ignore, cols{"a": "1"})
			c.SetReturnPk()
			r, err := s.client.PutRow(&tablestore.PutRowRequest{PutRowChange: c})
			if err != nil || len(r.PrimaryKey.PrimaryKeys) != 1 || r.PrimaryKey.PrimaryKeys[0].Value != "returned" {
				t.Fatal(r, err)
			}
		})
		t.Run("consumed capacity follows the size of the row", func(t *testing.T) {
			big := make([]byte, 9000)
			r, err := s.client.PutRow(&tablestore.PutRowRequest{PutRowChange: putChange("claims", "big", absent, cols{"a": big})})
			if err != nil || *r.ConsumedCapacityUnit != (tablestore.ConsumedCapacityUnit{Read: 1, Write: 3}) {
				t.Fatal(r.ConsumedCapacityUnit, err)
			}
			r, err = s.client.PutRow(&tablestore.PutRowRequest{PutRowChange: putChange("claims", "big", ignore, cols{"a": big[:4000]})})
			if err != nil || *r.ConsumedCapacityUnit != (tablestore.ConsumedCapacityUnit{Write: 1}) {
				t.Fatal(r.ConsumedCapacityUnit, err)
			}
			g, err := s.client.GetRow(&tablestore.GetRowRequest{SingleRowQueryCriteria: &tablestore.SingleRowQueryCriteria{
				TableName: "claims", PrimaryKey: pk("no such row"), MaxVersion: 1,
			}})
			if err != nil || *g.ConsumedCapacityUnit != (tablestore.ConsumedCapacityUnit{Read: 1}) || g.RequestId == "" {
				t.Fatal(g, err)
			}
		})
	})
}

func TestConcurrentClaims(t *testing.T) {
	twice(t, func(t *testing.T, s *stand) {
		s.table("claims", 1)
		const workers, keys = 8, 20
		var mu sync.Mutex
		won := map[string]int{}
		var wg sync.WaitGroup
		for range workers {
			client := s.dial(0)
			wg.Go(func() {
				for i := range keys {
					key := fmt.Sprintf("key-%d", i)
					_, err := client.PutRow(&tablestore.PutRowRequest{PutRowChange: putChange("claims", key, absent, cols{"a": "1"})})
					mu.Lock()
					switch code(err) {
					case "":
						won[key]++
					case "OTSConditionCheckFail":
					default:
						t.Error(err)
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		for key, n := range won {
			if n != 1 {
				t.Errorf("%s was claimed %d times", key, n)
			}
		}
		if len(won) != keys || len(s.Rows("claims")) != keys {
			t.Fatalf("%d keys were claimed, want %d", len(won), keys)
		}
	})
}

// versions reads the newest versions of one column.
func (s *stand) versions(table, key, column string, n int32) []any {
	s.t.Helper()
	r, err := s.client.GetRow(&tablestore.GetRowRequest{SingleRowQueryCriteria: &tablestore.SingleRowQueryCriteria{
		TableName: table, PrimaryKey: pk(key), MaxVersion: n, ColumnsToGet: []string{column},
	}})
	if err != nil {
		s.t.Fatal(err)
	}
	var out []any
	for _, c := range r.Columns {
		out = append(out, c.Value)
	}
	return out
}
