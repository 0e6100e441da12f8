package flows

// Replay is the section `replay` of flows.yaml: how replays of dead letters are
// bounded, and which ones need a second identity. nil and "" mean the default.
type Replay struct {
	Stages      []int64 `yaml:"stages"`         // sizes of the first stages; the rest follows in stages of `cap`
	Cap         *int64  `yaml:"cap"`            // largest stage, in events
	Observe     string  `yaml:"observe"`        // waited at the end of each stage, such as 30s
	Rate        float64 `yaml:"rate"`           // sends in a second
	Burst       *int64  `yaml:"burst"`          // sends at once on top of it
	Concurrency *int64  `yaml:"concurrency"`    // sends in flight
	MaxErrors   *int64  `yaml:"max_errors_pct"` // percent of failed events above which a run stops
	Generations *int64  `yaml:"max_generations"`
	CallTimeout string  `yaml:"call_timeout"` // longest that one call of the function may take
	HighImpact  *struct {
		Count   *int64   `yaml:"count"`   // more events than this
		Effects []string `yaml:"effects"` // kinds of side effects: idempotent, readable, opaque
		Codes   []string `yaml:"codes"`   // of letters: ACCESS_DENIED, ...
	} `yaml:"high_impact"`
}
