package ebtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncegate/oncegate/events/ebtest"
)

func push(t *testing.T, b *ebtest.Bus, stream string, raw ...string) (all []*ebtest.Tracking) {
	t.Helper()
	for _, one := range raw {
		tr, err := b.Push(context.Background(), stream, []byte(one))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, tr)
	}
	return all
}

func payloads(tg *target) (all []string) {
	tg.mu.Lock()
	defer tg.mu.Unlock()
	for _, d := range tg.got {
		all = append(all, string(d.EventRaw))
	}
	return all
}

func TestAStreamDeliversAnArrayOfItsMembersBytes(t *testing.T) {
	const one, two = ` { "b" : 1.50,"a":1e2, "z":"\u00e9<&>" } `, `{"n":12345678901234567890}`
	for form, want := range map[ebtest.Form]string{
		"":             "[" + one + "," + two + "]",
		ebtest.Objects: "[" + one + "," + two + "]",
		ebtest.Strings: `[" { \"b\" : 1.50,\"a\":1e2, \"z\":\"\\u00e9<&>\" } ","{\"n\":12345678901234567890}"]`,
	} {
		t.Run("form "+string(form), func(t *testing.T) {
			tg := &target{}
			b := newBus(t, ebtest.Options{Streams: []ebtest.Stream{{Name: "s", Target: tg.invoke, Form: form, BatchCount: 2, BatchWait: time.Second}}})
			for _, tr := range push(t, b, "s", one, two) {
				if out := wait(t, tr); out[0].Outcome != ebtest.Acknowledged || out[0].Rule != "s" || out[0].Deliveries != 1 {
					t.Errorf("outcome %+v", out)
				}
			}
			if got := payloads(tg); !slices.Equal(got, []string{want}) || !json.Valid([]byte(want)) {
				t.Errorf("delivered\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestOneFaultRedeliversTheWholeArray(t *testing.T) {
	tg, nap := &target{fail: 2}, &naps{}
	b := newBus(t, ebtest.Options{Sleep: nap.sleep, Rand: half, Streams: []ebtest.Stream{{Name: "s", Target: tg.invoke, BatchCount: 3}}})
	// The first member goes alone or with others: no window holds it back.
	all := push(t, b, "s", `{"n":1}`, `{"n":2}`, `{"n":3}`)
	drain(t, b)
	for _, tr := range all {
		if out := wait(t, tr); out[0].Outcome != ebtest.Acknowledged || out[0].Deliveries != 3 || len(tr.History()) != 3 {
			t.Errorf("outcome %+v", out)
		}
	}
	got := payloads(tg)
	for i := 0; i < len(got); i += 3 {
		if got[i] != got[i+1] || got[i] != got[i+2] {
			t.Errorf("deliveries %q are not the same array three times", got[i:i+3])
		}
	}
	if joined := strings.Join(got, ""); strings.Count(joined, `{"n":2}`) != 3 {
		t.Errorf("deliveries %q", got)
	}
}

func TestABatchEndsByCountBySizeOrByTime(t *testing.T) {
	for _, c := range []struct {
		name string
		s    ebtest.Stream
		want []string // payload and the second it was delivered at
	}{
		{"by count", ebtest.Stream{BatchCount: 2, BatchWait: 10 * time.Second}, []string{`[{"n":0},{"n":1}] at 3`, `[{"n":2},{"n":3}] at 9`, `[{"n":4}] at 22`}},
		{"by time", ebtest.Stream{BatchCount: 100, BatchWait: 5 * time.Second}, []string{`[{"n":0},{"n":1}] at 5`, `[{"n":2},{"n":3}] at 11`, `[{"n":4}] at 17`}},
		{"by size", ebtest.Stream{BatchCount: 100, BatchWait: 10 * time.Second, MaxBatchBytes: 25}, []string{`[{"n":0},{"n":1},{"n":2}] at 9`, `[{"n":3},{"n":4}] at 19`}},
		{"by a byte less", ebtest.Stream{BatchCount: 100, BatchWait: 10 * time.Second, MaxBatchBytes: 24}, []string{`[{"n":0},{"n":1}] at 6`, `[{"n":2},{"n":3}] at 12`, `[{"n":4}] at 22`}},
		{"at once without a window", ebtest.Stream{BatchCount: 100}, []string{`[{"n":0}] at 0`, `[{"n":1}] at 3`, `[{"n":2}] at 6`, `[{"n":3}] at 9`, `[{"n":4}] at 12`}},
		{"one by one by default", ebtest.Stream{}, []string{`[{"n":0}] at 0`, `[{"n":1}] at 3`, `[{"n":2}] at 6`, `[{"n":3}] at 9`, `[{"n":4}] at 12`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				var got []string
				c.s.Name = "s"
				c.s.Target = func(_ context.Context, d ebtest.Delivery) ebtest.Result {
					got = append(got, fmt.Sprintf("%s at %d", d.EventRaw, time.Since(start)/time.Second))
					return ebtest.Result{OK: true}
				}
				b := newBus(t, ebtest.Options{Streams: []ebtest.Stream{c.s}})
				for n := range 5 {
					push(t, b, "s", fmt.Sprintf(`{"n":%d}`, n))
					time.Sleep(3 * time.Second)
				}
				drain(t, b)
				if !slices.Equal(got, c.want) {
					t.Errorf("got  %q\nwant %q", got, c.want)
				}
			})
		})
	}
}

func TestTheTimeScaleDividesAStreamsWindow(t *testing.T) {
	nap := &naps{}
	b := newBus(t, ebtest.Options{TimeScale: 100, Sleep: nap.sleep, Streams: []ebtest.Stream{
		{Name: "s", Target: (&target{}).invoke, BatchCount: 9, BatchWait: 15 * time.Second},
	}})
	wait(t, push(t, b, "s", `{}`)[0])
	if want := []time.Duration{150 * time.Millisecond}; !slices.Equal(nap.got, want) {
		t.Errorf("waits %v, want %v", nap.got, want)
	}
}

func TestABatchThatFailsForGoodEndsMemberByMember(t *testing.T) {
	for _, c := range []struct {
		name       string
		deadLetter bool
		form       ebtest.Form
		want       string
	}{
		{"with a queue", true, ebtest.Objects, ebtest.DeadLettered},
		{"with a queue, as strings", true, ebtest.Strings, ebtest.DeadLettered},
		{"without one", false, ebtest.Objects, ebtest.Dropped},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tg := &target{fail: 4}
				b := newBus(t, ebtest.Options{Streams: []ebtest.Stream{{
					Name: "s", Target: tg.invoke, DeadLetter: c.deadLetter, Form: c.form, BatchCount: 2, BatchWait: time.Second,
				}}})
				raw := []string{` {"n":1}`, `{"n":2} `}
				for _, tr := range push(t, b, "s", raw...) {
					if out := wait(t, tr); out[0].Outcome != c.want || out[0].Deliveries != 4 || (out[0].Reason == "") != c.deadLetter {
						t.Errorf("outcome %+v", out)
					}
				}
				got, _ := bodies(t, b)
				if c.deadLetter != slices.Equal(got, raw) || (!c.deadLetter && got != nil) {
					t.Errorf("letters %q", got)
				}
			})
		})
	}
}

func TestAStreamOfToleranceNoneIsBlockedAndResumes(t *testing.T) {
	p := &poison{word: "bad"}
	b := newBus(t, ebtest.Options{Sleep: (&naps{}).sleep, Streams: []ebtest.Stream{
		{Name: "s", Target: p.invoke, ErrorsTolerance: ebtest.TolerateNone, DeadLetter: true},
	}})
	all := push(t, b, "s", `{"n":"bad"}`, `{"n":2}`, `{"n":3}`)
	if err := b.Drain(context.Background()); !errors.Is(err, ebtest.ErrBlocked) || !strings.Contains(err.Error(), "3 events") {
		t.Fatalf("drain: %v", err)
	}
	if got := b.States(); got[0] != (ebtest.Status{Name: "s", State: ebtest.Ready, Pending: 3}) || len(p.seen()) != 4 {
		t.Errorf("states %+v, deliveries %q", got, p.seen())
	}
	p.cure()
	if err := b.Resume("s", ""); err != nil {
		t.Fatal(err)
	}
	drain(t, b)
	want := slices.Concat(slices.Repeat([]string{`[{"n":"bad"}]`}, 5), []string{`[{"n":2}]`, `[{"n":3}]`})
	if got := p.seen(); !slices.Equal(got, want) {
		t.Errorf("deliveries %q, want %q", got, want)
	}
	for _, tr := range all {
		if out := wait(t, tr); out[0].Outcome != ebtest.Acknowledged {
			t.Errorf("outcome %+v", out)
		}
	}
}

func TestPushRefusesWhatCannotBeAMember(t *testing.T) {
	b := newBus(t, ebtest.Options{Streams: []ebtest.Stream{
		{Name: "objects", Target: (&target{}).invoke, MaxBatchBytes: 20},
		{Name: "strings", Target: (&target{}).invoke, MaxBatchBytes: 20, Form: ebtest.Strings},
	}})
	for _, c := range []struct{ stream, raw, code string }{
		{"objects", `{"n":"12345678901"}`, ebtest.CodeTooLarge},
		{"objects", `{"n":"1234567890"}`, ""},
		{"objects", `["n"]`, ebtest.CodeNotJSON},
		{"objects", `{"n":1`, ebtest.CodeNotJSON},
		{"objects", `{"n":1}{}`, ebtest.CodeNotJSON},
		{"strings", `1234567890123456`, ""},
		{"strings", `12345678901234567`, ebtest.CodeTooLarge},
		{"strings", `not json`, ""},
		{"strings", "\xff", ebtest.CodeNotJSON},
	} {
		_, err := b.Push(context.Background(), c.stream, []byte(c.raw))
		refused, _ := errors.AsType[*ebtest.PublishError](err)
		if (c.code == "") != (err == nil) || (c.code != "" && (refused == nil || refused.Code != c.code)) {
			t.Errorf("%s: %q: %v, want code %q", c.stream, c.raw, err, c.code)
		}
	}
	if _, err := b.Push(context.Background(), "nobody", nil); !errors.Is(err, ebtest.ErrNoTarget) {
		t.Errorf("an unknown stream: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := b.Push(ctx, "objects", []byte("{}")); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled push: %v", err)
	}
	_ = b.Close()
	if _, err := b.Push(context.Background(), "objects", []byte("{}")); !errors.Is(err, ebtest.ErrClosed) {
		t.Errorf("a closed bus: %v", err)
	}
}

func TestCloseLeavesAStreamsMembersPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBus(t, ebtest.Options{Streams: []ebtest.Stream{
			{Name: "busy", Target: (&target{fail: 9}).invoke},
			{Name: "window", Target: (&target{}).invoke, BatchCount: 9, BatchWait: 15 * time.Second},
		}})
		all := append(push(t, b, "busy", `{"n":1}`, `{"n":2}`), push(t, b, "window", `{"n":3}`)...)
		synctest.Wait()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		for i, deliveries := range []int{1, 0, 0} {
			if out := wait(t, all[i]); out[0].Outcome != ebtest.Unfinished || out[0].Deliveries != deliveries {
				t.Errorf("outcome %+v", out)
			}
		}
		var left []string
		for _, p := range b.Pending() {
			left = append(left, p.Rule+" "+string(p.Raw))
		}
		if want := []string{`busy {"n":1}`, `busy {"n":2}`, `window {"n":3}`}; !slices.Equal(left, want) {
			t.Errorf("left %q, want %q", left, want)
		}
	})
}

func TestABusRefusesStreamsItCannotKeep(t *testing.T) {
	ok := (&target{}).invoke
	for name, all := range map[string][]ebtest.Stream{
		"no name":                  {{Target: ok}},
		"no target":                {{Name: "s"}},
		"a rule's name":            {{Name: "rule", Target: ok}},
		"a name twice":             {{Name: "s", Target: ok}, {Name: "s", Target: ok}},
		"10001 members":            {{Name: "s", Target: ok, BatchCount: 10001}},
		"a negative count":         {{Name: "s", Target: ok, BatchCount: -1}},
		"a window of 16 s":         {{Name: "s", Target: ok, BatchWait: 16 * time.Second}},
		"a negative window":        {{Name: "s", Target: ok, BatchWait: -1}},
		"a batch above 32 MB":      {{Name: "s", Target: ok, MaxBatchBytes: ebtest.MaxBatchBytes + 1}},
		"an unknown form":          {{Name: "s", Target: ok, Form: "xml"}},
		"an unknown policy":        {{Name: "s", Target: ok, Policy: "FOREVER"}},
		"an unknown tolerance":     {{Name: "s", Target: ok, ErrorsTolerance: "SOME"}},
		"a loop of dead letters":   {{Name: "s", Target: ok, FromDeadLetters: true, DeadLetter: true}},
		"two readers of one queue": {{Name: "s", Target: ok, FromDeadLetters: true}, {Name: "z", Target: ok, FromDeadLetters: true}},
	} {
		if _, err := ebtest.New(ebtest.Options{Rules: []ebtest.Rule{{Name: "rule", Target: ok}}, Streams: all}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
