package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/events/ebtest"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// localRoom tries flows on the local cloud.
type localRoom struct {
	*stack
	bus      *ebtest.Bus
	stateDir string
}

func (r *localRoom) deliver(ctx context.Context, raw []byte, _ func(context.Context) (bool, error)) (handler.Decision, error) {
	tracked, err := r.bus.Publish(ctx, raw)
	if err != nil {
		return "", err
	}
	outcomes, err := tracked.Wait(ctx)
	if err != nil {
		return "", interrupted(ctx, err)
	}
	if len(outcomes) == 0 || !outcomes[0].Last.OK {
		return handler.DecisionRetry, nil
	}
	var result handler.Result
	if err := json.Unmarshal(outcomes[0].Last.Payload, &result); err != nil {
		return "", fmt.Errorf("read the function's answer: %w", err)
	}
	return result.Decision, nil
}

func (r *localRoom) again(ctx context.Context, raw []byte) (handler.Decision, error) {
	return r.deliver(ctx, raw, nil)
}

// operations are what the targets of effects are asked at the stand-in.
var operations = map[string]string{"notify": "Notify", "record.create": "CreateRecord"}

func (r *localRoom) lose(e *flows.DeclaredEffect) bool {
	op := operations[e.Uses]
	if op != "" {
		r.targets.Faults.Add(cloudtest.Fault{Op: op, Phase: cloudtest.After, Kind: cloudtest.Drop})
	}
	return op != ""
}

func (r *localRoom) atTarget(e *flows.DeclaredEffect, in *flows.Input, effectKey string) (n int, known bool) {
	switch e.Uses {
	case "notify":
		for _, one := range r.targets.Notifications() {
			if one.Key == effectKey {
				n++
			}
		}
		return n, true
	case "record.create":
		for _, one := range r.targets.Records() {
			if one.Number == e.Values(in)["number"] {
				n++
			}
		}
		return n, true
	}
	return 0, false
}

// logLine reads the function's log. The line of a delivery may reach the file a
// moment after its answer.
func (r *localRoom) logLine(ctx context.Context, key, eventID string) (line, where string) {
	file := filepath.Join(r.stateDir, "function.log")
	for range 20 {
		if raw, err := os.ReadFile(file); err == nil {
			if line := duplicateLine(raw, key, eventID); line != "" {
				return line, ""
			}
		}
		if sleep(ctx, 50*time.Millisecond) != nil {
			break
		}
	}
	return "", "not found in " + file
}

// duplicateLine is the log line of a delivery that was recognised, shortened to
// what says so.
func duplicateLine(log []byte, key, eventID string) string {
	lines := bufio.NewScanner(bytes.NewReader(log))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l struct {
			Time     string           `json:"time"`
			Msg      string           `json:"msg"`
			Decision handler.Decision `json:"decision"`
			EventID  string           `json:"event_id"`
			Key      string           `json:"idempotency_key"`
			Status   string           `json:"status"`
			Ref      string           `json:"result_ref"`
		}
		if json.Unmarshal(lines.Bytes(), &l) == nil && l.Decision == handler.DecisionDuplicate && l.Key == key && l.EventID == eventID {
			raw, _ := json.Marshal(l)
			return string(raw)
		}
	}
	return ""
}

// cloudRoom tries flows on the cloud.
type cloudRoom struct {
	bus         eventPutter
	call        caller
	environment string
	wait        time.Duration // at most, until an event is over
	now         func() time.Time
	sleep       func(context.Context, time.Duration) error
}

// pollEvery is how often the tables are read while an event is under way.
const pollEvery = 2 * time.Second

func (r *cloudRoom) deliver(ctx context.Context, raw []byte, done func(context.Context) (bool, error)) (handler.Decision, error) {
	out, err := events.ReadOutgoing(raw, r.environment)
	if err != nil {
		return "", err
	}
	one := &publishing{Outgoing: out}
	if err := (publisher{r.bus, r.sleep, func(string, ...any) {}}).send(ctx, []*publishing{one}); err != nil {
		return "", err
	}
	if one.outcome != publishAccepted {
		return "", fmt.Errorf("publish the test event: the bus refused it (%s)", one.code)
	}
	for end := r.now().Add(r.wait); ; {
		over, err := done(ctx)
		if err != nil || over {
			return "", err
		}
		if !r.now().Before(end) {
			return "", nil // the check says what is missing
		}
		if err := r.sleep(ctx, pollEvery); err != nil {
			return "", err
		}
	}
}

func (r *cloudRoom) again(ctx context.Context, raw []byte) (handler.Decision, error) {
	payload, failed, err := r.call(ctx, liveQualifier, raw)
	if err != nil {
		return "", fmt.Errorf("call the function: %w", err)
	}
	if failed {
		return handler.DecisionRetry, nil
	}
	var result handler.Result
	if err := json.Unmarshal(payload, &result); err != nil {
		return "", fmt.Errorf("read the function's answer: %w", err)
	}
	return result.Decision, nil
}

func (r *cloudRoom) lose(*flows.DeclaredEffect) bool { return false }

func (r *cloudRoom) atTarget(*flows.DeclaredEffect, *flows.Input, string) (int, bool) {
	return 0, false
}

func (r *cloudRoom) logLine(_ context.Context, key, eventID string) (line, where string) {
	return "", fmt.Sprintf("in the function's log store: decision: duplicate and idempotency_key: %s and event_id: %s", key, eventID)
}
