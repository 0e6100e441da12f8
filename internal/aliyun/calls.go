package aliyun

import (
	"context"
	"sync/atomic"
)

// Calls counts calls to the services, whatever comes of them. The zero value is
// ready, and safe for concurrent use.
type Calls struct{ Tables, Objects atomic.Int64 }

type callsKey struct{}

// CountCalls returns a context whose calls are counted.
func CountCalls(ctx context.Context, c *Calls) context.Context {
	return context.WithValue(ctx, callsKey{}, c)
}

func countTables(ctx context.Context) {
	if c, ok := ctx.Value(callsKey{}).(*Calls); ok {
		c.Tables.Add(1)
	}
}

func countObjects(ctx context.Context) {
	if c, ok := ctx.Value(callsKey{}).(*Calls); ok {
		c.Objects.Add(1)
	}
}
