package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/internal/messages"
)

// abandon asks the function to give up the tasks of letters that have ended: it
// alone writes tasks. The call may be made again and again.
func (a *app) abandon(ctx context.Context, o *stackOptions, letters []letter.Letter) error {
	if len(letters) == 0 {
		return nil
	}
	call, done, err := a.openCaller(ctx, o)
	if err != nil {
		return err
	}
	defer done()
	for _, l := range letters {
		payload, err := json.Marshal(handler.Envelope{Oncegate: handler.EnvelopeAbandon, Letter: l.ID})
		if err != nil {
			return err
		}
		answer, failed, err := call(ctx, liveQualifier, payload)
		if err != nil {
			err = messages.Errorf("the letters have ended, and the function could not be asked to abandon task %s: %w; oncegate dlq sweep --execute asks again", short(l.Key), err)
			if refused := new(deadletter.CallError); errors.As(err, &refused) && refused.Denied {
				err = &exitError{exitRefused, err}
			}
			return err
		}
		var r handler.Result
		if failed || json.Unmarshal(answer, &r) != nil {
			return messages.Errorf("the letters have ended, and the function could not abandon their tasks yet: oncegate dlq sweep --execute asks again")
		}
		if r.Decision == handler.DecisionAbandonRefused {
			fmt.Fprintf(a.err, "task %s stays as it is: %s\n", short(l.Key), inert(r.Reason))
			continue
		}
		fmt.Fprintf(a.err, "task %s is abandoned: later deliveries of its event run nothing\n", short(l.Key))
	}
	return nil
}
