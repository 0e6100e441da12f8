package deadletter

import (
	"context"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

// AuditTable is what was done about dead letters, by whom and why. Rows are added
// and never changed.
var AuditTable = aliyun.Table{Name: "dead_letter_audit", Key: "id"}

// Action is what an audit row is about.
type Action string

// The closed set of actions.
const (
	ActionReclassify Action = "reclassify"
	ActionResolve    Action = "resolve"
	ActionSweep      Action = "sweep"
	ActionMigrate    Action = "migrate"
	ActionPlan       Action = "plan"
	ActionApprove    Action = "approve"
	ActionReject     Action = "reject"
	ActionReplay     Action = "replay" // one item of a plan
	ActionRun        Action = "run"    // a replayer took a plan up, or ended
	ActionPause      Action = "pause"
	ActionStop       Action = "stop"
	ActionRepair     Action = "repair"
	ActionReveal     Action = "reveal" // somebody looked at a payload
	ActionPurge      Action = "purge"
	ActionRefused    Action = "refused" // an operator was not allowed to
)

// Audit is one row. Texts come from oncegate and its operators, never from events.
type Audit struct {
	ID                string // derived from what was done, so that a repeated step is one row
	At                time.Time
	Action            Action
	LetterID          string
	EventID           string
	Fingerprint       string
	Decision          Decision
	OriginalTarget    string
	ConsumerVersion   string
	ReplayBatchID     string
	IdempotencyKey    string
	IdempotencyResult string // the record's status after the step
	FinalStatus       string
	OperatorOrRule    string
	Reason            string
}

// AuditID derives an id from what makes a step one step.
func AuditID(action Action, parts ...string) string {
	fields := map[string]string{"action": string(action)}
	for i, p := range parts {
		fields[fmt.Sprintf("part_%d", i)] = p
	}
	return idempotency.HashOf(fields)
}

// AuditLog is the table of audit rows.
type AuditLog struct {
	store *aliyun.Tablestore
}

// NewAuditLog returns the table; it makes no call.
func NewAuditLog(store *aliyun.Tablestore) *AuditLog { return &AuditLog{store} }

// Add writes a row; one that is there already is left as it is. A change whose
// audit row cannot be written must not be made: write it first.
func (t *AuditLog) Add(ctx context.Context, a Audit) error {
	c := aliyun.Columns{Row: aliyun.Row{}}
	c.Time("at", a.At)
	c.Text("action", string(a.Action))
	c.Text("letter_id", a.LetterID)
	c.Text("event_id", a.EventID)
	c.Text("fingerprint", a.Fingerprint)
	c.Text("decision", string(a.Decision))
	c.Text("original_target", a.OriginalTarget)
	c.Text("consumer_version", a.ConsumerVersion)
	c.Text("replay_batch_id", a.ReplayBatchID)
	c.Text("idempotency_key", a.IdempotencyKey)
	c.Text("idempotency_result", a.IdempotencyResult)
	c.Text("final_status", a.FinalStatus)
	c.Text("operator_or_rule", a.OperatorOrRule)
	c.Text("reason", a.Reason)
	if _, err := t.store.InsertOnce(ctx, AuditTable, a.ID, c.Row); err != nil {
		return fmt.Errorf("write audit: %w: %w", idempotency.ErrUnavailable, err)
	}
	return nil
}

// Has reports whether a row is there.
func (t *AuditLog) Has(ctx context.Context, id string) (bool, error) {
	_, ok, err := t.store.Get(ctx, AuditTable, id)
	if err != nil {
		return false, fmt.Errorf("read audit: %w: %w", idempotency.ErrUnavailable, err)
	}
	return ok, nil
}

// List reads one page of rows by rising id, from an id on up to another ("" for the last).
func (t *AuditLog) List(ctx context.Context, from, to string, limit int) (rows []Audit, next string, err error) {
	page, err := t.store.Scan(ctx, AuditTable, from, to, limit, nil)
	if err != nil {
		return nil, "", fmt.Errorf("list audit: %w: %w", idempotency.ErrUnavailable, err)
	}
	for i, row := range page.Rows {
		c := aliyun.Reader{Row: row}
		a := Audit{
			ID: page.Keys[i], At: c.Time("at"), Action: Action(c.Text("action")), LetterID: c.Text("letter_id"), EventID: c.Text("event_id"),
			Fingerprint: c.Text("fingerprint"), Decision: Decision(c.Text("decision")), OriginalTarget: c.Text("original_target"),
			ConsumerVersion: c.Text("consumer_version"), ReplayBatchID: c.Text("replay_batch_id"), IdempotencyKey: c.Text("idempotency_key"),
			IdempotencyResult: c.Text("idempotency_result"), FinalStatus: c.Text("final_status"),
			OperatorOrRule: c.Text("operator_or_rule"), Reason: c.Text("reason"),
		}
		if c.Err != nil {
			return nil, "", fmt.Errorf("list audit: row %s: %w", a.ID, c.Err)
		}
		rows = append(rows, a)
	}
	return rows, page.Next, nil
}
