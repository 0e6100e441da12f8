package handler_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// killed is how an instance dies: from this moment on none of its calls gets out
// or in. revive is for the next instance.
func (w *world) killed() {
	for _, f := range []*cloudtest.Faults{w.tables.Faults, w.objects.Faults} {
		f.Add(drop("", "", -1), cloudtest.Fault{Phase: cloudtest.After, Kind: cloudtest.Drop, Times: -1})
	}
}

func (w *world) revive() {
	w.tables.Faults.Clear()
	w.objects.Faults.Clear()
}

// deadly is work that takes a second, except for orders that begin with "x":
// those kill the instance halfway and never return.
func (w *world) deadly(c *crowd) {
	w.work.set(func(ctx context.Context, t flows.Task) (map[string]any, error) {
		defer c.enter(t)()
		if strings.HasPrefix(orderNo(t), "x") {
			time.Sleep(time.Second / 2)
			w.killed()
			<-ctx.Done()
			return nil, ctx.Err()
		}
		time.Sleep(time.Second)
		return map[string]any{"a": 1}, nil
	})
}

// platform delivers a batch again and again, each time to a new instance and
// after the leases of the one before are over, until it is acknowledged.
func (w *world) platform(raw []byte, concurrency int) handler.BatchResult {
	w.t.Helper()
	for range 10 {
		r, err := w.batch(w.instance(func(o *handler.Options) { o.BatchConcurrency = concurrency }), raw)
		w.revive()
		if err == nil {
			return r
		}
		time.Sleep(timeLimit + policy.Margin + time.Second)
	}
	w.t.Fatalf("the platform gives up\n%s", w.logs)
	return handler.BatchResult{}
}

func (w *world) attempts() map[string]int64 {
	all := map[string]int64{}
	for _, r := range w.records() {
		all[r.EventID] = r.Attempt
	}
	return all
}

func orders(nos ...string) (members [][]byte) {
	for _, no := range nos {
		members = append(members, order("e-"+no, no, 5))
	}
	return members
}

func TestS18_AMemberThatKillsTheInstanceCostsItsNeighboursOneAttemptAtMost(t *testing.T) {
	for name, c := range map[string]struct {
		nos         string
		concurrency int
	}{
		"first":             {"x 1 2 3", 0},
		"last":              {"1 2 3 x", 0},
		"in the middle":     {"1 x 2 3", 0},
		"among few workers": {"1 2 3 4 5 6 x 7 8 9 10 11", 4},
		"on one worker":     {"1 x 2 3", 1},
		"with another":      {"1 x 2 x-too 3 4", 3},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				var all crowd
				w.deadly(&all)
				nos := strings.Fields(c.nos)
				members := orders(nos...)
				r := w.platform(batchOf(members...), c.concurrency)
				deadly := int64(strings.Count(c.nos, "x"))
				for i, m := range r.Members {
					if strings.HasPrefix(nos[i], "x") {
						if m.Decision != handler.DecisionFinal || m.Status != idempotency.StatusFailedFinal || m.Attempt != 3 || m.ErrorCode != idempotency.CodeTimeout {
							t.Errorf("the deadly %s: %+v", nos[i], m)
						}
						w.letterOf(members[i], m.LetterID)
					} else if m.Status != idempotency.StatusSucceeded {
						t.Errorf("%s: %+v", nos[i], m)
					}
				}
				for id, n := range w.attempts() {
					if !strings.HasPrefix(id, "e-x") && n > 1+deadly {
						t.Errorf("%s has lost %d attempts to %d", id, n-1, deadly)
					}
				}
				if all.overlap {
					t.Error("one that was taken over had company")
				}
				if len(w.records()) != len(nos) {
					t.Errorf("%d records", len(w.records()))
				}
			})
		})
	}
}

// letterOf fails the test unless a member that left no word has an open letter.
func (w *world) letterOf(raw []byte, id string) {
	w.t.Helper()
	for _, l := range w.letters() {
		if l.ID == id && l.Open() && l.Code == letter.CodeTimeout && l.Target == "fc:gate" {
			w.holds(l, raw)
			return
		}
	}
	w.t.Errorf("no open letter %s in %+v", id, w.letters())
}

func TestS18_WhoeverDiedWithAnInstanceRunsLastAndAlone(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		died := func(no string, attempts int64) []byte {
			raw := order("e-"+no, no, 5)
			w.seed(raw, func(r *idempotency.Record) { r.Attempt, r.AttemptBudget = attempts, 9 })
			return raw
		}
		members := [][]byte{died("three", 3), died("one", 1), died("two", 2), died("one too", 1)}
		members = append(members, orders("new", "fresh")...)
		time.Sleep(timeLimit + policy.Margin + time.Second)
		var c crowd
		w.work.set(c.takes(time.Second))
		w.ackedBatch(w.instance(), batchOf(members...), executed, executed, executed, executed, executed, executed)
		slices.Sort(c.order[:2])
		if want := []string{"fresh", "new", "one", "one too", "two", "three"}; !slices.Equal(c.order, want) || c.overlap || c.max != 2 {
			t.Errorf("ran in the order %v, want %v; %d at once, with company: %v", c.order, want, c.max, c.overlap)
		}
	})
}

func TestS18_ALaterMemberOfADeadlyBusinessWaitsForItsFirst(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var c crowd
		w.deadly(&c)
		first, later := order("e-x", "x", 5), order("e-x2", "x", 5)
		w.seed(first, func(r *idempotency.Record) { r.Attempt = 2 })
		neighbour := order("e-1", "1", 5)
		w.seed(neighbour, nil)
		time.Sleep(timeLimit + policy.Margin + time.Second)
		raw := batchOf(first, later, neighbour)
		w.retriedBatch(w.instance(), raw, idempotency.CodeTemporaryUnavailable)
		w.revive()
		if !slices.Equal(c.order, []string{"1", "x"}) {
			t.Errorf("ran in the order %v: the deadly one came before its neighbour", c.order)
		}
		for _, r := range w.records() {
			if strings.HasPrefix(r.EventID, "e-x") && r.EventID != "e-x" {
				t.Errorf("the later one ran first: %+v", r)
			}
		}
		time.Sleep(timeLimit + policy.Margin + time.Second)
		w.ackedBatch(w.instance(), raw, handler.DecisionFinal, handler.DecisionFinal, duplicate)
		// One business, two events: each has its letter.
		if n := len(w.letters()); n != 2 {
			t.Errorf("%d letters, want 2", n)
		}
	})
}

func TestTheBusinessOfADeadRunIsDoneOnceForAllItsMembers(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		first := order("e1", "1", 5)
		w.seed(first, nil)
		time.Sleep(timeLimit + policy.Margin + time.Second)
		r := w.ackedBatch(w.instance(), batchOf(first, order("e2", "1", 5), order("e3", "1", 500)), executed, duplicate, handler.DecisionConflict)
		if r[0].Attempt != 2 || r[1].ResultRef != r[0].ResultRef || w.work.runs() != 1 {
			t.Errorf("got %+v after %d runs", r, w.work.runs())
		}
	})
}

func TestADeadRunsStoredOutputIsAdoptedInABatch(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		raw := batchOf(orders("1", "2")...)
		w.tables.Faults.Add(drop("UpdateRow", "", -1))
		w.retriedBatch(w.instance(), raw, idempotency.CodeTemporaryUnavailable, retry, retry)
		w.revive()
		w.retriedBatch(w.instance(), raw, idempotency.CodeInProgress, handler.DecisionInProgress, handler.DecisionInProgress)
		time.Sleep(timeLimit + policy.Margin + time.Second)
		w.ackedBatch(w.instance(), raw, executed, executed)
		if w.work.runs() != 2 || len(w.outputs()) != 2 {
			t.Errorf("%d runs, outputs %v", w.work.runs(), w.outputs())
		}
	})
}

func TestMembersWithoutTimeAreLeftForTheRedelivery(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.limit = 20 * time.Second
		release := make(chan struct{})
		defer close(release)
		w.work.set(func(_ context.Context, task flows.Task) (map[string]any, error) {
			if orderNo(task) == "2" && task.Attempt == 1 {
				<-release // heeds no deadline
			}
			return map[string]any{"a": 1}, nil
		})
		raw := batchOf(orders("1", "2", "3", "4")...)
		h := w.instance(func(o *handler.Options) { o.BatchConcurrency = 1 })
		w.retriedBatch(h, raw, idempotency.CodeTimeout, executed, retry, retry, retry)
		if got := w.attempts(); len(got) != 2 || got["e-1"] != 1 || got["e-2"] != 1 || w.work.runs() != 2 {
			t.Errorf("attempts %v, %d runs", got, w.work.runs())
		}
		time.Sleep(time.Minute)
		w.ackedBatch(h, raw, duplicate, executed, executed, executed)
		if got := w.attempts(); got["e-2"] != 2 || got["e-3"] != 1 || got["e-4"] != 1 {
			t.Errorf("attempts %v", got)
		}
	})
	t.Run("those to be taken over too", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			members := orders("1", "2")
			for _, raw := range members {
				w.seed(raw, nil)
			}
			time.Sleep(timeLimit + policy.Margin + time.Second)
			w.limit = 20 * time.Second
			release := make(chan struct{})
			defer close(release)
			w.work.set(func(context.Context, flows.Task) (map[string]any, error) {
				<-release
				return nil, nil
			})
			w.retriedBatch(w.instance(), batchOf(members...), idempotency.CodeTimeout, retry, retry)
			if got := w.attempts(); got["e-1"] != 2 || got["e-2"] != 1 {
				t.Errorf("attempts %v", got)
			}
		})
	})
}

func TestEveryMemberHasOneLogLine(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		died := order("e-died", "died", 5)
		w.seed(died, nil)
		time.Sleep(timeLimit + policy.Margin + time.Second)
		members := append([][]byte{died, []byte("null")}, orders("1", "1", "2")...)
		w.ackedBatch(w.instance(), batchOf(members...), executed, deadLetter, executed, duplicate, executed)
		lines := map[string]int{}
		for line := range strings.SplitSeq(w.logs.String(), "\n") {
			if strings.Contains(line, `"msg":"delivery"`) {
				_, rest, _ := strings.Cut(line, `"event_id":"`)
				id, _, _ := strings.Cut(rest, `"`)
				lines[id]++
			}
		}
		if lines["e-died"] != 1 || lines[""] != 1 || lines["e-1"] != 2 || lines["e-2"] != 1 || len(lines) != 4 {
			t.Errorf("lines %v\n%s", lines, w.logs)
		}
	})
}
