package deadletter

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/messages"
)

// Answer is what the function said of one replay. It is shown to people; the
// record alone says how the replay ended.
type Answer struct {
	Refused bool   // the function itself refused, and wrote nothing
	Reason  string // its fixed text
	Failed  bool   // it answered with an error
}

// Invoker calls the function at a version, once: it never sends again by itself.
// An error is a *CallError, or says that nobody knows whether the function ran.
type Invoker interface {
	Invoke(ctx context.Context, qualifier string, e plan.Envelope) (Answer, error)
}

// CallError is a call that did not run the function.
type CallError struct {
	Reason     string // fixed text
	Throttled  bool
	Denied     bool          // this identity may not call the function: no call will do
	RetryAfter time.Duration // of a throttled call, 0 where nobody said
	Err        error         // what the platform said, where more than the reason matters
}

// Unwrap returns what the platform said.
func (e *CallError) Unwrap() error { return e.Err }

func (e *CallError) Error() string { return "invoke function: " + e.Reason }

// EffectReader reads the row of a side effect.
type EffectReader interface {
	Get(ctx context.Context, key string) (idempotency.Effect, bool, error)
}

// Replayer sends the items of approved plans, stage by stage.
//
// Before an item is sent its row says who sends it and when, on the condition
// that nobody has; after that it is never sent again. What became of it is read
// from the business record. So a replayer may die at any step: the next one sends
// what was not sent, and finds out about the rest.
type Replayer struct {
	Desk     *Desk
	Plans    *plan.Store
	Evidence *EvidenceLog
	Audit    *AuditLog
	Effects  EffectReader
	Invoker  Invoker
	Rules    Rules
	By       string // identity
	Owner    string // random, of this replayer
	// Permission says why this identity may not replay, nil where it may.
	Permission func(context.Context) error
	Current    func(context.Context) (string, error)
	Now        func() time.Time
	Sleep      func(context.Context, time.Duration) error
	Progress   func(Progress)
}

// Progress is how far a run is.
type Progress struct {
	Stage, Stages int64
	Counts        plan.Counts
	Note          string // what is waited for, "" while items go
}

// Reasons for which a run ends before its plan does.
var (
	// ErrStopped: a stop condition or an operator stopped the plan for good.
	ErrStopped = messages.Errorf("the replay was stopped")
	// ErrPaused: somebody paused it, or interrupted this run; it can be resumed.
	ErrPaused = messages.Errorf("the replay is paused")
	// ErrLocked: another replayer works on the plan.
	ErrLocked = messages.Errorf("another replayer works on the plan")
	// ErrTampered: the items are not the ones that the plan's digest covers.
	ErrTampered = messages.Errorf("the plan's items are not the ones that were approved")
)

// RefusedError says that a gate refuses the whole plan.
type RefusedError struct{ Gate Gate }

func (e *RefusedError) Error() string { return e.Said().String() }

// Said is the refusal for people.
func (e *RefusedError) Said() messages.Text {
	return messages.T("gate %s refuses: %s", e.Gate.Name, e.Gate.Reason)
}

// lockFor is how long a replayer holds a plan without a sign of life.
const lockFor = time.Minute

// run is one replayer at work on one plan.
type run struct {
	*Replayer
	soft    context.Context // ended: send nothing more, finish what is in flight
	tree    *plan.Tree
	limiter *rate.Limiter
	current string

	mu      sync.Mutex
	plan    plan.Plan
	renewed time.Time
	stop    *stop
	hold    time.Time // nothing is sent before
	strikes int       // throttled calls in a row
	news    map[string]int64
	shown   []Evidence  // events of the group that failed again
	counts  plan.Counts // of the whole plan
	stage   plan.Counts // of the stage that runs
}

// stop is why nothing more is sent.
type stop struct {
	state  plan.State
	by     string
	reason string
}

// Run sends what is left of a plan. soft ended means: finish what is in flight,
// then pause. It returns the plan as it stands; ErrStopped, ErrPaused, ErrLocked,
// ErrTampered or a *RefusedError say why it is not done.
func (r *Replayer) Run(ctx, soft context.Context, planID string) (plan.Plan, error) {
	if err := r.Rules.Check(); err != nil {
		return plan.Plan{}, err
	}
	p, ok, err := r.Plans.Get(ctx, planID)
	if err != nil {
		return plan.Plan{}, err
	}
	if !ok {
		return plan.Plan{}, messages.Errorf("there is no plan %s", planID)
	}
	w := &run{Replayer: r, soft: soft, news: map[string]int64{}}
	if err := w.admit(ctx, p); err != nil {
		return p, err
	}
	if w.current, err = r.Current(ctx); err != nil {
		return p, fmt.Errorf("replay: read the function's version: %w", err)
	}
	if err := w.lock(ctx, p); err != nil {
		return p, err
	}
	runErr := w.all(ctx)
	return w.finish(ctx, runErr)
}

// admit asks the gates that are about the whole plan.
func (w *run) admit(ctx context.Context, p plan.Plan) error {
	if w.Permission != nil {
		if err := w.Permission(ctx); err != nil {
			w.note(ctx, p, ActionRefused, "permission", err.Error())
			return &RefusedError{Gate{Name: GatePermission, Reason: messages.Of(err)}}
		}
	}
	if p.Environment != w.Desk.Environment {
		return &RefusedError{Gate{Name: GateApproval, Reason: messages.T("the plan belongs to another environment")}}
	}
	a, err := w.Plans.Approval(ctx, p.ID)
	if err != nil {
		return err
	}
	if err := plan.CheckApproval(p, a); err != nil {
		w.note(ctx, p, ActionRefused, "approval", err.Error())
		return &RefusedError{Gate{Name: GateApproval, Reason: messages.Of(err)}}
	}
	if err := unchanged(ctx, w.Evidence, w.Plans, p); err != nil {
		if refused := new(RefusedError); errors.As(err, &refused) {
			w.note(ctx, p, ActionRefused, string(refused.Gate.Name), refused.Gate.Reason.String())
		}
		return err
	}
	w.tree = new(plan.Tree)
	for from := int64(0); from >= 0; {
		items, next, err := w.Plans.Items(ctx, p.ID, from, 1000)
		if err != nil {
			return err
		}
		for _, i := range items {
			if err := w.tree.Add(i.Frozen); err != nil {
				return fmt.Errorf("%w: %w", ErrTampered, err)
			}
			w.counts = tally(w.counts, i.Outcome, 1)
			if e, ok := shownBy(i, p); ok {
				w.shown = append(w.shown, e)
			}
			if i.NewFingerprint != "" && i.NewFingerprint != p.Fingerprint {
				w.news[i.NewFingerprint]++
			}
		}
		from = next
	}
	root, err := w.tree.Root()
	if err != nil || w.tree.Count() != p.Count || root != p.ItemsRoot {
		w.note(ctx, p, ActionRefused, "approval", ErrTampered.Error())
		return ErrTampered
	}
	w.limiter = rate.NewLimiter(rate.Limit(float64(p.RateMilli)/1000), int(p.Burst))
	return nil
}

// tally adds n items of an outcome to counts; "" is an item that waits.
func tally(c plan.Counts, o plan.Outcome, n int64) plan.Counts {
	c.Selected += n
	switch o {
	case plan.OutcomeSucceeded:
		c.Succeeded += n
	case plan.OutcomeSkipped:
		c.Skipped += n
	case plan.OutcomeRefused:
		c.Refused += n
	case plan.OutcomeFailed:
		c.Failed += n
	default:
		c.Unresolved += n
	}
	return c
}

// lock takes the plan for this replayer, or says who holds it.
func (w *run) lock(ctx context.Context, p plan.Plan) error {
	now := w.Now()
	if p.LockOwner != "" && p.LockOwner != w.Owner && now.Before(p.LockUntil) {
		return messages.Errorf("%w until %s at the latest", ErrLocked, p.LockUntil.UTC().Format(time.RFC3339))
	}
	next := p
	next.State, next.LockOwner, next.LockUntil, next.UpdatedAt = plan.StateRunning, w.Owner, milli(now.Add(lockFor)), milli(now)
	next.StoppedBy, next.StopReason = "", ""
	stored, err := w.Plans.Update(ctx, p, next)
	if errors.Is(err, plan.ErrChanged) {
		return messages.Errorf("%w: it was faster", ErrLocked)
	}
	if err != nil {
		return err
	}
	w.plan, w.renewed = stored, now
	return w.audit(ctx, stored, ActionRun, "start "+w.Owner, "", "")
}

// alive renews the lock, saves what is known, and reads what operators want. It
// is called between items; w.mu is held.
func (w *run) alive(ctx context.Context, force bool) error {
	now := w.Now()
	if !force && now.Sub(w.renewed) < lockFor/4 {
		return nil
	}
	for range 5 {
		stored, ok, err := w.Plans.Get(ctx, w.plan.ID)
		if err != nil || !ok {
			return errors.Join(err, errors.New("replay: the plan cannot be read"))
		}
		switch {
		case stored.LockOwner != w.Owner:
			w.stop = &stop{reason: "another replayer has taken the plan over"}
			return ErrLocked
		case stored.State == plan.StatePaused || stored.State == plan.StateStopped:
			if w.stop == nil {
				w.stop = &stop{stored.State, stored.StoppedBy, stored.StopReason}
			}
		}
		next := stored
		next.Stage, next.Runs, next.Counts = w.plan.Stage, w.plan.Runs, w.counts
		next.LockUntil, next.UpdatedAt = milli(now.Add(lockFor)), milli(now)
		written, err := w.Plans.Update(ctx, stored, next)
		if errors.Is(err, plan.ErrChanged) {
			continue
		}
		if err != nil {
			return err
		}
		w.plan, w.renewed = written, now
		return nil
	}
	return errors.New("replay: the plan is written by others all the time")
}

func (w *run) tell(note string) {
	if w.Progress == nil {
		return
	}
	w.mu.Lock()
	p := Progress{w.plan.Stage, int64(len(w.plan.Stages)), w.counts, note}
	w.mu.Unlock()
	w.Progress(p)
}

// finish writes how the run ended and gives the lock back.
func (w *run) finish(ctx context.Context, runErr error) (plan.Plan, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if errors.Is(runErr, ErrLocked) {
		return w.plan, runErr
	}
	end := plan.StateDone
	switch {
	case w.stop != nil:
		end = w.stop.state
	case runErr != nil:
		// A store that fails: the lock runs out, and the next replayer goes on.
		return w.plan, runErr
	}
	for range 5 {
		stored, ok, err := w.Plans.Get(ctx, w.plan.ID)
		if err != nil || !ok || stored.LockOwner != w.Owner {
			return w.plan, errors.Join(runErr, err, ErrLocked)
		}
		next := stored
		next.Stage, next.Runs, next.Counts, next.UpdatedAt = w.plan.Stage, w.plan.Runs, w.counts, milli(w.Now())
		next.State, next.LockOwner, next.LockUntil = end, "", time.Time{}
		if w.stop != nil {
			next.StoppedBy, next.StopReason = w.stop.by, w.stop.reason
		}
		if stored.State.Ended() {
			next.State = stored.State
		}
		written, err := w.Plans.Update(ctx, stored, next)
		if errors.Is(err, plan.ErrChanged) {
			continue
		}
		if err != nil {
			return w.plan, errors.Join(runErr, err)
		}
		w.plan = written
		if err := w.audit(ctx, written, ActionRun, fmt.Sprintf("%s %d", written.State, written.Revision), string(written.State), written.StopReason); err != nil {
			return written, err
		}
		switch written.State {
		case plan.StatePaused:
			return written, errors.Join(runErr, fmt.Errorf("%w: %s", ErrPaused, written.StopReason))
		case plan.StateStopped:
			return written, errors.Join(runErr, fmt.Errorf("%w: %s", ErrStopped, written.StopReason))
		}
		return written, runErr
	}
	return w.plan, errors.Join(runErr, errors.New("replay: the plan is written by others all the time"))
}

func (w *run) audit(ctx context.Context, p plan.Plan, action Action, part, final, reason string) error {
	return w.Audit.Add(ctx, Audit{
		ID: AuditID(action, p.ID, part), At: w.Now(), Action: action, Fingerprint: p.Fingerprint, ReplayBatchID: p.ID,
		OriginalTarget: p.Target, FinalStatus: final, OperatorOrRule: w.By, Reason: reason,
	})
}

// note audits a refusal as far as it can: the refusal itself stands.
func (w *run) note(ctx context.Context, p plan.Plan, action Action, gate, reason string) {
	_ = w.Audit.Add(ctx, Audit{
		ID: AuditID(action, p.ID, gate, w.Owner), At: w.Now(), Action: action, Fingerprint: p.Fingerprint, ReplayBatchID: p.ID,
		OriginalTarget: p.Target, OperatorOrRule: w.By, Reason: "replay: " + gate + ": " + reason,
	})
}
