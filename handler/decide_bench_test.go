package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/ratio"
)

const thinkFlows = `
schema_version: 1
flows:
  - {name: order.create, owner: order-team, number_owner: shop, match: {type: demo:order}, processor: work, processor_version: "1",
     key: {tenant: {path: $.data.tenant}, order_no: {path: $.data.order_no}, op: {const: order.create}}, input: {ignore: [$.data.sent_at]},
     sample: '{"specversion":"1.0","id":"e","source":"shop","type":"demo:order","aliyuneventbusname":"test","data":{"tenant":"a","order_no":1,"amount":5,"sent_at":"x"}}'}
`

type idle struct{}

func (idle) Version() string { return "w1" }

func (idle) Process(context.Context, flows.Task) (map[string]any, error) { return nil, nil }

// thinker is a handler whose stores nobody reaches.
func thinker(tb testing.TB) *Handler {
	tb.Helper()
	store, err := aliyun.NewTablestore("http://127.0.0.1:1", "oncegate", aliyun.Options{
		Credentials: func(context.Context) (aliyun.Credentials, error) { return aliyun.Credentials{}, io.EOF },
	})
	if err != nil {
		tb.Fatal(err)
	}
	processors := map[string]flows.Processor{"work": idle{}}
	set, err := flows.Load([]byte(thinkFlows), processors)
	if err != nil {
		tb.Fatal(err)
	}
	policy := idempotency.DefaultPolicy()
	h, err := New(Options{
		Flows: set, Processors: processors, Ledger: idempotency.NewLedger(store, policy), Tasks: idempotency.NewTable(store, policy),
		Reviews: idempotency.NewReviews(store), Letters: letter.NewTable(store), Artifacts: artifacts.NewStore(nil, ""),
		Environment: "test", Policy: policy, ReserveMin: time.Second, ReserveMax: time.Second,
		Now: time.Now, NewOwner: func() string { return "owner" }, Skew: func() time.Duration { return 0 }, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		tb.Fatal(err)
	}
	return h
}

// think is all that a delivery decides without its stores: it reads the event,
// finds flow, key and digest, and takes the steps of a first claim and of a
// duplicate.
func (h *Handler) think(raw []byte) (idempotency.Answer, error) {
	d := h.newDelivery(callEvent, raw, Delivery{RequestID: "r", FunctionName: "gate", Version: "7"})
	d.read()
	if d.kept != nil {
		return "", fmt.Errorf("the event is kept as a letter")
	}
	c := d.claim()
	running := h.o.Policy.First(c)
	done, err := h.o.Policy.Complete(running, c.Owner, c.Now, idempotency.Ref{Object: "o", SHA256: "s"})
	if err != nil {
		return "", err
	}
	answer, _ := h.o.Policy.Deliver(done, c)
	return answer, nil
}

// ordinary is an event of about size bytes: one long text, or many members.
func ordinary(shape string, size int) []byte {
	data := map[string]any{"tenant": "杭州", "order_no": 9007199254740993, "amount": 12.5, "sent_at": "2026-08-04T10:00:00Z"}
	raw := []byte(nil)
	encode := func() {
		raw, _ = json.Marshal(map[string]any{
			"specversion": "1.0", "id": "1b671a64-40d5-491e-99b0-da01ff1f3341", "source": "shop.orders", "type": "demo:order",
			"subject": "order/17", "time": "2026-08-04T10:00:00Z", "datacontenttype": "application/json",
			"aliyuneventbusname": "test", "aliyunregionid": "cn-hangzhou", "aliyunpublishtime": "2026-08-04T10:00:00.123Z", "data": data,
		})
	}
	encode()
	if shape == "text" {
		data["note"] = strings.Repeat("one line of a long text. ", (size-len(raw))/25)
		encode()
		return raw
	}
	const line = 100 // bytes that a line of the order takes, about
	var lines []json.RawMessage
	for i := range (size - len(raw)) / line {
		// Not in the order of their names: few producers sort them.
		lines = append(lines, fmt.Appendf(nil, `{"line":%d,"sku":"SKU-%06d","title":"something to buy","price":1999,"count":2,"gift":%v}`, i, i, i%2 == 0))
	}
	data["lines"] = lines
	encode()
	return raw
}

// thoughts are the events that thinking is measured with.
func thoughts() map[string][]byte {
	return map[string][]byte{
		"2KB of members": ordinary("members", 2<<10), "2KB of text": ordinary("text", 2<<10),
		"256KB of members": ordinary("members", 250<<10), "256KB of text": ordinary("text", 250<<10),
	}
}

// BenchmarkThinking measures all that needs no store against what the CloudEvents
// SDK takes to read the same bytes.
func BenchmarkThinking(b *testing.B) {
	h := thinker(b)
	for name, raw := range thoughts() {
		b.Run(strings.ReplaceAll(name, " ", "-"), func(b *testing.B) {
			times := max(1, 50_000/len(raw)) // so that a turn takes long enough to be timed
			var turns ratio.Turns
			for b.Loop() {
				turns.Take(func() {
					for range times {
						if answer, err := h.think(raw); answer != idempotency.AnswerDuplicate || err != nil {
							b.Fatal(answer, err)
						}
					}
				}, func() {
					for range times {
						var e event.Event
						if err := e.UnmarshalJSON(raw); err != nil || !bytes.Contains(e.Data(), []byte("tenant")) {
							b.Fatal(err)
						}
					}
				})
			}
			turns.Report(b, 1)
			allocs := testing.AllocsPerRun(10, func() { _, _ = h.think(raw) })
			ratio.AtMost(b, allocs, "allocs", mostAllocations[name])
		})
	}
}
