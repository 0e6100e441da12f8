package otstest

import (
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"
	"github.com/golang/protobuf/proto"
)

const (
	maxBatchReads  = 100
	maxBatchWrites = 200
)

// batchGetRow reads each row on its own: one that fails does not fail the rest.
func (e *engine) batchGetRow(body []byte, now int64) (proto.Message, error) {
	req := new(otsprotocol.BatchGetRowRequest)
	if err := parse(body, req); err != nil {
		return nil, err
	}
	names, rows := map[string]bool{}, 0
	for _, in := range req.GetTables() {
		if names[in.GetTableName()] {
			return nil, invalid("Duplicated table name: `%s`.", in.GetTableName())
		}
		names[in.GetTableName()] = true
		rows += len(in.GetPrimaryKey())
		keys := map[string]bool{}
		for _, key := range in.GetPrimaryKey() {
			if keys[string(key)] {
				return nil, invalid("Duplicate rows detected in MultiGet.")
			}
			keys[string(key)] = true
		}
		if len(in.GetToken()) > 0 {
			return nil, invalid("Token is not supported here.")
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
		v, err := newView(in)
		if err != nil {
			return nil, err
		}
		out := &otsprotocol.TableInBatchGetRowResponse{TableName: in.TableName}
		for _, key := range in.GetPrimaryKey() {
			one := &otsprotocol.RowInBatchGetRowResponse{IsOk: proto.Bool(true)}
			row, consumed, err := e.read(in.GetTableName(), key, v, now)
			if err != nil {
				one.IsOk, one.Error = proto.Bool(false), asCallError(err).pb()
			} else {
				one.Row, one.Consumed = row, consumed
			}
			out.Rows = append(out.Rows, one)
		}
		resp.Tables = append(resp.Tables, out)
	}
	return resp, nil
}

// batchWriteRow writes each row on its own, in the order of the request.
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

// batchWrites checks the whole batch before anything of it is written.
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
		repeated, guarded := map[string]int{}, map[string]bool{}
		var writes []*write
		for _, r := range in.GetRows() {
			if _, ok := otsprotocol.OperationType_name[int32(r.GetType())]; !ok {
				return nil, invalid("The type of row in batch write operation is invalid.")
			}
			w, err := newWrite(r.GetType(), name, r.GetRowChange(), r.GetCondition(), r.GetReturnContent())
			if err != nil {
				return nil, err
			}
			key := string(encodeRows(wireRow{pk: w.row.pk}))
			repeated[key]++
			guarded[key] = guarded[key] || w.expect != otsprotocol.RowExistenceExpectation_IGNORE || w.column != nil
			if repeated[key] > 1 && guarded[key] {
				return nil, invalid("Repeated rows do not support row exist expectation check in BatchModify.")
			}
			count++
			size += attrsSize(w.row.pk) + attrsSize(w.row.attrs)
			writes = append(writes, w)
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
