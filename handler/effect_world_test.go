package handler_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/flows/targettest"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

const targetToken = "planted-target-token"

// The effects that tests declare, one at a target of each kind.
const (
	notice = `{name: notice, uses: notify, kind: idempotent, timeout: 5s, fields: {notification_type: {const: placed}, recipient_id: {path: $.data.phone, sensitive: true}}}`
	alarm  = `{name: alarm, uses: robot, kind: opaque, timeout: 5s, fields: {recipient_id: {path: $.data.phone, sensitive: true}}}`
	entry  = `{name: entry, uses: record.create, kind: readable, timeout: 5s, visible_after: 1m, fields: {number: {path: $.data.number}}}`
	saved  = `{name: saved, uses: artifact.save, kind: idempotent, timeout: 5s, fields: {artifact_type: {const: draft}}}`
)

// kinds are the three kinds of target, with the operation that is the effect.
var kinds = map[idempotency.TargetKind]struct{ effect, op string }{
	idempotency.TargetIdempotent: {notice, "Notify"},
	idempotency.TargetOpaque:     {alarm, "Robot"},
	idempotency.TargetReadable:   {entry, "CreateRecord"},
}

// effectWorld is a world with targets for effects and one flow that has some.
type effectWorld struct {
	*world
	targets *targettest.Server
	effects []string // as the next instance declares them
	version string   // processor_version of the next instance
	budget  int
	gone    atomic.Bool // the process is dead: nothing of it reaches a target
}

func inEffectWorld(t *testing.T, o targettest.Options, effects []string, test func(t *testing.T, w *effectWorld)) {
	t.Helper()
	inWorld(t, func(t *testing.T, inner *world) {
		o.Token = targetToken
		targets, err := targettest.New(o)
		must(t, err)
		defer func() { must(t, targets.Close()) }()
		test(t, &effectWorld{world: inner, targets: targets, effects: effects, version: "1", budget: 6})
	})
}

func (w *effectWorld) text() string {
	return fmt.Sprintf(`
schema_version: 1
flows:
  - {name: order.place, owner: order-team, number_owner: shop, match: {type: demo:place}, processor: work, processor_version: %q, max_attempts: %d,
     key: {order_no: {path: $.data.order_no}, op: {const: order.place}}, effects: [%s],
     sample: '{"specversion":"1.0","id":"e","source":"shop","type":"demo:place","aliyuneventbusname":"test","data":{"order_no":"1","number":"R-1","phone":"1","amount":5}}'}
`, w.version, w.budget, strings.Join(w.effects, ", "))
}

func (w *effectWorld) instance(edits ...func(*handler.Options)) *handler.Handler {
	w.t.Helper()
	at := func(name, path string) flows.Target {
		return flows.Target{Name: name, URL: "http://target.example" + path, Token: targetToken}
	}
	return w.world.instance(append([]func(*handler.Options){func(o *handler.Options) {
		o.Flows = w.flows(w.text(), o.Processors)
		o.Effects = flows.Effects(flows.Tools{
			Drafts: o.Artifacts, Notify: at("notify", "/notify"), Robot: at("robot", "/robot"), Records: at("records", "/records"), Transport: w,
		})
	}}, edits...)...)
}

// RoundTrip is the way from a process to the targets.
func (w *effectWorld) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.gone.Load() {
		return nil, errors.New("the process is gone")
	}
	return w.targets.Transport().RoundTrip(r)
}

// kill ends the process: what it still tries reaches nothing any more.
func (w *effectWorld) kill() {
	w.gone.Store(true)
	w.held.Revoke(w.cred.AccessKeyID)
}

// revive is another process, after the lease of the dead one.
func (w *effectWorld) revive() {
	w.gone.Store(false)
	w.cred = w.held.Issue(time.Time{})
	time.Sleep(timeLimit + policy.Margin + time.Second)
}

func place(id, no string, amount int) []byte {
	return event(id, "demo:place", "s", fmt.Sprintf(`{"order_no":%q,"number":"R-%s","phone":%q,"amount":%d}`, no, no, phone, amount))
}

// effectKeys are the keys of an event's effects by name.
func (w *effectWorld) effectKeys(raw []byte) map[string]string {
	w.t.Helper()
	e, err := events.Decode(raw)
	must(w.t, err)
	f := w.flows(w.text(), nil).Find(e)
	in, err := f.Input(e)
	must(w.t, err)
	key, err := f.Key(in, []byte(keySecret))
	must(w.t, err)
	all, err := f.TaskEffects(key.Hex, in, []byte(keySecret))
	must(w.t, err)
	keys := map[string]string{}
	for _, one := range all {
		keys[one.Name] = one.Key
	}
	return keys
}

// happened counts the effects that are real at all targets.
func (w *effectWorld) happened() int {
	return len(w.targets.Notifications()) + len(w.targets.RobotMessages()) + len(w.targets.Records())
}

func (w *effectWorld) task() idempotency.Record {
	w.t.Helper()
	var tasks []idempotency.Record
	for _, row := range w.tables.Rows(idempotency.TaskTable.Name) {
		if row.Columns["kind"] == idempotency.KindTask {
			r, err := idempotency.ParseRecord(row.PrimaryKey[0].Value.(string), row.Columns)
			must(w.t, err)
			tasks = append(tasks, r)
		}
	}
	if len(tasks) != 1 {
		w.t.Fatalf("%d tasks, want 1", len(tasks))
	}
	return tasks[0]
}

func (w *effectWorld) stands(status idempotency.Status, attempt int64) idempotency.Record {
	w.t.Helper()
	r := w.task()
	if r.Status != status || r.Attempt != attempt {
		w.t.Fatalf("the task is %s at attempt %d, want %s at %d\n%s", r.Status, r.Attempt, status, attempt, w.logs)
	}
	return r
}

// row is the row of an effect, which must be in a state; "" wants no row.
func (w *effectWorld) row(name string, want idempotency.EffectState) idempotency.Effect {
	w.t.Helper()
	for _, row := range w.tables.Rows(idempotency.TaskTable.Name) {
		if row.Columns["kind"] == idempotency.KindEffect && row.Columns["effect"] == name {
			e, err := idempotency.ParseEffect(row.PrimaryKey[0].Value.(string), row.Columns)
			must(w.t, err)
			if e.State != want {
				w.t.Fatalf("effect %s is %s, want %q\n%s", name, e.State, want, w.logs)
			}
			return e
		}
	}
	if want != "" {
		w.t.Fatalf("effect %s has no row, want %s\n%s", name, want, w.logs)
	}
	return idempotency.Effect{}
}

// deliverUntilAcked redelivers as the platform does, with hours in between.
func (w *effectWorld) deliverUntilAcked(raw []byte) outcome {
	w.t.Helper()
	var o outcome
	for range 12 {
		if o = w.again(w.instance(), raw); o.err == nil {
			return o
		}
		time.Sleep(time.Hour)
	}
	w.t.Fatalf("never acknowledged: %v\n%s", o, w.logs)
	return o
}

// refuse plans an answer of a target that has done nothing.
func (w *effectWorld) refuse(op string, status, times int) {
	w.targets.Faults.Add(cloudtest.Fault{Op: op, Kind: cloudtest.Status, Status: status, Times: times})
}

// openReview is the one open review of kind outcome_unknown.
func (w *effectWorld) openReview() idempotency.Review {
	w.t.Helper()
	all, _, err := idempotency.NewReviews(w.store).List(w.ctx(), "", "", 100)
	must(w.t, err)
	var open []idempotency.Review
	for _, r := range all {
		if r.State == idempotency.ReviewOpen {
			open = append(open, r)
		}
	}
	if len(open) != 1 {
		w.t.Fatalf("%d open reviews, want 1: %+v\n%s", len(open), all, w.logs)
	}
	return open[0]
}
