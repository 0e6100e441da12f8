package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/internal/aliyun"
)

// preflightAnswer is preflight's JSON.
type preflightAnswer struct {
	Target                  string
	Passed, Failed, Skipped int
	Flows                   []preflightFlow
}

func TestPreflightOnTheCloudPublishesPollsAndTakesNothingForGranted(t *testing.T) {
	at := servedCloud(t, t.TempDir())
	operator, producer := at.Roles["operator"], at.Roles["publisher"]
	env := map[string]string{
		"ONCEGATE_ENVIRONMENT": localEnvironment, "ONCEGATE_TABLESTORE_ENDPOINT": at.Tablestore.Endpoint, "ONCEGATE_TABLESTORE_INSTANCE": at.Tablestore.Instance,
		"ONCEGATE_OSS_ENDPOINT": at.OSS.Endpoint, "ONCEGATE_OSS_BUCKET": at.OSS.Bucket, "ONCEGATE_FC_ENDPOINT": at.FC.Endpoint, "ONCEGATE_FUNCTION": at.FC.Function,
		"ONCEGATE_EVENTBRIDGE_ENDPOINT": at.EventBridge.Endpoint, "ONCEGATE_KEY_SECRET": localKeySecret,
		"ALIBABA_CLOUD_ACCESS_KEY_ID": operator.AccessKeyID, "ALIBABA_CLOUD_ACCESS_KEY_SECRET": operator.AccessKeySecret, "ALIBABA_CLOUD_SECURITY_TOKEN": operator.SecurityToken,
		"ONCEGATE_PUBLISH_ACCESS_KEY_ID": producer.AccessKeyID, "ONCEGATE_PUBLISH_ACCESS_KEY_SECRET": producer.AccessKeySecret, "ONCEGATE_PUBLISH_SECURITY_TOKEN": producer.SecurityToken,
	}
	command := func(args ...string) (int, string, string) {
		var out, errOut bytes.Buffer
		code := run(args, strings.NewReader(""), &out, &errOut, func(name string) string { return env[name] })
		return code, out.String(), errOut.String()
	}
	if code, out, errOut := command("preflight", "order.create"); code != 0 || out != "" || !strings.Contains(errOut, "nothing was changed (--execute does it)") {
		t.Errorf("unasked: %d %s %s", code, out, errOut)
	}
	if code, _, errOut := command("preflight", "order.create", "--execute", "--output", "json"); code != exitRefused || !strings.Contains(errOut, "give --yes") {
		t.Errorf("unconfirmed: %d %s", code, errOut)
	}
	code, out, errOut := command("preflight", "order.create", "--execute", "--yes", "--output", "json")
	var got preflightAnswer
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
		t.Fatalf("%d %s %v\n%s", code, out, err, errOut)
	}
	var verdicts []string
	for _, s := range got.Flows[0].Steps {
		verdicts = append(verdicts, s.Verdict)
	}
	// No answer of a real target is lost: that check is not passed there.
	if diff := cmp.Diff([]string{stepPassed, stepPassed, stepSkipped, stepPassed, stepPassed}, verdicts); diff != "" {
		t.Errorf("%s\n%s", diff, out)
	}
	if s := got.Flows[0].Steps[2]; !strings.Contains(s.Evidence["effect record"], "SETTLED") || !strings.Contains(s.Why, "no target loses an answer on purpose here") {
		t.Errorf("got %+v", s)
	}
	if line := got.Flows[0].Steps[4].Evidence["log line"]; !strings.Contains(line, "decision: duplicate and idempotency_key: ") {
		t.Errorf("got %q", line)
	}
	if got.Target != targetCloud || got.Failed != 0 || len(got.Flows[0].Remains) != 3 {
		t.Errorf("got %+v", got)
	}
	// Without the producer's keys the operator's are not enough.
	env["ONCEGATE_PUBLISH_ACCESS_KEY_ID"] = ""
	if code, _, errOut := command("preflight", "order.create", "--execute", "--yes", "--output", "json"); code != exitRefused || !strings.Contains(errOut, "missing right: eventbridge:PutEvents") {
		t.Errorf("as operator: %d %s", code, errOut)
	}
}

// silentBus takes events and delivers none.
type silentBus struct{ taken int }

func (b *silentBus) PutEvents(_ context.Context, _ string, events [][]byte) ([]aliyun.Published, error) {
	b.taken += len(events)
	return make([]aliyun.Published, len(events)), nil
}

func TestATestEventThatNeverEndsIsWaitedForUntilTheTimeIsOver(t *testing.T) {
	now, looks := time.Date(2026, 8, 4, 10, 0, 0, 0, time.UTC), 0
	bus := new(silentBus)
	room := &cloudRoom{bus: bus, environment: "b", wait: time.Minute, now: func() time.Time { return now }, sleep: func(_ context.Context, d time.Duration) error {
		now = now.Add(d)
		return nil
	}}
	decision, err := room.deliver(t.Context(), []byte(`{"specversion":"1.0","id":"1","source":"s","type":"t"}`), func(context.Context) (bool, error) {
		looks++
		return false, nil
	})
	if err != nil || decision != "" || bus.taken != 1 || looks != 31 {
		t.Errorf("%q %v, %d events, %d looks", decision, err, bus.taken, looks)
	}
}
