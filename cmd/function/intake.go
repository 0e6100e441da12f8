package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/logline"
)

// intake is the role that takes dead letters in, from a queue's event stream or
// as the destination of failed asynchronous invocations.
func (p parts) intake() (handleFunc, error) {
	if names := p.flows.NeedsSecret(); len(names) > 0 && len(p.c.keySecret) == 0 {
		return nil, fmt.Errorf("flow %s has sensitive key fields, and ONCEGATE_KEY_SECRET is not set", names[0])
	}
	desk := &deadletter.Desk{
		Flows: p.flows, Tasks: idempotency.NewTable(p.store, p.c.policy), Reviews: idempotency.NewReviews(p.store),
		Letters: letter.NewTable(p.store).Observing(p.wroteLetter), Artifacts: p.objects, Environment: p.c.cloud.Environment, KeySecret: p.c.keySecret,
		Target: p.c.queueFor, Retention: p.c.policy.Retention, Now: time.Now,
	}
	return func(ctx context.Context, raw []byte, d handler.Delivery) (any, error) {
		ctx = context.WithValue(ctx, invocationKey{}, d)
		items := deadletter.Split(raw)
		counts := map[deadletter.Decision]int{}
		for _, item := range items {
			began := time.Now()
			j, err := desk.Ingest(ctx, item, "")
			p.ingested(ctx, j, err, time.Since(began))
			if err != nil {
				return nil, &handler.RetryError{Code: idempotency.CodeTemporaryUnavailable}
			}
			counts[j.Decision]++
		}
		return intakeResult{"ingested", len(items), counts}, nil
	}, nil
}

// intakeResult answers an intake, as JSON.
type intakeResult struct {
	Decision string                      `json:"decision"`
	Letters  int                         `json:"letters"`
	Counts   map[deadletter.Decision]int `json:"decisions"`
}

type invocationKey struct{}

// about is what is known of the invocation and of a letter's event.
func about(ctx context.Context, l letter.Letter) logline.About {
	a := logline.AboutLetter(l)
	if d, ok := ctx.Value(invocationKey{}).(handler.Delivery); ok {
		a.RequestID, a.ConsumerVersion = d.RequestID, d.Version
	}
	return a
}

func (p parts) wroteLetter(ctx context.Context, before *letter.Letter, l letter.Letter) {
	p.log.LogAttrs(ctx, slog.LevelInfo, logline.Letter, about(ctx, l).Attrs(logline.LetterAttrs(before, l)...)...)
}

// ingested writes the line of one item.
func (p parts) ingested(ctx context.Context, j deadletter.Judgement, err error, took time.Duration) {
	level, cause, state := slog.LevelInfo, "", ""
	if err != nil {
		level, cause = slog.LevelWarn, err.Error()
	} else {
		state = logline.LetterState(j.Letter)
	}
	p.log.LogAttrs(ctx, level, logline.Intake, about(ctx, j.Letter).Attrs(
		slog.String("letter_id", j.Letter.ID), slog.String("fingerprint", j.Fingerprint), slog.String("error_code", string(j.Code)),
		slog.String("decision", string(j.Decision)), slog.String("state", state), slog.String("cause", cause),
		slog.Int64("took_ms", took.Milliseconds()))...)
}
