package otstest

import (
	"fmt"
	"testing"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"
	"github.com/golang/protobuf/proto"
	"github.com/google/go-cmp/cmp"
)

func single(column string, c tablestore.ComparatorType, v any) *tablestore.SingleColumnCondition {
	return tablestore.NewSingleColumnCondition(column, c, v)
}

// exact is a condition as a compare-and-set needs it.
func exact(column string, v any) *tablestore.SingleColumnCondition {
	c := single(column, tablestore.CT_EQUAL, v)
	c.FilterIfMissing, c.LatestVersionOnly = true, true
	return c
}

func composite(lo tablestore.LogicalOperator, subs ...tablestore.ColumnFilter) tablestore.ColumnFilter {
	return &tablestore.CompositeColumnValueFilter{Operator: lo, Filters: subs}
}

// check updates a row under a condition and says whether that held.
func (s *stand) check(table, key string, c tablestore.ColumnFilter) bool {
	s.t.Helper()
	u := updateChange(table, key, ignore)
	u.PutColumn("touched", "yes")
	u.SetColumnCondition(c)
	err := s.do(u)
	if code(err) == "OTSConditionCheckFail" {
		return false
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return true
}

func TestColumnConditions(t *testing.T) {
	twice(t, func(t *testing.T, s *stand) {
		s.table("claims", 1)
		s.table("history", 3)
		s.put("claims", "row", cols{"i": int64(5), "s": "m", "f": 1.5, "yes": true, "b": []byte{1}})

		t.Run("every comparator compares", func(t *testing.T) {
			below, same, above := [3]bool{true, false, false}, [3]bool{false, true, false}, [3]bool{false, false, true}
			or := func(a, b [3]bool) (r [3]bool) {
				for i := range r {
					r[i] = a[i] || b[i]
				}
				return r
			}
			for c, want := range map[tablestore.ComparatorType][3]bool{ // stored against 6, 5 and 4
				tablestore.CT_EQUAL:         same,
				tablestore.CT_NOT_EQUAL:     or(below, above),
				tablestore.CT_LESS_THAN:     below,
				tablestore.CT_LESS_EQUAL:    or(below, same),
				tablestore.CT_GREATER_THAN:  above,
				tablestore.CT_GREATER_EQUAL: or(above, same),
			} {
				got := [3]bool{s.check("claims", "row", single("i", c, int64(6))), s.check("claims", "row", single("i", c, int64(5))), s.check("claims", "row", single("i", c, int64(4)))}
				if got != want {
					t.Errorf("comparator %d: got %v, want %v", c, got, want)
				}
			}
		})
		t.Run("every type of value compares", func(t *testing.T) {
			for column, pair := range map[string][2]any{
				"s": {"m", "n"}, "f": {1.5, 1.25}, "yes": {true, false}, "b": {[]byte{1}, []byte{1, 0}}, "k": {"row", "other"},
			} {
				if !s.check("claims", "row", exact(column, pair[0])) || s.check("claims", "row", exact(column, pair[1])) {
					t.Errorf("column %s does not compare", column)
				}
			}
		})
		t.Run("a value of another type is unequal and not ordered", func(t *testing.T) {
			for c, want := range map[tablestore.ComparatorType]bool{tablestore.CT_EQUAL: false, tablestore.CT_NOT_EQUAL: true, tablestore.CT_LESS_THAN: false, tablestore.CT_GREATER_EQUAL: false} {
				if got := s.check("claims", "row", single("i", c, "5")); got != want {
					t.Errorf("comparator %d: got %t", c, got)
				}
			}
		})
		t.Run("a missing column passes by default", func(t *testing.T) {
			if !s.check("claims", "row", single("none", tablestore.CT_EQUAL, "x")) {
				t.Fatal("it failed")
			}
			if !s.check("claims", "created by it", single("none", tablestore.CT_EQUAL, "x")) {
				t.Fatal("it failed on an absent row")
			}
			if _, ok := s.get("claims", "created by it"); !ok {
				t.Fatal("the update did not create the row")
			}
		})
		t.Run("a missing column fails where it must be there", func(t *testing.T) {
			if s.check("claims", "row", exact("none", "x")) || s.check("claims", "never created", exact("none", "x")) {
				t.Fatal("it passed")
			}
			if _, ok := s.get("claims", "never created"); ok {
				t.Fatal("a failed condition created a row")
			}
		})
		t.Run("an old version passes by default", func(t *testing.T) {
			for _, owner := range []string{"first", "second"} {
				u := updateChange("history", "row", ignore)
				u.PutColumn("owner", owner)
				s.must(u)
			}
			trap := single("owner", tablestore.CT_EQUAL, "first")
			trap.FilterIfMissing = true
			if !s.check("history", "row", trap) {
				t.Fatal("it failed")
			}
			if s.check("history", "row", exact("owner", "first")) {
				t.Fatal("it passed where only the newest version counts")
			}
		})
		t.Run("a compare-and-set lets one through", func(t *testing.T) {
			s.put("claims", "lease", cols{"owner": "a", "fence": int64(1)})
			take := func(from, to string) error {
				u := updateChange("claims", "lease", exist)
				u.PutColumn("owner", to)
				u.SetColumnCondition(exact("owner", from))
				return s.do(u)
			}
			if err := take("a", "b"); err != nil {
				t.Fatal(err)
			}
			expect(t, take("a", "c"), 403, "OTSConditionCheckFail", "Condition check failed.")
			if got, _ := s.get("claims", "lease"); !cmp.Equal(got, cols{"owner": "b", "fence": int64(1)}) {
				t.Fatal(got)
			}
		})
		t.Run("conditions guard puts and deletes", func(t *testing.T) {
			s.put("claims", "guarded", cols{"owner": "a"})
			p := putChange("claims", "guarded", exist, cols{"owner": "b"})
			p.SetColumnCondition(exact("owner", "x"))
			d := deleteChange("claims", "guarded", exist)
			d.SetColumnCondition(exact("owner", "x"))
			for _, change := range []any{p, d} {
				if err := s.do(change); code(err) != "OTSConditionCheckFail" {
					t.Errorf("%T: %v", change, err)
				}
			}
			d.SetColumnCondition(exact("owner", "a"))
			s.must(d)
		})
		t.Run("and, or and not combine", func(t *testing.T) {
			yes, no := exact("i", int64(5)), exact("i", int64(6))
			for _, tt := range []struct {
				c    tablestore.ColumnFilter
				want bool
			}{
				{composite(tablestore.LO_AND, yes, yes), true},
				{composite(tablestore.LO_AND, yes, no), false},
				{composite(tablestore.LO_OR, no, yes), true},
				{composite(tablestore.LO_OR, no, no), false},
				{composite(tablestore.LO_NOT, no), true},
				{composite(tablestore.LO_NOT, yes), false},
				{composite(tablestore.LO_AND, yes, composite(tablestore.LO_NOT, composite(tablestore.LO_OR, no, no))), true},
			} {
				if got := s.check("claims", "row", tt.c); got != tt.want {
					t.Errorf("%v: got %t", tt.c, got)
				}
			}
		})
		t.Run("what is no condition is refused", func(t *testing.T) {
			yes := exact("i", int64(5))
			var many []tablestore.ColumnFilter
			for range maxConditions + 1 {
				many = append(many, yes)
			}
			for name, c := range map[string]tablestore.ColumnFilter{
				"a not of two":      composite(tablestore.LO_NOT, yes, yes),
				"an and of one":     composite(tablestore.LO_AND, yes),
				"pagination":        &tablestore.PaginationFilter{Offset: 0, Limit: 1},
				"too many":          composite(tablestore.LO_OR, many...),
				"a bad column name": exact("no-name", "x"),
				"a transfer rule":   tablestore.NewSingleColumnValueRegexFilter("s", tablestore.CT_EQUAL, tablestore.NewValueTransferRule("x", tablestore.Variant_STRING), "x"),
			} {
				u := updateChange("claims", "row", ignore)
				u.PutColumn("a", "1")
				u.SetColumnCondition(c)
				if err := s.do(u); code(err) != "OTSParameterInvalid" {
					t.Errorf("%s: %v", name, err)
				}
			}
			err := s.send("PutRow", &otsprotocol.PutRowRequest{
				TableName: proto.String("claims"), Row: encodeRows(wireRow{pk: []cell{{name: "k", val: value{kind: kindString, str: "x"}, hasValue: true}}}),
				Condition: &otsprotocol.Condition{RowExistence: ignoreExpectation(), ColumnCondition: []byte{0xff}},
			})
			expect(t, err, 400, "OTSParameterInvalid", "Deserialize filter failed.")
		})
	})
}

func ignoreExpectation() *otsprotocol.RowExistenceExpectation {
	return otsprotocol.RowExistenceExpectation_IGNORE.Enum()
}

func TestFilters(t *testing.T) {
	twice(t, func(t *testing.T, s *stand) {
		s.table("claims", 1)
		for i := range 6 {
			s.put("claims", fmt.Sprintf("key-%d", i), cols{"i": int64(i), "odd": i%2 == 1})
		}
		t.Run("a range shows the rows that match", func(t *testing.T) {
			keys, _ := s.scan(&tablestore.RangeRowQueryCriteria{Filter: exact("odd", true)})
			if !cmp.Equal(keys, []string{"key-1", "key-3", "key-5"}) {
				t.Fatal(keys)
			}
		})
		t.Run("a page of rows that do not match is empty and goes on", func(t *testing.T) {
			keys, pages := s.scan(&tablestore.RangeRowQueryCriteria{Filter: exact("i", int64(5)), Limit: 2})
			if !cmp.Equal(keys, []string{"key-5"}) || pages != 3 {
				t.Fatal(keys, pages)
			}
		})
		t.Run("a row that does not match reads as absent", func(t *testing.T) {
			for want, filter := range map[int]tablestore.ColumnFilter{1: exact("i", int64(3)), 0: exact("i", int64(4))} {
				r, err := s.client.GetRow(&tablestore.GetRowRequest{SingleRowQueryCriteria: &tablestore.SingleRowQueryCriteria{
					TableName: "claims", PrimaryKey: pk("key-3"), MaxVersion: 1, Filter: filter,
				}})
				if err != nil || len(r.PrimaryKey.PrimaryKeys) != want {
					t.Error(r, err)
				}
			}
		})
		t.Run("a filter sees only the columns that are read", func(t *testing.T) {
			keys, _ := s.scan(&tablestore.RangeRowQueryCriteria{Filter: exact("odd", true), ColumnsToGet: []string{"i"}})
			if len(keys) != 0 {
				t.Fatal(keys)
			}
		})
	})
}
