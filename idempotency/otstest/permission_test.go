package otstest

import (
	"fmt"
	"testing"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestCallsNeedTheirRightOnEveryTableTheyName(t *testing.T) {
	twice(t, func(t *testing.T, s *stand) {
		for _, name := range []string{"mine", "mine2", "theirs"} {
			s.table(name, 1)
		}
		as := func(action, table string) *tablestore.TableStoreClient {
			p, err := cloudtest.ParsePolicy(fmt.Appendf(nil, `{"Version":"1","Statement":[{"Effect":"Allow","Action":%q,"Resource":"acs:ots:*:%s:instance/oncegate/table/%s"}]}`,
				action, cloudtest.AccountID, table))
			if err != nil {
				t.Fatal(err)
			}
			return s.dialAs(s.creds.IssueTo(cloudtest.AssumedRole("r", "amy", p), time.Time{}), s.transport, 0)
		}
		key := func() *tablestore.PrimaryKey {
			pk := new(tablestore.PrimaryKey)
			pk.AddPrimaryKeyColumn("k", "a")
			return pk
		}
		get := func(c *tablestore.TableStoreClient, table string) error {
			_, err := c.GetRow(&tablestore.GetRowRequest{SingleRowQueryCriteria: &tablestore.SingleRowQueryCriteria{TableName: table, PrimaryKey: key(), MaxVersion: 1}})
			return err
		}
		batch := func(c *tablestore.TableStoreClient, tables ...string) error {
			req := new(tablestore.BatchGetRowRequest)
			for _, table := range tables {
				criteria := &tablestore.MultiRowQueryCriteria{TableName: table, MaxVersion: 1}
				criteria.AddRow(key())
				req.MultiRowQueryCriteria = append(req.MultiRowQueryCriteria, criteria)
			}
			_, err := c.BatchGetRow(req)
			return err
		}
		write := func(c *tablestore.TableStoreClient, tables ...string) error {
			req := new(tablestore.BatchWriteRowRequest)
			for _, table := range tables {
				change := &tablestore.PutRowChange{TableName: table, PrimaryKey: key()}
				change.AddColumn("revision", int64(1))
				change.SetCondition(tablestore.RowExistenceExpectation_IGNORE)
				req.AddRowChange(change)
			}
			_, err := c.BatchWriteRow(req)
			return err
		}
		list := func(c *tablestore.TableStoreClient) error { _, err := c.ListTable(); return err }
		create := func(c *tablestore.TableStoreClient, table string) error {
			meta := &tablestore.TableMeta{TableName: table}
			meta.AddPrimaryKeyColumn("k", tablestore.PrimaryKeyType_STRING)
			_, err := c.CreateTable(&tablestore.CreateTableRequest{
				TableMeta: meta, TableOption: &tablestore.TableOption{TimeToAlive: -1, MaxVersion: 1}, ReservedThroughput: &tablestore.ReservedThroughput{},
			})
			return err
		}
		const message = "You have no permission to access the requested resource."
		for name, err := range map[string]error{
			"another table":                get(as("ots:GetRow", "mine"), "theirs"),
			"another action":               get(as("ots:GetRange", "mine"), "mine"),
			"a table that is not there":    get(as("ots:GetRow", "mine"), "nowhere"),
			"a batch with one table more":  batch(as("ots:BatchGetRow", "mine*"), "mine", "mine2", "theirs"),
			"writes with one table more":   write(as("ots:BatchWriteRow", "mine*"), "mine", "mine2", "theirs"),
			"writes by the right to put":   write(as("ots:PutRow", "*"), "mine"),
			"a batch by the right to read": batch(as("ots:GetRow", "*"), "mine"),
			"a list by one table":          list(as("ots:ListTable", "mine")),
			"a new table of another name":  create(as("ots:CreateTable", "mine*"), "other"),
		} {
			t.Run(name, func(t *testing.T) { expect(t, err, 403, codeNoPermission, message) })
		}
		for name, err := range map[string]error{
			"its table":       get(as("ots:GetRow", "mine"), "mine"),
			"a batch":         batch(as("ots:BatchGetRow", "mine*"), "mine", "mine2"),
			"writes":          write(as("ots:BatchWriteRow", "mine*"), "mine2"),
			"a list":          list(as("ots:ListTable", "*")),
			"a new table":     create(as("ots:CreateTable", "mine*"), "mine3"),
			"no identity yet": get(s.client, "theirs"),
		} {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		resp, err := s.client.GetRow(&tablestore.GetRowRequest{SingleRowQueryCriteria: &tablestore.SingleRowQueryCriteria{TableName: "mine", PrimaryKey: key(), MaxVersion: 1}})
		if err != nil || len(resp.PrimaryKey.PrimaryKeys) > 0 {
			t.Errorf("a batch that was refused for one table wrote to another: %v, %v", resp, err)
		}
	})
}
