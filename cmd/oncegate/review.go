package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/messages"
)

// reviewView is a review as it is printed.
type reviewView struct {
	ID           string                  `json:"id"`
	Kind         idempotency.ReviewKind  `json:"kind"`
	State        idempotency.ReviewState `json:"state"`
	Resolution   idempotency.Resolution  `json:"resolution"`
	Revision     int64                   `json:"revision"`
	Key          string                  `json:"idempotency_key"`
	Flow         string                  `json:"flow"`
	Environment  string                  `json:"environment"`
	Assignee     string                  `json:"assignee"`
	RecordDigest string                  `json:"record_digest"`
	RecordStatus idempotency.Status      `json:"record_status"`
	EventDigest  string                  `json:"event_digest"`
	EventSource  string                  `json:"event_source"`
	EventID      string                  `json:"event_id"`
	FirstSeenAt  string                  `json:"first_seen_at"`
	ExpiresAt    string                  `json:"expires_at"`

	Effect         string                 `json:"effect"`
	EffectKey      string                 `json:"effect_key"`
	EffectKind     idempotency.TargetKind `json:"target_kind"`
	Attempt        int64                  `json:"attempt"`
	Reviewer       string                 `json:"reviewer"`
	Reason         string                 `json:"reason"`
	TargetRecordID string                 `json:"target_record_id"`
	ResolvedAt     string                 `json:"resolved_at"`
}

func reviewOf(r idempotency.Review) reviewView {
	return reviewView{
		r.ID, r.Kind, r.State, r.Resolution, r.Revision, r.Key, r.Flow, r.Environment, r.Assignee,
		r.RecordDigest, r.RecordStatus, r.EventDigest, r.Source, r.EventID, utc(r.FirstSeenAt), utc(r.ExpiresAt),
		r.EffectName, r.EffectKey, r.EffectKind, r.Attempt, r.Reviewer, r.Reason, r.TargetRecordID, utc(r.ResolvedAt),
	}
}

func (a *app) reviewCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "review", Short: "Read and answer the questions that wait for a person",
		Example: `  oncegate review list
  oncegate review show 5f0c
  oncegate review resolve 5f0c --as confirmed_done --target-record-id 4711 --reason "seen in the ERP"`,
	}
	cmd.AddCommand(a.reviewListCommand(), a.reviewShowCommand(), a.reviewResolveCommand(), a.reviewCarryOutCommand())
	return parent(cmd)
}

func (a *app) reviewListCommand() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List open reviews; scans the whole table",
		Args:  cobra.NoArgs,
		RunE: runE(func(ctx context.Context, _ []string) error {
			s, err := a.openState()
			if err != nil {
				return err
			}
			defer s.done()
			a.tell(messages.T("scanning table %s ...", idempotency.ReviewTable.Name))
			views, scanned := []reviewView{}, 0
			for from, more := "", true; more; more = from != "" {
				page, next, err := s.reviews.List(ctx, from, "", 500)
				if err != nil {
					return err
				}
				for _, r := range page {
					scanned++
					if all || r.State == idempotency.ReviewOpen {
						views = append(views, reviewOf(r))
					}
				}
				from = next
			}
			return a.printReviews(views, scanned)
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "closed reviews too")
	a.targetFlags(cmd)
	a.outputFlag(cmd, outputTable, outputJSON, outputJSONL)
	return cmd
}

func (a *app) printReviews(views []reviewView, scanned int) error {
	switch a.output {
	case outputJSON:
		return printJSON(a.out, struct {
			SchemaVersion int          `json:"schema_version"`
			Reviews       []reviewView `json:"reviews"`
			Scanned       int          `json:"scanned"`
			Complete      bool         `json:"complete"`
		}{1, views, scanned, true}, true)
	case outputJSONL:
		for _, v := range views {
			if err := printJSON(a.out, v, false); err != nil {
				return err
			}
		}
	default:
		var rows [][]string
		for _, v := range views {
			rows = append(rows, []string{
				short(v.ID), string(v.Kind), string(v.State), short(v.Key), string(v.RecordStatus), v.Flow, v.Assignee, v.FirstSeenAt,
			})
		}
		printTable(a.out, a.words(
			messages.T("id"), messages.T("kind"), messages.T("state"), messages.T("key"), messages.T("record"), messages.T("flow"), messages.T("assignee"), messages.T("first seen"),
		), rows)
	}
	a.tell(messages.T("%d reviews of %d scanned, complete", len(views), scanned))
	return nil
}

func (a *app) reviewShowCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show one review; ID may be a unique beginning of an id",
		Args:  cobra.ExactArgs(1),
		RunE: runE(func(ctx context.Context, args []string) error {
			id, err := checkReviewID(args[0])
			if err != nil {
				return err
			}
			s, err := a.openState()
			if err != nil {
				return err
			}
			defer s.done()
			r, err := findReview(ctx, s.reviews, id)
			if err != nil {
				return err
			}
			return a.printReview(reviewOf(r))
		}),
	}
	a.targetFlags(cmd)
	a.outputFlag(cmd, outputTable, outputJSON)
	return cmd
}

// checkReviewID accepts an id or the beginning of one.
func checkReviewID(arg string) (string, error) {
	id := strings.ToLower(arg)
	if id == "" || len(id) > 64 || strings.Trim(id, "0123456789abcdef") != "" {
		return "", usageErrorf("ID must be up to 64 hex digits; `oncegate review list` shows them")
	}
	return id, nil
}

func findReview(ctx context.Context, reviews *idempotency.Reviews, id string) (idempotency.Review, error) {
	// Ids are hex digits, and "g" comes after all of them.
	found, next, err := reviews.List(ctx, id, id+"g", 2)
	switch {
	case err != nil:
		return idempotency.Review{}, err
	case len(found) == 0 && next == "":
		return idempotency.Review{}, notFoundf("there is no review whose id begins with %s", id)
	case len(found) != 1 || next != "":
		return idempotency.Review{}, messages.Errorf("more than one id begins with %s: give more of it", id)
	}
	return found[0], nil
}

func (a *app) printReview(v reviewView) error {
	if a.output == outputJSON {
		return printJSON(a.out, struct {
			SchemaVersion int `json:"schema_version"`
			reviewView
		}{1, v}, true)
	}
	lines := []labelled{
		{messages.T("id"), v.ID},
		{messages.T("kind"), v.Kind},
		{messages.T("state"), v.State},
		{messages.T("resolution"), v.Resolution},
		{messages.T("idempotency_key"), v.Key},
		{messages.T("flow"), v.Flow},
		{messages.T("assignee"), v.Assignee},
		{messages.T("record_status"), messages.T("%s when the question arose", v.RecordStatus)},
		{messages.T("record_digest"), messages.T("%s the input that holds", v.RecordDigest)},
		{messages.T("record_input"), messages.T("%s in the bucket", "tasks/"+v.Key+"/input.json")},
	}
	if v.Kind == idempotency.ReviewConflict {
		refused := "dead-letters/" + letter.ID(v.EventSource, v.EventID, v.EventDigest) + "/event.bin"
		lines = append(lines,
			labelled{messages.T("refused_event"), messages.T("%s in the bucket", refused)},
			labelled{messages.T("event_digest"), messages.T("%s the input that was refused", v.EventDigest)})
	}
	if v.Effect != "" {
		lines = append(lines, labelled{messages.T("effect"), messages.T("%s, target %s, sent by attempt %d", v.Effect, v.EffectKind, v.Attempt)})
	}
	a.printLabelled(16, append(lines,
		labelled{messages.T("effect_key"), v.EffectKey},
		labelled{messages.T("reviewer"), v.Reviewer},
		labelled{messages.T("reason"), v.Reason},
		labelled{messages.T("target_record_id"), v.TargetRecordID},
		labelled{messages.T("resolved_at"), v.ResolvedAt},
		labelled{messages.T("event"), v.EventSource + " " + v.EventID},
		labelled{messages.T("first_seen_at"), v.FirstSeenAt},
		labelled{messages.T("expires_at"), v.ExpiresAt}))
	return nil
}

func said(say bool, text string) string {
	if say {
		return text
	}
	return ""
}
