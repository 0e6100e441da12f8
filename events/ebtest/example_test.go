package ebtest_test

import (
	"context"
	"fmt"

	"github.com/oncegate/oncegate/events/ebtest"
)

// An asynchronous target has done its part once the function's queue has the
// event: the bus neither retries nor buries what the function fails at later.
func ExampleAsyncTarget() {
	var queue [][]byte
	enqueue := func(_ context.Context, payload []byte) (string, error) {
		queue = append(queue, payload)
		return "request-1", nil
	}
	bus, err := ebtest.New(ebtest.Options{Rules: []ebtest.Rule{
		{Name: "orders", Target: ebtest.AsyncTarget(enqueue), DeadLetter: true},
	}})
	if err != nil {
		panic(err)
	}
	defer bus.Close()

	ctx := context.Background()
	tracking, _ := bus.Publish(ctx, []byte(`{"specversion":"1.0","id":"1","source":"shop","type":"shop:Order:Paid"}`))
	outcomes, _ := tracking.Wait(ctx)
	fmt.Println(outcomes[0].Outcome, outcomes[0].Last.RequestID, len(queue))
	// Output: acknowledged request-1 1
}
