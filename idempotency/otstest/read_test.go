package otstest

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
	"github.com/google/go-cmp/cmp"
)

func lowest() *tablestore.PrimaryKey {
	p := &tablestore.PrimaryKey{}
	p.AddPrimaryKeyColumnWithMinValue("k")
	return p
}

func highest() *tablestore.PrimaryKey {
	p := &tablestore.PrimaryKey{}
	p.AddPrimaryKeyColumnWithMaxValue("k")
	return p
}

// scan reads a range of "claims" page by page and returns its first key column.
func (s *stand) scan(c *tablestore.RangeRowQueryCriteria) (keys []string, pages int) {
	s.t.Helper()
	c.TableName = "claims"
	if c.MaxVersion == 0 {
		c.MaxVersion = 1
	}
	if c.StartPrimaryKey == nil {
		c.StartPrimaryKey, c.EndPrimaryKey = lowest(), highest()
	}
	for c.StartPrimaryKey != nil {
		r, err := s.client.GetRange(&tablestore.GetRangeRequest{RangeRowQueryCriteria: c})
		if err != nil {
			s.t.Fatal(err)
		}
		for _, row := range r.Rows {
			keys = append(keys, row.PrimaryKey.PrimaryKeys[0].Value.(string))
		}
		pages++
		c.StartPrimaryKey = r.NextStartPrimaryKey
	}
	return keys, pages
}

func TestGetRange(t *testing.T) {
	twice(t, func(t *testing.T, s *stand) {
		s.table("claims", 1)
		for _, i := range []int{3, 0, 4, 1, 2} {
			s.put("claims", fmt.Sprintf("key-%d", i), cols{"a": int64(i), "b": "x"})
		}
		all := []string{"key-0", "key-1", "key-2", "key-3", "key-4"}
		type criteria = tablestore.RangeRowQueryCriteria

		t.Run("forward rises from the lowest to the highest", func(t *testing.T) {
			if keys, pages := s.scan(&criteria{}); !cmp.Equal(keys, all) || pages != 1 {
				t.Fatal(keys, pages)
			}
		})
		t.Run("backward falls", func(t *testing.T) {
			want := slices.Clone(all)
			slices.Reverse(want)
			keys, pages := s.scan(&criteria{Direction: tablestore.BACKWARD, StartPrimaryKey: highest(), EndPrimaryKey: lowest(), Limit: 2})
			if !cmp.Equal(keys, want) || pages != 3 {
				t.Fatal(keys, pages)
			}
		})
		t.Run("the start is inside and the end is outside", func(t *testing.T) {
			if keys, _ := s.scan(&criteria{StartPrimaryKey: pk("key-1"), EndPrimaryKey: pk("key-3")}); !cmp.Equal(keys, all[1:3]) {
				t.Fatal(keys)
			}
			if keys, _ := s.scan(&criteria{Direction: tablestore.BACKWARD, StartPrimaryKey: pk("key-3"), EndPrimaryKey: pk("key-1")}); !cmp.Equal(keys, []string{"key-3", "key-2"}) {
				t.Fatal(keys)
			}
			if keys, _ := s.scan(&criteria{StartPrimaryKey: pk("key"), EndPrimaryKey: pk("key-0")}); len(keys) != 0 {
				t.Fatal(keys)
			}
			if keys, _ := s.scan(&criteria{Direction: tablestore.BACKWARD, StartPrimaryKey: pk("key-20"), EndPrimaryKey: pk("key-1")}); !cmp.Equal(keys, []string{"key-2"}) {
				t.Fatal(keys)
			}
		})
		t.Run("a full page names the next start, the last page does not", func(t *testing.T) {
			if keys, pages := s.scan(&criteria{Limit: 2}); !cmp.Equal(keys, all) || pages != 3 {
				t.Fatal(keys, pages)
			}
			if _, pages := s.scan(&criteria{Limit: 5}); pages != 1 {
				t.Fatal(pages)
			}
		})
		t.Run("columns to get bounds the columns and hides rows without them", func(t *testing.T) {
			u := updateChange("claims", "key-2", exist)
			u.DeleteColumn("b")
			s.must(u)
			keys, _ := s.scan(&criteria{ColumnsToGet: []string{"b"}})
			if !cmp.Equal(keys, []string{"key-0", "key-1", "key-3", "key-4"}) {
				t.Fatal(keys)
			}
			if keys, _ := s.scan(&criteria{ColumnsToGet: []string{"k", "b"}}); !cmp.Equal(keys, all) {
				t.Fatal(keys)
			}
			r, err := s.client.GetRange(&tablestore.GetRangeRequest{RangeRowQueryCriteria: &criteria{
				TableName: "claims", StartPrimaryKey: lowest(), EndPrimaryKey: highest(), MaxVersion: 1, Limit: 1, ColumnsToGet: []string{"b"},
			}})
			if err != nil || len(r.Rows[0].Columns) != 1 || r.Rows[0].Columns[0].ColumnName != "b" || r.ConsumedCapacityUnit.Read != 1 {
				t.Fatal(r, err)
			}
		})
		t.Run("what is no range is refused", func(t *testing.T) {
			for name, c := range map[string]*criteria{
				"Begin key must less than end key in FORWARD.":  {StartPrimaryKey: pk("b"), EndPrimaryKey: pk("a")},
				"Begin key must more than end key in BACKWARD.": {StartPrimaryKey: pk("a"), EndPrimaryKey: pk("a"), Direction: tablestore.BACKWARD},
				"The limit must be greater than 0.":             {StartPrimaryKey: lowest(), EndPrimaryKey: highest(), Limit: -1},
				"return_entire_primary_keys is not supported here.": {
					StartPrimaryKey: lowest(), EndPrimaryKey: highest(), ReturnSpecifiedPkOnly: true,
				},
			} {
				c.TableName, c.MaxVersion = "claims", 1
				_, err := s.client.GetRange(&tablestore.GetRangeRequest{RangeRowQueryCriteria: c})
				expect(t, err, 400, "OTSParameterInvalid", name)
			}
		})
	})
}

func TestRangeOverSeveralKeyColumns(t *testing.T) {
	s := newStand(t, Options{}, false)
	meta := &tablestore.TableMeta{TableName: "keys"}
	meta.AddPrimaryKeyColumn("k", tablestore.PrimaryKeyType_STRING)
	meta.AddPrimaryKeyColumn("n", tablestore.PrimaryKeyType_INTEGER)
	meta.AddPrimaryKeyColumn("b", tablestore.PrimaryKeyType_BINARY)
	_, err := s.client.CreateTable(&tablestore.CreateTableRequest{
		TableMeta: meta, TableOption: &tablestore.TableOption{TimeToAlive: -1, MaxVersion: 1}, ReservedThroughput: &tablestore.ReservedThroughput{},
	})
	if err != nil {
		t.Fatal(err)
	}
	ordered := [][]any{
		{"", int64(0), []byte{}},
		{"a", int64(math.MinInt64), []byte{0}},
		{"a", int64(-1), []byte{0, 0}},
		{"a", int64(1), []byte{0, 0xff}},
		{"a", int64(1), []byte{1}},
		{"a", int64(math.MaxInt64), []byte{}},
		{"a\x00", int64(0), []byte{}},
		{"a\x00b", int64(0), []byte{}},
		{"ab", int64(-5), []byte{0xff}},
	}
	for i := range ordered {
		row := ordered[(i*5)%len(ordered)] // a permutation, 5 and 9 being coprime
		c := &tablestore.PutRowChange{TableName: "keys", PrimaryKey: pk(row...)}
		c.SetCondition(absent)
		s.must(c)
	}
	var got [][]any
	for _, r := range s.Rows("keys") {
		got = append(got, []any{r.PrimaryKey[0].Value, r.PrimaryKey[1].Value, r.PrimaryKey[2].Value})
	}
	if d := cmp.Diff(ordered, got); d != "" {
		t.Fatal(d)
	}
	start, end := pk("a", int64(-1)), pk("a", int64(1))
	start.AddPrimaryKeyColumnWithMinValue("b")
	end.AddPrimaryKeyColumnWithMaxValue("b")
	r, err := s.client.GetRange(&tablestore.GetRangeRequest{RangeRowQueryCriteria: &tablestore.RangeRowQueryCriteria{
		TableName: "keys", StartPrimaryKey: start, EndPrimaryKey: end, MaxVersion: 1,
	}})
	if err != nil || len(r.Rows) != 3 {
		t.Fatal(r, err)
	}
}

func TestVersionsRead(t *testing.T) {
	twice(t, func(t *testing.T, s *stand) {
		s.table("history", 3)
		base := s.clock.now().UnixMilli()
		for i := range int64(5) {
			u := updateChange("history", "row", ignore)
			u.PutColumnWithTimestamp("a", i, base+i)
			u.PutColumnWithTimestamp("b", i, base+i)
			s.must(u)
		}
		read := func(c *tablestore.SingleRowQueryCriteria) (out []string) {
			t.Helper()
			c.TableName, c.PrimaryKey = "history", pk("row")
			r, err := s.client.GetRow(&tablestore.GetRowRequest{SingleRowQueryCriteria: c})
			if err != nil {
				t.Fatal(err)
			}
			for _, col := range r.Columns {
				out = append(out, fmt.Sprint(col.ColumnName, col.Value))
			}
			return out
		}
		from := "b"
		for name, tt := range map[string]struct {
			c    *tablestore.SingleRowQueryCriteria
			want []string
		}{
			"no more than the table keeps":      {&tablestore.SingleRowQueryCriteria{MaxVersion: 9}, []string{"a4", "a3", "a2", "b4", "b3", "b2"}},
			"no more than asked for":            {&tablestore.SingleRowQueryCriteria{MaxVersion: 1}, []string{"a4", "b4"}},
			"those of a time range":             {&tablestore.SingleRowQueryCriteria{TimeRange: &tablestore.TimeRange{Start: base + 2, End: base + 4}}, []string{"a3", "a2", "b3", "b2"}},
			"the newest of a time range":        {&tablestore.SingleRowQueryCriteria{MaxVersion: 1, TimeRange: &tablestore.TimeRange{Start: base, End: base + 4}}, []string{"a3", "b3"}},
			"the one of a time stamp":           {&tablestore.SingleRowQueryCriteria{TimeRange: &tablestore.TimeRange{Specific: base + 2}}, []string{"a2", "b2"}},
			"none that was dropped":             {&tablestore.SingleRowQueryCriteria{TimeRange: &tablestore.TimeRange{Specific: base + 1}}, nil},
			"the columns from the start column": {&tablestore.SingleRowQueryCriteria{MaxVersion: 1, StartColumn: &from}, []string{"b4"}},
			"the columns before the end column": {&tablestore.SingleRowQueryCriteria{MaxVersion: 1, EndColumn: &from}, []string{"a4"}},
		} {
			t.Run("a read returns "+name, func(t *testing.T) {
				if d := cmp.Diff(tt.want, read(tt.c)); d != "" {
					t.Fatal(d)
				}
			})
		}
	})
}

func TestTimeToLive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStand(t, Options{Now: time.Now}, false)
		if err := s.create("claims", 1, 86400, "k"); err != nil {
			t.Fatal(err)
		}
		s.put("claims", "row", cols{"claimed": "1"})
		time.Sleep(12 * time.Hour)
		u := updateChange("claims", "row", exist)
		u.PutColumn("settled", "1")
		s.must(u)
		time.Sleep(12*time.Hour - time.Millisecond)
		if got, _ := s.get("claims", "row"); len(got) != 2 {
			t.Fatalf("a cell expired early: %v", got)
		}
		time.Sleep(time.Millisecond)
		if got, ok := s.get("claims", "row"); !ok || !cmp.Equal(got, cols{"settled": "1"}) {
			t.Fatalf("cells do not expire one by one: %v", got)
		}
		if s.check("claims", "row", exact("claimed", "1")) {
			t.Fatal("a condition sees an expired cell")
		}
	})
}
