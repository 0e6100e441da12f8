package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strings"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/artifacts/osstest"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/idempotency/otstest"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// step is one side of one call's effect.
type step struct {
	kind  string
	phase cloudtest.Phase
}

// strike says at which call the process is killed.
type strike struct {
	kind  string
	nth   int // of this kind within one delivery, 1 for the first
	phase cloudtest.Phase
}

// kindOf names a call by what it is about: calls that run at the same time have
// no order.
func kindOf(c cloudtest.Call) string {
	switch c.Service {
	case "tablestore":
		table, _, _ := strings.Cut(c.Target, "/")
		return c.Service + " " + c.Op + " " + table
	case "oss":
		return c.Service + " " + c.Op + " " + path.Base(c.Target)
	default:
		return c.Service + " " + c.Op
	}
}

// hook sees every call of the function on both sides of its effect.
func (w *world) hook(c cloudtest.Call, p cloudtest.Phase) {
	kind := kindOf(c)
	w.mu.Lock()
	w.journal = append(w.journal, step{kind, p})
	if p == cloudtest.Before {
		w.seen[kind]++
	}
	hit := w.armed && len(w.strikes) > 0 && w.strikes[0] == strike{kind, w.seen[kind], p}
	if hit {
		w.strikes, w.armed = w.strikes[1:], false
	}
	w.mu.Unlock()
	if p == cloudtest.Before && kind == modelCall {
		w.checkNothingToAdopt(strings.TrimPrefix(c.Target, "oncegate-"))
	}
	if p == cloudtest.After && strings.HasSuffix(kind, " "+idempotency.TaskTable.Name) {
		w.checkRecords()
	}
	if hit {
		if p == cloudtest.Before {
			// The request dies with its process.
			w.faults()[c.Service].Add(cloudtest.Fault{Op: c.Op, Target: c.Target, Kind: cloudtest.Drop})
		}
		w.fn.KillAll()
	}
}

// calls returns the journal's calls from a position on, in order of arrival.
func (w *world) calls(from int) (kinds []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.journal[from:] {
		if s.phase == cloudtest.Before {
			kinds = append(kinds, s.kind)
		}
	}
	return kinds
}

func (w *world) journalled() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.journal)
}

// records reads the table behind the function's back.
func (w *world) records() (all []idempotency.Record) {
	for _, row := range w.tables.Rows(idempotency.TaskTable.Name) {
		if row.Columns["kind"] == idempotency.KindEffect {
			continue
		}
		r, err := idempotency.ParseRecord(row.PrimaryKey[0].Value.(string), aliyun.Row(row.Columns))
		if err != nil {
			w.t.Errorf("record: %v", err)
			continue
		}
		all = append(all, r)
	}
	return all
}

// record is the one record there is.
func (w *world) record() idempotency.Record {
	w.t.Helper()
	all := w.records()
	if len(all) != 1 {
		w.t.Fatalf("%d records, want 1", len(all))
	}
	return all[0]
}

func (w *world) letters() []otstest.Row { return w.tables.Rows(letter.LetterTable.Name) }

// object returns a version of an object; "" is the current one.
func (w *world) object(name, version string) (found osstest.Object, ok bool) {
	for _, o := range w.objects.Objects(bucketName) {
		if o.Key == name && (version == "" || o.VersionID == version) {
			found, ok = o, true
		}
	}
	return found, ok
}

func (w *world) holds(ref idempotency.Ref) bool {
	o, ok := w.object(ref.Object, ref.VersionID)
	return ok && ref.VersionID != "" && digestOf(o.Body) == ref.SHA256
}

func (w *world) there(name string) bool {
	_, ok := w.object(name, "")
	return ok
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// openLetter finds an open letter whose raw object is there.
func (w *world) openLetter(fits func(otstest.Row) bool) (raw []byte, ok bool) {
	for _, row := range w.letters() {
		if row.Columns["final_status"] != nil || !fits(row) {
			continue
		}
		text, _ := row.Columns["raw_ref"].(string)
		ref, err := idempotency.ParseRef(text)
		if err != nil {
			continue
		}
		if o, there := w.object(ref.Object, ref.VersionID); there && row.Columns["raw_sha256"] == digestOf(o.Body) {
			return o.Body, true
		}
	}
	return nil, false
}

// checkRecords holds every record against what must be there before it may say
// what it says. It runs after every call about the table.
func (w *world) checkRecords() {
	records := w.records()
	w.checkEffects(records)
	for _, r := range records {
		for i, s := range r.History {
			if s.Revision != int64(i)+1 {
				w.t.Errorf("history of revision %d has %d as step %d", r.Revision, s.Revision, i+1)
			}
		}
		if n := len(r.History); n == 0 || r.History[n-1].Revision != r.Revision || r.History[n-1].Status != r.Status || r.History[n-1].Attempt != r.Attempt {
			w.t.Errorf("history does not end with revision %d, %s", r.Revision, r.Status)
		}
		w.mu.Lock()
		before := w.results[r.Key]
		if before == "" {
			w.results[r.Key] = r.ResultRef.String()
		}
		w.mu.Unlock()
		switch {
		case before != "" && before != r.ResultRef.String():
			w.t.Errorf("result_ref changed from %q to %q", before, r.ResultRef)
		case (r.Status == idempotency.StatusSucceeded) != (r.ResultRef.Object != ""):
			w.t.Errorf("%s with result_ref %q", r.Status, r.ResultRef)
		case r.Status == idempotency.StatusSucceeded && !w.holds(r.ResultRef):
			w.t.Errorf("SUCCEEDED, and the bucket does not hold %s", r.ResultRef)
		case r.Status == idempotency.StatusSucceeded && !w.there(artifacts.InputName(r.Key)):
			w.t.Error("SUCCEEDED without a stored input")
		case r.Status == idempotency.StatusFailedFinal:
			_, ok := w.openLetter(func(l otstest.Row) bool { return l.Columns["idempotency_key"] == r.Key })
			discarded := slices.ContainsFunc(w.letters(), func(l otstest.Row) bool {
				return l.Columns["idempotency_key"] == r.Key && l.Columns["final_status"] == string(letter.FinalDiscarded)
			})
			if !ok && !discarded {
				w.t.Error("FAILED_FINAL, and its letter is neither open nor discarded")
			}
		}
	}
}

// checkNothingToAdopt runs at every model call: what is stored is adopted, and
// the model is not paid again.
func (w *world) checkNothingToAdopt(key string) {
	for _, o := range w.versions("output.json") {
		if strings.HasPrefix(o.Key, "tasks/"+key) {
			w.t.Errorf("the model is called although %s is stored", o.Key)
		}
	}
}

func (w *world) checkAcknowledged(raw []byte, r handler.Result) {
	w.t.Helper()
	abandoned := slices.ContainsFunc(w.records(), func(rec idempotency.Record) bool { return rec.Key == r.Key && rec.Abandoned })
	if r.Decision == handler.DecisionFinal && abandoned {
		if !slices.ContainsFunc(w.letters(), func(l otstest.Row) bool {
			return l.PrimaryKey[0].Value == r.LetterID && l.Columns["final_status"] == string(letter.FinalDiscarded)
		}) {
			w.t.Errorf("acknowledged as abandoned without a discarded letter (%q)", r.LetterID)
		}
		return
	}
	switch r.Decision {
	case handler.DecisionExecuted, handler.DecisionDuplicate:
		for _, rec := range w.records() {
			if rec.Key == r.Key && rec.Status == idempotency.StatusSucceeded && rec.ResultRef.Object == r.ResultRef && r.ResultRef != "" {
				return
			}
		}
		w.t.Errorf("acknowledged as %s with %q, which no record holds", r.Decision, r.ResultRef)
	case handler.DecisionResolved, handler.DecisionReplayRefused, handler.DecisionAbandoned, handler.DecisionAbandonRefused:
	case handler.DecisionInProgress, handler.DecisionRetry:
		w.t.Errorf("acknowledged as %s", r.Decision)
	default:
		stored, ok := w.openLetter(func(l otstest.Row) bool { return l.PrimaryKey[0].Value == r.LetterID })
		if !ok || !bytes.Equal(stored, raw) {
			w.t.Errorf("acknowledged as %s without an open letter that holds the event (letter %q)", r.Decision, r.LetterID)
		}
	}
}

// versions are all stored versions of objects with a base name.
func (w *world) versions(base string) (all []osstest.Object) {
	for _, o := range w.objects.Objects(bucketName) {
		if path.Base(o.Key) == base {
			all = append(all, o)
		}
	}
	return all
}
