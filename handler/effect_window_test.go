package handler_test

import (
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/flows/targettest"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

func withTTL(effect, ttl string) string {
	return strings.Replace(effect, "kind: idempotent", "kind: idempotent, key_ttl: "+ttl, 1)
}

func TestS39_AnIdempotentTargetIsTrustedWhileItRemembers(t *testing.T) {
	for name, c := range map[string]struct {
		after time.Duration
		want  handler.Decision
	}{
		"just inside":   {2*time.Hour - 5*time.Second - policy.Margin - 2*time.Millisecond, handler.DecisionExecuted},
		"at the edge":   {2*time.Hour - 5*time.Second - policy.Margin, handler.DecisionOutcomeUnknown},
		"long after it": {48 * time.Hour, handler.DecisionOutcomeUnknown},
	} {
		t.Run(name, func(t *testing.T) {
			inEffectWorld(t, targettest.Options{KeyTTL: 2 * time.Hour}, []string{withTTL(notice, "2h")}, func(t *testing.T, w *effectWorld) {
				raw := place("e1", "17", 5)
				w.targets.Faults.Add(cloudtest.Fault{Op: "Notify", Phase: cloudtest.After, Kind: cloudtest.Drop})
				w.retried(w.deliver(w.instance(), raw), idempotency.CodeTemporaryUnavailable)
				time.Sleep(c.after)
				w.acked(w.deliver(w.instance(), raw), c.want)
				if w.happened() != 1 {
					t.Errorf("%d notifications", w.happened())
				}
				if c.want == handler.DecisionOutcomeUnknown {
					w.awaitsAPerson("notice", raw)
				}
			})
		})
	}
	t.Run("also when copies were sent meanwhile", func(t *testing.T) {
		inEffectWorld(t, targettest.Options{KeyTTL: 2 * time.Hour}, []string{withTTL(notice, "2h")}, func(t *testing.T, w *effectWorld) {
			raw := place("e1", "17", 5)
			w.targets.Faults.Add(cloudtest.Fault{Op: "Notify", Phase: cloudtest.After, Kind: cloudtest.Drop, Times: -1})
			for range 2 {
				w.retried(w.deliver(w.instance(), raw), idempotency.CodeTemporaryUnavailable)
				time.Sleep(time.Hour + 10*time.Second)
			}
			w.acked(w.deliver(w.instance(), raw), handler.DecisionOutcomeUnknown)
			if n := w.targets.Notifications(); len(n) != 1 || n[0].Count != 2 {
				t.Errorf("notifications %+v", n)
			}
		})
	})
}

func TestS39_AReadableTargetIsLookedUpOnceItShowsTheWrite(t *testing.T) {
	slow := strings.Replace(entry, "visible_after: 1m", "visible_after: 30m", 1)
	for name, phase := range map[string]cloudtest.Phase{"it happened": cloudtest.After, "it did not": cloudtest.Before} {
		t.Run(name, func(t *testing.T) {
			o := targettest.Options{VisibleAfter: 29 * time.Minute, ConflictAfterVisible: true}
			inEffectWorld(t, o, []string{slow}, func(t *testing.T, w *effectWorld) {
				raw := place("e1", "17", 5)
				w.targets.Faults.Add(cloudtest.Fault{Op: "CreateRecord", Phase: phase, Kind: cloudtest.Drop})
				sentAt := time.Now()
				w.retried(w.deliver(w.instance(), raw), idempotency.CodeTemporaryUnavailable)
				window := sentAt.Add(30*time.Minute + 5*time.Second + policy.Margin)
				if r := w.task(); r.NotBefore.Before(window.Truncate(time.Millisecond)) || r.NotBefore.After(window.Add(time.Second)) {
					t.Errorf("not before %s, want the window's end %s", r.NotBefore, window)
				}
				for time.Now().Before(window.Add(-time.Minute)) {
					time.Sleep(time.Minute)
					if o := w.deliver(w.instance(), raw); o.err == nil {
						t.Fatalf("inside the window: %v", o)
					}
				}
				w.stands(idempotency.StatusFailedRetryable, 1)
				time.Sleep(2 * time.Minute)
				w.acked(w.deliver(w.instance(), raw), handler.DecisionExecuted)
				w.stands(idempotency.StatusSucceeded, 2)
				if w.happened() != 1 {
					t.Errorf("%d records", w.happened())
				}
				if row := w.row("entry", idempotency.EffectSettled); (row.Outcome == idempotency.OutcomeTargetExists) != (phase == cloudtest.After) {
					t.Errorf("row %+v", row)
				}
			})
		})
	}
	t.Run("after a crash it waits too, at the price of one attempt", func(t *testing.T) {
		o := targettest.Options{VisibleAfter: 29 * time.Minute, ConflictAfterVisible: true}
		inEffectWorld(t, o, []string{slow}, func(t *testing.T, w *effectWorld) {
			raw := place("e1", "17", 5)
			w.targets.Faults.Hook(once("CreateRecord", "", cloudtest.After, w.kill))
			w.deliver(w.instance(), raw)
			w.revive()
			for range 26 {
				w.retried(w.deliver(w.instance(), raw), idempotency.CodeTimeout)
				time.Sleep(time.Minute)
			}
			w.stands(idempotency.StatusFailedRetryable, 2)
			time.Sleep(5 * time.Minute)
			w.acked(w.deliver(w.instance(), raw), handler.DecisionExecuted)
			if w.happened() != 1 {
				t.Errorf("%d records", w.happened())
			}
		})
	})
	t.Run("a look-up that fails later sends nothing", func(t *testing.T) {
		inEffectWorld(t, targettest.Options{}, []string{entry}, func(t *testing.T, w *effectWorld) {
			raw := place("e1", "17", 5)
			w.targets.Faults.Add(cloudtest.Fault{Op: "CreateRecord", Phase: cloudtest.After, Kind: cloudtest.Drop})
			w.retried(w.deliver(w.instance(), raw), idempotency.CodeTemporaryUnavailable)
			time.Sleep(time.Hour)
			w.refuse("FindRecord", 503, 1)
			w.retried(w.deliver(w.instance(), raw), idempotency.CodeTemporaryUnavailable)
			w.row("entry", idempotency.EffectSent)
			w.acked(w.deliverUntilAcked(raw), handler.DecisionExecuted)
			if n := w.targets.Faults.Calls()["CreateRecord"]; n != 1 {
				t.Errorf("%d writes", n)
			}
		})
	})
}
