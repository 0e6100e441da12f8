package handler

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/strictjson"
)

// BatchResult answers an acknowledged batch, as JSON.
type BatchResult struct {
	Decision Decision `json:"decision"` // always DecisionBatch
	Members  []Result `json:"members"`  // in the order of the batch
}

// DecisionBatch marks the answer to an array of events.
const DecisionBatch Decision = "batch"

// IsBatch reports whether bytes are an array, as event streams deliver them.
func IsBatch(raw []byte) bool {
	trimmed := bytes.TrimLeft(raw, " \t\r\n")
	return len(trimmed) > 0 && trimmed[0] == '['
}

// HandleBatch handles an array of events, or of texts that hold one event each.
// A batch has one answer for all members, so any error redelivers all of them:
// members that are done are then recognised and not run again. An array that
// cannot be read is one dead letter. The only errors are *RetryError, with the
// code of the first member that must come again.
func (h *Handler) HandleBatch(ctx context.Context, raw []byte, d Delivery) (BatchResult, error) {
	members, err := strictjson.Members(raw)
	if err != nil || len(members) == 0 {
		// Not an event either: Handle keeps it as it is.
		r, err := h.Handle(ctx, raw, d)
		return BatchResult{DecisionBatch, []Result{r}}, err
	}
	b := batch{members: make([]*member, len(members))}
	var groups [][]*member
	at := map[string]int{}
	for i, one := range members {
		m := &member{delivery: h.newDelivery(callMember, one, d), place: i}
		b.members[i] = m
		m.read()
		n, ok := at[m.lane()]
		if !ok {
			n = len(groups)
			at[m.lane()] = n
			groups = append(groups, nil)
		}
		groups[n] = append(groups[n], m)
	}
	b.run(ctx, groups, h.o.BatchConcurrency)
	return b.result()
}

// member is one event of a batch and what became of it.
type member struct {
	*delivery
	place  int // in the batch
	result Result
	err    error
	prior  int64 // attempts that its record had when it was put off
}

// lane is equal for members that run one after the other: those of one business,
// and those that write one dead letter.
func (m *member) lane() string {
	switch {
	case m.kept == nil:
		return "key " + m.key.Hex
	case m.event != nil:
		return "event " + m.event.Source() + " " + m.event.ID()
	default:
		return "bytes " + string(m.raw)
	}
}

// handleMember runs the member; off says that it is to be taken over last and alone.
func (m *member) handleMember(ctx context.Context) (off bool) {
	m.result, m.err = m.guarded(ctx)
	var t *takeover
	if errors.As(m.err, &t) {
		m.prior = t.attempt
		return true
	}
	return false
}

type batch struct {
	members []*member
	mu      sync.Mutex
	off     []*member
}

// run handles groups of members side by side and the members of a group, which
// share a lane, one after the other. A member whose last run died may have taken
// the instance with it, and its neighbours too: such members come last, alone,
// and those that died least often first, so that a deadly one costs its
// neighbours one attempt at most.
func (b *batch) run(ctx context.Context, groups [][]*member, concurrency int) {
	var g errgroup.Group
	g.SetLimit(concurrency)
	for _, group := range groups {
		g.Go(func() error {
			for i, m := range group {
				if m.handleMember(ctx) {
					// The others of the key wait for it, so they come where it comes.
					for _, later := range group[i:] {
						later.prior = m.prior
					}
					b.mu.Lock()
					b.off = append(b.off, group[i:]...)
					b.mu.Unlock()
					return nil
				}
			}
			return nil
		})
	}
	_ = g.Wait()
	slices.SortFunc(b.off, func(x, y *member) int {
		return cmp.Or(cmp.Compare(x.prior, y.prior), cmp.Compare(x.place, y.place))
	})
	for _, m := range b.off {
		m.last = true
		m.result, m.err = m.guarded(ctx)
	}
}

func (b *batch) result() (BatchResult, error) {
	r := BatchResult{Decision: DecisionBatch, Members: make([]Result, len(b.members))}
	var first *RetryError
	for i, m := range b.members {
		r.Members[i] = m.result
		var retry *RetryError
		if errors.As(m.err, &retry) && (first == nil || first.Code == idempotency.CodeInProgress) {
			first = retry
		}
	}
	if first != nil {
		return r, &RetryError{first.Code, first.Result, errors.New("a member of the batch must come again")}
	}
	return r, nil
}
