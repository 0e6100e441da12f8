package otstest

import (
	"slices"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"
	"github.com/golang/protobuf/proto"
)

// write is one validated change of one row, from whichever call it came.
type write struct {
	op     otsprotocol.OperationType
	table  string
	row    wireRow
	expect otsprotocol.RowExistenceExpectation
	column *condition
	answer otsprotocol.ReturnType
	names  []string // columns to return after an increment
}

// outcome is what a write answers with.
type outcome struct {
	consumed *otsprotocol.ConsumedCapacity
	row      []byte
}

func (e *engine) putRow(body []byte, now int64) (proto.Message, error) {
	req := new(otsprotocol.PutRowRequest)
	if err := parse(body, req); err != nil {
		return nil, err
	}
	if req.TransactionId != nil {
		return nil, errTransaction()
	}
	w, err := newWrite(otsprotocol.OperationType_PUT, req.GetTableName(), req.GetRow(), req.GetCondition(), req.GetReturnContent())
	if err != nil {
		return nil, err
	}
	out, err := e.apply(w, now)
	if err != nil {
		return nil, err
	}
	return &otsprotocol.PutRowResponse{Consumed: out.consumed, Row: out.row}, nil
}

func (e *engine) updateRow(body []byte, now int64) (proto.Message, error) {
	req := new(otsprotocol.UpdateRowRequest)
	if err := parse(body, req); err != nil {
		return nil, err
	}
	if req.TransactionId != nil {
		return nil, errTransaction()
	}
	w, err := newWrite(otsprotocol.OperationType_UPDATE, req.GetTableName(), req.GetRowChange(), req.GetCondition(), req.GetReturnContent())
	if err != nil {
		return nil, err
	}
	out, err := e.apply(w, now)
	if err != nil {
		return nil, err
	}
	return &otsprotocol.UpdateRowResponse{Consumed: out.consumed, Row: out.row}, nil
}

func (e *engine) deleteRow(body []byte, now int64) (proto.Message, error) {
	req := new(otsprotocol.DeleteRowRequest)
	if err := parse(body, req); err != nil {
		return nil, err
	}
	if req.TransactionId != nil {
		return nil, errTransaction()
	}
	w, err := newWrite(otsprotocol.OperationType_DELETE, req.GetTableName(), req.GetPrimaryKey(), req.GetCondition(), req.GetReturnContent())
	if err != nil {
		return nil, err
	}
	out, err := e.apply(w, now)
	if err != nil {
		return nil, err
	}
	return &otsprotocol.DeleteRowResponse{Consumed: out.consumed, Row: out.row}, nil
}

func errTransaction() error {
	return invalid("Try to call method using explicit transaction on explicit-transaction-disabled table")
}

// apply carries a write out: row existence first, then the column condition,
// then the change, all or nothing.
func (e *engine) apply(w *write, now int64) (outcome, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	t, err := e.table(w.table)
	if err != nil {
		return outcome{}, err
	}
	pk, err := w.fits(t)
	if err != nil {
		return outcome{}, err
	}
	if err := w.checkSpecific(t); err != nil {
		return outcome{}, err
	}
	if w.op == otsprotocol.OperationType_UPDATE && !t.desc.GetTableOptions().GetAllowUpdate() {
		return outcome{}, invalid("UpdateRow is disabled by allow_update of table: `%s`.", t.name)
	}
	pk = t.fill(pk, now)
	key := keyOf(pk)
	old := t.rows[key]
	if !w.allowed(t, old, pk, now) {
		return outcome{}, documented(codeCondition)
	}
	var next *row
	if w.op != otsprotocol.OperationType_DELETE {
		if next, err = old.after(pk, w.row.attrs, w.op == otsprotocol.OperationType_PUT, t.limits, now); err != nil {
			return outcome{}, err
		}
	}
	if err := e.store.putRow(t, key, next); err != nil {
		return outcome{}, err
	}
	t.put(key, next)
	return outcome{w.consumed(t, pk), w.returned(t, next, pk)}, nil
}

// fits checks the names and the types of a change against its table.
func (w *write) fits(t *table) ([]value, error) {
	pk, err := t.keyFrom(w.row.pk, keyOfWrite)
	if err != nil {
		return nil, err
	}
	for _, c := range w.row.attrs {
		if slices.ContainsFunc(t.schema, func(k keyColumn) bool { return k.name == c.name }) {
			return nil, invalid("Duplicated attribute column name with primary key column: `%s`.", c.name)
		}
	}
	return pk, nil
}

// allowed checks the condition against the row that is there, nil for none.
func (w *write) allowed(t *table, old *row, pk []value, now int64) bool {
	switch {
	case w.expect == otsprotocol.RowExistenceExpectation_EXPECT_EXIST && old == nil,
		w.expect == otsprotocol.RowExistenceExpectation_EXPECT_NOT_EXIST && old != nil:
		return false
	}
	return w.column.holds(func(name string) []version {
		for i, k := range t.schema {
			if k.name == name {
				return []version{{val: pk[i]}}
			}
		}
		if old != nil {
			if i, ok := old.find(name); ok {
				return t.limits.live(old.columns[i], now)
			}
		}
		return nil
	})
}

func (w *write) consumed(t *table, pk []value) *otsprotocol.ConsumedCapacity {
	size := t.keySize(pk)
	read := 0
	if w.expect != otsprotocol.RowExistenceExpectation_IGNORE || w.column != nil {
		read = units(size)
	}
	return capacity(read, units(size+attrsSize(w.row.attrs)))
}

func (w *write) returned(t *table, next *row, pk []value) []byte {
	switch w.answer {
	case otsprotocol.ReturnType_RT_PK:
		return encodeRows(wireRow{pk: t.wire(pk)})
	case otsprotocol.ReturnType_RT_AFTER_MODIFY:
		out := wireRow{pk: t.wire(pk)}
		for _, name := range w.names {
			if i, ok := next.find(name); ok {
				v := next.columns[i].versions[0]
				out.attrs = append(out.attrs, cell{name: name, val: v.val, hasValue: true, at: v.at, hasAt: true})
			}
		}
		return encodeRows(out)
	}
	return nil
}

func attrsSize(cells []cell) int {
	n := 0
	for _, c := range cells {
		n += len(c.name)
		if c.hasValue {
			n += c.val.size()
		}
	}
	return n
}
