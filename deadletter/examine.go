package deadletter

import (
	"context"
	"fmt"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/flows"
)

// examined is what today's code makes of an event.
type examined struct {
	event  *events.Event
	flow   *flows.Flow
	input  *flows.Input
	key    string
	digest string
	why    string // fixed text: what the function would refuse it for, "" for nothing
}

// examine reads raw bytes as the function does before it claims.
func (d *Desk) examine(raw []byte) (x examined) {
	var err error
	if x.event, err = events.Decode(raw); err != nil {
		x.why = err.Error()
		return x
	}
	if x.flow = d.Flows.Find(x.event); x.flow == nil {
		x.why = "no flow wants the event"
		return x
	}
	if x.input, err = x.flow.Input(x.event); err != nil {
		x.why = err.Error()
		return x
	}
	x.digest = x.flow.Digest(x.input)
	if x.flow.Environment(x.event) != d.Environment {
		x.why = "the event names another environment"
		return x
	}
	key, err := x.flow.Key(x.input, d.KeySecret)
	if err == nil {
		x.key = key.Hex
		_, err = x.flow.TaskEffects(key.Hex, x.input, d.KeySecret)
	}
	if err == nil {
		err = x.flow.Validate(x.input)
	}
	if err != nil {
		x.why = err.Error()
	}
	return x
}

// RawEvent reads the bytes of a letter's event, unsealed and checked against their
// hash. Errors wrap those of artifacts.Store.ReadLetter.
func (d *Desk) RawEvent(ctx context.Context, l letter.Letter) ([]byte, error) {
	ref, err := l.Raw()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", artifacts.ErrAltered, err)
	}
	var keys artifacts.PrivateKeys
	if d.Keys != nil {
		if keys, err = d.Keys(); err != nil {
			return nil, err
		}
	}
	raw, err := d.Artifacts.ReadLetter(ctx, l.ID, ref, keys)
	if err != nil {
		return nil, fmt.Errorf("read letter %s: %w", l.ID, err)
	}
	return raw, nil
}
