package logline

import (
	"context"
	"io"
	"log/slog"
)

// NewLogger returns a logger that writes lines of this package's form, in UTC.
func NewLogger(w io.Writer, level slog.Leveler) *slog.Logger {
	return slog.New(inUTC{slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})})
}

type inUTC struct{ slog.Handler }

func (h inUTC) Handle(ctx context.Context, r slog.Record) error {
	r.Time = r.Time.UTC()
	return h.Handler.Handle(ctx, r)
}
