package idempotency

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/aliyun"
)

// KindEffect marks rows of effects in the table.
const KindEffect = "effect"

// TargetKind is what a target can do about a second copy of one request. It is
// declared, never guessed.
type TargetKind string

const (
	// TargetIdempotent takes a key and does once what comes twice under it.
	TargetIdempotent TargetKind = "idempotent"
	// TargetReadable can be asked whether it has the business number already.
	TargetReadable TargetKind = "readable"
	// TargetOpaque can do neither: a lost answer stays unknown until a person looks.
	TargetOpaque TargetKind = "opaque"
)

// TargetKinds are all kinds.
var TargetKinds = []TargetKind{TargetIdempotent, TargetReadable, TargetOpaque}

// EffectState is where one side effect stands. Who moves it on:
type EffectState string

const (
	// EffectSent: the request has left, or is about to. The sending run settles it;
	// after a lost answer the next attempt finds out, by the target's kind.
	EffectSent EffectState = "SENT"
	// EffectSettled: it happened, or a person says it is dealt with. Terminal.
	EffectSettled EffectState = "SETTLED"
	// EffectRefused: a definite no; a later attempt sends it again under the same key.
	EffectRefused EffectState = "REFUSED"
	// EffectUnknown: a person has to say whether it happened.
	EffectUnknown EffectState = "UNKNOWN"
)

var effectStates = []EffectState{EffectSent, EffectSettled, EffectRefused, EffectUnknown}

// Outcome is the word that users look for, beside the state.
type Outcome string

const (
	// OutcomeTargetExists: the target had it already, which is success.
	OutcomeTargetExists Outcome = "target_exists"
	// OutcomeSentUnknown: sent, and the answer was lost.
	OutcomeSentUnknown Outcome = "sent_outcome_unknown"
	// OutcomeAwaitingReview: a person has to look.
	OutcomeAwaitingReview Outcome = "awaiting_review"
	// OutcomeConfirmedRetryable: known not to have happened; it may be sent again.
	OutcomeConfirmedRetryable Outcome = "confirmed_retryable"
	// OutcomeConfirmedDone: a person has seen it at the target.
	OutcomeConfirmedDone Outcome = "confirmed_done"
	// OutcomeCompensated: a person has undone it; it is not sent again.
	OutcomeCompensated Outcome = "compensated"
)

// EffectSpec is how a flow declares one side effect.
type EffectSpec struct {
	Name string
	Kind TargetKind
	// Timeout of one request. It ends before the lease does.
	Timeout time.Duration
	// KeyTTL is how long an idempotent target remembers a key; 0 is for ever.
	KeyTTL time.Duration
	// VisibleAfter is how long a readable target may hide a write.
	VisibleAfter time.Duration
	// Margin is how far the clock that wrote SENT and the one that judges it may
	// be apart. It is the policy's, not declared.
	Margin time.Duration
}

// TaskEffect is what a task row knows of one declared effect: its name and key
// are written with the claim and never change; the state is the last one known.
type TaskEffect struct {
	Name           string      `json:"name"`
	Key            string      `json:"key"`
	Kind           TargetKind  `json:"kind"`
	State          EffectState `json:"state,omitempty"`
	TargetRecordID string      `json:"target_record_id,omitempty"`
	Outcome        Outcome     `json:"outcome,omitempty"`
}

// Effect is one row of an effect. Times have millisecond precision.
type Effect struct {
	Key           string
	TaskKey       string
	Name          string
	Kind          TargetKind
	RecordVersion int64
	State         EffectState
	Revision      int64
	History       []Step
	Attempt       int64  // the task's attempt that sent it last
	Owner         string // the run that wrote last
	FirstSentAt   time.Time
	SentAt        time.Time
	Timeout       time.Duration
	OutputRef     Ref // the output that the request was made from

	TargetRecordID   string
	Outcome          Outcome
	LastErrorCode    Code
	LastErrorTarget  string
	LastErrorSummary string
	KeyFields        string
	Flow             string
	Environment      string
	Reviewer         string
	UpdatedAt        time.Time
	ExpiresAt        time.Time
}

// Move is what a run does next about an effect.
type Move string

const (
	// MoveSend: write SENT, then send.
	MoveSend Move = "send"
	// MoveDone: nothing, it is settled.
	MoveDone Move = "done"
	// MoveLookUp: ask the target whether it has the number.
	MoveLookUp Move = "look_up"
	// MoveWait: the target may still hide the write; come again.
	MoveWait Move = "wait"
	// MoveUnknown: a person has to look.
	MoveUnknown Move = "unknown"
)

// NextMove decides what a run does about an effect, nil where it has no row yet.
// until is when a MoveWait is over.
func NextMove(stored *Effect, s EffectSpec, now time.Time) (m Move, until time.Time) {
	if stored == nil {
		return MoveSend, time.Time{}
	}
	switch stored.State {
	case EffectSettled:
		return MoveDone, time.Time{}
	case EffectRefused:
		return MoveSend, time.Time{}
	case EffectSent:
		// What this version declares says nothing of a request that went to a
		// target of another kind.
		if stored.Kind != s.Kind {
			break
		}
		switch stored.Kind {
		case TargetIdempotent:
			// A copy must arrive while the target still remembers the first one.
			if s.KeyTTL == 0 || now.Add(s.Timeout+s.Margin).Before(stored.FirstSentAt.Add(s.KeyTTL)) {
				return MoveSend, time.Time{}
			}
		case TargetReadable:
			until := stored.SentAt.Add(stored.Timeout + s.VisibleAfter + s.Margin)
			if now.Before(until) {
				return MoveWait, until
			}
			return MoveLookUp, time.Time{}
		}
	}
	return MoveUnknown, time.Time{}
}

// Sending is what the sending run writes into an effect.
type Sending struct {
	Key       Key
	Spec      EffectSpec
	Task      Record
	OutputRef Ref
	Now       time.Time
}

// Send is the row of an effect whose request is about to leave.
func (p Policy) Send(stored *Effect, s Sending) Effect {
	e := Effect{
		Key: s.Key.Hex, TaskKey: s.Task.Key, Name: s.Spec.Name, Kind: s.Spec.Kind, RecordVersion: RecordVersion,
		KeyFields: s.Key.Canonical, Flow: s.Task.Flow, Environment: s.Task.Environment, FirstSentAt: milli(s.Now),
	}
	if stored != nil {
		e = *stored
		if stored.State == EffectRefused {
			e.FirstSentAt, e.Kind = milli(s.Now), s.Spec.Kind
		}
	}
	e.State, e.Attempt, e.Owner = EffectSent, s.Task.Attempt, s.Task.Owner
	e.SentAt, e.Timeout, e.OutputRef = milli(s.Now), s.Spec.Timeout, s.OutputRef
	e.Outcome = ""
	return p.effectStep(e, s.Now, s.Task.Owner, "")
}

// errEffectState is in the chain of every effect transition that does not exist.
var errEffectState = errors.New("the effect is in another state")

// Fence is the row of an effect that a run may still be about to write: REFUSED,
// so that a write on its way fails. by names what put it there.
func (p Policy) Fence(stored *Effect, task Record, e TaskEffect, by string, now time.Time) Effect {
	next := Effect{
		Key: e.Key, TaskKey: task.Key, Name: e.Name, Kind: e.Kind, RecordVersion: RecordVersion,
		Flow: task.Flow, Environment: task.Environment, Attempt: task.Attempt,
	}
	if stored != nil {
		next = *stored
	}
	next.State, next.Owner, next.Outcome = EffectRefused, by, OutcomeConfirmedRetryable
	return p.effectStep(next, now, by, "")
}

// Settle is the row of an effect that happened. outcome is OutcomeTargetExists
// where the target had it already, "" where this request made it.
func (p Policy) Settle(e Effect, owner string, now time.Time, recordID string, outcome Outcome) (Effect, error) {
	if e.State != EffectSent {
		return Effect{}, fmt.Errorf("settle effect: %w: %s", errEffectState, e.State)
	}
	e.State, e.Owner, e.TargetRecordID, e.Outcome = EffectSettled, owner, cut(recordID), outcome
	e.LastErrorCode, e.LastErrorTarget, e.LastErrorSummary = "", "", ""
	return p.effectStep(e, now, owner, ""), nil
}

// Refuse is the row of an effect that the target has refused, or that is known
// not to have arrived (f.Code then says why the answer was lost).
func (p Policy) Refuse(e Effect, owner string, now time.Time, f Failure) (Effect, error) {
	if e.State != EffectSent {
		return Effect{}, fmt.Errorf("refuse effect: %w: %s", errEffectState, e.State)
	}
	e.State, e.Owner, e.Outcome = EffectRefused, owner, OutcomeConfirmedRetryable
	e.LastErrorCode, e.LastErrorTarget, e.LastErrorSummary = f.Code, cut(f.Target), cut(f.Summary)
	return p.effectStep(e, now, owner, f.Code), nil
}

// Doubt is the row of an effect that a person has to look at.
func (p Policy) Doubt(e Effect, owner string, now time.Time) (Effect, error) {
	if e.State != EffectSent {
		return Effect{}, fmt.Errorf("doubt effect: %w: %s", errEffectState, e.State)
	}
	e.State, e.Owner, e.Outcome = EffectUnknown, owner, OutcomeAwaitingReview
	return p.effectStep(e, now, owner, ""), nil
}

// Resolve is the row of an effect after a person's answer.
func (p Policy) Resolve(e Effect, r Review, now time.Time) (Effect, error) {
	if e.State != EffectUnknown || e.Attempt != r.Attempt {
		return Effect{}, fmt.Errorf("resolve effect: %w: %s of attempt %d", errEffectState, e.State, e.Attempt)
	}
	e.Owner, e.Reviewer = r.ID, r.Reviewer
	switch r.Resolution {
	case ResolvedDone:
		e.State, e.Outcome, e.TargetRecordID = EffectSettled, OutcomeConfirmedDone, cut(r.TargetRecordID)
	case ResolvedCompensated:
		e.State, e.Outcome = EffectSettled, OutcomeCompensated
	case ResolvedNotDone:
		e.State, e.Outcome = EffectRefused, OutcomeConfirmedRetryable
	default:
		return Effect{}, fmt.Errorf("resolve effect: %q is no answer to an unknown outcome", r.Resolution)
	}
	return p.effectStep(e, now, r.ID, ""), nil
}

func (p Policy) effectStep(e Effect, now time.Time, actor string, code Code) Effect {
	e.Revision++
	e.UpdatedAt = milli(now)
	e.ExpiresAt = milli(now.Add(p.Retention))
	e.History = append(slices.Clone(e.History), Step{e.Revision, Status(e.State), e.Attempt, milli(now).UnixMilli(), code, actorOf(actor)})
	if n := len(e.History); n > maxHistory {
		e.History = e.History[n-maxHistory:]
	}
	return e
}

// In is what the task row keeps of the effect.
func (e Effect) In() TaskEffect {
	return TaskEffect{e.Name, e.Key, e.Kind, e.State, e.TargetRecordID, e.Outcome}
}

// Columns is the stored form of an effect.
func (e Effect) Columns() (aliyun.Row, error) {
	history, err := json.Marshal(e.History)
	if err != nil {
		return nil, fmt.Errorf("encode effect: %w", err)
	}
	c := aliyun.Columns{Row: aliyun.Row{}}
	c.Text("kind", KindEffect)
	c.Number("record_version", e.RecordVersion)
	c.Text("status", string(e.State))
	c.Number("revision", e.Revision)
	c.Text("history", string(history))
	c.Number("attempt", e.Attempt)
	c.Text("owner", e.Owner)
	c.Text("task_key", e.TaskKey)
	c.Text("effect", e.Name)
	c.Text("target_kind", string(e.Kind))
	c.Time("first_sent_at", e.FirstSentAt)
	c.Time("sent_at", e.SentAt)
	c.Number("timeout_ms", e.Timeout.Milliseconds())
	c.Text("output_ref", e.OutputRef.String())
	c.Text("target_record_id", e.TargetRecordID)
	c.Text("outcome", string(e.Outcome))
	c.Text("last_error_code", string(e.LastErrorCode))
	c.Text("last_error_target", e.LastErrorTarget)
	c.Text("last_error_summary", e.LastErrorSummary)
	c.Text("key_fields", e.KeyFields)
	c.Text("flow", e.Flow)
	c.Text("environment", e.Environment)
	c.Text("reviewer", e.Reviewer)
	c.Time("updated_at", e.UpdatedAt)
	c.Time("expires_at", e.ExpiresAt)
	return c.Row, nil
}

// ParseEffect reads a row. A row of another version or with an unknown state is
// an error: nothing may be sent on a guess.
func ParseEffect(key string, row aliyun.Row) (Effect, error) {
	c := aliyun.Reader{Row: row}
	e := Effect{
		Key: key, RecordVersion: c.Number("record_version"), State: EffectState(c.Text("status")), Revision: c.Number("revision"),
		Attempt: c.Number("attempt"), Owner: c.Text("owner"), TaskKey: c.Text("task_key"), Name: c.Text("effect"),
		Kind: TargetKind(c.Text("target_kind")), FirstSentAt: c.Time("first_sent_at"), SentAt: c.Time("sent_at"),
		Timeout: time.Duration(c.Number("timeout_ms")) * time.Millisecond, OutputRef: refOf(&c, "output_ref"),
		TargetRecordID: c.Text("target_record_id"), Outcome: Outcome(c.Text("outcome")),
		LastErrorCode: Code(c.Text("last_error_code")), LastErrorTarget: c.Text("last_error_target"), LastErrorSummary: c.Text("last_error_summary"),
		KeyFields: c.Text("key_fields"), Flow: c.Text("flow"), Environment: c.Text("environment"), Reviewer: c.Text("reviewer"),
		UpdatedAt: c.Time("updated_at"), ExpiresAt: c.Time("expires_at"),
	}
	if s := c.Text("history"); s != "" && c.Err == nil {
		if err := json.Unmarshal([]byte(s), &e.History); err != nil {
			c.Fail("history")
		}
	}
	switch {
	case c.Err != nil:
	case c.Text("kind") != KindEffect:
		c.Fail("kind")
	case e.RecordVersion != RecordVersion:
		c.Fail("record_version")
	case !slices.Contains(effectStates, e.State):
		c.Fail("status")
	case e.Revision < 1:
		c.Fail("revision")
	}
	if c.Err != nil {
		return Effect{}, fmt.Errorf("%w: effect %s: %w", ErrRecord, key, c.Err)
	}
	return e, nil
}

func effectsText(all []TaskEffect) (string, error) {
	if len(all) == 0 {
		return "", nil
	}
	raw, err := json.Marshal(all)
	return string(raw), err
}

func parseEffects(c *aliyun.Reader) []TaskEffect {
	s := c.Text("effects")
	if s == "" {
		return nil
	}
	var all []TaskEffect
	d := json.NewDecoder(strings.NewReader(s))
	if err := d.Decode(&all); err != nil {
		c.Fail("effects")
	}
	return all
}
