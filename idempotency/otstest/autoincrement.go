package otstest

import (
	"slices"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"
)

// placeholders counts the key columns for which the service is to find a value.
func placeholders(pk []cell) int {
	n := 0
	for _, c := range pk {
		if c.val.kind == kindAutoInc {
			n++
		}
	}
	return n
}

// checkPlaceholder refuses what makes no sense for a row that cannot be there
// yet: to delete it, to expect anything of it, to hold a condition against it.
func (w *write) checkPlaceholder() error {
	n := placeholders(w.row.pk)
	switch {
	case n == 0:
		return nil
	case n > 1:
		return invalid("`%d` pk auto increment exist in row.", n)
	case w.op == otsprotocol.OperationType_DELETE:
		return invalid("Invalid row to delete which with pk auto increment")
	case w.expect != otsprotocol.RowExistenceExpectation_IGNORE:
		return invalid("Invalid expect:%s when modify row with pk auto increment", w.expect)
	case w.column != nil:
		return invalid("Can't set condition when modify row with pk auto increment")
	}
	return nil
}

// checkSpecific guards the rows of a table with an auto-increment column
// against values that the service did not give out: a put or an update that
// names the whole key must expect the row, else it fails like a condition.
func (w *write) checkSpecific(t *table) error {
	if t.auto < 0 || placeholders(w.row.pk) > 0 {
		return nil
	}
	switch {
	case w.expect == otsprotocol.RowExistenceExpectation_EXPECT_NOT_EXIST:
		return invalid("Invalid expect: %s when modify a specific row for table with pk auto increment", w.expect)
	case w.op != otsprotocol.OperationType_DELETE && w.expect == otsprotocol.RowExistenceExpectation_IGNORE:
		return documented(codeCondition)
	}
	return nil
}

// fill replaces the placeholder of a key. The values are times in microseconds
// and not 1, 2, 3: unique and rising, with gaps that no caller may count on.
func (t *table) fill(pk []value, now int64) []value {
	if t.auto < 0 || pk[t.auto].kind != kindAutoInc {
		return pk
	}
	t.last = max(t.last+1, now*1000)
	pk = slices.Clone(pk)
	pk[t.auto] = value{kind: kindInteger, num: t.last}
	return pk
}
