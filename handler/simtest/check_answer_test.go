package simtest

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

// answered: I3, whatever a delivery was answered with, its event is not lost.
func (k *checker) answered(inv *invocation) {
	if inv.err != nil {
		var retry *handler.RetryError
		if !errors.As(inv.err, &retry) {
			k.broken("I3", "an error of type %T", inv.err)
		}
		k.secrets("an error", inv.err.Error())
	}
	k.secrets("an answer", inv.results)
	if inv.chain == nil {
		return
	}
	if len(inv.results) != len(inv.chain.events) {
		k.broken("I3", "%d answers to %d events", len(inv.results), len(inv.chain.events))
		return
	}
	again := false
	for i, e := range inv.chain.events {
		r := inv.results[i]
		switch r.Decision {
		case handler.DecisionRetry, handler.DecisionInProgress:
			again = true
			k.ownClaim(inv, e, r)
		case handler.DecisionExecuted, handler.DecisionDuplicate:
			k.hasResult(e, r)
		default:
			if !k.hasLetter(e) && !k.hasAnswer(e) {
				k.broken("I3", "%s is acknowledged as %s, and has neither an open letter nor a closed question", e.name, r.Decision)
			}
		}
	}
	if again && inv.err == nil {
		k.broken("I3", "%s is acknowledged, and an event of it must come again", inv.chain.name)
	}
}

// ownClaim: I4, a run that is told that the key is taken does not hold it itself.
func (k *checker) ownClaim(inv *invocation, e *event, r handler.Result) {
	record, ok := k.record(e.key)
	if inv.chain.batch {
		return // another member may hold it
	}
	if !ok || r.Decision != handler.DecisionInProgress || record.Status != idempotency.StatusRunning {
		return
	}
	for n := inv.owner + 1; n <= inv.worker.owners; n++ {
		if record.Owner == fmt.Sprintf("w%03d-%06d-of-a-run", inv.worker.id, n) {
			k.broken("I4", "%s is told that %.8s is in progress, by its own claim: an attempt is burnt", e.name, e.key)
		}
	}
}

func (k *checker) hasResult(e *event, r handler.Result) {
	record, ok := k.record(e.key)
	switch {
	case !ok || record.Status != idempotency.StatusSucceeded:
		k.broken("I3", "%s is acknowledged as %s, the record is %q", e.name, r.Decision, record.Status)
	case record.InputDigest != e.digest:
		k.broken("I6", "%s is answered with the result of another input", e.name)
	case record.ResultRef.Object != r.ResultRef:
		k.broken("I1", "%s is answered with %s, the result is %s", e.name, r.ResultRef, record.ResultRef.Object)
	}
}

// hasLetter reports whether an open letter holds the event's own bytes.
func (k *checker) hasLetter(e *event) bool {
	l := k.now(letter.LetterTable, e.letterID)
	return l != nil && l["final_status"] == nil && k.holdsRaw(l, e)
}

func (k *checker) holdsRaw(l aliyun.Row, e *event) bool {
	body, ok := k.rawOf(l)
	return ok && bytes.Equal(body, e.raw) && l["raw_sha256"] == idempotency.DigestBinary(e.raw)
}

// rawOf is the version of the raw bytes that a letter names.
func (k *checker) rawOf(l aliyun.Row) (body []byte, ok bool) {
	text, _ := l["raw_ref"].(string)
	ref, err := idempotency.ParseRef(text)
	if err != nil {
		return nil, false
	}
	for _, o := range k.objects[ref.Object] {
		if o.VersionID == ref.VersionID {
			return o.Body, true
		}
	}
	return nil, false
}

// hasAnswer reports whether a person has closed the question that the event asks.
func (k *checker) hasAnswer(e *event) bool {
	l := k.now(letter.LetterTable, e.letterID)
	if l == nil || !k.holdsRaw(l, e) {
		return false
	}
	if k.discarded(e) {
		return true
	}
	record, _ := k.record(e.key)
	if slices.Contains(record.SupersededDigests, e.digest) {
		return true
	}
	review := k.now(idempotency.ReviewTable, idempotency.ConflictID(e.key, e.digest))
	return review["resolution"] == string(idempotency.ResolvedKeepOld) || review["resolution"] == string(idempotency.ResolvedDiscard)
}

// lettered: a letter never names bytes that are not there.
func (k *checker) lettered(id string, row aliyun.Row) {
	if _, ok := k.rawOf(row); !ok {
		k.broken("I3", "letter %.8s names %s, which is not there", id, row["raw_ref"])
	}
	k.world.note("    letter %.8s is %v%v", id, row["error_code"], map[bool]string{false: ", closed"}[row["final_status"] == nil])
}

// quiet: I8, nothing that is not at its end is left to itself; I7, nothing
// planted is in a log.
func (k *checker) quiet() {
	for key := range k.newest(idempotency.TaskTable) {
		r, ok := k.record(key)
		if !ok {
			continue
		}
		switch r.Status {
		case idempotency.StatusSucceeded, idempotency.StatusFailedFinal:
		default:
			k.broken("I8", "%.8s is still %s at attempt %d of %d", key, r.Status, r.Attempt, r.AttemptBudget)
		}
	}
	for _, c := range k.world.chains {
		if !c.settled {
			k.broken("I8", "%s is never acknowledged", c.name)
		}
	}
	for _, line := range strings.Split(k.world.logs.String(), "\n") {
		k.secrets("a log line", line)
	}
}

// unresolved reports whether a closed review's task still waits for its answer.
func (k *checker) unresolved(id string) bool {
	key, _ := k.reviews()[id]["idempotency_key"].(string)
	r, ok := k.record(key)
	return ok && r.Status == idempotency.StatusOutcomeUnknown
}
