package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/idempotency"
)

func TestImpactIsHighByCountEffectsAndCodes(t *testing.T) {
	rule := Impact{Count: 2, Effects: []idempotency.TargetKind{idempotency.TargetOpaque}, Codes: []letter.Code{letter.CodeAccessDenied}}
	opaque, readable := []idempotency.TargetKind{idempotency.TargetOpaque}, []idempotency.TargetKind{idempotency.TargetReadable}
	timeout, denied := []letter.Code{letter.CodeTimeout}, []letter.Code{letter.CodeTimeout, letter.CodeAccessDenied}
	for name, c := range map[string]struct {
		got, want []string
	}{
		"none":                       {rule.Why(2, readable, timeout), nil},
		"one event more":             {rule.Why(3, nil, nil), []string{"more than 2 events"}},
		"an opaque effect":           {rule.Why(1, opaque, timeout), []string{"a side effect of kind opaque"}},
		"one code of several":        {rule.Why(1, nil, denied), []string{"the code ACCESS_DENIED"}},
		"all three":                  {rule.Why(3, opaque, denied), []string{"more than 2 events", "a side effect of kind opaque", "the code ACCESS_DENIED"}},
		"no rule, and any one event": {Impact{}.Why(1, nil, nil), []string{"more than 0 events"}},
	} {
		if d := cmp.Diff(c.want, c.got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}
