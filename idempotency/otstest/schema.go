package otstest

import (
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"
)

const maxNameBytes = 255

// validName says whether a table or a column may be called that.
func validName(s string) bool {
	if s == "" || len(s) > maxNameBytes {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c == '_', 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z':
		case '0' <= c && c <= '9' && i > 0:
		default:
			return false
		}
	}
	return true
}

// checkCreate refuses what the service refuses of a new table, and what it
// grants and this stand-in cannot.
func checkCreate(req *otsprotocol.CreateTableRequest) error {
	meta := req.GetTableMeta()
	if !validName(meta.GetTableName()) {
		return invalid("Invalid table name: `%s`.", meta.GetTableName())
	}
	switch {
	case req.GetEnableLocalTxn():
		return invalid("Local transactions are not supported here.")
	case req.GetStreamSpec().GetEnableStream():
		return invalid("Stream is not supported here.")
	case req.GetSseSpec().GetEnable():
		return invalid("Server side encryption is not supported here.")
	case len(req.GetIndexMetas())+len(meta.GetIndexMeta())+len(meta.GetDefinedColumn()) > 0:
		return invalid("Secondary indexes and defined columns are not supported here.")
	case len(req.GetPartitions()) > 0:
		return invalid("Partitions are not supported here.")
	}
	if n := len(meta.GetPrimaryKey()); n < 1 || n > maxKeyColumns {
		return invalid("The number of primary key columns must be in range: `[1, %d]`.", maxKeyColumns)
	}
	seen := map[string]bool{}
	for _, k := range meta.GetPrimaryKey() {
		switch {
		case !validName(k.GetName()):
			return invalid("Invalid column name: `%s`.", k.GetName())
		case seen[k.GetName()]:
			return invalid("Duplicated primary key name: `%s`.", k.GetName())
		case k.Option != nil:
			return invalid("AUTO_INCREMENT primary key is not supported here, name: `%s`.", k.GetName())
		}
		if _, ok := otsprotocol.PrimaryKeyType_name[int32(k.GetType())]; !ok {
			return invalid("Invalid column type, only STRING,INTEGER,BINARY is allowed.")
		}
		seen[k.GetName()] = true
	}
	return checkThroughput(req.GetReservedThroughput())
}

func checkThroughput(r *otsprotocol.ReservedThroughput) error {
	for _, n := range []int32{r.GetCapacityUnit().GetRead(), r.GetCapacityUnit().GetWrite()} {
		if n < 0 || n > maxThroughput {
			return invalid("Invalid Capacity Unit:`%d` . Capacity Unit must be nonnegative.", n)
		}
	}
	return nil
}

// keyFrom checks the primary key of a request against the schema. ends allows
// INF_MIN and INF_MAX.
func (t *table) keyFrom(cells []cell, ends bool) ([]value, error) {
	if len(cells) != len(t.schema) {
		return nil, invalidPK("Validate PK size fail. Input: %d, Meta: %d.", len(cells), len(t.schema))
	}
	pk := make([]value, len(cells))
	for i, c := range cells {
		want := t.schema[i]
		end := c.val.kind == kindInfMin || c.val.kind == kindInfMax
		switch {
		case c.name != want.name:
			return nil, invalidPK("Validate PK name fail. Input: %s, Meta: %s.", c.name, want.name)
		case c.val.kind != want.kind && !(ends && end):
			return nil, invalidPK("Validate PK type fail. Input: %s, Meta: %s.", variant(c.val.kind), variant(want.kind))
		}
		pk[i] = c.val
	}
	return pk, nil
}

// wire spells a key with the names of the schema.
func (t *table) wire(pk []value) []cell {
	cells := make([]cell, len(pk))
	for i, v := range pk {
		cells[i] = cell{name: t.schema[i].name, val: v, hasValue: true}
	}
	return cells
}

// keySize is what the service bills a key as.
func (t *table) keySize(pk []value) int {
	n := 0
	for i, v := range pk {
		n += len(t.schema[i].name) + v.size()
	}
	return n
}
