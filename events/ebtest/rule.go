package ebtest

import (
	"encoding/json"
	"errors"
	"fmt"
)

// RuleTarget is one of several targets of a rule.
type RuleTarget struct {
	ID              string // unique in the rule and not empty
	Target          Target
	Policy          Policy // empty: BackoffRetry
	DeadLetter      bool   // false: an event whose retries are exhausted is dropped
	ErrorsTolerance string // TolerateNone, or TolerateAll, which empty means too
}

// Rule joins a pattern to its targets: either to one, with the fields from
// Policy to ErrorsTolerance, or to those in Targets, and then those fields are empty.
type Rule struct {
	Name string // unique among rules and streams, not empty
	// Pattern is an event pattern as the service documents it: lists of exact
	// values (numbers compared as spelled), prefix, suffix, contains,
	// anything-but, exists, numeric and cidr, in objects nested as the event's.
	// nil or {} matches every event.
	Pattern    json.RawMessage
	Policy     Policy // empty: BackoffRetry
	Target     Target
	DeadLetter bool // false: an event whose retries are exhausted is dropped
	// ErrorsTolerance is TolerateNone, or TolerateAll, which empty means too.
	ErrorsTolerance string
	Targets         []RuleTarget // at most MaxTargets
}

type rule struct {
	name    string
	pattern *pattern
	lanes   []*lane
}

func checkRule(r Rule) (*rule, error) {
	switch {
	case r.Name == "":
		return nil, errors.New("no name")
	case len(r.Targets) > MaxTargets:
		return nil, fmt.Errorf("%d targets, at most %d", len(r.Targets), MaxTargets)
	case len(r.Targets) > 0 && (r.Target != nil || r.Policy != "" || r.DeadLetter || r.ErrorsTolerance != ""):
		return nil, errors.New("a single target beside several")
	}
	p, err := parsePattern(r.Pattern)
	if err != nil {
		return nil, err
	}
	targets, ids := r.Targets, map[string]bool{}
	if len(targets) == 0 {
		targets = []RuleTarget{{Target: r.Target, Policy: r.Policy, DeadLetter: r.DeadLetter, ErrorsTolerance: r.ErrorsTolerance}}
	}
	made := &rule{name: r.Name, pattern: p}
	for _, t := range targets {
		l, err := newLane(r.Name, t)
		if err == nil && len(r.Targets) > 0 && (t.ID == "" || ids[t.ID]) {
			err = errors.New("no id, or one that is taken")
		}
		if err != nil {
			return nil, fmt.Errorf("target %q: %w", t.ID, err)
		}
		ids[t.ID] = true
		made.lanes = append(made.lanes, l)
	}
	return made, nil
}
