package otstest

import (
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"
	"github.com/golang/protobuf/proto"
)

// page is a ColumnPaginationFilter: how many attribute columns of a row are
// passed over and how many are shown then, whatever the versions of each.
type page struct{ offset, limit int }

// compileRead reads the filter of a read, which is a condition or a page.
func compileRead(b []byte) (*condition, *page, error) {
	f := new(otsprotocol.Filter)
	if err := proto.Unmarshal(b, f); err != nil || f.GetType() != otsprotocol.FilterType_FT_COLUMN_PAGINATION {
		c, err := compileCondition(b)
		return c, nil, err
	}
	m := new(otsprotocol.ColumnPaginationFilter)
	if err := proto.Unmarshal(f.GetFilter(), m); err != nil || hasUnknown(m) || hasUnknown(f) {
		return nil, nil, invalid("Deserialize column pagination filter failed.")
	}
	switch {
	case m.GetOffset() < 0:
		return nil, nil, invalid("Offset in ColumnPaginationFilter must be greater than or equal to 0.")
	case m.GetLimit() <= 0:
		return nil, nil, invalid("Limit in ColumnPaginationFilter must be greater than 0.")
	}
	return nil, &page{int(m.GetOffset()), int(m.GetLimit())}, nil
}

// shows decides over the column with the given number, counted from 0.
func (p *page) shows(column int) bool {
	return p == nil || column >= p.offset && column < p.offset+p.limit
}
