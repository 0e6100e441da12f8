package deadletter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

// item brings one item to its end, or leaves it waiting where nothing more is to
// be sent.
func (w *run) item(ctx context.Context, i plan.Item) error {
	if !i.SentAt.IsZero() {
		// A replayer that died has sent it: it is never sent again.
		j, err := w.judge(ctx, i)
		if err != nil {
			return err
		}
		return w.findOut(ctx, i, j, nil, Answer{}, errors.New("its answer was lost"))
	}
	for !w.halted(ctx) {
		j, outcome, reason, err := w.ask(ctx, i)
		if err != nil {
			return err
		}
		if outcome != "" {
			return w.end(ctx, i, j, result{outcome: outcome, reason: reason})
		}
		if err := w.pace(ctx); err != nil || w.halted(ctx) {
			return err
		}
		again, err := w.send(ctx, i, j)
		if err != nil || again == nil {
			return err
		}
		i = *again
	}
	return nil
}

// judge reads what is known of an item's letter now.
func (w *run) judge(ctx context.Context, i plan.Item) (Judgement, error) {
	l, ok, err := w.Desk.Letters.Get(ctx, i.LetterID)
	if err != nil {
		return Judgement{}, fmt.Errorf("replay: %w", err)
	}
	if !ok {
		l = letter.Letter{ID: i.LetterID, EventID: i.EventID}
		return Judgement{Letter: l}, nil
	}
	if l.Key == "" {
		l.Key, l.InputDigest = i.Key, i.InputDigest
	}
	return w.Desk.Judge(ctx, l)
}

// reasonGone is of ids that no longer resolve (S47).
const reasonGone = "the letter is not there any more"

// ask asks every gate about an item; outcome "" lets it go.
func (w *run) ask(ctx context.Context, i plan.Item) (Judgement, plan.Outcome, string, error) {
	j, err := w.judge(ctx, i)
	switch {
	case err != nil:
		return j, "", "", err
	case j.Letter.Revision == 0:
		return j, plan.OutcomeUnresolved, reasonGone, nil
	case !j.Letter.Open():
		return j, plan.OutcomeSkipped, "the letter has ended: " + string(j.Letter.FinalStatus), nil
	case j.Decision == SkipCompleted:
		return j, plan.OutcomeSkipped, j.Rule.String(), nil
	}
	facts := GateFacts{
		Now: w.Now(), Judgement: j, Item: &i.Frozen, Current: w.current,
		MaxGenerations: w.Rules.MaxGenerations, CallTimeout: w.Rules.CallTimeout,
	}
	if i.EvidenceID != "" {
		all, err := w.Evidence.Of(ctx, w.header().Fingerprint)
		if err != nil {
			return j, "", "", err
		}
		w.mu.Lock()
		all = append(all, w.shown...)
		w.mu.Unlock()
		facts.Evidence, facts.EvidenceWhy = EvidenceFor(j.Code, all, j.Letter, lastFailure(j))
	}
	ok, first := Passes(Gates(facts))
	if ok {
		if facts.Family, err = Family(ctx, w.Desk.Letters, w.Audit, j.Letter); err != nil {
			return j, "", "", err
		}
		ok, first = Passes(Gates(facts))
	}
	if !ok {
		reason := string(first.Name) + ": " + first.Reason.String()
		if !first.Until.IsZero() {
			reason += ", until " + first.Until.UTC().Format(time.RFC3339)
		}
		return j, plan.OutcomeRefused, reason, nil
	}
	return j, "", "", nil
}

func (w *run) header() plan.Header {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.plan.Header
}

// pace waits until the rate, and a target that asked to wait, let one more go.
func (w *run) pace(ctx context.Context) error {
	w.mu.Lock()
	now := w.Now()
	delay := w.limiter.ReserveN(now, 1).DelayFrom(now)
	if wait := w.hold.Sub(now); wait > delay {
		delay = wait
	}
	err := w.alive(ctx, false)
	w.mu.Unlock()
	if err != nil || delay <= 0 {
		return err
	}
	return w.Sleep(ctx, delay)
}

// send sends one item and finds out about it. again is the item where it was not
// sent after all and may be later.
func (w *run) send(ctx context.Context, i plan.Item, j Judgement) (again *plan.Item, err error) {
	raw, err := w.Desk.RawEvent(ctx, j.Letter)
	if err != nil {
		return nil, w.unopened(ctx, i, j, err)
	}
	if hashOf(raw) != i.RawSHA256 {
		return nil, w.end(ctx, i, j, result{outcome: plan.OutcomeRefused, reason: "its stored bytes are not the ones that were approved"})
	}
	proof, err := w.tree.Proof(i.Seq)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	before, err := w.settledEffects(ctx, j.Record)
	if err != nil {
		return nil, err
	}
	next := i
	next.Sender, next.SentAt = w.Owner, milli(w.Now())
	sent, err := w.Plans.UpdateItem(ctx, i, next)
	if errors.Is(err, plan.ErrChanged) {
		return nil, nil // another replayer has it
	}
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	call, cancel := context.WithTimeout(ctx, w.Rules.CallTimeout)
	defer cancel()
	answer, callErr := w.Invoker.Invoke(call, i.Qualifier, plan.Envelope{
		Oncegate: plan.EnvelopeReplay, Batch: i.PlanID, Item: i.Frozen, Proof: proof, Raw: raw,
	})
	var refused *CallError
	if !errors.As(callErr, &refused) {
		w.mu.Lock()
		w.strikes = 0
		w.mu.Unlock()
		return nil, w.findOut(ctx, sent, j, before, answer, callErr)
	}
	if !refused.Throttled && !refused.Denied {
		return nil, w.end(ctx, sent, j, result{outcome: plan.OutcomeRefused, reason: "version: " + refused.Reason})
	}
	// The platform did not run it: the item waits again.
	back := sent
	back.Sender, back.SentAt = "", time.Time{}
	unsent, err := w.Plans.UpdateItem(ctx, sent, back)
	if err != nil {
		return nil, fmt.Errorf("replay: %w", err)
	}
	if refused.Denied {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.stop == nil {
			w.stop = &stop{plan.StatePaused, "gate " + string(GatePermission), refused.Reason}
		}
		return nil, nil
	}
	w.throttled(refused.RetryAfter)
	return &unsent, nil
}

// unopened ends an item whose stored event is lost, and pauses the run where the
// operator can do something about it: nothing was sent.
func (w *run) unopened(ctx context.Context, i plan.Item, j Judgement, err error) error {
	refuse := func(why string) error {
		return w.end(ctx, i, j, result{outcome: plan.OutcomeRefused, reason: why})
	}
	why := ""
	switch kind := aliyun.KindOf(err); {
	case errors.Is(err, artifacts.ErrAltered):
		return refuse("its stored event is not the one that was stored")
	case kind == aliyun.KindNotFound:
		return refuse("its stored event is gone")
	case errors.Is(err, artifacts.ErrSealed):
		why = err.Error()
	case kind == aliyun.KindDenied:
		why = "the stored events may not be read: " + err.Error()
	default:
		return fmt.Errorf("replay: read the stored event: %w", err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stop == nil {
		w.stop = &stop{plan.StatePaused, "rule: stored events", why}
	}
	return nil
}

// maxStrikes is how many calls in a row the platform may throttle before the run pauses.
const maxStrikes = 5

func (w *run) throttled(after time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if after <= 0 {
		after = time.Second << min(w.strikes, 6)
	}
	w.strikes++
	if until := w.Now().Add(after); until.After(w.hold) {
		w.hold = until
	}
	if w.strikes >= maxStrikes && w.stop == nil {
		w.stop = &stop{plan.StatePaused, "rule: throttling", "the platform throttles the function's calls; resume after " + w.hold.UTC().Format(time.RFC3339)}
	}
}

// result is how an item ended, and what that says about the run.
type result struct {
	outcome     plan.Outcome
	reason      string
	code        letter.Code // of a failure
	target      string
	status      idempotency.Status // the record's
	duplicate   string             // a side effect that happened twice
	throttled   bool
	throttledTo time.Time
}

// findOut reads the record until it says how a sent item ended, or until the call
// cannot be running any more.
func (w *run) findOut(ctx context.Context, i plan.Item, j Judgement, before map[string]idempotency.Effect, a Answer, callErr error) error {
	deadline := i.SentAt.Add(w.Rules.CallTimeout)
	for {
		rec, ok, err := w.Desk.Tasks.Get(ctx, i.Key)
		if err != nil {
			return fmt.Errorf("replay: %w", err)
		}
		var now *idempotency.Record
		if ok {
			now = &rec
		}
		res, wait := outcomeOf(i, now, a, callErr, w.Now(), deadline)
		if !wait {
			if now != nil {
				if res.duplicate, err = w.twice(ctx, before, *now); err != nil {
					return err
				}
			}
			return w.end(ctx, i, j, res)
		}
		if err := w.Sleep(ctx, min(time.Second, max(deadline.Sub(w.Now()), time.Millisecond))); err != nil {
			return err
		}
		w.mu.Lock()
		err = w.alive(ctx, false)
		w.mu.Unlock()
		if err != nil {
			return err
		}
	}
}

// outcomeOf says what a record tells about a sent item; wait says that it does
// not tell yet.
func outcomeOf(i plan.Item, rec *idempotency.Record, a Answer, callErr error, now, deadline time.Time) (r result, wait bool) {
	over := now.After(deadline)
	if rec != nil {
		r.status = rec.Status
	}
	if revisionOf(rec) == i.RecordRevision {
		switch {
		case a.Refused:
			r.outcome, r.reason = plan.OutcomeRefused, "function: "+a.Reason
			return r, false
		case callErr == nil && a.Failed:
			r.outcome, r.reason = plan.OutcomeUnresolved, "the function answered with an error and left no trace in the record"
			return r, false
		case callErr == nil:
			r.outcome, r.reason = plan.OutcomeUnresolved, "the function answered and left no trace in the record"
			return r, false
		}
		r.outcome, r.reason = plan.OutcomeUnresolved, "it was sent, its answer was lost, and the record shows no trace"
		return r, !over
	}
	ours := rec != nil && rec.ReplayBatchID == i.PlanID
	switch {
	case rec == nil:
		r.outcome, r.reason = plan.OutcomeUnresolved, "the business record is gone"
	case rec.Status == idempotency.StatusSucceeded && rec.InputDigest == i.InputDigest && ours:
		r.outcome = plan.OutcomeSucceeded
	case rec.Status == idempotency.StatusSucceeded && rec.InputDigest == i.InputDigest:
		r.outcome, r.reason = plan.OutcomeSkipped, "the business was done meanwhile, by another delivery"
	case !ours:
		r.outcome, r.reason = plan.OutcomeRefused, "the business record has moved on by another road"
	case rec.Status == idempotency.StatusRunning && !now.After(rec.LeaseUntil) && !over:
		return r, true
	case rec.Status == idempotency.StatusRunning:
		r.outcome, r.reason, r.code, r.target = plan.OutcomeFailed, "its run ended without a word", letter.CodeTimeout, rec.LastErrorTarget
	case rec.Status == idempotency.StatusOutcomeUnknown:
		r.outcome, r.reason, r.code, r.target = plan.OutcomeFailed, "a side effect may have happened: a review is open", letter.CodeOutcomeUnknown, rec.LastErrorTarget
	default:
		r.outcome, r.reason, r.code, r.target = plan.OutcomeFailed, "it failed again", letter.CodeOf(rec.LastErrorCode), rec.LastErrorTarget
		if r.code == letter.CodeThrottled {
			r.throttled, r.throttledTo = true, rec.NotBefore
		}
	}
	return r, false
}

// settledEffects are the rows of a task's side effects that have happened before
// this send.
func (w *run) settledEffects(ctx context.Context, rec *idempotency.Record) (map[string]idempotency.Effect, error) {
	if rec == nil {
		return nil, nil
	}
	rows := map[string]idempotency.Effect{}
	for _, e := range rec.Effects {
		row, ok, err := w.Effects.Get(ctx, e.Key)
		if err != nil {
			return nil, fmt.Errorf("replay: %w", err)
		}
		if ok && row.State == idempotency.EffectSettled {
			rows[e.Key] = row
		}
	}
	return rows, nil
}

// twice names a side effect that happened again although it was settled before,
// or whose target shows two.
func (w *run) twice(ctx context.Context, before map[string]idempotency.Effect, rec idempotency.Record) (string, error) {
	if rec.LastErrorCode == idempotency.CodeDuplicateEffect {
		return "the target of " + rec.LastErrorTarget + " shows two records of one number", nil
	}
	for _, e := range rec.Effects {
		was, ok := before[e.Key]
		if !ok {
			continue
		}
		row, ok, err := w.Effects.Get(ctx, e.Key)
		if err != nil {
			return "", fmt.Errorf("replay: %w", err)
		}
		switch {
		case !ok:
			return "the row of settled effect " + e.Name + " is gone", nil
		case row.TargetRecordID != was.TargetRecordID:
			return "effect " + e.Name + " has another number at its target than was stored", nil
		case row.State != idempotency.EffectSettled || !row.SentAt.Equal(was.SentAt) || row.Attempt != was.Attempt:
			return "effect " + e.Name + " was sent again although it was settled", nil
		}
	}
	return "", nil
}

// end writes how an item ended: the letter first, then the audit row, then the
// item, so that a crash in between only repeats them.
func (w *run) end(ctx context.Context, i plan.Item, j Judgement, r result) error {
	now := milli(w.Now())
	fingerprint := ""
	if r.outcome == plan.OutcomeFailed {
		if r.target == "" {
			r.target = j.Target
		}
		fingerprint = letter.Fingerprint(r.code, r.target)
	}
	final, err := w.endLetter(ctx, i, j.Letter, r, now)
	if err != nil {
		return err
	}
	h := w.header()
	if err := w.Audit.Add(ctx, Audit{
		ID: AuditID(ActionReplay, i.PlanID, i.LetterID), At: now, Action: ActionReplay, LetterID: i.LetterID, EventID: i.EventID, Fingerprint: h.Fingerprint,
		Decision: j.Decision, OriginalTarget: h.Target, ConsumerVersion: i.Qualifier, ReplayBatchID: i.PlanID, IdempotencyKey: i.Key,
		IdempotencyResult: string(r.status), FinalStatus: string(final), OperatorOrRule: w.By, Reason: string(r.outcome) + said(": ", r.reason),
	}); err != nil {
		return err
	}
	next := i
	next.Outcome, next.Reason, next.EndedAt, next.NewFingerprint, next.NewCode = r.outcome, r.reason, now, fingerprint, r.code
	if _, err := w.Plans.UpdateItem(ctx, i, next); err != nil && !errors.Is(err, plan.ErrChanged) {
		return fmt.Errorf("replay: %w", err)
	}
	w.count(next, r, fingerprint)
	w.tell("")
	return nil
}

func said(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

var errTold = errors.New("the letter knows already")

// endLetter tells the letter how its replay ended.
func (w *run) endLetter(ctx context.Context, i plan.Item, known letter.Letter, r result, now time.Time) (letter.FinalStatus, error) {
	by := "replay " + i.PlanID
	switch r.outcome {
	case plan.OutcomeSucceeded:
		return letter.FinalSucceeded, w.Desk.Letters.CloseKnown(ctx, known, letter.FinalSucceeded, by, "the business record says SUCCEEDED", now)
	case plan.OutcomeSkipped:
		return letter.FinalSkippedCompleted, w.Desk.Letters.CloseKnown(ctx, known, letter.FinalSkippedCompleted, by, r.reason, now)
	case plan.OutcomeFailed:
		err := w.Desk.Letters.Amend(ctx, i.LetterID, func(l letter.Letter) (letter.Letter, error) {
			if l.ReplayBatchID == i.PlanID && l.Generation > i.Generation {
				return l, errTold
			}
			l = l.Remember(letter.Life{ClosedAt: now.UnixMilli(), Code: l.Code, Generation: l.Generation, Batch: i.PlanID})
			l.Generation, l.ReplayBatchID, l.LastFailedAt = i.Generation+1, i.PlanID, now
			l.Code, l.Target, l.Reclassified = r.code, r.target, ""
			l.Fingerprint = letter.Fingerprint(l.Code, l.Target)
			return l, nil
		})
		if errors.Is(err, errTold) {
			err = nil
		}
		return "", err
	}
	return "", nil
}

// count adds an ended item to the sums, and stops the run where a condition says so.
func (w *run) count(i plan.Item, r result, fingerprint string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e, ok := shownBy(i, w.plan); ok {
		w.shown = append(w.shown, e)
	}
	w.counts, w.stage = moved(w.counts, r.outcome), moved(w.stage, r.outcome)
	fresh := fingerprint != "" && fingerprint != w.plan.Fingerprint
	if fresh {
		w.news[fingerprint]++
	}
	if s := w.condition(r, fingerprint, fresh); s != nil && w.stop == nil {
		w.stop = s
	}
}

// moved is counts after one waiting item has ended.
func moved(c plan.Counts, o plan.Outcome) plan.Counts {
	c.Unresolved--
	c.Selected--
	return tally(c, o, 1)
}

// condition says whether the run must stop, and why.
func (w *run) condition(r result, fingerprint string, fresh bool) *stop {
	halt := func(rule, reason string) *stop { return &stop{plan.StateStopped, "rule: " + rule, reason} }
	if r.duplicate != "" {
		return halt("duplicate effect", r.duplicate)
	}
	if r.throttled {
		return &stop{plan.StatePaused, "rule: throttling", "the target throttles; resume after " + r.throttledTo.UTC().Format(time.RFC3339)}
	}
	if fresh && w.news[fingerprint] >= 2 {
		return halt("new fingerprint", "a second event failed in a new way: "+fingerprint)
	}
	// The first event of a new fingerprint is set aside; it says nothing of the group.
	failed := w.counts.Failed
	for _, n := range w.news {
		failed -= min(n, 1)
	}
	if ended := w.counts.Succeeded + failed; failed > 0 && failed*100 > w.plan.MaxErrors*ended {
		return halt("error rate", fmt.Sprintf("%d of %d failed, more than %d %%", failed, ended, w.plan.MaxErrors))
	}
	return nil
}
