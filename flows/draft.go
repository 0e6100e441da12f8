package flows

import (
	"context"
	"errors"

	"github.com/oncegate/oncegate/idempotency"
)

// Drafts keeps draft objects of tasks.
type Drafts interface {
	// SaveDraft stores a draft under a name that follows from task and effect, so
	// that saving it twice leaves one, and returns the object's name.
	SaveDraft(ctx context.Context, taskKey, effectKey string, body []byte) (string, error)
}

var _ = registerEffect("artifact.save", func(t Tools) Effect { return draft{t.Drafts} })

// draft saves the output as a draft object for people to work on.
type draft struct{ drafts Drafts }

func (d draft) Send(ctx context.Context, c EffectCall) (string, error) {
	if d.drafts == nil {
		return "", &Error{Failure: idempotency.Failure{Code: idempotency.CodeTargetNotFound, Target: "effect:artifact.save", Summary: "no store for drafts"}}
	}
	name, err := d.drafts.SaveDraft(ctx, c.TaskKey, c.Key, c.Output)
	if err != nil {
		return "", errors.Join(errLost, err)
	}
	return name, nil
}

// orderRecord is the work of flows that only hand a record on: its output names
// the business number, and the record itself is made by an effect.
type orderRecord struct{}

var _ = register("record", func(Tools) Processor { return orderRecord{} })

func (orderRecord) Version() string { return "v1" }

func (orderRecord) Process(_ context.Context, t Task) (map[string]any, error) {
	if _, ok := t.Payload.(map[string]any); !ok {
		return nil, &Error{Failure: idempotency.Failure{
			Code: idempotency.CodeInvalidRequest, Target: "flow:" + t.Flow, Summary: "the event's data is no object",
		}}
	}
	return map[string]any{"record": t.Payload}, nil
}
