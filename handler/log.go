package handler

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/logline"
)

// What a delivery brings: the field `call`.
const (
	callEvent   = "event"
	callMember  = "member"
	callReplay  = "replay"
	callResolve = "resolve"
	callAbandon = "abandon"
)

type deliveryKey struct{}

// observed returns a context whose writes are logged, and whose calls are counted,
// as this delivery's.
func (d *delivery) observed(ctx context.Context) context.Context {
	return aliyun.CountCalls(context.WithValue(ctx, deliveryKey{}, d), &d.calls)
}

// about is what is known of the delivery that a context belongs to; row is what a
// row knows, for calls that carry no event.
func (h *Handler) about(ctx context.Context, row logline.About) logline.About {
	d, ok := ctx.Value(deliveryKey{}).(*delivery)
	if !ok {
		return row
	}
	row.RequestID, row.ConsumerVersion = d.RequestID, d.Version
	if d.event != nil {
		row.EventID, row.EventSource, row.TraceID = d.event.ID(), d.event.Source(), d.trace.ID()
	}
	return row
}

// observing makes every write that lands a line.
func (h *Handler) observing() {
	h.o.Tasks = h.o.Tasks.Observing(h.wroteTask)
	h.o.Ledger = h.o.Ledger.Observing(h.wroteEffect)
	h.o.Reviews = h.o.Reviews.Observing(h.openedReview)
	h.o.Letters = h.o.Letters.Observing(h.wroteLetter)
}

func aboutRecord(r idempotency.Record) logline.About {
	return logline.About{EventID: r.EventID, EventSource: r.Source, TraceID: r.TraceID, Flow: r.Flow, Key: r.Key}
}

func (h *Handler) wroteTask(ctx context.Context, before *idempotency.Record, r idempotency.Record) {
	from := idempotency.Status("")
	if before != nil {
		from = before.Status
	}
	wait := time.Duration(0)
	if !r.NotBefore.IsZero() {
		wait = max(r.NotBefore.Sub(r.UpdatedAt), 0)
	}
	a := h.about(ctx, aboutRecord(r))
	h.o.Log.LogAttrs(ctx, slog.LevelInfo, logline.Transition, a.Attrs(
		slog.String("from", string(from)), slog.String("status", string(r.Status)), slog.Int64("revision", r.Revision),
		slog.Int64("attempt", r.Attempt), slog.String("actor", actor(r.History)),
		slog.String("error_code", string(r.LastErrorCode)), slog.String("error_target", r.LastErrorTarget),
		slog.String("error_summary", r.LastErrorSummary), slog.Int64("wait_ms", wait.Milliseconds()),
		slog.String("replay_batch_id", r.ReplayBatchID), slog.Bool("abandoned", r.Abandoned))...)
}

func (h *Handler) wroteEffect(ctx context.Context, before *idempotency.Effect, e idempotency.Effect) {
	from := idempotency.EffectState("")
	if before != nil {
		from = before.State
	}
	a := h.about(ctx, logline.About{Flow: e.Flow, Key: e.TaskKey})
	h.o.Log.LogAttrs(ctx, slog.LevelInfo, logline.Effect, a.Attrs(
		slog.String("effect", e.Name), slog.String("effect_key", e.Key), slog.String("target_kind", string(e.Kind)),
		slog.String("from", string(from)), slog.String("state", string(e.State)), slog.String("outcome", string(e.Outcome)),
		slog.Int64("revision", e.Revision), slog.Int64("attempt", e.Attempt), slog.String("actor", actor(e.History)),
		slog.String("target_record_id", e.TargetRecordID), slog.String("error_code", string(e.LastErrorCode)),
		slog.String("error_target", e.LastErrorTarget), slog.String("error_summary", e.LastErrorSummary))...)
}

func actor(history []idempotency.Step) string {
	if len(history) == 0 {
		return ""
	}
	return history[len(history)-1].Actor
}

func (h *Handler) openedReview(ctx context.Context, r idempotency.Review) {
	a := h.about(ctx, logline.About{EventID: r.EventID, EventSource: r.Source, Flow: r.Flow, Key: r.Key})
	h.o.Log.LogAttrs(ctx, slog.LevelInfo, logline.Review, a.Attrs(
		slog.String("review_id", r.ID), slog.String("review_kind", string(r.Kind)), slog.String("state", string(r.State)),
		slog.String("effect", r.EffectName), slog.String("effect_key", r.EffectKey), slog.String("error_code", string(r.Code)))...)
}

func (h *Handler) wroteLetter(ctx context.Context, before *letter.Letter, l letter.Letter) {
	a := h.about(ctx, logline.AboutLetter(l))
	h.o.Log.LogAttrs(ctx, slog.LevelInfo, logline.Letter, a.Attrs(logline.LetterAttrs(before, l)...)...)
}

// adopted logs that a run goes on with what an earlier attempt has made.
func (d *delivery) adopted(ctx context.Context, rec idempotency.Record, by int64) {
	a := d.Handler.about(ctx, aboutRecord(rec))
	d.o.Log.LogAttrs(ctx, slog.LevelInfo, logline.Adopted, a.Attrs(slog.Int64("attempt", rec.Attempt), slog.Int64("made_by_attempt", by))...)
}

// log writes the one line of a delivery. Nothing in it comes from the event but
// its id, source and derived hashes.
func (d *delivery) log(ctx context.Context, r Result, err error) {
	level, cause := slog.LevelInfo, ""
	var re *RetryError
	if errors.As(err, &re) {
		level = slog.LevelWarn
		if re.err != nil {
			cause = re.err.Error()
		}
	}
	now := d.o.Now()
	a := logline.About{
		RequestID: d.RequestID, ConsumerVersion: d.Version, EventID: r.EventID, EventSource: r.EventSource,
		TraceID: d.trace.ID(), Flow: r.Flow, Key: r.Key,
	}
	if rec := d.record; rec != nil {
		a.EventID, a.EventSource, a.TraceID, a.Flow = rec.EventID, rec.Source, rec.TraceID, rec.Flow
	}
	d.o.Log.LogAttrs(ctx, level, logline.Delivery, a.Attrs(
		slog.String("call", d.call), slog.String("decision", string(r.Decision)), slog.String("duplicate", d.duplicate),
		slog.String("status", string(r.Status)), slog.Int64("attempt", r.Attempt), slog.String("result_ref", r.ResultRef),
		slog.String("error_code", string(r.ErrorCode)), slog.String("letter_id", r.LetterID), slog.String("replay_batch_id", d.batch),
		slog.String("reason", r.Reason), slog.String("cause", cause), slog.Int("retry_count", d.RetryCount),
		slog.Int64("table_calls", d.calls.Tables.Load()), slog.Int64("object_calls", d.calls.Objects.Load()),
		slog.Int64("took_ms", now.Sub(d.received).Milliseconds()), slog.Int64("event_age_ms", eventAge(d.event, now)),
		slog.Int64("skew_ms", d.o.Skew().Milliseconds()))...)
}

// eventAge is how long ago the bus took the event, in milliseconds, -1 where it
// does not say so in a form that leaves no doubt.
func eventAge(e *events.Event, now time.Time) int64 {
	if e == nil {
		return -1
	}
	taken, err := time.Parse(time.RFC3339, e.Extension("aliyunpublishtime"))
	if err != nil {
		return -1
	}
	return max(now.Sub(taken).Milliseconds(), 0)
}
