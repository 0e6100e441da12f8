// Package plan is the reviewed list of dead letters that may be replayed: what a
// person approves, and what the function checks before it opens a task again.
//
// A plan freezes ids, revisions and hashes. Its digest covers its own words and,
// through the root of a Merkle tree (RFC 6962), every single item; an approval
// names that digest. So the function can check with two reads and a proof that
// the one item it was handed belongs to what was approved, however long the list.
//
//	planned --approve--> (approval) --replay--> running --> done
//	   '--reject--> rejected             pause <-> resume, stop --> stopped
package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/internal/messages"
)

// State is where a plan stands.
type State string

const (
	// StatePlanned: frozen; nothing has been sent.
	StatePlanned State = "planned"
	// StateRunning: a replayer sends, or has died and another may go on once its lock is over.
	StateRunning State = "running"
	// StatePaused: an operator, or Ctrl-C, asked to wait; it can be resumed.
	StatePaused State = "paused"
	// StateStopped: a stop condition or an operator ended it. Terminal: what is left needs a new plan.
	StateStopped State = "stopped"
	// StateRejected: a person said no. Terminal.
	StateRejected State = "rejected"
	// StateDone: every item has an outcome. Terminal.
	StateDone State = "done"
)

// Ended reports whether nothing is sent under the plan any more.
func (s State) Ended() bool {
	return s == StateStopped || s == StateRejected || s == StateDone
}

// Header is what an approver approves, apart from the items. Field order is the
// order of the digest: never change it, add at the end.
type Header struct {
	Version     int         `json:"version"` // of this format: 1
	ID          string      `json:"id"`
	Environment string      `json:"environment"`
	Fingerprint string      `json:"fingerprint"`
	Code        letter.Code `json:"code"`
	Target      string      `json:"target"`
	Reason      string      `json:"reason"`
	MadeBy      string      `json:"made_by"`
	MadeAt      int64       `json:"made_at"` // milliseconds since 1970
	Count       int64       `json:"count"`   // of items
	ItemsRoot   string      `json:"items_root"`
	HighImpact  []string    `json:"high_impact"`    // why another identity must approve; empty: the maker may
	Evidence    string      `json:"evidence"`       // digest of all evidence about the group, "" where none is needed
	Stages      []int64     `json:"stages"`         // sizes, in order; they sum up to Count
	ObserveMS   int64       `json:"observe_ms"`     // waited at the end of each stage, milliseconds
	RateMilli   int64       `json:"rate_milli"`     // sends in a second, in thousandths
	Burst       int64       `json:"burst"`          // sends at once on top of the rate
	Concurrency int64       `json:"concurrency"`    // sends in flight at most
	MaxErrors   int64       `json:"max_errors_pct"` // failed items of those that ended, in percent, above which a run stops
}

// Digest is hex SHA-256 of the header as JSON: what an approval names.
func (h Header) Digest() string {
	raw, err := json.Marshal(h)
	if err != nil {
		panic(err) // texts and numbers alone: it cannot fail
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// Plan is one row of replay_plans: a header and how far its run is.
type Plan struct {
	Header
	Digest   string // as stored; Check compares it with the header's own
	State    State
	Revision int64

	// SelfDigest is the digest that the plan's own maker has approved, which counts for
	// a plan of low impact alone: this row is written by who makes plans, the table of
	// approvals by approvers only.
	SelfDigest string
	SelfAt     time.Time
	SelfReason string

	StoppedBy  string // who or which rule ended or paused it
	StopReason string
	Stage      int64 // the stage that runs, from 0
	Runs       []StageRun
	Counts     Counts
	LockOwner  string // of the replayer at work
	LockUntil  time.Time
	UpdatedAt  time.Time
	ExpiresAt  time.Time
}

// ErrDigest says that a plan's row is not what its digest says.
var ErrDigest = messages.Errorf("the plan is not what its digest says")

// Check compares the stored digest with the header's.
func (p Plan) Check() error {
	if p.Version != 1 {
		return fmt.Errorf("plan %s: version %d is not known", p.ID, p.Version)
	}
	if p.Header.Digest() != p.Digest {
		return ErrDigest
	}
	return nil
}

// StageRun is what a stage's run has recorded of itself.
type StageRun struct {
	Stage     int64  `json:"stage"`
	Size      int64  `json:"size"`
	PreCheck  Counts `json:"pre_check"` // what the gates said of its items before the first was sent: selected, skipped, refused
	CheckedAt int64  `json:"checked_at"`
	StartedAt int64  `json:"started_at,omitempty"`
	EndedAt   int64  `json:"ended_at,omitempty"`
	Observed  int64  `json:"observed_at,omitempty"` // when its observation time was over
	Counts    Counts `json:"counts"`
}

// Counts are how items ended. Selected is the sum of all others.
type Counts struct {
	Selected   int64 `json:"selected"`
	Succeeded  int64 `json:"succeeded"`
	Skipped    int64 `json:"skipped"`
	Refused    int64 `json:"refused"`
	Failed     int64 `json:"failed"`
	Unresolved int64 `json:"unresolved"` // not sent yet, or sent and nobody knows
}

// Balanced reports whether the sum holds.
func (c Counts) Balanced() bool {
	return c.Selected == c.Succeeded+c.Skipped+c.Refused+c.Failed+c.Unresolved
}

// Outcome is how one item ended; "" while it waits.
type Outcome string

const (
	// OutcomeSucceeded: the record says SUCCEEDED after this send.
	OutcomeSucceeded Outcome = "succeeded"
	// OutcomeSkipped: the business was done already, or the letter had ended.
	OutcomeSkipped Outcome = "skipped"
	// OutcomeRefused: a gate or the function refused; nothing ran.
	OutcomeRefused Outcome = "refused"
	// OutcomeFailed: it ran and failed again.
	OutcomeFailed Outcome = "failed"
	// OutcomeUnresolved: it was sent and nobody knows what became of it.
	OutcomeUnresolved Outcome = "unresolved"
)

// Frozen is the part of an item that the plan's digest covers. Field order is the
// order of the leaf: never change it, add at the end.
type Frozen struct {
	Seq            int64  `json:"seq"` // place in the plan, from 0
	LetterID       string `json:"letter_id"`
	LetterRevision int64  `json:"letter_revision"`
	Generation     int64  `json:"generation"`
	EventID        string `json:"event_id"`
	RawRef         string `json:"raw_ref"`
	RawSHA256      string `json:"raw_sha256"`
	Key            string `json:"idempotency_key"`
	InputDigest    string `json:"input_digest"`
	RecordRevision int64  `json:"record_revision"` // 0 where there is no record
	RecordDigest   string `json:"record_digest"`   // differs from InputDigest for a migrated child alone
	Qualifier      string `json:"qualifier"`       // version of the function that it goes to
	EvidenceID     string `json:"evidence_id"`     // of the repair that it goes by, "" where none is needed
}

// Leaf is the bytes that the items' root covers.
func (f Frozen) Leaf() []byte {
	raw, err := json.Marshal(f)
	if err != nil {
		panic(err) // texts and numbers alone: it cannot fail
	}
	return raw
}

// Item is one row of replay_items.
type Item struct {
	Frozen
	PlanID   string
	Revision int64

	Sender  string    // the replayer that sent it, written before the send
	SentAt  time.Time // zero while it waits
	Outcome Outcome
	Reason  string // fixed text: the gate or rule that said so
	EndedAt time.Time
	// After a failure: the group that the letter now belongs to.
	NewFingerprint string
	NewCode        letter.Code
}

// Verdict is what a person said about a plan.
type Verdict string

// The two verdicts.
const (
	VerdictApproved Verdict = "approved"
	VerdictRejected Verdict = "rejected"
)

// Approval is one row of replay_approvals: one verdict on one digest.
type Approval struct {
	PlanID  string
	Digest  string // of the header that was shown
	Verdict Verdict
	By      string // identity
	At      time.Time
	Reason  string
}

// Refusals of CheckApproval.
var (
	ErrNotApproved   = messages.Errorf("nobody has approved the plan")
	ErrOtherDigest   = messages.Errorf("the approval is of another plan than this one")
	ErrSameIdentity  = messages.Errorf("a high-impact plan needs another identity than its maker to approve it: another role or user, for a session's name is free to choose")
	ErrPlanRejected  = messages.Errorf("the plan was rejected")
	ErrPlanOver      = messages.Errorf("the plan has ended: what is left needs a new plan")
	ErrItemElsewhere = messages.Errorf("the item is not in the approved plan")
)

// Given is the verdict on a plan, its maker's own included; nil where there is none.
// a is the one of the table of approvals.
func (p Plan) Given(a *Approval) *Approval {
	switch {
	case a != nil:
		return a
	case p.State == StateRejected:
		return &Approval{PlanID: p.ID, Digest: p.Digest, Verdict: VerdictRejected, By: p.StoppedBy, At: p.UpdatedAt, Reason: p.StopReason}
	case p.SelfDigest == "":
		return nil
	}
	return &Approval{PlanID: p.ID, Digest: p.SelfDigest, Verdict: VerdictApproved, By: p.MadeBy, At: p.SelfAt, Reason: p.SelfReason}
}

// CheckApproval says whether items of the plan may be sent. Both the sender and
// the function ask it; a is nil where there is no verdict.
func CheckApproval(p Plan, a *Approval) error {
	if err := p.Check(); err != nil {
		return err
	}
	switch {
	case p.State.Ended():
		return fmt.Errorf("%w (%s)", ErrPlanOver, p.State)
	case a == nil && len(p.HighImpact) == 0 && p.SelfDigest == p.Digest:
		return nil
	case a == nil:
		return ErrNotApproved
	case a.Verdict != VerdictApproved:
		return ErrPlanRejected
	case a.Digest != p.Digest || a.PlanID != p.ID:
		return ErrOtherDigest
	}
	return CheckImpact(p, a, p.HighImpact)
}

// principal is an identity without its session, whose name the caller of a role
// picks: role/session is role, a user is itself.
func principal(name string) string {
	role, _, _ := strings.Cut(name, "/")
	return role
}

// Tree holds the hashes of a plan's items: 64 bytes an item.
type Tree struct {
	hashes []tlog.Hash
	count  int64
}

// Add appends the next item.
func (t *Tree) Add(f Frozen) error {
	if f.Seq != t.count {
		return fmt.Errorf("add item: place %d comes after %d items", f.Seq, t.count)
	}
	added, err := tlog.StoredHashes(t.count, f.Leaf(), t)
	if err != nil {
		return fmt.Errorf("add item: %w", err)
	}
	t.hashes = append(t.hashes, added...)
	t.count++
	return nil
}

// ReadHashes implements tlog.HashReader.
func (t *Tree) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, at := range indexes {
		if at < 0 || at >= int64(len(t.hashes)) {
			return nil, errors.New("read hashes: no such hash")
		}
		out[i] = t.hashes[at]
	}
	return out, nil
}

// Count is how many items were added.
func (t *Tree) Count() int64 { return t.count }

// Root is hex of the tree's root.
func (t *Tree) Root() (string, error) {
	root, err := tlog.TreeHash(t.count, t)
	if err != nil {
		return "", fmt.Errorf("items root: %w", err)
	}
	return hex.EncodeToString(root[:]), nil
}

// Proof shows that the item at seq belongs to the root: hex hashes.
func (t *Tree) Proof(seq int64) ([]string, error) {
	proof, err := tlog.ProveRecord(t.count, seq, t)
	if err != nil {
		return nil, fmt.Errorf("prove item: %w", err)
	}
	out := make([]string, len(proof))
	for i, h := range proof {
		out[i] = hex.EncodeToString(h[:])
	}
	return out, nil
}

// CheckItem says whether an item belongs to the plan.
func (h Header) CheckItem(f Frozen, proof []string) error {
	root, err := parseHash(h.ItemsRoot)
	if err != nil {
		return ErrItemElsewhere
	}
	var p tlog.RecordProof
	for _, s := range proof {
		one, err := parseHash(s)
		if err != nil {
			return ErrItemElsewhere
		}
		p = append(p, one)
	}
	if f.Seq < 0 || f.Seq >= h.Count {
		return ErrItemElsewhere
	}
	if err := tlog.CheckRecord(p, h.Count, root, f.Seq, tlog.RecordHash(f.Leaf())); err != nil {
		return ErrItemElsewhere
	}
	return nil
}

func parseHash(s string) (tlog.Hash, error) {
	raw, err := hex.DecodeString(s)
	var h tlog.Hash
	if err != nil || len(raw) != len(h) {
		return h, errors.New("no hash")
	}
	copy(h[:], raw)
	return h, nil
}

// Envelope is the call that asks the function to replay one item: an envelope
// around the unchanged raw bytes.
type Envelope struct {
	Oncegate string   `json:"oncegate"` // replay
	Batch    string   `json:"batch"`    // the plan's id
	Item     Frozen   `json:"item"`
	Proof    []string `json:"proof"`
	Raw      []byte   `json:"raw"` // base64 on the wire
}

// EnvelopeReplay is the kind of an Envelope.
const EnvelopeReplay = "replay"

// Known reports whether an item's frozen record revision says that there was one.
func (f Frozen) Known() bool { return f.RecordRevision > 0 }

// Migrated reports whether the item replaces the record's input.
func (f Frozen) Migrated() bool { return f.Known() && f.RecordDigest != f.InputDigest }
