// Package letter is the row of one dead letter: one event that did not end in
// success, whatever the reason, with everything that is needed to decide about
// it and to bring it back. An event is one letter however often it is seen; its
// id is derived from the event, so that a repeated delivery finds it again.
//
//	(no letter) -> open --> closed (final_status, who, why)
//	                ^          |
//	                '--reopen--'   a former life moves to history
package letter

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

// FinalStatus is how a letter ended; "" while it is open.
type FinalStatus string

// The ends of a letter.
const (
	// FinalSucceeded: a replay was followed by a record that says SUCCEEDED.
	FinalSucceeded FinalStatus = "SUCCEEDED"
	// FinalMigrated: a child letter with a repaired event goes on in its place.
	FinalMigrated FinalStatus = "MIGRATED"
	// FinalSkippedCompleted: the business is done, here or by other means.
	FinalSkippedCompleted FinalStatus = "SKIPPED_COMPLETED"
	FinalDiscarded        FinalStatus = "DISCARDED"
	FinalExpired          FinalStatus = "EXPIRED"
)

// EndedByPerson reports whether a person has decided that the event's business is not
// to be done any more, or is done elsewhere.
func (s FinalStatus) EndedByPerson() bool {
	return s == FinalDiscarded || s == FinalSkippedCompleted
}

// EndsBusiness reports whether nothing of the letter's business is to run any
// more: nobody wants it, or it is done elsewhere. A task that is still open behind
// such a letter is abandoned, or the next delivery would run it all the same.
func (s FinalStatus) EndsBusiness() bool {
	return s == FinalSkippedCompleted || s == FinalDiscarded || s == FinalExpired
}

// Life is a former life of a letter that was opened again.
type Life struct {
	ClosedAt    int64       `json:"closed_at"`    // milliseconds since 1970
	FinalStatus FinalStatus `json:"final_status"` // "" where it did not end but failed again in a replay
	Code        Code        `json:"code"`
	Generation  int64       `json:"generation"`
	Batch       string      `json:"batch,omitempty"` // plan whose replay failed
}

// maxLives bounds the history column.
const maxLives = 20

// Letter is one row of dead_letters. Times have millisecond precision.
type Letter struct {
	ID          string
	Revision    int64
	Fingerprint string
	Code        Code
	Target      string // what failed: fc:NAME, model:NAME, oss:, ots:
	Reason      string // fixed text, never a part of the event
	Origin      string // where it was left; "" for the handler's own

	// Reclassified is the code that a person gave an uncertain letter.
	Reclassified     Code
	ReclassifiedBy   string
	ReclassifyReason string

	EventID     string
	EventSource string
	EventTime   time.Time
	RawSHA256   string
	RawRef      string // idempotency.Ref of the raw bytes; older rows have an object name alone

	Key             string
	KeyRule         string // fingerprint of the rule and secret that made the key
	InputDigest     string
	Flow            string
	Environment     string
	ConsumerVersion string
	TraceID         string
	OriginalEventID string
	ParentID        string // letter that this one was migrated from
	ChildID         string // letter that goes on in place of this one, once MIGRATED
	Migration       string // FROM..TO of the migration that made this letter's event
	ReplayBatchID   string // plan that replayed it last
	Generation      int64  // rises with every failed replay

	FirstFailedAt    time.Time
	LastFailedAt     time.Time
	DeliveryAttempts int64 // sightings of the event since the letter was first written

	// Decision is what was decided when somebody last looked, and DecidedAt when: a
	// note for counts, never a permission. Empty where nobody has looked since the
	// letter changed.
	Decision  string
	DecidedAt time.Time
	// JudgedCode and JudgedTarget are the record's then, where they differed from the
	// letter's; the fingerprint follows them.
	JudgedCode   Code
	JudgedTarget string

	FinalStatus FinalStatus
	ClosedAt    time.Time
	ClosedBy    string
	CloseReason string
	History     []Life
	ExpiresAt   time.Time
}

// ID is the id of the letter of an event: derived, and a hash, so that ranges
// of letters split evenly.
func ID(source, eventID, inputDigest string) string {
	return idempotency.HashOf(map[string]string{"source": source, "event_id": eventID, "input_digest": inputDigest})
}

// RawID is the id of the letter of bytes that could not be decoded.
func RawID(rawSHA256 string) string {
	return idempotency.HashOf(map[string]string{"raw_sha256": rawSHA256})
}

// Open reports whether nobody has closed the letter yet.
func (l Letter) Open() bool { return l.FinalStatus == "" }

// Raw is the reference of the raw bytes, with the hash that they must have.
func (l Letter) Raw() (idempotency.Ref, error) {
	ref, err := idempotency.ParseRef(l.RawRef)
	if err != nil {
		return idempotency.Ref{}, fmt.Errorf("read letter %s: %w", l.ID, err)
	}
	if ref.SHA256 == "" {
		ref.SHA256 = l.RawSHA256 // a row of before references
	}
	if ref.Object == "" || ref.SHA256 == "" || ref.SHA256 != l.RawSHA256 {
		return idempotency.Ref{}, fmt.Errorf("read letter %s: its row does not say where which raw bytes are", l.ID)
	}
	return ref, nil
}

// tells reports whether the stored letter says all that a sighting would make it say.
func (l Letter) tells(seen Letter, reopen bool) bool {
	if l.Open() {
		return l.Fingerprint == seen.Fingerprint
	}
	return !reopen
}

// seenAgain is the stored letter after one more sighting.
func seenAgain(stored, seen Letter, reopen bool) Letter {
	next := stored
	next.Revision++
	next.DeliveryAttempts++
	next.LastFailedAt = seen.LastFailedAt
	next.ExpiresAt = seen.ExpiresAt
	next = next.forget() // what was decided is of before this sighting
	next.Decision, next.DecidedAt = seen.Decision, seen.DecidedAt
	// Both together: the reference names the version that holds this sighting's bytes.
	next.RawRef, next.RawSHA256 = seen.RawRef, seen.RawSHA256
	if stored.Open() || reopen {
		next.Code, next.Target, next.Reason = seen.Code, seen.Target, seen.Reason
		next.Fingerprint = Fingerprint(next.Code, next.Target)
		next.ConsumerVersion = seen.ConsumerVersion
	}
	if !stored.Open() && reopen {
		next = next.Remember(Life{stored.ClosedAt.UnixMilli(), stored.FinalStatus, stored.Code, stored.Generation, ""})
		next.FinalStatus, next.ClosedAt, next.ClosedBy, next.CloseReason = "", time.Time{}, "", ""
	}
	return next
}

// Remember returns the letter with one more former life.
func (l Letter) Remember(life Life) Letter {
	l.History = append(append([]Life(nil), l.History...), life)
	if n := len(l.History); n > maxLives {
		l.History = l.History[n-maxLives:]
	}
	return l
}

func (l Letter) columns() (aliyun.Row, error) {
	c := aliyun.Columns{Row: aliyun.Row{}}
	c.Number("revision", l.Revision)
	c.Text("fingerprint", l.Fingerprint)
	c.Text("error_code", string(l.Code))
	c.Text("class", string(l.Code.Class()))
	c.Text("target", l.Target)
	c.Text("reason", l.Reason)
	c.Text("event_id", l.EventID)
	c.Text("event_source", l.EventSource)
	c.Time("event_time", l.EventTime)
	c.Text("raw_sha256", l.RawSHA256)
	c.Text("raw_ref", l.RawRef)
	c.Text("idempotency_key", l.Key)
	c.Text("key_rule", l.KeyRule)
	c.Text("input_digest", l.InputDigest)
	c.Text("flow", l.Flow)
	c.Text("environment", l.Environment)
	c.Text("consumer_version", l.ConsumerVersion)
	c.Text("trace_id", l.TraceID)
	c.Text("original_event_id", l.OriginalEventID)
	c.Text("parent_id", l.ParentID)
	c.Text("child_id", l.ChildID)
	c.Text("migration", l.Migration)
	c.Text("replay_batch_id", l.ReplayBatchID)
	c.Number("generation", l.Generation)
	c.Time("first_failed_at", l.FirstFailedAt)
	c.Time("last_failed_at", l.LastFailedAt)
	c.Number("delivery_attempts", l.DeliveryAttempts)
	c.Text("decision", l.Decision)
	c.Time("decided_at", l.DecidedAt)
	c.Text("judged_code", string(l.JudgedCode))
	c.Text("judged_target", l.JudgedTarget)
	c.Text("final_status", string(l.FinalStatus))
	c.Time("closed_at", l.ClosedAt)
	c.Text("closed_by", l.ClosedBy)
	c.Text("close_reason", l.CloseReason)
	c.Text("origin", l.Origin)
	c.Text("reclassified", string(l.Reclassified))
	c.Text("reclassified_by", l.ReclassifiedBy)
	c.Text("reclassify_reason", l.ReclassifyReason)
	c.Time("expires_at", l.ExpiresAt)
	if len(l.History) > 0 {
		history, err := json.Marshal(l.History)
		if err != nil {
			return nil, fmt.Errorf("encode letter: %w", err)
		}
		c.Text("history", string(history))
	}
	return c.Row, nil
}

func parse(id string, row aliyun.Row) (Letter, error) {
	c := aliyun.Reader{Row: row}
	l := Letter{
		ID: id, Revision: c.Number("revision"), Fingerprint: c.Text("fingerprint"), Code: Code(c.Text("error_code")),
		Target: c.Text("target"), Reason: c.Text("reason"),
		EventID: c.Text("event_id"), EventSource: c.Text("event_source"), EventTime: eventTime(&c),
		RawSHA256: c.Text("raw_sha256"), RawRef: c.Text("raw_ref"),
		Key: c.Text("idempotency_key"), KeyRule: c.Text("key_rule"), InputDigest: c.Text("input_digest"), Flow: c.Text("flow"),
		Environment: c.Text("environment"), ConsumerVersion: c.Text("consumer_version"), TraceID: c.Text("trace_id"),
		OriginalEventID: c.Text("original_event_id"), Generation: c.Number("generation"),
		ParentID: c.Text("parent_id"), ChildID: c.Text("child_id"), Migration: c.Text("migration"), ReplayBatchID: c.Text("replay_batch_id"),
		FirstFailedAt: c.Time("first_failed_at"), LastFailedAt: c.Time("last_failed_at"),
		DeliveryAttempts: c.Number("delivery_attempts"), Decision: c.Text("decision"), DecidedAt: c.Time("decided_at"),
		JudgedCode: Code(c.Text("judged_code")), JudgedTarget: c.Text("judged_target"), FinalStatus: FinalStatus(c.Text("final_status")),
		ClosedBy: c.Text("closed_by"), CloseReason: c.Text("close_reason"), Origin: c.Text("origin"),
		Reclassified: Code(c.Text("reclassified")), ReclassifiedBy: c.Text("reclassified_by"), ReclassifyReason: c.Text("reclassify_reason"),
		ClosedAt: c.Time("closed_at"), ExpiresAt: c.Time("expires_at"),
	}
	if s := c.Text("history"); s != "" && c.Err == nil {
		if err := json.Unmarshal([]byte(s), &l.History); err != nil {
			c.Fail("history")
		}
	}
	if c.Err != nil {
		return Letter{}, fmt.Errorf("read letter %s: %w", id, c.Err)
	}
	return l, nil
}

// eventTime is what a producer wrote: any year at all.
func eventTime(c *aliyun.Reader) time.Time {
	if ms := c.Number("event_time"); ms != 0 {
		return time.UnixMilli(ms).UTC()
	}
	return time.Time{}
}
