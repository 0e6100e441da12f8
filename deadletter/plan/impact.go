package plan

import (
	"fmt"
	"slices"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/idempotency"
)

// Impact says which plans are of high impact: their maker may not approve them.
// The zero value says it of every plan.
type Impact struct {
	Count   int64 // more events than this
	Effects []idempotency.TargetKind
	Codes   []letter.Code
}

// Why returns the reasons for which a plan is of high impact, none where it is not.
func (i Impact) Why(count int64, effects []idempotency.TargetKind, codes []letter.Code) []string {
	var why []string
	if count > i.Count {
		why = append(why, fmt.Sprintf("more than %d events", i.Count))
	}
	for _, kind := range i.Effects {
		if slices.Contains(effects, kind) {
			why = append(why, fmt.Sprintf("a side effect of kind %s", kind))
		}
	}
	for _, code := range i.Codes {
		if slices.Contains(codes, code) {
			why = append(why, "the code "+string(code))
		}
	}
	return why
}

// CheckImpact refuses a plan of high impact that nobody but its maker has approved.
// The function asks it by its own rules: the plan's row is the maker's to write.
func CheckImpact(p Plan, a *Approval, why []string) error {
	if len(why) > 0 && (a == nil || a.By == "" || principal(a.By) == principal(p.MadeBy)) {
		return ErrSameIdentity
	}
	return nil
}
