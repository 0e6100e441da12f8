package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
)

// preflightStep is one of the five checks of one flow.
type preflightStep struct {
	Number   int               `json:"number"`
	Name     string            `json:"name"`
	Verdict  string            `json:"verdict"` // passed, failed or skipped
	Why      string            `json:"why"`     // of a check that has not passed
	Evidence map[string]string `json:"evidence"`
}

const (
	stepPassed  = "passed"
	stepFailed  = "failed"
	stepSkipped = "skipped"

	// firstRunCheck is the first check that sees the test business run.
	firstRunCheck = 3
)

var stepNames = []string{
	"stable business number and its owner",
	"side effects are declared with their kinds",
	"state and target number are kept, and looked up after a time-out",
	"a changed input goes to review",
	"the same record twice gives one result",
}

// trialRoom is where a trial runs, local or cloud.
type trialRoom interface {
	// deliver publishes an event and waits until done says so, or the bus says
	// that it is over. The decision is "" where nobody can know it.
	deliver(ctx context.Context, raw []byte, done func(context.Context) (bool, error)) (handler.Decision, error)
	// again hands a finished business's event to the function once more.
	again(ctx context.Context, raw []byte) (handler.Decision, error)
	// lose lets the target of an effect do its work once and lose the answer; ok is
	// false where that cannot be done here.
	lose(e *flows.DeclaredEffect) (ok bool)
	// atTarget counts what the target holds of an effect; known is false where it
	// cannot be looked at.
	atTarget(e *flows.DeclaredEffect, in *flows.Input, effectKey string) (n int, known bool)
	// logLine finds the line of a delivery that was recognised; where says where to
	// look if it is not found.
	logLine(ctx context.Context, key, eventID string) (line, where string)
}

// trial runs one flow's test business through the five checks.
type trial struct {
	trialRoom
	flow    *flows.Flow
	made    *flows.Trial
	run     string // of this preflight: begins every event id
	secret  []byte
	tasks   *idempotency.Table
	ledger  *idempotency.Ledger
	reviews *idempotency.Reviews

	key, digest string
	input       *flows.Input
	review      string // id of the review that was opened
	steps       []preflightStep
}

func (t *trial) step(n int, verdict, why string, evidence map[string]string) {
	t.steps = append(t.steps, preflightStep{n, stepNames[n-1], verdict, why, evidence})
}

// judge adds a step that has passed unless something is wrong.
func (t *trial) judge(n int, evidence map[string]string, wrong ...string) {
	wrong = slices.DeleteFunc(wrong, func(s string) bool { return s == "" })
	verdict := stepPassed
	if len(wrong) > 0 {
		verdict = stepFailed
	}
	t.step(n, verdict, strings.Join(wrong, "; "), evidence)
}

// unless is a complaint where something does not hold.
func unless(holds bool, format string, args ...any) string {
	if holds {
		return ""
	}
	return fmt.Sprintf(format, args...)
}

// skipFrom skips the checks from number n on.
func (t *trial) skipFrom(n int, why string) {
	for ; n <= len(stepNames); n++ {
		t.step(n, stepSkipped, why, map[string]string{})
	}
}

func (t *trial) id(n string) string { return t.run + "-" + n }

// walk makes all checks. An error is one of a service, not of the flow.
func (t *trial) walk(ctx context.Context) error {
	first, err := t.made.Event(t.id("1"))
	if err != nil {
		return err
	}
	second, err := t.made.Event(t.id("2"))
	if err != nil {
		return err
	}
	if !t.numberIsStable(first, second) {
		t.skipFrom(2, "the test business has no key")
		return nil
	}
	t.effectsAreDeclared()
	if ok, err := t.stateIsKept(ctx, first); err != nil || !ok {
		t.skipFrom(4, "the test business did not succeed")
		return err
	}
	if err := t.changeIsReviewed(ctx); err != nil {
		return err
	}
	return t.secondIsRecognised(ctx, first, second)
}

func (t *trial) numberIsStable(first, second []byte) bool {
	set := &flows.Set{Flows: []*flows.Flow{t.flow}}
	a, b := keyOf(set, first, t.secret), keyOf(set, second, t.secret)
	t.key, t.digest = a.Key, a.InputDigest
	if e, err := events.Decode(first); err == nil {
		t.input, _ = t.flow.Input(e)
	}
	evidence := map[string]string{
		"idempotency_key": a.Key, "number_owner": t.flow.NumberOwner, "key_rule": t.flow.KeyRule(), "event_ids": t.id("1") + " " + t.id("2"),
	}
	for name, value := range a.Fields {
		evidence["field "+name] = value
	}
	t.judge(1, evidence, unless(a.Error == "", "%s", a.Error), unless(a.Key == b.Key, "another event id of the same business has another key"),
		unless(t.flow.NumberOwner != "", "nobody is named who makes the number"))
	return a.Error == "" && t.input != nil
}

func (t *trial) effectsAreDeclared() {
	evidence := map[string]string{"effects": strconv.Itoa(len(t.flow.Effects))}
	var wrong []string
	for _, e := range effectsOf(t.flow) {
		evidence["effect "+e.Name] = e.String()
		known := e.Kind == idempotency.TargetIdempotent || e.Kind == idempotency.TargetReadable || e.Kind == idempotency.TargetOpaque
		wrong = append(wrong, unless(known, "effect %s has no kind", e.Name))
	}
	t.judge(2, evidence, wrong...)
}

// stateIsKept runs the test business while its target loses one answer; ok says
// that it has succeeded.
func (t *trial) stateIsKept(ctx context.Context, raw []byte) (ok bool, err error) {
	var lost *flows.DeclaredEffect
	for _, e := range t.flow.Effects {
		if lost == nil && e.Kind != idempotency.TargetOpaque && t.lose(e) {
			lost = e
		}
	}
	if _, err := t.deliver(ctx, raw, t.over); err != nil {
		return false, err
	}
	rec, _, err := t.tasks.Get(ctx, t.key)
	if err != nil {
		return false, err
	}
	evidence := map[string]string{
		"status": string(rec.Status), "revision": fmt.Sprint(rec.Revision), "attempt": fmt.Sprint(rec.Attempt), "result_ref": rec.ResultRef.Object,
	}
	wrong := []string{unless(rec.Status == idempotency.StatusSucceeded, "the record says %q (%s)", rec.Status, rec.LastErrorCode)}
	for _, declared := range rec.Effects {
		e, found, err := t.ledger.Get(ctx, declared.Key)
		if err != nil {
			return false, err
		}
		evidence["effect "+declared.Name] = fmt.Sprintf("%s, outcome %s, target number %s, revision %d, attempt %d", e.State, e.Outcome, e.TargetRecordID, e.Revision, e.Attempt)
		wrong = append(wrong, unless(found && e.State == idempotency.EffectSettled, "effect %s is %q", declared.Name, e.State))
		d := t.flow.Effect(declared.Name)
		if d == nil {
			continue
		}
		if d.Uses == "record.create" {
			wrong = append(wrong, unless(e.TargetRecordID != "", "effect %s keeps no number of the target's", declared.Name))
		}
		if n, known := t.atTarget(d, t.input, declared.Key); known {
			evidence["at the target: "+declared.Name] = strconv.Itoa(n)
			wrong = append(wrong, unless(n == 1, "the target has effect %s %d times", declared.Name, n))
		}
	}
	if lost != nil {
		evidence["answer lost of"] = lost.Name
		wrong = append(wrong, unless(rec.Attempt > 1, "the answer of %s was to be lost, and nobody came again", lost.Name))
	}
	t.judge(3, evidence, wrong...)
	last := &t.steps[len(t.steps)-1]
	if why := t.unshown(lost); last.Verdict == stepPassed && why != "" {
		last.Verdict, last.Why = stepSkipped, why
	}
	return rec.Status == idempotency.StatusSucceeded, nil
}

// unshown says why a lost answer was not tried, "" where it was.
func (t *trial) unshown(lost *flows.DeclaredEffect) string {
	opaque := slices.ContainsFunc(t.flow.Effects, func(e *flows.DeclaredEffect) bool { return e.Kind == idempotency.TargetOpaque })
	switch {
	case len(t.flow.Effects) == 0:
		return "the flow has no side effect: there is nothing to look up"
	case opaque:
		return "the flow has an opaque effect: its target can be asked nothing, so after a time-out the task goes to OUTCOME_UNKNOWN and a person looks (kept state: see the evidence)"
	case lost == nil:
		return "no target loses an answer on purpose here (kept state: see the evidence); `oncegate preflight --target local` shows the look-up where the effect is notify or record.create"
	}
	return ""
}

// over says that the task waits for nothing but a person.
func (t *trial) over(ctx context.Context) (bool, error) {
	rec, ok, err := t.tasks.Get(ctx, t.key)
	return ok && (rec.Status == idempotency.StatusSucceeded || rec.Status == idempotency.StatusFailedFinal || rec.Status == idempotency.StatusOutcomeUnknown), err
}

func (t *trial) changeIsReviewed(ctx context.Context) error {
	raw, err := t.made.Changed(t.id("3"))
	if err != nil {
		t.step(4, stepSkipped, err.Error(), map[string]string{})
		return nil
	}
	changed := keyOf(&flows.Set{Flows: []*flows.Flow{t.flow}}, raw, t.secret)
	t.review = idempotency.ConflictID(t.key, changed.InputDigest)
	before, _, err := t.tasks.Get(ctx, t.key)
	if err != nil {
		return err
	}
	decision, err := t.deliver(ctx, raw, func(ctx context.Context) (bool, error) { _, ok, err := t.reviews.Get(ctx, t.review); return ok, err })
	if err != nil {
		return err
	}
	review, found, err := t.reviews.Get(ctx, t.review)
	if err != nil {
		return err
	}
	after, _, err := t.tasks.Get(ctx, t.key)
	if err != nil {
		return err
	}
	t.judge(4, map[string]string{
		"decision": string(decision), "review": t.review, "review state": string(review.State), "input_digest": t.digest, "changed input_digest": changed.InputDigest,
		"revision": fmt.Sprint(after.Revision),
	}, unless(found && review.Kind == idempotency.ReviewConflict && review.State == idempotency.ReviewOpen, "no review was opened"),
		unless(decision == "" || decision == handler.DecisionConflict, "the delivery ended as %s", decision),
		unless(before.Revision == after.Revision && before.ResultRef == after.ResultRef, "the record has changed"))
	return nil
}

func (t *trial) secondIsRecognised(ctx context.Context, first, second []byte) error {
	before, _, err := t.tasks.Get(ctx, t.key)
	if err != nil {
		return err
	}
	evidence, wrong := map[string]string{}, []string{}
	for i, raw := range [][]byte{first, second} {
		decision, err := t.again(ctx, raw)
		if err != nil {
			return err
		}
		id := t.id(strconv.Itoa(i + 1))
		evidence["decision of "+id] = string(decision)
		wrong = append(wrong, unless(decision == handler.DecisionDuplicate, "event %s ended as %s", id, decision))
	}
	after, _, err := t.tasks.Get(ctx, t.key)
	if err != nil {
		return err
	}
	line, where := t.logLine(ctx, t.key, t.id("2"))
	evidence["log line"], evidence["result_ref"], evidence["revision"] = line, after.ResultRef.Object, fmt.Sprint(after.Revision)
	if line == "" {
		evidence["log line"] = where
	}
	wrong = append(wrong, unless(before.Revision == after.Revision && before.ResultRef == after.ResultRef, "the record has changed"))
	t.judge(5, evidence, wrong...)
	return nil
}
