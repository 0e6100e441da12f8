package otstest

import (
	"maps"
	"math"
	"slices"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"
	"github.com/golang/protobuf/proto"
)

const (
	maxTables     = 64
	maxKeyColumns = 4
	maxThroughput = 5000
	minTTL        = 86400 // seconds
)

// keyColumn is one column of a primary key schema.
type keyColumn struct {
	name string
	kind byte
}

// table is one table; the engine's mutex guards it.
type table struct {
	name   string
	desc   *otsprotocol.DescribeTableResponse // replaced, never changed
	schema []keyColumn
	auto   int // place of the auto-increment column in the key, -1 for none
	limits limits
	rows   map[string]*row
	keys   keyList
	last   int64 // auto-increment value given out last
}

func newTable(desc *otsprotocol.DescribeTableResponse) *table {
	t := &table{name: desc.GetTableMeta().GetTableName(), rows: map[string]*row{}, auto: -1}
	for i, k := range desc.GetTableMeta().GetPrimaryKey() {
		kind := byte(kindString)
		switch k.GetType() {
		case otsprotocol.PrimaryKeyType_INTEGER:
			kind = kindInteger
		case otsprotocol.PrimaryKeyType_BINARY:
			kind = kindBlob
		}
		t.schema = append(t.schema, keyColumn{k.GetName(), kind})
		if k.Option != nil {
			t.auto = i
		}
	}
	t.describe(desc)
	return t
}

func (t *table) describe(desc *otsprotocol.DescribeTableResponse) {
	t.desc = desc
	o := desc.GetTableOptions()
	t.limits = limits{
		versions:  int(o.GetMaxVersions()),
		ttl:       int64(o.GetTimeToLive()) * 1000,
		deviation: o.GetDeviationCellVersionInSec() * 1000,
	}
}

// put stores r under key; nil removes the row.
func (t *table) put(key string, r *row) {
	_, was := t.rows[key]
	switch {
	case r == nil && was:
		delete(t.rows, key)
		t.keys.remove(key)
	case r != nil:
		t.rows[key] = r
		if !was {
			t.keys.insert(key)
		}
	}
}

func (e *engine) table(name string) (*table, error) {
	if !validName(name) {
		return nil, invalid("Invalid table name: `%s`.", name)
	}
	t, ok := e.tables[name]
	if !ok {
		return nil, documented(codeNotExist)
	}
	return t, nil
}

func (e *engine) createTable(body []byte, now int64) (proto.Message, error) {
	req := new(otsprotocol.CreateTableRequest)
	if err := parse(body, req); err != nil {
		return nil, err
	}
	if err := checkCreate(req); err != nil {
		return nil, err
	}
	options, err := mergeOptions(&otsprotocol.TableOptions{
		DeviationCellVersionInSec: proto.Int64(86400),
		AllowUpdate:               proto.Bool(true),
	}, req.GetTableOptions())
	if err != nil {
		return nil, err
	}
	desc := &otsprotocol.DescribeTableResponse{
		TableMeta:                 req.TableMeta,
		ReservedThroughputDetails: throughput(req.ReservedThroughput, now),
		TableOptions:              options,
		TableStatus:               otsprotocol.TableStatus_ACTIVE.Enum(),
		StreamDetails:             &otsprotocol.StreamDetails{EnableStream: proto.Bool(false)},
	}
	t := newTable(desc)
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.tables[t.name]; ok {
		return nil, documented(codeAlreadyExist)
	}
	if len(e.tables) >= maxTables {
		return nil, documented(codeQuota)
	}
	if err := e.store.putTable(t); err != nil {
		return nil, err
	}
	e.tables[t.name] = t
	return &otsprotocol.CreateTableResponse{}, nil
}

func (e *engine) describeTable(body []byte) (proto.Message, error) {
	req := new(otsprotocol.DescribeTableRequest)
	if err := parse(body, req); err != nil {
		return nil, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	t, err := e.table(req.GetTableName())
	if err != nil {
		return nil, err
	}
	return t.desc, nil
}

func (e *engine) listTable(body []byte) (proto.Message, error) {
	if err := parse(body, new(otsprotocol.ListTableRequest)); err != nil {
		return nil, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	return &otsprotocol.ListTableResponse{TableNames: slices.Sorted(maps.Keys(e.tables))}, nil
}

func (e *engine) updateTable(body []byte, now int64) (proto.Message, error) {
	req := new(otsprotocol.UpdateTableRequest)
	if err := parse(body, req); err != nil {
		return nil, err
	}
	if req.GetStreamSpec().GetEnableStream() {
		return nil, invalid("Stream is not supported here.")
	}
	if req.ReservedThroughput == nil && proto.Size(req.TableOptions) == 0 && req.StreamSpec == nil {
		return nil, invalid("No parameter is specified in table options.")
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	t, err := e.table(req.GetTableName())
	if err != nil {
		return nil, err
	}
	next := proto.Clone(t.desc).(*otsprotocol.DescribeTableResponse)
	if req.TableOptions != nil {
		if next.TableOptions, err = mergeOptions(t.desc.TableOptions, req.TableOptions); err != nil {
			return nil, err
		}
	}
	if req.ReservedThroughput != nil {
		if err := checkThroughput(req.ReservedThroughput); err != nil {
			return nil, err
		}
		next.ReservedThroughputDetails = throughput(req.ReservedThroughput, now)
	}
	changed := *t
	changed.describe(next)
	if err := e.store.putTable(&changed); err != nil {
		return nil, err
	}
	t.describe(next)
	return &otsprotocol.UpdateTableResponse{
		ReservedThroughputDetails: next.ReservedThroughputDetails,
		TableOptions:              next.TableOptions,
		StreamDetails:             next.StreamDetails,
	}, nil
}

func (e *engine) deleteTable(body []byte) (proto.Message, error) {
	req := new(otsprotocol.DeleteTableRequest)
	if err := parse(body, req); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	t, err := e.table(req.GetTableName())
	if err != nil {
		return nil, err
	}
	if err := e.store.deleteTable(t.name); err != nil {
		return nil, err
	}
	delete(e.tables, t.name)
	return &otsprotocol.DeleteTableResponse{}, nil
}

// mergeOptions lays the options of a request over those of a table.
func mergeOptions(old, in *otsprotocol.TableOptions) (*otsprotocol.TableOptions, error) {
	out := proto.Clone(old).(*otsprotocol.TableOptions)
	proto.Merge(out, in)
	switch {
	case in == nil || out.TimeToLive == nil:
		return nil, invalid("Time-to-live is missing while creating table.")
	case out.MaxVersions == nil:
		return nil, invalid("MaxVersions is missing while creating table.")
	case out.GetMaxVersions() <= 0:
		return nil, invalid("The maximum versions cannot be less than or equal to 0")
	case out.GetTimeToLive() == 0 || out.GetTimeToLive() < -1:
		return nil, invalid("TimeToLive cannot be 0 or less than -1.")
	case out.GetTimeToLive() > 0 && out.GetTimeToLive() < minTTL:
		return nil, invalid("TimeToLive cannot be less than %d.", minTTL)
	case out.GetDeviationCellVersionInSec() < 0 || out.GetDeviationCellVersionInSec() > math.MaxInt64/1_000_000:
		return nil, invalid("The maximum deviation must be in range [0, INT64_MAX/1000000].")
	case in.GetUpdateFullRow() || in.BloomFilterType != nil || in.BlockSize != nil:
		return nil, invalid("update_full_row, bloom_filter_type and block_size are not supported here.")
	}
	return out, nil
}

func throughput(r *otsprotocol.ReservedThroughput, now int64) *otsprotocol.ReservedThroughputDetails {
	return &otsprotocol.ReservedThroughputDetails{
		CapacityUnit: &otsprotocol.CapacityUnit{
			Read:  proto.Int32(r.GetCapacityUnit().GetRead()),
			Write: proto.Int32(r.GetCapacityUnit().GetWrite()),
		},
		LastIncreaseTime: proto.Int64(now / 1000),
	}
}
