package handler_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/flows/targettest"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// unruly is an effect of a user that says too much.
type unruly struct{ send func() (string, error) }

func (u unruly) Send(context.Context, flows.EffectCall) (string, error) { return u.send() }

func TestNoEffectTellsWhoItIsFor(t *testing.T) {
	for name, run := range map[string]func(w *effectWorld){
		"success": func(w *effectWorld) {
			w.acked(w.deliver(w.instance(), place("e1", "17", 5)), handler.DecisionExecuted)
		},
		"errors of a target that repeat the request": func(w *effectWorld) {
			for i, status := range []int{400, 401, 409, 429, 500, 503} {
				for _, op := range []string{"Notify", "Robot", "CreateRecord", "FindRecord"} {
					w.targets.Faults.Add(cloudtest.Fault{Op: op, Kind: cloudtest.Status, Status: status, Code: "call " + phone})
				}
				w.deliver(w.instance(), place("e", string(rune('a'+i)), 5))
				time.Sleep(time.Hour)
				w.deliver(w.instance(), place("e", string(rune('a'+i)), 5))
				w.targets.Faults.Clear()
			}
		},
		"a wrong token": func(w *effectWorld) {
			w.acked(w.deliver(w.instance(func(o *handler.Options) {
				o.Effects = flows.Effects(flows.Tools{
					Notify: flows.Target{Name: "notify", URL: "http://target.example/notify", Token: "planted-target-token-of-old"}, Transport: w,
				})
			}), place("e1", "17", 5)), handler.DecisionFinal)
		},
		"a lost answer": func(w *effectWorld) {
			w.targets.Faults.Add(cloudtest.Fault{Op: "Robot", Phase: cloudtest.After, Kind: cloudtest.Drop})
			w.acked(w.deliverUntilAcked(place("e1", "17", 5)), handler.DecisionOutcomeUnknown)
		},
		"errors, panics and numbers of a user's effect": func(w *effectWorld) {
			for i, send := range []func() (string, error){
				func() (string, error) { return "", errors.New("call " + phone) },
				func() (string, error) { panic("call " + phone) },
				func() (string, error) {
					return "", &flows.Error{Failure: unavailable, Err: errors.New("call " + phone)}
				},
			} {
				raw := place("e", string(rune('a'+i)), 5)
				h := w.instance(func(o *handler.Options) { o.Effects["notify"] = unruly{send} })
				if o := w.deliver(h, raw); o.err == nil {
					w.t.Errorf("got %v", o)
				}
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			inEffectWorld(t, targettest.Options{}, []string{notice, entry, alarm}, func(_ *testing.T, w *effectWorld) {
				run(w)
				w.leaks(w.cred.AccessKeySecret, w.cred.SecurityToken, targetToken, keySecret, phone)
			})
		})
	}
}

func TestAnEffectThatPanicsMayHaveHappened(t *testing.T) {
	inEffectWorld(t, targettest.Options{}, []string{alarm}, func(t *testing.T, w *effectWorld) {
		raw := place("e1", "17", 5)
		h := w.instance(func(o *handler.Options) {
			o.Effects["robot"] = unruly{func() (string, error) { panic("oh") }}
		})
		w.acked(w.deliver(h, raw), handler.DecisionOutcomeUnknown)
		w.awaitsAPerson("alarm", raw)
	})
}

func TestAnEffectsOddCodeIsUnclassified(t *testing.T) {
	for _, code := range []idempotency.Code{"", idempotency.CodeInProgress, "odd"} {
		inEffectWorld(t, targettest.Options{}, []string{alarm}, func(t *testing.T, w *effectWorld) {
			w.budget = 6
			raw := place("e1", "17", 5)
			h := w.instance(func(o *handler.Options) {
				o.Effects["robot"] = unruly{func() (string, error) {
					return "", &flows.Error{Failure: idempotency.Failure{Code: code}}
				}}
			})
			if o := w.deliver(h, raw); o.err == nil {
				t.Errorf("%q: got %v", code, o)
			}
			time.Sleep(time.Hour)
			w.acked(w.deliver(h, raw), handler.DecisionFinal) // tried twice at most
			if r := w.stands(idempotency.StatusFailedFinal, 2); r.LastErrorTarget != "effect:alarm" {
				t.Errorf("%q: record %+v", code, r)
			}
		})
	}
}
