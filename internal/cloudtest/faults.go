package cloudtest

import (
	"maps"
	"strings"
	"sync"
	"time"
)

// Phase says on which side of a call's effect something happens.
type Phase int

const (
	// Before the effect: the service has not seen the call yet.
	Before Phase = iota
	// After the effect: the service has committed, the caller has no answer yet.
	After
)

func (p Phase) String() string {
	if p == Before {
		return "before"
	}
	return "after"
}

// Kind is what goes wrong with a call.
type Kind int

const (
	// Drop cuts the connection without an answer.
	Drop Kind = iota
	// Truncate announces the whole answer and sends half of it. Before the
	// effect there is no answer to cut, so it acts as Drop there.
	Truncate
	// Delay holds the call for Fault.Delay, then lets it go on.
	Delay
	// Status answers with Fault.Status and Fault.Code in the service's own error format.
	Status
)

func (k Kind) String() string {
	return [...]string{"drop", "truncate", "delay", "status"}[k]
}

// Fault is one planned disturbance. The zero values of Op and Target match
// every call; Times 0 means once, a negative Times for ever.
type Fault struct {
	Op     string // operation as the service names it: PutRow, PutObject, ...
	Target string // substring of Call.Target
	Phase  Phase
	Kind   Kind
	Skip   int // matching calls that pass first
	Times  int
	Delay  time.Duration
	Status int    // HTTP status of Kind Status
	Code   string // the service's error code of Kind Status
}

// Call is one request that reached a stand-in.
type Call struct {
	Service string // tablestore, oss, model, ...
	Op      string
	Target  string // what it is about: table/key, object name, ...
	Seq     int    // 1 for the first call of this stand-in, rising
}

// Faults holds the planned faults, the hooks and the counters of one stand-in.
// The zero value is ready; all methods are safe for concurrent use.
type Faults struct {
	mu       sync.Mutex
	plan     []*Fault
	hook     func(Call, Phase)
	seq      int
	calls    map[string]int
	injected map[string]int
}

// Add plans faults; each call meets at most the first one that matches in each phase.
func (f *Faults) Add(faults ...Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range faults {
		if one.Times == 0 {
			one.Times = 1
		}
		f.plan = append(f.plan, &one)
	}
}

// Clear drops the planned faults and keeps the counters.
func (f *Faults) Clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.plan = nil
}

// Hook sets the function that sees every call on both sides of its effect,
// synchronously and before any fault of that phase. nil removes it.
func (f *Faults) Hook(hook func(Call, Phase)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.hook = hook
}

// Calls returns how many calls of each operation arrived, a copy.
func (f *Faults) Calls() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.calls)
}

// Injected returns how many faults fired, by "op phase kind", a copy.
func (f *Faults) Injected() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.injected)
}

// ResetCalls sets the call counters back to zero.
func (f *Faults) ResetCalls() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls, f.seq = nil, 0
}

func (f *Faults) arrive(service, op, target string) Call {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seq++
	if f.calls == nil {
		f.calls = map[string]int{}
	}
	f.calls[op]++
	return Call{Service: service, Op: op, Target: target, Seq: f.seq}
}

func (f *Faults) next(c Call, phase Phase) *Fault {
	f.mu.Lock()
	hook := f.hook
	f.mu.Unlock()
	if hook != nil {
		hook(c, phase)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, one := range f.plan {
		if one.Phase != phase || one.Times == 0 ||
			(one.Op != "" && one.Op != c.Op) || !strings.Contains(c.Target, one.Target) {
			continue
		}
		if one.Skip > 0 {
			one.Skip--
			continue
		}
		if one.Times > 0 {
			one.Times--
		}
		if f.injected == nil {
			f.injected = map[string]int{}
		}
		f.injected[c.Op+" "+phase.String()+" "+one.Kind.String()]++
		copied := *one
		return &copied
	}
	return nil
}
