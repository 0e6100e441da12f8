package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

// asCommand is the variable that makes TestMain run this binary as the command.
const asCommand = "ONCEGATE_TEST_AS_COMMAND"

func TestUpServesPublishersAndReadersUntilItIsStopped(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe, "local", "up", "--output", "json", "--function", functionBinary, "--state-dir", t.TempDir())
	cmd.Env = append(os.Environ(), asCommand+"=1")
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var progress safeBuffer
	cmd.Stderr = &progress
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	var up upReport
	dec := json.NewDecoder(stdout)
	dec.DisallowUnknownFields()
	if err := dec.Decode(&up); err != nil {
		t.Fatalf("%v\n%s", err, progress.String())
	}
	event, err := os.ReadFile("../../events/samples/01-summary.json")
	if err != nil {
		t.Fatal(err)
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, event); err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(up.EventBridge.Endpoint+"/openapi/putEvents", "application/cloudevents-batch+json", strings.NewReader("["+compact.String()+"]"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("an unsigned call of the service's own form is answered with %d", resp.StatusCode)
	}
	producer := up.Roles["publisher"]
	bus, err := aliyun.NewPublisher(up.EventBridge.Endpoint, aliyun.Options{Credentials: fixed(aliyun.Credentials{
		AccessKeyID: producer.AccessKeyID, AccessKeySecret: producer.AccessKeySecret, SecurityToken: producer.SecurityToken,
	})})
	if err != nil {
		t.Fatal(err)
	}
	answers, err := bus.PutEvents(t.Context(), up.EventBridge.Bus, [][]byte{compact.Bytes(), []byte(`{"specversion":"1.0"}`)})
	if err != nil || answers[0].Code != "" || answers[1].Code == "" {
		t.Fatalf("%+v %v", answers, err)
	}

	store, err := aliyun.NewTablestore(up.Tablestore.Endpoint, up.Tablestore.Instance, aliyun.Options{
		Credentials: fixed(aliyun.Credentials{
			AccessKeyID: up.Tablestore.AccessKeyID, AccessKeySecret: up.Tablestore.AccessKeySecret, SecurityToken: up.Tablestore.SecurityToken,
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	const key = "423fb1e078de33c0940bbc7c9356c6f6f083e7d8b699791acba9f4238e69641a"
	tasks := idempotency.NewTable(store, idempotency.DefaultPolicy())
	for range 600 { // a minute at most
		r, ok, err := tasks.Get(context.Background(), key)
		if err != nil {
			t.Fatal(err)
		}
		if ok && r.Status == idempotency.StatusSucceeded {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	r, ok, err := tasks.Get(context.Background(), key)
	if err != nil || !ok || r.Status != idempotency.StatusSucceeded {
		t.Fatalf("the published event is not done: %+v %v\n%s", r, err, progress.String())
	}

	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if rest, _ := io.ReadAll(io.MultiReader(dec.Buffered(), stdout)); len(bytes.TrimSpace(rest)) > 0 {
		t.Errorf("stdout holds more than one line: %s", rest)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != exitInterrupted {
		t.Errorf("exit code %d, want %d\n%s", code, exitInterrupted, progress.String())
	}
	if _, err := http.Get(up.EventBridge.Endpoint); err == nil {
		t.Error("the endpoint is still served")
	}
}

// safeBuffer is written by a process and read by a test.
type safeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *safeBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *safeBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
