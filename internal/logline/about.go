package logline

import (
	"log/slog"

	"github.com/oncegate/oncegate/deadletter/letter"
)

// About is what every line says of the invocation and of what it is about.
type About struct {
	RequestID, ConsumerVersion string
	EventID, EventSource       string
	TraceID, Flow, Key         string
}

// Attrs are the common fields, followed by a kind's own.
func (a About) Attrs(own ...slog.Attr) []slog.Attr {
	return append([]slog.Attr{
		slog.String("request_id", a.RequestID), slog.String("consumer_version", a.ConsumerVersion),
		slog.String("event_id", a.EventID), slog.String("event_source", a.EventSource), slog.String("trace_id", a.TraceID),
		slog.String("flow", a.Flow), slog.String("idempotency_key", a.Key),
	}, own...)
}

// AboutLetter is what a letter knows of its event.
func AboutLetter(l letter.Letter) About {
	return About{EventID: l.EventID, EventSource: l.EventSource, TraceID: l.TraceID, Flow: l.Flow, Key: l.Key}
}

// LetterAttrs are the fields of kind Letter; before is nil for a new letter.
func LetterAttrs(before *letter.Letter, l letter.Letter) []slog.Attr {
	from := ""
	if before != nil {
		from = LetterState(*before)
	}
	return []slog.Attr{
		slog.String("letter_id", l.ID), slog.String("fingerprint", l.Fingerprint), slog.String("error_code", string(l.Code)),
		slog.String("error_class", string(l.Code.Class())), slog.String("error_target", l.Target),
		slog.String("from", from), slog.String("state", LetterState(l)), slog.Int64("revision", l.Revision),
		slog.Int64("sightings", l.DeliveryAttempts), slog.Int64("generation", l.Generation),
	}
}

// LetterState is open, or how a letter ended.
func LetterState(l letter.Letter) string {
	if l.Open() {
		return "open"
	}
	return string(l.FinalStatus)
}
