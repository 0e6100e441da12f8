package handler_test

import (
	"context"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
)

func TestNewRefusesWhatCannotWork(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*handler.Options)
		want string
	}{
		"no log":         {func(o *handler.Options) { o.Log = nil }, "option is missing"},
		"no environment": {func(o *handler.Options) { o.Environment = "" }, "no environment"},
		"no margin":      {func(o *handler.Options) { o.Policy.Margin = 0 }, "not positive"},
		"no back-off":    {func(o *handler.Options) { o.Policy.BackoffBase = 0 }, "not positive"},
		"no reserve":     {func(o *handler.Options) { o.ReserveMin = 0 }, "not positive"},
		"crossed bounds": {func(o *handler.Options) { o.ReserveMax = o.ReserveMin - 1 }, "not positive"},
		"no key secret":  {func(o *handler.Options) { o.KeySecret = nil }, "message.send"},
		"no processor":   {func(o *handler.Options) { o.Processors = map[string]flows.Processor{} }, "order.create"},
		"cache size":     {func(o *handler.Options) { o.CacheSize = -1 }, "new handler"},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				var got handler.Options
				w.instance(func(o *handler.Options) { got = *o })
				c.edit(&got)
				if h, err := handler.New(got); err == nil || h != nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got %v", err)
				}
			})
		})
	}
}

func TestTheTraceIDIsTakenFromAWellFormedTraceparent(t *testing.T) {
	const id = "0af7651916cd43dd8448eb211c80319c"
	for parent, want := range map[string]string{
		"00-" + id + "-b7ad6b7169203331-01":                   id,
		"00-" + strings.ToUpper(id) + "-b7ad6b7169203331-01":  "",
		"00-13800001111 is the number to-b7ad6b7169203331-01": "",
		id: "",
		"00-" + id + "-b7ad6b7169203331-01-and-what-a-later-version-may-add": "",
		"": "",
	} {
		inWorld(t, func(t *testing.T, w *world) {
			raw := order("e1", "17", 5)
			raw = append(raw[:len(raw)-1], `,"traceparent":"`+parent+`"}`...)
			w.work.set(failing(idempotency.Failure{Code: idempotency.CodePermissionDenied, Target: "model:m"}))
			w.acked(w.deliver(w.instance(), raw), handler.DecisionFinal)
			if r, l := w.record(), w.openLetter(letter.CodeAccessDenied, raw); r.TraceID != want || l.TraceID != want {
				t.Errorf("%q: record has %q, letter %q, want %q", parent, r.TraceID, l.TraceID, want)
			}
		})
	}
}

func TestAPanicOnTheWayMakesTheEventComeAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		broken := true
		h := w.instance(func(o *handler.Options) { o.Processors["work"] = unversioned{w.work, &broken} })
		w.retried(w.deliver(h, order("e1", "17", 5)), idempotency.CodeTemporaryUnavailable)
		if strings.Contains(w.logs.String(), phone) || !strings.Contains(w.logs.String(), "panic of type string") {
			t.Errorf("the log is %s", w.logs)
		}
		broken = false
		w.acked(w.deliver(h, order("e1", "17", 5)), handler.DecisionExecuted)
	})
}

type unversioned struct {
	*work
	broken *bool
}

func (u unversioned) Version() string {
	if *u.broken {
		panic(phone)
	}
	return u.work.Version()
}

func TestALateResultOfAProcessorIsNotStored(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		release := make(chan struct{})
		w.work.set(func(context.Context, flows.Task) (map[string]any, error) {
			<-release
			return map[string]any{"too": "late"}, nil
		})
		w.retried(w.deliver(w.instance(), order("e1", "17", 5)), idempotency.CodeTimeout)
		close(release)
		if outputs := w.outputs(); len(outputs) != 0 {
			t.Errorf("outputs %v", outputs)
		}
	})
}
