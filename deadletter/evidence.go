package deadletter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/messages"
)

// EvidenceTable is what probes have shown about the cause of a group. One row a
// probe run; rows are added and never changed.
var EvidenceTable = aliyun.Table{Name: "repair_evidence", Key: "id"}

// Evidence says that a cause of failure was looked at, with what result. It
// belongs to a fingerprint, and holds until an attempt that began after it fails.
type Evidence struct {
	ID          string // FINGERPRINT/milliseconds in 13 digits-8 hex digits: those of one group follow each other in time
	Fingerprint string
	Probe       string // which probe ran: access, target, schema, throttle
	OK          bool
	Result      string   // fixed text with codes, never provider text
	LetterIDs   []string // letters that were looked at one by one; a schema probe counts for these alone
	At          time.Time
	By          string // identity
	Environment string
}

// EvidenceID is the id of evidence that was found at a time. Two of one time differ
// in what else makes them: the probe, the letter, the plan.
func EvidenceID(fingerprint string, at time.Time, parts ...string) string {
	return fmt.Sprintf("%s/%013d-%s", fingerprint, at.UnixMilli(), hashOf([]byte(strings.Join(parts, "\n")))[:8])
}

// EvidenceLog is the table of evidence.
type EvidenceLog struct {
	store *aliyun.Tablestore
}

// NewEvidenceLog returns the table; it makes no call.
func NewEvidenceLog(store *aliyun.Tablestore) *EvidenceLog { return &EvidenceLog{store} }

// Add writes evidence.
func (t *EvidenceLog) Add(ctx context.Context, e Evidence) error {
	ids, err := json.Marshal(e.LetterIDs)
	if err != nil {
		return fmt.Errorf("encode evidence: %w", err)
	}
	c := aliyun.Columns{Row: aliyun.Row{}}
	c.Text("fingerprint", e.Fingerprint)
	c.Text("probe", e.Probe)
	if e.OK {
		c.Text("ok", "true")
	}
	c.Text("result", e.Result)
	c.Text("letter_ids", string(ids))
	c.Time("at", e.At)
	c.Text("by", e.By)
	c.Text("environment", e.Environment)
	found, err := t.store.InsertOnce(ctx, EvidenceTable, e.ID, c.Row)
	if err != nil {
		return fmt.Errorf("write evidence: %w: %w", idempotency.ErrUnavailable, err)
	}
	if found != nil && (found["by"] != e.By || found["result"] != e.Result) {
		return fmt.Errorf("write evidence: %w: its id has other evidence", idempotency.ErrUnavailable)
	}
	return nil
}

// evidenceDigest is hex SHA-256 over the ids of all evidence about a group: a plan
// holds while that is the same.
func evidenceDigest(all []Evidence) string {
	ids := make([]string, len(all))
	for i, e := range all {
		ids[i] = e.ID
	}
	return hashOf([]byte(strings.Join(ids, "\n")))
}

// unchanged refuses a plan whose group has other evidence now than when it was made.
func unchanged(ctx context.Context, log *EvidenceLog, plans *plan.Store, p plan.Plan) error {
	if p.Evidence == "" {
		return nil
	}
	all, err := Standing(ctx, log, plans, p.Fingerprint)
	if err != nil {
		return err
	}
	if evidenceDigest(all) != p.Evidence {
		return &RefusedError{Gate{
			Name: GateRepair, Reason: messages.T("the evidence has changed since the plan was made: verify the repair, make a new plan, and have that approved"),
		}}
	}
	return nil
}

// Standing is all that speaks for or against the repair of a group, oldest first:
// the evidence, and the events that failed again in a replay after it. Those stand
// in the items of plans: who replays has no right to write evidence.
func Standing(ctx context.Context, log *EvidenceLog, plans *plan.Store, fingerprint string) ([]Evidence, error) {
	all, err := log.Of(ctx, fingerprint)
	if err != nil || len(all) == 0 {
		return all, err
	}
	shown, err := shownByReplays(ctx, plans, fingerprint, all[0].At)
	if err != nil {
		return nil, err
	}
	all = append(all, shown...)
	slices.SortStableFunc(all, func(x, y Evidence) int { return x.At.Compare(y.At) })
	return all, nil
}

// shownByReplays are the events of a group that failed again, in the same way, in a
// replay that ended after a time.
func shownByReplays(ctx context.Context, plans *plan.Store, fingerprint string, after time.Time) ([]Evidence, error) {
	var all []Evidence
	for from, more := "", true; more; more = from != "" {
		page, next, err := plans.List(ctx, from, 500)
		if err != nil {
			return nil, err
		}
		for _, p := range page {
			if p.Fingerprint != fingerprint || p.UpdatedAt.Before(after) || (p.State == plan.StatePlanned) {
				continue
			}
			for at := int64(0); at >= 0; {
				items, following, err := plans.Items(ctx, p.ID, at, 1000)
				if err != nil {
					return nil, err
				}
				for _, i := range items {
					if e, ok := shownBy(i, p); ok && !i.EndedAt.Before(after) {
						all = append(all, e)
					}
				}
				at = following
			}
		}
		from = next
	}
	return all, nil
}

// shownBy is what an item says against the repair of its plan's group; ok is false
// where it says nothing.
func shownBy(i plan.Item, p plan.Plan) (e Evidence, ok bool) {
	if i.Outcome != plan.OutcomeFailed || i.NewFingerprint != p.Fingerprint {
		return Evidence{}, false
	}
	return Evidence{
		ID: EvidenceID(p.Fingerprint, i.EndedAt, ProbeReplay, i.PlanID, i.LetterID), Fingerprint: p.Fingerprint, Probe: ProbeReplay,
		Result: "an event failed again after the repair", LetterIDs: []string{i.LetterID}, At: i.EndedAt, By: i.Sender, Environment: p.Environment,
	}, true
}

// Of returns the evidence about a group, oldest first.
func (t *EvidenceLog) Of(ctx context.Context, fingerprint string) ([]Evidence, error) {
	if fingerprint == "" {
		return nil, errors.New("list evidence: no fingerprint")
	}
	var all []Evidence
	for from, more := fingerprint+"/", true; more; more = from != "" {
		page, err := t.store.Scan(ctx, EvidenceTable, from, fingerprint+"0", 500, nil)
		if err != nil {
			return nil, fmt.Errorf("list evidence: %w: %w", idempotency.ErrUnavailable, err)
		}
		for i, row := range page.Rows {
			c := aliyun.Reader{Row: row}
			e := Evidence{
				ID: page.Keys[i], Fingerprint: c.Text("fingerprint"), Probe: c.Text("probe"), OK: c.Text("ok") == "true", Result: c.Text("result"),
				At: c.Time("at"), By: c.Text("by"), Environment: c.Text("environment"),
			}
			if s := c.Text("letter_ids"); s != "" && json.Unmarshal([]byte(s), &e.LetterIDs) != nil {
				c.Fail("letter_ids")
			}
			if c.Err != nil {
				return nil, fmt.Errorf("list evidence: row %s: %w", e.ID, c.Err)
			}
			all = append(all, e)
		}
		from = page.Next
	}
	return all, nil
}
