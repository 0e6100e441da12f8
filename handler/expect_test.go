package handler_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/idempotency/otstest"
)

// outcome is what the platform learns of one delivery.
type outcome struct {
	handler.Result
	err error
}

func (o outcome) String() string { return fmt.Sprintf("%+v, error %v", o.Result, o.err) }

func (w *world) deliver(h *handler.Handler, raw []byte) outcome {
	ctx, cancel := context.WithTimeout(w.ctx(), w.limit)
	defer cancel()
	return w.deliverWith(ctx, h, raw, handler.Delivery{})
}

// again is a redelivery that says so.
func (w *world) again(h *handler.Handler, raw []byte) outcome {
	ctx, cancel := context.WithTimeout(w.ctx(), w.limit)
	defer cancel()
	return w.deliverWith(ctx, h, raw, handler.Delivery{RetryCount: 1})
}

func (w *world) deliverWith(ctx context.Context, h *handler.Handler, raw []byte, d handler.Delivery) outcome {
	d.RequestID, d.FunctionName, d.Version = "request", "gate", "7"
	result, err := h.Handle(ctx, raw, d)
	if err != nil {
		var re *handler.RetryError
		if !errors.As(err, &re) {
			w.t.Errorf("an error of type %T", err)
			return outcome{result, err}
		}
		w.mu.Lock()
		w.texts = append(w.texts, err.Error(), re.Result.Reason)
		w.mu.Unlock()
		return outcome{re.Result, err}
	}
	return outcome{result, nil}
}

// start runs a delivery beside the test.
func (w *world) start(deliver func() outcome) <-chan outcome {
	done := make(chan outcome, 1)
	go func() { done <- deliver() }()
	return done
}

// acked fails the test unless the delivery was acknowledged with a decision.
func (w *world) acked(o outcome, want handler.Decision) {
	w.t.Helper()
	if o.err != nil || o.Decision != want {
		w.t.Fatalf("got %v, want it acknowledged as %s\n%s", o, want, w.logs)
	}
}

// retried fails the test unless the delivery must come again with a code.
func (w *world) retried(o outcome, want idempotency.Code) {
	w.t.Helper()
	var re *handler.RetryError
	if !errors.As(o.err, &re) || re.Code != want {
		w.t.Fatalf("got %v, want an error with code %s\n%s", o, want, w.logs)
	}
}

// record is the one task record.
func (w *world) record() idempotency.Record {
	w.t.Helper()
	records := w.records()
	if len(records) != 1 {
		w.t.Fatalf("%d records, want 1", len(records))
	}
	return records[0]
}

func (w *world) records() []idempotency.Record {
	w.t.Helper()
	var records []idempotency.Record
	for _, row := range w.tables.Rows(idempotency.TaskTable.Name) {
		r, err := idempotency.ParseRecord(row.PrimaryKey[0].Value.(string), row.Columns)
		must(w.t, err)
		records = append(records, r)
	}
	return records
}

// stands fails the test unless the one record is in a state.
func (w *world) stands(status idempotency.Status, attempt int64) idempotency.Record {
	w.t.Helper()
	r := w.record()
	if r.Status != status || r.Attempt != attempt {
		w.t.Fatalf("record is %s at attempt %d, want %s at %d\n%s", r.Status, r.Attempt, status, attempt, w.logs)
	}
	return r
}

func (w *world) letters() []letter.Letter {
	w.t.Helper()
	all, _, err := letter.NewTable(w.store).List(w.ctx(), "", 100)
	must(w.t, err)
	return all
}

// openLetter is the one letter, which must be open, have a code, and name the raw event.
func (w *world) openLetter(code letter.Code, raw []byte) letter.Letter {
	w.t.Helper()
	all := w.letters()
	if len(all) != 1 || !all[0].Open() || all[0].Code != code {
		w.t.Fatalf("letters are %+v, want one open %s", all, code)
	}
	w.holds(all[0], raw)
	return all[0]
}

func (w *world) holds(l letter.Letter, raw []byte) {
	w.t.Helper()
	ref, err := l.Raw()
	must(w.t, err)
	if body, ok := w.object(ref.Object); !ok || !bytes.Equal(body, raw) || l.RawSHA256 != idempotency.DigestBinary(raw) {
		w.t.Fatalf("the letter's object %s is not the event", l.RawRef)
	}
}

func (w *world) reviews() []otstest.Row { return w.tables.Rows(idempotency.ReviewTable.Name) }

// object is the newest version under a name.
func (w *world) object(name string) (body []byte, ok bool) {
	for _, o := range w.objects.Objects(bucketName) {
		if o.Key == name {
			body, ok = o.Body, !o.DeleteMarker
		}
	}
	return body, ok
}

func (w *world) outputs() []string {
	var names []string
	for _, o := range w.objects.Objects(bucketName) {
		if strings.HasSuffix(o.Key, "/output.json") {
			names = append(names, o.Key)
		}
	}
	return names
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
