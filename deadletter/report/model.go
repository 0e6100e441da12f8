package report

import (
	"time"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
)

// Report is report.json without its groups and repairs, which follow as "groups"
// and "repairs". Texts are escaped already.
type Report struct {
	SchemaVersion int         `json:"schema_version"`
	GeneratedAt   time.Time   `json:"generated_at"`
	Environment   string      `json:"environment"`
	Complete      bool        `json:"complete"` // every row of every table was read
	OK            bool        `json:"ok"`       // nothing is unexplained, and all sums balance
	Letters       Letters     `json:"letters"`
	GroupCount    int         `json:"group_count"`
	Batches       BatchTotals `json:"batches"`
	Approvals     Approvals   `json:"approvals"`
	Audit         AuditTotals `json:"audit"`
	Expiring      []Event     `json:"expiring"` // open letters, soonest first
	Timeline      Timeline    `json:"timeline"`
	BatchList     []*Batch    `json:"batch_list"`
	Repairs       Repairs     `json:"-"`
}

// Letters is the balancing sum.
type Letters struct {
	Total       int64                         `json:"total"`
	Open        map[deadletter.Decision]int64 `json:"open"`
	OpenSum     int64                         `json:"open_sum"`
	Ended       map[letter.FinalStatus]int64  `json:"ended"`
	EndedSum    int64                         `json:"ended_sum"`
	Unexplained int64                         `json:"unexplained"` // neither ended nor decided by a rule
	Unreadable  int64                         `json:"unreadable"`  // among all of these: no event could be read from the bytes
	Overdue     int64                         `json:"overdue"`     // open though their time is over
	ExpiringDay int64                         `json:"expiring_24h"`
	Stored      int64                         `json:"stored_decisions"` // of the open ones: decided earlier, and not anew for this report
	Balanced    bool                          `json:"balanced"`
}

// Group is one fingerprint.
type Group struct {
	Fingerprint string                        `json:"fingerprint"`
	Code        string                        `json:"error_code"`
	Class       letter.Class                  `json:"class"`
	Target      string                        `json:"target"`
	Letters     int64                         `json:"letters"`
	Open        map[deadletter.Decision]int64 `json:"open"`
	OpenSum     int64                         `json:"open_sum"`
	Ended       map[letter.FinalStatus]int64  `json:"ended"`
	EndedSum    int64                         `json:"ended_sum"`
	Unexplained int64                         `json:"unexplained"`
	Rules       map[string]int64              `json:"rules"`   // of the open ones
	Records     map[string]int64              `json:"records"` // business records by status; "none" where there is none, "not read" where nobody looked
	MaxGen      int64                         `json:"max_generation"`
	FirstFailed time.Time                     `json:"first_failed_at"`
	LastFailed  time.Time                     `json:"last_failed_at"`
	Soonest     time.Time                     `json:"expires_soonest_at,omitzero"`
	Timeline    Timeline                      `json:"timeline"`
	Evidence    []Evidence                    `json:"evidence"`
	Batches     []string                      `json:"batches"`
	Sample      []Event                       `json:"sample"`
	Page        string                        `json:"page"`
}

// Event is a letter as it is shown.
type Event struct {
	LetterID        string              `json:"letter_id"`
	EventID         string              `json:"event_id"`
	Source          string              `json:"event_source"`
	Flow            string              `json:"flow"`
	Fingerprint     string              `json:"fingerprint"`
	Code            string              `json:"error_code"`
	Target          string              `json:"target"`
	Decision        deadletter.Decision `json:"decision"`
	Rule            string              `json:"rule"`
	Record          string              `json:"record_status"`
	Final           letter.FinalStatus  `json:"final_status"`
	ClosedBy        string              `json:"closed_by"`
	CloseReason     string              `json:"close_reason"`
	Reason          string              `json:"reason"`
	ConsumerVersion string              `json:"consumer_version"`
	OriginalEventID string              `json:"original_event_id"`
	Migration       string              `json:"migration"`
	Batch           string              `json:"replay_batch_id"`
	Sightings       int64               `json:"sightings"`
	Generation      int64               `json:"generation"`
	EventTime       time.Time           `json:"event_time,omitzero"`
	FirstFailed     time.Time           `json:"first_failed_at"`
	LastFailed      time.Time           `json:"last_failed_at"`
	ClosedAt        time.Time           `json:"closed_at,omitzero"`
	ExpiresAt       time.Time           `json:"expires_at,omitzero"`
	Lives           []Life              `json:"history,omitempty"`
	Gates           []GateRow           `json:"gates,omitempty"`
}

// Open reports whether nobody has ended the letter.
func (e Event) Open() bool { return e.Final == "" }

// Life is a former life of a letter.
type Life struct {
	At         time.Time `json:"at"`
	Final      string    `json:"final_status"` // "" where a replay failed
	Code       string    `json:"error_code"`
	Generation int64     `json:"generation"`
	Batch      string    `json:"replay_batch_id,omitempty"`
}

// Evidence is one run of a probe.
type Evidence struct {
	Fingerprint string    `json:"fingerprint"`
	Probe       string    `json:"probe"`
	OK          bool      `json:"ok"`
	Result      string    `json:"result"`
	Letters     int       `json:"letters"` // looked at one by one
	At          time.Time `json:"at"`
	By          string    `json:"by"`
}

// Repairs counts evidence over all groups.
type Repairs struct {
	Evidence int64 `json:"evidence"`
	OK       int64 `json:"ok"`
	Failed   int64 `json:"failed"`
	Groups   int64 `json:"groups_with_evidence"`
	// Missing groups hold letters that need a repair and have no evidence that went well.
	Missing int64 `json:"groups_without"`
}

// BatchTotals sums all plans up.
type BatchTotals struct {
	Plans      int64            `json:"plans"`
	ByState    map[string]int64 `json:"by_state"`
	Counts     plan.Counts      `json:"counts"`
	Unbalanced int64            `json:"unbalanced"`
}

// Batch is one plan. Counts are counted over its items.
type Batch struct {
	ID          string       `json:"id"`
	Digest      string       `json:"digest"`
	State       string       `json:"state"`
	Fingerprint string       `json:"fingerprint"`
	Code        string       `json:"error_code"`
	Target      string       `json:"target"`
	Reason      string       `json:"reason"`
	MadeBy      string       `json:"made_by"`
	MadeAt      time.Time    `json:"made_at"`
	HighImpact  []string     `json:"high_impact,omitempty"`
	StoppedBy   string       `json:"stopped_by,omitempty"`
	StopReason  string       `json:"stop_reason,omitempty"`
	RatePerSec  float64      `json:"rate_per_second"`
	Frozen      int64        `json:"frozen"` // items that the plan froze
	Counts      plan.Counts  `json:"counts"`
	Waiting     int64        `json:"waiting"` // of the unresolved: never sent
	Balanced    bool         `json:"balanced"`
	Problems    []string     `json:"problems,omitempty"`
	Stages      []StageRow   `json:"stages"`
	Verdict     plan.Verdict `json:"verdict"` // "" while nobody has said anything
	VerdictBy   string       `json:"verdict_by,omitempty"`
	VerdictAt   time.Time    `json:"verdict_at,omitzero"`
	VerdictWhy  string       `json:"verdict_reason,omitempty"`
	Refusal     string       `json:"refusal,omitempty"` // why nothing may be sent under it now
	Listed      int64        `json:"listed"`            // items listed one by one: unresolved, failed, refused
	Page        string       `json:"page"`

	rawID string
}

// StageRow is a stage, run or not.
type StageRow struct {
	Stage     int64       `json:"stage"` // from 1
	Size      int64       `json:"size"`
	PreCheck  plan.Counts `json:"pre_check"`
	Counts    plan.Counts `json:"counts"`
	StartedAt time.Time   `json:"started_at,omitzero"`
	EndedAt   time.Time   `json:"ended_at,omitzero"`
	Observed  time.Time   `json:"observed_at,omitzero"`
}

// Approvals counts verdicts over all plans.
type Approvals struct {
	Waiting  int64 `json:"waiting"`
	Granted  int64 `json:"granted"`
	Rejected int64 `json:"rejected"`
	Stale    int64 `json:"stale"` // given, and not good for the plan as it is
}

// AuditTotals counts audit rows.
type AuditTotals struct {
	Rows     int64            `json:"rows"`
	Shown    int64            `json:"shown"` // the latest ones
	ByAction map[string]int64 `json:"by_action"`
}

// Timeline counts letters by when they first failed.
type Timeline struct {
	From    time.Time `json:"from,omitzero"`
	Seconds int64     `json:"bucket_seconds"`
	Open    []int64   `json:"open"`
	Ended   []int64   `json:"ended"`
}
