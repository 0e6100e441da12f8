package deadletter

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// amountTwo makes a text amount a number; "other" changes the business as well.
func amountTwo(e flows.MigrationEvent) (flows.MigrationEvent, error) {
	data := e.Payload.(map[string]any)
	if s, ok := data["amount"].(string); ok {
		data["amount"] = json.Number(s)
	}
	if s, ok := data["renumber"].(string); ok {
		data["number"] = s
	}
	return e, nil
}

func (w *world) migrator() *Migrator {
	return &Migrator{
		Desk: w.desk, Audit: NewAuditLog(w.store), Now: w.desk.Now,
		Migrations: []flows.Migration{{Flow: "order", From: "1", To: "2", Migrate: amountTwo}, {Flow: "order", From: "0", To: "1", Migrate: amountTwo}},
	}
}

// invalid is a letter as the function leaves it for data that breaks the schema.
func (w *world) invalid(event string) letter.Letter {
	w.t.Helper()
	l := w.ingest(event)[0].Letter
	if err := w.desk.Reclassify(w.t.Context(), l.ID, letter.CodeInvalidSchema, "amy", "the schema refuses it"); err != nil {
		w.t.Fatal(err)
	}
	return w.letter(l.ID)
}

func (w *world) letter(id string) letter.Letter {
	w.t.Helper()
	l, ok, err := w.desk.Letters.Get(w.t.Context(), id)
	if err != nil || !ok {
		w.t.Fatal(ok, err)
	}
	return l
}

func (w *world) letters() []letter.Letter {
	w.t.Helper()
	all, _, err := w.desk.Letters.List(w.t.Context(), "", 100)
	if err != nil {
		w.t.Fatal(err)
	}
	return all
}

// replayable counts the letters that nothing of their family holds back.
func (w *world) replayable() (ids []string) {
	w.t.Helper()
	for _, l := range w.letters() {
		why, err := Family(w.t.Context(), w.desk.Letters, NewAuditLog(w.store), l)
		if err != nil {
			w.t.Fatal(err)
		}
		if why.IsZero() && l.Open() {
			ids = append(ids, l.ID)
		}
	}
	return ids
}

// S44: the parent is never sent; its child goes on.
func TestAMigratedChildGoesOnInItsParentsPlace(t *testing.T) {
	w := newWorld(t)
	parent := w.invalid(orderEvent("e1", "1", `"5.00"`))
	m := w.migrator()
	w.now = w.now.Add(time.Minute)
	child, diff, err := m.Migrate(t.Context(), parent, "2", "amy", "money was text")
	if err != nil {
		t.Fatal(err)
	}
	if child.ParentID != parent.ID || child.OriginalEventID != "e1" || child.EventID == "e1" || child.Generation != 1 || child.Migration != "1..2" ||
		child.Key != parent.Key || child.InputDigest == parent.InputDigest || !child.Open() || child.Revision != 1 || child.DeliveryAttempts != 1 {
		t.Errorf("child %+v", child)
	}
	if fmt.Sprint(diff) != "[{/data/amount changed} {/id changed} {/originaleventid added}]" {
		t.Errorf("diff %v", diff)
	}
	after := w.letter(parent.ID)
	if after.FinalStatus != letter.FinalMigrated || after.ChildID != child.ID || after.ClosedBy != "amy" || after.CloseReason != "1..2: money was text" {
		t.Errorf("parent %+v", after)
	}
	if after.RawSHA256 != parent.RawSHA256 || after.InputDigest != parent.InputDigest || after.ExpiresAt.Before(child.ExpiresAt) {
		t.Error("the parent was edited, or goes before its child")
	}
	j, err := w.desk.Judge(t.Context(), child)
	if err != nil || j.Fingerprint != parent.Fingerprint || j.Code != letter.CodeInvalidSchema || j.Decision != RepairRequired {
		t.Errorf("the child is judged %+v, %v", j, err)
	}
	raw, err := w.desk.RawEvent(t.Context(), child)
	if err != nil || !strings.Contains(string(raw), `"amount":5.00`) || !strings.Contains(string(raw), `"originaleventid":"e1"`) {
		t.Errorf("%s %v", raw, err)
	}
	if ids := w.replayable(); len(ids) != 1 || ids[0] != child.ID {
		t.Errorf("replayable: %v", ids)
	}
	again, _, err := m.Migrate(t.Context(), w.letter(parent.ID), "2", "ben", "again")
	if err != nil || again.ID != child.ID || again.Revision != child.Revision || len(w.letters()) != 2 {
		t.Errorf("a repeat: %+v %v", again, err)
	}

	stale, _, err := m.Migrate(t.Context(), parent, "2", "ben", "somebody was faster")
	if err != nil || stale.ID != child.ID || w.letter(parent.ID).ClosedBy != "amy" {
		t.Errorf("an operator who saw it open: %+v %v", stale, err)
	}

	// Its own row says enough, also where the audit is gone.
	after.FinalStatus = ""
	if why, err := Family(t.Context(), w.desk.Letters, NewAuditLog(newWorld(t).store), after); err != nil || why.String() != WhyHandedOver.String() {
		t.Errorf("a parent that names its child: %q %v", why, err)
	}
	after.FinalStatus = letter.FinalMigrated

	// A copy of the parent's event comes again: the child still stands in its place.
	w.now = w.now.Add(time.Minute)
	if err := w.desk.Letters.EnsureOpen(t.Context(), func() letter.Letter { l := parent; l.LastFailedAt = w.now; return l }()); err != nil {
		t.Fatal(err)
	}
	if l := w.letter(parent.ID); l.Open() || l.ChildID != child.ID || l.DeliveryAttempts != parent.DeliveryAttempts+1 {
		t.Errorf("a copy of the parent's event: %+v", l)
	}
	if ids := w.replayable(); len(ids) != 1 || ids[0] != child.ID {
		t.Errorf("replayable after a copy: %v", ids)
	}
}

func TestACrashAtAnyStepOfAMigrationEndsInOneChild(t *testing.T) {
	for _, phase := range []cloudtest.Phase{cloudtest.Before, cloudtest.After} {
		crashes := 0
		for _, step := range []cloudtest.Fault{
			{Op: "PutRow", Target: AuditTable.Name},
			{Op: "PutObject"},
			{Op: "PutRow", Target: letter.LetterTable.Name},
			{Op: "UpdateRow", Target: letter.LetterTable.Name},
			{Op: "GetRow", Target: letter.LetterTable.Name, Skip: 2},
		} {
			t.Run(fmt.Sprintf("%s %s %s", phase, step.Op, step.Target), func(t *testing.T) {
				w := newWorld(t)
				parent := w.invalid(orderEvent("e1", "1", `"5.00"`))
				m := w.migrator()
				step.Phase, step.Kind, step.Times = phase, cloudtest.Drop, -1
				w.ots.Faults.Add(step)
				w.oss.Faults.Add(step)
				if _, _, err := m.Migrate(t.Context(), parent, "2", "amy", "why"); err != nil {
					crashes++
				}
				w.ots.Faults.Clear()
				w.oss.Faults.Clear()
				if ids := w.replayable(); len(ids) > 1 {
					t.Errorf("parent and child may both be replayed: %v", ids)
				}
				for _, l := range w.letters() {
					if l.ID != parent.ID && len(w.replayable()) == 1 && w.replayable()[0] == parent.ID {
						t.Error("a parent whose child is there may be replayed")
					}
				}
				w.now = w.now.Add(time.Second)
				child, _, err := m.Migrate(t.Context(), w.letter(parent.ID), "2", "amy", "why")
				if err != nil {
					t.Fatal(err)
				}
				if ids := w.replayable(); len(w.letters()) != 2 || len(ids) != 1 || ids[0] != child.ID {
					t.Errorf("%d letters, replayable %v", len(w.letters()), ids)
				}
				if l := w.letter(parent.ID); l.FinalStatus != letter.FinalMigrated || l.ChildID != child.ID {
					t.Errorf("parent %+v", l)
				}
				if n := len(w.ots.Rows(AuditTable.Name)); n != 1 {
					t.Errorf("%d audit rows", n)
				}
			})
		}
		if crashes == 0 {
			t.Error("nothing crashed")
		}
	}
}

func TestAMigrationIsRefusedWithoutATrace(t *testing.T) {
	effect := func(state idempotency.EffectState) func(p idempotency.Policy, r idempotency.Record) (idempotency.Record, error) {
		return func(p idempotency.Policy, r idempotency.Record) (idempotency.Record, error) {
			r.Effects = []idempotency.TaskEffect{{Name: "mail", Key: strings.Repeat("a", 64), State: state}}
			return p.Fail(r, r.Owner, r.UpdatedAt, idempotency.Failure{Code: idempotency.CodeInvalidRequest, Target: "fc:worker"})
		}
	}
	text := orderEvent("e1", "1", `"5.00"`)
	for name, c := range map[string]struct {
		event string
		seed  func(idempotency.Policy, idempotency.Record) (idempotency.Record, error)
		edit  func(*letter.Letter)
		to    string
		want  error
		text  string
	}{
		"a closed letter":                   {event: text, edit: func(l *letter.Letter) { l.FinalStatus = letter.FinalDiscarded }, want: ErrEnded},
		"the last generation":               {event: text, edit: func(l *letter.Letter) { l.Generation = MaxGenerations }, want: ErrGenerations},
		"a business that is done":           {event: text, seed: succeeded, want: ErrDone},
		"another key":                       {event: strings.Replace(text, `"amount"`, `"renumber":"2","amount"`, 1), want: ErrOtherKey},
		"an effect that was settled":        {event: text, seed: effect(idempotency.EffectSettled), want: ErrEffects},
		"an effect that may have happened":  {event: text, seed: effect(idempotency.EffectSent), want: ErrEffects},
		"made by this very migration":       {event: text, edit: func(l *letter.Letter) { l.Migration = "1..2" }, want: ErrMade},
		"an event that is valid already":    {event: orderEvent("e1", "1", "5"), text: "changes nothing"},
		"an event that stays invalid":       {event: orderEvent("e1", "1", "[]"), to: "identity", text: "/amount: type"},
		"a version that nothing leads to":   {event: text, to: "3", text: "1..2, 0..1, identity"},
		"a version that is not today's":     {event: text, to: "1", text: "migrate to that"},
		"bytes that are no event":           {event: "junk", text: "no event"},
		"an event that no flow wants":       {event: strings.Replace(text, `"type":"order"`, `"type":"x"`, 1), text: "no flow of today"},
		"an event of another environment":   {event: strings.Replace(text, `"prod"`, `"test"`, 1), text: "another environment"},
		"an event whose bytes were changed": {event: text, edit: func(l *letter.Letter) { l.RawSHA256 = strings.Repeat("0", 64) }, text: "not the one that was stored"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if c.seed != nil {
				w.record(c.event, c.seed)
			}
			l := w.letter(w.ingest(c.event)[0].Letter.ID)
			if c.seed != nil && l.FinalStatus == letter.FinalSkippedCompleted {
				l.FinalStatus = ""
			}
			if c.edit != nil {
				c.edit(&l)
			}
			if c.to == "" {
				c.to = "2"
			}
			objects := len(w.oss.Objects("letters"))
			_, _, err := w.migrator().Migrate(t.Context(), l, c.to, "amy", "why")
			if err == nil || (c.want != nil && !errors.Is(err, c.want)) || !strings.Contains(err.Error(), c.text) {
				t.Errorf("got %v", err)
			}
			if len(w.letters()) != 1 || len(w.oss.Objects("letters")) != objects || len(w.ots.Rows(AuditTable.Name)) != 0 {
				t.Error("something was stored")
			}
		})
	}
}

// S52: what fails again keeps its line, and the line has an end.
func TestALineOfMigrationsKeepsItsOriginAndEnds(t *testing.T) {
	w := newWorld(t)
	event := orderEvent("e1", "1", "5")
	w.record(event, failed(idempotency.CodeInvalidRequest))
	l := w.ingest(event)[0].Letter
	m := w.migrator()
	for generation := int64(1); generation <= MaxGenerations; generation++ {
		child, _, err := m.Migrate(t.Context(), l, flows.Identity, "amy", "the code was repaired")
		if err != nil {
			t.Fatal(err)
		}
		if child.Generation != generation || child.OriginalEventID != "e1" || child.ParentID != l.ID || child.InputDigest != l.InputDigest || child.Migration != flows.Identity {
			t.Errorf("child %+v", child)
		}
		if j, err := w.desk.Judge(t.Context(), child); err != nil || j.Decision != RepairRequired || j.Code != letter.CodeInvalidSchema || j.Fingerprint != child.Fingerprint {
			t.Errorf("judged %+v %v", j, err)
		}
		if _, _, err := m.Migrate(t.Context(), child, flows.Identity, "amy", "again"); !errors.Is(err, ErrMade) && !errors.Is(err, ErrGenerations) {
			t.Errorf("a child that was not replayed: %v", err)
		}
		// A replay that fails, as the replayer notes it.
		if err := w.desk.Letters.Amend(t.Context(), child.ID, func(l letter.Letter) (letter.Letter, error) {
			l.ReplayBatchID = "p"
			return l, nil
		}); err != nil {
			t.Fatal(err)
		}
		l = w.letter(child.ID)
	}
	if _, _, err := m.Migrate(t.Context(), l, flows.Identity, "amy", "once more"); !errors.Is(err, ErrGenerations) {
		t.Errorf("beyond the last generation: %v", err)
	}
	m.MaxGenerations = 4
	if _, _, err := m.Migrate(t.Context(), l, flows.Identity, "amy", "once more"); err != nil {
		t.Errorf("a cap that is configured: %v", err)
	}
}

func TestAChildIsNoConflictWithWhatItWasMigratedFrom(t *testing.T) {
	w := newWorld(t)
	event := orderEvent("e1", "1", `"5.00"`)
	w.record(event, failed(idempotency.CodeInvalidRequest))
	child, _, err := w.migrator().Migrate(t.Context(), w.ingest(event)[0].Letter, "2", "amy", "why")
	if err != nil {
		t.Fatal(err)
	}
	if j, err := w.desk.Judge(t.Context(), child); err != nil || j.Decision != RepairRequired || j.Record == nil || j.Record.InputDigest == child.InputDigest {
		t.Errorf("judged %+v %v", j, err)
	}
	stranger := w.ingest(orderEvent("e2", "1", "500"))[0]
	if stranger.Decision != ManualReview {
		t.Errorf("another input: %+v", stranger)
	}
	t.Run("and is done where that has succeeded", func(t *testing.T) {
		w := newWorld(t)
		l := w.invalid(event)
		child, _, err := w.migrator().Migrate(t.Context(), l, "2", "amy", "why")
		if err != nil {
			t.Fatal(err)
		}
		w.record(event, succeeded)
		if j, err := w.desk.Judge(t.Context(), child); err != nil || j.Decision != SkipCompleted {
			t.Errorf("judged %+v %v", j, err)
		}
	})
}

func TestAMigrationWaitsForAnOpenReview(t *testing.T) {
	w := newWorld(t)
	l := w.invalid(orderEvent("e1", "1", `"5.00"`))
	if _, err := w.desk.Reviews.Open(t.Context(), idempotency.Review{
		ID: idempotency.ConflictID(l.Key, l.InputDigest), Kind: idempotency.ReviewConflict, Key: l.Key, Flow: "order", Environment: "prod",
		EventDigest: l.InputDigest, FirstSeenAt: w.now, ExpiresAt: w.now.Add(time.Hour),
	}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := w.migrator().Migrate(t.Context(), l, "2", "amy", "why"); !errors.Is(err, ErrReview) {
		t.Errorf("got %v", err)
	}
}

func TestAMigratedEventStaysInItsFlow(t *testing.T) {
	w := newWorld(t)
	other := strings.NewReplacer("name: order", "name: other", "source: shop", "source: shop, $.data.kind: other", "{const: order}", "{const: other}", `{"number":"1"}`, `{"number":"1","kind":"other"}`)
	first := strings.NewReplacer("source: shop", "source: shop, $.data.kind: first", `{"number":"1"}`, `{"number":"1","kind":"first"}`)
	_, list, _ := strings.Cut(deskFlows, "flows:\n")
	set, err := flows.Load([]byte(first.Replace(deskFlows)+other.Replace(list)), nil)
	if err != nil {
		t.Fatal(err)
	}
	w.desk.Flows = set
	m := w.migrator()
	m.Migrations = []flows.Migration{{Flow: "order", From: "1", To: "2", Migrate: func(e flows.MigrationEvent) (flows.MigrationEvent, error) {
		data := e.Payload.(map[string]any)
		data["kind"], data["number"], data["amount"] = "other", "1", 5
		return e, nil
	}}}
	l := w.invalid(strings.Replace(orderEvent("e1", "", `"5"`), `"data":{`, `"data":{"kind":"first",`, 1))
	if l.Key != "" {
		t.Fatal("it has a key already")
	}
	if _, _, err := m.Migrate(t.Context(), l, "2", "amy", "why"); err == nil || !strings.Contains(err.Error(), "another flow, other") {
		t.Errorf("got %v", err)
	}
}

func TestAChildWaitsUntilItsParentNamesIt(t *testing.T) {
	w := newWorld(t)
	parent := w.invalid(orderEvent("e1", "1", `"5.00"`))
	m := w.migrator()
	prepared, err := m.Prepare(t.Context(), parent, "2")
	if err != nil {
		t.Fatal(err)
	}
	if len(w.letters()) != 1 || len(w.ots.Rows(AuditTable.Name)) != 0 {
		t.Error("preparing has stored something")
	}
	if err := w.desk.Letters.Create(t.Context(), prepared.Letter); err != nil {
		t.Fatal(err)
	}
	if why, err := Family(t.Context(), w.desk.Letters, m.Audit, prepared.Letter); err != nil || why.String() != WhyWaits.String() {
		t.Errorf("%q %v", why, err)
	}
	if err := w.desk.Close(t.Context(), parent.ID, letter.FinalDiscarded, "ben", "was faster"); err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Migrate(t.Context(), parent, "2", "amy", "why"); !errors.Is(err, ErrEnded) {
		t.Errorf("a parent that ended meanwhile: %v", err)
	}
	if ids := w.replayable(); len(ids) != 0 {
		t.Errorf("replayable: %v", ids)
	}
	w.ots.Faults.Add(cloudtest.Fault{Op: "GetRow", Kind: cloudtest.Drop, Times: -1})
	if _, err := Family(t.Context(), w.desk.Letters, m.Audit, prepared.Letter); err == nil {
		t.Error("a store that does not answer lets it through")
	}
}
