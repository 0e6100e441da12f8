package ebtest

import "context"

// AsyncTarget invokes a function asynchronously: enqueue hands the payload to
// the function's queue and returns the request id. The bus sees success as soon
// as that is done; what the function makes of the event later is between its
// own retries and its on-failure destination, and never reaches the bus's
// retries or its dead-letter queue.
func AsyncTarget(enqueue func(ctx context.Context, payload []byte) (requestID string, err error)) Target {
	return func(ctx context.Context, d Delivery) Result {
		id, err := enqueue(ctx, d.EventRaw)
		if err != nil {
			return Result{ErrorType: "AsyncInvokeError", RequestID: id}
		}
		return Result{OK: true, RequestID: id}
	}
}
