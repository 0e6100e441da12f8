package otstest

import (
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"
	"github.com/golang/protobuf/proto"
)

const (
	maxBatchReads  = 100
	maxBatchWrites = 200
)

// batchGetRow reads rows of several tables. What is wrong with a table or a key
// fails the call as a whole, as the service documents it.
func (e *engine) batchGetRow(body []byte, now int64) (proto.Message, error) {
	req := new(otsprotocol.BatchGetRowRequest)
	if err := parse(body, req); err != nil {
		return nil, err
	}
	names, rows := map[string]bool{}, 0
	for _, in := range req.GetTables() {
		switch n := len(in.GetPrimaryKey()); {
		case names[in.GetTableName()]:
			return nil, invalid("Duplicated table name: `%s`.", in.GetTableName())
		case n == 0:
			return nil, invalid("No row specified in the request of BatchGetRow.")
		case len(in.GetToken()) > 0:
			return nil, invalid("Token is not supported here.")
		default:
			names[in.GetTableName()] = true
			rows += n
		}
	}
	switch {
	case rows == 0:
		return nil, invalid("No row specified in the request of BatchGetRow.")
	case rows > maxBatchReads:
		return nil, invalid("Rows count exceeds the upper limit:`%d`.", maxBatchReads)
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	resp := &otsprotocol.BatchGetRowResponse{}
	for _, in := range req.GetTables() {
		out, err := e.batchRead(in, now)
		if err != nil {
			return nil, err
		}
		resp.Tables = append(resp.Tables, out)
	}
	return resp, nil
}

func (e *engine) batchRead(in *otsprotocol.TableInBatchGetRowRequest, now int64) (*otsprotocol.TableInBatchGetRowResponse, error) {
	v, err := newView(in)
	if err != nil {
		return nil, err
	}
	out := &otsprotocol.TableInBatchGetRowResponse{TableName: in.TableName}
	seen := map[string]bool{}
	for _, raw := range in.GetPrimaryKey() {
		t, pk, err := e.locate(in.GetTableName(), raw)
		if err != nil {
			return nil, err
		}
		if seen[keyOf(pk)] {
			return nil, invalid("Duplicate rows detected in MultiGet.")
		}
		seen[keyOf(pk)] = true
		row, consumed := t.read(pk, v, now)
		out.Rows = append(out.Rows, &otsprotocol.RowInBatchGetRowResponse{IsOk: proto.Bool(true), Row: row, Consumed: consumed})
	}
	return out, nil
}

// batchWriteRow writes each row on its own, in the order of the request: a row
// that fails carries its error inside the 200 and the others stay.
func (e *engine) batchWriteRow(body []byte, now int64) (proto.Message, error) {
	req := new(otsprotocol.BatchWriteRowRequest)
	if err := parse(body, req); err != nil {
		return nil, err
	}
	switch {
	case req.TransactionId != nil:
		return nil, errTransaction()
	case req.GetIsAtomic():
		return nil, invalid("is_atomic is not supported here.")
	}
	writes, err := batchWrites(req)
	if err != nil {
		return nil, err
	}
	if err := e.fit(writes); err != nil {
		return nil, err
	}
	resp := &otsprotocol.BatchWriteRowResponse{}
	for i, in := range req.GetTables() {
		out := &otsprotocol.TableInBatchWriteRowResponse{TableName: in.TableName}
		for _, w := range writes[i] {
			one := &otsprotocol.RowInBatchWriteRowResponse{IsOk: proto.Bool(true)}
			if done, err := e.apply(w, now); err != nil {
				one.IsOk, one.Error = proto.Bool(false), asCallError(err).pb()
			} else {
				one.Row, one.Consumed = done.row, done.consumed
			}
			out.Rows = append(out.Rows, one)
		}
		resp.Tables = append(resp.Tables, out)
	}
	return resp, nil
}

// fit holds a batch against its tables before anything of it is written.
func (e *engine) fit(writes [][]*write) error {
	e.mu.RLock()
	defer e.mu.RUnlock()
	for _, rows := range writes {
		t, err := e.table(rows[0].table)
		if err != nil {
			return err
		}
		for _, w := range rows {
			if _, err := w.fits(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// batchWrites checks all of a batch that can be checked without its tables.
func batchWrites(req *otsprotocol.BatchWriteRowRequest) ([][]*write, error) {
	tables, count, size := map[string]bool{}, 0, 0
	var all [][]*write
	for _, in := range req.GetTables() {
		name := in.GetTableName()
		if tables[name] {
			return nil, invalid("Duplicated table name: `%s`.", name)
		}
		tables[name] = true
		if len(in.GetRows()) == 0 {
			return nil, invalid("No operation is specified for table:`%s`.", name)
		}
		var writes []*write
		for _, r := range in.GetRows() {
			if _, ok := otsprotocol.OperationType_name[int32(r.GetType())]; !ok {
				return nil, invalid("The type of row in batch write operation is invalid.")
			}
			w, err := newWrite(r.GetType(), name, r.GetRowChange(), r.GetCondition(), r.GetReturnContent())
			if err != nil {
				return nil, err
			}
			count++
			size += attrsSize(w.row.pk) + attrsSize(w.row.attrs)
			writes = append(writes, w)
		}
		if err := checkRepeated(writes); err != nil {
			return nil, err
		}
		all = append(all, writes)
	}
	switch {
	case count == 0:
		return nil, invalid("No row is specified in BatchWriteRow.")
	case count > maxBatchWrites:
		return nil, invalid("Rows count exceeds the upper limit:`%d`.", maxBatchWrites)
	case size > maxWriteBytes:
		return nil, invalid("The total data size of BatchWriteRow request exceeds the limit, limit size: `%d`, data size:`%d`.", maxWriteBytes, size)
	}
	return all, nil
}

// checkRepeated refuses a row that comes twice where one of the two is guarded.
// Rows that are to get a number never are.
func checkRepeated(writes []*write) error {
	first := map[string]*write{}
	for _, w := range writes {
		key := string(encodeRows(wireRow{pk: w.row.pk}))
		other := first[key]
		if other == nil {
			first[key] = w
			continue
		}
		const ignore = otsprotocol.RowExistenceExpectation_IGNORE
		switch {
		case w.expect != ignore || other.expect != ignore:
			return invalid("Repeated rows do not support row exist expectation check in BatchModify.")
		case w.column != nil || other.column != nil:
			return invalid("Repeated rows do not support row condition check in BatchModify.")
		}
	}
	return nil
}
