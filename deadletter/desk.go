package deadletter

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/messages"
)

// Desk takes letters in and decides about them. It reads records and never
// writes one.
type Desk struct {
	Flows       *flows.Set
	Tasks       *idempotency.Table
	Reviews     *idempotency.Reviews
	Letters     *letter.Table
	Artifacts   *artifacts.Store
	Environment string
	KeySecret   []byte
	Keys        func() (artifacts.PrivateKeys, error) // that sealed events open with; nil for none
	Target      string                                // of letters whose messages name none
	Retention   time.Duration
	Now         func() time.Time
}

// Judgement is what is known of a letter now.
type Judgement struct {
	Letter      letter.Letter
	Code        letter.Code // the record's while it has failed, else the letter's
	Target      string
	Fingerprint string
	Decision    Decision
	Rule        messages.Text
	Record      *idempotency.Record // nil where there is none
	Review      *idempotency.Review // the question about this letter, nil where there is none
}

// read makes the letter of an item, without storing anything. What can't be read
// is a letter with the reason.
func (d *Desk) read(item Item, flowName string) entry {
	l, raw, unreadable := d.identify(item, flowName)
	if unreadable != "" {
		l.Code, l.Reason = letter.CodeInvalidSchema, unreadable
	}
	return entry{l, raw}
}

// seen dates a letter: it is seen now, and failed then where its message said
// nothing else.
func (d *Desk) seen(l letter.Letter) letter.Letter {
	now := d.Now()
	if l.LastFailedAt.IsZero() {
		l.LastFailedAt = now
	}
	l.FirstFailedAt, l.ExpiresAt = l.LastFailedAt, now.Add(d.Retention)
	return l
}

// identify finds out which letter an item is. unreadable says why nothing is known
// of the event.
func (d *Desk) identify(item Item, flowName string) (l letter.Letter, raw []byte, unreadable string) {
	l = letter.Letter{
		Environment: d.Environment, LastFailedAt: item.FailedAt, Code: item.Code, Target: item.Target, Origin: string(item.Origin),
	}
	if l.Target == "" {
		l.Target = d.Target
	}
	raw = item.Raw
	if item.Record != nil {
		composed, err := d.compose(*item.Record, flowName)
		if err != nil {
			unreadable = err.Error()
			l.EventID = item.Record.EventID
		} else {
			raw = composed
		}
	}
	sum := sha256.Sum256(raw)
	l.RawSHA256 = hex.EncodeToString(sum[:])
	l.ID = letter.RawID(l.RawSHA256)
	if unreadable != "" {
		return l, raw, unreadable
	}
	e, err := events.Decode(raw)
	if err != nil {
		return l, raw, err.Error()
	}
	l.EventID, l.EventSource, l.EventTime, l.TraceID = e.ID(), e.Source(), e.Time(), e.Trace().ID()
	f := d.Flows.Find(e)
	if f == nil {
		digest := idempotency.Digest(e.Payload())
		if e.Binary != nil {
			digest = idempotency.DigestBinary(e.Binary)
		}
		l.ID = letter.ID(l.EventSource, l.EventID, digest)
		return l, raw, ""
	}
	l.Flow = f.Name
	digest := "raw:" + l.RawSHA256
	if in, err := f.Input(e); err == nil {
		l.InputDigest = f.Digest(in)
		digest = l.InputDigest
		if key, err := f.Key(in, d.KeySecret); err == nil {
			l.Key, l.KeyRule = key.Hex, f.KeyRuleID(d.KeySecret)
		}
	}
	l.ID = letter.ID(l.EventSource, l.EventID, digest)
	return l, raw, ""
}

func (d *Desk) compose(r PlainRecord, flowName string) ([]byte, error) {
	if r.EventID == "" {
		return nil, errRecordID
	}
	name := r.Flow
	if name == "" {
		name = flowName
	}
	if name == "" {
		return nil, errRecordFlow
	}
	i := slices.IndexFunc(d.Flows.Flows, func(f *flows.Flow) bool { return f.Name == name })
	if i < 0 {
		return nil, fmt.Errorf("there is no flow of the name that the record gives")
	}
	return d.Flows.Flows[i].Compose(r.EventID, d.Environment, r.Payload)
}

// Preview judges an item without storing anything.
func (d *Desk) Preview(ctx context.Context, item Item, flowName string) (Judgement, error) {
	return d.preview(ctx, d.read(item, flowName))
}

func (d *Desk) preview(ctx context.Context, e entry) (Judgement, error) {
	l := d.seen(e.letter)
	l.DeliveryAttempts = 1
	return d.Judge(ctx, l)
}

// Ingest takes an item in: the raw bytes first, then the letter. The same event
// again is one letter with one more sighting. An event whose business is done is
// closed at once.
func (d *Desk) Ingest(ctx context.Context, item Item, flowName string) (Judgement, error) {
	return d.ingest(ctx, d.read(item, flowName))
}

func (d *Desk) ingest(ctx context.Context, e entry) (Judgement, error) {
	l, raw := d.seen(e.letter), e.raw
	j, err := d.Judge(ctx, l)
	if err != nil {
		return Judgement{}, err
	}
	l.Code, l.Target = j.Code, j.Target
	l.Decision, l.DecidedAt = string(j.Decision), d.Now()
	ref, err := d.Artifacts.PutLetter(ctx, l.ID, raw)
	if err != nil {
		return Judgement{}, fmt.Errorf("ingest: %w", err)
	}
	l.RawRef = ref.String()
	done := j.Decision == SkipCompleted
	if done {
		l.FinalStatus, l.ClosedBy, l.CloseReason = letter.FinalSkippedCompleted, "intake", j.Rule.String()
	}
	stored, err := d.Letters.See(ctx, l, !done)
	if err != nil {
		return Judgement{}, fmt.Errorf("ingest: %w", err)
	}
	if done && stored.Open() {
		if err := d.Letters.CloseKnown(ctx, stored, letter.FinalSkippedCompleted, "intake", j.Rule.String(), d.Now()); err != nil {
			return Judgement{}, fmt.Errorf("ingest: %w", err)
		}
		stored.FinalStatus, stored.ClosedBy, stored.CloseReason = letter.FinalSkippedCompleted, "intake", j.Rule.String()
	}
	j.Letter = stored
	return j, nil
}

// Judge reads what is known of a letter now.
func (d *Desk) Judge(ctx context.Context, l letter.Letter) (Judgement, error) {
	j := Judgement{Letter: l, Code: l.Code, Target: l.Target}
	f := Facts{FlowOn: d.flowOn(l.Flow)}
	if l.Key != "" {
		rec, ok, err := d.Tasks.Get(ctx, l.Key)
		if err != nil {
			return Judgement{}, fmt.Errorf("judge: %w", err)
		}
		if ok {
			j.Record = &rec
			f.Record, f.DigestMatches = rec.Status, rec.InputDigest == l.InputDigest
			f.DigestSuperseded = slices.Contains(rec.SupersededDigests, l.InputDigest)
			if !f.DigestMatches && l.ParentID != "" {
				if f.Migrated, err = d.descends(ctx, l, rec.InputDigest); err != nil {
					return Judgement{}, fmt.Errorf("judge: %w", err)
				}
			}
			if f.DigestMatches && (rec.Status == idempotency.StatusFailedRetryable || rec.Status == idempotency.StatusFailedFinal) {
				j.Code = letter.CodeOf(rec.LastErrorCode)
				if rec.LastErrorTarget != "" {
					j.Target = rec.LastErrorTarget
				}
			}
		}
		if err := d.reviews(ctx, &j, &f); err != nil {
			return Judgement{}, err
		}
	}
	if j.Code == "" {
		j.Code = letter.CodeUndelivered
		if j.Record != nil {
			j.Code = letter.CodeTimeout
		}
	}
	if l.Reclassified != "" {
		j.Code = l.Reclassified
	}
	f.Code = j.Code
	j.Fingerprint = letter.Fingerprint(j.Code, j.Target)
	j.Decision, j.Rule = Decide(f)
	return j, nil
}

// reviews reads the questions that the letter may wait for.
func (d *Desk) reviews(ctx context.Context, j *Judgement, f *Facts) error {
	ids := []string{idempotency.ConflictID(j.Letter.Key, j.Letter.InputDigest)}
	if j.Record != nil {
		for _, e := range j.Record.Effects {
			// The attempt that sent an effect stands in its review's id.
			for attempt := range j.Record.Attempt {
				ids = append(ids, idempotency.OutcomeID(e.Key, attempt+1))
			}
		}
	}
	for _, id := range ids {
		r, ok, err := d.Reviews.Get(ctx, id)
		if err != nil {
			return fmt.Errorf("judge: %w", err)
		}
		if !ok {
			continue
		}
		j.Review = &r
		if r.State == idempotency.ReviewOpen {
			f.OpenReview = true
			return nil
		}
		f.ResolvedReview = !r.Rejects()
	}
	return nil
}

func (d *Desk) flowOn(name string) bool {
	return slices.ContainsFunc(d.Flows.Flows, func(f *flows.Flow) bool { return f.Name == name && f.Enabled })
}

var errClosed = errors.New("the letter is closed already")

// Close ends a letter: who and why stay with it.
func (d *Desk) Close(ctx context.Context, id string, end letter.FinalStatus, who, why string) error {
	return d.Letters.Amend(ctx, id, func(l letter.Letter) (letter.Letter, error) {
		if !l.Open() {
			return l, errClosed
		}
		l.FinalStatus, l.ClosedAt, l.ClosedBy, l.CloseReason = end, d.Now(), who, why
		return l, nil
	})
}

// Reclassify gives an uncertain letter a code, with a reason: the way out of
// UNDELIVERED and UNCLASSIFIED.
func (d *Desk) Reclassify(ctx context.Context, id string, code letter.Code, who, why string) error {
	return d.Letters.Amend(ctx, id, func(l letter.Letter) (letter.Letter, error) {
		if !l.Open() {
			return l, errClosed
		}
		if code.Class() == letter.ClassUncertain {
			return l, fmt.Errorf("%s is no code that decides anything", code)
		}
		l.Reclassified, l.ReclassifiedBy, l.ReclassifyReason = code, who, why
		l.Fingerprint = letter.Fingerprint(code, l.Target)
		return l, nil
	})
}
