package deadletter

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/metrics"
)

// Metrics is what a monitor wants to know of dead letters. Labels are codes,
// decisions, states, fingerprints and flows' names: nothing that an event carries.
type Metrics struct {
	Counts      Counts
	ReviewsOpen int
	ReviewsOld  int // open for more than a day
	// Reviews are the open ones by what they ask, OldestReview is since when the
	// oldest of them has been open.
	Reviews      map[idempotency.ReviewKind]int
	OldestReview map[idempotency.ReviewKind]time.Time
	Plans        map[plan.State]int
	Items        map[ItemEnd]int
}

// ItemEnd is what became of a plan's item, and whether its letter was repaired
// before: by a probe that went well, or by a migration.
type ItemEnd struct {
	Result   string // an outcome, or waiting, sent, or left by a plan that has ended
	Repaired bool
}

// What an item without an outcome is.
const (
	itemWaiting = "waiting"
	itemSent    = "sent"
	itemLeft    = "left"
)

// fingerprintsShown bounds the label fingerprint: the groups beyond are one, "other".
const fingerprintsShown = 20

// Measure counts letters, reviews, plans and items by parallel scans of the columns
// that it goes by.
func (d *Desk) Measure(ctx context.Context, store *aliyun.Tablestore, o EachOptions) (Metrics, error) {
	m := Metrics{
		Reviews: map[idempotency.ReviewKind]int{}, OldestReview: map[idempotency.ReviewKind]time.Time{},
		Plans: map[plan.State]int{}, Items: map[ItemEnd]int{},
	}
	var err error
	if m.Counts, err = d.Count(ctx, o); err != nil {
		return Metrics{}, err
	}
	dayAgo := d.Now().Add(-24 * time.Hour)
	err = scanColumns(ctx, store, idempotency.ReviewTable, []string{"state", "kind", "first_seen_at"}, func(_ string, c *aliyun.Reader) {
		kind, seen := idempotency.ReviewKind(c.Text("kind")), c.Time("first_seen_at")
		if c.Text("state") != string(idempotency.ReviewOpen) {
			return
		}
		m.ReviewsOpen++
		if seen.Before(dayAgo) {
			m.ReviewsOld++
		}
		m.Reviews[kind]++
		if oldest, ok := m.OldestReview[kind]; !ok || seen.Before(oldest) {
			m.OldestReview[kind] = seen
		}
	})
	if err != nil {
		return m, err
	}
	ended := map[string]bool{}
	err = scanColumns(ctx, store, plan.PlanTable, []string{"state"}, func(id string, c *aliyun.Reader) {
		state := plan.State(c.Text("state"))
		m.Plans[state]++
		ended[id] = state.Ended()
	})
	if err != nil {
		return m, err
	}
	return m, scanColumns(ctx, store, plan.ItemTable, []string{"frozen", "outcome", "sent_at"}, func(id string, c *aliyun.Reader) {
		var f plan.Frozen
		if json.Unmarshal([]byte(c.Text("frozen")), &f) != nil {
			c.Fail("frozen")
			return
		}
		planID, _, _ := strings.Cut(id, "/")
		end := ItemEnd{Result: c.Text("outcome"), Repaired: f.EvidenceID != "" || f.Migrated()}
		switch {
		case end.Result != "":
		case !c.Time("sent_at").IsZero():
			end.Result = itemSent
		case ended[planID]:
			end.Result = itemLeft
		default:
			end.Result = itemWaiting
		}
		m.Items[end]++
	})
}

func scanColumns(ctx context.Context, store *aliyun.Tablestore, t aliyun.Table, columns []string, fn func(key string, c *aliyun.Reader)) error {
	err := store.ScanAll(ctx, t, aliyun.ScanOptions{Columns: columns}, func(p aliyun.Page) error {
		for i, row := range p.Rows {
			c := &aliyun.Reader{Row: row}
			if fn(p.Keys[i], c); c.Err != nil {
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

// Families are the metrics as they are printed.
func (m Metrics) Families() []metrics.Family {
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
	one := func(name, help string, v float64) metrics.Family {
		return metrics.One("oncegate_dlq_"+name, help, metrics.Gauge, v)
	}
	all := []metrics.Family{
		by("letters_open", "Open dead letters by decision.", "decision", c.Open),
		by("letters_open_by_class", "Open dead letters by class of their code.", "class", c.Classes),
		by("letters_open_by_flow", "Open dead letters by flow.", "flow", c.Flows),
		by("letters_ended", "Dead letters that have ended, by how.", "final_status", c.Closed),
		one("letters_new_24h", "Letters, open or ended, that first failed within 24 hours.", float64(c.New)),
		one("oldest_open_age_seconds", "Age of the oldest open letter, since it first failed; 0 for none.", age(c.OldestOpen)),
		one("letters_expiring_24h", "Open letters that expire within 24 hours, or should have.", float64(c.ExpiringSoon)),
		one("groups", "Fingerprints, of open and ended letters.", float64(len(c.Groups))),
		one("new_groups_24h", "Fingerprints whose first letter failed within 24 hours.", float64(fresh)),
	}
	open, newest := byFingerprint(c.Groups)
	all = append(all, open, newest,
		one("reviews_open", "Open reviews.", float64(m.ReviewsOpen)),
		one("reviews_open_older_24h", "Reviews open for more than a day.", float64(m.ReviewsOld)),
		by("reviews_open_by_kind", "Open reviews by what they ask.", "kind", m.Reviews))
	ages := metrics.Family{Name: "oncegate_dlq_review_oldest_age_seconds", Help: "Age of the oldest open review of each kind.", Type: metrics.Gauge}
	for _, kind := range []idempotency.ReviewKind{idempotency.ReviewConflict, idempotency.ReviewOutcome} {
		ages.Samples = append(ages.Samples, metrics.Sample{
			Labels: []metrics.Label{{Name: "kind", Value: string(kind)}}, Value: age(m.OldestReview[kind]),
		})
	}
	items := map[[2]string]int{}
	for end, n := range m.Items {
		items[[2]string{end.Result, strconv.FormatBool(end.Repaired)}] = n
	}
	return append(all, ages,
		by("plans", "Replay plans by state.", "state", m.Plans),
		metrics.ByTwo("oncegate_dlq_replay_items", "Letters in replay plans by what became of them, and whether a repair came before.",
			metrics.Gauge, [2]string{"result", "repaired"}, items),
		one("decisions_stored", "Open letters whose decision is as stored, not read anew.", float64(c.Basis.Stored)),
		one("oldest_stored_decision_age_seconds", "Age of the oldest stored decision that was used; 0 for none.", age(c.Basis.Oldest)),
		one("scan_duration_seconds", "How long it took to count these letters.", c.Took.Seconds()))
}

func by[K ~string](name, help, label string, counts map[K]int) metrics.Family {
	return metrics.By("oncegate_dlq_"+name, help, metrics.Gauge, label, counts)
}

// byFingerprint counts open and new letters by group. Groups come by falling number
// of open letters, so those that are shown one by one are the largest.
func byFingerprint(groups []Group) (open, fresh metrics.Family) {
	open = metrics.Family{Name: "oncegate_dlq_letters_open_by_fingerprint", Help: "Open dead letters by group; the smaller groups together are `other`.", Type: metrics.Gauge}
	fresh = metrics.Family{Name: "oncegate_dlq_letters_new_24h_by_fingerprint", Help: "Letters that first failed within 24 hours, by the same groups.", Type: metrics.Gauge}
	add := func(f *metrics.Family, fingerprint string, class letter.Class, n int) {
		f.Samples = append(f.Samples, metrics.Sample{
			Labels: []metrics.Label{{Name: "fingerprint", Value: fingerprint}, {Name: "class", Value: string(class)}}, Value: float64(n),
		})
	}
	otherOpen, otherNew := 0, 0
	for i, g := range groups {
		switch {
		case i >= fingerprintsShown:
			otherOpen, otherNew = otherOpen+g.Open, otherNew+g.New
		case g.Open > 0 || g.New > 0:
			add(&open, g.Fingerprint, g.Code.Class(), g.Open)
			add(&fresh, g.Fingerprint, g.Code.Class(), g.New)
		}
	}
	if len(groups) > fingerprintsShown {
		add(&open, "other", "", otherOpen)
		add(&fresh, "other", "", otherNew)
	}
	return open, fresh
}

// WriteTo writes the text format that Prometheus reads, version 0.0.4.
func (m Metrics) WriteTo(w io.Writer) (int64, error) { return metrics.Write(w, m.Families()) }
