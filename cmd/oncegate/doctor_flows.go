package main

import (
	"encoding/json"
	"slices"

	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/events/ebtest"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/doctor"
)

// flowFacts says what each flow needs, and which rules would bring its sample.
func (e *examination) flowFacts(f *doctor.Facts) {
	switch own := f.Deployed.Value.OwnFlows; {
	case e.flows == nil:
		f.Flows = doctor.Unseen[[]doctor.Flow](doctor.Missing{Reason: doctor.DependsOn, What: "env"})
		return
	case own && !e.ownFlows && !e.local:
		f.Flows = doctor.Unseen[[]doctor.Flow](doctor.Missing{Reason: doctor.OtherRunner})
		return
	}
	var all []doctor.Flow
	for _, one := range e.flows.Flows {
		flow := doctor.Flow{
			Name: one.Name, Enabled: one.Enabled, MaxAttempts: one.MaxAttempts, NeedsSecret: one.NeedsSecret(), UsesModel: one.Processor != "record",
			NamedByBus: one.EnvironmentPath() == flows.DefaultEnvironment,
		}
		for _, d := range one.Effects {
			flow.Effects = append(flow.Effects, doctor.Effect{Name: d.Name, Uses: d.Uses, Timeout: d.Timeout})
		}
		if sample, err := events.Decode(one.Sample); err == nil {
			for _, other := range e.flows.Flows {
				if other != one && other.Enabled && other.Matches(sample) {
					flow.AlsoWantedBy = append(flow.AlsoWantedBy, other.Name)
				}
			}
		}
		flow.Routes, flow.Others = routesOf(f.Rules, e.function, one.Sample)
		all = append(all, flow)
	}
	f.Flows = doctor.See(all)
}

// routesOf are the rules that bring an event to the function, and the other
// functions that get it.
func routesOf(rules doctor.Seen[[]aliyun.Rule], function string, event []byte) (routes doctor.Seen[[]string], others []string) {
	routes.Missing = rules.Missing
	for _, r := range rules.Value {
		if !r.Enabled {
			continue
		}
		matches, err := ebtest.PatternMatches(json.RawMessage(r.Pattern), event)
		if err != nil {
			return doctor.Unseen[[]string](doctor.Missing{Reason: doctor.Unreadable, What: "the pattern of rule " + r.Name, Where: err.Error()}), others
		}
		for _, t := range r.Targets {
			switch {
			case !matches || t.Function == "":
			case t.Function == function:
				routes.Value = append(routes.Value, r.Name)
			case !slices.Contains(others, t.Function):
				others = append(others, t.Function)
			}
		}
	}
	return routes, others
}
