package otstest

import (
	"cmp"
	"math"
	"slices"
)

// version is one stored version of a column.
type version struct {
	at  int64 // milliseconds
	val value
}

// column holds its versions newest first, at least one.
type column struct {
	name     string
	versions []version
}

// row is one stored row. It is never changed: a write makes a new one, so a
// reader may keep what it found.
type row struct {
	pk      []value
	columns []column // by name
	clock   int64    // last time stamp given out or seen, milliseconds
}

// limits are the options of a table that decide what a row keeps and shows.
type limits struct {
	versions  int
	ttl       int64 // milliseconds, negative: for ever
	deviation int64 // milliseconds
}

// live is the part of a column that can be read at now. A column may hold more:
// what has expired, and what a lower maximum of versions has hidden since.
func (l limits) live(c column, now int64) []version {
	versions := c.versions[:min(l.versions, len(c.versions))]
	if l.ttl < 0 {
		return versions
	}
	for i, v := range versions {
		if v.at+l.ttl <= now {
			return versions[:i]
		}
	}
	return versions
}

// accepts says whether a client's time stamp may be written at now.
func (l limits) accepts(at, now int64) bool {
	oldest := now - l.deviation
	if l.ttl >= 0 {
		oldest = max(oldest, now-l.ttl)
	}
	return at >= oldest && at < now+l.deviation
}

func (r *row) find(name string) (int, bool) {
	return slices.BinarySearchFunc(r.columns, name, func(c column, name string) int {
		return cmp.Compare(c.name, name)
	})
}

// after is the row that cells make of r, which is nil for an absent row. A put
// replaces every column, an update only those it names.
//
// Time stamps that the server gives are now, or one above the last one of this
// row where now has not moved on.
func (r *row) after(pk []value, cells []cell, put bool, l limits, now int64) (*row, error) {
	next := &row{pk: pk}
	if r != nil {
		next.clock = r.clock
		if !put {
			next.columns = slices.Clone(r.columns)
		}
	}
	stamp := max(now, next.clock+1)
	for _, c := range cells {
		at := stamp
		if c.hasAt && c.op == opPut {
			if !l.accepts(c.at, now) {
				return nil, invalid("Invalid timestamp. Cell:`%s`.", c.name)
			}
			at = c.at
		}
		switch c.op {
		case opDeleteAll:
			if i, ok := next.find(c.name); ok {
				next.columns = slices.Delete(next.columns, i, i+1)
			}
			continue
		case opDeleteOne:
			next.drop(c.name, c.at)
			continue
		case opIncrement:
			sum, err := next.incremented(c, l, now)
			if err != nil {
				return nil, err
			}
			c.val = sum
		}
		next.set(c.name, version{at, c.val}, l.versions)
		if at == stamp || at <= now {
			next.clock = max(next.clock, at)
		}
	}
	return next, nil
}

func (r *row) set(name string, v version, keep int) {
	i, ok := r.find(name)
	if !ok {
		r.columns = slices.Insert(r.columns, i, column{name, []version{v}})
		return
	}
	old := r.columns[i].versions
	kept := make([]version, 0, len(old)+1)
	for _, o := range old {
		if o.at > v.at {
			kept = append(kept, o)
		}
	}
	kept = append(kept, v)
	for _, o := range old {
		if o.at < v.at {
			kept = append(kept, o)
		}
	}
	r.columns[i] = column{name, kept[:min(keep, len(kept))]}
}

func (r *row) drop(name string, at int64) {
	i, ok := r.find(name)
	if !ok {
		return
	}
	kept := slices.DeleteFunc(slices.Clone(r.columns[i].versions), func(v version) bool { return v.at == at })
	if len(kept) == 0 {
		r.columns = slices.Delete(r.columns, i, i+1)
		return
	}
	r.columns[i] = column{name, kept}
}

func (r *row) incremented(c cell, l limits, now int64) (value, error) {
	var base value
	if i, ok := r.find(c.name); ok {
		if live := l.live(r.columns[i], now); len(live) > 0 {
			base = live[0].val
		}
	}
	if base.kind != kindInteger {
		return value{}, invalid("Column type is not integer for INCREMENT, column: `%s`.", c.name)
	}
	if add := c.val.num; add > 0 && base.num > math.MaxInt64-add || add < 0 && base.num < math.MinInt64-add {
		return value{}, invalid("Integer overflow for INCREMENT, column: `%s`.", c.name)
	}
	return value{kind: kindInteger, num: base.num + c.val.num}, nil
}
