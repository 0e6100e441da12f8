package otstest

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
	"github.com/google/go-cmp/cmp"
)

// counted creates a table whose key is k, text, and n, auto-increment.
func (s *stand) counted(name string) {
	s.t.Helper()
	meta := &tablestore.TableMeta{TableName: name}
	meta.AddPrimaryKeyColumn("k", tablestore.PrimaryKeyType_STRING)
	meta.AddPrimaryKeyColumnOption("n", tablestore.PrimaryKeyType_INTEGER, tablestore.AUTO_INCREMENT)
	_, err := s.client.CreateTable(&tablestore.CreateTableRequest{
		TableMeta: meta, TableOption: &tablestore.TableOption{TimeToAlive: -1, MaxVersion: 1}, ReservedThroughput: &tablestore.ReservedThroughput{},
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// next is the key of a row that is to get a number.
func next(k string) *tablestore.PrimaryKey {
	p := pk(k)
	p.AddPrimaryKeyColumnWithAutoIncrement("n")
	return p
}

// number puts a row and returns the number that it got.
func (s *stand) number(table, k string) int64 {
	s.t.Helper()
	c := &tablestore.PutRowChange{TableName: table, PrimaryKey: next(k)}
	c.AddColumn("a", k)
	c.SetCondition(ignore)
	c.SetReturnPk()
	r, err := s.client.PutRow(&tablestore.PutRowRequest{PutRowChange: c})
	if err != nil {
		s.t.Fatal(err)
	}
	return r.PrimaryKey.PrimaryKeys[1].Value.(int64)
}

func TestAutoIncrement(t *testing.T) {
	twice(t, func(t *testing.T, s *stand) {
		s.counted("log")
		t.Run("the schema shows it", func(t *testing.T) {
			d, err := s.client.DescribeTable(&tablestore.DescribeTableRequest{TableName: "log"})
			if err != nil {
				t.Fatal(err)
			}
			if keys := d.TableMeta.SchemaEntry; keys[0].Option != nil || *keys[1].Option != tablestore.AUTO_INCREMENT {
				t.Fatal(keys)
			}
		})
		var got []int64
		t.Run("numbers are unique, rise and outlive their rows", func(t *testing.T) {
			for _, k := range []string{"a", "a", "b", "a", "b"} {
				got = append(got, s.number("log", k))
			}
			if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != 5 || got[0] <= 0 {
				t.Fatal(got)
			}
			last := got[4]
			c := &tablestore.DeleteRowChange{TableName: "log", PrimaryKey: pk("b", last)}
			c.SetCondition(exist)
			s.must(c)
			if n := s.number("log", "b"); n <= last {
				t.Fatalf("%d was given out again after %d", n, last)
			}
		})
		t.Run("a row is read by the number that came back", func(t *testing.T) {
			r, err := s.client.GetRow(&tablestore.GetRowRequest{SingleRowQueryCriteria: &tablestore.SingleRowQueryCriteria{
				TableName: "log", PrimaryKey: pk("a", got[1]), MaxVersion: 1,
			}})
			if err != nil || len(r.Columns) != 1 || r.Columns[0].Value != "a" {
				t.Fatal(r, err)
			}
		})
		t.Run("an update makes a row as well", func(t *testing.T) {
			before := len(s.Rows("log"))
			u := &tablestore.UpdateRowChange{TableName: "log", PrimaryKey: next("a")}
			u.PutColumn("a", "1")
			u.SetCondition(ignore)
			s.must(u)
			if n := len(s.Rows("log")); n != before+1 {
				t.Fatal(n)
			}
		})
		t.Run("a row that is there is updated where the update expects it", func(t *testing.T) {
			for expectation, want := range map[tablestore.RowExistenceExpectation]string{
				exist: "", ignore: "OTSConditionCheckFail", absent: "OTSParameterInvalid",
			} {
				u := &tablestore.UpdateRowChange{TableName: "log", PrimaryKey: pk("a", got[0])}
				u.PutColumn("a", "new")
				u.SetCondition(expectation)
				if err := s.do(u); code(err) != want {
					t.Errorf("%d: %v", expectation, err)
				}
			}
		})
		t.Run("a caller cannot choose the number of a new row", func(t *testing.T) {
			c := &tablestore.PutRowChange{TableName: "log", PrimaryKey: pk("a", int64(7))}
			c.SetCondition(ignore)
			expect(t, s.do(c), 403, "OTSConditionCheckFail", "Condition check failed.")
			c.SetCondition(absent)
			expect(t, s.do(c), 400, "OTSParameterInvalid", "Invalid expect: EXPECT_NOT_EXIST when modify a specific row for table with pk auto increment")
		})
		t.Run("a row without a number can be neither expected, nor compared, nor deleted", func(t *testing.T) {
			c := &tablestore.PutRowChange{TableName: "log", PrimaryKey: next("a")}
			c.SetCondition(absent)
			expect(t, s.do(c), 400, "OTSParameterInvalid", "Invalid expect:EXPECT_NOT_EXIST when modify row with pk auto increment")
			c.SetCondition(ignore)
			c.SetColumnCondition(exact("a", "1"))
			expect(t, s.do(c), 400, "OTSParameterInvalid", "Can't set condition when modify row with pk auto increment")
			d := &tablestore.DeleteRowChange{TableName: "log", PrimaryKey: next("a")}
			d.SetCondition(ignore)
			expect(t, s.do(d), 400, "OTSParameterInvalid", "Invalid row to delete which with pk auto increment")
			_, err := s.client.GetRow(&tablestore.GetRowRequest{SingleRowQueryCriteria: &tablestore.SingleRowQueryCriteria{
				TableName: "log", PrimaryKey: next("a"), MaxVersion: 1,
			}})
			expect(t, err, 400, "OTSParameterInvalid", "PKAutoIncr can't be used for read operations.")
			if err := s.create("pairs", 1, -1, "k", "n"); err != nil {
				t.Fatal(err)
			}
			expect(t, s.do(putAs("pairs", next("a"))), 400, "OTSInvalidPK", "Validate PK type fail. Input: VT_AUTO_INCREMENT, Meta: VT_STRING.")
			s.table("plain", 1)
			expect(t, s.do(putAs("plain", next("a"))), 400, "OTSInvalidPK", "Validate PK size fail. Input: 2, Meta: 1.")
		})
		t.Run("a batch numbers each of its rows", func(t *testing.T) {
			req := &tablestore.BatchWriteRowRequest{}
			for range 3 {
				c := putAs("log", next("batch"))
				c.SetReturnPk()
				req.AddRowChange(c)
			}
			req.AddRowChange(putAs("log", pk("batch", int64(7))))
			r, err := s.client.BatchWriteRow(req)
			if err != nil {
				t.Fatal(err)
			}
			var numbers []int64
			for _, row := range r.TableToRowsResult["log"][:3] {
				numbers = append(numbers, row.PrimaryKey.PrimaryKeys[1].Value.(int64))
			}
			if !slices.IsSorted(numbers) || len(slices.Compact(numbers)) != 3 {
				t.Fatal(numbers)
			}
			if last := r.TableToRowsResult["log"][3]; last.IsSucceed || last.Error.Code != "OTSConditionCheckFail" {
				t.Fatal(last)
			}
		})
	})
}

func TestAutoIncrementSchemas(t *testing.T) {
	s := newStand(t, Options{}, false)
	const auto, integer, text = tablestore.AUTO_INCREMENT, tablestore.PrimaryKeyType_INTEGER, tablestore.PrimaryKeyType_STRING
	for want, add := range map[string]func(*tablestore.TableMeta){
		"First primary key can't be auto increment, table: `bad`.": func(m *tablestore.TableMeta) {
			m.AddPrimaryKeyColumnOption("k", integer, auto)
		},
		"AUTO_INCREMENT primary key must be integer.": func(m *tablestore.TableMeta) {
			m.AddPrimaryKeyColumn("k", text)
			m.AddPrimaryKeyColumnOption("n", text, auto)
		},
		"AUTO_INCREMENT primary key count must <= 1.": func(m *tablestore.TableMeta) {
			m.AddPrimaryKeyColumn("k", text)
			m.AddPrimaryKeyColumnOption("n", integer, auto)
			m.AddPrimaryKeyColumnOption("b", integer, auto)
		},
		"Invalid option of primary key: `9`.": func(m *tablestore.TableMeta) {
			m.AddPrimaryKeyColumn("k", text)
			m.AddPrimaryKeyColumnOption("n", integer, tablestore.PrimaryKeyOption(9))
		},
	} {
		meta := &tablestore.TableMeta{TableName: "bad"}
		add(meta)
		_, err := s.client.CreateTable(&tablestore.CreateTableRequest{
			TableMeta: meta, TableOption: &tablestore.TableOption{TimeToAlive: -1, MaxVersion: 1}, ReservedThroughput: &tablestore.ReservedThroughput{},
		})
		expect(t, err, 400, "OTSParameterInvalid", want)
	}
	two := pk("a")
	two.AddPrimaryKeyColumnWithAutoIncrement("n")
	two.AddPrimaryKeyColumnWithAutoIncrement("b")
	expect(t, s.do(putAs("bad", two)), 400, "OTSParameterInvalid", "`2` pk auto increment exist in row.")
}

func TestAutoIncrementSurvivesARestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s := newStand(t, Options{Dir: dir, Now: time.Now}, false)
		s.counted("log")
		var given []int64
		for range 3 {
			given = append(given, s.number("log", "a"))
		}
		c := &tablestore.DeleteRowChange{TableName: "log", PrimaryKey: pk("a", given[2])}
		c.SetCondition(exist)
		s.must(c)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = newStand(t, Options{Dir: dir, Now: time.Now}, false)
		given = append(given, s.number("log", "a"))
		if d := cmp.Diff(given[2]+1, given[3]); d != "" {
			t.Fatalf("inside one microsecond the count does not go on: %v", given)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

func putAs(table string, p *tablestore.PrimaryKey) *tablestore.PutRowChange {
	c := &tablestore.PutRowChange{TableName: table, PrimaryKey: p}
	c.SetCondition(ignore)
	return c
}
