package flows

import (
	"context"
	"net/http"

	"github.com/oncegate/oncegate/events"
)

type traceKey struct{}

// WithTrace returns a context under which the model and the targets of effects are
// told the trace that a run belongs to.
func WithTrace(ctx context.Context, t events.Trace) context.Context {
	if t.Parent == "" {
		return ctx
	}
	return context.WithValue(ctx, traceKey{}, t)
}

// SetTrace adds the headers of W3C Trace Context to a request, those of the
// request's own context. A processor that calls a system of its own calls it
// before it sends.
func SetTrace(req *http.Request) {
	t, ok := req.Context().Value(traceKey{}).(events.Trace)
	if !ok {
		return
	}
	req.Header.Set("Traceparent", t.Parent)
	if t.State != "" {
		req.Header.Set("Tracestate", t.State)
	}
}
