package otstest

import (
	"fmt"
	"testing"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
)

func TestBatches(t *testing.T) {
	twice(t, func(t *testing.T, s *stand) {
		s.table("claims", 1)
		s.table("other", 1)
		s.client = s.dial(0)
		write := func(changes ...tablestore.RowChange) (*tablestore.BatchWriteRowResponse, error) {
			req := &tablestore.BatchWriteRowRequest{}
			for _, c := range changes {
				req.AddRowChange(c)
			}
			return s.client.BatchWriteRow(req)
		}
		read := func(keys ...string) (*tablestore.BatchGetRowResponse, error) {
			c := &tablestore.MultiRowQueryCriteria{TableName: "claims", MaxVersion: 1}
			for _, k := range keys {
				c.AddRow(pk(k))
			}
			return s.client.BatchGetRow(&tablestore.BatchGetRowRequest{MultiRowQueryCriteria: []*tablestore.MultiRowQueryCriteria{c}})
		}
		t.Run("rows succeed and fail one by one", func(t *testing.T) {
			s.put("claims", "taken", cols{"a": "1"})
			r, err := write(putChange("claims", "free", absent, cols{"a": "2"}), putChange("claims", "taken", absent, cols{"a": "2"}), putChange("other", "x", ignore, nil))
			if err != nil {
				t.Fatal(err)
			}
			rows := r.TableToRowsResult["claims"]
			if !rows[0].IsSucceed || rows[1].IsSucceed || rows[1].Error.Code != "OTSConditionCheckFail" || !r.TableToRowsResult["other"][0].IsSucceed {
				t.Fatal(rows)
			}
			g, err := read("free", "none", "taken")
			if err != nil {
				t.Fatal(err)
			}
			got := g.TableToRowsResult["claims"]
			if got[0].Columns[0].Value != "2" || len(got[1].PrimaryKey.PrimaryKeys) != 0 || got[2].Columns[0].Value != "1" {
				t.Fatal(got)
			}
		})
		t.Run("unguarded changes of one row are made in their order", func(t *testing.T) {
			u := updateChange("claims", "twice", ignore)
			u.IncrementColumn("n", 4)
			u.SetReturnIncrementValue()
			u.AppendIncrementColumnToReturn("n")
			r, err := write(putChange("claims", "twice", ignore, cols{"n": int64(38)}), u)
			if err != nil {
				t.Fatal(err)
			}
			if rows := r.TableToRowsResult["claims"]; len(rows[1].Columns) != 1 || rows[1].Columns[0].Value != int64(42) {
				t.Fatal(rows)
			}
		})
		t.Run("what is no batch is refused as a whole", func(t *testing.T) {
			var many []tablestore.RowChange
			var keys []string
			for i := range maxBatchWrites + 1 {
				keys = append(keys, fmt.Sprint("many-", i))
				many = append(many, putChange("claims", keys[i], ignore, nil))
			}
			_, err := write(many...)
			expect(t, err, 400, "OTSParameterInvalid", "Rows count exceeds the upper limit:`200`.")
			_, err = read(keys[:maxBatchReads+1]...)
			expect(t, err, 400, "OTSParameterInvalid", "Rows count exceeds the upper limit:`100`.")
			_, err = read()
			expect(t, err, 400, "OTSParameterInvalid", "No row specified in the request of BatchGetRow.")
			_, err = read("x", "x")
			expect(t, err, 400, "OTSParameterInvalid", "Duplicate rows detected in MultiGet.")
			_, err = write(putChange("claims", "many-0", absent, nil), putChange("claims", "many-0", ignore, nil))
			expect(t, err, 400, "OTSParameterInvalid", "Repeated rows do not support row exist expectation check in BatchModify.")
			c := putChange("claims", "many-0", ignore, nil)
			c.SetColumnCondition(exact("a", "1"))
			_, err = write(putChange("claims", "many-0", ignore, nil), c)
			expect(t, err, 400, "OTSParameterInvalid", "Repeated rows do not support row condition check in BatchModify.")
			_, err = write(putChange("claims", "many-0", ignore, nil), putChange("nowhere", "x", ignore, nil))
			expect(t, err, 404, "OTSObjectNotExist", "Requested table does not exist.")
			_, err = write(putChange("claims", "many-0", ignore, nil), putChange("claims", "many-1", ignore, cols{"k": "x"}))
			expect(t, err, 400, "OTSParameterInvalid", "Duplicated attribute column name with primary key column: `k`.")
			_, err = write(putChange("claims", "many-0", ignore, nil), putAs("claims", pk("many-1", int64(1))))
			expect(t, err, 400, "OTSInvalidPK", "Validate PK size fail. Input: 2, Meta: 1.")
			if _, ok := s.get("claims", "many-0"); ok {
				t.Fatal("a refused batch left a row")
			}
			two := &tablestore.BatchGetRowRequest{}
			for _, name := range []string{"claims", "nowhere"} {
				c := &tablestore.MultiRowQueryCriteria{TableName: name, MaxVersion: 1}
				c.AddRow(pk("x"))
				two.MultiRowQueryCriteria = append(two.MultiRowQueryCriteria, c)
			}
			_, err = s.client.BatchGetRow(two)
			expect(t, err, 404, "OTSObjectNotExist", "Requested table does not exist.")
			atomic := &tablestore.BatchWriteRowRequest{IsAtomic: true}
			atomic.AddRowChange(putChange("claims", "x", ignore, nil))
			_, err = s.client.BatchWriteRow(atomic)
			expect(t, err, 400, "OTSParameterInvalid", "is_atomic is not supported here.")
		})
	})
}
