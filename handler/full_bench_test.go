package handler_test

import (
	"fmt"
	"os"
	"strconv"
	"testing"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/ratio"
)

// fullRows is a million, or what ONCEGATE_BENCH_ROWS says.
func fullRows() int {
	if n, err := strconv.Atoi(os.Getenv("ONCEGATE_BENCH_ROWS")); err == nil {
		return n
	}
	return 1_000_000
}

// fill puts rows into the table of tasks, 200 a call.
func (p *plant) fill(rows int) {
	p.tb.Helper()
	for n := 0; n < rows; {
		batch := new(tablestore.BatchWriteRowRequest)
		for range min(200, rows-n) {
			change := &tablestore.PutRowChange{TableName: idempotency.TaskTable.Name, PrimaryKey: keyed(idempotency.HashOf(map[string]string{"row": strconv.Itoa(n)}))}
			change.AddColumn("kind", idempotency.KindTask)
			change.SetCondition(tablestore.RowExistenceExpectation_IGNORE)
			batch.AddRowChange(change)
			n++
		}
		if _, err := p.rows.BatchWriteRow(batch); err != nil {
			p.tb.Fatal(err)
		}
	}
}

// BenchmarkFullTable measures a fresh event beside a million rows against one
// beside none.
func BenchmarkFullTable(b *testing.B) {
	full, empty := newPlant(b, 0), newPlant(b, 0)
	full.fill(fullRows())
	var turns ratio.Turns
	for b.Loop() {
		turns.Take(func() { full.deliver(full.handler, full.order(), handler.DecisionExecuted) },
			func() { empty.deliver(empty.handler, empty.order(), handler.DecisionExecuted) })
	}
	turns.Report(b, 1.2)
	if got := len(full.tables.Rows(idempotency.TaskTable.Name)); got <= fullRows() {
		b.Fatal(fmt.Sprint("only ", got, " rows"))
	}
}
