package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/idempotency/otstest"
	"github.com/oncegate/oncegate/internal/aliyun"
)

// flowOf is one flow of a flows.yaml: name, processor, and effects as YAML.
func flowOf(name, processor string, effects ...string) string {
	text := fmt.Sprintf(`
  - name: demo.%[1]s
    owner: operations
    number_owner: producer
    match: {type: "demo:effects:%[1]s"}
    key:
      number: {path: $.data.number}
      operation: {const: %[1]s}
    processor: %[2]s
    processor_version: "1"
    max_attempts: 30
    sample: |
      {"specversion": "1.0", "id": "evt-1", "source": "demo", "type": "demo:effects:%[1]s",
       "aliyuneventbusname": "oncegate-local", "data": {"number": "N-1", "content": "test"}}
`, name, processor)
	if len(effects) > 0 {
		text += "    effects:\n"
	}
	for _, e := range effects {
		text += "      - " + e + "\n"
	}
	return text
}

const (
	draftEffect  = `{name: draft, uses: artifact.save, kind: idempotent, timeout: 1s, fields: {artifact_type: {const: draft}}}`
	noticeEffect = `{name: notice, uses: notify, kind: idempotent, key_ttl: 24h, timeout: 1s, fields: {notification_type: {const: done}}}`
	robotEffect  = `{name: message, uses: robot, kind: opaque, timeout: 1s, fields: {notification_type: {const: group}}}`
	recordEffect = `{name: record, uses: record.create, kind: readable, timeout: 500ms, visible_after: 1s, fields: {number: {path: $.data.number}}}`
)

var (
	effectFlows = "schema_version: 1\nflows:" +
		flowOf("plain", "summary") +
		flowOf("notice", "summary", noticeEffect) +
		flowOf("message", "title", robotEffect) +
		flowOf("record", "record", recordEffect) +
		flowOf("publish", "summary", draftEffect, noticeEffect) +
		flowOf("both", "title", robotEffect, noticeEffect)
	// watchedEffects is a world for effects; lag is less than visible_after.
	watchedEffects = options{timeout: 2 * time.Second, flows: effectFlows, lag: 500 * time.Millisecond}
)

// work is one business action of effectFlows.
type work struct{ flow, number, content string }

func (k work) event(id string) []byte {
	raw, err := json.Marshal(map[string]any{
		"specversion": "1.0", "id": id, "source": "demo", "type": "demo:effects:" + k.flow, "datacontenttype": "application/json",
		"aliyuneventbusname": environment, "data": map[string]any{"number": k.number, "content": k.content},
	})
	if err != nil {
		panic(err)
	}
	return raw
}

func (k work) key() string {
	return idempotency.HashOf(map[string]string{"number": k.number, "operation": k.flow})
}

// effects reads the rows of effects behind the function's back, by name.
func (w *world) effects(taskKey string) map[string]idempotency.Effect {
	all := map[string]idempotency.Effect{}
	for _, row := range w.tables.Rows(idempotency.TaskTable.Name) {
		if row.Columns["kind"] != idempotency.KindEffect || row.Columns["task_key"] != taskKey {
			continue
		}
		e, err := idempotency.ParseEffect(row.PrimaryKey[0].Value.(string), aliyun.Row(row.Columns))
		if err != nil {
			w.t.Errorf("effect: %v", err)
			continue
		}
		all[e.Name] = e
	}
	return all
}

// reviews are the open and the closed reviews of a task.
func (w *world) reviews(taskKey string) (open, closed []string) {
	for _, row := range w.tables.Rows(idempotency.ReviewTable.Name) {
		id := row.PrimaryKey[0].Value.(string)
		switch {
		case row.Columns["idempotency_key"] != taskKey:
		case row.Columns["state"] == string(idempotency.ReviewOpen):
			open = append(open, id)
		default:
			closed = append(closed, id)
		}
	}
	return open, closed
}

// checkEffects holds effects against what may be said of them. It runs after
// every call about the table, on records that were read before.
func (w *world) checkEffects(records []idempotency.Record) {
	for _, r := range records {
		if len(r.Effects) == 0 {
			continue
		}
		rows := w.effects(r.Key)
		for _, e := range rows {
			w.checkMoves(e)
		}
		for _, known := range r.Effects {
			e := rows[known.Name]
			if r.Status == idempotency.StatusSucceeded && (known.State != idempotency.EffectSettled || e.State != idempotency.EffectSettled ||
				e.Key != known.Key || e.TargetRecordID != known.TargetRecordID || e.OutputRef != r.ResultRef) {
				w.t.Errorf("SUCCEEDED with effect %+v, whose row is %+v", known, e)
			}
		}
		if r.Status != idempotency.StatusOutcomeUnknown {
			continue
		}
		open, closed := w.reviews(r.Key)
		if len(open)+len(closed) == 0 {
			w.t.Error("OUTCOME_UNKNOWN without a review")
		}
		if _, ok := w.openLetter(isLetterOf(r.Key)); !ok {
			w.t.Error("OUTCOME_UNKNOWN without an open letter")
		}
	}
}

// checkMoves holds an effect's history against the moves that there are. What is
// in doubt moves on by a review alone, and an opaque request is never repeated.
func (w *world) checkMoves(e idempotency.Effect) {
	var before idempotency.Step
	for i, s := range e.History {
		from, to := idempotency.EffectState(before.Status), idempotency.EffectState(s.Status)
		lawful := false
		switch from {
		case "", idempotency.EffectRefused:
			lawful = to == idempotency.EffectSent
		case idempotency.EffectSent:
			lawful = to != idempotency.EffectSent || e.Kind != idempotency.TargetOpaque && s.Attempt > before.Attempt
		case idempotency.EffectUnknown:
			by := strings.TrimPrefix(s.Actor, "run/")
			_, closed := w.reviews(e.TaskKey)
			lawful = to != idempotency.EffectSent && slices.ContainsFunc(closed, func(id string) bool { return strings.HasPrefix(id, by) })
		}
		if !lawful || s.Revision != int64(i)+1 {
			w.t.Errorf("effect %s goes from %q to %q as step %d, revision %d: %+v", e.Name, from, to, i+1, s.Revision, e.History)
		}
		before = s
	}
	if before.Revision != e.Revision || before.Status != idempotency.Status(e.State) || before.Attempt != e.Attempt {
		w.t.Errorf("the history of effect %s does not end with revision %d, %s", e.Name, e.Revision, e.State)
	}
}

// checkDone checks the end of a task whose effects are done: once each, under
// the numbers that their targets know.
func (w *world) checkDone(t *testing.T, k work) {
	t.Helper()
	rec := w.recordOf(k)
	if rec.Status != idempotency.StatusSucceeded || !w.holds(rec.ResultRef) {
		t.Errorf("the record ends as %s with %s", rec.Status, rec.ResultRef)
	}
	for name, e := range w.effects(k.key()) {
		ids := w.happened(e, k)
		if len(ids) != 1 || e.Outcome != idempotency.OutcomeConfirmedDone && e.TargetRecordID != ids[0] {
			t.Errorf("effect %s happened as %q, and its row says %s %q", name, ids, e.State, e.TargetRecordID)
		}
	}
	if n := len(w.effects(k.key())); n != len(rec.Effects) || n == 0 {
		t.Errorf("%d rows of %d effects", n, len(rec.Effects))
	}
}

// happened asks the target how often an effect has happened: the number of each.
func (w *world) happened(e idempotency.Effect, k work) (ids []string) {
	switch e.Name {
	case "notice":
		for _, n := range w.targets.Notifications() {
			if n.Key == e.Key {
				ids = append(ids, n.ID)
			}
		}
	case "record":
		for _, r := range w.targets.Records() {
			if r.Number == k.number {
				ids = append(ids, r.ID)
			}
		}
	case "message":
		ids = make([]string, len(w.targets.RobotMessages())) // it tells no number
	case "draft":
		for _, o := range w.objects.Objects(bucketName) {
			if strings.HasPrefix(o.Key, "tasks/"+k.key()+"/draft-") && !slices.Contains(ids, o.Key) {
				ids = append(ids, o.Key)
			}
		}
	}
	return ids
}

func isLetterOf(key string) func(otstest.Row) bool {
	return func(l otstest.Row) bool { return l.Columns["idempotency_key"] == key }
}

// checkUnknown checks that a task waits for a person, however often it comes.
func (w *world) checkUnknown(t *testing.T, k work) {
	t.Helper()
	sent := len(w.targets.RobotMessages())
	for range 3 {
		if r := w.redeliver(k.event("evt-1")); r.Decision != handler.DecisionOutcomeUnknown || r.Status != idempotency.StatusOutcomeUnknown {
			t.Errorf("redelivered: %+v", r)
		}
	}
	if n := len(w.targets.RobotMessages()); n > 1 || n != sent {
		t.Errorf("%d messages, and before the last deliveries %d", n, sent)
	}
	if e := w.effects(k.key())["message"]; e.State != idempotency.EffectUnknown || e.Outcome != idempotency.OutcomeAwaitingReview {
		t.Errorf("the effect is %s, %s", e.State, e.Outcome)
	}
	open, closed := w.reviews(k.key())
	if letters := w.letters(); len(open) != 1 || len(closed) != 0 || len(letters) != 1 || letters[0].Columns["error_code"] != string(letter.CodeOutcomeUnknown) {
		t.Errorf("reviews %v open and %v closed, letters %v", open, closed, letters)
	}
}

func (w *world) recordOf(k work) idempotency.Record {
	w.t.Helper()
	for _, r := range w.records() {
		if r.Key == k.key() {
			return r
		}
	}
	w.t.Fatalf("there is no record of %s", k.number)
	return idempotency.Record{}
}

func TestS30AnswerOfATargetIsLost(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		work     work
		attempts int64 // at least
		want     handler.Decision
	}{
		{work{"notice", "N-1", "[[target cut_after]] Order 17"}, 2, handler.DecisionExecuted},
		{work{"notice", "N-2", "[[target cut]] Order 17"}, 2, handler.DecisionExecuted},
		{work{"record", "N-1", "[[target cut_after]] Order 17"}, 2, handler.DecisionExecuted},
		{work{"record", "N-2", "[[target cut]] Order 17"}, 2, handler.DecisionExecuted},
		{work{"publish", "N-1", "[[target cut_after times=2]] Order 17"}, 3, handler.DecisionExecuted},
		{work{"message", "N-1", "[[target cut_after]] Order 17"}, 1, handler.DecisionOutcomeUnknown},
	} {
		t.Run(c.work.flow+": "+c.work.content+" ends as "+string(c.want), func(t *testing.T) {
			w := newWorld(t, watchedEffects)
			r := w.redeliver(c.work.event("evt-1"))
			if r.Decision != c.want || r.Attempt < c.attempts {
				t.Errorf("got %+v", r)
			}
			if c.want == handler.DecisionExecuted {
				w.checkDone(t, c.work)
			} else {
				w.checkUnknown(t, c.work)
			}
		})
	}
}
