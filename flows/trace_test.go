package flows

import (
	"net/http"
	"testing"

	"github.com/oncegate/oncegate/events"
)

func TestARequestCarriesTheTraceThatThereIsAndNoEmptyHeader(t *testing.T) {
	for name, c := range map[string]struct {
		trace         events.Trace
		parent, state bool
	}{
		"none":          {events.Trace{}, false, false},
		"a parent":      {events.Trace{Parent: "p"}, true, false},
		"and its state": {events.Trace{Parent: "p", State: "s"}, true, true},
		"a state alone": {events.Trace{State: "s"}, false, false},
	} {
		req, err := http.NewRequestWithContext(WithTrace(t.Context(), c.trace), http.MethodPost, "http://target", nil)
		if err != nil {
			t.Fatal(err)
		}
		SetTrace(req)
		_, parent := req.Header["Traceparent"]
		_, state := req.Header["Tracestate"]
		if parent != c.parent || state != c.state {
			t.Errorf("%s: headers %v", name, req.Header)
		}
	}
}
