package handler

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/logline"
)

// run does the work of a claimed record: adopt or process, store, settle.
func (d *delivery) run(ctx context.Context, rec idempotency.Record, s span) (Result, error) {
	work, cancel := context.WithDeadline(flows.WithTrace(ctx, d.trace), s.workEnd)
	defer cancel()
	label := artifacts.Label{Key: rec.Key, Attempt: rec.Attempt, InputDigest: rec.InputDigest, ProcessorVersion: rec.ProcessorVersion}

	d.superseding = len(rec.SupersededDigests) > 0
	// The input is off the critical path; settling waits for it.
	input := make(chan error, 1)
	go func() { input <- d.storeInput(work, label) }()

	l, err := d.openLedger(work, rec)
	if err != nil {
		<-input
		if rec.Attempt >= rec.AttemptBudget {
			// The task must not end while nobody knows what was sent.
			return d.retry(idempotency.CodeTemporaryUnavailable, err)
		}
		return d.fail(ctx, rec, rec, *storageFailure("ots:", err), err)
	}
	output, failure, err := d.output(work, rec, label, l.madeFrom())
	if inputErr := <-input; inputErr != nil && failure == nil {
		failure, err = storageFailure("oss:", inputErr), inputErr
	}
	if failure != nil {
		return d.fail(ctx, rec, l.known, *failure, err)
	}
	if failure, err = l.run(work, output, s); failure != nil {
		if l.doubt != nil {
			return d.inDoubt(ctx, rec, l, *failure)
		}
		return d.fail(ctx, rec, l.known, *failure, err)
	}
	done, err := d.o.Tasks.Complete(ctx, rec, l.known.Effects, output.Ref, d.o.Now())
	if err != nil {
		return d.notSettled(done, err)
	}
	d.remember(done)
	return d.ofRecord(DecisionExecuted, done), nil
}

// notSettled answers a run whose settling write did not become the record.
func (d *delivery) notSettled(stored idempotency.Record, err error) (Result, error) {
	if errors.Is(err, idempotency.ErrNotOwner) {
		if stored.Status == idempotency.StatusSucceeded && stored.InputDigest == d.digest {
			d.duplicate = logline.Overtaken
			d.remember(stored)
			return d.ofRecord(DecisionDuplicate, stored), nil
		}
		d.duplicate = logline.InProgress
		return d.retryOf(DecisionInProgress, idempotency.CodeInProgress, stored, err)
	}
	return d.retry(idempotency.CodeTemporaryUnavailable, err)
}

func (d *delivery) storeInput(ctx context.Context, l artifacts.Label) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("store input: panic of type %T", p)
		}
	}()
	head, err := json.Marshal(struct {
		SchemaVersion int    `json:"schema_version"`
		Key           string `json:"idempotency_key"`
		Flow          string `json:"flow"`
		InputDigest   string `json:"input_digest"`
	}{1, l.Key, d.flow.Name, l.InputDigest})
	if err != nil {
		return fmt.Errorf("store input: %w", err)
	}
	// The event as it came: it is known to be JSON, and may be large.
	body := slices.Concat(head[:len(head)-1], []byte(`,"event":`), bytes.TrimSpace(d.raw), []byte("}"))
	if d.superseding {
		return d.o.Artifacts.PutAttemptInput(ctx, l, body)
	}
	return d.o.Artifacts.PutInput(ctx, l, body)
}

// output returns the stored output of this run: an earlier attempt's where there
// is one, a new one otherwise. Once an effect was sent, that is the output it was
// made from, whatever the version. A failure comes with the error behind it.
func (d *delivery) output(ctx context.Context, rec idempotency.Record, l artifacts.Label, made idempotency.Ref) (artifacts.Stored, *idempotency.Failure, error) {
	if made.Object != "" {
		body, err := d.o.Artifacts.Read(ctx, made)
		if err != nil {
			return artifacts.Stored{}, storageFailure("oss:", err), err
		}
		return artifacts.Stored{Ref: made, Body: body}, nil, nil
	}
	if rec.Attempt > 1 {
		stored, ok, err := d.o.Artifacts.Adopt(ctx, l)
		if err != nil {
			return artifacts.Stored{}, storageFailure("oss:", err), err
		}
		if ok {
			d.adopted(ctx, rec, stored.Attempt)
			return stored, nil, nil
		}
	}
	content, err := d.content(ctx)
	if err != nil {
		return artifacts.Stored{}, failureOf(ctx, err, d.target()), err
	}
	fields, err := d.process(ctx, rec, content)
	if err != nil {
		return artifacts.Stored{}, failureOf(ctx, err, d.target()), err
	}
	body, err := outputBody(fields, rec)
	if err != nil {
		return artifacts.Stored{}, &idempotency.Failure{Code: idempotency.CodeUnclassified, Target: d.target(), Summary: "the processor's result cannot be stored"}, err
	}
	ref, err := d.o.Artifacts.PutOutput(ctx, l, body)
	if err != nil {
		return artifacts.Stored{}, storageFailure("oss:", err), err
	}
	return artifacts.Stored{Ref: ref, Attempt: rec.Attempt, Body: body}, nil, nil
}

// content reads what the event refers to, nil where it refers to nothing. Bytes
// that are not the ones that the event means are never worked on.
func (d *delivery) content(ctx context.Context) ([]byte, error) {
	ref, ok, err := d.flow.Content(d.input)
	refused := func(code idempotency.Code, summary string, err error) error {
		return &flows.Error{Failure: idempotency.Failure{Code: code, Target: "oss:content", Summary: summary}, Err: err}
	}
	switch {
	case !ok:
		return nil, nil
	case err != nil:
		return nil, refused(idempotency.CodeInvalidRequest, err.Error(), nil)
	}
	body, err := d.o.Artifacts.ReadContent(ctx, ref.Bucket, ref.Object, ref.VersionID)
	var call *aliyun.Error
	switch {
	case errors.As(err, &call) && call.Kind == aliyun.KindNotFound:
		return nil, refused(idempotency.CodeTargetNotFound, "the content is not there", err)
	case errors.As(err, &call) && call.Kind == aliyun.KindDenied:
		return nil, refused(idempotency.CodePermissionDenied, "the content may not be read", err)
	case err != nil:
		return nil, &flows.Error{Failure: *storageFailure("oss:content", err), Err: err}
	case ref.SHA256 != "" && idempotency.DigestBinary(body) != ref.SHA256:
		return nil, refused(idempotency.CodeInvalidRequest, "the content is not what the event's sha256 says", nil)
	}
	return body, nil
}

// process runs the processor on its own goroutine, so that one that panics or
// ignores its deadline cannot take the record of its failure with it.
func (d *delivery) process(ctx context.Context, rec idempotency.Record, content []byte) (map[string]any, error) {
	type outcome struct {
		fields map[string]any
		err    error
	}
	task := flows.Task{
		Key: rec.Key, Flow: rec.Flow, Attempt: rec.Attempt, InputDigest: rec.InputDigest,
		RequestID: "oncegate-" + rec.Key[:32], Payload: d.input.Payload(), Binary: d.input.Binary, Content: content,
	}
	done := make(chan outcome, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				done <- outcome{err: fmt.Errorf("panic of type %T", p)}
			}
		}()
		fields, err := d.o.Processors[d.flow.Processor].Process(ctx, task)
		done <- outcome{fields, err}
	}()
	select {
	case o := <-done:
		return o.fields, o.err
	case <-ctx.Done():
		// One that heeds its context says within a moment what it waited for. A
		// result is of no use any more: there is no time to store it.
		select {
		case o := <-done:
			if o.err != nil {
				return nil, o.err
			}
		case <-time.After(d.o.ReserveMin / 4):
		}
		return nil, ctx.Err()
	}
}

func outputBody(fields map[string]any, rec idempotency.Record) ([]byte, error) {
	if len(fields) == 0 {
		return nil, errors.New("encode output: the processor returned nothing")
	}
	whole := make(map[string]any, len(fields)+len(flows.Reserved))
	for name, v := range fields {
		whole[name] = v
	}
	for _, name := range flows.Reserved {
		if _, taken := fields[name]; taken {
			return nil, fmt.Errorf("encode output: the name %s is reserved", name)
		}
	}
	whole["schema_version"] = 1
	whole["idempotency_key"] = rec.Key
	whole["flow"] = rec.Flow
	whole["attempt"] = rec.Attempt
	whole["input_digest"] = rec.InputDigest
	whole["processor_version"] = rec.ProcessorVersion
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(whole); err != nil {
		return nil, fmt.Errorf("encode output: %w", err)
	}
	return body.Bytes(), nil
}

func failureOf(ctx context.Context, err error, target string) *idempotency.Failure {
	var known *flows.Error
	switch {
	case errors.As(err, &known):
		f := known.Failure
		if f.Code == "" || f.Code == idempotency.CodeInProgress {
			f.Code = idempotency.CodeUnclassified // neither says anything of a run
		}
		return &f
	case errors.Is(err, context.DeadlineExceeded), ctx.Err() != nil:
		return &idempotency.Failure{Code: idempotency.CodeTimeout, Target: target, Summary: "the run's time was over"}
	default:
		return &idempotency.Failure{Code: idempotency.CodeUnclassified, Target: target, Summary: "the processor failed without a code"}
	}
}

// storageFailure is a failure of our own stores. It is always worth another
// delivery: a right that is missing today must not end a business for good.
func storageFailure(target string, err error) *idempotency.Failure {
	f := &idempotency.Failure{Code: idempotency.CodeTemporaryUnavailable, Target: target}
	var call *aliyun.Error
	switch {
	case errors.As(err, &call):
		f.Summary = fmt.Sprintf("%s %s %s HTTP %d code %s request %s", call.Service, call.Op, call.Kind, call.Status, call.Code, call.RequestID)
	case errors.Is(err, context.DeadlineExceeded):
		f.Code = idempotency.CodeTimeout
	}
	return f
}

// fail records why a run did not succeed. rec is the record as the run has
// written it, known the same with what is known of its effects now. What ends for
// good, or is too large for a queue to hold, stores its letter first.
func (d *delivery) fail(ctx context.Context, rec, known idempotency.Record, f idempotency.Failure, cause error) (Result, error) {
	next, err := d.o.Tasks.PlanFail(known, f, d.o.Now())
	if err != nil {
		return d.retry(idempotency.CodeTemporaryUnavailable, err)
	}
	letterID := ""
	if next.Status == idempotency.StatusFailedFinal || len(d.raw) > largeEvent {
		if letterID, err = d.letterOfRecord(ctx, next); err != nil {
			return d.retry(idempotency.CodeTemporaryUnavailable, err)
		}
	}
	stored, err := d.o.Tasks.Settle(ctx, rec, next)
	if err != nil {
		return d.notSettled(stored, err)
	}
	if stored.Status == idempotency.StatusFailedFinal {
		r := d.ofRecord(DecisionFinal, stored)
		r.LetterID = letterID
		return r, nil
	}
	return d.retryOf(DecisionRetry, f.Code, stored, errors.New(failureText(f, cause)))
}

// failureText is for the log: codes and fixed texts, never the cause's own words.
func failureText(f idempotency.Failure, cause error) string {
	text := string(f.Code) + " of " + f.Target
	if f.Summary != "" {
		text += ": " + f.Summary
	}
	var call *aliyun.Error
	if f.Summary == "" && errors.As(cause, &call) {
		text += ": " + call.Error()
	}
	return text
}
