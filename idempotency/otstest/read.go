package otstest

import (
	"math"
	"slices"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"
	"github.com/golang/protobuf/proto"
)

const maxColumnsToGet = 128

// readOptions are what the three reading calls share.
type readOptions interface {
	GetColumnsToGet() []string
	GetTimeRange() *otsprotocol.TimeRange
	GetMaxVersions() int32
	GetFilter() []byte
	GetStartColumn() string
	GetEndColumn() string
}

// view decides what of a row is shown.
type view struct {
	columns  []string // sorted; empty: all
	from, to string   // "" is open; to is exclusive
	since    int64    // milliseconds
	until    int64    // exclusive
	versions int
	filter   *condition
	page     *page
}

func newView(o readOptions) (*view, error) {
	v := &view{from: o.GetStartColumn(), to: o.GetEndColumn(), until: math.MaxInt64, versions: math.MaxInt32}
	if n := len(o.GetColumnsToGet()); n > maxColumnsToGet {
		return nil, invalid("The number of columns from the request exceeds the limit, limit count: `%d` , column count:`%d`.", maxColumnsToGet, n)
	}
	for _, name := range o.GetColumnsToGet() {
		if !validName(name) {
			return nil, invalid("Invalid column name: `%s`.", name)
		}
	}
	v.columns = slices.Sorted(slices.Values(o.GetColumnsToGet()))
	r, n := o.GetTimeRange(), o.GetMaxVersions()
	switch {
	case r == nil && n == 0:
		return nil, invalid("No version condition is specified while querying row.")
	case n < 0:
		return nil, invalid("Invalid max versions: `%d` . Reason: Max versions must be positive.", n)
	case n > 0:
		v.versions = int(n)
	}
	if err := v.within(r); err != nil {
		return nil, err
	}
	var err error
	v.filter, v.page, err = compileRead(o.GetFilter())
	return v, err
}

func (v *view) within(r *otsprotocol.TimeRange) error {
	switch {
	case r == nil:
	case r.SpecificTime != nil:
		at := r.GetSpecificTime()
		switch {
		case r.StartTime != nil || r.EndTime != nil:
			return invalid("Specific tiemstamp and time range cannot be given at the same time.")
		case v.versions != math.MaxInt32:
			return invalid("Specific tiemstamp and max versions cannot be given at the same time.")
		case at < 0 || at == math.MaxInt64:
			return invalid("Specific timestamp cannot be less than 0.")
		}
		v.since, v.until = at, at+1
	case r.StartTime == nil || r.EndTime == nil:
		return invalid("Start and end time must be given at the same time.")
	case r.GetStartTime() < 0 || r.GetEndTime() < r.GetStartTime():
		return invalid("Invalid time range: [`%d`, `%d`).", r.GetStartTime(), r.GetEndTime())
	default:
		v.since, v.until = r.GetStartTime(), r.GetEndTime()
	}
	return nil
}

// project shows a row; shown is false where the columns asked for or the
// filter leave nothing of it. size is what the service bills. into lends its room:
// a scan projects millions of rows.
func (v *view) project(t *table, r *row, now int64, into wireRow) (out wireRow, size int, shown bool) {
	out.pk, out.attrs = t.appendWire(into.pk[:0], r.pk), into.attrs[:0]
	column, asked := 0, v.columns
	for _, c := range r.columns {
		if len(v.columns) > 0 {
			// Both are sorted by name.
			for len(asked) > 0 && asked[0] < c.name {
				asked = asked[1:]
			}
			if len(asked) == 0 {
				break
			}
			if asked[0] != c.name {
				continue
			}
		}
		if c.name < v.from || v.to != "" && c.name >= v.to {
			continue
		}
		n, paged := 0, v.page.shows(column)
		for _, ver := range t.limits.live(c, now) {
			if ver.at < v.since || ver.at >= v.until {
				continue
			}
			if n++; n > v.versions || !paged {
				break
			}
			out.attrs = append(out.attrs, cell{name: c.name, val: ver.val, hasValue: true, at: ver.at, hasAt: true})
		}
		if n > 0 {
			column++
		}
	}
	size = t.keySize(r.pk) + attrsSize(out.attrs)
	if len(v.columns) > 0 && len(out.attrs) == 0 && !v.asksKey(t) {
		return out, size, false
	}
	return out, size, v.filter == nil || v.filter.holds(out.stored)
}

// asksKey says whether a key column is among those asked for.
func (v *view) asksKey(t *table) bool {
	return slices.ContainsFunc(t.schema, func(k keyColumn) bool { return slices.Contains(v.columns, k.name) })
}

// stored looks a column up in what was read: a filter sees only columns that
// were asked for.
func (r wireRow) stored(name string) []version {
	for _, c := range r.pk {
		if c.name == name {
			return []version{{val: c.val}}
		}
	}
	var found []version
	for _, c := range r.attrs {
		if c.name == name {
			found = append(found, version{c.at, c.val})
		}
	}
	return found
}

// keyRequest reads a request's primary key, which comes as a row without columns.
func keyRequest(raw []byte) ([]cell, error) {
	row, err := decodeRow(raw)
	if err != nil {
		return nil, err
	}
	if len(row.attrs) > 0 {
		return nil, invalid("Attribute column cannot be given while reading data.")
	}
	if row.deleted {
		return nil, invalid("Delete marker cannot be given.")
	}
	for _, c := range row.pk {
		if c.val.kind == kindAutoInc {
			return nil, invalid("PKAutoIncr can't be used for read operations.")
		}
	}
	return row.pk, checkKeyCells(row.pk)
}

func (e *engine) getRow(body []byte, now int64) (proto.Message, error) {
	req := new(otsprotocol.GetRowRequest)
	if err := parse(body, req); err != nil {
		return nil, err
	}
	switch {
	case req.TransactionId != nil:
		return nil, errTransaction()
	case req.Token != nil:
		return nil, invalid("Token is not supported here.")
	}
	v, err := newView(req)
	if err != nil {
		return nil, err
	}
	e.mu.RLock()
	defer e.mu.RUnlock()
	t, pk, err := e.locate(req.GetTableName(), req.GetPrimaryKey())
	if err != nil {
		return nil, err
	}
	row, consumed := t.read(pk, v, now)
	return &otsprotocol.GetRowResponse{Consumed: consumed, Row: row}, nil
}

// locate checks the table and the key of a read; the caller holds the mutex.
func (e *engine) locate(name string, rawKey []byte) (*table, []value, error) {
	cells, err := keyRequest(rawKey)
	if err != nil {
		return nil, nil, err
	}
	t, err := e.table(name)
	if err != nil {
		return nil, nil, err
	}
	pk, err := t.keyFrom(cells, keyOfRow)
	return t, pk, err
}

// read shows one row; the caller holds the mutex. An absent or a hidden row is
// empty, not nil, as the response requires the field.
func (t *table) read(pk []value, v *view, now int64) ([]byte, *otsprotocol.ConsumedCapacity) {
	r := t.rows[keyOf(pk)]
	if r == nil {
		return []byte{}, capacity(1, 0)
	}
	out, size, shown := v.project(t, r, now, wireRow{})
	if !shown {
		return []byte{}, capacity(units(size), 0)
	}
	return encodeRows(out), capacity(units(size), 0)
}
