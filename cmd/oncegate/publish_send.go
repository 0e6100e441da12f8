package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/internal/aliyun"
)

// publishing is one event on its way to the bus.
type publishing struct {
	events.Outgoing
	file    string
	outcome publishOutcome
	traceID string
	code    string
}

// publishOutcome is what is known of an event after all calls.
type publishOutcome string

const (
	publishAccepted publishOutcome = "accepted"
	publishRefused  publishOutcome = "refused"  // by the bus, with a code: may be published again
	publishUnknown  publishOutcome = "unknown"  // the answer was lost: may be published again under the same id
	publishNotSent  publishOutcome = "not_sent" // the bus has not taken it: may be published
)

// eventPutter is one call of the bus.
type eventPutter interface {
	PutEvents(ctx context.Context, bus string, events [][]byte) ([]aliyun.Published, error)
}

// publisher sends events in calls of the size that the bus takes.
type publisher struct {
	bus      eventPutter
	sleep    func(context.Context, time.Duration) error
	progress func(format string, args ...any)
}

// publishWaits are the pauses between the tries of one call. A call whose answer
// was lost may have been accepted: it is made again all the same, since the same
// event twice is one business.
var publishWaits = []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second}

// maxPublishWait bounds what a service may ask to wait, so that the command ends.
const maxPublishWait = 10 * time.Second

// send fills in what became of each event, and stops at the first call that did
// not get through.
func (p publisher) send(ctx context.Context, all []*publishing) error {
	for _, one := range all {
		one.outcome = publishNotSent
	}
	calls := cutCalls(all)
	for i, call := range calls {
		if err := p.call(ctx, call); err != nil {
			return fmt.Errorf("publish events, call %d of %d: %w", i+1, len(calls), err)
		}
		if len(calls) > 1 {
			p.progress("call %d of %d", i+1, len(calls))
		}
	}
	return nil
}

// cutCalls cuts events into calls, in order. The events of a call are of one bus, so
// that a bus that is refused keeps back no other's.
func cutCalls(all []*publishing) (calls [][]*publishing) {
	size := 0
	for i, one := range all {
		more := len(one.Raw) + 1 // a comma or bracket each
		if n := len(calls) - 1; i > 0 && one.Bus == all[i-1].Bus && len(calls[n]) < aliyun.MaxPutEvents && size+more < aliyun.MaxPutEventsBytes {
			calls[n], size = append(calls[n], one), size+more
			continue
		}
		calls, size = append(calls, []*publishing{one}), more+1
	}
	return calls
}

func (p publisher) call(ctx context.Context, call []*publishing) error {
	raw := make([][]byte, len(call))
	for i, one := range call {
		raw[i] = one.Raw
	}
	lost := false
	for try := 0; ; try++ {
		answers, err := p.bus.PutEvents(ctx, call[0].Bus, raw)
		if err == nil {
			for i, a := range answers {
				call[i].outcome, call[i].traceID, call[i].code = publishAccepted, a.TraceID, a.Code
				if a.Code != "" {
					call[i].outcome = publishRefused
				}
			}
			return nil
		}
		var failed *aliyun.Error
		known := errors.As(err, &failed)
		lost = lost || !known || failed.Kind == aliyun.KindUnknown && failed.Code != "NoConnection"
		again := known && (failed.Kind == aliyun.KindUnknown || failed.Kind == aliyun.KindThrottled)
		if again && try < len(publishWaits) {
			wait := min(max(publishWaits[try], failed.RetryAfter), maxPublishWait)
			p.progress("%s; again in %s", failed, wait)
			if p.sleep(ctx, wait) == nil {
				continue
			}
		}
		for _, one := range call {
			if known {
				one.code = failed.Code
			}
			if lost {
				one.outcome = publishUnknown
			}
		}
		return err
	}
}
