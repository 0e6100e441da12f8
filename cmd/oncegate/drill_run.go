package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/handler/fctest"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
	"github.com/oncegate/oncegate/scripts/ram"
)

// drillRoom is the local cloud of one drill, with its events and what was seen.
type drillRoom struct {
	*stack
	options stackOptions
	set     *flows.Set
	seen    drillEvidence
}

// drillTimeout is the time-out of the function; killTimeout is that of one that is
// killed: the lease of its run ends little later.
const (
	drillTimeout = 30 * time.Second
	killTimeout  = 3 * time.Second
)

// drillEvent is an event of a business that only the drill has.
func drillEvent(id, operation, content string) []byte {
	raw, _ := json.Marshal(map[string]any{
		"specversion": "1.0", "id": id, "source": "oncegate.drill", "type": "demo:task:content_review", "datacontenttype": "application/json",
		"aliyuneventbusname": localEnvironment,
		"data": map[string]any{
			"tenant_id": "drill", "task_type": "content_review", "operation": operation, "input_version": "v1",
			"requested_at": "2026-08-04T10:00:00Z", "reviewer_id": "u-17", "content": content,
		},
	})
	return raw
}

// openRoom starts a local cloud in a folder of its own.
func openRoom(ctx context.Context, o stackOptions, name string) (*drillRoom, error) {
	o.stateDir = filepath.Join(o.stateDir, name)
	if name == drillExit {
		o.timeout = killTimeout
	}
	set, err := loadFlows("")
	if err != nil {
		return nil, err
	}
	s, err := startStack(o)
	if err != nil {
		return nil, err
	}
	if _, err := s.setup(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return &drillRoom{stack: s, options: o, set: set, seen: drillEvidence{Decisions: []handler.Decision{}, History: []string{}, Outputs: []string{}}}, nil
}

// deliver hands an event to the function once.
func (r *drillRoom) deliver(ctx context.Context, raw []byte) error {
	resp, err := r.function.Invoke(ctx, fctest.Request{Payload: raw})
	if err != nil {
		return err
	}
	return r.note(resp.FunctionError == "", resp.ErrorType, resp.Payload)
}

// note keeps how one delivery ended.
func (r *drillRoom) note(ok bool, errorType string, payload []byte) error {
	decision := handler.DecisionRetry
	if errorType == string(idempotency.CodeInProgress) {
		decision = handler.DecisionInProgress
	}
	if ok {
		var result handler.Result
		if err := json.Unmarshal(payload, &result); err != nil {
			return fmt.Errorf("read the function's answer: %w", err)
		}
		decision = result.Decision
	}
	r.seen.Decisions = append(r.seen.Decisions, decision)
	return nil
}

// publish lets the local bus deliver an event until it is over.
func (r *drillRoom) publish(ctx context.Context, raw []byte) error {
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	bus, err := r.bus(r.options, abort)
	if err != nil {
		return err
	}
	defer bus.Close()
	tracked, err := bus.Publish(ctx, raw)
	if err != nil {
		return err
	}
	if _, err := tracked.Wait(ctx); err != nil {
		return interrupted(ctx, err)
	}
	for _, a := range tracked.History() {
		if err := r.note(a.Result.OK, a.Result.ErrorType, a.Result.Payload); err != nil {
			return err
		}
	}
	return nil
}

// gather reads what the stores hold of an event's business.
func gather(ctx context.Context, c *cloud, set *flows.Set, raw []byte, e *drillEvidence) error {
	e.Key = keyOf(set, raw, []byte(localKeySecret)).Key
	rec, _, err := idempotency.NewTable(c.store, idempotency.DefaultPolicy()).Get(ctx, e.Key)
	if err != nil {
		return err
	}
	e.Status, e.Revision, e.Attempt, e.ResultRef, e.ReplayBatchID = rec.Status, rec.Revision, rec.Attempt, rec.ResultRef.Object, rec.ReplayBatchID
	e.History = []string{}
	for _, s := range rec.History {
		e.History = append(e.History, strings.TrimSpace(fmt.Sprintf("%s %d %s", s.Status, s.Attempt, s.Code)))
	}
	e.Outputs, err = outputsOf(ctx, c.bucket, e.Key)
	return err
}

// outputsOf lists the stored outputs of a task.
func outputsOf(ctx context.Context, bucket *aliyun.Bucket, key string) ([]string, error) {
	names, err := bucket.List(ctx, "tasks/"+key+"/attempt-", 100)
	outputs := []string{}
	for _, n := range names {
		if strings.HasSuffix(n, "/output.json") {
			outputs = append(outputs, n)
		}
	}
	return outputs, err
}

func (r *drillRoom) gather(ctx context.Context, raw []byte) error {
	stats := r.function.Stats()
	r.seen.Killed, r.seen.ModelCalls, r.seen.Notifications = stats.Crashes, r.model.Calls(), len(r.targets.Notifications())
	for _, one := range stats.Instances {
		if one.Runs > 0 {
			r.seen.Processes++
		}
	}
	return gather(ctx, r.cloud, r.set, raw, &r.seen)
}

func sameEventTwice(ctx context.Context, r *drillRoom) error {
	raw := drillEvent("drill-1", "publish", "The same event arrives twice.")
	if err := r.deliver(ctx, raw); err != nil {
		return err
	}
	if err := r.gather(ctx, raw); err != nil {
		return err
	}
	r.seen.FirstRevision, r.seen.Processes = r.seen.Revision, 0
	if err := r.deliver(ctx, raw); err != nil {
		return err
	}
	return r.gather(ctx, raw)
}

// twoOwnersRace holds the first two claims until both are underway.
func twoOwnersRace(ctx context.Context, r *drillRoom) error {
	first, second := drillEvent("drill-1", "publish", "Two processes want it."), drillEvent("drill-2", "publish", "Two processes want it.")
	var mu sync.Mutex
	claims, both := 0, make(chan struct{})
	r.ots.Faults.Hook(func(c cloudtest.Call, p cloudtest.Phase) {
		if p != cloudtest.Before || c.Op != "PutRow" || !strings.HasPrefix(c.Target, idempotency.TaskTable.Name) {
			return
		}
		mu.Lock()
		if claims++; claims == 2 {
			close(both)
		}
		wait := claims <= 2
		mu.Unlock()
		if wait {
			select {
			case <-both:
			case <-time.After(2 * time.Second):
			}
		}
	})
	ended := make(chan error, 2)
	responses := make([]fctest.Response, 2)
	for i, raw := range [][]byte{first, second} {
		go func() {
			var err error
			responses[i], err = r.function.Invoke(ctx, fctest.Request{Payload: raw})
			ended <- err
		}()
	}
	if err := errors.Join(<-ended, <-ended); err != nil {
		return err
	}
	r.ots.Faults.Hook(nil)
	select {
	case <-both:
		r.seen.Claims = 2
	default:
		r.seen.Claims = 1
	}
	for _, resp := range responses {
		if err := r.note(resp.FunctionError == "", resp.ErrorType, resp.Payload); err != nil {
			return err
		}
	}
	if err := r.deliver(ctx, second); err != nil {
		return err
	}
	return r.gather(ctx, first)
}

// modelTimesOut holds the model's first answer back until nobody waits for it.
func modelTimesOut(ctx context.Context, r *drillRoom) error {
	raw := drillEvent("drill-1", "generate_summary", "The model has finished, and its answer does not arrive.")
	r.model.Faults.Add(cloudtest.Fault{Op: "ChatCompletion", Phase: cloudtest.After, Kind: cloudtest.Delay, Delay: 4 * r.options.modelTimeout})
	if err := r.publish(ctx, raw); err != nil {
		return err
	}
	return r.gather(ctx, raw)
}

// exitBeforeSettle kills the function's process as its settling write arrives.
func exitBeforeSettle(ctx context.Context, r *drillRoom) error {
	raw := drillEvent("drill-1", "generate_summary", "The process ends before the record says so.")
	key := keyOf(r.set, raw, []byte(localKeySecret)).Key
	var once sync.Once
	var looked error
	r.ots.Faults.Hook(func(c cloudtest.Call, p cloudtest.Phase) {
		if p != cloudtest.Before || c.Op != "UpdateRow" || !strings.HasPrefix(c.Target, idempotency.TaskTable.Name) {
			return
		}
		once.Do(func() {
			var stored []string
			stored, looked = outputsOf(ctx, r.bucket, key)
			r.seen.StoredAtKilling = len(stored)
			r.function.KillAll()
			// The call is on its way already: it ends with its caller.
			r.ots.Faults.Add(cloudtest.Fault{Op: c.Op, Target: c.Target, Phase: cloudtest.Before, Kind: cloudtest.Drop})
		})
	})
	if err := r.publish(ctx, raw); err != nil {
		return err
	}
	return errors.Join(looked, r.gather(ctx, raw))
}

// replayByAPerson walks the commands that people use, each as its own role.
func (a *app) replayByAPerson(ctx context.Context, r *drillRoom) error {
	raw := drillEvent("drill-1", "generate_title", "[[model delay=700ms times=-1]] The model is slow for a while.")
	if err := r.publish(ctx, raw); err != nil {
		return err
	}
	l, err := soleLetter(ctx, r.store)
	if err != nil {
		return err
	}
	r.seen.LetterID, r.seen.LetterCode, r.seen.LetterBefore = l.ID, l.Code, l.FinalStatus
	if err := r.gather(ctx, raw); err != nil {
		return err
	}
	r.Close() // the commands open the same state

	shared := []string{"--state-dir", r.options.stateDir, "--target", targetLocal, "--execute", "--yes", "--output", outputJSON}
	var made struct {
		Plan planView `json:"plan"`
	}
	out, err := a.command(ram.Operator, append([]string{"dlq", "plan", l.Fingerprint, "--reason", "drill: the model is quick again"}, shared...)...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, &made); err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	if _, err := a.command(ram.Approver, append([]string{"dlq", "approve", made.Plan.ID}, shared...)...); err != nil {
		return err
	}
	patient := append([]string{"dlq", "replay", made.Plan.ID, "--function", r.options.binary, "--model-timeout", "20s"}, shared...)
	if _, err := a.command(ram.Operator, patient...); err != nil {
		return err
	}
	c, err := openCloud(r.options.stateDir)
	if err != nil {
		return err
	}
	defer c.Close()
	return errors.Join(gatherPlan(ctx, c.store, made.Plan.ID, &r.seen), gather(ctx, c, r.set, raw, &r.seen))
}

// gatherPlan reads plan, approval and letter after the replay.
func gatherPlan(ctx context.Context, store *aliyun.Tablestore, id string, e *drillEvidence) error {
	plans := plan.NewStore(store)
	p, _, err := plans.Get(ctx, id)
	if err != nil {
		return err
	}
	e.Plan, e.PlanState, e.MadeBy = p.ID, p.State, p.MadeBy
	given, err := plans.Approval(ctx, id)
	if err != nil {
		return err
	}
	if given != nil {
		e.Verdict, e.VerdictBy = given.Verdict, given.By
	}
	l, err := soleLetter(ctx, store)
	e.LetterStatus, e.LetterEnded = l.FinalStatus, l.ClosedBy
	return err
}

func soleLetter(ctx context.Context, store *aliyun.Tablestore) (letter.Letter, error) {
	page, _, err := letter.NewTable(store).List(ctx, "", 2)
	if err == nil && len(page) != 1 {
		err = fmt.Errorf("%d letters, want 1", len(page))
	}
	if err != nil {
		return letter.Letter{}, err
	}
	return page[0], nil
}

// command runs one of this program's own commands as a role of the local cloud.
func (a *app) command(role ram.Role, args ...string) ([]byte, error) {
	var out, errOut bytes.Buffer
	code := run(args, bytes.NewReader(nil), &out, &errOut, func(name string) string {
		switch name {
		case localIdentityVariable:
			return string(role)
		case "ONCEGATE_TABLESTORE_ENDPOINT":
			return ""
		}
		return os.Getenv(name)
	})
	if code != 0 {
		return nil, fmt.Errorf("oncegate %s %s as %s: exit code %d: %s", args[0], args[1], role, code, strings.TrimSpace(errOut.String()))
	}
	return out.Bytes(), nil
}
