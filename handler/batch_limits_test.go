package handler_test

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/strictjson"
)

// crowd counts who works at once.
type crowd struct {
	mu       sync.Mutex
	now, max int
	again    int      // those inside whose task ran before
	overlap  bool     // one whose task ran before had company
	order    []string // of entering
}

func (c *crowd) enter(t flows.Task) (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	again := 0
	if t.Attempt > 1 {
		again = 1
	}
	c.now, c.again = c.now+1, c.again+again
	c.max, c.overlap = max(c.max, c.now), c.overlap || (c.again > 0 && c.now > 1)
	c.order = append(c.order, orderNo(t))
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.now, c.again = c.now-1, c.again-again
	}
}

// takes is work that takes a while and is counted.
func (c *crowd) takes(d time.Duration) func(context.Context, flows.Task) (map[string]any, error) {
	return func(_ context.Context, t flows.Task) (map[string]any, error) {
		defer c.enter(t)()
		time.Sleep(d)
		return map[string]any{"a": 1}, nil
	}
}

func TestNoMoreMembersRunAtOnceThanConfigured(t *testing.T) {
	for configured, want := range map[int]int{0: 16, 1: 1, 4: 4, 100: 40} {
		t.Run(fmt.Sprint(configured), func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				var c crowd
				w.work.set(c.takes(time.Second))
				var members [][]byte
				for i := range 40 {
					members = append(members, order(fmt.Sprint("e", i), fmt.Sprint(i), 5))
				}
				began := time.Now()
				h := w.instance(func(o *handler.Options) { o.BatchConcurrency = configured })
				if _, err := w.batch(h, batchOf(members...)); err != nil || c.max != want || w.work.runs() != 40 {
					t.Errorf("error %v, %d at once, want %d, %d runs", err, c.max, want, w.work.runs())
				}
				if took, most := time.Since(began), time.Duration((39+want)/want)*time.Second; took > most {
					t.Errorf("took %s, want %s at most", took, most)
				}
			})
		})
	}
}

func TestTheCodeOfABatchIsTheFirstThatSaysMoreThanInProgress(t *testing.T) {
	running := order("r", "running", 5)
	codes := map[string]idempotency.Code{"t": idempotency.CodeTimeout, "l": idempotency.CodeRateLimited}
	for _, c := range []struct {
		orders string
		want   idempotency.Code // "" for an acknowledgement
	}{
		{"oo", ""},
		{"or", idempotency.CodeInProgress},
		{"rtl", idempotency.CodeTimeout},
		{"olrt", idempotency.CodeRateLimited},
		{"ro", idempotency.CodeInProgress},
	} {
		t.Run(c.orders, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				w.seed(running, nil)
				w.work.set(func(_ context.Context, task flows.Task) (map[string]any, error) {
					if code := codes[orderNo(task)[:1]]; code != "" {
						return nil, &flows.Error{Failure: idempotency.Failure{Code: code, Target: "model:m"}}
					}
					return map[string]any{"a": 1}, nil
				})
				var members [][]byte
				for i, o := range c.orders {
					if o == 'r' {
						members = append(members, running)
					} else {
						members = append(members, order(fmt.Sprint("e", i), fmt.Sprint(string(o), i), 5))
					}
				}
				_, err := w.batch(w.instance(), batchOf(members...))
				if c.want == "" {
					must(t, err)
					return
				}
				w.retried(outcome{err: err}, c.want)
				if text := "deliver again"; !strings.Contains(err.Error(), text) {
					t.Errorf("the error's text is %q", err)
				}
			})
		})
	}
}

func TestAPanicInAMemberStaysThere(t *testing.T) {
	t.Run("in its processor", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			w.work.set(func(_ context.Context, task flows.Task) (map[string]any, error) {
				if orderNo(task) == "2" {
					panic("order 2")
				}
				return map[string]any{"a": 1}, nil
			})
			raw := batchOf(orders("1", "2", "3")...)
			w.retriedBatch(w.instance(), raw, idempotency.CodeUnclassified, executed, retry, executed)
			time.Sleep(time.Minute)
			w.ackedBatch(w.instance(), raw, duplicate, handler.DecisionFinal, duplicate)
			w.openLetter(letter.CodeUnclassified, order("e-2", "2", 5))
			w.leaks("order 2")
		})
	})
	t.Run("outside of it", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			n := 0
			h := w.instance(func(o *handler.Options) {
				o.BatchConcurrency = 1
				o.NewOwner = func() string {
					if n++; n == 2 {
						panic("no entropy")
					}
					return fmt.Sprintf("owner-token-%04d", n)
				}
			})
			raw := batchOf(orders("1", "2", "3")...)
			w.retriedBatch(h, raw, idempotency.CodeTemporaryUnavailable, executed, retry, executed)
			w.ackedBatch(h, raw, duplicate, executed, duplicate)
		})
	})
}

func FuzzBatch(f *testing.F) {
	for _, seed := range []string{
		`[]`, `[1,"2",{"a":[null]}]`, " [ \"{\\\"a\\\":1}\" , \"\xff\", {\"a\":1,\"a\":2} ] ", `["\ud800"]`, `["\u0041\n"]`, `[[[[]]]]`, `[1,]`, `[1]2`, `{}`, ``, "[\x00]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		members, err := strictjson.Members(raw)
		tree, strictErr := strictjson.Parse(raw)
		want, isArray := tree.([]any)
		if strictErr != nil || !isArray {
			return
		}
		if err != nil || len(members) != len(want) {
			t.Fatalf("a valid array of %d was cut into %d: %v", len(want), len(members), err)
		}
		var again [][]byte
		for i, m := range members {
			if _, text := want[i].(string); text {
				if m, err = jsontext.AppendQuote(nil, m); err != nil {
					t.Fatalf("member %d: %v", i, err)
				}
			}
			again = append(again, m)
		}
		got, err := strictjson.Parse(batchOf(again...))
		if err != nil || !reflect.DeepEqual(got, tree) {
			t.Errorf("the members make %v (%v), the array is %v", got, err, tree)
		}
	})
}
