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
	seen, auto := map[string]bool{}, 0
	for i, k := range meta.GetPrimaryKey() {
		switch {
		case !validName(k.GetName()):
			return invalid("Invalid column name: `%s`.", k.GetName())
		case seen[k.GetName()]:
			return invalid("Duplicated primary key name: `%s`.", k.GetName())
		case k.Option == nil:
		case k.GetOption() != otsprotocol.PrimaryKeyOption_AUTO_INCREMENT:
			return invalid("Invalid option of primary key: `%d`.", k.GetOption())
		case i == 0:
			return invalid("First primary key can't be auto increment, table: `%s`.", meta.GetTableName())
		case k.GetType() != otsprotocol.PrimaryKeyType_INTEGER:
			return invalid("AUTO_INCREMENT primary key must be integer.")
		case auto > 0:
			return invalid("AUTO_INCREMENT primary key count must <= 1.")
		default:
			auto++
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

// keyUse is what a key is for, which decides what may stand in it beside values.
type keyUse int

const (
	keyOfRow   keyUse = iota // values alone
	keyOfRange               // INF_MIN and INF_MAX as well
	keyOfWrite               // the placeholder in an auto-increment column as well
)

// keyFrom checks the primary key of a request against the schema.
func (t *table) keyFrom(cells []cell, use keyUse) ([]value, error) {
	if len(cells) != len(t.schema) {
		return nil, invalidPK("Validate PK size fail. Input: %d, Meta: %d.", len(cells), len(t.schema))
	}
	pk := make([]value, len(cells))
	for i, c := range cells {
		want := t.schema[i]
		end := use == keyOfRange && (c.val.kind == kindInfMin || c.val.kind == kindInfMax)
		auto := use == keyOfWrite && c.val.kind == kindAutoInc && i == t.auto
		switch {
		case c.name != want.name:
			return nil, invalidPK("Validate PK name fail. Input: %s, Meta: %s.", c.name, want.name)
		case c.val.kind != want.kind && !end && !auto:
			return nil, invalidPK("Validate PK type fail. Input: %s, Meta: %s.", variant(c.val.kind), variant(want.kind))
		}
		pk[i] = c.val
	}
	return pk, nil
}

// wire spells a key with the names of the schema.
func (t *table) wire(pk []value) []cell { return t.appendWire(make([]cell, 0, len(pk)), pk) }

func (t *table) appendWire(cells []cell, pk []value) []cell {
	for i, v := range pk {
		cells = append(cells, cell{name: t.schema[i].name, val: v, hasValue: true})
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
