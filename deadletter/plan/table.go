package plan

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

// The tables of replay. Approvals have their own, so that a role may write them
// and nothing else.
var (
	PlanTable     = aliyun.Table{Name: "replay_plans", Key: "id"}
	ItemTable     = aliyun.Table{Name: "replay_items", Key: "id"}
	ApprovalTable = aliyun.Table{Name: "replay_approvals", Key: "plan_id"}
)

// Store reads and writes the three tables. Errors of the service wrap
// idempotency.ErrUnavailable.
type Store struct {
	store *aliyun.Tablestore
}

// NewStore returns a store; it makes no call.
func NewStore(store *aliyun.Tablestore) *Store { return &Store{store} }

// ErrChanged says that somebody else has written the row since it was read.
var ErrChanged = errors.New("somebody else has changed it meanwhile")

// ErrVerdict says that the plan has a verdict already.
var ErrVerdict = errors.New("the plan has a verdict already")

// Get reads a plan; ok is false where there is none.
func (s *Store) Get(ctx context.Context, id string) (p Plan, ok bool, err error) {
	row, ok, err := s.store.Get(ctx, PlanTable, id)
	if err != nil {
		return Plan{}, false, fmt.Errorf("read plan: %w: %w", idempotency.ErrUnavailable, err)
	}
	if !ok {
		return Plan{}, false, nil
	}
	if p, err = parsePlan(id, row); err != nil {
		return Plan{}, false, err
	}
	return p, true, nil
}

// Create writes a new plan. Its items come first: a plan that is there is whole.
func (s *Store) Create(ctx context.Context, p Plan) error {
	p.Revision, p.Digest = 1, p.Header.Digest()
	row, err := p.columns()
	if err != nil {
		return err
	}
	found, err := s.store.InsertOnce(ctx, PlanTable, p.ID, row)
	if err != nil {
		return fmt.Errorf("write plan: %w: %w", idempotency.ErrUnavailable, err)
	}
	if found != nil && found["digest"] != p.Digest {
		return fmt.Errorf("write plan: %w: its id has another plan", idempotency.ErrUnavailable)
	}
	return nil
}

// Update writes a plan in place of the one that was read, and returns it as
// stored. ErrChanged: read it again.
func (s *Store) Update(ctx context.Context, read, next Plan) (Plan, error) {
	next.Revision = read.Revision + 1
	old, err := read.columns()
	if err != nil {
		return Plan{}, err
	}
	row, err := next.columns()
	if err != nil {
		return Plan{}, err
	}
	if err = s.update(ctx, PlanTable, read.ID, old, row, read.Revision); err == nil {
		return next, nil
	}
	stored, ok, readErr := s.Get(ctx, read.ID)
	switch {
	case readErr != nil || !ok:
		return Plan{}, fmt.Errorf("write plan: %w: %w", idempotency.ErrUnavailable, err)
	case stored.Revision == next.Revision && stored.State == next.State && stored.LockOwner == next.LockOwner && stored.UpdatedAt.Equal(next.UpdatedAt) && stored.StoppedBy == next.StoppedBy && stored.SelfDigest == next.SelfDigest:
		return stored, nil // its answer was lost
	case stored.Revision != read.Revision:
		return stored, ErrChanged
	}
	return Plan{}, fmt.Errorf("write plan: %w: %w", idempotency.ErrUnavailable, err)
}

func (s *Store) update(ctx context.Context, t aliyun.Table, id string, old, row aliyun.Row, revision int64) error {
	diff := aliyun.Row{}
	for name, v := range row {
		if old[name] != v {
			diff[name] = v
		}
	}
	for name := range old {
		if _, kept := row[name]; !kept {
			diff[name] = nil
		}
	}
	return s.store.Update(ctx, t, id, diff, revision)
}

// List reads one page of plans by rising id, from an id on.
func (s *Store) List(ctx context.Context, from string, limit int) (plans []Plan, next string, err error) {
	page, err := s.store.Scan(ctx, PlanTable, from, "", limit, nil)
	if err != nil {
		return nil, "", fmt.Errorf("list plans: %w: %w", idempotency.ErrUnavailable, err)
	}
	for i, row := range page.Rows {
		p, err := parsePlan(page.Keys[i], row)
		if err != nil {
			return nil, "", err
		}
		plans = append(plans, p)
	}
	return plans, page.Next, nil
}

// ItemID is the key of an item: items of one plan follow each other in order.
func ItemID(planID string, seq int64) string { return fmt.Sprintf("%s/%08d", planID, seq) }

// AddItem writes a new item; one that is there already with the same content is fine.
func (s *Store) AddItem(ctx context.Context, i Item) error {
	i.Revision = 1
	found, err := s.store.InsertOnce(ctx, ItemTable, ItemID(i.PlanID, i.Seq), i.columns())
	if err != nil {
		return fmt.Errorf("write item: %w: %w", idempotency.ErrUnavailable, err)
	}
	if found == nil {
		return nil
	}
	stored, err := parseItem(i.PlanID, found)
	if err != nil {
		return err
	}
	if stored.Frozen != i.Frozen {
		return fmt.Errorf("write item: %w: its place has another item", idempotency.ErrUnavailable)
	}
	return nil
}

// Item reads one item; ok is false where there is none.
func (s *Store) Item(ctx context.Context, planID string, seq int64) (i Item, ok bool, err error) {
	row, ok, err := s.store.Get(ctx, ItemTable, ItemID(planID, seq))
	if err != nil {
		return Item{}, false, fmt.Errorf("read item: %w: %w", idempotency.ErrUnavailable, err)
	}
	if !ok {
		return Item{}, false, nil
	}
	i, err = parseItem(planID, row)
	return i, err == nil, err
}

// UpdateItem writes an item in place of the one that was read.
func (s *Store) UpdateItem(ctx context.Context, read, next Item) (Item, error) {
	next.Revision = read.Revision + 1
	err := s.update(ctx, ItemTable, ItemID(read.PlanID, read.Seq), read.columns(), next.columns(), read.Revision)
	if err == nil {
		return next, nil
	}
	stored, ok, readErr := s.Item(ctx, read.PlanID, read.Seq)
	switch {
	case readErr != nil || !ok:
		return Item{}, fmt.Errorf("write item: %w: %w", idempotency.ErrUnavailable, err)
	case stored == next:
		return stored, nil // its answer was lost
	case stored.Revision != read.Revision:
		return stored, ErrChanged
	}
	return Item{}, fmt.Errorf("write item: %w: %w", idempotency.ErrUnavailable, err)
}

// Items reads one page of a plan's items in order, from a place on; next is -1
// once all were read.
func (s *Store) Items(ctx context.Context, planID string, from int64, limit int) (items []Item, next int64, err error) {
	page, err := s.store.Scan(ctx, ItemTable, ItemID(planID, from), planID+"0", limit, nil)
	if err != nil {
		return nil, -1, fmt.Errorf("list items: %w: %w", idempotency.ErrUnavailable, err)
	}
	for _, row := range page.Rows {
		i, err := parseItem(planID, row)
		if err != nil {
			return nil, -1, err
		}
		items = append(items, i)
	}
	if page.Next == "" || len(items) == 0 {
		return items, -1, nil
	}
	return items, items[len(items)-1].Seq + 1, nil
}

// Approval reads the verdict on a plan, nil where there is none.
func (s *Store) Approval(ctx context.Context, planID string) (*Approval, error) {
	row, ok, err := s.store.Get(ctx, ApprovalTable, planID)
	if err != nil {
		return nil, fmt.Errorf("read approval: %w: %w", idempotency.ErrUnavailable, err)
	}
	if !ok {
		return nil, nil
	}
	return parseApproval(planID, row)
}

func parseApproval(planID string, row aliyun.Row) (*Approval, error) {
	c := aliyun.Reader{Row: row}
	a := Approval{PlanID: planID, Digest: c.Text("digest"), Verdict: Verdict(c.Text("verdict")), By: c.Text("approved_by"), At: c.Time("approved_at"), Reason: c.Text("reason")}
	if c.Err != nil {
		return nil, fmt.Errorf("read approval of %s: %w", planID, c.Err)
	}
	return &a, nil
}

// Decide writes a verdict: the first one holds. ErrVerdict comes where there is one.
func (s *Store) Decide(ctx context.Context, a Approval) error {
	c := aliyun.Columns{Row: aliyun.Row{}}
	c.Text("digest", a.Digest)
	c.Text("verdict", string(a.Verdict))
	c.Text("approved_by", a.By)
	c.Time("approved_at", a.At)
	c.Text("reason", a.Reason)
	found, err := s.store.InsertOnce(ctx, ApprovalTable, a.PlanID, c.Row)
	if err != nil {
		return fmt.Errorf("write approval: %w: %w", idempotency.ErrUnavailable, err)
	}
	if found == nil {
		return nil
	}
	stored, err := parseApproval(a.PlanID, found)
	if err != nil {
		return err
	}
	a.At = time.UnixMilli(a.At.UnixMilli()).UTC()
	if *stored != a {
		return ErrVerdict
	}
	return nil
}

func (p Plan) columns() (aliyun.Row, error) {
	header, err := json.Marshal(p.Header)
	if err != nil {
		return nil, fmt.Errorf("encode plan: %w", err)
	}
	counts, err := json.Marshal(p.Counts)
	if err != nil {
		return nil, fmt.Errorf("encode plan: %w", err)
	}
	c := aliyun.Columns{Row: aliyun.Row{}}
	c.Text("header", string(header))
	c.Text("digest", p.Digest)
	c.Text("state", string(p.State))
	c.Text("fingerprint", p.Fingerprint)
	c.Number("revision", p.Revision)
	c.Text("self_digest", p.SelfDigest)
	c.Time("self_approved_at", p.SelfAt)
	c.Text("self_reason", p.SelfReason)
	c.Text("stopped_by", p.StoppedBy)
	c.Text("stop_reason", p.StopReason)
	c.Number("stage", p.Stage)
	c.Text("counts", string(counts))
	if len(p.Runs) > 0 {
		runs, err := json.Marshal(p.Runs)
		if err != nil {
			return nil, fmt.Errorf("encode plan: %w", err)
		}
		c.Text("runs", string(runs))
	}
	c.Text("lock_owner", p.LockOwner)
	c.Time("lock_until", p.LockUntil)
	c.Time("updated_at", p.UpdatedAt)
	c.Time("expires_at", p.ExpiresAt)
	return c.Row, nil
}

func parsePlan(id string, row aliyun.Row) (Plan, error) {
	c := aliyun.Reader{Row: row}
	p := Plan{
		Digest: c.Text("digest"), State: State(c.Text("state")), Revision: c.Number("revision"),
		SelfDigest: c.Text("self_digest"), SelfAt: c.Time("self_approved_at"), SelfReason: c.Text("self_reason"),
		StoppedBy: c.Text("stopped_by"), StopReason: c.Text("stop_reason"), Stage: c.Number("stage"),
		LockOwner: c.Text("lock_owner"), LockUntil: c.Time("lock_until"), UpdatedAt: c.Time("updated_at"), ExpiresAt: c.Time("expires_at"),
	}
	unmarshal := func(name string, into any) {
		if s := c.Text(name); s != "" && json.Unmarshal([]byte(s), into) != nil {
			c.Fail(name)
		}
	}
	unmarshal("header", &p.Header)
	unmarshal("counts", &p.Counts)
	unmarshal("runs", &p.Runs)
	if c.Err == nil && p.ID != id {
		c.Fail("header")
	}
	if c.Err != nil {
		return Plan{}, fmt.Errorf("read plan %s: %w", id, c.Err)
	}
	return p, nil
}

func (i Item) columns() aliyun.Row {
	c := aliyun.Columns{Row: aliyun.Row{}}
	c.Text("frozen", string(i.Leaf()))
	c.Number("revision", i.Revision)
	c.Text("sender", i.Sender)
	c.Time("sent_at", i.SentAt)
	c.Text("outcome", string(i.Outcome))
	c.Text("reason", i.Reason)
	c.Time("ended_at", i.EndedAt)
	c.Text("new_fingerprint", i.NewFingerprint)
	c.Text("new_code", string(i.NewCode))
	return c.Row
}

func parseItem(planID string, row aliyun.Row) (Item, error) {
	c := aliyun.Reader{Row: row}
	i := Item{
		PlanID: planID, Revision: c.Number("revision"), Sender: c.Text("sender"), SentAt: c.Time("sent_at"),
		Outcome: Outcome(c.Text("outcome")), Reason: c.Text("reason"), EndedAt: c.Time("ended_at"),
		NewFingerprint: c.Text("new_fingerprint"), NewCode: letter.Code(c.Text("new_code")),
	}
	if err := json.Unmarshal([]byte(c.Text("frozen")), &i.Frozen); err != nil {
		c.Fail("frozen")
	}
	if c.Err != nil {
		return Item{}, fmt.Errorf("read item of plan %s: %w", planID, c.Err)
	}
	return i, nil
}
