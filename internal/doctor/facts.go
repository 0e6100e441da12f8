package doctor

import (
	"time"

	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

// Facts are what is known of one deployment.
type Facts struct {
	Environment string // as this command reads it, by default also the bus
	Instance    string // of Tablestore, as this command reads it
	Bucket      string // as this command reads it
	Bus         string // of the rules
	Function    string // that handles events
	Intake      string // that takes dead letters in
	Alias       string // that rules deliver to

	Problems []string // of this command's own variables; no values
	Identity Seen[Identity]
	Deployed Seen[Function] // at the alias
	TakesIn  Seen[Intake]   // likewise
	Versions Seen[Versions]

	Tables    []Table
	Probe     Seen[Probe]
	Settings  Seen[aliyun.BucketSettings]
	Lifecycle Seen[[]string] // rules that are not there
	Clock     Seen[[]Skew]

	Rules   Seen[[]aliyun.Rule] // of the environment's bus, disabled ones too
	Foreign Seen[[]aliyun.Rule] // of all other buses
	Queues  map[string]Seen[Queue]
	Streams Seen[[]aliyun.Stream]
	Flows   Seen[[]Flow]
}

// Identity is whose the credentials are.
type Identity struct {
	Name    string
	Account string
	Owner   bool // of the account itself, for whom no policy holds
}

// Function is how the function that handles events is deployed. Durations are
// those of the cloud, also where the local cloud scales them.
type Function struct {
	Problems    []string // of its variables; no values
	TimeScale   float64
	Local       bool // its tables are on its own machine: a local cloud, where waits are scaled
	Environment string
	Instance    string
	Bucket      string
	Encryption  string // that objects ask for; "" for the bucket's own
	OwnFlows    bool   // it runs a flows file of its package, not the one that is built in

	Timeout                time.Duration // of one invocation
	Policy                 idempotency.Policy
	ReserveMin, ReserveMax time.Duration

	ModelTimeout time.Duration   // 0 for what the run has left
	ModelPlain   bool            // the model is called without TLS, and not on this machine
	Model        bool            // everything that calling the model needs is set
	KeySecret    bool            // one of enough length is set
	OtherSecret  bool            // this command has another one, or none
	Targets      map[string]bool // which effects have somewhere to send to, by `uses`
}

// Intake is how the function that takes dead letters in is deployed.
type Intake struct {
	Problems    []string // of its variables; no values
	Environment string
	Instance    string
	Bucket      string
	Timeout     time.Duration
	KeySecret   bool // one of enough length is set
	OtherSecret bool // the function that handles events has another one
}

// Versions are what was published of the function.
type Versions struct {
	Published []string
	AliasTo   string // "" where the alias is not there
}

// Table is one table that must be there.
type Table struct {
	Name  string
	Shape Seen[TableShape]
}

// TableShape is what a table is like.
type TableShape struct {
	Absent bool
	Wrong  string // what does not fit; "" where all does
}

// Probe is what became of two equal conditional puts.
type Probe struct {
	Second string // code that refused the second one; "" where it was taken
}

// Skew is how far this machine's clock is ahead of a service's.
type Skew struct {
	Service string
	By      time.Duration
}

// Queue is a dead-letter queue.
type Queue struct {
	Absent bool
	aliyun.Queue
}

// Flow is one flow of flows.yaml, and where its sample event would go.
type Flow struct {
	Name        string
	Enabled     bool
	MaxAttempts int64
	NeedsSecret bool
	UsesModel   bool
	NamedByBus  bool // its environment is the name of the bus
	Effects     []Effect

	AlsoWantedBy []string       // further enabled flows that match its sample
	Routes       Seen[[]string] // rules of the bus that bring it to the function
	Others       []string       // further functions that get it too
}

// Effect is one side effect of a flow.
type Effect struct {
	Name, Uses string
	Timeout    time.Duration
}

// route is one way from the bus to the function.
type route struct {
	rule string
	aliyun.RuleTarget
}

// routes are the enabled rules' targets that deliver to the function.
func (f Facts) routes() []route {
	var all []route
	for _, r := range f.Rules.Value {
		for _, t := range r.Targets {
			if r.Enabled && t.Function == f.Function {
				all = append(all, route{r.Name, t})
			}
		}
	}
	return all
}

// enabled are the flows that run.
func (f Facts) enabled() []Flow {
	var all []Flow
	for _, one := range f.Flows.Value {
		if one.Enabled {
			all = append(all, one)
		}
	}
	return all
}

// schedule is how the platform delivers an event that fails.
type schedule struct {
	deliveries int           // at most, the first one included
	span       time.Duration // from the first to the last, at least
}

// Retry strategies, as rules and streams spell them.
const (
	backoffRetry = "BACKOFF_RETRY"
	decayRetry   = "EXPONENTIAL_DECAY_RETRY"
)

// scheduleOf is that of a retry strategy; "" is the service's default.
// https://www.alibabacloud.com/help/en/eventbridge/user-guide/retry-and-dead-letter
func scheduleOf(retry string) (s schedule, known bool) {
	switch retry {
	case backoffRetry, "":
		return schedule{4, 30 * time.Second}, true // 3 retries, each after 10 to 20 s
	case decayRetry:
		return schedule{177, 86_015 * time.Second}, true // 1, 2, 4 .. 256 s, then 167 times 512 s
	}
	return schedule{}, false
}
