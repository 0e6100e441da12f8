package handler_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

const phone = "13800001111"

// leaks searches everything that is not the body of an input or a letter.
func (w *world) leaks(secrets ...string) {
	w.t.Helper()
	look := func(where, text string) {
		for _, s := range secrets {
			if strings.Contains(text, s) {
				w.t.Errorf("%s shows %s: %.300s", where, s, text)
			}
		}
	}
	look("the log", w.logs.String())
	for _, text := range w.texts {
		look("an error", text)
	}
	for _, table := range []string{idempotency.TaskTable.Name, idempotency.ReviewTable.Name, letter.LetterTable.Name} {
		for _, row := range w.tables.Rows(table) {
			look("table "+table, fmt.Sprint(row.PrimaryKey, row.Columns))
		}
	}
	for _, o := range w.objects.Objects(bucketName) {
		look("object name", o.Key)
		look("metadata of "+o.Key, fmt.Sprint(o.Metadata, o.Tags, o.ContentType))
		if !strings.HasSuffix(o.Key, "/input.json") && !strings.HasSuffix(o.Key, "/event.bin") {
			look("object "+o.Key, string(o.Body))
		}
	}
}

func TestPlantedSecretsAppearNowhere(t *testing.T) {
	message := func(id, content string) []byte {
		return event(id, "demo:message", "s", fmt.Sprintf(`{"phone":%q,"content":%q}`, phone, content))
	}
	for name, run := range map[string]func(w *world){
		"success": func(w *world) { w.acked(w.deliver(w.instance(), message("e1", "hello")), handler.DecisionExecuted) },
		"provider errors that quote the text": func(w *world) {
			for i, directive := range []string{
				"status=400", "status=401", "status=429", "status=503", "garbage", "error200", "cut", "delay=10m", "nochoices",
				"status=400 code=" + phone, "error200 code=" + phone, "finish=content_filter",
			} {
				raw := note(fmt.Sprint("e", i), fmt.Sprint("n", i), "[[model "+directive+"]] call "+phone)
				w.deliver(w.instance(), raw)
			}
		},
		"a provider's own code that holds it": func(w *world) {
			w.model.Faults.Add(cloudtest.Fault{Kind: cloudtest.Status, Status: 400, Code: "call " + phone})
			w.deliver(w.instance(), message("e1", "hello"))
		},
		"a conflict": func(w *world) {
			w.acked(w.deliver(w.instance(), message("e1", "hello")), handler.DecisionExecuted)
			w.acked(w.deliver(w.instance(), message("e2", "call "+phone)), handler.DecisionConflict)
		},
		"a flow that is off": func(w *world) { w.acked(w.deliver(w.instance(off), message("e1", phone)), handler.DecisionParked) },
		"no flow": func(w *world) {
			w.acked(w.deliver(w.instance(), event("e1", "demo:nobody", "s", `"`+phone+`"`)), handler.DecisionDeadLetter)
		},
		"no key": func(w *world) {
			w.acked(w.deliver(w.instance(), event("e1", "demo:message", "s", `{"phone":{"no":"`+phone+`"},"content":"c"}`)), handler.DecisionDeadLetter)
			w.acked(w.deliver(w.instance(), event("e1", "demo:order", "s", `{"order_no":["`+phone+`"]}`)), handler.DecisionDeadLetter)
		},
		"what is no event": func(w *world) {
			for _, raw := range []string{
				phone, `{"` + phone + `":1,"` + phone + `":2}`, `{"a":"` + phone + "\xff\"}", `{"a":` + phone + `x}`, `[` + phone + `]`,
				`{"specversion":"` + phone + `"}`, `{"specversion":"1.0","id":"e","source":"s","type":"t","data_base64":"` + phone + `!"}`,
			} {
				w.acked(w.deliver(w.instance(), []byte(raw)), handler.DecisionDeadLetter)
			}
		},
		"another environment": func(w *world) {
			raw := bytes.Replace(message("e1", phone), []byte(`"test"`), []byte(`"`+phone+`"`), 1)
			w.acked(w.deliver(w.instance(), raw), handler.DecisionWrongEnvironment)
		},
		"a large event that fails": func(w *world) {
			w.work.set(failing(unavailable))
			raw := append(event("e1", "demo:blob", "s", `"`+phone+`"`), bytes.Repeat([]byte(" "), 50<<10)...)
			w.retried(w.deliver(w.instance(), raw), unavailable.Code)
		},
		"a processor's error and panic": func(w *world) {
			for i, do := range []func(context.Context, flows.Task) (map[string]any, error){
				func(context.Context, flows.Task) (map[string]any, error) { return nil, errors.New("call " + phone) },
				func(context.Context, flows.Task) (map[string]any, error) { panic("call " + phone) },
				func(context.Context, flows.Task) (map[string]any, error) {
					return nil, &flows.Error{Failure: unavailable, Err: errors.New("call " + phone)}
				},
				func(context.Context, flows.Task) (map[string]any, error) {
					return map[string]any{phone: make(chan int)}, nil
				},
			} {
				w.work.set(do)
				if o := w.deliver(w.instance(), order(fmt.Sprint("e", i), fmt.Sprint(i), 5)); o.err == nil {
					w.t.Errorf("got %v", o)
				}
			}
		},
		"a broken record": func(w *world) {
			raw := order("e1", "17", 5)
			row, err := policy.First(w.claimOf(raw)).Columns()
			must(w.t, err)
			row["history"] = "{"
			must(w.t, w.store.Insert(w.ctx(), idempotency.TaskTable, w.claimOf(raw).Key.Hex, row))
			w.retried(w.deliver(w.instance(), raw), idempotency.CodeTemporaryUnavailable)
		},
		"stores that refuse": func(w *world) {
			w.tables.Faults.Add(cloudtest.Fault{Kind: cloudtest.Status, Status: 400, Code: "OTS" + phone + " text with data"})
			w.retried(w.deliver(w.instance(), message("e1", phone)), idempotency.CodeTemporaryUnavailable)
			w.objects.Faults.Add(cloudtest.Fault{Kind: cloudtest.Status, Status: 400, Code: "no " + phone, Times: -1})
			w.retried(w.deliver(w.instance(), message("e2", phone)), idempotency.CodeTemporaryUnavailable)
		},
		"credentials that are refused": func(w *world) {
			w.held.Revoke(w.cred.AccessKeyID)
			w.retried(w.deliver(w.instance(), message("e1", phone)), idempotency.CodeTemporaryUnavailable)
			w.retried(w.deliver(w.instance(), []byte(phone)), idempotency.CodeTemporaryUnavailable)
			w.held.Add(w.cred)
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(_ *testing.T, w *world) {
				run(w)
				w.leaks(w.cred.AccessKeySecret, w.cred.SecurityToken, modelKey, keySecret, phone)
			})
		})
	}
}

func TestASensitiveKeyFieldIsInTheInputAlone(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		raw := event("e1", "demo:message", "s", `{"phone":"`+phone+`","content":"hello"}`)
		w.acked(w.deliver(w.instance(), raw), handler.DecisionExecuted)
		r := w.record()
		body, _ := w.object("tasks/" + r.Key + "/input.json")
		if !bytes.Contains(body, []byte(phone)) || strings.Contains(r.KeyFields, phone) || r.KeyFields == "" {
			t.Errorf("input %s, key fields %s", body, r.KeyFields)
		}
		// Without the secret nobody can tell the key from the number.
		plain, err := idempotency.DeriveKey([]idempotency.Field{{Name: "phone", Value: phone}, {Name: "op", Value: "message.send"}}, nil)
		must(t, err)
		if plain.Hex == r.Key {
			t.Error("the key is made of the raw value")
		}
	})
}

func TestCredentialsAreThoseOfEachInvocation(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		h := w.instance()
		w.cred = w.held.Issue(time.Now().Add(time.Hour))
		w.acked(w.deliver(h, order("e1", "17", 5)), handler.DecisionExecuted)
		time.Sleep(2 * time.Hour) // they have expired on a warm instance
		w.retried(w.deliver(h, order("e2", "18", 5)), idempotency.CodeTemporaryUnavailable)
		if w.work.runs() != 1 {
			t.Errorf("%d runs", w.work.runs())
		}
		for i := range 3 {
			old := w.cred
			w.cred = w.held.Issue(time.Now().Add(time.Hour))
			w.held.Revoke(old.AccessKeyID)
			w.acked(w.deliver(h, order("e3", fmt.Sprint("n", i), 5)), handler.DecisionExecuted)
		}
	})
	t.Run("that end in the middle of a run lose nothing", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			h, raw := w.instance(), order("e1", "17", 5)
			w.cred = w.held.Issue(time.Time{})
			w.onObjects(once("PutObject", "/output.json", cloudtest.After, func() { w.held.Revoke(w.cred.AccessKeyID) }))
			w.retried(w.deliver(h, raw), idempotency.CodeTemporaryUnavailable)
			w.cred = w.held.Issue(time.Time{})
			w.stands(idempotency.StatusRunning, 1)
			time.Sleep(timeLimit + policy.Margin)
			w.acked(w.deliver(h, raw), handler.DecisionExecuted)
			if w.work.runs() != 1 {
				t.Errorf("%d runs", w.work.runs())
			}
		})
	})
	t.Run("and without any nothing is claimed", func(t *testing.T) {
		inWorld(t, func(t *testing.T, w *world) {
			ctx, cancel := context.WithTimeout(context.Background(), timeLimit)
			defer cancel()
			w.retried(w.deliverWith(ctx, w.instance(), order("e1", "17", 5), handler.Delivery{}), idempotency.CodeTemporaryUnavailable)
			if w.work.runs() != 0 {
				t.Errorf("%d runs", w.work.runs())
			}
		})
	})
}
