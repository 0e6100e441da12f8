package report

import (
	"context"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/idempotency"
)

// generated is a source of any number of letters that are made one at a time.
type generated struct {
	letters, groups int
	backwards       bool
	change          func(i int, j *deadletter.Judgement)
}

func (g generated) at(i int) deadletter.Judgement {
	codes := []letter.Code{letter.CodeTimeout, letter.CodeAccessDenied, letter.CodeUnclassified, letter.CodeThrottled}
	n := i % g.groups
	code, target := codes[n%len(codes)], fmt.Sprintf("fc:worker-%d", n)
	at := asOf.Add(-time.Duration(i%40_000) * 7 * time.Second)
	j := deadletter.Judgement{Code: code, Target: target, Fingerprint: letter.Fingerprint(code, target), Letter: letter.Letter{
		ID: letter.ID("demo.producer", fmt.Sprint(i), "d"), EventID: fmt.Sprintf("3f8a2c1e-%012d", i), EventSource: "demo.producer", Flow: "summary", RawSHA256: "x", ConsumerVersion: "7",
		FirstFailedAt: at, LastFailedAt: at.Add(time.Minute), ExpiresAt: asOf.Add(time.Duration(i%900) * time.Hour), DeliveryAttempts: 1, Reason: "HTTP 503 of the target",
	}}
	j.Decision, j.Rule = deadletter.Decide(deadletter.Facts{Code: code})
	if i%5 == 0 {
		j.Letter.FinalStatus, j.Letter.ClosedAt, j.Letter.ClosedBy, j.Letter.CloseReason = letter.FinalSucceeded, asOf, "replayer", "the record says so"
		j.Record = &idempotency.Record{Status: idempotency.StatusSucceeded}
	}
	if g.change != nil {
		g.change(i, &j)
	}
	return j
}

func (g generated) Letters(_ context.Context, each func(deadletter.Judgement) error) error {
	for i := range g.letters {
		if g.backwards {
			i = g.letters - 1 - i
		}
		if err := each(g.at(i)); err != nil {
			return err
		}
	}
	return nil
}

func (generated) Plans(context.Context, func(plan.Plan, *plan.Approval) error) error { return nil }

func (generated) Items(context.Context, string, func(plan.Item) error) error { return nil }

func (generated) Evidence(context.Context, string) ([]deadletter.Evidence, error) { return nil, nil }

func (generated) Audit(context.Context, func(deadletter.Audit) error) error { return nil }
