package report

import (
	"context"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/plan"
)

// Tables is a Source over the tables as they are.
type Tables struct {
	// Judged hands over every letter with what is known of it now.
	Judged     func(ctx context.Context, each func(deadletter.Judgement) error) error
	PlanStore  *plan.Store
	Repairs    *deadletter.EvidenceLog
	AuditTable *deadletter.AuditLog
}

const scanPage = 500 // rows read at once

// Letters implements Source.
func (t Tables) Letters(ctx context.Context, each func(deadletter.Judgement) error) error {
	return t.Judged(ctx, each)
}

// Plans implements Source.
func (t Tables) Plans(ctx context.Context, each func(plan.Plan, *plan.Approval) error) error {
	for from, more := "", true; more; more = from != "" {
		plans, next, err := t.PlanStore.List(ctx, from, scanPage)
		if err != nil {
			return err
		}
		for _, p := range plans {
			a, err := t.PlanStore.Approval(ctx, p.ID)
			if err != nil {
				return err
			}
			if err := each(p, a); err != nil {
				return err
			}
		}
		from = next
	}
	return nil
}

// Items implements Source.
func (t Tables) Items(ctx context.Context, planID string, each func(plan.Item) error) error {
	for from := int64(0); from >= 0; {
		items, next, err := t.PlanStore.Items(ctx, planID, from, scanPage)
		if err != nil {
			return err
		}
		for _, i := range items {
			if err := each(i); err != nil {
				return err
			}
		}
		from = next
	}
	return nil
}

// Evidence implements Source.
func (t Tables) Evidence(ctx context.Context, fingerprint string) ([]deadletter.Evidence, error) {
	return t.Repairs.Of(ctx, fingerprint)
}

// Audit implements Source.
func (t Tables) Audit(ctx context.Context, each func(deadletter.Audit) error) error {
	for from, more := "", true; more; more = from != "" {
		rows, next, err := t.AuditTable.List(ctx, from, "", scanPage)
		if err != nil {
			return err
		}
		for _, a := range rows {
			if err := each(a); err != nil {
				return err
			}
		}
		from = next
	}
	return nil
}
