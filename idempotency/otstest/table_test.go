package otstest

import (
	"fmt"
	"testing"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"
	"github.com/golang/protobuf/proto"
	"github.com/google/go-cmp/cmp"
)

func TestTables(t *testing.T) {
	twice(t, func(t *testing.T, s *stand) {
		describe := func(name string) (*tablestore.DescribeTableResponse, error) {
			return s.client.DescribeTable(&tablestore.DescribeTableRequest{TableName: name})
		}
		t.Run("a described table shows what it was created with", func(t *testing.T) {
			meta := &tablestore.TableMeta{TableName: "claims"}
			meta.AddPrimaryKeyColumn("k", tablestore.PrimaryKeyType_STRING)
			meta.AddPrimaryKeyColumn("n", tablestore.PrimaryKeyType_INTEGER)
			_, err := s.client.CreateTable(&tablestore.CreateTableRequest{
				TableMeta: meta, TableOption: &tablestore.TableOption{TimeToAlive: 604800, MaxVersion: 2, DeviationCellVersionInSec: 3600},
				ReservedThroughput: &tablestore.ReservedThroughput{Readcap: 1, Writecap: 2},
			})
			if err != nil {
				t.Fatal(err)
			}
			d, err := describe("claims")
			if err != nil {
				t.Fatal(err)
			}
			o, r := d.TableOption, d.ReservedThroughput
			if o.TimeToAlive != 604800 || o.MaxVersion != 2 || o.DeviationCellVersionInSec != 3600 || !*o.AllowUpdate || r.Readcap != 1 || r.Writecap != 2 {
				t.Error(o, r)
			}
			if len(d.TableMeta.SchemaEntry) != 2 || *d.TableMeta.SchemaEntry[1].Name != "n" || *d.TableMeta.SchemaEntry[1].Type != tablestore.PrimaryKeyType_INTEGER {
				t.Error(d.TableMeta.SchemaEntry)
			}
		})
		t.Run("a second table of the same name is refused", func(t *testing.T) {
			expect(t, s.create("claims", 1, -1, "k"), 409, "OTSObjectAlreadyExist", "Requested table already exists.")
		})
		t.Run("an unknown table is not there for any call", func(t *testing.T) {
			_, err := describe("other")
			expect(t, err, 404, "OTSObjectNotExist", "Requested table does not exist.")
			u := updateChange("other", "x", ignore)
			u.PutColumn("a", "1")
			for _, change := range []any{putChange("other", "x", ignore, nil), u, deleteChange("other", "x", ignore)} {
				if err := s.do(change); code(err) != "OTSObjectNotExist" {
					t.Errorf("%T: %v", change, err)
				}
			}
		})
		t.Run("options can be changed one by one", func(t *testing.T) {
			s.table("changed", 1)
			err := s.send("UpdateTable", &otsprotocol.UpdateTableRequest{
				TableName: proto.String("changed"), TableOptions: &otsprotocol.TableOptions{MaxVersions: proto.Int32(4)},
			})
			if err != nil {
				t.Fatal(err)
			}
			no := false
			_, err = s.client.UpdateTable(&tablestore.UpdateTableRequest{
				TableName: "changed", TableOption: &tablestore.TableOption{TimeToAlive: 90000, MaxVersion: 4, AllowUpdate: &no},
			})
			if err != nil {
				t.Fatal(err)
			}
			d, err := describe("changed")
			if err != nil || d.TableOption.MaxVersion != 4 || d.TableOption.TimeToAlive != 90000 || d.TableOption.DeviationCellVersionInSec != 86400 {
				t.Fatal(d, err)
			}
			expect(t, s.send("UpdateTable", &otsprotocol.UpdateTableRequest{TableName: proto.String("changed"), TableOptions: &otsprotocol.TableOptions{}}),
				400, "OTSParameterInvalid", "No parameter is specified in table options.")
			u := updateChange("changed", "x", ignore)
			u.PutColumn("a", "1")
			if err := s.do(u); code(err) != "OTSParameterInvalid" {
				t.Fatal(err)
			}
			s.put("changed", "x", cols{"a": "1"})
		})
		t.Run("a deleted table is gone with its rows", func(t *testing.T) {
			s.table("gone", 1)
			s.put("gone", "x", nil)
			for _, want := range []string{"", "OTSObjectNotExist"} {
				_, err := s.client.DeleteTable(&tablestore.DeleteTableRequest{TableName: "gone"})
				if code(err) != want {
					t.Fatal(err)
				}
			}
			s.table("gone", 1)
			if n := len(s.Rows("gone")); n != 0 {
				t.Fatal(n)
			}
		})
		t.Run("tables are listed by name", func(t *testing.T) {
			r, err := s.client.ListTable()
			if err != nil || !cmp.Equal(r.TableNames, []string{"changed", "claims", "gone"}) {
				t.Fatal(r, err)
			}
		})
		t.Run("the 65th table is refused", func(t *testing.T) {
			for i := len(s.engine.tables); i < maxTables; i++ {
				s.table(fmt.Sprintf("t%d", i), 1)
			}
			expect(t, s.create("more", 1, -1, "k"), 403, "OTSQuotaExhausted", "Number of tables exceeded the quota.")
		})
	})
}

func TestTablesThatAreRefused(t *testing.T) {
	request := func(change func(*otsprotocol.CreateTableRequest)) *otsprotocol.CreateTableRequest {
		m := &otsprotocol.CreateTableRequest{
			TableMeta: &otsprotocol.TableMeta{TableName: proto.String("claims"), PrimaryKey: []*otsprotocol.PrimaryKeySchema{
				{Name: proto.String("k"), Type: otsprotocol.PrimaryKeyType_STRING.Enum()},
			}},
			ReservedThroughput: &otsprotocol.ReservedThroughput{CapacityUnit: &otsprotocol.CapacityUnit{}},
			TableOptions:       &otsprotocol.TableOptions{TimeToLive: proto.Int32(-1), MaxVersions: proto.Int32(1)},
		}
		change(m)
		return m
	}
	type req = otsprotocol.CreateTableRequest
	tests := map[string]func(*req){
		"a name with a dash":          func(m *req) { m.TableMeta.TableName = proto.String("a-b") },
		"a name that starts with 1":   func(m *req) { m.TableMeta.TableName = proto.String("1a") },
		"no key":                      func(m *req) { m.TableMeta.PrimaryKey = nil },
		"five key columns":            func(m *req) { m.TableMeta.PrimaryKey = append(m.TableMeta.PrimaryKey, numbered(4)...) },
		"the same key column twice":   func(m *req) { m.TableMeta.PrimaryKey = append(m.TableMeta.PrimaryKey, m.TableMeta.PrimaryKey[0]) },
		"a key of an unknown type":    func(m *req) { m.TableMeta.PrimaryKey[0].Type = otsprotocol.PrimaryKeyType(9).Enum() },
		"an auto-increment key":       func(m *req) { m.TableMeta.PrimaryKey[0].Option = otsprotocol.PrimaryKeyOption_AUTO_INCREMENT.Enum() },
		"no options":                  func(m *req) { m.TableOptions = nil },
		"no time to live":             func(m *req) { m.TableOptions.TimeToLive = nil },
		"a time to live of zero":      func(m *req) { m.TableOptions.TimeToLive = proto.Int32(0) },
		"a time to live of an hour":   func(m *req) { m.TableOptions.TimeToLive = proto.Int32(3600) },
		"no maximum of versions":      func(m *req) { m.TableOptions.MaxVersions = nil },
		"no version":                  func(m *req) { m.TableOptions.MaxVersions = proto.Int32(0) },
		"a negative deviation":        func(m *req) { m.TableOptions.DeviationCellVersionInSec = proto.Int64(-1) },
		"update_full_row":             func(m *req) { m.TableOptions.UpdateFullRow = proto.Bool(true) },
		"a bloom filter":              func(m *req) { m.TableOptions.BloomFilterType = otsprotocol.BloomFilterType_ROW.Enum() },
		"negative throughput":         func(m *req) { m.ReservedThroughput.CapacityUnit.Read = proto.Int32(-1) },
		"local transactions":          func(m *req) { m.EnableLocalTxn = proto.Bool(true) },
		"a stream":                    func(m *req) { m.StreamSpec = &otsprotocol.StreamSpecification{EnableStream: proto.Bool(true)} },
		"encryption":                  func(m *req) { m.SseSpec = &otsprotocol.SSESpecification{Enable: proto.Bool(true)} },
		"partitions":                  func(m *req) { m.Partitions = []*otsprotocol.PartitionRange{{Begin: []byte{}, End: []byte{}}} },
		"an index":                    func(m *req) { m.IndexMetas = []*otsprotocol.IndexMeta{index()} },
		"an index in the description": func(m *req) { m.TableMeta.IndexMeta = []*otsprotocol.IndexMeta{index()} },
	}
	twice(t, func(t *testing.T, s *stand) {
		for name, change := range tests {
			t.Run(name, func(t *testing.T) {
				if err := s.send("CreateTable", request(change)); code(err) != "OTSParameterInvalid" {
					t.Fatal(err)
				}
				if s.Rows("claims") != nil {
					t.Fatal("the refused table is there")
				}
			})
		}
		if err := s.send("CreateTable", request(func(*req) {})); err != nil {
			t.Fatal(err)
		}
	})
}

func numbered(n int) (out []*otsprotocol.PrimaryKeySchema) {
	for i := range n {
		out = append(out, &otsprotocol.PrimaryKeySchema{Name: proto.String(fmt.Sprintf("n%d", i)), Type: otsprotocol.PrimaryKeyType_STRING.Enum()})
	}
	return out
}

func index() *otsprotocol.IndexMeta {
	return &otsprotocol.IndexMeta{
		Name: proto.String("i"), IndexUpdateMode: otsprotocol.IndexUpdateMode_IUM_ASYNC_INDEX.Enum(), IndexType: otsprotocol.IndexType_IT_GLOBAL_INDEX.Enum(),
	}
}
