package deadletter

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/idempotency"
)

func TestDecisionVectors(t *testing.T) {
	var file struct {
		Decisions []struct {
			Name             string
			ErrorCode        letter.Code         `json:"error_code"`
			Record           *idempotency.Status `json:"record"`
			DigestMatches    *bool               `json:"digest_matches"`
			DigestSuperseded bool                `json:"digest_superseded"`
			OpenReview       bool                `json:"open_review"`
			ResolvedReview   bool                `json:"resolved_review"`
			FlowOn           *bool               `json:"flow_on"`
			Decision         Decision            `json:"decision"`
		}
	}
	raw, err := os.ReadFile("testdata/decisions.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &file); err != nil || len(file.Decisions) < 20 {
		t.Fatalf("%d vectors: %v", len(file.Decisions), err)
	}
	for _, c := range file.Decisions {
		t.Run(c.Name, func(t *testing.T) {
			f := Facts{
				Code: c.ErrorCode, DigestSuperseded: c.DigestSuperseded, OpenReview: c.OpenReview, ResolvedReview: c.ResolvedReview, FlowOn: true,
			}
			if c.Record != nil {
				f.Record = *c.Record
			}
			if c.DigestMatches != nil {
				f.DigestMatches = *c.DigestMatches
			}
			if c.FlowOn != nil {
				f.FlowOn = *c.FlowOn
			}
			if got, rule := Decide(f); got != c.Decision || rule.IsZero() {
				t.Errorf("got %s (%s), want %s", got, rule, c.Decision)
			}
		})
	}
}
