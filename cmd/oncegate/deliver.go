package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/events/ebtest"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/handler/fctest"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/strictjson"
)

// The rules of the local bus.
const (
	patientRule   = "tasks"
	impatientRule = "tasks-impatient"
	impatientFrom = "demo.impatient"
)

// deliveryReport is the one document that `local deliver` prints.
type deliveryReport struct {
	SchemaVersion int            `json:"schema_version"`
	Deliveries    []deliveryLine `json:"deliveries"`
	Tasks         []taskLine     `json:"tasks"`
	DeadLetters   int            `json:"dead_letters"` // open letters and messages in the dead-letter queue
	Calls         callCounts     `json:"calls"`

	reasons                        []string // of letters that this run left, for people
	letters, queued                int
	notifications, robots, records int // at the local targets, over all runs
}

type deliveryLine struct {
	File        string             `json:"file"`
	EventID     string             `json:"event_id"`
	EventSource string             `json:"event_source"`
	Deliveries  int                `json:"deliveries"`
	Outcome     string             `json:"outcome"`
	Decision    handler.Decision   `json:"decision"`
	Key         string             `json:"idempotency_key"`
	Status      idempotency.Status `json:"status"`
	Attempt     int64              `json:"attempt"`
	ResultRef   string             `json:"result_ref"`
	ErrorCode   string             `json:"error_code"`
}

type taskLine struct {
	Key           string             `json:"idempotency_key"`
	Flow          string             `json:"flow"`
	Status        idempotency.Status `json:"status"`
	Attempt       int64              `json:"attempt"`
	ResultRef     string             `json:"result_ref"`
	LastErrorCode idempotency.Code   `json:"last_error_code"`
}

type callCounts struct {
	Model int `json:"model"`
}

// deliver runs all events through the local stack.
func (a *app) deliver(ctx context.Context, o stackOptions, set *flows.Set, files []eventFile) (*deliveryReport, error) {
	s, err := startStack(o)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	if _, err := s.setup(ctx); err != nil {
		return nil, err
	}
	if err := s.upload(ctx, o.objects); err != nil {
		return nil, err
	}
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	bus, err := s.bus(o, abort)
	if err != nil {
		return nil, err
	}
	defer bus.Close()

	tracked := make([]*ebtest.Tracking, len(files))
	for i, f := range files {
		fmt.Fprintf(a.err, "[%d/%d] %s ...", i+1, len(files), inert(f.name))
		if tracked[i], err = publish(ctx, bus, f.raw); err != nil {
			return nil, err
		}
		first, err := tracked[i].First(ctx)
		if err != nil && !errors.Is(err, ebtest.ErrNoDelivery) {
			return nil, interrupted(ctx, err)
		}
		fmt.Fprintf(a.err, " %s\n", progressOf(first))
	}
	report := &deliveryReport{SchemaVersion: 1, Deliveries: []deliveryLine{}, Tasks: []taskLine{}}
	for i, f := range files {
		outcomes, err := tracked[i].Wait(ctx)
		if err != nil {
			return nil, interrupted(ctx, err)
		}
		for _, outcome := range outcomes {
			lines, err := s.lines(ctx, set, o.keySecret, f, outcome)
			if err != nil {
				return nil, err
			}
			if outcome.Deliveries > 1 {
				fmt.Fprintf(a.err, "%s: %s after %d deliveries\n", inert(f.name), outcome.Outcome, outcome.Deliveries)
			}
			report.Deliveries = append(report.Deliveries, lines...)
			report.reasons = append(report.reasons, reasonsOf(f, outcome)...)
		}
	}
	if err := bus.Drain(ctx); err != nil {
		return nil, interrupted(ctx, err)
	}
	return report, s.count(ctx, bus, report)
}

// bus is the local EventBridge.
func (s *stack) bus(o stackOptions, abort context.CancelCauseFunc) (*ebtest.Bus, error) {
	return ebtest.New(s.busOptions(o, abort))
}

// busOptions are both retry policies, a rule each, and the intake's stream.
func (s *stack) busOptions(o stackOptions, abort context.CancelCauseFunc) ebtest.Options {
	invoke := func(f *fctest.Function) ebtest.Target {
		return func(ctx context.Context, d ebtest.Delivery) ebtest.Result {
			resp, err := f.Invoke(ctx, fctest.Request{Payload: d.EventRaw})
			var broken *fctest.StartError
			switch {
			case errors.As(err, &broken):
				abort(fmt.Errorf("the function does not start: %w", err))
				return ebtest.Result{ErrorType: "FunctionStartError"}
			case err != nil:
				return ebtest.Result{ErrorType: "ResourceExhausted"}
			case resp.FunctionError != "":
				return ebtest.Result{ErrorType: resp.ErrorType, RequestID: resp.RequestID}
			}
			return ebtest.Result{OK: true, Payload: resp.Payload, RequestID: resp.RequestID}
		}
	}
	target := invoke(s.function)
	return ebtest.Options{
		Dir: o.stateDir, Bus: localEnvironment, TimeScale: o.timeScale, Rand: rand.Float64, Concurrency: 16,
		Rules: []ebtest.Rule{
			{
				Name: patientRule, Pattern: json.RawMessage(`{"source":[{"anything-but":["` + impatientFrom + `"]}]}`),
				Policy: ebtest.ExponentialDecayRetry, Target: target, DeadLetter: true,
			},
			{
				Name: impatientRule, Pattern: json.RawMessage(`{"source":["` + impatientFrom + `"]}`),
				Policy: ebtest.BackoffRetry, Target: target, DeadLetter: true,
			},
		},
		// The queue is taken in as an event stream does it: nothing is deleted
		// before its letter is stored.
		Streams: []ebtest.Stream{{
			Name: "dead-letters", Target: invoke(s.intake), Policy: ebtest.ExponentialDecayRetry, ErrorsTolerance: ebtest.TolerateNone,
			BatchCount: 10, FromDeadLetters: true,
		}},
	}
}

// publish sends an event to the bus. What the bus refuses goes straight to the
// function, as a queue source or a call by hand would hand it over.
func publish(ctx context.Context, bus *ebtest.Bus, raw []byte) (*ebtest.Tracking, error) {
	t, err := bus.Publish(ctx, raw)
	var refused *ebtest.PublishError
	if errors.As(err, &refused) {
		return bus.Deliver(ctx, raw, patientRule), nil
	}
	return t, err
}

// interrupted prefers the reason for which the work was ended.
func interrupted(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func progressOf(r ebtest.Result) string {
	if r.OK {
		var answer handler.BatchResult
		if json.Unmarshal(r.Payload, &answer) == nil && answer.Decision != "" {
			if answer.Decision == handler.DecisionBatch {
				return fmt.Sprintf("batch of %d", len(answer.Members))
			}
			return string(answer.Decision)
		}
	}
	return "will be delivered again (" + inert(r.ErrorType) + ")"
}

// lines says what became of one file: a line for its event, or one for each
// member of a batch, in order.
func (s *stack) lines(ctx context.Context, set *flows.Set, secret string, f eventFile, outcome ebtest.Outcome) ([]deliveryLine, error) {
	if !handler.IsBatch(f.raw) {
		line, err := s.line(ctx, set, secret, f, outcome)
		return []deliveryLine{line}, err
	}
	members, err := strictjson.Members(f.raw)
	if err != nil || len(members) == 0 {
		members = [][]byte{f.raw}
	}
	var answer handler.BatchResult
	if outcome.Last.OK {
		if err := json.Unmarshal(outcome.Last.Payload, &answer); err != nil {
			return nil, fmt.Errorf("read the function's answer: %w", err)
		}
		if len(answer.Members) != len(members) {
			return nil, fmt.Errorf("read the function's answer: %d members of %d", len(answer.Members), len(members))
		}
	}
	var lines []deliveryLine
	for i, member := range members {
		one := outcome
		if outcome.Last.OK {
			if one.Last.Payload, err = json.Marshal(answer.Members[i]); err != nil {
				return nil, err
			}
		}
		line, err := s.line(ctx, set, secret, eventFile{fmt.Sprintf("%s[%d]", f.name, i), member}, one)
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// reasonsOf says why an event was left as a dead letter, and where to look.
func reasonsOf(f eventFile, outcome ebtest.Outcome) []string {
	if !outcome.Last.OK {
		return nil
	}
	var answer struct {
		handler.Result
		Members []handler.Result `json:"members"`
	}
	if json.Unmarshal(outcome.Last.Payload, &answer) != nil {
		return nil
	}
	results := answer.Members
	if len(results) == 0 {
		results = []handler.Result{answer.Result}
	}
	var reasons []string
	for _, r := range results {
		if r.LetterID != "" && r.Reason != "" {
			reasons = append(reasons, fmt.Sprintf("%s: %s (oncegate dlq explain %s)", filepath.Base(f.name), r.Reason, short(r.LetterID)))
		}
	}
	return reasons
}

// line says what became of one event.
func (s *stack) line(ctx context.Context, set *flows.Set, secret string, f eventFile, outcome ebtest.Outcome) (deliveryLine, error) {
	line := deliveryLine{File: f.name, Deliveries: outcome.Deliveries, Outcome: outcome.Outcome}
	if e, err := events.Decode(f.raw); err == nil {
		line.EventID, line.EventSource = e.ID(), e.Source()
	}
	if outcome.Last.OK {
		var answer handler.Result
		if err := json.Unmarshal(outcome.Last.Payload, &answer); err != nil {
			return line, fmt.Errorf("read the function's answer: %w", err)
		}
		line.Decision, line.Key, line.Status, line.Attempt = answer.Decision, answer.Key, answer.Status, answer.Attempt
		line.ResultRef, line.ErrorCode = answer.ResultRef, string(answer.ErrorCode)
		return line, nil
	}
	line.Decision, line.ErrorCode = handler.DecisionRetry, outcome.Last.ErrorType
	if line.ErrorCode == string(idempotency.CodeInProgress) {
		line.Decision = handler.DecisionInProgress
	}
	// An error carries a code alone: the rest stands in the record.
	line.Key = keyOf(set, f.raw, []byte(secret)).Key
	if line.Key == "" {
		return line, nil
	}
	r, ok, err := idempotency.NewTable(s.store, idempotency.DefaultPolicy()).Get(ctx, line.Key)
	if ok {
		line.Status, line.Attempt, line.ResultRef = r.Status, r.Attempt, r.ResultRef.Object
	}
	return line, err
}

// count adds what the tables, the queue and the model saw.
func (s *stack) count(ctx context.Context, bus *ebtest.Bus, report *deliveryReport) error {
	records := idempotency.NewTable(s.store, idempotency.DefaultPolicy())
	for from, more := "", true; more; more = from != "" {
		page, next, err := records.List(ctx, from, "", 500)
		if err != nil {
			return err
		}
		for _, r := range page {
			report.Tasks = append(report.Tasks, taskLine{r.Key, r.Flow, r.Status, r.Attempt, r.ResultRef.Object, r.LastErrorCode})
		}
		from = next
	}
	letters := letter.NewTable(s.store)
	for from, more := "", true; more; more = from != "" {
		page, next, err := letters.List(ctx, from, 500)
		if err != nil {
			return err
		}
		for _, l := range page {
			if l.Open() {
				report.letters++
			}
		}
		from = next
	}
	queued, err := bus.DeadLetters()
	if err != nil {
		return err
	}
	report.queued = len(queued)
	report.DeadLetters = report.letters + report.queued
	report.Calls.Model = s.model.Calls()
	report.notifications, report.robots, report.records = len(s.targets.Notifications()), len(s.targets.RobotMessages()), len(s.targets.Records())
	return nil
}

func (r *deliveryReport) print(a *app) {
	rows := make([][]string, len(r.Deliveries))
	for i, d := range r.Deliveries {
		happened := string(d.Decision)
		if d.ErrorCode != "" {
			happened += " (" + d.ErrorCode + ")"
		}
		if d.Outcome != ebtest.Acknowledged {
			happened += ", " + d.Outcome
		}
		attempt := ""
		if d.Attempt > 0 {
			attempt = strconv.FormatInt(d.Attempt, 10)
		}
		rows[i] = []string{filepath.Base(d.File), d.EventID, strconv.Itoa(d.Deliveries), happened, string(d.Status), attempt, shortRef(d.ResultRef)}
	}
	printTable(a.out, []string{"file", "event", "deliveries", "what happened", "status", "attempt", "result"}, rows)
	if len(r.reasons) > 0 {
		fmt.Fprintln(a.out)
		for _, reason := range r.reasons {
			fmt.Fprintln(a.out, inert(reason))
		}
	}
	fmt.Fprintf(a.out, "\n%d events, %d tasks, %d model calls; dead letters: %d open in the table, %d in the queue\n",
		len(r.Deliveries), len(r.Tasks), r.Calls.Model, r.letters, r.queued)
	fmt.Fprintf(a.out, "At the targets: %d notifications, %d robot messages, %d records\n", r.notifications, r.robots, r.records)
	fmt.Fprintf(a.out, "Next: oncegate task list · task show KEY · task output KEY · review list · dlq groups; the function's log: %s/function.log\n", a.stateDir)
}
