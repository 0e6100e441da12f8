package ebtest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/oncegate/oncegate/events/ebtest"
)

// poison fails events whose bytes hold a word, until it is cured.
type poison struct {
	mu    sync.Mutex
	word  string
	calls []string
}

func (p *poison) invoke(_ context.Context, d ebtest.Delivery) ebtest.Result {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.calls = append(p.calls, string(d.EventRaw))
	if p.word != "" && bytes.Contains(d.EventRaw, []byte(p.word)) {
		return ebtest.Result{ErrorType: "UnhandledInvocationError"}
	}
	return ebtest.Result{OK: true}
}

func (p *poison) cure() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.word = ""
}

func (p *poison) seen() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.calls)
}

func drain(t *testing.T, b *ebtest.Bus) {
	t.Helper()
	if err := b.Drain(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestToleranceNoneBlocksATargetUntilResume(t *testing.T) {
	p, nap := &poison{word: "bad"}, &naps{}
	b := newBus(t, ebtest.Options{Sleep: nap.sleep, Rules: []ebtest.Rule{
		{Name: "r", Target: p.invoke, ErrorsTolerance: ebtest.TolerateNone, DeadLetter: true},
		{Name: "other", Target: (&target{}).invoke},
	}})
	bad := b.Deliver(context.Background(), []byte("bad"), "r")
	if err := b.Drain(context.Background()); !errors.Is(err, ebtest.ErrBlocked) || !strings.Contains(err.Error(), "1 events") {
		t.Fatalf("drain: %v", err)
	}
	if got := p.seen(); len(got) != 4 {
		t.Fatalf("deliveries %q, want 4", got)
	}
	var good []*ebtest.Tracking
	for range 3 {
		good = append(good, b.Deliver(context.Background(), []byte("good"), "r"))
	}
	elsewhere := b.Deliver(context.Background(), []byte("x"), "other")
	if out := wait(t, elsewhere); out[0].Outcome != ebtest.Acknowledged {
		t.Errorf("another rule: %+v", out)
	}
	if err := b.Drain(context.Background()); !errors.Is(err, ebtest.ErrBlocked) || !strings.Contains(err.Error(), "4 events") {
		t.Errorf("drain: %v", err)
	}
	want := []ebtest.Status{{"r", "", ebtest.Ready, 4}, {"other", "", ebtest.Running, 0}}
	if got := b.States(); !slices.Equal(got, want) {
		t.Errorf("states %+v, want %+v", got, want)
	}
	if letters, _ := b.DeadLetters(); len(letters) != 0 || len(p.seen()) != 4 || len(b.Pending()) != 4 {
		t.Errorf("%d letters, deliveries %q, pending %+v", len(letters), p.seen(), b.Pending())
	}

	if err := b.Resume("r", ""); err != nil {
		t.Fatal(err)
	}
	if err := b.Drain(context.Background()); !errors.Is(err, ebtest.ErrBlocked) {
		t.Fatalf("drain after a resume without a cure: %v", err)
	}
	if n := strings.Count(strings.Join(p.seen(), " "), "bad"); n != 8 {
		t.Errorf("%d deliveries of the poison after a resume, want 8", n)
	}

	p.cure()
	if err := b.Resume("r", ""); err != nil {
		t.Fatal(err)
	}
	drain(t, b)
	if out := wait(t, bad); out[0].Outcome != ebtest.Acknowledged || out[0].Deliveries != 9 {
		t.Errorf("the poison: %+v", out)
	}
	for _, tr := range good {
		if out := wait(t, tr); out[0].Outcome != ebtest.Acknowledged || out[0].Deliveries != 1 {
			t.Errorf("one that waited: %+v", out)
		}
	}
	if got := b.States()[0]; got.State != ebtest.Running || got.Pending != 0 {
		t.Errorf("state %+v", got)
	}
	if err := b.Resume("r", ""); err != nil {
		t.Errorf("resume of a target that runs: %v", err)
	}
	if err := b.Resume("r", "nobody"); !errors.Is(err, ebtest.ErrNoTarget) {
		t.Errorf("resume of nobody: %v", err)
	}
}

func TestRetriesThatWaitWhenATargetIsBlockedAreHeldToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &poison{word: "bad"}
		b := newBus(t, ebtest.Options{Rand: half, Rules: []ebtest.Rule{{Name: "r", Target: p.invoke, ErrorsTolerance: ebtest.TolerateNone}}})
		b.Deliver(t.Context(), []byte("bad first"), "r")
		time.Sleep(20 * time.Second)
		b.Deliver(t.Context(), []byte("bad later"), "r") // retries due at 35, 50 and 65 s; the first one blocks at 45 s
		if err := b.Drain(t.Context()); !errors.Is(err, ebtest.ErrBlocked) {
			t.Fatalf("drain: %v", err)
		}
		time.Sleep(time.Hour)
		if n := strings.Count(strings.Join(p.seen(), " "), "later"); n != 2 {
			t.Errorf("%d deliveries of the later event, want 2", n)
		}
	})
}

func TestCloseLeavesWhatABlockedTargetHoldsPending(t *testing.T) {
	b := newBus(t, ebtest.Options{Sleep: (&naps{}).sleep, Rules: []ebtest.Rule{
		{Name: "r", Target: (&poison{word: "bad"}).invoke, ErrorsTolerance: ebtest.TolerateNone},
	}})
	bad := b.Deliver(context.Background(), []byte("bad"), "r")
	_ = b.Drain(context.Background())
	behind := b.Deliver(context.Background(), []byte("good"), "r")
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
	for tr, deliveries := range map[*ebtest.Tracking]int{bad: 4, behind: 0} {
		if out := wait(t, tr); out[0].Outcome != ebtest.Unfinished || out[0].Deliveries != deliveries {
			t.Errorf("outcome %+v", out)
		}
	}
	if p := b.Pending(); len(p) != 2 || string(p[0].Raw) != "bad" || p[0].Deliveries != 4 {
		t.Errorf("pending %+v", p)
	}
	drain(t, b)
}

func TestEachTargetOfARuleHasItsOwnRetriesAndEnd(t *testing.T) {
	good, bad, blocked := &target{fail: 1}, &target{fail: 1000}, &target{fail: 1000}
	b := newBus(t, ebtest.Options{Sleep: (&naps{}).sleep, Rules: []ebtest.Rule{{Name: "r", Targets: []ebtest.RuleTarget{
		{ID: "good", Target: good.invoke},
		{ID: "bad", Target: bad.invoke, Policy: ebtest.ExponentialDecayRetry, DeadLetter: true},
		{ID: "dropping", Target: (&target{fail: 1000}).invoke},
		{ID: "blocked", Target: blocked.invoke, ErrorsTolerance: ebtest.TolerateNone},
	}}}})
	tr := publish(t, b, event("1"))
	if err := b.Drain(context.Background()); !errors.Is(err, ebtest.ErrBlocked) {
		t.Fatalf("drain: %v", err)
	}
	if got := b.States(); got[0].State != ebtest.Running || got[3] != (ebtest.Status{Name: "r", Target: "blocked", State: ebtest.Ready, Pending: 1}) {
		t.Errorf("states %+v", got)
	}
	if first, err := tr.First(context.Background()); err != nil || first.OK {
		t.Errorf("first is of the first target: %+v, %v", first, err)
	}
	blocked.mu.Lock()
	blocked.fail = 0
	blocked.mu.Unlock()
	if err := b.Resume("r", "blocked"); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, out := range wait(t, tr) {
		got = append(got, fmt.Sprintf("%s/%s %s %d", out.Rule, out.Target, out.Outcome, out.Deliveries))
	}
	want := []string{"r/good acknowledged 2", "r/bad dead_lettered 177", "r/dropping dropped 4", "r/blocked acknowledged 5"}
	if !slices.Equal(got, want) {
		t.Errorf("outcomes %q, want %q", got, want)
	}
	if letters, err := b.DeadLetters(); err != nil || len(letters) != 1 || !bytes.Equal(letters[0].Raw, tr.Raw()) {
		t.Errorf("letters %+v, %v", letters, err)
	}
	if d := good.got[0]; d.Rule != "r" || d.Target != "good" || d.Number != 1 {
		t.Errorf("delivery %+v", d)
	}
	for _, a := range tr.History() {
		if a.Target == "" {
			t.Errorf("attempt without a target: %+v", a)
		}
	}
}

func TestABusRefusesTargetsItCannotKeep(t *testing.T) {
	ok := (&target{}).invoke
	several := func(n int) (all []ebtest.RuleTarget) {
		for i := range n {
			all = append(all, ebtest.RuleTarget{ID: fmt.Sprint(i), Target: ok})
		}
		return all
	}
	if _, err := ebtest.New(ebtest.Options{Rules: []ebtest.Rule{{Name: "r", Targets: several(5)}}}); err != nil {
		t.Errorf("five targets: %v", err)
	}
	for name, r := range map[string]ebtest.Rule{
		"six targets":               {Targets: several(6)},
		"one beside several":        {Targets: several(1), Target: ok},
		"the rule's own dead queue": {Targets: several(1), DeadLetter: true},
		"the rule's own policy":     {Targets: several(1), Policy: ebtest.BackoffRetry},
		"the rule's own tolerance":  {Targets: several(1), ErrorsTolerance: ebtest.TolerateNone},
		"no id":                     {Targets: []ebtest.RuleTarget{{Target: ok}}},
		"an id twice":               {Targets: append(several(2), several(1)...)},
		"no function":               {Targets: []ebtest.RuleTarget{{ID: "a"}}},
		"an unknown policy":         {Targets: []ebtest.RuleTarget{{ID: "a", Target: ok, Policy: "FOREVER"}}},
		"an unknown tolerance":      {Targets: []ebtest.RuleTarget{{ID: "a", Target: ok, ErrorsTolerance: "none"}}},
	} {
		r.Name = "r"
		if _, err := ebtest.New(ebtest.Options{Rules: []ebtest.Rule{r}}); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

func TestAnAsyncTargetFailsWhereTheQueueRefuses(t *testing.T) {
	nap, refused := &naps{}, 2
	b := newBus(t, ebtest.Options{Sleep: nap.sleep, Rules: []ebtest.Rule{{Name: "r", Target: ebtest.AsyncTarget(
		func(_ context.Context, payload []byte) (string, error) {
			if refused--; refused >= 0 {
				return "refused", errors.New("too large")
			}
			return "request of " + string(payload), nil
		})}}})
	tr := b.Deliver(context.Background(), []byte("x"), "r")
	if out := wait(t, tr); out[0].Outcome != ebtest.Acknowledged || out[0].Deliveries != 3 || out[0].Last.RequestID != "request of x" {
		t.Errorf("outcome %+v", out)
	}
	if a := tr.History()[0].Result; a.OK || a.ErrorType == "" || a.RequestID != "refused" {
		t.Errorf("a refused enqueue: %+v", a)
	}
}
