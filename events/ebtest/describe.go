package ebtest

import (
	"bytes"
	"encoding/json"
	"time"
)

// Setup is what a control plane knows, in the words of its answers.
type Setup struct {
	Buses   []string
	Rules   []RuleSetup
	Streams []StreamSetup
	Queues  []QueueSetup
}

// RuleSetup is a rule as GetRule answers it.
type RuleSetup struct {
	EventBusName  string
	RuleName      string
	FilterPattern string
	Status        string // ENABLE or DISABLE
	Targets       []TargetSetup
}

// TargetSetup is a rule's target.
type TargetSetup struct {
	ID                string `json:"Id"`
	Type              string
	Endpoint          string
	PushRetryStrategy Policy
	ErrorsTolerance   string
	DeadLetterQueue   ARN `json:",omitzero"`
	ParamList         []ParamSetup
}

// ARN names a resource.
type ARN struct {
	Arn string `json:",omitempty"`
}

// ParamSetup is one parameter of a target.
type ParamSetup struct{ ResourceKey, Form, Value string }

// StreamSetup is an event stream from a queue to a function.
type StreamSetup struct {
	EventStreamingName string
	Status             string
	Source             struct {
		SourceMNSParameters struct{ QueueName string }
	}
	Sink struct {
		SinkFcParameters struct{ FunctionName, Qualifier struct{ Form, Value string } }
	}
	RunOptions struct {
		ErrorsTolerance string
		RetryStrategy   struct{ PushRetryStrategy Policy }
		BatchWindow     struct{ CountBasedWindow, TimeBasedWindow int }
	}
}

// QueueSetup is a queue as GetQueueAttributes answers it.
type QueueSetup struct {
	QueueName              string
	MessageRetentionPeriod int64 // seconds
	MaximumMessageSize     int   // bytes
	ActiveMessages         int
}

// Deployed says what a bus cannot know of itself: a Target is a Go function.
type Deployed struct {
	Function, Qualifier string // that rules deliver to
	Intake              string // that streams which read the dead-letter queue deliver to
	Queue               string // name of the dead-letter queue
	Region, AccountID   string
}

// queueRetention is how long the queue of a bus would keep a letter if it were
// one of the service; here letters stay until they are taken.
const queueRetention = 7 * 24 * time.Hour

// Describe is a bus of these options as a control plane shows it: patterns,
// retries, tolerances and dead letters as they run here. Events are delivered
// whole, which is the form ORIGINAL.
func (o Options) Describe(d Deployed) Setup {
	o = withDefaults(o)
	s := Setup{Buses: []string{o.Bus}}
	for _, r := range o.Rules {
		targets := r.Targets
		if len(targets) == 0 {
			targets = []RuleTarget{{ID: "target", Policy: r.Policy, DeadLetter: r.DeadLetter, ErrorsTolerance: r.ErrorsTolerance}}
		}
		rule := RuleSetup{EventBusName: o.Bus, RuleName: r.Name, FilterPattern: patternText(r.Pattern), Status: "ENABLE"}
		for _, t := range targets {
			rule.Targets = append(rule.Targets, t.describe(d))
		}
		s.Rules = append(s.Rules, rule)
	}
	for _, one := range o.Streams {
		if !one.FromDeadLetters {
			continue // Push feeds it: it has no source
		}
		var stream StreamSetup
		stream.EventStreamingName, stream.Status = one.Name, "RUNNING"
		stream.Source.SourceMNSParameters.QueueName = d.Queue
		stream.Sink.SinkFcParameters.FunctionName.Form, stream.Sink.SinkFcParameters.FunctionName.Value = "CONSTANT", d.Intake
		stream.Sink.SinkFcParameters.Qualifier.Form, stream.Sink.SinkFcParameters.Qualifier.Value = "CONSTANT", d.Qualifier
		stream.RunOptions.ErrorsTolerance = toleranceText(one.ErrorsTolerance)
		stream.RunOptions.RetryStrategy.PushRetryStrategy = policyText(one.Policy)
		stream.RunOptions.BatchWindow.CountBasedWindow = max(1, one.BatchCount)
		stream.RunOptions.BatchWindow.TimeBasedWindow = int(one.BatchWait / time.Second)
		s.Streams = append(s.Streams, stream)
	}
	if d.Queue != "" {
		s.Queues = []QueueSetup{{QueueName: d.Queue, MessageRetentionPeriod: int64(queueRetention / time.Second), MaximumMessageSize: MaxQueueMessage}}
	}
	return s
}

func (t RuleTarget) describe(d Deployed) TargetSetup {
	place := d.Region + ":" + d.AccountID + ":"
	out := TargetSetup{
		ID: t.ID, Type: "acs.fc.function", Endpoint: "acs:fc:" + place + "functions/" + d.Function,
		PushRetryStrategy: policyText(t.Policy), ErrorsTolerance: toleranceText(t.ErrorsTolerance),
		ParamList: []ParamSetup{{"functionName", "CONSTANT", d.Function}, {"Qualifier", "CONSTANT", d.Qualifier}, {"Body", "ORIGINAL", ""}},
	}
	if t.DeadLetter {
		out.DeadLetterQueue.Arn = "acs:mns:" + place + "/queues/" + d.Queue
	}
	return out
}

func patternText(p json.RawMessage) string {
	if len(bytes.TrimSpace(p)) == 0 {
		return "{}"
	}
	return string(p)
}

func policyText(p Policy) Policy {
	if p == "" {
		return BackoffRetry
	}
	return p
}

func toleranceText(t string) string {
	if t == "" {
		return TolerateAll
	}
	return t
}

// PatternMatches reports whether an event pattern takes an event, as a bus
// decides it. The error says what of the pattern or the event is not understood.
func PatternMatches(p json.RawMessage, event []byte) (bool, error) {
	compiled, err := parsePattern(p)
	if err != nil {
		return false, err
	}
	e, err := checkEvent(event)
	if err != nil {
		return false, err
	}
	return compiled.match(e), nil
}
