package idempotency

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/aliyun"
)

// Status is where a task stands. Who moves it on:
type Status string

const (
	// StatusReceived: parked while its flow was off; an approved plan moves it on.
	StatusReceived Status = "RECEIVED"
	// StatusRunning: an owner holds the lease; the owner settles or fails it, and
	// once the lease is over the next delivery takes it over.
	StatusRunning Status = "RUNNING"
	// StatusSucceeded: the one effective result is there. Terminal.
	StatusSucceeded Status = "SUCCEEDED"
	// StatusFailedRetryable: the next delivery after not_before runs it again.
	StatusFailedRetryable Status = "FAILED_RETRYABLE"
	// StatusFailedFinal: nothing runs it again by itself; its dead letter is the road back.
	StatusFailedFinal Status = "FAILED_FINAL"
	// StatusOutcomeUnknown: an effect may have happened; a reviewer says whether it did.
	StatusOutcomeUnknown Status = "OUTCOME_UNKNOWN"
)

var statuses = []Status{
	StatusReceived, StatusRunning, StatusSucceeded, StatusFailedRetryable, StatusFailedFinal, StatusOutcomeUnknown,
}

// Known reports whether this version of oncegate knows the status.
func (s Status) Known() bool { return slices.Contains(statuses, s) }

// RecordVersion is the version of the record's columns that this code writes. A
// record of another version is never claimed.
const RecordVersion = 1

// KindTask marks rows of tasks in the table.
const KindTask = "task"

// Ref names one stored object and what it must contain.
type Ref struct {
	Object    string // object name in the bucket
	VersionID string // "" where the bucket keeps no versions
	SHA256    string // hex, of the object's bytes
}

func (r Ref) String() string {
	if r.Object == "" {
		return ""
	}
	q := url.Values{"sha256": {r.SHA256}}
	if r.VersionID != "" {
		q.Set("version_id", r.VersionID)
	}
	return r.Object + "?" + q.Encode()
}

// ParseRef reads what Ref.String wrote.
func ParseRef(s string) (Ref, error) {
	object, query := s, ""
	if i := strings.LastIndexByte(s, '?'); i >= 0 {
		object, query = s[:i], s[i+1:]
	}
	q, err := url.ParseQuery(query)
	if err != nil {
		return Ref{}, fmt.Errorf("parse object reference: %w", err)
	}
	return Ref{object, q.Get("version_id"), q.Get("sha256")}, nil
}

// Step is one entry of a record's history.
type Step struct {
	Revision int64  `json:"rev"`
	Status   Status `json:"status"`
	Attempt  int64  `json:"attempt"`
	At       int64  `json:"at"` // milliseconds since 1970
	Code     Code   `json:"code,omitempty"`
	Actor    string `json:"actor"`
}

// maxHistory bounds the history column: more steps drop the oldest.
const maxHistory = 40

// Record is one row of task_records. Times have millisecond precision; the
// zero time stands for a column that is not there.
type Record struct {
	Key           string
	RecordVersion int64
	Status        Status
	Revision      int64 // rises by one with every write: the compare-and-set token
	History       []Step
	Attempt       int64 // rises with every run, never reset: the fencing number of object names
	AttemptBudget int64
	NotBefore     time.Time
	LeaseUntil    time.Time
	Owner         string // random token of the run that wrote last

	KeyRule           string // fingerprint of the rule and secret that made the key
	KeyFields         string // canonical JSON; sensitive fields digested
	InputDigest       string
	SupersededDigests []string
	OutputRef         Ref
	ResultRef         Ref

	LastErrorCode    Code
	LastErrorTarget  string
	LastErrorSummary string // at most 200 characters from an allow-list, never provider text

	Effects []TaskEffect // declared side effects in order, with the last states known
	// EffectsOpen says that the next claim writes the effects anew: another input
	// holds than the one they were derived from.
	EffectsOpen bool

	Reviewer         string
	ReplayBatchID    string // approved plan that opened the task again last
	Abandoned        bool   // FAILED_FINAL because its last letter was discarded or expired
	Flow             string
	Environment      string
	Source           string
	EventID          string
	TraceID          string
	ConsumerVersion  string
	ProcessorVersion string

	FirstReceivedAt time.Time
	LastAttemptAt   time.Time
	UpdatedAt       time.Time
	ExpiresAt       time.Time
}

// maxSummary is the length of last_error_summary, in bytes.
const maxSummary = 200

// Columns is the stored form of a record.
func (r Record) Columns() (aliyun.Row, error) {
	history, err := json.Marshal(r.History)
	if err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	c := aliyun.Columns{Row: make(aliyun.Row, 32)} // about what it will hold
	c.Text("kind", KindTask)
	c.Number("record_version", r.RecordVersion)
	c.Text("status", string(r.Status))
	c.Number("revision", r.Revision)
	c.Text("history", string(history))
	c.Number("attempt", r.Attempt)
	c.Number("attempt_budget", r.AttemptBudget)
	c.Time("not_before", r.NotBefore)
	c.Time("lease_until", r.LeaseUntil)
	c.Text("owner", r.Owner)

	c.Text("key_rule", r.KeyRule)
	c.Text("key_fields", r.KeyFields)
	c.Text("input_digest", r.InputDigest)
	c.Text("superseded_digests", strings.Join(r.SupersededDigests, ","))
	c.Text("output_ref", r.OutputRef.String())
	c.Text("result_ref", r.ResultRef.String())

	c.Text("last_error_code", string(r.LastErrorCode))
	c.Text("last_error_target", r.LastErrorTarget)
	c.Text("last_error_summary", r.LastErrorSummary)

	effects, err := effectsText(r.Effects)
	if err != nil {
		return nil, fmt.Errorf("encode record: %w", err)
	}
	c.Text("effects", effects)
	if r.EffectsOpen {
		c.Text("effects_open", "true")
	}
	c.Text("reviewer", r.Reviewer)
	c.Text("replay_batch_id", r.ReplayBatchID)
	if r.Abandoned {
		c.Text("abandoned", "true")
	}
	c.Text("flow", r.Flow)
	c.Text("environment", r.Environment)
	c.Text("source", r.Source)
	c.Text("event_id", r.EventID)
	c.Text("trace_id", r.TraceID)
	c.Text("consumer_version", r.ConsumerVersion)
	c.Text("processor_version", r.ProcessorVersion)

	c.Time("first_received_at", r.FirstReceivedAt)
	c.Time("last_attempt_at", r.LastAttemptAt)
	c.Time("updated_at", r.UpdatedAt)
	c.Time("expires_at", r.ExpiresAt)
	return c.Row, nil
}

// ErrRecord is in the chain of every error of a row that cannot be read as a record.
var ErrRecord = errors.New("record cannot be read")

// ParseRecord reads a row. A record of another version or with a status that
// this version does not know is returned as far as it could be read:
// transitions refuse it.
func ParseRecord(key string, row aliyun.Row) (Record, error) {
	c := aliyun.Reader{Row: row}
	r := Record{
		Key:           key,
		RecordVersion: c.Number("record_version"),
		Status:        Status(c.Text("status")),
		Revision:      c.Number("revision"),
		Attempt:       c.Number("attempt"),
		AttemptBudget: c.Number("attempt_budget"),
		NotBefore:     c.Time("not_before"),
		LeaseUntil:    c.Time("lease_until"),
		Owner:         c.Text("owner"),

		KeyRule:     c.Text("key_rule"),
		KeyFields:   c.Text("key_fields"),
		InputDigest: c.Text("input_digest"),
		OutputRef:   refOf(&c, "output_ref"),
		ResultRef:   refOf(&c, "result_ref"),

		LastErrorCode:    Code(c.Text("last_error_code")),
		LastErrorTarget:  c.Text("last_error_target"),
		LastErrorSummary: c.Text("last_error_summary"),

		Effects: parseEffects(&c), EffectsOpen: c.Text("effects_open") == "true", Reviewer: c.Text("reviewer"),
		ReplayBatchID: c.Text("replay_batch_id"), Abandoned: c.Text("abandoned") == "true",
		Flow: c.Text("flow"), Environment: c.Text("environment"), Source: c.Text("source"), EventID: c.Text("event_id"),
		TraceID: c.Text("trace_id"), ConsumerVersion: c.Text("consumer_version"), ProcessorVersion: c.Text("processor_version"),

		FirstReceivedAt: c.Time("first_received_at"), LastAttemptAt: c.Time("last_attempt_at"),
		UpdatedAt: c.Time("updated_at"), ExpiresAt: c.Time("expires_at"),
	}
	if s := c.Text("superseded_digests"); s != "" {
		r.SupersededDigests = strings.Split(s, ",")
	}
	if s := c.Text("history"); s != "" && c.Err == nil {
		if err := json.Unmarshal([]byte(s), &r.History); err != nil {
			c.Err = errors.New("column history is no list of steps")
		}
	}
	if c.Err == nil && c.Text("kind") != KindTask {
		c.Err = errors.New("column kind is not task")
	}
	if c.Err == nil && r.Revision < 1 {
		c.Err = errors.New("column revision is missing")
	}
	if c.Err != nil && r.RecordVersion == RecordVersion {
		return Record{}, fmt.Errorf("%w: %w", ErrRecord, c.Err)
	}
	return r, nil
}

func refOf(c *aliyun.Reader, name string) Ref {
	r, err := ParseRef(c.Text(name))
	if err != nil {
		c.Fail(name)
	}
	return r
}
