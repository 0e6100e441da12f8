package handler

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/strictjson"
)

// Envelope is a call to the function that is no event.
type Envelope struct {
	Oncegate string `json:"oncegate"`         // resolve, replay or abandon
	Review   string `json:"review,omitempty"` // id, of resolve
	Letter   string `json:"letter,omitempty"` // id, of abandon

	// Replay is the whole call of that kind, nil where it is not well-formed.
	Replay *plan.Envelope `json:"-"`
}

const (
	// EnvelopeResolve asks the function to carry out the answer of a closed review.
	EnvelopeResolve = "resolve"
	// EnvelopeAbandon asks the function to give a discarded letter's task up.
	EnvelopeAbandon = "abandon"
)

// smallEnvelope bounds every call but a replay, which carries an event.
const smallEnvelope = 4096

// ParseEnvelope reads a call that is no event; ok is false for everything else. An
// event always has a specversion, and an envelope never.
func ParseEnvelope(raw []byte) (e Envelope, ok bool) {
	// Events are many, and most of them are told apart without being parsed.
	if !bytes.Contains(raw, []byte(`"oncegate"`)) {
		return Envelope{}, false
	}
	tree, _, err := strictjson.ParseObject(raw)
	if err != nil {
		return Envelope{}, false
	}
	kind, isText := tree["oncegate"].(string)
	if _, event := tree["specversion"]; event || !isText {
		return Envelope{}, false
	}
	if kind == plan.EnvelopeReplay {
		return Envelope{Oncegate: kind, Replay: parseReplay(raw, tree)}, true
	}
	if len(raw) > smallEnvelope {
		return Envelope{}, false
	}
	err = json.Unmarshal(raw, &e)
	return e, err == nil
}

// parseReplay reads exactly the members of a replay: encoding/json alone would
// take other spellings of their names, and leave out what it does not know.
func parseReplay(raw []byte, tree map[string]any) *plan.Envelope {
	for name := range tree {
		switch name {
		case "oncegate", "batch", "item", "proof", "raw":
		default:
			return nil
		}
	}
	var e plan.Envelope
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return nil
	}
	return &e
}

// Call carries out a call that is no event. The only errors are *RetryError.
func (h *Handler) Call(ctx context.Context, e Envelope, d Delivery) (Result, error) {
	switch e.Oncegate {
	case plan.EnvelopeReplay:
		if e.Replay == nil {
			e.Replay = &plan.Envelope{}
		}
		return h.Replay(ctx, *e.Replay, d)
	case EnvelopeAbandon:
		return h.Abandon(ctx, e, d)
	default:
		return h.Resolve(ctx, e, d)
	}
}

// guardCall carries a call out whatever panics on the way, and writes its log line.
func (h *Handler) guardCall(ctx context.Context, kind string, raw []byte, d Delivery, call func(context.Context, *delivery) (Result, error)) (r Result, err error) {
	one := h.newDelivery(kind, raw, d)
	one.last = true
	defer func() {
		if p := recover(); p != nil {
			// The value may hold data of the event; its type does not.
			r, err = one.panicked(p)
		}
		one.log(ctx, r, err)
	}()
	return call(one.observed(ctx), one)
}

// refuse answers a call that is not carried out, with nothing written.
func (d *delivery) refuse(as Decision, reason string) (Result, error) {
	return d.result(Result{Decision: as, ErrorCode: idempotency.CodeInvalidRequest, Reason: reason}), nil
}
