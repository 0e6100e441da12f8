package otstest

import (
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"
	"github.com/golang/protobuf/proto"
)

// maxConditions bounds the single conditions of one condition or filter.
const maxConditions = 32

// condition is a compiled column condition or filter.
type condition struct {
	logic otsprotocol.LogicalOperator // 0: a single column
	subs  []*condition

	column     string
	comparator otsprotocol.ComparatorType
	want       value
	ifMissing  bool // the outcome where the column is missing
	latestOnly bool
}

// compileCondition reads a serialized filter; none gives nil, which always holds.
func compileCondition(b []byte) (*condition, error) {
	if len(b) == 0 {
		return nil, nil
	}
	f := new(otsprotocol.Filter)
	if err := proto.Unmarshal(b, f); err != nil {
		return nil, invalid("Deserialize filter failed.")
	}
	count := 0
	c, err := compileFilter(f, &count)
	if err == nil && count > maxConditions {
		return nil, invalid("The count of filter exceeds the max: `%d`.", maxConditions)
	}
	return c, err
}

func compileFilter(f *otsprotocol.Filter, count *int) (*condition, error) {
	if hasUnknown(f) {
		return nil, invalid("Deserialize filter failed.")
	}
	switch f.GetType() {
	case otsprotocol.FilterType_FT_SINGLE_COLUMN_VALUE:
		*count++
		return compileSingle(f.GetFilter())
	case otsprotocol.FilterType_FT_COMPOSITE_COLUMN_VALUE:
		return compileComposite(f.GetFilter(), count)
	case otsprotocol.FilterType_FT_COLUMN_PAGINATION:
		return nil, invalid("Invalid type of sub-filter: `%d`.", f.GetType())
	}
	return nil, invalid("Invalid type of filter: `%d`.", f.GetType())
}

func compileSingle(b []byte) (*condition, error) {
	f := new(otsprotocol.SingleColumnValueFilter)
	if err := proto.Unmarshal(b, f); err != nil || hasUnknown(f) {
		return nil, invalid("Deserialize relation filter failed.")
	}
	if f.ValueTransRule != nil {
		return nil, invalid("ValueTransferRule is not supported here.")
	}
	if _, known := otsprotocol.ComparatorType_name[int32(f.GetComparator())]; !known {
		return nil, invalid("Invalid relation operator: `%d`.", f.GetComparator())
	}
	want, err := decodeValue(f.GetColumnValue())
	if err != nil {
		return nil, err
	}
	if want.kind > kindString && want.kind != kindBlob {
		return nil, invalid("%s is an invalid type for the attribute column.", variant(want.kind))
	}
	if !validName(f.GetColumnName()) {
		return nil, invalid("Invalid column name: `%s`.", f.GetColumnName())
	}
	return &condition{
		column:     f.GetColumnName(),
		comparator: f.GetComparator(),
		want:       want,
		ifMissing:  !f.GetFilterIfMissing(),
		latestOnly: f.GetLatestVersionOnly(),
	}, nil
}

func compileComposite(b []byte, count *int) (*condition, error) {
	f := new(otsprotocol.CompositeColumnValueFilter)
	if err := proto.Unmarshal(b, f); err != nil || hasUnknown(f) {
		return nil, invalid("Deserialize composite filter failed.")
	}
	switch n := len(f.GetSubFilters()); f.GetCombinator() {
	case otsprotocol.LogicalOperator_LO_NOT:
		if n != 1 {
			return nil, invalid("Invalid NOT operator: the number of sub-filters must be 1.")
		}
	case otsprotocol.LogicalOperator_LO_AND, otsprotocol.LogicalOperator_LO_OR:
		if n < 2 {
			return nil, invalid("Invalid AND/OR operator: the number of sub-filters must be 2.")
		}
	default:
		return nil, invalid("Invalid type of filter: `%d`.", f.GetCombinator())
	}
	c := &condition{logic: f.GetCombinator()}
	for _, sub := range f.GetSubFilters() {
		if *count > maxConditions {
			break
		}
		compiled, err := compileFilter(sub, count)
		if err != nil {
			return nil, err
		}
		c.subs = append(c.subs, compiled)
	}
	return c, nil
}

// holds decides over the versions that stored returns for a column, newest
// first; none means that the column is missing.
func (c *condition) holds(stored func(column string) []version) bool {
	if c == nil {
		return true
	}
	switch c.logic {
	case otsprotocol.LogicalOperator_LO_NOT:
		return !c.subs[0].holds(stored)
	case otsprotocol.LogicalOperator_LO_AND:
		for _, sub := range c.subs {
			if !sub.holds(stored) {
				return false
			}
		}
		return true
	case otsprotocol.LogicalOperator_LO_OR:
		for _, sub := range c.subs {
			if sub.holds(stored) {
				return true
			}
		}
		return false
	}
	versions := stored(c.column)
	if len(versions) == 0 {
		return c.ifMissing
	}
	if c.latestOnly {
		versions = versions[:1]
	}
	for _, v := range versions {
		if c.matches(v.val) {
			return true
		}
	}
	return false
}

// matches compares; values of another type differ from everything and are
// neither above nor below it, which the service does not document.
func (c *condition) matches(v value) bool {
	order, same := v.compare(c.want)
	if !same {
		return c.comparator == otsprotocol.ComparatorType_CT_NOT_EQUAL
	}
	switch c.comparator {
	case otsprotocol.ComparatorType_CT_EQUAL:
		return order == 0
	case otsprotocol.ComparatorType_CT_NOT_EQUAL:
		return order != 0
	case otsprotocol.ComparatorType_CT_GREATER_THAN:
		return order > 0
	case otsprotocol.ComparatorType_CT_GREATER_EQUAL:
		return order >= 0
	case otsprotocol.ComparatorType_CT_LESS_THAN:
		return order < 0
	}
	return order <= 0
}
