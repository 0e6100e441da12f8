package deadletter

import (
	"fmt"
	"slices"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/idempotency"
)

// Rules bound every replay. They are configuration.
type Rules struct {
	Stages      []int64       // sizes of the first stages; the rest follows in stages of Cap
	Cap         int64         // largest stage, in events
	Observe     time.Duration // waited at the end of each stage
	Rate        float64       // sends in a second
	Burst       int64         // sends at once on top of it
	Concurrency int64         // sends in flight
	MaxErrors   int64         // percent of failed events above which a run stops
	// What makes a plan one of high impact, which its maker may not approve.
	High plan.Impact
	// MaxGenerations is how often a letter's replay may fail.
	MaxGenerations int64
	// CallTimeout is the longest that one call of the function may take.
	CallTimeout time.Duration
}

// DefaultRules are what holds where nothing else is configured.
func DefaultRules() Rules {
	return Rules{
		Stages: []int64{1, 5, 25}, Cap: 500, Observe: 30 * time.Second, Rate: 10, Burst: 1, Concurrency: 4, MaxErrors: 20,
		High: plan.Impact{
			Count: 100, Effects: []idempotency.TargetKind{idempotency.TargetOpaque},
			Codes: []letter.Code{letter.CodeAccessDenied, letter.CodePolicyRejected},
		},
		MaxGenerations: 3, CallTimeout: 330 * time.Second,
	}
}

// RulesOf returns the rules of flows.yaml's section `replay`, checked.
func RulesOf(s flows.Replay) (Rules, error) {
	r := DefaultRules()
	number := func(to *int64, from *int64) {
		if from != nil {
			*to = *from
		}
	}
	if len(s.Stages) > 0 {
		r.Stages = s.Stages
	}
	number(&r.Cap, s.Cap)
	number(&r.Burst, s.Burst)
	number(&r.Concurrency, s.Concurrency)
	number(&r.MaxErrors, s.MaxErrors)
	number(&r.MaxGenerations, s.Generations)
	if s.Rate != 0 {
		r.Rate = s.Rate
	}
	for _, d := range []struct {
		name, text string
		to         *time.Duration
	}{{"observe", s.Observe, &r.Observe}, {"call_timeout", s.CallTimeout, &r.CallTimeout}} {
		if d.text == "" {
			continue
		}
		v, err := time.ParseDuration(d.text)
		if err != nil {
			return r, fmt.Errorf("replay rules: %s: %q is no duration; write 30s", d.name, d.text)
		}
		*d.to = v
	}
	if h := s.HighImpact; h != nil {
		number(&r.High.Count, h.Count)
		if h.Effects != nil {
			r.High.Effects = nil
			for _, kind := range h.Effects {
				k := idempotency.TargetKind(kind)
				if !slices.Contains(idempotency.TargetKinds, k) {
					return r, fmt.Errorf("replay rules: high_impact.effects: %q is no kind; use idempotent, readable or opaque", kind)
				}
				r.High.Effects = append(r.High.Effects, k)
			}
		}
		if h.Codes != nil {
			r.High.Codes = nil
			for _, code := range h.Codes {
				r.High.Codes = append(r.High.Codes, letter.Code(code))
			}
		}
	}
	return r, r.Check()
}

// Check returns what is wrong with rules, naming the setting of flows.yaml.
func (r Rules) Check() error {
	for _, c := range []struct {
		name string
		ok   bool
		want string
	}{
		{"stages", !slices.ContainsFunc(r.Stages, func(n int64) bool { return n < 1 }), "sizes of at least 1"},
		{"cap", r.Cap >= 1, "at least 1"},
		{"observe", r.Observe >= 0 && r.Observe <= 24*time.Hour, "from 0s to 24h"},
		{"rate", r.Rate >= 0.001 && r.Rate <= 10000, "from 0.001 to 10000 a second"},
		{"burst", r.Burst >= 1 && r.Burst <= 10000, "from 1 to 10000"},
		{"concurrency", r.Concurrency >= 1 && r.Concurrency <= 1000, "from 1 to 1000"},
		{"max_errors_pct", r.MaxErrors >= 0 && r.MaxErrors <= 100, "from 0 to 100"},
		{"max_generations", r.MaxGenerations >= 1 && r.MaxGenerations <= 100, "from 1 to 100"},
		{"call_timeout", r.CallTimeout > 0 && r.CallTimeout <= 24*time.Hour, "more than 0s and at most 24h"},
	} {
		if !c.ok {
			return fmt.Errorf("replay rules: %s must be %s", c.name, c.want)
		}
	}
	return nil
}

// stagesOf splits n events into stages that widen up to the cap.
func (r Rules) stagesOf(n int64) []int64 {
	var sizes []int64
	for i := 0; n > 0; i++ {
		size := r.Cap
		if i < len(r.Stages) {
			size = min(r.Stages[i], r.Cap)
		}
		size = min(size, n)
		sizes = append(sizes, size)
		n -= size
	}
	return sizes
}
