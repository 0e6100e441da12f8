package handler_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

const deadLetter = handler.DecisionDeadLetter

func TestABadMemberHarmsItselfAlone(t *testing.T) {
	good := [][]byte{order("e1", "1", 5), order("e2", "2", 5)}
	quoted := func(text string) string {
		b, _ := json.Marshal(text)
		return string(b)
	}
	for name, c := range map[string]struct{ member, raw string }{ // raw "" where it is the member itself
		"a number":                         {member: "1e999999999"},
		"null":                             {member: "null"},
		"true":                             {member: "true"},
		"an empty object":                  {member: "{}"},
		"an array of events":               {member: string(batchOf(order("e3", "3", 5)))},
		"an empty array":                   {member: "[]"},
		"deep nesting":                     {member: strings.Repeat("[", 500) + strings.Repeat("]", 500)},
		"spaces inside":                    {member: "{ \"a\" :\t1 }"},
		"a text that is no JSON":           {quoted("hello \"you\"\n"), "hello \"you\"\n"},
		"an empty text":                    {member: `""`, raw: "\x00empty"},
		"a text of a text":                 {quoted(quoted("x")), `"x"`},
		"a text of a batch":                {quoted(string(batchOf(order("e3", "3", 5)))), string(batchOf(order("e3", "3", 5)))},
		"bad UTF-8":                        {member: strings.Replace(string(order("e3", "3", 5)), "shop", "sh\xffop", 1)},
		"a text with bad UTF-8":            {member: "\"\xff\xfe\""},
		"an unpaired surrogate":            {member: strings.Replace(string(order("e3", "3", 5)), "shop", `\ud800`, 1)},
		"a text with half a surrogate":     {member: `"\ud800"`},
		"two ids":                          {member: strings.Replace(string(order("e3", "3", 5)), `"id"`, `"id":"e9","id"`, 1)},
		"two equal names in data":          {member: strings.Replace(string(order("e3", "3", 5)), `"amount"`, `"amount":1,"amount"`, 1)},
		"an FC on-failure message":         {member: `{"requestContext":{},"requestPayload":"{}"}`},
		"an event that is larger than one": {member: strings.Replace(string(order("e3", "3", 5)), "{", "{"+strings.Repeat(" ", events.MaxSize), 1)},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				raw := batchOf(good[0], []byte(c.member), good[1])
				for i := range 2 {
					want := []handler.Decision{executed, deadLetter, executed}
					if i > 0 {
						want = []handler.Decision{duplicate, deadLetter, duplicate}
					}
					r := w.ackedBatch(w.instance(), raw, want...)
					kept := c.member
					switch c.raw {
					case "":
					case "\x00empty":
						kept = ""
					default:
						kept = c.raw
					}
					l := w.openLetter(letter.CodeInvalidSchema, []byte(kept))
					if l.ID != r[1].LetterID || l.ID != letter.RawID(idempotency.DigestBinary([]byte(kept))) || l.Key != "" {
						t.Errorf("letter %+v, answered %+v", l, r[1])
					}
					time.Sleep(time.Minute)
				}
				if w.work.runs() != 2 || len(w.records()) != 2 {
					t.Errorf("%d runs, %d records", w.work.runs(), len(w.records()))
				}
			})
		})
	}
}

func TestMembersThatNoClaimIsMadeForHaveTheirLetters(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		members := [][]byte{
			event("e1", "demo:nobody", "s", `{"a":1}`),
			event("e2", "demo:order", "s", `{"amount":5}`),
			bytes.Replace(order("e3", "3", 5), []byte(`"test"`), []byte(`"prod"`), 1),
			order("e4", "4", 5),
		}
		r := w.ackedBatch(w.instance(), batchOf(members...), deadLetter, deadLetter, handler.DecisionWrongEnvironment, executed)
		want := map[string]letter.Code{"e1": letter.CodeTargetNotFound, "e2": letter.CodeInvalidSchema, "e3": letter.CodeWrongEnvironment}
		for _, l := range w.letters() {
			i := slices.IndexFunc(r, func(one handler.Result) bool { return one.LetterID == l.ID })
			if i < 0 || l.Code != want[l.EventID] || r[i].EventID != l.EventID {
				t.Fatalf("letter %+v of %+v", l, r)
			}
			w.holds(l, members[i])
			delete(want, l.EventID)
		}
		if len(want) != 0 || w.work.runs() != 1 {
			t.Errorf("no letter for %v, %d runs", want, w.work.runs())
		}
	})
}

func TestAnArrayThatCannotBeCutIsOneLetter(t *testing.T) {
	for name, text := range map[string]string{
		"cut short":          string(order("e1", "1", 5)) + ",",
		"no JSON inside":     string(order("e1", "1", 5)) + ",hello]",
		"a comma too many":   string(order("e1", "1", 5)) + ",]",
		"trailing bytes":     string(order("e1", "1", 5)) + "] x",
		"a second array":     string(order("e1", "1", 5)) + "][]",
		"nothing":            "]",
		"nothing but spaces": " \n ] ",
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				raw := []byte("[" + text)
				r := w.ackedBatch(w.instance(), raw, deadLetter)
				if l := w.openLetter(letter.CodeInvalidSchema, raw); l.ID != r[0].LetterID {
					t.Errorf("letter %s, answered %+v", l.ID, r)
				}
				if w.work.runs() != 0 || len(w.records()) != 0 {
					t.Errorf("%d runs, %d records", w.work.runs(), len(w.records()))
				}
				w.objects.Faults.Add(drop("PutObject", "", 1))
				w.retriedBatch(w.instance(), raw, idempotency.CodeTemporaryUnavailable)
			})
		})
	}
}

func TestAMemberWhoseLetterCannotBeStoredComesAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		raw := batchOf([]byte("null"), order("e1", "1", 5))
		w.objects.Faults.Add(drop("PutObject", "dead-letters/", 1))
		w.retriedBatch(w.instance(), raw, idempotency.CodeTemporaryUnavailable, retry, executed)
		w.ackedBatch(w.instance(), raw, deadLetter, duplicate)
		w.openLetter(letter.CodeInvalidSchema, []byte("null"))
	})
}

func TestMembersThatShareALetterDoNotFightForIt(t *testing.T) {
	for name, member := range map[string]func(i int) []byte{
		"equal bytes": func(int) []byte { return []byte("null") },
		"one event without a flow, spelt in many ways": func(i int) []byte {
			return event("e1", "demo:nobody", "s", `{"a":1`+strings.Repeat(" ", i)+`}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(t *testing.T, w *world) {
				// Every call takes its time, so that side by side they would lose races.
				w.onTables(func(c cloudtest.Call, p cloudtest.Phase) {
					if p == cloudtest.Before {
						time.Sleep(time.Duration(5+c.Seq%7) * time.Millisecond)
					}
				})
				w.onObjects(func(c cloudtest.Call, p cloudtest.Phase) {
					if p == cloudtest.Before {
						time.Sleep(time.Duration(5+c.Seq%11) * time.Millisecond)
					}
				})
				var members [][]byte
				var want []handler.Decision
				for i := range 40 {
					members, want = append(members, member(i)), append(want, deadLetter)
				}
				r := w.ackedBatch(w.instance(), batchOf(members...), want...)
				all := w.letters()
				if len(all) != 1 || all[0].DeliveryAttempts != 40 || all[0].ID != r[39].LetterID {
					t.Errorf("letters %+v", all)
				}
			})
		})
	}
}

func TestALargeBatchOfSmallEventsIsABatch(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var members [][]byte
		var want []handler.Decision
		for i := range 3 {
			raw := order(fmt.Sprint("e", i), fmt.Sprint(i), 5)
			members = append(members, append(raw, bytes.Repeat([]byte(" "), events.MaxSize/2)...))
			want = append(want, executed)
		}
		w.ackedBatch(w.instance(), batchOf(members...), want...)
	})
}
