package idempotency

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/messages"
)

// ReviewTable is where questions about the truth of the business wait for a person.
var ReviewTable = aliyun.Table{Name: "reviews", Key: "id"}

// ReviewKind is what a review asks.
type ReviewKind string

const (
	// ReviewConflict asks which of two inputs of one key holds.
	ReviewConflict ReviewKind = "conflict"
	// ReviewOutcome asks whether a side effect has happened.
	ReviewOutcome ReviewKind = "outcome_unknown"
)

// ReviewState is where a review stands.
type ReviewState string

// A review is open until a person has answered.
const (
	ReviewOpen   ReviewState = "open"
	ReviewClosed ReviewState = "closed"
)

// Resolution is what a person answered.
type Resolution string

const (
	// ResolvedKeepOld: the record's input holds, the refused one is rejected.
	ResolvedKeepOld Resolution = "keep_old"
	// ResolvedDiscard: the refused input is rejected, whatever holds.
	ResolvedDiscard Resolution = "discard"
	// ResolvedUseNew: the refused input holds from now on.
	ResolvedUseNew Resolution = "use_new"

	// ResolvedDone: the effect has happened, as the number at the target shows.
	ResolvedDone Resolution = "confirmed_done"
	// ResolvedNotDone: the effect has not happened; it may be sent again.
	ResolvedNotDone Resolution = "confirmed_not_done"
	// ResolvedCompensated: a person has undone the effect; it is not sent again.
	ResolvedCompensated Resolution = "compensated"
)

// Resolutions are the answers to each kind of question.
var Resolutions = map[ReviewKind][]Resolution{
	ReviewConflict: {ResolvedKeepOld, ResolvedUseNew, ResolvedDiscard},
	ReviewOutcome:  {ResolvedDone, ResolvedNotDone, ResolvedCompensated},
}

// Review is one row of reviews.
type Review struct {
	ID           string
	Kind         ReviewKind
	State        ReviewState
	Resolution   Resolution // "" while open
	Revision     int64
	Key          string
	Flow         string
	Environment  string
	Assignee     string // the flow's owner
	RecordDigest string // the input that the record holds
	RecordStatus Status // when the question arose
	EventDigest  string // the input that was refused
	Source       string
	EventID      string
	FirstSeenAt  time.Time
	ExpiresAt    time.Time

	// Of an effect in doubt.
	EffectKey  string
	EffectName string
	EffectKind TargetKind
	Attempt    int64 // that sent the effect
	Code       Code  // why nobody knows

	// Of the answer.
	Reviewer       string
	Reason         string
	TargetRecordID string
	ResolvedAt     time.Time
}

// OutcomeID is the id of the review of one effect that one attempt sent.
func OutcomeID(effectKey string, attempt int64) string {
	return HashOf(map[string]string{"effect_key": effectKey, "kind": string(ReviewOutcome), "attempt": strconv.FormatInt(attempt, 10)})
}

// Answer returns the review as a person answers it.
func (r Review) Answer(a Resolution, reviewer, reason, recordID string, now time.Time) (Review, error) {
	switch {
	case r.State != ReviewOpen:
		return Review{}, messages.Errorf("resolve review: it was answered with %s already", r.Resolution)
	case !slices.Contains(Resolutions[r.Kind], a):
		return Review{}, messages.Errorf("resolve review: %q is no answer to a question of kind %s", a, r.Kind)
	case a == ResolvedDone && recordID == "" && r.EffectKind != TargetOpaque:
		return Review{}, messages.Errorf("resolve review: confirmed_done needs the record's number at the target")
	case reviewer == "" || reason == "":
		return Review{}, messages.Errorf("resolve review: reviewer and reason are needed")
	}
	r.State, r.Resolution, r.Reviewer, r.Reason, r.TargetRecordID = ReviewClosed, a, cut(reviewer), cut(reason), cut(recordID)
	r.ResolvedAt = milli(now)
	r.Revision++
	return r, nil
}

// ConflictID is the id of the review of one refused input: derived, so that a
// repeated delivery meets the same review.
func ConflictID(key, digest string) string {
	return HashOf(map[string]string{"key": key, "kind": string(ReviewConflict), "digest": digest})
}

// Rejects reports whether a person has decided against the refused input.
func (r Review) Rejects() bool {
	return r.State == ReviewClosed && (r.Resolution == ResolvedKeepOld || r.Resolution == ResolvedDiscard)
}

// Reviews is the reviews table.
type Reviews struct {
	store  *aliyun.Tablestore
	opened func(context.Context, Review) // may be nil
}

// NewReviews returns the table; it makes no call.
func NewReviews(store *aliyun.Tablestore) *Reviews { return &Reviews{store: store} }

// Observing returns the table with an observer that hears of each review that was
// opened, once.
func (t *Reviews) Observing(opened func(context.Context, Review)) *Reviews {
	return &Reviews{t.store, opened}
}

func (t *Reviews) tell(ctx context.Context, r Review) {
	if t.opened != nil {
		t.opened(ctx, r)
	}
}

// Open makes sure that a review is there and returns it as stored.
func (t *Reviews) Open(ctx context.Context, r Review) (Review, error) {
	r.State, r.Revision = ReviewOpen, 1
	found, err := t.store.InsertOnce(ctx, ReviewTable, r.ID, r.columns())
	if err != nil {
		return Review{}, fmt.Errorf("open review: %w: %w", ErrUnavailable, err)
	}
	if found == nil {
		t.tell(ctx, r)
		return r, nil
	}
	stored, err := parseReview(r.ID, found)
	if err != nil {
		return Review{}, fmt.Errorf("open review: %w: %w", ErrUnavailable, err)
	}
	return stored, nil
}

// Close stores an answer on the condition that the review is as it was shown.
func (t *Reviews) Close(ctx context.Context, shown, answered Review) error {
	err := t.store.Update(ctx, ReviewTable, shown.ID, changed(shown.columns(), answered.columns()), shown.Revision)
	if err == nil {
		return nil
	}
	stored, ok, readErr := t.Get(ctx, shown.ID)
	switch {
	case readErr != nil:
		return fmt.Errorf("close review: %w", readErr)
	case ok && stored.Revision == answered.Revision && stored.Resolution == answered.Resolution && stored.ResolvedAt.Equal(answered.ResolvedAt) && stored.Reviewer == answered.Reviewer:
		return nil // its answer was lost
	case ok && stored.State == ReviewClosed:
		return messages.Errorf("close review: somebody answered it with %s meanwhile", stored.Resolution)
	}
	return fmt.Errorf("close review: %w: %w", ErrUnavailable, err)
}

// Get reads a review; ok is false where there is none.
func (t *Reviews) Get(ctx context.Context, id string) (r Review, ok bool, err error) {
	row, ok, err := t.store.Get(ctx, ReviewTable, id)
	if err != nil || !ok {
		if err != nil {
			err = fmt.Errorf("read review: %w: %w", ErrUnavailable, err)
		}
		return Review{}, false, err
	}
	if r, err = parseReview(id, row); err != nil {
		return Review{}, false, fmt.Errorf("read review: %w: %w", ErrUnavailable, err)
	}
	return r, true, nil
}

// List reads one page of reviews by rising id, from an id on.
func (t *Reviews) List(ctx context.Context, from, to string, limit int) (reviews []Review, next string, err error) {
	page, err := t.store.Scan(ctx, ReviewTable, from, to, limit, nil)
	if err != nil {
		return nil, "", fmt.Errorf("list reviews: %w", err)
	}
	for i, row := range page.Rows {
		r, err := parseReview(page.Keys[i], row)
		if err != nil {
			return nil, "", fmt.Errorf("list reviews: id %s: %w", page.Keys[i], err)
		}
		reviews = append(reviews, r)
	}
	return reviews, page.Next, nil
}

func (r Review) columns() aliyun.Row {
	c := aliyun.Columns{Row: aliyun.Row{}}
	c.Text("kind", string(r.Kind))
	c.Text("state", string(r.State))
	c.Number("revision", r.Revision)
	c.Text("resolution", string(r.Resolution))
	c.Text("idempotency_key", r.Key)
	c.Text("flow", r.Flow)
	c.Text("environment", r.Environment)
	c.Text("assignee", r.Assignee)
	c.Text("record_digest", r.RecordDigest)
	c.Text("record_status", string(r.RecordStatus))
	c.Text("event_digest", r.EventDigest)
	c.Text("source", r.Source)
	c.Text("event_id", r.EventID)
	c.Text("effect_key", r.EffectKey)
	c.Text("effect", r.EffectName)
	c.Text("target_kind", string(r.EffectKind))
	if r.Attempt > 0 {
		c.Number("attempt", r.Attempt)
	}
	c.Text("error_code", string(r.Code))
	c.Text("reviewer", r.Reviewer)
	c.Text("reason", r.Reason)
	c.Text("target_record_id", r.TargetRecordID)
	c.Time("resolved_at", r.ResolvedAt)
	c.Time("first_seen_at", r.FirstSeenAt)
	c.Time("expires_at", r.ExpiresAt)
	return c.Row
}

func parseReview(id string, row aliyun.Row) (Review, error) {
	c := aliyun.Reader{Row: row}
	r := Review{
		ID: id, Kind: ReviewKind(c.Text("kind")), State: ReviewState(c.Text("state")), Resolution: Resolution(c.Text("resolution")),
		Revision: c.Number("revision"), Key: c.Text("idempotency_key"), Flow: c.Text("flow"), Environment: c.Text("environment"),
		Assignee: c.Text("assignee"), RecordDigest: c.Text("record_digest"), RecordStatus: Status(c.Text("record_status")),
		EventDigest: c.Text("event_digest"), Source: c.Text("source"), EventID: c.Text("event_id"),
		FirstSeenAt: c.Time("first_seen_at"), ExpiresAt: c.Time("expires_at"),
		EffectKey: c.Text("effect_key"), EffectName: c.Text("effect"), EffectKind: TargetKind(c.Text("target_kind")),
		Attempt: c.Number("attempt"), Code: Code(c.Text("error_code")), Reviewer: c.Text("reviewer"), Reason: c.Text("reason"),
		TargetRecordID: c.Text("target_record_id"), ResolvedAt: c.Time("resolved_at"),
	}
	if c.Err != nil {
		return Review{}, fmt.Errorf("%w: %w", ErrRecord, c.Err)
	}
	return r, nil
}
