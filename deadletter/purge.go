package deadletter

import (
	"context"
	"fmt"
	"hash/maphash"
	"strings"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

// Purger removes what is over. It never removes an open letter, an open review, a
// plan that has not ended, or a task that may still run.
//
// The order is what makes it safe to be killed anywhere and run again:
//
//	letter, then its raw object     an object without a letter ends by its lifecycle rule
//	task, then its effects          while a task could be brought back, the effect rows
//	                                stand and keep its effects from being sent again;
//	                                an effect goes only once its task is gone
//	items, approval, then the plan  the plan has ended, and is found again by the next run
//
// Every row with a revision is removed only as it was read.
type Purger struct {
	Desk      *Desk
	Store     *aliyun.Tablestore
	Retention time.Duration // of audit and evidence; their rows carry no expiry
	Now       func() time.Time
	Progress  func(table string, rows int) // after each table; may be nil
}

// Purged counts what was removed, or would be.
type Purged struct {
	Letters   int `json:"letters"`
	Objects   int `json:"objects"`
	Tasks     int `json:"tasks"`
	Effects   int `json:"effects"`
	Reviews   int `json:"reviews"`
	Plans     int `json:"plans"`
	Items     int `json:"items"`
	Approvals int `json:"approvals"`
	Evidence  int `json:"evidence"`
	Audit     int `json:"audit"`
	// Kept are rows that are over and stay: something changed them or needs them still.
	Kept int `json:"kept"`
	// Overdue are open letters that have expired: a sweep closes them.
	Overdue int `json:"overdue"`
}

// Total is how many rows and objects there are of all kinds.
func (p Purged) Total() int {
	return p.Letters + p.Objects + p.Tasks + p.Effects + p.Reviews + p.Plans + p.Items + p.Approvals + p.Evidence + p.Audit
}

// Run removes what is over, or counts it where execute is false. Errors of the
// services wrap idempotency.ErrUnavailable; what was done until then stands, and
// the next run goes on.
func (p *Purger) Run(ctx context.Context, execute bool) (Purged, error) {
	r := purge{Purger: p, now: p.Now(), execute: execute, seed: maphash.MakeSeed(), needed: map[uint64]struct{}{}, gone: map[uint64]struct{}{}}
	for _, step := range []struct {
		table string
		run   func(context.Context) error
	}{
		{letter.LetterTable.Name, r.letters},
		{idempotency.ReviewTable.Name, r.reviews},
		{idempotency.TaskTable.Name, r.tasks},
		{"effects", r.effects},
		{plan.PlanTable.Name, r.plans},
		{EvidenceTable.Name, func(ctx context.Context) error { return r.old(ctx, EvidenceTable, &r.done.Evidence) }},
		{AuditTable.Name, func(ctx context.Context) error { return r.old(ctx, AuditTable, &r.done.Audit) }},
	} {
		if err := step.run(ctx); err != nil {
			return r.done, fmt.Errorf("purge %s: %w", step.table, err)
		}
		if p.Progress != nil {
			p.Progress(step.table, r.done.Total())
		}
	}
	return r.done, nil
}

type purge struct {
	*Purger
	now     time.Time
	execute bool
	done    Purged
	seed    maphash.Seed
	// Hashes of keys, to hold a million of them: one that collides keeps a row more.
	needed map[uint64]struct{} // of open letters and reviews
	gone   map[uint64]struct{} // of tasks that a look-only run would have removed
}

func (r *purge) mark(set map[uint64]struct{}, key string) {
	if key != "" {
		set[maphash.String(r.seed, key)] = struct{}{}
	}
}

func (r *purge) marked(set map[uint64]struct{}, key string) bool {
	_, ok := set[maphash.String(r.seed, key)]
	return ok
}

func (r *purge) over(expires time.Time) bool { return !expires.IsZero() && expires.Before(r.now) }

// removed counts a row; one that was changed meanwhile stays.
func (r *purge) removed(err error, n *int) error {
	switch {
	case err == nil:
		*n++
		return nil
	case aliyun.KindOf(err) == aliyun.KindCondition:
		r.done.Kept++
		return nil
	}
	return fmt.Errorf("%w: %w", idempotency.ErrUnavailable, err)
}

func (r *purge) remove(ctx context.Context, t aliyun.Table, key string, revision int64, n *int) error {
	if !r.execute {
		*n++
		return nil
	}
	return r.removed(r.Store.Delete(ctx, t, key, revision), n)
}

func (r *purge) letters(ctx context.Context) error {
	return r.Desk.Letters.Each(ctx, letter.Range{}, func(l letter.Letter) error {
		switch {
		case l.Open():
			r.mark(r.needed, l.Key)
			if r.over(l.ExpiresAt) {
				r.done.Overdue++
			}
			return nil
		case !r.over(l.ExpiresAt):
			return nil
		}
		if l.ChildID != "" {
			child, ok, err := r.Desk.Letters.Get(ctx, l.ChildID)
			if err != nil {
				return err
			}
			if ok && child.Open() {
				r.done.Kept++ // the child is judged by what its parent was
				return nil
			}
		}
		if r.execute {
			ok, err := r.Desk.Letters.Purge(ctx, l)
			if err != nil {
				return err
			}
			if !ok {
				r.done.Kept++
				return nil
			}
		}
		r.done.Letters++
		ref, err := l.Raw()
		if err != nil || ref.VersionID == "" {
			return nil
		}
		if !r.execute {
			r.done.Objects++
			return nil
		}
		dropped, err := r.Desk.Artifacts.DropLetter(ctx, l.ID, ref)
		if dropped {
			r.done.Objects++
		}
		return err
	})
}

// each walks a table by columns that every one of its rows has some of.
func (r *purge) each(ctx context.Context, t aliyun.Table, columns []string, filter []aliyun.Where, fn func(key string, c *aliyun.Reader) error) error {
	return r.Store.ScanAll(ctx, t, aliyun.ScanOptions{Columns: columns, Filter: filter}, func(p aliyun.Page) error {
		for i, row := range p.Rows {
			c := &aliyun.Reader{Row: row}
			if err := fn(p.Keys[i], c); err != nil {
				return err
			}
		}
		return nil
	})
}

func (r *purge) reviews(ctx context.Context) error {
	return r.each(ctx, idempotency.ReviewTable, []string{"revision", "state", "expires_at", "idempotency_key"}, nil, func(key string, c *aliyun.Reader) error {
		state, expires, revision, task := idempotency.ReviewState(c.Text("state")), c.Time("expires_at"), c.Number("revision"), c.Text("idempotency_key")
		switch {
		case c.Err != nil:
			return fmt.Errorf("row %s: %w", key, c.Err)
		case state != idempotency.ReviewClosed:
			r.mark(r.needed, task)
			return nil
		case !r.over(expires):
			return nil
		}
		return r.remove(ctx, idempotency.ReviewTable, key, revision, &r.done.Reviews)
	})
}

func (r *purge) tasks(ctx context.Context) error {
	columns := []string{"kind", "status", "revision", "record_version", "expires_at"}
	return r.each(ctx, idempotency.TaskTable, columns, []aliyun.Where{{Column: "kind", Equals: idempotency.KindTask}}, func(key string, c *aliyun.Reader) error {
		status, expires, revision, version := idempotency.Status(c.Text("status")), c.Time("expires_at"), c.Number("revision"), c.Number("record_version")
		switch {
		case c.Err != nil:
			return fmt.Errorf("row %s: %w", key, c.Err)
		case version != idempotency.RecordVersion, !r.over(expires):
			return nil
		case status != idempotency.StatusSucceeded && status != idempotency.StatusFailedFinal, r.marked(r.needed, key):
			r.done.Kept++
			return nil
		}
		r.mark(r.gone, key)
		return r.remove(ctx, idempotency.TaskTable, key, revision, &r.done.Tasks)
	})
}

func (r *purge) effects(ctx context.Context) error {
	columns := []string{"kind", "status", "revision", "record_version", "expires_at", "task_key"}
	return r.each(ctx, idempotency.TaskTable, columns, []aliyun.Where{{Column: "kind", Equals: idempotency.KindEffect}}, func(key string, c *aliyun.Reader) error {
		state, expires, revision, version, task := idempotency.EffectState(c.Text("status")), c.Time("expires_at"), c.Number("revision"), c.Number("record_version"), c.Text("task_key")
		switch {
		case c.Err != nil:
			return fmt.Errorf("row %s: %w", key, c.Err)
		case version != idempotency.RecordVersion, !r.over(expires):
			return nil
		case state != idempotency.EffectSettled && state != idempotency.EffectRefused, r.marked(r.needed, task):
			r.done.Kept++ // nobody knows whether it happened, or somebody still asks
			return nil
		}
		if r.execute || !r.marked(r.gone, task) {
			_, there, err := r.Store.Get(ctx, idempotency.TaskTable, task)
			if err != nil {
				return fmt.Errorf("%w: %w", idempotency.ErrUnavailable, err)
			}
			if there {
				r.done.Kept++
				return nil
			}
		}
		return r.remove(ctx, idempotency.TaskTable, key, revision, &r.done.Effects)
	})
}

func (r *purge) plans(ctx context.Context) error {
	return r.each(ctx, plan.PlanTable, []string{"state", "revision", "expires_at"}, nil, func(id string, c *aliyun.Reader) error {
		state, expires, revision := plan.State(c.Text("state")), c.Time("expires_at"), c.Number("revision")
		switch {
		case c.Err != nil:
			return fmt.Errorf("row %s: %w", id, c.Err)
		case !r.over(expires):
			return nil
		case !state.Ended():
			r.done.Kept++
			return nil
		}
		err := r.Store.ScanAll(ctx, plan.ItemTable, aliyun.ScanOptions{From: id + "/", To: id + "0", Columns: []string{"revision"}}, func(p aliyun.Page) error {
			for i, row := range p.Rows {
				c := aliyun.Reader{Row: row}
				if err := r.remove(ctx, plan.ItemTable, p.Keys[i], c.Number("revision"), &r.done.Items); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		_, there, err := r.Store.Get(ctx, plan.ApprovalTable, id)
		if err != nil {
			return fmt.Errorf("%w: %w", idempotency.ErrUnavailable, err)
		}
		if there && !r.execute {
			r.done.Approvals++
		}
		if there && r.execute {
			if err := r.removed(r.Store.DeleteFixed(ctx, plan.ApprovalTable, id), &r.done.Approvals); err != nil {
				return err
			}
		}
		return r.remove(ctx, plan.PlanTable, id, revision, &r.done.Plans)
	})
}

// old removes the rows of a table of fixed rows that are older than the retention.
func (r *purge) old(ctx context.Context, t aliyun.Table, n *int) error {
	return r.each(ctx, t, []string{"at"}, nil, func(key string, c *aliyun.Reader) error {
		at := c.Time("at")
		switch {
		case c.Err != nil:
			return fmt.Errorf("row %s: %w", strings.ToValidUTF8(key, ""), c.Err)
		case at.IsZero() || !r.over(at.Add(r.Retention)):
			return nil
		case !r.execute:
			*n++
			return nil
		}
		return r.removed(r.Store.DeleteFixed(ctx, t, key), n)
	})
}
