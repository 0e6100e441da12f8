package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/handler/fctest"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/messages"
)

func (a *app) reviewResolveCommand() *cobra.Command {
	o := stackOptions{}
	var as, reason, recordID, reviewer string
	cmd := &cobra.Command{
		Use:   "resolve ID --as ANSWER --reason TEXT",
		Short: "Answer a review, and let the function carry the answer out",
		Long: `Answer a review, and let the function carry the answer out.

An outcome_unknown asks whether a side effect has happened:
  confirmed_done       it has; --target-record-id names its number at the target
  confirmed_not_done   it has not; the next attempt sends it again
  compensated          a person has undone it; it is not sent again

A conflict asks which of two inputs of one key holds:
  keep_old             the record's input; the refused one is rejected
  use_new              the refused input; not once the task has SUCCEEDED or
                       anything may have happened outside
  discard              the refused input is rejected

The answer is stored on the condition that the review is as it was shown. The
function alone writes the task: it is called with the review's id and reads the
answer itself. The task then goes on with its next delivery. With --target cloud
the answer is stored, and the call to make is printed.`,
		Example: `  oncegate review resolve 5f0c --as confirmed_not_done --reason "not in the group chat"
  oncegate review resolve 77ab --as use_new --reason "the first amount was a typing error"`,
		Args: cobra.ExactArgs(1),
		RunE: runE(func(ctx context.Context, args []string) error {
			id, err := checkReviewID(args[0])
			if err != nil {
				return err
			}
			answer := idempotency.Resolution(as)
			if !slices.Contains(allResolutions(), answer) {
				return usageErrorf("--as %q is not known; use %s", as, strings.Join(texts(allResolutions()), ", "))
			}
			switch {
			case strings.TrimSpace(reason) == "":
				return usageErrorf("--reason is needed: it is what the next person reads")
			case reviewer == "":
				return usageErrorf("--reviewer is needed: who answers")
			}
			target, err := a.chosenTarget()
			if err != nil {
				return err
			}
			if target == targetCloud {
				store, _, err := a.cloudStore()
				if err != nil {
					return err
				}
				answered, err := answerReview(ctx, idempotency.NewReviews(store), idempotency.NewTable(store, idempotency.DefaultPolicy()), id, answer, reviewer, reason, recordID)
				if err != nil {
					return err
				}
				return a.printToCarryOut(answered)
			}
			if err := a.needLocalState(); err != nil {
				return err
			}
			if err := a.completeStack(&o); err != nil {
				return err
			}
			if err := a.needFunction(ctx, &o); err != nil {
				return err
			}
			s, err := startStack(o)
			if err != nil {
				return err
			}
			defer s.Close()
			if err := a.actOn(s.cloud); err != nil {
				return err
			}
			shown, err := answerReview(ctx, idempotency.NewReviews(s.store), idempotency.NewTable(s.store, idempotency.DefaultPolicy()), id, answer, reviewer, reason, recordID)
			if err != nil {
				return err
			}
			result, err := s.carryOut(ctx, shown.ID)
			if err != nil {
				return err
			}
			return a.printResolved(shown, result)
		}),
	}
	cmd.Flags().StringVar(&as, "as", "", "the answer (required)")
	cmd.Flags().StringVar(&reason, "reason", "", "why (required)")
	cmd.Flags().StringVar(&recordID, "target-record-id", "", "with confirmed_done: the record's number at the target")
	cmd.Flags().StringVar(&reviewer, "reviewer", a.getenv("USER"), "who answers (required; default: $USER)")
	a.stackFlags(cmd, &o)
	cmd.Flags().StringVar(&a.target, "target", "", "local or cloud (default: cloud where ONCEGATE_TABLESTORE_ENDPOINT is set, else local)")
	a.outputFlag(cmd, outputTable, outputJSON)
	return cmd
}

func allResolutions() []idempotency.Resolution {
	return slices.Concat(idempotency.Resolutions[idempotency.ReviewOutcome], idempotency.Resolutions[idempotency.ReviewConflict])
}

func texts[T ~string](all []T) []string {
	out := make([]string, len(all))
	for i, v := range all {
		out[i] = string(v)
	}
	return out
}

// answerReview stores a person's answer. The same answer to a review that has it
// already is fine: it is carried out again.
func answerReview(ctx context.Context, reviews *idempotency.Reviews, tasks *idempotency.Table, id string, as idempotency.Resolution, reviewer, reason, recordID string) (idempotency.Review, error) {
	shown, err := findReview(ctx, reviews, id)
	if err != nil {
		return shown, err
	}
	if shown.State == idempotency.ReviewClosed && shown.Resolution == as {
		return shown, nil
	}
	if as == idempotency.ResolvedDone && recordID == "" && shown.EffectKind != idempotency.TargetOpaque {
		return shown, usageErrorf("confirmed_done needs --target-record-id: the record's number at the target")
	}
	if as == idempotency.ResolvedUseNew {
		if err := mayUseNew(ctx, tasks, shown); err != nil {
			return shown, err
		}
	}
	answered, err := shown.Answer(as, reviewer, reason, recordID, time.Now())
	if err != nil {
		return shown, refusedf("%w", err)
	}
	return answered, reviews.Close(ctx, shown, answered)
}

// mayUseNew says no before an answer is stored that the function would refuse.
func mayUseNew(ctx context.Context, tasks *idempotency.Table, r idempotency.Review) error {
	rec, ok, err := tasks.Get(ctx, r.Key)
	if err != nil {
		return err
	}
	if !ok {
		return notFoundf("the review's task is gone")
	}
	if _, err := tasks.PlanUseNew(rec, r, time.Now()); err != nil {
		return refusedf("%w; the review stays open: keep_old and discard are possible, and new content needs a new business number or version", err)
	}
	return nil
}

// carryOut calls the function with the review's id.
func (s *stack) carryOut(ctx context.Context, id string) (handler.Result, error) {
	raw, err := json.Marshal(handler.Envelope{Oncegate: handler.EnvelopeResolve, Review: id})
	if err != nil {
		return handler.Result{}, err
	}
	resp, err := s.function.Invoke(ctx, fctest.Request{Payload: raw})
	if err != nil {
		return handler.Result{}, err
	}
	if resp.FunctionError != "" {
		return handler.Result{}, messages.Errorf("the answer is stored, and the function could not carry it out yet (%s): run the same command again", resp.ErrorType)
	}
	var result handler.Result
	if err := json.Unmarshal(resp.Payload, &result); err != nil {
		return handler.Result{}, fmt.Errorf("read the function's answer: %w", err)
	}
	return result, nil
}

// printToCarryOut says how to call the deployed function. The call may be made
// again and again, by anybody who may invoke it: the review alone says what to do.
func (a *app) printToCarryOut(r idempotency.Review) error {
	raw, err := json.Marshal(handler.Envelope{Oncegate: handler.EnvelopeResolve, Review: r.ID})
	if err != nil {
		return err
	}
	if a.output == outputJSON {
		return printJSON(a.out, struct {
			SchemaVersion int                    `json:"schema_version"`
			ID            string                 `json:"id"`
			Resolution    idempotency.Resolution `json:"resolution"`
			Key           string                 `json:"idempotency_key"`
			Invoke        json.RawMessage        `json:"invoke"`
		}{1, r.ID, r.Resolution, r.Key, raw}, true)
	}
	fmt.Fprintln(a.out, a.say.Text(messages.T("review %s: %s, stored\nNow invoke the function with\n\n    %s\n\nfor instance: s tasks invoke -e '%s'", short(r.ID), r.Resolution, raw, raw)))
	return nil
}

func (a *app) printResolved(r idempotency.Review, result handler.Result) error {
	if result.ErrorCode == idempotency.CodeInvalidRequest && result.Reason != "" {
		return refusedf("the answer is stored, and the function refuses to carry it out: %s", result.Reason)
	}
	if a.output == outputJSON {
		return printJSON(a.out, struct {
			SchemaVersion int                    `json:"schema_version"`
			ID            string                 `json:"id"`
			Resolution    idempotency.Resolution `json:"resolution"`
			Key           string                 `json:"idempotency_key"`
			Status        idempotency.Status     `json:"status"`
		}{1, r.ID, r.Resolution, r.Key, result.Status}, true)
	}
	fmt.Fprintln(a.out, a.say.Text(messages.T("review %s: %s\ntask %s: %s", short(r.ID), r.Resolution, short(r.Key), result.Status)))
	if result.Status == idempotency.StatusFailedRetryable {
		fmt.Fprintln(a.out, a.say.Text(messages.T("the task goes on with its next delivery: deliver its event again")))
	}
	return nil
}
