package deadletter

import (
	"context"
	"fmt"

	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/internal/aliyun"
)

// maxLooked bounds how many items of a plan a look for one letter reads.
const maxLooked = 20_000

// Explained is what every gate says about a letter now, and the plan that has
// taken it up, nil where none has.
type Explained struct {
	Judgement Judgement // with the key that today's flows give it
	Gates     []Gate
	Plan      *plan.Plan
}

// Explain asks every gate about a letter, as a plan or its run would.
func (p *Planner) Explain(ctx context.Context, j Judgement) (Explained, error) {
	j, _, err := p.Desk.derive(ctx, j)
	if err != nil {
		return Explained{}, fmt.Errorf("explain: %w", err)
	}
	current, err := p.Current(ctx)
	if aliyun.KindOf(err) == aliyun.KindDenied {
		current, err = "", nil // the version gate says that nobody knows
	}
	if err != nil {
		return Explained{}, fmt.Errorf("explain: read the function's version: %w", err)
	}
	evidence, err := Standing(ctx, p.Evidence, p.Plans, j.Fingerprint)
	if err != nil {
		return Explained{}, fmt.Errorf("explain: %w", err)
	}
	facts := p.facts(j, evidence, current)
	facts.Approval = ErrNoPlan
	if facts.Family, err = Family(ctx, p.Desk.Letters, p.Audit, j.Letter); err != nil {
		return Explained{}, fmt.Errorf("explain: %w", err)
	}
	e := Explained{Judgement: j}
	if e.Plan, facts.Item, err = p.holding(ctx, j); err != nil {
		return Explained{}, fmt.Errorf("explain: %w", err)
	}
	if e.Plan != nil {
		a, err := p.Plans.Approval(ctx, e.Plan.ID)
		if err != nil {
			return Explained{}, fmt.Errorf("explain: %w", err)
		}
		facts.Approval = plan.CheckApproval(*e.Plan, a)
	}
	e.Gates = Gates(facts)
	return e, nil
}

// holding finds the plan that has not ended and holds the letter.
func (p *Planner) holding(ctx context.Context, j Judgement) (*plan.Plan, *plan.Frozen, error) {
	for from, more := "", true; more; more = from != "" {
		page, next, err := p.Plans.List(ctx, from, 500)
		if err != nil {
			return nil, nil, err
		}
		for _, one := range page {
			if one.State.Ended() || one.Fingerprint != j.Fingerprint {
				continue
			}
			for at := int64(0); at >= 0 && at < maxLooked; {
				items, after, err := p.Plans.Items(ctx, one.ID, at, 1000)
				if err != nil {
					return nil, nil, err
				}
				for _, i := range items {
					if i.LetterID == j.Letter.ID && i.Outcome == "" {
						return &one, &i.Frozen, nil
					}
				}
				at = after
			}
		}
		from = next
	}
	return nil, nil, nil
}
