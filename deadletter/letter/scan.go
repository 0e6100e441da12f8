package letter

import (
	"context"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

// Range narrows a scan of letters; the service tests it. The zero value is all.
type Range struct {
	Open        bool   // open letters only
	Closed      bool   // ended letters only
	Fingerprint string // the stored one
	EventID     string
	Prefix      string // digits that the id begins with
}

func (r Range) options() aliyun.ScanOptions {
	var o aliyun.ScanOptions
	if r.Open {
		o.Filter = append(o.Filter, aliyun.Where{Column: "final_status", Equals: "", Missing: true})
	}
	if r.Closed {
		o.Filter = append(o.Filter, aliyun.Where{Column: "final_status", Equals: "", Not: true})
	}
	if r.Fingerprint != "" {
		o.Filter = append(o.Filter, aliyun.Where{Column: "fingerprint", Equals: r.Fingerprint})
	}
	if r.EventID != "" {
		o.Filter = append(o.Filter, aliyun.Where{Column: "event_id", Equals: r.EventID})
	}
	if r.Prefix != "" {
		// Ids are hex digits: "g" follows them all.
		o.From, o.To = r.Prefix, r.Prefix+"g"
	}
	return o
}

// Each calls fn with the letters of a range by rising id, from its own goroutine;
// the table is read ahead in parallel, in bounded memory. An error of the service
// wraps idempotency.ErrUnavailable; one of fn ends the scan.
func (t *Table) Each(ctx context.Context, r Range, fn func(Letter) error) error {
	return t.scan(ctx, r.options(), parse, fn)
}

// tallied are the columns that counts go by.
var tallied = []string{
	"fingerprint", "error_code", "target", "flow", "decision", "decided_at", "judged_code", "judged_target",
	"reclassified", "final_status",
	"first_failed_at", "last_failed_at", "expires_at",
}

// EachTally is Each with the columns alone that counts go by: the code, target and
// fingerprint, the flow, the decision, the end, and the times of failure
// and expiry.
func (t *Table) EachTally(ctx context.Context, r Range, fn func(Letter) error) error {
	o := r.options()
	o.Columns = tallied
	return t.scan(ctx, o, parseTally, fn)
}

// parseTally reads the columns that counts go by: a fourth of what parse looks for.
func parseTally(id string, row aliyun.Row) (Letter, error) {
	c := aliyun.Reader{Row: row}
	l := Letter{
		ID: id, Fingerprint: c.Text("fingerprint"), Code: Code(c.Text("error_code")), Target: c.Text("target"), Flow: c.Text("flow"),
		Decision: c.Text("decision"), DecidedAt: c.Time("decided_at"),
		JudgedCode: Code(c.Text("judged_code")), JudgedTarget: c.Text("judged_target"), Reclassified: Code(c.Text("reclassified")),
		FinalStatus:   FinalStatus(c.Text("final_status")),
		FirstFailedAt: c.Time("first_failed_at"), LastFailedAt: c.Time("last_failed_at"), ExpiresAt: c.Time("expires_at"),
	}
	if c.Err != nil {
		return Letter{}, fmt.Errorf("read letter %s: %w", id, c.Err)
	}
	return l, nil
}

func (t *Table) scan(ctx context.Context, o aliyun.ScanOptions, parse func(string, aliyun.Row) (Letter, error), fn func(Letter) error) error {
	var mine error
	err := t.store.ScanAll(ctx, LetterTable, o, func(p aliyun.Page) error {
		for i, row := range p.Rows {
			l, err := parse(p.Keys[i], row)
			if err != nil {
				mine = fmt.Errorf("list letters: %w", err)
				return mine
			}
			if mine = fn(l); mine != nil {
				return mine
			}
		}
		return nil
	})
	switch {
	case mine != nil:
		return mine
	case err != nil:
		return fmt.Errorf("list letters: %w: %w", idempotency.ErrUnavailable, err)
	}
	return nil
}

// decidedLike reports whether nothing has changed that a decision goes by.
func (l Letter) decidedLike(before Letter) bool {
	return l.Code == before.Code && l.Target == before.Target && l.Reclassified == before.Reclassified && (l.Open() == before.Open() || !l.Open()) &&
		l.Generation == before.Generation && l.ReplayBatchID == before.ReplayBatchID
}

// forget returns the letter without what was decided about it.
func (l Letter) forget() Letter {
	l.Decision, l.DecidedAt, l.JudgedCode, l.JudgedTarget = "", time.Time{}, "", ""
	return l
}

// Known is the code and the target that the stored fingerprint is made of.
func (l Letter) Known() (Code, string) {
	code, target := l.Code, l.Target
	if l.JudgedCode != "" {
		code = l.JudgedCode
	}
	if l.JudgedTarget != "" {
		target = l.JudgedTarget
	}
	if l.Reclassified != "" {
		code = l.Reclassified
	}
	return code, target
}

// Note stores what was decided about a letter, with the code and target that its
// record has now, on the condition that it is as it was read. The revision stays:
// what a plan has frozen is the letter, and not what was thought of it. noted is
// false where somebody has changed it meanwhile.
func (t *Table) Note(ctx context.Context, read Letter, decision string, code Code, target string, at time.Time) (noted bool, err error) {
	row := aliyun.Row{
		"decision": decision, "decided_at": at.UnixMilli(), "judged_code": nil, "judged_target": nil, "fingerprint": Fingerprint(code, target),
	}
	if code != read.Code {
		row["judged_code"] = string(code)
	}
	if target != read.Target {
		row["judged_target"] = target
	}
	err = t.store.Update(ctx, LetterTable, read.ID, row, read.Revision)
	switch kind := aliyun.KindOf(err); {
	case err == nil:
		return true, nil
	case kind == aliyun.KindCondition || kind == aliyun.KindUnknown:
		return false, nil // a note more or less
	}
	return false, fmt.Errorf("note decision: %w: %w", idempotency.ErrUnavailable, err)
}

// Purge removes a letter that has ended, on the condition that it is as it was
// read; removed is false where somebody has changed or removed it meanwhile.
func (t *Table) Purge(ctx context.Context, read Letter) (removed bool, err error) {
	if read.Open() {
		return false, fmt.Errorf("purge letter %s: it is open", read.ID)
	}
	err = t.store.Delete(ctx, LetterTable, read.ID, read.Revision)
	if err == nil {
		return true, nil
	}
	if aliyun.KindOf(err) == aliyun.KindCondition {
		return false, nil
	}
	return false, fmt.Errorf("purge letter: %w: %w", idempotency.ErrUnavailable, err)
}
