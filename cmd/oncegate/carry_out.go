package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/messages"
)

func (a *app) reviewCarryOutCommand() *cobra.Command {
	o := stackOptions{}
	cmd := &cobra.Command{
		Use:   "carry-out ID",
		Short: "Let the function carry out the answer that a review has",
		Long: `Let the function carry out the answer that a review has: for whoever may call the
function, where the one who answered may not, or the call failed. The function
reads the answer from the review; the call says nothing else, and may be repeated.`,
		Example: `  oncegate review carry-out 5f0c`,
		Args:    cobra.ExactArgs(1),
		RunE: runE(func(ctx context.Context, args []string) error {
			id, err := checkReviewID(args[0])
			if err != nil {
				return err
			}
			d, done, err := a.openReviews(ctx, &o)
			if err != nil {
				return err
			}
			defer done()
			r, err := findReview(ctx, d.reviews, id)
			if err != nil {
				return err
			}
			if r.State != idempotency.ReviewClosed {
				return refusedf("review %s is open: oncegate review resolve %s answers it", short(r.ID), short(r.ID))
			}
			return a.carryOut(ctx, d.call, r)
		}),
	}
	a.reviewCallFlags(cmd, &o)
	return cmd
}

func (a *app) reviewCallFlags(cmd *cobra.Command, o *stackOptions) {
	a.stackFlags(cmd, o)
	cmd.Flags().StringVar(&a.target, "target", "", "local or cloud (default: cloud where ONCEGATE_TABLESTORE_ENDPOINT is set, else local)")
	a.outputFlag(cmd, outputTable, outputJSON)
}

// reviewDesk is where answers are stored, and the function that carries them out.
type reviewDesk struct {
	reviews *idempotency.Reviews
	tasks   *idempotency.Table
	call    caller
}

// openReviews reaches reviews and function of the chosen target, both before
// anything is stored.
func (a *app) openReviews(ctx context.Context, o *stackOptions) (*reviewDesk, func(), error) {
	target, err := a.chosenTarget()
	if err != nil {
		return nil, nil, err
	}
	if target == targetCloud {
		store, _, err := a.cloudStore()
		if err != nil {
			return nil, nil, err
		}
		client, function, err := a.cloudFunctions()
		if err != nil {
			return nil, nil, err
		}
		st := newState(target, store, func() {})
		return &reviewDesk{st.reviews, st.tasks, callerOf(client, function)}, st.done, nil
	}
	s, err := a.openStack(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	call, err := a.localCaller(s)
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	st := newState(target, s.store, s.Close)
	return &reviewDesk{st.reviews, st.tasks, call}, st.done, nil
}

// carryOut calls the function with the id of an answered review. The review alone
// says what to do, so anybody who may call the function may call it so, again and
// again.
func (a *app) carryOut(ctx context.Context, call caller, r idempotency.Review) error {
	raw, err := json.Marshal(handler.Envelope{Oncegate: handler.EnvelopeResolve, Review: r.ID})
	if err != nil {
		return err
	}
	answer, failed, err := call(ctx, liveQualifier, raw)
	if err != nil || failed {
		if err := a.printAnswer(r, nil); err != nil {
			return err
		}
		return notCarriedOut(r, answer, err)
	}
	var result handler.Result
	if err := json.Unmarshal(answer, &result); err != nil {
		return fmt.Errorf("read the function's answer: %w", err)
	}
	if result.ErrorCode == idempotency.CodeInvalidRequest && result.Reason != "" {
		return refusedf("the answer is stored, and the function refuses to carry it out: %s", result.Reason)
	}
	return a.printAnswer(r, &result)
}

// notCarriedOut says what is to be done where the function could not be called, or
// failed with an answer of its own.
func notCarriedOut(r idempotency.Review, answer []byte, err error) error {
	again := messages.T("oncegate review carry-out %s", short(r.ID))
	if err == nil {
		var failure struct {
			ErrorType string `json:"errorType"`
		}
		_ = json.Unmarshal(answer, &failure)
		return messages.Errorf("the answer is stored, and the function could not carry it out yet (%s): %s asks again", inert(failure.ErrorType), again)
	}
	if refused := new(deadletter.CallError); !errors.As(err, &refused) || !refused.Denied {
		return messages.Errorf("the answer is stored, and the function could not be asked to carry it out: %w; %s asks again", err, again)
	}
	if r.Resolution == idempotency.ResolvedUseNew {
		return refusedf("the answer is stored, and not carried out: %w\n%s does it under such a role", err, again)
	}
	return refusedf("the answer is stored, and not carried out: %w\n%s does it under such a role, and so does the event's next delivery", err, again)
}

// printAnswer prints an answered review, and what became of its task; result is
// nil where nobody has carried the answer out.
func (a *app) printAnswer(r idempotency.Review, result *handler.Result) error {
	v := struct {
		SchemaVersion int                    `json:"schema_version"`
		ID            string                 `json:"id"`
		Resolution    idempotency.Resolution `json:"resolution"`
		Reviewer      string                 `json:"reviewer"`
		Key           string                 `json:"idempotency_key"`
		CarriedOut    bool                   `json:"carried_out"`
		Status        idempotency.Status     `json:"status"`
	}{1, r.ID, r.Resolution, r.Reviewer, r.Key, result != nil, ""}
	if result != nil {
		v.Status = result.Status
	}
	switch {
	case a.output == outputJSON:
		return printJSON(a.out, v, true)
	case result == nil:
		fmt.Fprintln(a.out, a.say.Text(messages.T("review %s: %s, stored", short(r.ID), r.Resolution)))
		return nil
	}
	fmt.Fprintln(a.out, a.say.Text(messages.T("review %s: %s\ntask %s: %s", short(r.ID), r.Resolution, short(r.Key), result.Status)))
	if result.Status == idempotency.StatusFailedRetryable {
		fmt.Fprintln(a.out, a.say.Text(messages.T("the task goes on with its next delivery: deliver its event again")))
	}
	return nil
}
