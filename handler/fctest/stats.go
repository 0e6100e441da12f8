package fctest

import "sort"

// Stats is a copy of the counters and of the processes that are there now.
type Stats struct {
	Starts      int // processes started
	Invocations int // admitted, whatever became of them; each run of an asynchronous one
	Enqueued    int // asynchronous invocations taken
	Failures    int // ended as Failed
	Crashes     int // ended as Crashed
	Timeouts    int // ended as TimedOut
	LateAnswers int // answers refused because their invocation had ended
	Instances   []Instance
}

// Instance is a process that is there now.
type Instance struct {
	ID    string
	PID   int // 0 while it is being started
	State State
	Runs  int // invocations that ended on it
}

// State says what an instance is doing.
type State string

// The states of an instance that is there.
const (
	Starting  State = "starting" // by the invocation that waits for it
	Busy      State = "busy"
	Idle      State = "idle"
	Abandoned State = "abandoned" // by Options.Abandon, after a time-out
)

// Stats returns the counters and the processes, oldest first.
func (f *Function) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.stats
	all := make([]*instance, 0, len(f.alive))
	for _, in := range f.alive {
		all = append(all, in)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].seq < all[j].seq })
	for _, in := range all {
		one := Instance{ID: in.id, State: in.state, Runs: in.runs}
		select {
		case <-in.started:
			one.PID = in.pid
		default:
		}
		if !in.ended() {
			s.Instances = append(s.Instances, one)
		}
	}
	return s
}
