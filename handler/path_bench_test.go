package handler_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/ratio"
)

// BenchmarkFresh measures a fresh event against the three calls that it cannot do
// without, made by the bare SDKs one after the other: claim, output, settle. On
// loopback only the processor counts, and the fourth call, input.json, with it:
// the last case is what remains where the bare SDKs make all four.
func BenchmarkFresh(b *testing.B) {
	for _, c := range []struct {
		name    string
		delay   time.Duration
		input   bool
		highest float64
	}{{"network", networkDelay, false, 1.05}, {"loopback", 0, false, 1.5}, {"loopback-of-four", 0, true, 1.5}} {
		b.Run(c.name, func(b *testing.B) {
			p := newPlant(b, c.delay)
			claim, settle, output := p.sample()
			before, spent := p.inside.sum(), time.Duration(0)
			var turns ratio.Turns
			for b.Loop() {
				raw, key := p.order(), fmt.Sprintf("%064x", p.number.Add(1))
				var input []byte
				if c.input {
					input = raw
				}
				turns.Take(func() { p.deliver(p.handler, raw, handler.DecisionExecuted) }, func() { p.bare(claim, settle, key, output, input) })
			}
			spent = b.Elapsed()
			turns.Report(b, c.highest)
			ratio.AtMost(b, float64(p.inside.sum()-before)/float64(spent), "stand-in-share", 0.5)
		})
	}
}

// BenchmarkDuplicate measures a finished duplicate that this instance knows
// against the one read that would find it.
func BenchmarkDuplicate(b *testing.B) {
	p := newPlant(b, 0)
	raw := p.order()
	p.deliver(p.handler, raw, handler.DecisionExecuted)
	key := p.tables.Rows(idempotency.TaskTable.Name)[0].PrimaryKey[0].Value.(string)
	get := &tablestore.GetRowRequest{SingleRowQueryCriteria: &tablestore.SingleRowQueryCriteria{
		TableName: idempotency.TaskTable.Name, PrimaryKey: keyed(key), MaxVersion: 1,
	}}
	var turns ratio.Turns
	for b.Loop() {
		turns.Take(func() { p.deliver(p.handler, raw, handler.DecisionDuplicate) }, func() {
			if r, err := p.rows.GetRow(get); err != nil || len(r.Columns) == 0 {
				b.Fatal(err)
			}
		})
	}
	turns.Report(b, 0.25)
}

// BenchmarkBatch measures a batch of fresh members against as many events, one
// after the other, where each call takes as long as on a network.
func BenchmarkBatch(b *testing.B) {
	const members = 100
	p := newPlant(b, networkDelay)
	var turns ratio.Turns
	for b.Loop() {
		together, apart := make([][]byte, members), make([][]byte, members)
		for i := range members {
			together[i], apart[i] = p.order(), p.order()
		}
		batch := batchOf(together...)
		turns.Take(func() {
			r, err := p.handler.HandleBatch(b.Context(), batch, handler.Delivery{RequestID: "request", FunctionName: "gate", Version: "7"})
			if err != nil || len(r.Members) != members {
				b.Fatal(r, err)
			}
		}, func() {
			for _, raw := range apart {
				p.deliver(p.handler, raw, handler.DecisionExecuted)
			}
		})
	}
	turns.Report(b, 0.12)
}
