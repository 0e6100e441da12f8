package ebtest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncegate/oncegate/events/ebtest"
)

func TestAFailedDeliveryIsRetriedUntilItSucceeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tg := &target{fail: 2}
		b := newBus(t, ebtest.Options{Rand: half, Rules: []ebtest.Rule{{Name: "r", Target: tg.invoke, DeadLetter: true}}})
		start := time.Now()
		tr := publish(t, b, event("1"))
		first, err := tr.First(context.Background())
		if err != nil || first.OK || first.ErrorType != "UnhandledInvocationError" || first.RequestID != "req-1" {
			t.Fatalf("first: %+v, %v", first, err)
		}
		if took := time.Since(start); took != 0 {
			t.Errorf("first took %v", took)
		}
		out := wait(t, tr)
		if took := time.Since(start); took != 30*time.Second {
			t.Errorf("took %v, want two waits of 15 s", took)
		}
		if len(out) != 1 || out[0].Outcome != ebtest.Acknowledged || out[0].Deliveries != 3 ||
			!out[0].Last.OK || string(out[0].Last.Payload) != `"done"` || out[0].Rule != "r" {
			t.Errorf("outcome %+v", out)
		}
		for i, a := range tr.History() {
			if a.Number != i+1 || a.Rule != "r" || a.Result.OK != (i == 2) || !a.At.Equal(start.Add(time.Duration(i)*15*time.Second)) {
				t.Errorf("attempt %d: %+v", i+1, a)
			}
		}
		for i, d := range tg.got {
			if d.Number != i+1 || !bytes.Equal(d.EventRaw, tr.Raw()) {
				t.Errorf("delivery %d: %d %s", i+1, d.Number, d.EventRaw)
			}
		}
		want := map[string]int{"published": 1, "deliveries": 3, "retries": 2, ebtest.Acknowledged: 1}
		if err := b.Drain(t.Context()); err != nil || !maps.Equal(b.Counts(), want) {
			t.Errorf("counts %v, %v, want %v", b.Counts(), err, want)
		}
	})
}

func TestAnExhaustedEventGoesToTheQueueAsItWasDelivered(t *testing.T) {
	for policy, want := range map[ebtest.Policy]struct {
		deliveries int
		waited     time.Duration
	}{
		ebtest.BackoffRetry:          {4, 45 * time.Second},
		ebtest.ExponentialDecayRetry: {177, 86015 * time.Second},
	} {
		t.Run(string(policy), func(t *testing.T) {
			tg, nap := &target{fail: 1000}, &naps{}
			at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)
			b := newBus(t, ebtest.Options{
				Sleep: nap.sleep, Rand: half, Now: func() time.Time { return at },
				Rules: []ebtest.Rule{{Name: "r", Target: tg.invoke, Policy: policy, DeadLetter: true}},
			})
			tr := publish(t, b, event("1"))
			out := wait(t, tr)
			if out[0].Outcome != ebtest.DeadLettered || out[0].Deliveries != want.deliveries || out[0].Last.OK || out[0].Reason != "" {
				t.Errorf("outcome %+v", out[0])
			}
			if len(nap.got) != want.deliveries-1 || nap.sum() != want.waited {
				t.Errorf("%d waits of %v in all", len(nap.got), nap.sum())
			}
			letters, err := b.DeadLetters()
			if err != nil || len(letters) != 1 || !bytes.Equal(letters[0].Raw, tr.Raw()) || !letters[0].Time.Equal(at) || letters[0].ID == "" {
				t.Errorf("letters %+v, %v", letters, err)
			}
			if c := b.Counts(); c["retries"] != want.deliveries-1 || c[ebtest.DeadLettered] != 1 {
				t.Errorf("counts %v", c)
			}
		})
	}
}

func TestAnEventThatNoQueueTakesIsDropped(t *testing.T) {
	big := func(n int) []byte { return bytes.Repeat([]byte("x"), n) }
	for _, tc := range []struct {
		name       string
		raw        []byte
		deadLetter bool
		want       string
		reason     string
	}{
		{"a full message fits", big(ebtest.MaxQueueMessage), true, ebtest.DeadLettered, ""},
		{"a byte more does not", big(ebtest.MaxQueueMessage + 1), true, ebtest.Dropped, "65537 bytes"},
		{"a rule without a queue", event("1"), false, ebtest.Dropped, "no dead-letter queue"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBus(t, ebtest.Options{
				Sleep: (&naps{}).sleep,
				Rules: []ebtest.Rule{{Name: "r", Target: (&target{fail: 9}).invoke, DeadLetter: tc.deadLetter}},
			})
			out := wait(t, b.Deliver(context.Background(), tc.raw, "r"))
			if out[0].Outcome != tc.want || !strings.Contains(out[0].Reason, tc.reason) || out[0].Deliveries != 4 {
				t.Errorf("outcome %+v", out[0])
			}
			letters, err := b.DeadLetters()
			if err != nil || (len(letters) == 1) != (tc.want == ebtest.DeadLettered) {
				t.Errorf("%d letters, %v", len(letters), err)
			}
		})
	}
}

func TestEveryMatchingRuleHasItsOwnDeliveriesAndOutcome(t *testing.T) {
	good, bad, other := &target{fail: 1}, &target{fail: 99}, &target{}
	b := newBus(t, ebtest.Options{Sleep: (&naps{}).sleep, Rules: []ebtest.Rule{
		{Name: "bad", Target: bad.invoke, DeadLetter: true},
		{Name: "other", Target: other.invoke, Pattern: json.RawMessage(`{"source":["elsewhere"]}`)},
		{Name: "good", Target: good.invoke, Pattern: json.RawMessage(`{"source":["app.test"]}`)},
	}})
	tr := publish(t, b, event("1"))
	out := wait(t, tr)
	if len(out) != 2 || out[0].Rule != "bad" || out[0].Outcome != ebtest.DeadLettered || out[0].Deliveries != 4 ||
		out[1].Rule != "good" || out[1].Outcome != ebtest.Acknowledged || out[1].Deliveries != 2 {
		t.Errorf("outcomes %+v", out)
	}
	if first, err := tr.First(context.Background()); err != nil || first.OK {
		t.Errorf("first is of the first rule: %+v, %v", first, err)
	}
	if len(tr.History()) != 6 || len(other.got) != 0 {
		t.Errorf("history %d, other rule %d", len(tr.History()), len(other.got))
	}
}

func TestDeliverHandsOverBytesAsTheyAre(t *testing.T) {
	tg := &target{}
	b := newBus(t, ebtest.Options{Rules: []ebtest.Rule{
		{Name: "r", Target: tg.invoke, Pattern: json.RawMessage(`{"source":["elsewhere"]}`)},
	}})
	raw := []byte("[not\x00json")
	tr := b.Deliver(context.Background(), raw, "r")
	raw[0] = '!'
	if out := wait(t, tr); out[0].Outcome != ebtest.Acknowledged || string(tg.got[0].EventRaw) != "[not\x00json" {
		t.Errorf("outcome %+v of %q", out, tg.got[0].EventRaw)
	}
	unknown := b.Deliver(context.Background(), raw, "nobody")
	if out := wait(t, unknown); out[0].Outcome != ebtest.Unmatched || out[0].Reason == "" {
		t.Errorf("unknown rule: %+v", out)
	}
	if _, err := unknown.First(context.Background()); !errors.Is(err, ebtest.ErrNoDelivery) {
		t.Errorf("first of an unmatched event: %v", err)
	}
}

func TestATargetCannotChangeWhatTheNextDeliveryGets(t *testing.T) {
	var got []string
	b := newBus(t, ebtest.Options{Sleep: (&naps{}).sleep, Rules: []ebtest.Rule{{
		Name: "r", Target: func(_ context.Context, d ebtest.Delivery) ebtest.Result {
			got = append(got, string(d.EventRaw))
			clear(d.EventRaw)
			return ebtest.Result{OK: d.Number == 2}
		},
	}}})
	wait(t, b.Deliver(context.Background(), []byte("abc"), "r"))
	if !slices.Equal(got, []string{"abc", "abc"}) {
		t.Errorf("deliveries %q", got)
	}
}

func TestTheTimeScaleDividesEveryWait(t *testing.T) {
	nap := &naps{}
	b := newBus(t, ebtest.Options{
		TimeScale: 100, Sleep: nap.sleep, Rand: half,
		Rules: []ebtest.Rule{{Name: "r", Target: (&target{fail: 3}).invoke}},
	})
	wait(t, publish(t, b, event("1")))
	want := 150 * time.Millisecond
	if !slices.Equal(nap.got, []time.Duration{want, want, want}) {
		t.Errorf("waits %v, want 3 times %v", nap.got, want)
	}
}

func TestTargetCallsAreBoundedAndWaitsTakeNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		b := newBus(t, ebtest.Options{Concurrency: 3, Rand: half, Rules: []ebtest.Rule{{
			Name: "r", Target: func(_ context.Context, d ebtest.Delivery) ebtest.Result {
				n := now.Add(1)
				defer now.Add(-1)
				for {
					seen := most.Load()
					if n <= seen || most.CompareAndSwap(seen, n) {
						break
					}
				}
				time.Sleep(time.Second)
				return ebtest.Result{OK: d.Number == 2}
			},
		}}})
		start := time.Now()
		for range 9 {
			publish(t, b, event("same id, nothing is deduplicated"))
		}
		if err := b.Drain(t.Context()); err != nil {
			t.Fatal(err)
		}
		// Three rounds of three calls; each round retries 15 s after its end.
		if took := time.Since(start); most.Load() != 3 || took != 19*time.Second {
			t.Errorf("%d at once, took %v", most.Load(), took)
		}
		if c := b.Counts(); c["deliveries"] != 18 || c[ebtest.Acknowledged] != 9 {
			t.Errorf("counts %v", c)
		}
	})
}

func TestFirstAndWaitDoNotDependOnWhichRuleIsFaster(t *testing.T) {
	for _, slow := range []string{"a", "b"} {
		t.Run(slow+" is slower", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				invoke := func(_ context.Context, d ebtest.Delivery) ebtest.Result {
					if d.Rule == slow {
						time.Sleep(time.Minute)
					}
					return ebtest.Result{OK: true, RequestID: d.Rule}
				}
				b := newBus(t, ebtest.Options{Rules: []ebtest.Rule{{Name: "a", Target: invoke}, {Name: "b", Target: invoke}}})
				tr := publish(t, b, event("1"))
				if first, err := tr.First(t.Context()); err != nil || first.RequestID != "a" {
					t.Errorf("first is of rule %q, %v", first.RequestID, err)
				}
				for _, out := range wait(t, tr) {
					if out.Outcome != ebtest.Acknowledged || out.Last.RequestID != out.Rule {
						t.Errorf("outcome %+v", out)
					}
				}
			})
		})
	}
}
