package deadletter

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

// exposed is one line of the text format: a comment, or a sample.
var exposed = regexp.MustCompile(`^(# HELP [a-z0-9_]+ .+|# TYPE [a-z0-9_]+ gauge|[a-z0-9_]+(\{[a-z_]+="([^"\\\n]|\\["\\n])*"\})? [0-9.e+-]+)$`)

func TestMetricsAreReadByPrometheus(t *testing.T) {
	w := newWorld(t)
	w.ingest(orderEvent("e1", "1", "5"))
	for id, row := range map[string]aliyun.Row{
		"r1": {"state": "open", "first_seen_at": w.now.Add(-25 * time.Hour).UnixMilli()},
		"r2": {"state": "open", "first_seen_at": w.now.UnixMilli()},
		"r3": {"state": "closed", "first_seen_at": w.now.Add(-99 * time.Hour).UnixMilli()},
	} {
		if err := w.store.Insert(t.Context(), idempotency.ReviewTable, id, row); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.store.Insert(t.Context(), plan.PlanTable, "p", aliyun.Row{"state": string(plan.StatePaused)}); err != nil {
		t.Fatal(err)
	}
	m, err := w.desk.Measure(t.Context(), w.store, EachOptions{})
	if err != nil {
		t.Fatal(err)
	}
	m.Counts.Closed[letter.FinalStatus("a \"b\"\\\nc")] = 1 // even what cannot be stays one line
	var text strings.Builder
	n, err := m.WriteTo(&text)
	if err != nil || n != int64(text.Len()) {
		t.Fatal(n, err)
	}
	for line := range strings.Lines(text.String()) {
		if !exposed.MatchString(strings.TrimSuffix(line, "\n")) {
			t.Errorf("no line of the format: %q", line)
		}
	}
	for _, want := range []string{
		`oncegate_dlq_letters_open{decision="manual_review"} 1`, `oncegate_dlq_letters_open_by_class{class="uncertain"} 1`,
		`oncegate_dlq_letters_open_by_flow{flow="order"} 1`, `oncegate_dlq_letters_ended{final_status="a \"b\"\\\nc"} 1`,
		"oncegate_dlq_groups 1", "oncegate_dlq_new_groups_24h 1", "oncegate_dlq_letters_expiring_24h 1", "oncegate_dlq_reviews_open 2",
		"oncegate_dlq_reviews_open_older_24h 1", `oncegate_dlq_plans{state="paused"} 1`, "oncegate_dlq_oldest_open_age_seconds 0",
	} {
		if !strings.Contains(text.String(), want+"\n") {
			t.Errorf("no line %s in\n%s", want, text.String())
		}
	}
	for _, secret := range []string{"e1", "shop"} {
		if regexp.MustCompile(`"` + secret + `"`).MatchString(text.String()) {
			t.Errorf("the event's %s is a label", secret)
		}
	}
}
