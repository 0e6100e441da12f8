package otstest

import (
	"encoding/binary"
	"iter"
	"slices"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"
	"github.com/golang/protobuf/proto"
)

// A page of GetRange ends after so many rows read, whether the filter shows
// them or not, or once it has read so much.
const (
	maxRangeRows  = 5000
	maxRangeBytes = 4 << 20
)

func (e *engine) getRange(body []byte, now int64) (proto.Message, error) {
	req := new(otsprotocol.GetRangeRequest)
	if err := parse(body, req); err != nil {
		return nil, err
	}
	v, err := checkRange(req)
	if err != nil {
		return nil, err
	}
	begin, err := keyRequest(req.GetInclusiveStartPrimaryKey())
	if err != nil {
		return nil, err
	}
	end, err := keyRequest(req.GetExclusiveEndPrimaryKey())
	if err != nil {
		return nil, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	t, err := e.table(req.GetTableName())
	if err != nil {
		return nil, err
	}
	keys, err := t.between(begin, end, req.GetDirection())
	if err != nil {
		return nil, err
	}
	limit := maxRangeRows
	if req.Limit != nil {
		limit = min(limit, int(req.GetLimit()))
	}
	resp := &otsprotocol.GetRangeResponse{
		DataBlockType: otsprotocol.DataBlockType_DBT_PLAIN_BUFFER.Enum(),
		CompressType:  otsprotocol.CompressType_CPT_NONE.Enum(),
		Rows:          []byte{},
	}
	read, total := 0, 0
	var out wireRow
	for key := range keys {
		r := t.rows[key]
		if read == limit || total >= maxRangeBytes {
			resp.NextStartPrimaryKey = encodeRows(wireRow{pk: t.wire(r.pk)})
			break
		}
		var size int
		var shown bool
		out, size, shown = v.project(t, r, now, out)
		if read > 0 && total+size > maxRangeBytes {
			resp.NextStartPrimaryKey = encodeRows(wireRow{pk: t.wire(r.pk)})
			break
		}
		read++
		total += size
		if !shown {
			continue
		}
		if len(resp.Rows) == 0 {
			resp.Rows = binary.LittleEndian.AppendUint32(nil, plainHeader)
		}
		first := len(resp.Rows) == 4
		resp.Rows = out.append(resp.Rows)
		if first {
			// Rows of a table are much alike: room for all at once.
			resp.Rows = slices.Grow(resp.Rows, min(len(resp.Rows)*min(limit-read, len(t.rows)), maxRangeBytes))
		}
	}
	resp.Consumed = capacity(units(total), 0)
	return resp, nil
}

func checkRange(req *otsprotocol.GetRangeRequest) (*view, error) {
	switch {
	case req.TransactionId != nil:
		return nil, errTransaction()
	case req.Token != nil:
		return nil, invalid("Token is not supported here.")
	case !req.GetReturnEntirePrimaryKeys():
		return nil, invalid("return_entire_primary_keys is not supported here.")
	case req.Limit != nil && req.GetLimit() <= 0:
		return nil, invalid("The limit must be greater than 0.")
	}
	return newView(req)
}

// between returns the keys of a range in its direction.
func (t *table) between(begin, end []cell, d otsprotocol.Direction) (iter.Seq[string], error) {
	from, err := t.keyFrom(begin, keyOfRange)
	if err != nil {
		return nil, err
	}
	to, err := t.keyFrom(end, keyOfRange)
	if err != nil {
		return nil, err
	}
	first, last := keyOf(from), keyOf(to)
	switch {
	case d == otsprotocol.Direction_FORWARD && first >= last:
		return nil, invalid("Begin key must less than end key in FORWARD.")
	case d == otsprotocol.Direction_FORWARD:
		return t.keys.forward(first, last), nil
	case d == otsprotocol.Direction_BACKWARD && first <= last:
		return nil, invalid("Begin key must more than end key in BACKWARD.")
	case d == otsprotocol.Direction_BACKWARD:
		return t.keys.backward(first, last), nil
	}
	return nil, invalid("Invalid direction: `%d`.", d)
}
