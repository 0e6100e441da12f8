// Package report writes what is known of all dead letters as static pages: an
// overview, a page a group, a page a batch, approvals, repairs and audit, with
// report.json of the same numbers and summary.md beside them.
//
// The promise is that every letter is explained:
//
//	letters = open by decision (4) + ended by final status (5), and unexplained is 0
//	selected = succeeded + skipped + refused + failed + unresolved, for each batch
//
// Letters stream once. Kept of a group are counters, a timeline of a fixed number of
// buckets and a sample of its letters, so memory follows the number of groups and not
// of letters. Payloads are never read; texts of events come out escaped and cut.
package report

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/plan"
)

// SchemaVersion is of report.json.
const SchemaVersion = 1

// Source is what a report is made of. Each method hands over everything there is,
// in any order, and ends at the first error of each.
type Source interface {
	Letters(ctx context.Context, each func(deadletter.Judgement) error) error
	// Plans hands over plans with the verdict on each, nil where there is none.
	Plans(ctx context.Context, each func(plan.Plan, *plan.Approval) error) error
	Items(ctx context.Context, planID string, each func(plan.Item) error) error
	Evidence(ctx context.Context, fingerprint string) ([]deadletter.Evidence, error)
	Audit(ctx context.Context, each func(deadletter.Audit) error) error
}

// GateRow is what one gate says about one letter now.
type GateRow struct {
	Name   string    `json:"name"`
	Pass   bool      `json:"pass"`
	Reason string    `json:"reason,omitempty"`
	Until  time.Time `json:"until,omitzero"` // a refusal that time alone ends
}

// Options are how a report is written. Out and Now are needed.
type Options struct {
	// Out opens a file of the report by a name with slashes.
	Out func(name string) (io.WriteCloser, error)
	// Gates asks all gates about a sampled open letter, for some hundred letters at
	// most; nil shows no gate tables.
	Gates       func(ctx context.Context, letterID string) ([]GateRow, error)
	Progress    func(step string, done int64) // nil for none
	Now         time.Time
	Environment string
	Lang        string // en (the default) or zh
}

// Write writes a report and returns what it says, without the groups. An error
// leaves an unfinished folder: do not show it.
func Write(ctx context.Context, src Source, o Options) (*Report, error) {
	w, err := newWriter(o)
	if err != nil {
		return nil, err
	}
	c := newCollector(o.Now)
	err = src.Letters(ctx, func(j deadletter.Judgement) error {
		c.add(j)
		if c.letters.Total%progressEvery == 0 {
			w.progress("letters", c.letters.Total)
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("report letters: %w", err)
	}
	w.progress("letters", c.letters.Total)
	r := c.report()
	r.SchemaVersion, r.GeneratedAt, r.Environment, r.Complete = SchemaVersion, o.Now.UTC(), visible(o.Environment, cutName), true
	if err := w.batches(ctx, src, r); err != nil {
		return nil, fmt.Errorf("report batches: %w", err)
	}
	if err := w.audit(ctx, src, r); err != nil {
		return nil, fmt.Errorf("report audit: %w", err)
	}
	r.OK = r.Letters.Unexplained == 0 && r.Letters.Balanced && r.Batches.Unbalanced == 0
	groups := c.sorted()
	if err := w.groups(ctx, src, r, groups); err != nil {
		return nil, fmt.Errorf("report groups: %w", err)
	}
	return r, w.overview(r, groups)
}

const progressEvery = 10000

// groups writes a page and an element of report.json for each group, one at a time.
func (w *writer) groups(ctx context.Context, src Source, r *Report, groups []*group) (err error) {
	w.repairs = &pager[Evidence]{name: "repairs", put: func(name string, l listPage[Evidence]) error {
		l.About = r
		return w.render(name, "repairs", w.words.say("Repairs"), "repairs", l)
	}}
	out, err := w.Out("report.json")
	if err != nil {
		return fmt.Errorf("open report.json: %w", err)
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	head, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encode report: %w", err)
	}
	put := func(parts ...[]byte) error {
		for _, p := range parts {
			if _, err := out.Write(p); err != nil {
				return fmt.Errorf("write report.json: %w", err)
			}
		}
		return nil
	}
	if err := put(head[:len(head)-1], []byte(",\"groups\":[")); err != nil {
		return err
	}
	for i, g := range groups {
		view, err := w.group(ctx, src, r, g)
		if err != nil {
			return err
		}
		one, err := json.Marshal(view)
		if err != nil {
			return fmt.Errorf("encode group: %w", err)
		}
		separator := []byte("\n")
		if i > 0 {
			separator = []byte(",\n")
		}
		if err := put(separator, one); err != nil {
			return err
		}
		g.drop()
		if (i+1)%1000 == 0 {
			w.progress("groups", int64(i+1))
		}
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("write groups: %w", err)
		}
	}
	repairs, err := json.Marshal(r.Repairs)
	if err != nil {
		return fmt.Errorf("encode repairs: %w", err)
	}
	w.progress("groups", int64(len(groups)))
	return put([]byte("],\n\"repairs\":"), repairs, []byte("}\n"))
}
