package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/idempotency"
)

func (a *app) reviewResolveCommand() *cobra.Command {
	o := stackOptions{}
	var as, reason, recordID string
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

The answer is stored on the condition that the review is as it was shown; who
answers is the identity that the cloud names. The function alone writes the task:
it is called with the review's id and reads the answer itself. The task then goes
on with its next delivery.

Who may answer and not call the function (the role reviewer) ends with exit code
3: the answer is stored, and "oncegate review carry-out ID" under a role that may
call it does the rest.`,
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
			if strings.TrimSpace(reason) == "" {
				return usageErrorf("--reason is needed: it is what the next person reads")
			}
			d, done, err := a.openReviews(ctx, &o)
			if err != nil {
				return err
			}
			defer done()
			who, err := a.identity(ctx)
			if err != nil {
				return err
			}
			answered, err := answerReview(ctx, d.reviews, d.tasks, id, answer, who.Name(), reason, recordID)
			if err != nil {
				return err
			}
			return a.carryOut(ctx, d.call, answered)
		}),
	}
	cmd.Flags().StringVar(&as, "as", "", "the answer (required)")
	cmd.Flags().StringVar(&reason, "reason", "", "why (required)")
	cmd.Flags().StringVar(&recordID, "target-record-id", "", "with confirmed_done: the record's number at the target")
	a.reviewCallFlags(cmd, &o)
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
