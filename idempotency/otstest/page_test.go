package otstest

import (
	"fmt"
	"testing"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
	"github.com/google/go-cmp/cmp"
)

func TestColumnPages(t *testing.T) {
	twice(t, func(t *testing.T, s *stand) {
		s.table("claims", 2)
		for i := range 2 {
			u := updateChange("claims", "row", ignore)
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				u.PutColumn(name, int64(i))
			}
			s.must(u)
		}
		read := func(p *tablestore.PaginationFilter, c *tablestore.SingleRowQueryCriteria) ([]string, error) {
			c.TableName, c.PrimaryKey = "claims", pk("row")
			c.SetFilter(p)
			r, err := s.client.GetRow(&tablestore.GetRowRequest{SingleRowQueryCriteria: c})
			if err != nil {
				return nil, err
			}
			if len(r.PrimaryKey.PrimaryKeys) != 1 {
				t.Fatal("a page without columns hides the row")
			}
			names := []string{}
			for _, col := range r.Columns {
				names = append(names, fmt.Sprint(col.ColumnName, col.Value))
			}
			return names, nil
		}
		type criteria = tablestore.SingleRowQueryCriteria
		for _, tt := range []struct {
			name string
			page *tablestore.PaginationFilter
			c    *criteria
			want []string
		}{
			{"the first columns", &tablestore.PaginationFilter{Limit: 2}, &criteria{MaxVersion: 1}, []string{"a1", "b1"}},
			{"the next columns", &tablestore.PaginationFilter{Offset: 2, Limit: 2}, &criteria{MaxVersion: 1}, []string{"c1", "d1"}},
			{"fewer at the end", &tablestore.PaginationFilter{Offset: 4, Limit: 2}, &criteria{MaxVersion: 1}, []string{"e1"}},
			{"none behind the end", &tablestore.PaginationFilter{Offset: 5, Limit: 2}, &criteria{MaxVersion: 1}, []string{}},
			{"columns and not versions", &tablestore.PaginationFilter{Offset: 1, Limit: 1}, &criteria{MaxVersion: 2}, []string{"b1", "b0"}},
			{"of the columns asked for", &tablestore.PaginationFilter{Offset: 1, Limit: 1}, &criteria{MaxVersion: 1, ColumnsToGet: []string{"b", "e"}}, []string{"e1"}},
		} {
			t.Run("a page shows "+tt.name, func(t *testing.T) {
				got, err := read(tt.page, tt.c)
				if err != nil {
					t.Fatal(err)
				}
				if d := cmp.Diff(tt.want, got); d != "" {
					t.Fatal(d)
				}
			})
		}
		t.Run("what is no page is refused", func(t *testing.T) {
			_, err := read(&tablestore.PaginationFilter{Limit: 0}, &criteria{MaxVersion: 1})
			expect(t, err, 400, "OTSParameterInvalid", "Limit in ColumnPaginationFilter must be greater than 0.")
			_, err = read(&tablestore.PaginationFilter{Offset: -1, Limit: 1}, &criteria{MaxVersion: 1})
			expect(t, err, 400, "OTSParameterInvalid", "Offset in ColumnPaginationFilter must be greater than or equal to 0.")
		})
		t.Run("a page is no condition of a write", func(t *testing.T) {
			c := putChange("claims", "row", ignore, nil)
			c.SetColumnCondition(&tablestore.PaginationFilter{Limit: 1})
			if err := s.do(c); code(err) != "OTSParameterInvalid" {
				t.Fatal(err)
			}
		})
	})
}

func TestMaxVersionsLoweredAndRaised(t *testing.T) {
	twice(t, func(t *testing.T, s *stand) {
		s.table("history", 3)
		for _, v := range []string{"1", "2", "3"} {
			u := updateChange("history", "row", ignore)
			u.PutColumn("a", v)
			s.must(u)
		}
		keep := func(n int) {
			t.Helper()
			_, err := s.client.UpdateTable(&tablestore.UpdateTableRequest{
				TableName: "history", TableOption: &tablestore.TableOption{TimeToAlive: -1, MaxVersion: n},
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		keep(2)
		if got := s.versions("history", "row", "a", 9); !cmp.Equal(got, []any{"3", "2"}) {
			t.Fatalf("after lowering a read shows %v", got)
		}
		oldest := tablestore.NewSingleColumnCondition("a", tablestore.CT_EQUAL, "1")
		oldest.FilterIfMissing = true
		if s.check("history", "row", oldest) {
			t.Fatal("a condition sees a version that no read shows")
		}
		u := updateChange("history", "row", exist)
		u.PutColumn("a", "4")
		s.must(u)
		keep(9)
		if got := s.versions("history", "row", "a", 9); !cmp.Equal(got, []any{"4", "3"}) {
			t.Fatalf("a write under the lower maximum kept %v", got)
		}
	})
}
