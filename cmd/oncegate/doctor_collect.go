package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/events/ebtest"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/doctor"
)

// probeTable is the doctor's own: it tells whether conditions are kept, and holds
// nothing for longer than that.
var probeTable = aliyun.Table{Name: "oncegate_doctor_probe", Key: "probe"}

// What the doctor asks.
type (
	identityReader interface {
		CallerIdentity(ctx context.Context) (aliyun.Identity, error)
	}
	tableReader interface {
		Describe(ctx context.Context, table aliyun.Table) (aliyun.TableShape, error)
		Insert(ctx context.Context, table aliyun.Table, key string, row aliyun.Row) error
		DeleteFixed(ctx context.Context, table aliyun.Table, key string) error
	}
	bucketReader interface {
		Settings(ctx context.Context) (aliyun.BucketSettings, error)
		MissingExpiry(ctx context.Context, rules []aliyun.ExpiryRule) ([]string, error)
	}
	functionReader interface {
		Config(ctx context.Context, function, qualifier string) (aliyun.FunctionConfig, error)
		Versions(ctx context.Context, function string) ([]string, error)
		AliasVersion(ctx context.Context, function, alias string) (string, error)
	}
	busReader interface {
		Buses(ctx context.Context) ([]string, error)
		Rules(ctx context.Context, bus string) ([]aliyun.Rule, error)
		Streams(ctx context.Context) ([]aliyun.Stream, error)
	}
	queueReader interface {
		Queue(ctx context.Context, name string) (aliyun.Queue, error)
	}
)

// source is a client of one service, or why there is none.
type source[T any] struct {
	name    string
	client  T
	skew    *aliyun.Skew
	missing *doctor.Missing
}

// examination looks at one deployment.
type examination struct {
	local       bool
	environment string
	bus         string
	instance    string
	bucketName  string
	function    string
	intake      string
	secret      string // of this command's own keys
	problems    []string
	flows       *flows.Set
	ownFlows    bool // they were given, not built in

	identity  source[identityReader]
	tables    source[tableReader]
	bucket    source[bucketReader]
	functions source[functionReader]
	rules     source[busReader]
	queues    source[queueReader]
}

// look asks a service once, and says why there is no answer.
func look[C, T any](s source[C], ask func(C) (T, error)) doctor.Seen[T] {
	if s.missing != nil {
		return doctor.Seen[T]{Missing: s.missing}
	}
	v, err := ask(s.client)
	if err != nil {
		return doctor.Unseen[T](missingOf(s.name, err))
	}
	return doctor.See(v)
}

// missingOf is why a call has no answer.
func missingOf(service string, err error) doctor.Missing {
	var call *aliyun.Error
	if !errors.As(err, &call) || call.Kind != aliyun.KindDenied {
		return doctor.Missing{Reason: doctor.NoAnswer, What: service, Where: err.Error()}
	}
	if action, resource := missingRight(call); action != "" {
		return doctor.Missing{Reason: doctor.Denied, What: action, Where: resource}
	}
	return doctor.Missing{Reason: doctor.Refused, What: service}
}

// facts collects everything that can be learnt.
func (e *examination) facts(ctx context.Context) doctor.Facts {
	f := doctor.Facts{
		Local: e.local, Environment: e.environment, Instance: e.instance, Bucket: e.bucketName,
		Function: e.function, Intake: e.intake, Alias: liveQualifier, Problems: e.problems,
	}
	f.Identity = look(e.identity, func(c identityReader) (doctor.Identity, error) {
		id, err := c.CallerIdentity(ctx)
		return doctor.Identity{Name: id.Name(), Account: id.AccountID, Owner: id.Type == "Account"}, err
	})
	e.functionFacts(ctx, &f)
	e.storeFacts(ctx, &f)
	e.busFacts(ctx, &f)
	e.flowFacts(&f)
	f.Clock = e.clock()
	return f
}

func (e *examination) functionFacts(ctx context.Context, f *doctor.Facts) {
	f.Deployed = look(e.functions, func(c functionReader) (doctor.Function, error) {
		cfg, err := c.Config(ctx, e.function, liveQualifier)
		if err != nil {
			return doctor.Function{}, err
		}
		return deployedFunction(cfg, e.secret), nil
	})
	f.Deployed.Missing = e.undeployed(ctx, e.function, f.Deployed.Missing)
	f.IntakeRun = look(e.functions, func(c functionReader) (time.Duration, error) {
		cfg, err := c.Config(ctx, e.intake, liveQualifier)
		return cfg.Timeout, err
	})
	f.IntakeRun.Missing = e.undeployed(ctx, e.intake, f.IntakeRun.Missing)
	f.Versions = look(e.functions, func(c functionReader) (v doctor.Versions, err error) {
		if v.Published, err = c.Versions(ctx, e.function); err != nil && aliyun.KindOf(err) != aliyun.KindNotFound {
			return v, err
		}
		if v.AliasTo, err = c.AliasVersion(ctx, e.function, liveQualifier); aliyun.KindOf(err) == aliyun.KindNotFound {
			err = nil
		}
		return v, err
	})
}

// undeployed tells a function that is not there from one that nobody could ask.
func (e *examination) undeployed(ctx context.Context, function string, m *doctor.Missing) *doctor.Missing {
	if m == nil || m.Reason != doctor.NoAnswer || e.functions.missing != nil {
		return m
	}
	if _, err := e.functions.client.Config(ctx, function, liveQualifier); aliyun.KindOf(err) != aliyun.KindNotFound {
		return m
	}
	return &doctor.Missing{Reason: doctor.Undeployed, What: function, Where: liveQualifier}
}

func (e *examination) storeFacts(ctx context.Context, f *doctor.Facts) {
	var silent *doctor.Missing // once a service does not answer, it is not asked for each table
	for _, t := range tables {
		shape := doctor.Seen[doctor.TableShape]{Missing: silent}
		if silent == nil {
			shape = look(e.tables, func(c tableReader) (doctor.TableShape, error) {
				s, err := c.Describe(ctx, t)
				if aliyun.KindOf(err) == aliyun.KindNotFound {
					return doctor.TableShape{Absent: true}, nil
				}
				return doctor.TableShape{Wrong: s.Fits(t)}, err
			})
		}
		if m := shape.Missing; m != nil && m.Reason != doctor.Denied {
			silent = m
		}
		f.Tables = append(f.Tables, doctor.Table{Name: t.Name, Shape: shape})
	}
	f.Probe = doctor.Seen[doctor.Probe]{Missing: silent}
	if silent == nil {
		f.Probe = e.probe(ctx)
	}
	f.Settings = look(e.bucket, func(c bucketReader) (aliyun.BucketSettings, error) { return c.Settings(ctx) })
	days := retentionDays
	if p := f.Deployed.Value.Policy; p.Retention > 0 {
		days = daysOf(p.Retention)
	}
	f.Lifecycle = look(e.bucket, func(c bucketReader) ([]string, error) { return c.MissingExpiry(ctx, artifacts.Expiry(days)) })
}

// probe puts one row twice, and takes it away again.
func (e *examination) probe(ctx context.Context) doctor.Seen[doctor.Probe] {
	var random [16]byte
	_, _ = rand.Read(random[:])
	key := hex.EncodeToString(random[:])
	seen := look(e.tables, func(c tableReader) (p doctor.Probe, err error) {
		if err := c.Insert(ctx, probeTable, key, aliyun.Row{"put": int64(1)}); err != nil {
			return p, err
		}
		// What stays there after all harms nobody.
		defer func() { _ = c.DeleteFixed(ctx, probeTable, key) }()
		err = c.Insert(ctx, probeTable, key, aliyun.Row{"put": int64(2)})
		var refused *aliyun.Error
		if errors.As(err, &refused) && refused.Kind == aliyun.KindCondition {
			return doctor.Probe{Second: refused.Code}, nil
		}
		return p, err
	})
	if m := seen.Missing; m != nil && m.Reason == doctor.NoAnswer && e.tables.missing == nil {
		if _, err := e.tables.client.Describe(ctx, probeTable); aliyun.KindOf(err) == aliyun.KindNotFound {
			return doctor.Unseen[doctor.Probe](doctor.Missing{Reason: doctor.Absent, What: "table " + probeTable.Name})
		}
	}
	return seen
}

func (e *examination) busFacts(ctx context.Context, f *doctor.Facts) {
	f.Rules = look(e.rules, func(c busReader) ([]aliyun.Rule, error) {
		rules, err := c.Rules(ctx, e.bus)
		if aliyun.KindOf(err) == aliyun.KindNotFound {
			return nil, nil // no bus has no rule
		}
		return rules, err
	})
	f.Foreign = doctor.Seen[[]aliyun.Rule]{Missing: f.Rules.Missing}
	f.Streams = doctor.Seen[[]aliyun.Stream]{Missing: f.Rules.Missing}
	if m := f.Rules.Missing; m == nil || m.Reason == doctor.Denied {
		f.Foreign = look(e.rules, func(c busReader) ([]aliyun.Rule, error) { return foreignRules(ctx, c, e.bus) })
		f.Streams = look(e.rules, func(c busReader) ([]aliyun.Stream, error) { return c.Streams(ctx) })
	}
	f.Queues = map[string]doctor.Seen[doctor.Queue]{}
	for _, r := range f.Rules.Value {
		for _, t := range r.Targets {
			name := aliyun.QueueOf(t.DeadLetterQueue)
			if _, known := f.Queues[name]; known || name == "" || t.Function != e.function {
				continue
			}
			f.Queues[name] = look(e.queues, func(c queueReader) (doctor.Queue, error) {
				q, err := c.Queue(ctx, name)
				if aliyun.KindOf(err) == aliyun.KindNotFound {
					return doctor.Queue{Absent: true}, nil
				}
				return doctor.Queue{Queue: q}, err
			})
		}
	}
}

// foreignRules are those of every other bus.
func foreignRules(ctx context.Context, c busReader, own string) ([]aliyun.Rule, error) {
	buses, err := c.Buses(ctx)
	if err != nil {
		return nil, err
	}
	var all []aliyun.Rule
	for _, bus := range buses {
		if bus == own {
			continue
		}
		rules, err := c.Rules(ctx, bus)
		if err != nil && aliyun.KindOf(err) != aliyun.KindNotFound {
			return nil, err
		}
		all = append(all, rules...)
	}
	return all, nil
}

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

// clock is what the services' Date headers said while they were asked.
func (e *examination) clock() doctor.Seen[[]doctor.Skew] {
	var all []doctor.Skew
	for _, one := range []struct {
		service string
		skew    *aliyun.Skew
	}{
		{e.identity.name, e.identity.skew},
		{e.tables.name, e.tables.skew},
		{e.bucket.name, e.bucket.skew},
		{e.functions.name, e.functions.skew},
		{e.rules.name, e.rules.skew},
		{e.queues.name, e.queues.skew},
	} {
		if one.skew != nil && one.skew.Seen() {
			all = append(all, doctor.Skew{Service: one.service, By: one.skew.Value()})
		}
	}
	return doctor.See(all)
}

// setupTables are the tables that `oncegate setup` makes.
var setupTables = append(slices.Clone(tables), probeTable)
