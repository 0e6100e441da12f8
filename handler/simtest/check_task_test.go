package simtest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/oncegate/oncegate/artifacts/osstest"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

// revision: I5, every write raises the revision of the row it replaces by one.
func (k *checker) revision(about string, before, row aliyun.Row) {
	was, _ := before["revision"].(int64)
	if is, _ := row["revision"].(int64); is != was+1 {
		k.broken("I5", "%s went from revision %d to %d", about, was, is)
	}
}

// secrets: I7, nothing planted is in a row, a name or a text.
func (k *checker) secrets(where string, what any) {
	text := fmt.Sprint(what)
	for _, s := range k.world.secrets {
		if strings.Contains(text, s) {
			k.broken("I7", "%s holds the planted %q", where, s)
		}
	}
}

// history: I7, no step of a row is missing from its history.
func (k *checker) history(about string, steps []idempotency.Step, revision int64, status idempotency.Status) {
	if n := len(steps); n == 0 || steps[n-1].Revision != revision || steps[n-1].Status != status {
		k.broken("I7", "%s at revision %d is %s, its history ends otherwise: %v", about, revision, status, steps)
		return
	}
	versions := k.rows[about]
	for i, s := range slices.Backward(steps) {
		if want := revision - int64(len(steps)-1-i); s.Revision != want {
			k.broken("I7", "%s: step %d of the history is revision %d, want %d", about, i, s.Revision, want)
			return
		}
		for _, v := range versions {
			if v.row["revision"] == s.Revision && v.row["status"] != string(s.Status) {
				k.broken("I7", "%s: revision %d was %s, its history says %s", about, s.Revision, v.row["status"], s.Status)
			}
		}
	}
	if len(steps) < 40 && steps[0].Revision != 1 {
		k.broken("I7", "%s: the history begins at revision %d", about, steps[0].Revision)
	}
}

func (k *checker) taskRow(key string, beforeRow, row aliyun.Row) {
	r, err := idempotency.ParseRecord(key, row)
	if err != nil {
		k.broken("I5", "record %s cannot be read: %v", key, err)
		return
	}
	k.history(idempotency.TaskTable.Name+"/"+key, r.History, r.Revision, r.Status)
	var before idempotency.Record
	if beforeRow != nil {
		if before, err = idempotency.ParseRecord(key, beforeRow); err != nil {
			return
		}
	}
	k.world.note("    record %.8s is %s, attempt %d of %d, revision %d", key, r.Status, r.Attempt, r.AttemptBudget, r.Revision)
	k.transition(before, r)
	k.bounds(before, r)
	k.ends(r)
	for _, e := range r.Effects {
		k.effectOf[key+"/"+e.Name] = e.Key
	}
	if r.Status == idempotency.StatusRunning {
		at := fmt.Sprintf("%s/%d", key, r.Attempt)
		k.claims[at], k.digests[at] = k.world.steps, r.InputDigest
	}
}

// transition: I5, only an owner ends its run, and only what is over is taken
// over; I1, a result stays; I6, another input holds only where a person said so.
func (k *checker) transition(before, r idempotency.Record) {
	// A lease that ends within a millisecond is over in its next fraction.
	lapsed := before.Status == idempotency.StatusRunning && !r.UpdatedAt.Before(before.LeaseUntil)
	own := r.Owner == before.Owner && r.Attempt == before.Attempt
	person := k.reviews()[r.Owner] != nil && r.Attempt == before.Attempt
	claim := r.Attempt == before.Attempt+1 && r.Owner != before.Owner
	end := !own && r.Attempt == before.Attempt && r.Attempt >= before.AttemptBudget
	opened := k.opens(before, r)
	ok := false
	switch before.Status + ">" + r.Status {
	case ">RUNNING":
		ok = r.Attempt == 1
	case ">RECEIVED":
		ok = r.Attempt == 0
	case "RECEIVED>RUNNING", "FAILED_RETRYABLE>RUNNING":
		ok = claim
	case "RUNNING>RUNNING":
		ok = claim && lapsed
	case "RUNNING>SUCCEEDED":
		ok = own
	case "FAILED_FINAL>RUNNING":
		ok = claim && opened
	case "RUNNING>FAILED_FINAL", "RUNNING>OUTCOME_UNKNOWN":
		ok = own || (end && lapsed) || (lapsed && k.givenUp(before, r))
	case "RECEIVED>FAILED_FINAL", "FAILED_FINAL>FAILED_FINAL":
		ok = k.givenUp(before, r)
	case "RUNNING>FAILED_RETRYABLE":
		ok = own || (person && lapsed)
	case "FAILED_RETRYABLE>FAILED_FINAL", "FAILED_RETRYABLE>OUTCOME_UNKNOWN":
		ok = end || k.givenUp(before, r)
	case "OUTCOME_UNKNOWN>FAILED_RETRYABLE", "FAILED_FINAL>FAILED_RETRYABLE", "RECEIVED>FAILED_RETRYABLE", "FAILED_RETRYABLE>FAILED_RETRYABLE":
		ok = person
	}
	if before.Status == idempotency.StatusSucceeded {
		k.broken("I1", "%.8s had succeeded with %s and is now %s with %s", r.Key, before.ResultRef.Object, r.Status, r.ResultRef.Object)
	} else if !ok {
		k.broken("I5", "%.8s went from %s of %s (attempt %d, lease until %s) to %s by %s (attempt %d) at %s", r.Key, before.Status, before.Owner, before.Attempt,
			k.since(before.LeaseUntil), r.Status, r.Owner, r.Attempt, k.since(r.UpdatedAt))
	}
	if r.Abandoned && (r.Status != idempotency.StatusFailedFinal || r.Attempt != before.Attempt) {
		k.broken("I5", "%.8s was given up and is %s at attempt %d", r.Key, r.Status, r.Attempt)
	}
	if before.InputDigest != "" && before.InputDigest != r.InputDigest && (!opened || !slices.Contains(r.SupersededDigests, before.InputDigest)) {
		review := k.reviews()[r.Owner]
		if review["resolution"] != string(idempotency.ResolvedUseNew) || review["event_digest"] != r.InputDigest || !slices.Contains(r.SupersededDigests, before.InputDigest) {
			k.broken("I6", "%.8s works on another input, and nobody said so", r.Key)
		}
	}
}

// bounds: I4, attempts stay within the budget and keep their distance.
func (k *checker) bounds(before, r idempotency.Record) {
	if r.Attempt > r.AttemptBudget {
		k.broken("I4", "%.8s is at attempt %d of %d", r.Key, r.Attempt, r.AttemptBudget)
	}
	if r.AttemptBudget != before.AttemptBudget && before.Status != "" && k.reviews()[r.Owner] == nil &&
		(r.ReplayBatchID == before.ReplayBatchID || r.AttemptBudget != before.Attempt+2) {
		k.broken("I4", "%.8s got a budget of %d, and nobody said so", r.Key, r.AttemptBudget)
	}
	if r.Status == idempotency.StatusRunning && r.LastAttemptAt.Before(before.NotBefore) {
		k.broken("I4", "%.8s is tried again %s before its time", r.Key, before.NotBefore.Sub(r.LastAttemptAt))
	}
	if before.Status == idempotency.StatusRunning && r.Status == idempotency.StatusFailedRetryable && r.Owner == before.Owner {
		want := 10 * time.Second
		for range r.Attempt - 1 {
			want = min(want*4, time.Hour)
		}
		if got := r.NotBefore.Sub(r.UpdatedAt); got < want {
			k.broken("I4", "%.8s may be tried again %s after attempt %d, want %s", r.Key, got, r.Attempt, want)
		}
	}
}

// ends: what must be there before a record says that it is over.
func (k *checker) ends(r idempotency.Record) {
	switch r.Status {
	case idempotency.StatusSucceeded:
		if !k.holds(r.ResultRef) {
			k.broken("I1", "%.8s has succeeded, its result %s is not there", r.Key, r.ResultRef)
		}
		k.ofInput("the result", r.ResultRef, r)
		for _, e := range r.Effects {
			if row, ok := k.effect(e.Key); !ok || row.State != idempotency.EffectSettled {
				k.broken("I2", "%.8s has succeeded, its effect %s is %q", r.Key, e.Name, row.State)
			}
		}
	case idempotency.StatusFailedFinal, idempotency.StatusOutcomeUnknown:
		for _, e := range r.Effects {
			row, _ := k.effect(e.Key)
			if r.Status == idempotency.StatusFailedFinal && (row.State == idempotency.EffectSent || row.State == idempotency.EffectUnknown) {
				if finalIsSure {
					k.broken("I2", "%.8s has failed for good, and its effect %s is %s", r.Key, e.Name, row.State)
				}
				k.world.faults["failed for good, an effect in doubt"]++
			}
		}
		for _, l := range k.newest(letter.LetterTable) {
			if l["idempotency_key"] == r.Key && l["input_digest"] == r.InputDigest &&
				(l["final_status"] == nil || l["final_status"] == string(letter.FinalDiscarded)) {
				return
			}
		}
		k.broken("I3", "%.8s is %s before it has an open letter", r.Key, r.Status)
	}
}

// stored looks at a new version of an object.
func (k *checker) stored(before []osstest.Object, o osstest.Object) {
	k.secrets("object "+o.Key, []any{o.Key, o.Metadata, o.Tags})
	if !strings.HasSuffix(o.Key, "/output.json") {
		return
	}
	if len(before) > 0 {
		k.broken("I5", "%s was written twice", o.Key)
		return
	}
	key, attempt := o.Metadata["oncegate-key"], o.Metadata["oncegate-attempt"]
	at := key + "/" + attempt
	if k.digests[at] != o.Metadata["oncegate-input-digest"] {
		k.broken("I6", "%s is of another input than its attempt was claimed for", o.Key)
	}
	for name, step := range k.outputs {
		old := k.objects[name][0]
		if old.Metadata["oncegate-key"] == key && old.Metadata["oncegate-input-digest"] == o.Metadata["oncegate-input-digest"] &&
			old.Metadata["oncegate-processor-version"] == o.Metadata["oncegate-processor-version"] && step < k.claims[at] {
			k.broken("I1", "%s was made anew, %s was there before the claim", o.Key, name)
		}
	}
	k.outputs[o.Key] = k.world.steps
}
