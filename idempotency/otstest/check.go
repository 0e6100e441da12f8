package otstest

import (
	"math"
	"slices"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"
)

const (
	maxKeyBytes     = 1 << 10
	maxColumnBytes  = 2 << 20
	maxWriteColumns = 1024
	maxWriteBytes   = 4 << 20
)

// newWrite checks all of a change that can be checked without its table.
func newWrite(op otsprotocol.OperationType, table string, raw []byte, cond *otsprotocol.Condition, ret *otsprotocol.ReturnContent) (*write, error) {
	row, err := decodeRow(raw)
	if err != nil {
		return nil, err
	}
	w := &write{op: op, table: table, row: row, expect: cond.GetRowExistence()}
	if _, ok := otsprotocol.RowExistenceExpectation_name[int32(w.expect)]; !ok {
		return nil, invalid("Invalid row-existence expectation: `%d`.", w.expect)
	}
	if w.column, err = compileCondition(cond.GetColumnCondition()); err != nil {
		return nil, err
	}
	if err := checkKeyCells(row.pk); err != nil {
		return nil, err
	}
	if err := w.checkPlaceholder(); err != nil {
		return nil, err
	}
	if err := w.checkShape(); err != nil {
		return nil, err
	}
	seen := map[cell]bool{}
	for _, c := range row.attrs {
		if err := w.checkCell(c); err != nil {
			return nil, err
		}
		// Two writes of one version in one call: which one stays is not documented.
		id := cell{name: c.name, at: c.at, hasAt: c.hasAt}
		if seen[id] {
			return nil, invalid("Duplicated attribute column name: `%s`.", c.name)
		}
		seen[id] = true
	}
	return w, w.checkReturn(ret)
}

func checkKeyCells(pk []cell) error {
	for _, c := range pk {
		switch {
		case !c.hasValue:
			return invalid("No value is given for primary key name: `%s`.", c.name)
		case c.op != opPut:
			return invalid("OpType cannot be given for primary key name: `%s`.", c.name)
		case c.hasAt:
			return invalid("Timestamp cannot be given for primary key name: `%s`.", c.name)
		case len(c.val.str) > maxKeyBytes:
			return invalid("The length of primary key column: `%s` exceeds the MaxLength: `%d` with CurrentLength: `%d`.", c.name, maxKeyBytes, len(c.val.str))
		}
		if err := c.val.checkText(c.name); err != nil {
			return err
		}
	}
	return nil
}

func (w *write) checkShape() error {
	n := len(w.row.attrs)
	if n > maxWriteColumns {
		return invalid("The number of attribute columns exceeds the limit, limit count:`%d`, column count: `%d`.", maxWriteColumns, n)
	}
	if w.op == otsprotocol.OperationType_DELETE {
		switch {
		case !w.row.deleted:
			return invalid("Invalid request of delete row: missing RowDeleteMarker in request")
		case n > 0:
			return invalid("Invalid delete row request: unexpected cells in request")
		}
		return nil
	}
	if w.row.deleted {
		return invalid("Invalid request of put/update row: unexpected RowDeleteMarker in request.")
	}
	name := "PutRow"
	if w.op == otsprotocol.OperationType_UPDATE {
		name = "UpdateRow"
		if n == 0 {
			return invalid("Invalid update row request: missing cells in request")
		}
	}
	size := attrsSize(w.row.pk) + attrsSize(w.row.attrs)
	if size > maxWriteBytes {
		return invalid("The total data size of %s request exceeds the limit, limit size: `%d` , data size: `%d`.", name, maxWriteBytes, size)
	}
	return nil
}

func (w *write) checkCell(c cell) error {
	if !validName(c.name) {
		return invalid("Invalid column name: `%s`.", c.name)
	}
	if c.op != opPut && w.op != otsprotocol.OperationType_UPDATE {
		return invalid("OpType cannot be given for column name:`%s` in PutRow.", c.name)
	}
	if c.hasAt && (c.at < 0 || c.at >= math.MaxInt64/1000) {
		return invalid("Timestamp must be in range [0, INT64_MAX/1000).")
	}
	switch c.op {
	case opDeleteAll, opDeleteOne:
		switch {
		case c.hasValue:
			return invalid("Column value cannot be given when type is DELETE_ONE_VERSION,DELETE_ALL_VERSION.")
		case c.op == opDeleteOne && !c.hasAt:
			return invalid("Timestamp must be given when type is DELETE_ONE_VERSION.")
		case c.op == opDeleteAll && c.hasAt:
			return invalid("Timestamp cannot be given when type is DELETE_ALL_VERSION.")
		}
		return nil
	case opIncrement:
		if !c.hasValue || c.val.kind != kindInteger || c.hasAt {
			return invalid("INCREMENT takes an integer value and no timestamp, column: `%s`.", c.name)
		}
		return nil
	}
	switch {
	case !c.hasValue:
		return invalid("No value is given for column name: `%s`.", c.name)
	case c.val.kind > kindString && c.val.kind != kindBlob:
		return invalid("%s is an invalid type for the attribute column.", variant(c.val.kind))
	case len(c.val.str) > maxColumnBytes:
		return invalid("The length of attribute column: `%s` exceeded the MaxLength:`%d` with CurrentLength:`%d`.", c.name, maxColumnBytes, len(c.val.str))
	}
	return c.val.checkText(c.name)
}

func (w *write) checkReturn(ret *otsprotocol.ReturnContent) error {
	w.answer, w.names = ret.GetReturnType(), ret.GetReturnColumnNames()
	switch w.answer {
	case otsprotocol.ReturnType_RT_NONE, otsprotocol.ReturnType_RT_PK:
		return nil
	case otsprotocol.ReturnType_RT_AFTER_MODIFY:
		if w.op == otsprotocol.OperationType_UPDATE {
			for _, name := range w.names {
				if !slices.ContainsFunc(w.row.attrs, func(c cell) bool { return c.name == name && c.op == opIncrement }) {
					return invalid("Column is not incremented by the request: `%s`.", name)
				}
			}
			return nil
		}
	}
	return invalid("Invalid return type: `%d`.", w.answer)
}
