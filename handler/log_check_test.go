package handler_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/logline"
)

// writeDoubt is how a delivery says that nobody knows what became of a write; one
// that ends as denied is of a handler that a test has killed.
var writeDoubt = regexp.MustCompile(`write (record|effect): .*(no row behind|read (record|effect))|: denied `)

// line is a line of the log as tests read it.
type line struct {
	Msg, Call, Decision, Duplicate, Status, State, From, Actor, Level, Cause, Effect, Time string

	RequestID string `json:"request_id"`
	Version   string `json:"consumer_version"`
	EventID   string `json:"event_id"`
	TraceID   string `json:"trace_id"`
	Flow      string `json:"flow"`
	Key       string `json:"idempotency_key"`
	EffectKey string `json:"effect_key"`
	LetterID  string `json:"letter_id"`
	Batch     string `json:"replay_batch_id"`
	Code      string `json:"error_code"`
	Attempt   int64
	Revision  int64
	Tables    int64 `json:"table_calls"`
	Objects   int64 `json:"object_calls"`
	AgeMS     int64 `json:"event_age_ms"`
	TookMS    int64 `json:"took_ms"`
	SkewMS    int64 `json:"skew_ms"`
	WaitMS    int64 `json:"wait_ms"`
	Retries   int64 `json:"retry_count"`
	Abandoned bool
}

// lines are the log's lines of one kind, all for "".
func (w *world) lines(msg string) (all []line) {
	w.t.Helper()
	for text := range strings.Lines(w.logs.String()) {
		var l line
		must(w.t, json.Unmarshal([]byte(text), &l))
		if msg == "" || l.Msg == msg {
			all = append(all, l)
		}
	}
	return all
}

// checkLog holds the log of any test against what is stored: every line has the
// fields of its kind and no others, no step is told twice, none is told that is not
// in its row's history, and each that a handler wrote is told. A step may be missing
// for each delivery that says of a write that nobody could tell what became of it.
func (w *world) checkLog() {
	w.t.Helper()
	for text := range strings.Lines(w.logs.String()) {
		if err := logline.Check([]byte(text)); err != nil {
			w.t.Errorf("%v: %s", err, text)
		}
	}
	told := map[string]int{}
	for _, l := range w.lines("") {
		switch l.Msg {
		case logline.Transition:
			told[step(l.Key, l.Revision, l.Status, l.Attempt, l.Actor)]++
		case logline.Effect:
			told[step(l.EffectKey, l.Revision, l.State, l.Attempt, l.Actor)]++
		}
	}
	doubts := 0
	for _, l := range w.lines(logline.Delivery) {
		if writeDoubt.MatchString(l.Cause) {
			doubts++
		}
	}
	stored := map[string]bool{}
	shortened := false
	var missing []string
	for _, row := range w.tables.Rows(idempotency.TaskTable.Name) {
		var history []idempotency.Step
		text, _ := row.Columns["history"].(string)
		if json.Unmarshal([]byte(text), &history) != nil {
			continue
		}
		shortened = shortened || len(history) == 0 || history[0].Revision != 1
		for _, s := range history {
			id := step(row.PrimaryKey[0].Value.(string), s.Revision, string(s.Status), s.Attempt, s.Actor)
			stored[id] = true
			if told[id] == 0 && w.own(s.Actor) {
				missing = append(missing, id)
			}
		}
	}
	if len(missing) > doubts && !w.forged {
		w.t.Errorf("%d writes in doubt, and no line of %q\n%s", doubts, missing, w.logs)
	}
	for id, n := range told {
		if n > 1 {
			w.t.Errorf("%d lines of %s", n, id)
		}
		if !stored[id] && !shortened && !w.forged {
			w.t.Errorf("a line of %s, which no row has been through", id)
		}
	}
}

// own reports whether a step is one of the handlers of this test.
func (w *world) own(actor string) bool {
	return slices.Contains(w.tokens(), strings.TrimPrefix(actor, "run/"))
}

// tokens are the owner tokens that were given out, as histories shorten them.
func (w *world) tokens() (all []string) {
	for n := range w.owners.Load() {
		all = append(all, fmt.Sprintf("%08x-own", n+1))
	}
	return all
}

func step(key string, revision int64, state string, attempt int64, actor string) string {
	return fmt.Sprintf("%.12s revision %d: %s, attempt %d, by %s", key, revision, state, attempt, actor)
}
