package handler_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// sealing makes an instance seal its letters.
func (w *world) sealing(key *artifacts.PrivateKey) func(*handler.Options) {
	return func(o *handler.Options) {
		_, bucket := w.clients(new(aliyun.Skew))
		o.Artifacts = artifacts.NewStore(bucket, "AES256").Sealing(key.Public())
	}
}

// raw reads a letter's bytes as its row says.
func (w *world) raw(l letter.Letter, keys artifacts.PrivateKeys) []byte {
	w.t.Helper()
	ref, err := l.Raw()
	must(w.t, err)
	_, bucket := w.clients(new(aliyun.Skew))
	raw, err := artifacts.NewStore(bucket, "AES256").ReadLetter(w.ctx(), l.ID, ref, keys)
	must(w.t, err)
	return raw
}

func TestSealedLettersShowNothingOfTheirEventInTheBucket(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		key, err := artifacts.NewPrivateKey()
		must(t, err)
		message := func(id, content string) []byte {
			return event(id, "demo:message", "s", `{"phone":"`+phone+`","content":"`+content+`"}`)
		}
		sealed := w.sealing(key)
		w.acked(w.deliver(w.instance(sealed), message("e1", "hello")), handler.DecisionExecuted)
		events := [][]byte{[]byte("junk " + phone), event("e3", "demo:nobody", "s", `"`+phone+`"`), message("e4", "parked"), message("e5", "other")}
		for _, raw := range events[:2] {
			w.acked(w.deliver(w.instance(sealed), raw), handler.DecisionDeadLetter)
		}
		w.acked(w.deliver(w.instance(sealed, off), events[2]), handler.DecisionConflict)
		w.acked(w.deliver(w.instance(sealed), events[3]), handler.DecisionConflict)
		letters := 0
		for _, o := range w.objects.Objects(bucketName) {
			if strings.HasSuffix(o.Key, "/event.bin") {
				letters++
				if bytes.Contains(o.Body, []byte(phone)) {
					t.Errorf("%s holds the number in clear", o.Key)
				}
			}
		}
		if letters != len(events) || len(w.letters()) != len(events) {
			t.Fatalf("%d objects and %d letters of %d events", letters, len(w.letters()), len(events))
		}
		for _, l := range w.letters() {
			raw := w.raw(l, artifacts.PrivateKeys{key})
			found := false
			for _, e := range events {
				found = found || bytes.Equal(e, raw)
			}
			if !found {
				t.Errorf("letter %s opens to %q", l.ID, raw)
			}
		}
		w.leaks(phone)
	})
}

// Two deliveries of one event id whose bytes differ where the flow does not
// look share one letter and one object name.
func TestTwoDeliveriesThatCrossLeaveALetterThatReadsTheBytesItNames(t *testing.T) {
	for _, cross := range []struct {
		name, op, target string
		phase            cloudtest.Phase
	}{
		{"after the first object", "PutObject", "/event.bin", cloudtest.After},
		{"before the first object", "PutObject", "/event.bin", cloudtest.Before},
		{"before the first row", "PutRow", letter.LetterTable.Name, cloudtest.Before},
		{"after the first row", "PutRow", letter.LetterTable.Name, cloudtest.After},
	} {
		for _, sealed := range []bool{false, true} {
			t.Run(cross.name+map[bool]string{true: ", sealed"}[sealed], func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					edits := []func(*handler.Options){off}
					var keys artifacts.PrivateKeys
					if sealed {
						key, err := artifacts.NewPrivateKey()
						must(t, err)
						keys = artifacts.PrivateKeys{key}
						edits = append(edits, w.sealing(key))
					}
					one := event("e1", "demo:order", "s", `{"order_no":"17","amount":5,"sent_at":"monday"}`)
					two := event("e1", "demo:order", "s", `{"order_no":"17","amount":5,"sent_at":"tuesday"}`)
					hook := once(cross.op, cross.target, cross.phase, func() {
						w.acked(w.deliver(w.instance(edits...), two), handler.DecisionParked)
					})
					w.onObjects(hook)
					w.onTables(hook)
					w.acked(w.deliver(w.instance(edits...), one), handler.DecisionParked)
					all := w.letters()
					if len(all) != 1 {
						t.Fatalf("letters %+v", all)
					}
					if all[0].DeliveryAttempts != 2 {
						t.Errorf("%d sightings", all[0].DeliveryAttempts)
					}
					if got := w.raw(all[0], keys); !bytes.Equal(got, one) && !bytes.Equal(got, two) {
						t.Errorf("got %q", got)
					}
				})
			})
		}
	}
}
