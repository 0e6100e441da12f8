package ebtest_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oncegate/oncegate/events/ebtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newBus(t *testing.T, o ebtest.Options) *ebtest.Bus {
	t.Helper()
	b, err := ebtest.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func wait(t *testing.T, tr *ebtest.Tracking) []ebtest.Outcome {
	t.Helper()
	out, err := tr.Wait(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func publish(t *testing.T, b *ebtest.Bus, raw []byte) *ebtest.Tracking {
	t.Helper()
	tr, err := b.Publish(context.Background(), raw)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func event(id string) []byte {
	return fmt.Appendf(nil, `{"specversion":"1.0","id":%q,"source":"app.test","type":"app:Order:Paid","data":{"n":1.50}}`, id)
}

// naps is a Sleep that returns at once and remembers what was asked.
type naps struct {
	mu  sync.Mutex
	got []time.Duration
}

func (n *naps) sleep(ctx context.Context, d time.Duration) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.got = append(n.got, d)
	return ctx.Err()
}

func (n *naps) sum() (sum time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, d := range n.got {
		sum += d
	}
	return sum
}

// target fails each event's first deliveries and keeps what it was given.
type target struct {
	fail int
	mu   sync.Mutex
	got  []ebtest.Delivery
}

func (tg *target) invoke(_ context.Context, d ebtest.Delivery) ebtest.Result {
	tg.mu.Lock()
	defer tg.mu.Unlock()
	tg.got = append(tg.got, d)
	id := fmt.Sprintf("req-%d", d.Number)
	if d.Number <= tg.fail {
		return ebtest.Result{ErrorType: "UnhandledInvocationError", RequestID: id}
	}
	return ebtest.Result{OK: true, Payload: []byte(`"done"`), RequestID: id}
}

func half() float64 { return 0.5 }
