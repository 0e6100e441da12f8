package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/artifacts"
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
	ignored     []string // rules that are not judged
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

// look asks a service once, and says why there is no answer. A service that
// cannot be reached is not asked again.
func look[C, T any](s *source[C], ask func(C) (T, error)) doctor.Seen[T] {
	if s.missing != nil {
		return doctor.Seen[T]{Missing: s.missing}
	}
	v, err := ask(s.client)
	if err == nil {
		return doctor.See(v)
	}
	m := missingOf(s.name, err)
	var call *aliyun.Error
	if errors.As(err, &call) && call.Code == "NoConnection" {
		s.missing = &m
	}
	return doctor.Unseen[T](m)
}

// missingOf is why a call has no answer.
func missingOf(service string, err error) doctor.Missing {
	var call *aliyun.Error
	if !errors.As(err, &call) {
		return doctor.Missing{Reason: doctor.NoAnswer, What: service, Where: err.Error()}
	}
	switch {
	case call.Kind == aliyun.KindNotFound && call.Op == "GetFunction":
		function, qualifier, _ := strings.Cut(call.Resource, "/")
		return doctor.Missing{Reason: doctor.Undeployed, What: function, Where: qualifier}
	case call.Kind == aliyun.KindNotFound && call.Service == "tablestore":
		return doctor.Missing{Reason: doctor.Absent, What: "table " + call.Resource}
	case call.Kind != aliyun.KindDenied:
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
		Environment: e.environment, Bus: e.bus, Instance: e.instance, Bucket: e.bucketName,
		Function: e.function, Intake: e.intake, Alias: liveQualifier, Problems: e.problems,
	}
	f.Identity = look(&e.identity, func(c identityReader) (doctor.Identity, error) {
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
	secret := "" // of the function that handles events
	f.Deployed = look(&e.functions, func(c functionReader) (doctor.Function, error) {
		cfg, err := c.Config(ctx, e.function, liveQualifier)
		if err != nil {
			return doctor.Function{}, err
		}
		secret = cfg.Env["ONCEGATE_KEY_SECRET"]
		return deployedFunction(cfg, e.secret), nil
	})
	f.TakesIn = look(&e.functions, func(c functionReader) (doctor.Intake, error) {
		cfg, err := c.Config(ctx, e.intake, liveQualifier)
		if err != nil {
			return doctor.Intake{}, err
		}
		return deployedIntake(cfg, secret), nil
	})
	f.Versions = look(&e.functions, func(c functionReader) (v doctor.Versions, err error) {
		if v.Published, err = c.Versions(ctx, e.function); err != nil && aliyun.KindOf(err) != aliyun.KindNotFound {
			return v, err
		}
		if v.AliasTo, err = c.AliasVersion(ctx, e.function, liveQualifier); aliyun.KindOf(err) == aliyun.KindNotFound {
			err = nil
		}
		return v, err
	})
}

func (e *examination) storeFacts(ctx context.Context, f *doctor.Facts) {
	for _, t := range tables {
		f.Tables = append(f.Tables, doctor.Table{Name: t.Name, Shape: look(&e.tables, func(c tableReader) (doctor.TableShape, error) {
			s, err := c.Describe(ctx, t)
			if aliyun.KindOf(err) == aliyun.KindNotFound {
				return doctor.TableShape{Absent: true}, nil
			}
			return doctor.TableShape{Wrong: s.Fits(t)}, err
		})})
	}
	f.Probe = e.probe(ctx)
	f.Settings = look(&e.bucket, func(c bucketReader) (aliyun.BucketSettings, error) { return c.Settings(ctx) })
	days := retentionDays
	if p := f.Deployed.Value.Policy; p.Retention > 0 {
		days = daysOf(p.Retention)
	}
	f.Lifecycle = look(&e.bucket, func(c bucketReader) ([]string, error) { return c.MissingExpiry(ctx, artifacts.Expiry(days)) })
}

// probe puts one row twice, and takes it away again.
func (e *examination) probe(ctx context.Context) doctor.Seen[doctor.Probe] {
	var random [16]byte
	_, _ = rand.Read(random[:])
	key := hex.EncodeToString(random[:])
	return look(&e.tables, func(c tableReader) (p doctor.Probe, err error) {
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
}

func (e *examination) busFacts(ctx context.Context, f *doctor.Facts) {
	f.Rules = look(&e.rules, func(c busReader) ([]aliyun.Rule, error) {
		rules, err := c.Rules(ctx, e.bus)
		if aliyun.KindOf(err) == aliyun.KindNotFound {
			return nil, nil // no bus has no rule
		}
		return slices.DeleteFunc(rules, func(r aliyun.Rule) bool { return slices.Contains(e.ignored, r.Name) }), err
	})
	f.Foreign = look(&e.rules, func(c busReader) ([]aliyun.Rule, error) { return foreignRules(ctx, c, e.bus) })
	f.Streams = look(&e.rules, func(c busReader) ([]aliyun.Stream, error) { return c.Streams(ctx) })
	f.Queues = map[string]doctor.Seen[doctor.Queue]{}
	for _, r := range f.Rules.Value {
		for _, t := range r.Targets {
			name := aliyun.QueueOf(t.DeadLetterQueue)
			if _, known := f.Queues[name]; known || name == "" || t.Function != e.function {
				continue
			}
			f.Queues[name] = look(&e.queues, func(c queueReader) (doctor.Queue, error) {
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
