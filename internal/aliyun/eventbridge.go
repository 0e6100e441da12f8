package aliyun

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// EventBridge reads how buses, rules and event streams are set up. It is safe
// for concurrent use. Parameters and answers are those of version 2020-04-01:
// https://api.aliyun.com/document/eventbridge/2020-04-01/overview
type EventBridge struct{ api *openAPI }

// NewEventBridge returns a client of a control endpoint such as
// https://eventbridge-console.cn-hangzhou.aliyuncs.com; it makes no call. Events
// are published elsewhere.
func NewEventBridge(endpoint string, o Options) (*EventBridge, error) {
	api, err := newOpenAPI("eventbridge", "2020-04-01", endpoint, o)
	if err != nil {
		return nil, err
	}
	return &EventBridge{api}, nil
}

// Rule is an event rule with its targets.
type Rule struct {
	Bus, Name string
	Pattern   string // of events, as JSON
	Enabled   bool
	Targets   []RuleTarget
}

// RuleTarget is what a rule delivers to.
type RuleTarget struct {
	ID              string
	Type            string // acs.fc.function for a function
	Function        string // name; "" for any other target
	Qualifier       string // version or alias; "" is LATEST
	Form            string // of the event as the function gets it: ORIGINAL, JSONPATH, TEMPLATE or CONSTANT
	Async           bool   // the function is invoked asynchronously
	Retry           string // BACKOFF_RETRY or EXPONENTIAL_DECAY_RETRY; "" is the service's default, BACKOFF_RETRY
	Tolerance       string // ALL or NONE; "" where the service does not say
	DeadLetterQueue string // ARN; "" where there is none
}

// maxPages bounds a list whose service names a next page for ever.
const maxPages = 200

var errPages = fmt.Errorf("read list: there are more than %d pages", maxPages)

// Buses are the names of all event buses of the region.
func (e *EventBridge) Buses(ctx context.Context) ([]string, error) {
	var names []string
	err := pages(func(token string) (string, error) {
		var data struct {
			NextToken  string
			EventBuses []struct{ EventBusName string }
		}
		err := e.api.rpc(ctx, "ListEventBuses", "eventbus/*", page(token), nil, &data)
		for _, b := range data.EventBuses {
			names = append(names, b.EventBusName)
		}
		return data.NextToken, err
	})
	return names, err
}

// Rules are all rules of a bus with their targets. A bus that is not there is an
// *Error of KindNotFound.
func (e *EventBridge) Rules(ctx context.Context, bus string) ([]Rule, error) {
	var names []string
	err := pages(func(token string) (string, error) {
		var data struct {
			NextToken string
			Rules     []struct{ RuleName string }
		}
		query := page(token)
		query.Set("EventBusName", bus)
		err := e.api.rpc(ctx, "ListRules", "eventbus/"+bus, query, nil, &data)
		for _, r := range data.Rules {
			names = append(names, r.RuleName)
		}
		return data.NextToken, err
	})
	if err != nil {
		return nil, err
	}
	rules := make([]Rule, 0, len(names))
	for _, name := range names {
		r, err := e.rule(ctx, bus, name)
		if err != nil {
			return nil, err
		}
		rules = append(rules, r)
	}
	return rules, nil
}

// rule reads one rule: the list of rules leaves out what its targets do with
// events that fail.
func (e *EventBridge) rule(ctx context.Context, bus, name string) (Rule, error) {
	var data struct {
		FilterPattern string
		Status        string
		Targets       []struct {
			ID, Type, Endpoint                 string
			PushRetryStrategy, ErrorsTolerance string
			DeadLetterQueue                    struct{ Arn string }
			ParamList                          []struct{ ResourceKey, Form, Value string }
		}
	}
	err := e.api.rpc(ctx, "GetRule", "eventbus/"+bus+"/rule/"+name, url.Values{"EventBusName": {bus}, "RuleName": {name}}, nil, &data)
	if err != nil {
		return Rule{}, err
	}
	r := Rule{Bus: bus, Name: name, Pattern: data.FilterPattern, Enabled: data.Status == "ENABLE"}
	for _, t := range data.Targets {
		one := RuleTarget{
			ID: t.ID, Type: t.Type, Retry: t.PushRetryStrategy, Tolerance: t.ErrorsTolerance, DeadLetterQueue: t.DeadLetterQueue.Arn,
		}
		one.Function, one.Qualifier = functionOf(t.Endpoint)
		for _, p := range t.ParamList {
			switch {
			case strings.EqualFold(p.ResourceKey, "Body"):
				one.Form = p.Form
			case strings.EqualFold(p.ResourceKey, "Qualifier") && p.Value != "":
				one.Qualifier = p.Value
			case strings.EqualFold(p.ResourceKey, "functionName") && p.Value != "" && one.Function == "":
				one.Function = p.Value
			case strings.EqualFold(p.ResourceKey, "InvocationType"):
				one.Async = strings.EqualFold(p.Value, "Async")
			}
		}
		r.Targets = append(r.Targets, one)
	}
	return r, nil
}

// functionOf reads the function, and the qualifier where it is there, from either
// form of a function's ARN:
//
//	acs:fc:<region>:<account>:functions/<function>[/<qualifier>]
//	acs:fc:<region>:<account>:services/<service>.<qualifier>/functions/<function>
func functionOf(arn string) (function, qualifier string) {
	fields := strings.SplitN(arn, ":", 5)
	if len(fields) != 5 || fields[0] != "acs" || fields[1] != "fc" {
		return "", ""
	}
	p := strings.Split(fields[4], "/")
	switch {
	case len(p) == 2 && p[0] == "functions":
		return p[1], ""
	case len(p) == 3 && p[0] == "functions":
		return p[1], p[2]
	case len(p) == 4 && p[0] == "services" && p[2] == "functions":
		_, qualifier, _ = strings.Cut(p[1], ".")
		return p[3], qualifier
	}
	return "", ""
}

// Stream is an event stream from a queue to a function.
type Stream struct {
	Name      string
	Status    string // RUNNING where it works
	Queue     string // that it reads; "" for any other source
	Function  string // that it invokes; "" for any other sink
	Qualifier string
	Tolerance string
	Retry     string
	Batch     int           // members of one invocation at most
	Window    time.Duration // that a batch is waited for
}

// Streams are all event streams of the region.
func (e *EventBridge) Streams(ctx context.Context) ([]Stream, error) {
	type value struct{ Value string }
	var all []Stream
	err := pages(func(token string) (string, error) {
		var data struct {
			NextToken       string
			EventStreamings []struct {
				EventStreamingName, Status string
				Source                     struct {
					SourceMNSParameters struct{ QueueName string }
				}
				Sink struct {
					SinkFcParameters struct{ FunctionName, Qualifier value }
				}
				RunOptions struct {
					ErrorsTolerance string
					RetryStrategy   struct{ PushRetryStrategy string }
					BatchWindow     struct{ CountBasedWindow, TimeBasedWindow int }
				}
			}
		}
		err := e.api.rpc(ctx, "ListEventStreamings", "*", nil, page(token), &data)
		for _, s := range data.EventStreamings {
			all = append(all, Stream{
				s.EventStreamingName, s.Status, s.Source.SourceMNSParameters.QueueName,
				s.Sink.SinkFcParameters.FunctionName.Value, s.Sink.SinkFcParameters.Qualifier.Value,
				s.RunOptions.ErrorsTolerance, s.RunOptions.RetryStrategy.PushRetryStrategy,
				max(1, s.RunOptions.BatchWindow.CountBasedWindow), time.Duration(s.RunOptions.BatchWindow.TimeBasedWindow) * time.Second,
			})
		}
		return data.NextToken, err
	})
	return all, err
}

func page(token string) url.Values {
	v := url.Values{"Limit": {"100"}}
	if token != "" {
		v.Set("NextToken", token)
	}
	return v
}

// pages reads a list page by page until there is none left.
func pages(read func(token string) (next string, err error)) error {
	token := ""
	for range maxPages {
		next, err := read(token)
		if err != nil || next == "" {
			return err
		}
		token = next
	}
	return errPages
}
