// Package handler is the path of one event: from the bytes that EventBridge
// delivers to an acknowledgement, or to an error that makes it deliver again.
//
//	decode -> flow -> key, digest -> claim -> adopt -> input.json -> process -> output.json -> settle
//
// The invariant: a delivery is acknowledged only when its business has
// SUCCEEDED, when an open dead letter holds its raw bytes, or when a person has
// answered the question it asks or has given its business up. Whatever cannot be stored makes the delivery
// fail. Letters and reviews are written before the record that they explain, so
// a crash in between only repeats them.
package handler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/logline"
)

// Options is what a handler works with. All fields without a default are required.
type Options struct {
	Flows      *flows.Set
	Processors map[string]flows.Processor
	Effects    map[string]flows.Effect // may be nil where no flow declares any
	Tasks      *idempotency.Table
	Ledger     *idempotency.Ledger
	Reviews    *idempotency.Reviews
	Letters    *letter.Table
	Artifacts  *artifacts.Store
	Plans      *plan.Store // may be nil: then every replay is refused
	Impact     plan.Impact // which plans need another identity than their maker; all, where it is zero

	Environment string
	KeySecret   []byte // of sensitive key fields; may be empty where no flow has any
	Policy      idempotency.Policy
	// A run keeps a tenth of its time, within these bounds, to record a failure.
	ReserveMin, ReserveMax time.Duration

	Now       func() time.Time
	NewOwner  func() string        // a random token for each run
	Skew      func() time.Duration // how far this clock is ahead of the services' clocks
	Log       *slog.Logger
	CacheSize int // settled keys remembered by this instance; default 10,000
	// BatchConcurrency is how many members of a batch run at once; default 16.
	BatchConcurrency int
}

// largeEvent is the size from which on a queue message may not hold the event
// as a dead letter: such an event's first retryable failure stores its letter.
const largeEvent = 48 << 10

// Handler handles deliveries. It is safe for concurrent use and keeps no
// credentials.
type Handler struct {
	o       Options
	rules   map[*flows.Flow]string // what KeyRuleID says of each flow
	settled *lru.Cache[string, settled]
}

// settled is a finished business that this instance has seen. The digest is
// checked on every hit: the same key with another input is never answered from here.
type settled struct {
	digest    string
	result    Result
	expiresAt time.Time
}

// New returns a handler.
func New(o Options) (*Handler, error) {
	switch {
	case o.Flows == nil, o.Processors == nil, o.Tasks == nil, o.Ledger == nil, o.Reviews == nil, o.Letters == nil, o.Artifacts == nil,
		o.Now == nil, o.NewOwner == nil, o.Skew == nil, o.Log == nil:
		return nil, errors.New("new handler: an option is missing")
	case o.Environment == "":
		return nil, errors.New("new handler: no environment")
	case o.Policy.Lease <= 0 || o.Policy.Margin <= 0 || o.Policy.BackoffBase <= 0 || o.Policy.Retention <= 0 || o.ReserveMin <= 0 || o.ReserveMax < o.ReserveMin:
		return nil, errors.New("new handler: a duration is not positive")
	}
	if len(o.KeySecret) == 0 {
		if names := o.Flows.NeedsSecret(); len(names) > 0 {
			return nil, fmt.Errorf("new handler: flow %s has sensitive key fields, and there is no key secret", names[0])
		}
	}
	for _, f := range o.Flows.Flows {
		if o.Processors[f.Processor] == nil {
			return nil, fmt.Errorf("new handler: flow %s: there is no processor %s", f.Name, f.Processor)
		}
		for _, e := range f.Effects {
			if o.Effects[e.Uses] == nil {
				return nil, fmt.Errorf("new handler: flow %s: there is no effect %s", f.Name, e.Uses)
			}
		}
	}
	if o.CacheSize == 0 {
		o.CacheSize = 10_000
	}
	if o.BatchConcurrency <= 0 {
		o.BatchConcurrency = 16
	}
	cache, err := lru.New[string, settled](o.CacheSize)
	if err != nil {
		return nil, fmt.Errorf("new handler: %w", err)
	}
	rules := map[*flows.Flow]string{}
	for _, f := range o.Flows.Flows {
		rules[f] = f.KeyRuleID(o.KeySecret)
	}
	h := &Handler{o, rules, cache}
	h.observing()
	return h, nil
}

// Delivery is what the platform says of one invocation.
type Delivery struct {
	RequestID    string
	RetryCount   int    // of FC's own asynchronous retries
	FunctionName string // names the target of letters: fc:NAME
	Version      string // of the function that runs: the consumer version
}

// Handle handles one event. The only errors are *RetryError.
func (h *Handler) Handle(ctx context.Context, raw []byte, d Delivery) (Result, error) {
	one := h.newDelivery(callEvent, raw, d)
	one.last = true
	return one.guarded(ctx)
}

func (h *Handler) newDelivery(call string, raw []byte, d Delivery) *delivery {
	return &delivery{Handler: h, Delivery: d, call: call, raw: raw, received: h.o.Now()}
}

// guarded handles the event whatever panics on the way, and writes its log line.
func (d *delivery) guarded(ctx context.Context) (result Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			// The value may hold data of the event; its type does not.
			result, err = d.retry(idempotency.CodeTemporaryUnavailable, fmt.Errorf("panic of type %T", p))
		}
		if _, putOff := err.(*takeover); !putOff {
			d.log(ctx, result, err)
		}
	}()
	d.received, d.duplicate = d.o.Now(), ""
	if d.event == nil && d.kept == nil {
		d.read()
	}
	return d.handle(d.observed(ctx))
}

// delivery is one event on its way.
type delivery struct {
	*Handler
	Delivery
	raw      []byte
	received time.Time

	event  *events.Event
	flow   *flows.Flow
	input  *flows.Input
	key    idempotency.Key
	digest string
	trace  events.Trace
	// declared are the flow's effects with their keys for this task.
	declared []idempotency.TaskEffect
	// kept is the letter for an event that no claim will be made for.
	kept func(context.Context) (Result, error)
	// invalid says where the data breaks its flow's schema, "" where it does not.
	invalid string
	// superseding says that the task works on another input than its first one.
	superseding bool
	// last says that the rest of the batch is done.
	last bool

	// For the log.
	call      string              // what came
	duplicate string              // how a copy was recognised
	batch     string              // plan of a replay
	record    *idempotency.Record // that a call without an event is about
	calls     aliyun.Calls
}

// read decodes the event as far as no store is needed. Afterwards either kept is
// set, or key and digest are.
func (d *delivery) read() {
	defer func() {
		if p := recover(); p != nil {
			d.kept = func(context.Context) (Result, error) {
				return d.retry(idempotency.CodeTemporaryUnavailable, fmt.Errorf("panic of type %T", p))
			}
		}
	}()
	var err error
	if d.event, err = events.Decode(d.raw); err != nil {
		d.kept = func(ctx context.Context) (Result, error) { return d.undecodable(ctx, err) }
		return
	}
	d.trace = d.event.Trace()
	if d.flow = d.o.Flows.Find(d.event); d.flow == nil {
		d.kept = d.flowless
		return
	}
	unusable := func(reason string) {
		d.kept = func(ctx context.Context) (Result, error) { return d.unusable(ctx, reason) }
	}
	if d.input, err = d.flow.Input(d.event); err != nil {
		unusable(err.Error())
		return
	}
	d.digest = d.flow.Digest(d.input)
	if d.flow.Environment(d.event) != d.o.Environment {
		d.kept = d.misdirected
		return
	}
	if d.key, err = d.flow.Key(d.input, d.o.KeySecret); err != nil {
		unusable(err.Error())
		return
	}
	if d.declared, err = d.flow.TaskEffects(d.key.Hex, d.input, d.o.KeySecret); err != nil {
		unusable(err.Error())
		return
	}
	if err = d.flow.Validate(d.input); err != nil {
		d.invalid = err.Error()
	}
}

func (d *delivery) handle(ctx context.Context) (Result, error) {
	if d.kept != nil {
		return d.kept(ctx)
	}
	if known, ok := d.settled.Get(d.key.Hex); ok && known.digest == d.digest && d.received.Before(known.expiresAt) {
		d.duplicate = logline.ByCache
		return d.result(known.result), nil
	}
	claim := d.claim()
	if d.invalid != "" {
		// A schema guards what is new: a business that was taken before goes on as it began.
		met, ok, err := d.o.Tasks.Peek(ctx, claim)
		if err != nil {
			return d.retry(idempotency.CodeTemporaryUnavailable, err)
		}
		if !ok || met.Answer == idempotency.AnswerConflict {
			return d.unusable(ctx, d.invalid)
		}
	}
	if !d.flow.Enabled {
		return d.flowOff(ctx, claim)
	}
	span, err := d.timeFor(ctx)
	if errors.Is(err, errSkew) {
		// Only an answer of a service shows that the clock is right again, and
		// who refuses every claim gets none.
		if _, _, peekErr := d.o.Tasks.Peek(ctx, claim); peekErr == nil {
			span, err = d.timeFor(ctx)
		}
	}
	if err != nil {
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	}
	claim.Deadline = span.deadline
	claimed, err := d.o.Tasks.Claim(ctx, claim, d.RetryCount > 0)
	if err != nil {
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	}
	if claimed.Answer == idempotency.AnswerRun {
		return d.run(ctx, claimed.Record, span)
	}
	return d.answer(ctx, claimed, claim)
}

// takeover says that a member of a batch is to be run last and alone: whoever
// ran it before died with it.
type takeover struct{ attempt int64 }

func (*takeover) Error() string { return "to be taken over last and alone" }

func (d *delivery) claim() idempotency.Claim {
	return idempotency.Claim{
		Key: d.key, InputDigest: d.digest, Owner: d.o.NewOwner(), Now: d.received, Budget: d.flow.MaxAttempts,
		KeyRule: d.rules[d.flow], Target: d.target(), Flow: d.flow.Name, Environment: d.o.Environment,
		Source: d.event.Source(), EventID: d.event.ID(), TraceID: d.trace.ID(),
		ConsumerVersion: d.Version, ProcessorVersion: d.processorVersion(), NoTakeover: !d.last,
		Effects: d.declared,
	}
}

func (d *delivery) target() string { return "fc:" + d.FunctionName }

// processorVersion covers what the operator counts up and what the processor
// says of itself.
func (d *delivery) processorVersion() string {
	return d.flow.ProcessorVersion + "." + d.o.Processors[d.flow.Processor].Version()
}

// span is the time that a run has.
type span struct {
	deadline time.Time // of the invocation; zero where none is known
	workEnd  time.Time // when the work must end, so that a failure can be recorded
}

var (
	errNoTime = errors.New("less time is left than recording a failure takes")
	errSkew   = errors.New("this machine's clock is off by more than half the lease margin")
)

func (d *delivery) timeFor(ctx context.Context) (span, error) {
	if skew := d.o.Skew(); max(skew, -skew) > d.o.Policy.Margin/2 {
		return span{}, errSkew
	}
	deadline, known := ctx.Deadline()
	end := deadline
	if !known {
		deadline, end = time.Time{}, d.received.Add(d.o.Policy.Lease)
	}
	left := end.Sub(d.received)
	reserve := min(max(left/10, d.o.ReserveMin), d.o.ReserveMax)
	if left <= reserve {
		return span{}, errNoTime
	}
	return span{deadline, end.Add(-reserve)}, nil
}

// answer turns what a claim met into what the platform is told.
func (d *delivery) answer(ctx context.Context, c idempotency.Claimed, claim idempotency.Claim) (Result, error) {
	d.duplicate = d.copyOf(c)
	switch c.Answer {
	case idempotency.AnswerDuplicate:
		d.remember(c.Record)
		return d.ofRecord(DecisionDuplicate, c.Record), nil
	case idempotency.AnswerTakeover:
		return Result{}, &takeover{c.Record.Attempt}
	case idempotency.AnswerInProgress:
		return d.retryOf(DecisionInProgress, idempotency.CodeInProgress, c.Record, nil)
	case idempotency.AnswerTooEarly:
		return d.retryOf(DecisionRetry, c.Record.LastErrorCode, c.Record, nil)
	case idempotency.AnswerConflict:
		return d.conflict(ctx, c.Record)
	case idempotency.AnswerSuperseded:
		return d.superseded(ctx, c.Record)
	case idempotency.AnswerExhausted:
		return d.exhausted(ctx, c, claim)
	case idempotency.AnswerFinal:
		return d.failedFinal(ctx, c.Record)
	case idempotency.AnswerAbandoned:
		return d.abandoned(ctx, c.Record)
	case idempotency.AnswerOutcomeUnknown:
		return d.outcomeUnknown(ctx, c.Record)
	default:
		return d.retry(idempotency.CodeTemporaryUnavailable, fmt.Errorf("record of version %d with status %q cannot be acted on",
			c.Record.RecordVersion, c.Record.Status))
	}
}

// copyOf says how a delivery that runs nothing was recognised, "" where it is no copy.
func (d *delivery) copyOf(c idempotency.Claimed) string {
	switch c.Answer {
	case idempotency.AnswerDuplicate:
		switch {
		case !c.Read:
			return logline.ByFailedPut
		case d.RetryCount > 0:
			return logline.ByRetryRead
		}
		return logline.ByRead
	case idempotency.AnswerInProgress:
		return logline.InProgress
	case idempotency.AnswerTooEarly:
		return logline.TooEarly
	case idempotency.AnswerSuperseded, idempotency.AnswerAbandoned:
		return logline.Sighting
	case idempotency.AnswerFinal, idempotency.AnswerOutcomeUnknown:
		return logline.Ended
	}
	return ""
}

func (d *delivery) remember(r idempotency.Record) {
	d.settled.Add(d.key.Hex, settled{d.digest, d.ofRecord(DecisionDuplicate, r), r.ExpiresAt})
}

// result fills in what every result says of its event.
func (d *delivery) result(r Result) Result {
	if d.event != nil {
		r.EventID, r.EventSource = d.event.ID(), d.event.Source()
	}
	if d.flow != nil {
		r.Flow = d.flow.Name
	}
	r.Key = d.key.Hex
	return r
}

func (d *delivery) ofRecord(decision Decision, r idempotency.Record) Result {
	return d.result(Result{
		Decision: decision, Status: r.Status, Attempt: r.Attempt, ResultRef: r.ResultRef.Object, ErrorCode: r.LastErrorCode,
	})
}

func (d *delivery) retry(code idempotency.Code, err error) (Result, error) {
	r := d.result(Result{Decision: DecisionRetry, ErrorCode: code})
	return r, &RetryError{code, r, err}
}

func (d *delivery) retryOf(decision Decision, code idempotency.Code, rec idempotency.Record, err error) (Result, error) {
	if code == "" {
		code = idempotency.CodeTemporaryUnavailable
	}
	r := d.ofRecord(decision, rec)
	r.ErrorCode = code
	return r, &RetryError{code, r, err}
}
