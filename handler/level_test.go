package handler_test

import (
	"runtime"
	"testing"

	"github.com/oncegate/oncegate/handler"
)

// TestTenThousandEventsLeaveGoroutinesAndConnectionsLevel sends batches of many
// duplicates over sockets: what leaks with a delivery would show here.
func TestTenThousandEventsLeaveGoroutinesAndConnectionsLevel(t *testing.T) {
	const (
		events, copies, batch = 10_000, 10, 100
		// A member has a call to the tables or two to the objects under way.
		widest = 16 + 2*16
	)
	p := newPlant(t, 0)
	var afterFirst int
	for sent := 0; sent < events; sent += batch {
		var members [][]byte
		for range batch / copies {
			raw := p.order()
			for range copies {
				members = append(members, raw)
			}
		}
		r, err := p.handler.HandleBatch(t.Context(), batchOf(members...), handler.Delivery{RequestID: "request", FunctionName: "gate", Version: "7"})
		if err != nil || len(r.Members) != batch {
			t.Fatal(len(r.Members), err)
		}
		if sent == events/4 {
			afterFirst = runtime.NumGoroutine()
		}
	}
	// Two goroutines of the client and one of the server belong to a connection.
	if last := runtime.NumGoroutine(); last > afterFirst+3*8 {
		t.Errorf("%d goroutines after a quarter of the events, %d after all", afterFirst, last)
	}
	// A call may be dialled for while the connection it could have had comes back.
	if n := p.dials.Load(); n > 2*widest {
		t.Errorf("%d events opened %d connections, and at most %d are used at once", events, n, widest)
	}
}
