package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/artifacts/osstest"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/flows/modeltest"
	"github.com/oncegate/oncegate/flows/targettest"
	"github.com/oncegate/oncegate/handler/fctest"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/idempotency/otstest"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
	"github.com/oncegate/oncegate/internal/logline"
)

const (
	bucketName  = "oncegate-local"
	environment = "oncegate-local"
	modelKey    = "sk-planted-model-key-7f3a"
	keySecret   = "planted-key-secret-0123456789-abcdef"
)

// options describe a world. The zero value is one process with a minute for
// each invocation.
type options struct {
	instances int
	timeout   time.Duration
	abandon   bool
	env       map[string]string            // beside the usual environment
	issue     func() *cloudtest.Credential // overrides the next credential where not nil
	flows     string                       // flows.yaml instead of the one that is built in
	lag       time.Duration                // until records show at their target
	unwatched bool                         // no hooks: calls are not looked at
	delay     time.Duration                // of every call to the tables and the objects
}

// world is one environment: the stand-ins on their sockets and the function
// that runs against them.
type world struct {
	options
	t        testing.TB
	accepted cloudtest.Credentials
	tables   *otstest.Server
	objects  *osstest.Server
	model    *modeltest.Server
	targets  *targettest.Server
	fn       *fctest.Function
	output   lockedBuffer

	mu      sync.Mutex
	last    string   // access key of the last invocation
	secrets []string // everything that was handed out
	answers []fctest.Response
	journal []step
	strikes []strike // each in a delivery of its own
	armed   bool
	seen    map[string]int    // calls since the last delivery began, by kind
	results map[string]string // result_ref by key
}

func newWorld(t testing.TB, o options) *world {
	t.Helper()
	w := &world{options: o, t: t, results: map[string]string{}, seen: map[string]int{}}
	var err error
	w.tables, err = otstest.New(otstest.Options{Credentials: &w.accepted})
	w.start(err, w.tables)
	w.objects, err = osstest.New(osstest.Options{Credentials: &w.accepted})
	w.start(err, w.objects)
	w.model = modeltest.New(modeltest.Options{APIKey: modelKey})
	w.start(nil, w.model)
	w.targets, err = targettest.New(targettest.Options{VisibleAfter: o.lag, ConflictAfterVisible: o.lag > 0})
	w.start(err, w.targets)
	w.provision()

	w.fn, err = fctest.Start(fctest.Options{
		Binary: binary, Env: w.environ(), Instances: o.instances, Timeout: o.timeout, Abandon: o.abandon,
		Credentials: w.rotate, Stdout: &w.output, Stderr: &w.output,
	})
	if err != nil {
		t.Fatal(err)
	}
	// Cleanups run last first: the processes go before what they talk to.
	t.Cleanup(func() {
		if err := w.fn.Close(); err != nil {
			t.Error(err)
		}
		w.checkOutput()
	})
	for _, f := range w.faults() {
		if !o.unwatched {
			f.Hook(w.hook)
		}
	}
	if o.delay > 0 {
		slow := cloudtest.Fault{Kind: cloudtest.Delay, Phase: cloudtest.After, Times: -1, Delay: o.delay}
		w.tables.Faults.Add(slow)
		w.objects.Faults.Add(slow)
	}
	return w
}

// start starts a stand-in and closes it with the test.
func (w *world) start(err error, s interface {
	Start() error
	Close() error
},
) {
	w.t.Helper()
	if err == nil {
		err = s.Start()
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := s.Close(); err != nil {
			w.t.Error(err)
		}
	})
}

// provision creates what a deployment creates, with a credential that is
// revoked afterwards.
func (w *world) provision() {
	w.t.Helper()
	own := w.accepted.Issue(time.Time{})
	defer w.accepted.Revoke(own.AccessKeyID)
	transport := aliyun.NewTransport(1)
	defer transport.CloseIdleConnections()
	o := as(own, transport)
	createTables(w.t, w.tables.Endpoint(), o)
	bucket, err := aliyun.NewBucket(w.objects.Endpoint(), bucketName, o)
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := bucket.Create(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
}

// as are the options of a client that is no function.
func as(own cloudtest.Credential, transport *http.Transport) aliyun.Options {
	return aliyun.Options{Transport: transport, Credentials: func(context.Context) (aliyun.Credentials, error) {
		return aliyun.Credentials{AccessKeyID: own.AccessKeyID, AccessKeySecret: own.AccessKeySecret, SecurityToken: own.SecurityToken}, nil
	}}
}

func createTables(t testing.TB, endpoint string, o aliyun.Options) {
	t.Helper()
	store, err := aliyun.NewTablestore(endpoint, "oncegate", o)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range []aliyun.Table{
		idempotency.TaskTable, idempotency.ReviewTable, letter.LetterTable, plan.PlanTable, plan.ItemTable, plan.ApprovalTable,
	} {
		err = errors.Join(err, store.CreateTable(t.Context(), table))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// environ is the function's environment. The scale makes margin, reserve and
// back-off a hundredth of what they are in production.
func (w *world) environ() []string {
	env := map[string]string{
		"ONCEGATE_ENVIRONMENT":         environment,
		"ONCEGATE_TABLESTORE_ENDPOINT": w.tables.Endpoint(),
		"ONCEGATE_TABLESTORE_INSTANCE": "oncegate",
		"ONCEGATE_OSS_ENDPOINT":        w.objects.Endpoint(),
		"ONCEGATE_OSS_BUCKET":          bucketName,
		"ONCEGATE_MODEL_BASE_URL":      w.model.Endpoint(),
		"ONCEGATE_MODEL_NAME":          "demo-model",
		"ONCEGATE_MODEL_API_KEY":       modelKey,
		"ONCEGATE_KEY_SECRET":          keySecret,
		"ONCEGATE_TIME_SCALE":          "100",
		"ONCEGATE_LOG_LEVEL":           "debug",
		"ONCEGATE_NOTIFY_URL":          w.targets.Endpoint() + "/notify",
		"ONCEGATE_ROBOT_URL":           w.targets.Endpoint() + "/robot",
		"ONCEGATE_RECORDS_URL":         w.targets.Endpoint() + "/records",
	}
	if w.flows != "" {
		file := filepath.Join(w.t.TempDir(), "flows.yaml")
		if err := os.WriteFile(file, []byte(w.flows), 0o600); err != nil {
			w.t.Fatal(err)
		}
		env["ONCEGATE_FLOWS_FILE"] = file
	}
	for name, v := range w.env {
		env[name] = v
	}
	var list []string
	for name, v := range env {
		list = append(list, name+"="+v)
	}
	return list
}

// rotate hands out the next credential. Where invocations do not overlap, the
// one before is refused from then on.
func (w *world) rotate() cloudtest.Credential {
	w.mu.Lock()
	defer w.mu.Unlock()
	var next cloudtest.Credential
	if own := w.issued(); own != nil {
		next = *own
	} else {
		next = w.accepted.Issue(time.Time{})
	}
	if w.instances <= 1 && !w.abandon {
		w.accepted.Revoke(w.last)
	}
	w.last = next.AccessKeyID
	w.secrets = append(w.secrets, next.AccessKeySecret, next.SecurityToken)
	return next
}

// lasting hands out credentials that hold until the world ends.
func (w *world) lasting() cloudtest.Credential { return w.accepted.Issue(time.Time{}) }

func (w *world) issued() *cloudtest.Credential {
	if w.issue == nil {
		return nil
	}
	return w.issue()
}

func (w *world) faults() map[string]*cloudtest.Faults {
	return map[string]*cloudtest.Faults{"tablestore": w.tables.Faults, "oss": w.objects.Faults, "model": w.model.Faults, "target": w.targets.Faults}
}

// checkOutput looks for what no process may ever print.
func (w *world) checkOutput() {
	w.t.Helper()
	out := w.output.String()
	for _, bad := range []string{"DATA RACE", "panic", "fatal error", "goroutine "} {
		if strings.Contains(out, bad) {
			w.t.Errorf("a process printed %q:\n%s", bad, out)
			return
		}
	}
	for line := range strings.Lines(out) {
		// A process that is killed may leave half a line.
		if strings.HasPrefix(line, `{"time"`) && json.Valid([]byte(line)) {
			if err := logline.Check([]byte(line)); err != nil {
				w.t.Errorf("%v: %s", err, line)
			}
		}
	}
	if w.t.Failed() {
		w.t.Logf("the processes' last words:\n%s", out[max(0, len(out)-4000):])
	}
}

// lockedBuffer collects the output of processes while tests read it.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
