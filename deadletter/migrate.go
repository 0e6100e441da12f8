package deadletter

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/messages"
)

// MaxGenerations is how often a letter may come back: a child of the last
// generation is not made, and nothing loops.
const MaxGenerations = 3

// Change is one difference between a parent's event and its child's.
type Change = flows.Change

// Migrator makes children of letters.
//
//	audit row -> child's raw bytes -> child's letter -> parent closed as MIGRATED, naming its child
//
// A crash at any step and the same call again end in one child and a closed
// parent. In between neither can be replayed: the audit row holds the parent
// back, and a child waits until its parent names it. See Family.
type Migrator struct {
	Desk           *Desk
	Audit          *AuditLog
	Migrations     []flows.Migration
	MaxGenerations int64 // 0 means the default
	Now            func() time.Time
}

// Refusals of Migrate: nothing was changed.
var (
	ErrEnded       = errors.New("the letter has ended")
	ErrGenerations = errors.New("the letter has come back as often as it may: discard it, or have its producer publish it again")
	ErrDone        = errors.New("its business is done, or another input holds: there is nothing to migrate")
	ErrReview      = errors.New("a review of its business is open: answer that first")
	ErrOtherKey    = errors.New("the migration changes the business key: it would be another business")
	ErrEffects     = errors.New("a side effect was sent or settled with the old input: a changed input cannot take its place")
	ErrMade        = errors.New("this very migration has made it, and it was not replayed since")
)

// Child is a migrated event before it is stored.
type Child struct {
	Letter letter.Letter
	Raw    []byte
	Diff   []Change
	// What it replaces, as it was judged.
	Parent Judgement
}

// Prepare makes the child of a letter and checks it, without storing anything.
// to is a version, FROM..TO or identity.
func (m *Migrator) Prepare(ctx context.Context, l letter.Letter, to string) (Child, error) {
	most := m.MaxGenerations
	if most == 0 {
		most = MaxGenerations
	}
	if !l.Open() {
		return Child{}, fmt.Errorf("%w (%s)", ErrEnded, l.FinalStatus)
	}
	if l.Generation+1 > most {
		return Child{}, fmt.Errorf("%w (generation %d of %d)", ErrGenerations, l.Generation, most)
	}
	j, err := m.Desk.Judge(ctx, l)
	if err != nil {
		return Child{}, err
	}
	switch {
	case j.Decision == SkipCompleted:
		return Child{}, ErrDone
	case j.Review != nil && j.Review.State == idempotency.ReviewOpen:
		return Child{}, ErrReview
	}
	raw, err := m.Desk.RawEvent(ctx, l)
	if err != nil {
		return Child{}, err
	}
	parent, err := events.Decode(raw)
	if err != nil {
		return Child{}, fmt.Errorf("its bytes are no event: %w", err)
	}
	flow := m.Desk.Flows.Find(parent)
	if flow == nil {
		return Child{}, errors.New("no flow of today wants its event: there is nothing to migrate to")
	}
	migration, err := flows.FindMigration(m.Migrations, flow.Name, to)
	if err != nil {
		return Child{}, err
	}
	if l.Migration == migration.Name() && l.ReplayBatchID == "" {
		return Child{}, ErrMade
	}
	if migration.Name() != flows.Identity && migration.To != flow.SchemaVersion {
		return Child{}, fmt.Errorf("the migration leads to version %s, and flow %s is at %q today: migrate to that", migration.To, flow.Name, flow.SchemaVersion)
	}
	made, err := flow.Child(parent, migration, flows.ChildEventID(l.ID, migration.Name()))
	if err != nil {
		return Child{}, err
	}
	x := m.Desk.examine(made)
	switch {
	case x.why != "":
		return Child{}, fmt.Errorf("the migrated event would be refused: %s", x.why)
	case x.flow != flow:
		return Child{}, fmt.Errorf("the migrated event belongs to another flow, %s", x.flow.Name)
	case l.Key != "" && x.key != l.Key:
		return Child{}, ErrOtherKey
	}
	if j.Record != nil && x.digest != j.Record.InputDigest && slices.ContainsFunc(j.Record.Effects, func(e idempotency.TaskEffect) bool {
		return e.State != "" && e.State != idempotency.EffectRefused
	}) {
		return Child{}, ErrEffects
	}
	sum := sha256.Sum256(made)
	c := letter.Letter{
		// As the function derives it, so that a delivery of the child finds it.
		ID: letter.ID(x.event.Source(), x.event.ID(), x.digest), RawSHA256: hex.EncodeToString(sum[:]),
		Code: j.Code, Target: j.Target, Reason: l.Reason, Origin: l.Origin,
		EventID: x.event.ID(), EventSource: x.event.Source(), EventTime: x.event.Time(),
		Key: x.key, KeyRule: flow.KeyRuleID(m.Desk.KeySecret), InputDigest: x.digest, Flow: flow.Name, Environment: l.Environment,
		ConsumerVersion: l.ConsumerVersion, TraceID: l.TraceID, OriginalEventID: x.event.Extension(flows.OriginalID),
		ParentID: l.ID, Migration: migration.Name(), Generation: l.Generation + 1,
		FirstFailedAt: l.FirstFailedAt, LastFailedAt: l.LastFailedAt, ExpiresAt: m.Now().Add(m.Desk.Retention),
	}
	c.RawRef, c.Fingerprint = "", letter.Fingerprint(c.Code, c.Target)
	return Child{c, made, flows.Diff(parent, x.event), j}, nil
}

// Migrate makes the child of a letter and closes the letter as MIGRATED. The
// parent's event stays as it is. Called again after a crash it goes on where it
// was, to the same child.
func (m *Migrator) Migrate(ctx context.Context, l letter.Letter, to string, who, why string) (child letter.Letter, diff []Change, err error) {
	if child, ok, err := m.made(ctx, l, to); err != nil || ok {
		return child, nil, err
	}
	c, err := m.Prepare(ctx, l, to)
	if err != nil {
		return letter.Letter{}, nil, fmt.Errorf("migrate: %w", err)
	}
	child = c.Letter
	audit := Audit{
		ID: migrationID(l.ID), At: m.Now(), Action: ActionMigrate, LetterID: l.ID, EventID: l.EventID, Fingerprint: c.Parent.Fingerprint,
		Decision: c.Parent.Decision, OriginalTarget: c.Parent.Target, ConsumerVersion: l.ConsumerVersion, IdempotencyKey: child.Key,
		FinalStatus: string(letter.FinalMigrated), OperatorOrRule: who, Reason: child.Migration + ": " + why,
	}
	if c.Parent.Record != nil {
		audit.IdempotencyResult = string(c.Parent.Record.Status)
	}
	if err := m.Audit.Add(ctx, audit); err != nil {
		return letter.Letter{}, nil, fmt.Errorf("migrate: %w", err)
	}
	ref, err := m.Desk.Artifacts.PutLetter(ctx, child.ID, c.Raw)
	if err != nil {
		return letter.Letter{}, nil, fmt.Errorf("migrate: %w", err)
	}
	child.RawRef = ref.String()
	if err := m.Desk.Letters.Create(ctx, child); err != nil {
		return letter.Letter{}, nil, fmt.Errorf("migrate: %w", err)
	}
	err = m.Desk.Letters.Amend(ctx, l.ID, func(now letter.Letter) (letter.Letter, error) {
		if now.FinalStatus == letter.FinalMigrated && now.ChildID == child.ID {
			return now, errHandedOver
		}
		if !now.Open() {
			return now, fmt.Errorf("%w (%s): its child stays where it is and is never replayed", ErrEnded, now.FinalStatus)
		}
		now.FinalStatus, now.ClosedAt, now.ClosedBy, now.CloseReason = letter.FinalMigrated, m.Now(), who, child.Migration+": "+why
		now.ChildID = child.ID
		// It guards its child, and so it must not go before it.
		if now.ExpiresAt.Before(child.ExpiresAt) {
			now.ExpiresAt = child.ExpiresAt
		}
		return now, nil
	})
	if err != nil && !errors.Is(err, errHandedOver) {
		return letter.Letter{}, nil, fmt.Errorf("migrate: %w", err)
	}
	stored, ok, err := m.Desk.Letters.Get(ctx, child.ID)
	if err != nil || !ok {
		return letter.Letter{}, nil, errors.Join(errors.New("migrate: the child cannot be read back"), err)
	}
	return stored, c.Diff, nil
}

// made is the child of a letter that has handed over to it already.
func (m *Migrator) made(ctx context.Context, l letter.Letter, to string) (child letter.Letter, ok bool, err error) {
	if l.FinalStatus != letter.FinalMigrated || l.ChildID == "" {
		return letter.Letter{}, false, nil
	}
	if child, ok, err = m.Desk.Letters.Get(ctx, l.ChildID); err != nil || !ok {
		return letter.Letter{}, false, err
	}
	same, err := flows.FindMigration(m.Migrations, child.Flow, to)
	return child, err == nil && same.Name() == child.Migration, nil
}

var errHandedOver = errors.New("handed over already")

// migrationID is the audit row that holds a parent back from the first step of
// its migration on.
func migrationID(parentID string) string { return AuditID(ActionMigrate, parentID) }

// Why a letter's family holds it back.
var (
	WhyHandedOver = messages.T("a migrated child goes on in its place")
	WhyBegun      = messages.T("a migration of it has begun and not ended: run oncegate dlq migrate again")
	WhyWaits      = messages.T("its parent has not handed over to it: run oncegate dlq migrate on the parent again, or discard it")
)

// Family says whether parent or child holds a letter back; every plan and every
// replay must ask. Of a parent and its child at most one is let through: the
// parent until its migration begins, the child from when its parent names it.
func Family(ctx context.Context, letters *letter.Table, audit *AuditLog, l letter.Letter) (why messages.Text, err error) {
	if l.FinalStatus == letter.FinalMigrated || l.ChildID != "" {
		return WhyHandedOver, nil
	}
	begun, err := audit.Has(ctx, migrationID(l.ID))
	if err != nil {
		return messages.Text{}, fmt.Errorf("look for a child: %w", err)
	}
	if begun {
		return WhyBegun, nil
	}
	if l.ParentID == "" {
		return messages.Text{}, nil
	}
	parent, ok, err := letters.Get(ctx, l.ParentID)
	if err != nil {
		return messages.Text{}, fmt.Errorf("look for a parent: %w", err)
	}
	if !ok || parent.ChildID != l.ID {
		return WhyWaits, nil
	}
	return messages.Text{}, nil
}

// descends reports whether an input digest is that of an event which the
// letter's event was migrated from.
func (d *Desk) descends(ctx context.Context, l letter.Letter, digest string) (bool, error) {
	for range maxLine {
		if l.ParentID == "" {
			return false, nil
		}
		parent, ok, err := d.Letters.Get(ctx, l.ParentID)
		if err != nil || !ok {
			return false, err
		}
		if parent.InputDigest == digest {
			return true, nil
		}
		l = parent
	}
	return false, nil
}

// maxLine bounds how far back a line of migrations is followed.
const maxLine = 100
