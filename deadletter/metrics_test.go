package deadletter

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/metrics"
)

// exposed is one line of the text format: a comment, or a sample.
var exposed = regexp.MustCompile(`^(# HELP [a-z0-9_]+ .+|# TYPE [a-z0-9_]+ gauge|[a-z0-9_]+(\{([a-z_]+="([^"\\\n]|\\["\\n])*",?)+\})? [0-9.e+-]+)$`)

func TestMetricsAreReadByPrometheus(t *testing.T) {
	w := newWorld(t)
	w.ingest(orderEvent("e1", "1", "5"))
	for id, row := range map[string]aliyun.Row{
		"r1": {"state": "open", "kind": "conflict", "first_seen_at": w.now.Add(-25 * time.Hour).UnixMilli()},
		"r0": {"state": "open", "kind": "conflict", "first_seen_at": w.now.Add(-time.Hour).UnixMilli()},
		"r4": {"state": "open", "kind": "conflict", "first_seen_at": w.now.Add(-2 * time.Hour).UnixMilli()},
		"r2": {"state": "open", "kind": "outcome_unknown", "first_seen_at": w.now.UnixMilli()},
		"r3": {"state": "closed", "first_seen_at": w.now.Add(-99 * time.Hour).UnixMilli()},
	} {
		if err := w.store.Insert(t.Context(), idempotency.ReviewTable, id, row); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.store.Insert(t.Context(), plan.PlanTable, "p", aliyun.Row{"state": string(plan.StatePaused)}); err != nil {
		t.Fatal(err)
	}
	if err := w.store.Insert(t.Context(), plan.PlanTable, "q", aliyun.Row{"state": string(plan.StateStopped)}); err != nil {
		t.Fatal(err)
	}
	repaired := plan.Frozen{EvidenceID: "e"}
	migrated := plan.Frozen{RecordRevision: 2, RecordDigest: "old", InputDigest: "new"}
	for id, row := range map[string]aliyun.Row{
		"p/0": {"frozen": string(plan.Frozen{}.Leaf()), "outcome": "succeeded"},
		"p/1": {"frozen": string(repaired.Leaf()), "outcome": "succeeded"},
		"p/2": {"frozen": string(migrated.Leaf()), "outcome": "failed"},
		"p/3": {"frozen": string(repaired.Leaf()), "outcome": "skipped"},
		"p/4": {"frozen": string(repaired.Leaf())},
		"p/5": {"frozen": string(plan.Frozen{}.Leaf()), "sent_at": w.now.UnixMilli()},
		"q/0": {"frozen": string(plan.Frozen{}.Leaf())},
	} {
		if err := w.store.Insert(t.Context(), plan.ItemTable, id, row); err != nil {
			t.Fatal(err)
		}
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
		"oncegate_dlq_groups 1", "oncegate_dlq_new_groups_24h 1", "oncegate_dlq_letters_expiring_24h 1", "oncegate_dlq_reviews_open 4",
		"oncegate_dlq_reviews_open_older_24h 1", `oncegate_dlq_plans{state="paused"} 1`, "oncegate_dlq_oldest_open_age_seconds 0",
		`oncegate_dlq_reviews_open_by_kind{kind="conflict"} 3`, `oncegate_dlq_review_oldest_age_seconds{kind="conflict"} 90000`,
		`oncegate_dlq_review_oldest_age_seconds{kind="outcome_unknown"} 0`, "oncegate_dlq_letters_new_24h 1",
		`oncegate_dlq_letters_new_24h_by_fingerprint{fingerprint="69070d16eee0",class="uncertain"} 1`,
		`oncegate_dlq_replay_items{result="succeeded",repaired="false"} 1`, `oncegate_dlq_replay_items{result="succeeded",repaired="true"} 1`,
		`oncegate_dlq_replay_items{result="failed",repaired="true"} 1`, `oncegate_dlq_replay_items{result="skipped",repaired="true"} 1`,
		`oncegate_dlq_replay_items{result="waiting",repaired="true"} 1`, `oncegate_dlq_replay_items{result="sent",repaired="false"} 1`,
		`oncegate_dlq_replay_items{result="left",repaired="false"} 1`,
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

func TestGroupsBeyondTheLargestAreOneLabel(t *testing.T) {
	var groups []Group
	for i := range 3 * fingerprintsShown {
		groups = append(groups, Group{Fingerprint: fmt.Sprintf("%012x", i), Code: letter.CodeTimeout, Open: 100 - i, New: 1})
	}
	groups = append(groups, Group{Fingerprint: "ended", Closed: 5})
	open, fresh := byFingerprint(groups)
	for _, f := range []metrics.Family{open, fresh} {
		if len(f.Samples) != fingerprintsShown+1 {
			t.Errorf("%s has %d samples", f.Name, len(f.Samples))
		}
	}
	sum, last := 0.0, open.Samples[fingerprintsShown]
	for _, s := range open.Samples {
		sum += s.Value
	}
	if want := 60*100 - 59*60/2; sum != float64(want) || last.Labels[0].Value != "other" || fresh.Samples[fingerprintsShown].Value != 2*fingerprintsShown {
		t.Errorf("%v letters, want %d; the last group is %+v", sum, want, last)
	}
	if open, _ := byFingerprint([]Group{{Fingerprint: "ended", Closed: 5}}); len(open.Samples) != 0 {
		t.Errorf("a group without open and new letters is shown: %+v", open)
	}
}
