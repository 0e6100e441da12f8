// Package logline is the form of the function's log: one JSON object a line, with
// fixed fields, so that a log service can index them and a program can count them.
//
// msg says what a line tells, and each msg has its own list of fields: all of them
// are on every line of it, with "", 0 or false where there is nothing to say, and
// no others. A change of state is one line, written once it is known to be stored.
// A process that dies in between, or that cannot read back what a lost answer meant,
// leaves a step without a line; the record's column `history` has every step.
//
// No field holds what an event says beside its id and source: what else comes from
// outside is a code, a digest or a number that was checked for its shape.
package logline

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// The values of msg.
const (
	Delivery   = "delivery"   // one event, or one call that is no event, was answered
	Transition = "transition" // a task changed its state
	Effect     = "effect"     // a side effect changed its state
	Letter     = "letter"     // a dead letter was written
	Review     = "review"     // a question to a person was opened
	Adopted    = "adopted"    // a run took an earlier attempt's output over
	Intake     = "intake"     // one dead-lettered event was taken in
)

// How a delivery was recognised as a copy that runs nothing: field `duplicate`.
const (
	ByCache     = "cache"       // this instance remembers that the business is done
	ByRetryRead = "retry_read"  // FC said that it is a retry, so the row was read first
	ByFailedPut = "failed_put"  // the claim met the row of a business that is done
	ByRead      = "read"        // the row was looked at without a claim
	Overtaken   = "overtaken"   // it ran as well, and another run's result holds
	InProgress  = "in_progress" // another run holds the lease
	TooEarly    = "too_early"   // the back-off of the last failure is not over
	Ended       = "ended"       // the task has ended without a result, or waits for a person
	Sighting    = "sighting"    // a person has closed the question that it asks
)

// Duplicates are all values of `duplicate` but "".
var Duplicates = []string{ByCache, ByRetryRead, ByFailedPut, ByRead, Overtaken, InProgress, TooEarly, Ended, Sighting}

// Type is the JSON type of a field.
type Type string

// The types.
const (
	Text   Type = "text"
	Number Type = "number" // whole
	Bool   Type = "bool"
)

// Field is one field of a line.
type Field struct {
	Name  string
	Type  Type
	About string
}

// Common are the fields of every line.
var Common = []Field{
	{"time", Text, "when the line was written: UTC, RFC 3339"},
	{"level", Text, "INFO, or WARN where the platform is asked to deliver again"},
	{"msg", Text, "what the line tells: the kind of line"},
	{"request_id", Text, "of the invocation, as FC says it"},
	{"consumer_version", Text, "of the function that wrote the line"},
	{"event_id", Text, "of the event at hand; of a call that is no event, the record's last"},
	{"event_source", Text, "of the same event"},
	{"trace_id", Text, "of the event's traceparent; \"\" without a well-formed one"},
	{"flow", Text, "that the event belongs to"},
	{"idempotency_key", Text, "of the business"},
}

// Kind is one value of msg with its own fields.
type Kind struct {
	Msg    string
	About  string
	Fields []Field // beside Common
}

// Kinds are all kinds of line.
var Kinds = []Kind{
	{Delivery, "one event, or one call that is no event, was answered", []Field{
		{"call", Text, "what came: event, member (of a batch), replay, resolve or abandon"},
		{"decision", Text, "what became of it"},
		{"duplicate", Text, "how a copy was recognised: cache, retry_read, failed_put, read, overtaken, in_progress, too_early, ended, sighting; \"\" for no copy"},
		{"status", Text, "of the task, as far as it was seen"},
		{"attempt", Number, "of the task"},
		{"result_ref", Text, "object of the result"},
		{"error_code", Text, "why it is to come again, or has failed"},
		{"letter_id", Text, "dead letter that was made sure of"},
		{"replay_batch_id", Text, "plan that a replay goes by"},
		{"reason", Text, "fixed text"},
		{"cause", Text, "why it is to come again: codes and fixed texts"},
		{"retry_count", Number, "of FC's own retries of this invocation"},
		{"table_calls", Number, "calls to Tablestore, whatever came of them"},
		{"object_calls", Number, "calls to OSS, whatever came of them"},
		{"took_ms", Number, "from the event's turn to its answer"},
		{"event_age_ms", Number, "since the bus took the event (aliyunpublishtime), by two clocks; -1 where it does not say"},
		{"skew_ms", Number, "how far this clock is ahead of the services'"},
	}},
	{Transition, "a task changed its state", []Field{
		{"from", Text, "status before; \"\" for a new record"},
		{"status", Text, "status now"},
		{"revision", Number, "of the record, rises by one"},
		{"attempt", Number, "of the run"},
		{"actor", Text, "as in the record's history"},
		{"error_code", Text, "last error"},
		{"error_target", Text, "where it happened"},
		{"error_summary", Text, "codes of the answer"},
		{"wait_ms", Number, "until it may be tried again; 0 for at once or never"},
		{"replay_batch_id", Text, "plan that opened the task last"},
		{"abandoned", Bool, "given up by a person"},
	}},
	{Effect, "a side effect changed its state", []Field{
		{"effect", Text, "name in flows.yaml"},
		{"effect_key", Text, "sent as Idempotency-Key"},
		{"target_kind", Text, "idempotent, readable or opaque"},
		{"from", Text, "state before; \"\" for a new row"},
		{"state", Text, "SENT, SETTLED, REFUSED or UNKNOWN"},
		{"outcome", Text, "the word for it, as in `task show`"},
		{"revision", Number, "of the effect's row, rises by one"},
		{"attempt", Number, "of the task that sent it"},
		{"actor", Text, "as in the row's history"},
		{"target_record_id", Text, "number at the target"},
		{"error_code", Text, "why it was refused"},
		{"error_target", Text, "where"},
		{"error_summary", Text, "codes of the answer"},
	}},
	{Letter, "a dead letter was written", []Field{
		{"letter_id", Text, ""},
		{"fingerprint", Text, "group: of code and target"},
		{"error_code", Text, "the letter's code"},
		{"error_class", Text, "transient, permanent or uncertain"},
		{"error_target", Text, "what failed"},
		{"from", Text, "state before; \"\" for a new letter"},
		{"state", Text, "open, or how it ended"},
		{"revision", Number, "of the letter"},
		{"sightings", Number, "times that the event was seen"},
		{"generation", Number, "replays that have failed"},
	}},
	{Review, "a question to a person was opened", []Field{
		{"review_id", Text, ""},
		{"review_kind", Text, "conflict or outcome_unknown"},
		{"state", Text, "open"},
		{"effect", Text, "that is in doubt"},
		{"effect_key", Text, ""},
		{"error_code", Text, "why nobody knows"},
	}},
	{Adopted, "a run took an earlier attempt's output over", []Field{
		{"attempt", Number, "of the run"},
		{"made_by_attempt", Number, "that made the output"},
	}},
	{Intake, "one dead-lettered event was taken in", []Field{
		{"letter_id", Text, "\"\" where it failed"},
		{"fingerprint", Text, ""},
		{"error_code", Text, "as judged"},
		{"decision", Text, "as judged"},
		{"state", Text, "of the letter: open, or how it ended"},
		{"cause", Text, "why the message is to come again: codes and fixed texts"},
		{"took_ms", Number, ""},
	}},
}

// KindOf finds a kind of line; ok is false for a msg that there is not.
func KindOf(msg string) (k Kind, ok bool) {
	i := slices.IndexFunc(Kinds, func(k Kind) bool { return k.Msg == msg })
	if i < 0 {
		return Kind{}, false
	}
	return Kinds[i], true
}

// Check holds a line against the fields of its kind: all of them, no others, each
// of its type.
func Check(line []byte) error {
	var members map[string]any
	if err := json.Unmarshal(line, &members); err != nil {
		return errors.New("check log line: no JSON object")
	}
	msg, _ := members["msg"].(string)
	k, ok := KindOf(msg)
	if !ok {
		return fmt.Errorf("check log line: there is no msg %q", msg)
	}
	left := len(members)
	for _, f := range slices.Concat(Common, k.Fields) {
		v, there := members[f.Name]
		if !there {
			return fmt.Errorf("check log line: %s has no %s", msg, f.Name)
		}
		if !f.Type.holds(v) {
			return fmt.Errorf("check log line: %s of %s is no %s", f.Name, msg, f.Type)
		}
		left--
	}
	if left > 0 {
		return fmt.Errorf("check log line: %s has %d fields more than are known", msg, left)
	}
	return nil
}

func (t Type) holds(v any) bool {
	switch v := v.(type) {
	case string:
		return t == Text
	case bool:
		return t == Bool
	case float64:
		return t == Number && v == float64(int64(v))
	}
	return false
}
