package deadletter

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"sync"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/internal/aliyun"
)

// How many items are taken in at a time, and how many more wait for a turn or
// for one before them: memory is bounded by the items of one window.
const (
	intakeWorkers = 16
	intakeWindow  = 4 * intakeWorkers
)

// IntakeOptions say how many items are taken in.
type IntakeOptions struct {
	Flow    string // of plain records that name none
	Preview bool   // judge alone, store nothing
	Skip    int    // items at the beginning that are passed over
	// Sleep waits before an item is tried again that a service was too busy for; nil
	// ends the intake there at once.
	Sleep func(context.Context, time.Duration) error
	// Jitter is a number from 0 to 1 that makes each wait differ: those who were
	// refused together do not come back together. nil: 1.
	Jitter    func() float64
	Throttled func(item int, wait time.Duration) // told of each wait, from many goroutines; may be nil
}

// throttleWaits are the waits of one item before the intake ends there: about a
// minute, in which a table that has just been made gets its partitions.
var throttleWaits = []time.Duration{
	200 * time.Millisecond, 500 * time.Millisecond, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 15 * time.Second, 30 * time.Second,
}

// maxThrottleWait bounds what a service may ask to wait.
const maxThrottleWait = time.Minute

// wait is how long to wait for a try of an item that failed, and whether to try at
// all: where a service said that it did nothing and asks for fewer calls.
func (o IntakeOptions) wait(err error, try int) (time.Duration, bool) {
	var call *aliyun.Error
	if o.Sleep == nil || try >= len(throttleWaits) || !errors.As(err, &call) || call.Kind != aliyun.KindThrottled {
		return 0, false
	}
	wait := throttleWaits[try]
	if o.Jitter != nil {
		wait = wait/2 + time.Duration(o.Jitter()*float64(wait/2))
	}
	return min(max(wait, call.RetryAfter), maxThrottleWait), true
}

// StoppedError is why an intake ended before the last item. All items before the
// one that it names are taken in; of those after it some may be. Begun again with
// Skip, nothing is left out: what was taken in already is one more sighting.
type StoppedError struct {
	Item int // number of the first item that was not taken in, from 1
	Err  error
}

func (e *StoppedError) Error() string { return fmt.Sprintf("event %d: %v", e.Item, e.Err) }
func (e *StoppedError) Unwrap() error { return e.Err }

// IngestAll takes in, or previews, all items that each yields, some at a time. Items
// of one letter are taken one after the other, in their order. taken is called
// from this goroutine with every item that was taken in, by rising number from 1,
// whatever became of those before it.
//
// An item that a service is too busy for is tried again, as o says; that may count
// as one sighting more. The first item that fails ends it once those under way are through. The error is
// a *StoppedError then, and where ctx is over; an error of taken or of each ends it
// likewise and is returned as it is.
func (d *Desk) IngestAll(ctx context.Context, each func(func(Item) error) error, o IntakeOptions, taken func(n int, j Judgement) error) error {
	in := intake{desk: d, o: o, stop: make(chan struct{}), ordered: make(chan *arrival, intakeWindow)}
	for i := range in.lanes {
		in.lanes[i] = make(chan *arrival, intakeWindow)
	}
	var workers sync.WaitGroup
	for _, lane := range in.lanes {
		workers.Go(func() { in.work(ctx, lane) })
	}
	var readErr error
	workers.Go(func() { readErr = in.read(ctx, each) })
	var stopped *StoppedError
	var mine error
	for a := range in.ordered {
		<-a.done
		switch {
		case a.err != nil && stopped == nil:
			stopped = &StoppedError{a.n, a.err}
			in.end()
		case a.err == nil && mine == nil:
			if mine = taken(a.n, a.judgement); mine != nil {
				in.end()
			}
		}
	}
	workers.Wait()
	switch {
	case mine != nil:
		return mine
	case stopped != nil:
		return stopped
	case ctx.Err() != nil && readErr != nil:
		return &StoppedError{in.n + 1, ctx.Err()}
	case errors.Is(readErr, errEnded):
		return nil
	}
	return readErr
}

// arrival is one item on its way; done is closed once it is through.
type arrival struct {
	n         int
	entry     entry
	done      chan struct{}
	judgement Judgement
	err       error
}

type intake struct {
	desk    *Desk
	o       IntakeOptions
	n       int // items that were handed out or passed over
	lanes   [intakeWorkers]chan *arrival
	ordered chan *arrival // by rising number
	once    sync.Once
	stop    chan struct{}
}

var errEnded = errors.New("the intake has ended")

func (in *intake) end() { in.once.Do(func() { close(in.stop) }) }

// read hands items to the lane that their letter has: one worker takes all of a
// letter's.
func (in *intake) read(ctx context.Context, each func(func(Item) error) error) error {
	defer func() {
		close(in.ordered)
		for _, lane := range in.lanes {
			close(lane)
		}
	}()
	seed := maphash.MakeSeed()
	return each(func(item Item) error {
		if in.n < in.o.Skip {
			in.n++
			return nil
		}
		a := &arrival{n: in.n + 1, entry: in.desk.read(item, in.o.Flow), done: make(chan struct{})}
		if err := ctx.Err(); err != nil {
			return err
		}
		select {
		case <-in.stop:
			return errEnded
		default:
		}
		select {
		case in.ordered <- a: // never more than the window: a lane has room for all of it
		case <-in.stop:
			return errEnded
		}
		in.n++
		in.lanes[maphash.String(seed, a.entry.letter.ID)%intakeWorkers] <- a
		return nil
	})
}

func (in *intake) work(ctx context.Context, lane <-chan *arrival) {
	take := in.desk.ingest
	if in.o.Preview {
		take = in.desk.preview
	}
	for a := range lane {
		select {
		case <-in.stop:
			a.err = errEnded
		default:
			a.judgement, a.err = in.take(ctx, a, take)
		}
		a.entry = entry{}
		close(a.done)
	}
}

func (in *intake) take(ctx context.Context, a *arrival, take func(context.Context, entry) (Judgement, error)) (Judgement, error) {
	for try := 0; ; try++ {
		j, err := take(ctx, a.entry)
		wait, again := in.o.wait(err, try)
		if !again {
			return j, err
		}
		if in.o.Throttled != nil {
			in.o.Throttled(a.n, wait)
		}
		if in.o.Sleep(ctx, wait) != nil {
			return j, err
		}
		select {
		case <-in.stop:
			return j, err
		default:
		}
	}
}

// entry is an item as it was read: the letter that it makes but for the times of
// its sighting, and the bytes of its event.
type entry struct {
	letter letter.Letter
	raw    []byte
}
