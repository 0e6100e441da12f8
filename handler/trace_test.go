package handler_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/flows/targettest"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

const (
	traceID     = "0af7651916cd43dd8448eb211c80319c"
	traceParent = "00-" + traceID + "-b7ad6b7169203331-01"
	traceState  = "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE"
)

// traced is an order that belongs to a trace, for a flow whose work is the model's.
func traced(parent, state string) []byte {
	raw, _ := json.Marshal(map[string]any{
		"specversion": "1.0", "id": "e1", "source": "shop", "type": "demo:place", "aliyuneventbusname": environment,
		"traceparent": parent, "tracestate": state,
		"data": map[string]any{"order_no": "17", "number": "R-17", "phone": phone, "content": "order 17 is late"},
	})
	return raw
}

// byModel is an instance whose work is the model's.
func (w *effectWorld) byModel() *handler.Handler {
	return w.instance(func(o *handler.Options) {
		o.Flows = w.flows(strings.ReplaceAll(w.text(), "processor: work", "processor: summary"), o.Processors)
	})
}

// heard are the traces that the model and each target were told, by operation.
func (w *effectWorld) heard() map[string][]string {
	all := map[string][]string{}
	for _, r := range w.model.Requests() {
		all["model"] = append(all["model"], r.TraceParent+" "+r.TraceState)
	}
	for _, c := range w.targets.Calls() {
		all[c.Op] = append(all[c.Op], c.TraceParent+" "+c.TraceState)
	}
	return all
}

// told fails the test unless every call carried one trace and each operation came
// at least so often.
func (w *effectWorld) told(trace string, least map[string]int) {
	w.t.Helper()
	heard := w.heard()
	for op, n := range least {
		if len(heard[op]) < n {
			w.t.Errorf("%d calls of %s, want %d at least: %v", len(heard[op]), op, n, heard)
		}
	}
	for op, all := range heard {
		if slices.ContainsFunc(all, func(got string) bool { return got != trace }) {
			w.t.Errorf("%s was told %q, want %q", op, all, trace)
		}
	}
}

func TestModelEffectsAndLookUpsAreToldTheEventsTrace(t *testing.T) {
	inEffectWorld(t, targettest.Options{}, []string{notice, alarm, entry}, func(_ *testing.T, w *effectWorld) {
		w.acked(w.deliver(w.byModel(), traced(traceParent, traceState)), handler.DecisionExecuted)
		// A readable target is asked before the write and after it.
		w.told(traceParent+" "+traceState, map[string]int{"model": 1, "Notify": 1, "Robot": 1, "CreateRecord": 1, "FindRecord": 2})
		if r := w.task(); r.TraceID != traceID {
			w.t.Errorf("the record's trace is %q", r.TraceID)
		}
	})
}

func TestALookUpAfterALostAnswerIsToldTheTraceOfTheDeliveryThatMakesIt(t *testing.T) {
	inEffectWorld(t, targettest.Options{}, []string{entry}, func(_ *testing.T, w *effectWorld) {
		w.budget = 1 // no attempt is left: the effect is found out about without a run
		w.targets.Faults.Add(cloudtest.Fault{Op: "CreateRecord", Phase: cloudtest.After, Kind: cloudtest.Drop})
		raw := traced(traceParent, traceState)
		w.retried(w.deliver(w.byModel(), raw), idempotency.CodeTemporaryUnavailable)
		time.Sleep(time.Hour)
		w.acked(w.again(w.byModel(), raw), handler.DecisionFinal)
		w.told(traceParent+" "+traceState, map[string]int{"model": 1, "CreateRecord": 1, "FindRecord": 2})
	})
}

func TestAReplayKeepsTheTraceOfItsEvent(t *testing.T) {
	inEffectWorld(t, targettest.Options{}, []string{notice, entry}, func(_ *testing.T, w *effectWorld) {
		raw := traced(traceParent, traceState)
		w.refuse("Notify", 400, 1) // before it reaches the target
		w.acked(w.deliver(w.byModel(), raw), handler.DecisionFinal)
		l := w.letters()[0]
		if l.TraceID != traceID {
			w.t.Errorf("the letter's trace is %q", l.TraceID)
		}
		w.acked(w.call(w.byModel(), w.approved(raw, l)), handler.DecisionExecuted)
		w.told(traceParent+" "+traceState, map[string]int{"model": 1, "Notify": 1, "CreateRecord": 1, "FindRecord": 2})
	})
}

func TestWhatIsNoTraceIsToldToNobody(t *testing.T) {
	for name, c := range map[string]struct{ parent, state, want string }{
		"none":                       {"", traceState, " "},
		"a header behind it":         {traceParent + "\r\nAuthorization: Bearer x", traceState, " "},
		"line breaks inside":         {"00-" + traceID[:30] + "\r\n-b7ad6b7169203331-01", traceState, " "},
		"four kilobytes":             {strings.Repeat("0", 4096), traceState, " "},
		"zeros":                      {"00-" + strings.Repeat("0", 32) + "-b7ad6b7169203331-01", traceState, " "},
		"a phone number":             {phone, phone, " "},
		"a state with a line break":  {traceParent, "a=1\r\nX-Other: 1", traceParent + " "},
		"a state of four kilobytes":  {traceParent, "a=" + strings.Repeat("b", 4096), traceParent + " "},
		"a state that is no list":    {traceParent, phone, traceParent + " "},
		"a state of another version": {"01-" + traceID + "-b7ad6b7169203331-01-x", traceState, " "},
	} {
		t.Run(name, func(t *testing.T) {
			inEffectWorld(t, targettest.Options{}, []string{notice, entry}, func(_ *testing.T, w *effectWorld) {
				w.acked(w.deliver(w.byModel(), traced(c.parent, c.state)), handler.DecisionExecuted)
				w.told(c.want, map[string]int{"model": 1, "Notify": 1, "CreateRecord": 1, "FindRecord": 2})
				wantID := ""
				if c.want != " " {
					wantID = traceID
				}
				if r := w.task(); r.TraceID != wantID || strings.Contains(w.logs.String(), "X-Other") {
					w.t.Errorf("the record's trace is %q", r.TraceID)
				}
			})
		})
	}
}
