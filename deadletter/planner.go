package deadletter

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/messages"
)

// Planner makes plans.
type Planner struct {
	Desk     *Desk
	Plans    *plan.Store
	Evidence *EvidenceLog
	Audit    *AuditLog
	Rules    Rules
	Now      func() time.Time
	NewID    func() string // random, of a plan: hex
	// Current returns the version behind the function's alias now.
	Current func(context.Context) (string, error)
	// Each calls its function with every open letter of a group, judged now.
	Each func(ctx context.Context, fingerprint string, each func(Judgement) error) error
}

// Request asks for a plan.
type Request struct {
	Fingerprint string
	Reason      string
	By          string // identity
	Limit       int64  // events at most; 0 for all
	Progress    func(seen, taken int64)
}

// Excluded counts the letters of a group that a plan leaves out, by the first
// gate that refused them.
type Excluded struct {
	Gate   GateName
	Reason messages.Text
	Count  int64
}

// Draft is what a plan would hold.
type Draft struct {
	Plan     plan.Plan
	Excluded []Excluded
	First    []plan.Frozen // the first ten items
	More     bool          // the limit left letters out that could have been taken
}

// ErrNothingToPlan says that no letter of the group may be replayed.
var ErrNothingToPlan = messages.Errorf("no letter of the group may be replayed")

// Draft says what a plan would hold, without storing anything.
func (p *Planner) Draft(ctx context.Context, r Request) (Draft, error) { return p.make(ctx, r, false) }

// Make freezes a plan: its items first, then the plan, so that a plan that is
// there is whole.
func (p *Planner) Make(ctx context.Context, r Request) (Draft, error) { return p.make(ctx, r, true) }

// errEnough ends a walk once the limit is reached.
var errEnough = errors.New("enough")

func (p *Planner) make(ctx context.Context, r Request, store bool) (Draft, error) {
	if err := p.Rules.Check(); err != nil {
		return Draft{}, err
	}
	if r.Fingerprint == "" || strings.TrimSpace(r.Reason) == "" || r.By == "" {
		return Draft{}, errors.New("make plan: fingerprint, reason and identity are needed")
	}
	current, err := p.Current(ctx)
	if err != nil {
		return Draft{}, fmt.Errorf("make plan: read the function's version: %w", err)
	}
	evidence, err := Standing(ctx, p.Evidence, p.Plans, r.Fingerprint)
	if err != nil {
		return Draft{}, fmt.Errorf("make plan: %w", err)
	}
	id := "rp-" + p.NewID()
	tree, d, seen := new(plan.Tree), Draft{}, int64(0)
	excluded := map[string]*Excluded{}
	var effects []idempotency.TargetKind
	var codes []letter.Code // of the group, and what the letters themselves say
	header := plan.Header{
		Version: 1, ID: id, Environment: p.Desk.Environment, Fingerprint: r.Fingerprint, Reason: r.Reason, MadeBy: r.By,
		MadeAt: p.Now().UnixMilli(), ObserveMS: p.Rules.Observe.Milliseconds(), RateMilli: int64(p.Rules.Rate * 1000), Burst: p.Rules.Burst,
		Concurrency: p.Rules.Concurrency, MaxErrors: p.Rules.MaxErrors,
	}
	writes, writing := errgroup.WithContext(ctx)
	writes.SetLimit(16)
	err = p.Each(ctx, r.Fingerprint, func(j Judgement) error {
		if err := writing.Err(); err != nil {
			return err
		}
		seen++
		if r.Progress != nil {
			r.Progress(seen, tree.Count())
		}
		j, flow, err := p.Desk.derive(ctx, j)
		if err != nil {
			return err
		}
		facts := p.facts(j, evidence, current)
		ok, first := Passes(Gates(facts))
		if ok {
			if facts.Family, err = Family(ctx, p.Desk.Letters, p.Audit, j.Letter); err != nil {
				return err
			}
			ok, first = Passes(Gates(facts))
		}
		if !ok {
			what := string(first.Name) + first.Reason.String()
			if excluded[what] == nil {
				excluded[what] = &Excluded{Gate: first.Name, Reason: first.Reason}
			}
			excluded[what].Count++
			return nil
		}
		if r.Limit > 0 && tree.Count() >= r.Limit {
			d.More = true
			return errEnough
		}
		header.Code, header.Target = j.Code, j.Target
		for _, code := range []letter.Code{j.Code, j.Letter.Code} {
			if !slices.Contains(codes, code) {
				codes = append(codes, code)
			}
		}
		if flow != nil {
			for _, e := range flow.Effects {
				if !slices.Contains(effects, e.Kind) {
					effects = append(effects, e.Kind)
				}
			}
		}
		frozen := freeze(j, tree.Count(), current)
		if facts.Evidence != nil && j.Decision == RepairRequired {
			frozen.EvidenceID, header.Evidence = facts.Evidence.ID, evidenceDigest(evidence)
		}
		if err := tree.Add(frozen); err != nil {
			return err
		}
		if len(d.First) < 10 {
			d.First = append(d.First, frozen)
		}
		if store {
			writes.Go(func() error { return p.Plans.AddItem(writing, plan.Item{Frozen: frozen, PlanID: id}) })
		}
		return nil
	})
	if waitErr := writes.Wait(); waitErr != nil {
		return Draft{}, fmt.Errorf("make plan: %w", waitErr)
	}
	if err != nil && !errors.Is(err, errEnough) {
		return Draft{}, fmt.Errorf("make plan: %w", err)
	}
	for _, what := range slices.Sorted(maps.Keys(excluded)) {
		d.Excluded = append(d.Excluded, *excluded[what])
	}
	if tree.Count() == 0 {
		return d, ErrNothingToPlan
	}
	header.Count = tree.Count()
	if header.ItemsRoot, err = tree.Root(); err != nil {
		return Draft{}, fmt.Errorf("make plan: %w", err)
	}
	header.Stages = p.Rules.stagesOf(header.Count)
	header.HighImpact = p.Rules.High.Why(header.Count, effects, codes)
	d.Plan = plan.Plan{
		Header: header, Digest: header.Digest(), State: plan.StatePlanned, Revision: 1, UpdatedAt: milli(p.Now()), ExpiresAt: milli(p.Now().Add(p.Desk.Retention)),
		Counts: plan.Counts{Selected: header.Count, Unresolved: header.Count},
	}
	if !store {
		return d, nil
	}
	if err := p.Audit.Add(ctx, Audit{
		ID: AuditID(ActionPlan, id), At: p.Now(), Action: ActionPlan, Fingerprint: r.Fingerprint, ReplayBatchID: id, OriginalTarget: header.Target, OperatorOrRule: r.By, Reason: r.Reason,
	}); err != nil {
		return Draft{}, fmt.Errorf("make plan: %w", err)
	}
	if err := p.Plans.Create(ctx, d.Plan); err != nil {
		return Draft{}, fmt.Errorf("make plan: %w", err)
	}
	return d, nil
}

// facts are those of a letter that no plan has taken up yet.
func (p *Planner) facts(j Judgement, evidence []Evidence, current string) GateFacts {
	f := GateFacts{
		Now: p.Now(), Judgement: j, Current: current, MaxGenerations: p.Rules.MaxGenerations, CallTimeout: p.Rules.CallTimeout,
	}
	f.Evidence, f.EvidenceWhy = EvidenceFor(j.Code, evidence, j.Letter, lastFailure(j))
	return f
}

// lastFailure is when the task's last attempt began, if it failed; zero otherwise.
func lastFailure(j Judgement) time.Time {
	if j.Record == nil || j.Record.LastErrorCode == "" {
		return time.Time{}
	}
	return j.Record.LastAttemptAt
}

func freeze(j Judgement, seq int64, current string) plan.Frozen {
	l := j.Letter
	f := plan.Frozen{
		Seq: seq, LetterID: l.ID, LetterRevision: l.Revision, Generation: l.Generation, EventID: l.EventID, RawRef: l.RawRef, RawSHA256: l.RawSHA256,
		Key: l.Key, InputDigest: l.InputDigest, RecordDigest: l.InputDigest, Qualifier: Qualifier(j, current),
	}
	if j.Record != nil {
		f.RecordRevision, f.RecordDigest = j.Record.Revision, j.Record.InputDigest
	}
	return f
}

// derive fills in flow, key and digest of a letter that had no flow when it was
// written, by the flows of today. flow is nil where there is none.
func (d *Desk) derive(ctx context.Context, j Judgement) (Judgement, *flows.Flow, error) {
	if j.Letter.Flow != "" {
		return j, d.flow(j.Letter.Flow), nil
	}
	if j.Letter.EventID == "" || j.Letter.EventSource == "" {
		return j, nil, nil // its bytes are no event
	}
	body, err := d.RawEvent(ctx, j.Letter)
	if errors.Is(err, artifacts.ErrSealed) {
		return j, nil, nil
	}
	if err != nil {
		return j, nil, err
	}
	e, err := events.Decode(body)
	if err != nil {
		return j, nil, nil
	}
	f := d.Flows.Find(e)
	if f == nil || !f.Enabled || f.Environment(e) != d.Environment {
		return j, nil, nil
	}
	in, err := f.Input(e)
	if err != nil {
		return j, nil, nil
	}
	key, err := f.Key(in, d.KeySecret)
	if err != nil {
		return j, nil, nil
	}
	l := j.Letter
	l.Key, l.InputDigest, l.KeyRule = key.Hex, f.Digest(in), f.KeyRuleID(d.KeySecret)
	judged, err := d.Judge(ctx, l)
	return judged, f, err
}

func (d *Desk) flow(name string) *flows.Flow {
	for _, f := range d.Flows.Flows {
		if f.Name == name {
			return f
		}
	}
	return nil
}

func milli(t time.Time) time.Time { return time.UnixMilli(t.UnixMilli()).UTC() }

func hashOf(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}
