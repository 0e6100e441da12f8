package handler_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/artifacts/osstest"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/flows/modeltest"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/idempotency/otstest"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
	"github.com/oncegate/oncegate/internal/logline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	bucketName  = "room"
	environment = "test"
	modelKey    = "sk-planted-model-key"
	keySecret   = "planted-key-secret-0123456789abcdef"
	timeLimit   = time.Minute // of an invocation where a test sets none
)

var (
	// The nanoseconds matter: what is stored has milliseconds.
	start  = time.Date(2026, 8, 4, 10, 0, 0, 123_456_789, time.UTC)
	policy = idempotency.DefaultPolicy()
)

// world is the cloud that instances share. It lives in a synctest bubble, so
// time.Now is its clock and sleeping takes no time.
type world struct {
	t       *testing.T
	tables  *otstest.Server
	objects *osstest.Server
	model   *modeltest.Server
	held    *cloudtest.Credentials
	cred    cloudtest.Credential // of the next delivery
	store   *aliyun.Tablestore
	bucket  *aliyun.Bucket
	work    *work
	logs    *logBuffer
	texts   []string // of every error that a delivery ended with
	owners  atomic.Int64
	traffic traffic
	limit   time.Duration // of an invocation
	forged  bool          // the test has written or removed steps itself

	mu          sync.Mutex
	tableHooks  []func(cloudtest.Call, cloudtest.Phase)
	objectHooks []func(cloudtest.Call, cloudtest.Phase)
	ahead       time.Duration // of the services' clocks
}

// inWorld runs a test in a new world.
func inWorld(t *testing.T, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(start))
		w := &world{t: t, held: new(cloudtest.Credentials), work: &work{version: "w1"}, logs: new(logBuffer), limit: timeLimit}
		w.cred = w.held.Issue(time.Time{})
		now := func() time.Time { return time.Now().Add(w.ahead) }
		var err error
		w.tables, err = otstest.New(otstest.Options{Credentials: w.held, Now: now})
		must(t, err)
		defer w.tables.Close()
		w.objects, err = osstest.New(osstest.Options{Credentials: w.held, Now: now})
		must(t, err)
		defer w.objects.Close()
		w.model = modeltest.New(modeltest.Options{APIKey: modelKey})
		defer w.model.Close()
		w.store, w.bucket = w.clients(nil)
		for _, table := range []aliyun.Table{
			idempotency.TaskTable, idempotency.ReviewTable, letter.LetterTable, plan.PlanTable, plan.ItemTable, plan.ApprovalTable,
		} {
			must(t, w.store.CreateTable(w.ctx(), table))
		}
		_, err = w.bucket.Create(w.ctx())
		must(t, err)
		w.tables.Faults.Hook(func(c cloudtest.Call, p cloudtest.Phase) { w.fire(&w.tableHooks, c, p) })
		w.objects.Faults.Hook(func(c cloudtest.Call, p cloudtest.Phase) { w.fire(&w.objectHooks, c, p) })
		w.tables.Faults.ResetCalls()
		w.objects.Faults.ResetCalls()
		test(t, w)
		w.checkLog()
	})
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) fire(hooks *[]func(cloudtest.Call, cloudtest.Phase), c cloudtest.Call, p cloudtest.Phase) {
	w.mu.Lock()
	all := append([]func(cloudtest.Call, cloudtest.Phase){}, *hooks...)
	w.mu.Unlock()
	for _, hook := range all {
		hook(c, p)
	}
}

func (w *world) onTables(hook func(cloudtest.Call, cloudtest.Phase)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tableHooks = append(w.tableHooks, hook)
}

func (w *world) onObjects(hook func(cloudtest.Call, cloudtest.Phase)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.objectHooks = append(w.objectHooks, hook)
}

// once runs fn at the first call of op whose target holds target, in one phase.
// Calls that fn makes itself pass.
func once(op, target string, phase cloudtest.Phase, fn func()) func(cloudtest.Call, cloudtest.Phase) {
	var done atomic.Bool
	return func(c cloudtest.Call, p cloudtest.Phase) {
		if c.Op == op && strings.Contains(c.Target, target) && p == phase && done.CompareAndSwap(false, true) {
			fn()
		}
	}
}

type credentialKey struct{}

func (w *world) ctx() context.Context {
	return context.WithValue(context.Background(), credentialKey{}, w.cred)
}

func (w *world) clients(skew *aliyun.Skew) (*aliyun.Tablestore, *aliyun.Bucket) {
	o := aliyun.Options{
		Credentials: func(ctx context.Context) (aliyun.Credentials, error) {
			c, ok := ctx.Value(credentialKey{}).(cloudtest.Credential)
			if !ok {
				return aliyun.Credentials{}, errors.New("a call without an invocation")
			}
			return aliyun.Credentials{AccessKeyID: c.AccessKeyID, AccessKeySecret: c.AccessKeySecret, SecurityToken: c.SecurityToken}, nil
		},
		Transport: w.traffic.through(w.tables.Transport()), OSSTransport: w.traffic.through(w.objects.Transport()), Skew: skew,
	}
	store, err := aliyun.NewTablestore("http://tables.example", "oncegate", o)
	must(w.t, err)
	bucket, err := aliyun.NewBucket("http://127.0.0.1", bucketName, o)
	must(w.t, err)
	return store, bucket
}

func (w *world) flows(text string, processors map[string]flows.Processor) *flows.Set {
	w.t.Helper()
	set, err := flows.Load([]byte(text), processors)
	must(w.t, err)
	return set
}

// instance is one function instance: a handler with its own cache.
func (w *world) instance(edits ...func(*handler.Options)) *handler.Handler {
	w.t.Helper()
	processors := flows.Processors(flows.Tools{Model: flows.NewModel(flows.ModelOptions{
		BaseURL: w.model.Endpoint(), Name: "qwen-test", APIKey: modelKey, Transport: w.model.Transport(),
	})})
	processors["work"] = w.work
	skew := new(aliyun.Skew)
	store, bucket := w.clients(skew)
	o := handler.Options{
		Flows: w.flows(flowsText, processors), Processors: processors,
		Ledger: idempotency.NewLedger(store, policy), Tasks: idempotency.NewTable(store, policy), Reviews: idempotency.NewReviews(store),
		Letters: letter.NewTable(store), Artifacts: artifacts.NewStore(bucket, "AES256"), Plans: plan.NewStore(store),
		Environment: environment, KeySecret: []byte(keySecret), Policy: policy,
		ReserveMin: 2 * time.Second, ReserveMax: 10 * time.Second,
		Now: time.Now, NewOwner: func() string { return fmt.Sprintf("%08x-owner-token-of-a-run", w.owners.Add(1)) },
		Skew: skew.Value, Log: logline.NewLogger(w.logs, slog.LevelInfo),
	}
	for _, edit := range edits {
		edit(&o)
	}
	h, err := handler.New(o)
	must(w.t, err)
	return h
}

// drop plans a fault that keeps calls from the service.
