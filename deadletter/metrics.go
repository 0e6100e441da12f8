package deadletter

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/prom"
)

// Metrics is what a monitor wants to know of dead letters. Labels are codes,
// decisions, states and flows' names: nothing that an event carries.
type Metrics struct {
	Counts      Counts
	ReviewsOpen int
	ReviewsOld  int // open for more than a day
	Plans       map[plan.State]int
}

// Measure counts letters, reviews and plans.
func (d *Desk) Measure(ctx context.Context, store *aliyun.Tablestore, o EachOptions) (Metrics, error) {
	m := Metrics{Plans: map[plan.State]int{}}
	var err error
	if m.Counts, err = d.Count(ctx, o); err != nil {
		return Metrics{}, err
	}
	scan := func(t aliyun.Table, columns []string, fn func(*aliyun.Reader)) error {
		err := store.ScanAll(ctx, t, aliyun.ScanOptions{Columns: columns}, func(p aliyun.Page) error {
			for i, row := range p.Rows {
				c := &aliyun.Reader{Row: row}
				if fn(c); c.Err != nil {
					return fmt.Errorf("row %s: %w", p.Keys[i], c.Err)
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("measure %s: %w: %w", t.Name, idempotency.ErrUnavailable, err)
		}
		return nil
	}
	dayAgo := d.Now().Add(-24 * time.Hour)
	err = scan(idempotency.ReviewTable, []string{"state", "first_seen_at"}, func(c *aliyun.Reader) {
		if seen := c.Time("first_seen_at"); c.Text("state") == string(idempotency.ReviewOpen) {
			m.ReviewsOpen++
			if seen.Before(dayAgo) {
				m.ReviewsOld++
			}
		}
	})
	if err == nil {
		err = scan(plan.PlanTable, []string{"state"}, func(c *aliyun.Reader) { m.Plans[plan.State(c.Text("state"))]++ })
	}
	return m, err
}

// WriteTo writes the text format that Prometheus reads, version 0.0.4.
func (m Metrics) WriteTo(w io.Writer) (int64, error) {
	out := prom.NewWriter(w, "oncegate_dlq_")
	c := m.Counts
	fresh := 0
	for _, g := range c.Groups {
		if g.FirstFailed.After(c.At.Add(-24 * time.Hour)) {
			fresh++
		}
	}
	age := func(t time.Time) float64 {
		if t.IsZero() {
			return 0
		}
		return max(c.At.Sub(t).Seconds(), 0)
	}
	prom.Gauges(out, "letters_open", "Open dead letters by decision.", "decision", c.Open)
	prom.Gauges(out, "letters_open_by_class", "Open dead letters by class of their code.", "class", c.Classes)
	prom.Gauges(out, "letters_open_by_flow", "Open dead letters by flow.", "flow", c.Flows)
	prom.Gauges(out, "letters_ended", "Dead letters that have ended, by how.", "final_status", c.Closed)
	out.Gauge("oldest_open_age_seconds", "Age of the oldest open letter, since it first failed; 0 for none.", age(c.OldestOpen))
	out.Gauge("letters_expiring_24h", "Open letters that expire within 24 hours, or should have.", float64(c.ExpiringSoon))
	out.Gauge("groups", "Fingerprints, of open and ended letters.", float64(len(c.Groups)))
	out.Gauge("new_groups_24h", "Fingerprints whose first letter failed within 24 hours.", float64(fresh))
	out.Gauge("reviews_open", "Open reviews.", float64(m.ReviewsOpen))
	out.Gauge("reviews_open_older_24h", "Reviews open for more than a day.", float64(m.ReviewsOld))
	prom.Gauges(out, "plans", "Replay plans by state.", "state", m.Plans)
	out.Gauge("decisions_stored", "Open letters whose decision is as stored, not read anew.", float64(c.Basis.Stored))
	out.Gauge("oldest_stored_decision_age_seconds", "Age of the oldest stored decision that was used; 0 for none.", age(c.Basis.Oldest))
	out.Gauge("scan_duration_seconds", "How long it took to count these letters.", c.Took.Seconds())
	return out.Flush()
}
