package simtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/artifacts/osstest"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/flows/modeltest"
	"github.com/oncegate/oncegate/flows/targettest"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/idempotency/otstest"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

var (
	start  = time.Date(2026, 8, 4, 10, 0, 0, 123_456_789, time.UTC)
	policy = idempotency.DefaultPolicy()
)

// world is one schedule: the cloud, the workers, the platform and the people.
type world struct {
	rnd        *rand.Rand
	releases   releases
	background context.Context
	style      style
	calm       bool // faults are over

	tables  *otstest.Server
	objects *osstest.Server
	model   *modeltest.Server
	targets *targettest.Server
	held    *cloudtest.Credentials
	cred    cloudtest.Credential
	secrets []string
	logs    bytes.Buffer
	admin   *aliyun.Tablestore
	reviews *idempotency.Reviews
	outages map[service]time.Time

	end  chan struct{}
	wake chan struct{}
	all  sync.WaitGroup // invocations

	mu     sync.Mutex // guards what goroutines of workers touch
	over   bool
	parked []*call
	ended  []*invocation

	workers  []*worker
	made     int
	chains   []*chain
	events   []*event
	resolves []*resolve
	errands  []*errand
	granted  map[string]granted // by approved plan
	planned  int
	desked   int
	revived  map[string]bool // letters that were replayed when all was quiet
	check    *checker

	steps  int
	faults map[string]int
	trace  []string
}

// worker is one instance of the function.
type worker struct {
	world   *world
	id      int
	h       *handler.Handler
	skew    time.Duration
	cred    cloudtest.Credential // of the running invocation
	running *invocation
	owners  int
	dead    chan struct{}
	crashed bool // guarded by world.mu
}

type credentialKey struct{}

func credentialsOf(ctx context.Context) (aliyun.Credentials, error) {
	c, ok := ctx.Value(credentialKey{}).(cloudtest.Credential)
	if !ok {
		return aliyun.Credentials{}, errors.New("a call without an invocation")
	}
	return aliyun.Credentials{AccessKeyID: c.AccessKeyID, AccessKeySecret: c.AccessKeySecret, SecurityToken: c.SecurityToken}, nil
}

func newWorld(seed uint64, r releases) (*world, error) {
	w := &world{
		rnd: rand.New(rand.NewPCG(seed, 0x6f6e6365)), releases: r, held: new(cloudtest.Credentials),
		end: make(chan struct{}), wake: make(chan struct{}, 1), faults: map[string]int{}, outages: map[service]time.Time{},
		granted: map[string]granted{}, revived: map[string]bool{},
	}
	w.style = drawStyle(w.rnd)
	w.check = newChecker(w)
	w.secrets = []string{modelKey, keySecret, person, phone, phone[1:]}
	w.rotate()
	w.background = context.WithValue(context.Background(), credentialKey{}, w.held.Issue(time.Time{}))
	var err error
	if w.tables, err = otstest.New(otstest.Options{Credentials: w.held}); err != nil {
		return nil, err
	}
	if w.objects, err = osstest.New(osstest.Options{Credentials: w.held}); err != nil {
		return nil, err
	}
	w.model = modeltest.New(modeltest.Options{APIKey: modelKey})
	if w.targets, err = targettest.New(targettest.Options{KeyTTL: 2 * time.Hour, VisibleAfter: 20 * time.Second, ConflictAfterVisible: w.style.lateConflict}); err != nil {
		return nil, err
	}
	o := aliyun.Options{Credentials: credentialsOf, Transport: watchedTables{w}, OSSTransport: w.objects.Transport()}
	if w.admin, err = aliyun.NewTablestore("http://tables.example", "oncegate", o); err != nil {
		return nil, err
	}
	w.reviews = idempotency.NewReviews(w.admin)
	bucket, err := aliyun.NewBucket("http://127.0.0.1", bucketName, o)
	if err != nil {
		return nil, err
	}
	for _, table := range []aliyun.Table{idempotency.TaskTable, idempotency.ReviewTable, letter.LetterTable, plan.PlanTable, plan.ApprovalTable} {
		if err := w.admin.CreateTable(w.background, table); err != nil {
			return nil, err
		}
	}
	_, err = bucket.Create(w.background)
	return w, err
}

// watchedTables shows the checker what people write.
type watchedTables struct{ world *world }

func (t watchedTables) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		var err error
		if body, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
	}
	resp, err := t.world.tables.Transport().RoundTrip(req)
	t.world.check.tables(describe(tablestore, req, body))
	return resp, err
}

func (w *world) close() {
	_ = w.tables.Close()
	_ = w.objects.Close()
	_ = w.model.Close()
	_ = w.targets.Close()
}

// nudge tells a sleeping driver that something has happened.
func (w *world) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// rotate replaces the credentials that invocations get from now on.
func (w *world) rotate() {
	w.cred = w.held.Issue(time.Time{})
	w.secrets = append(w.secrets, w.cred.AccessKeySecret, w.cred.SecurityToken)
}

func (w *world) base(s service) (http.RoundTripper, *cloudtest.Faults) {
	switch s {
	case tablestore:
		return w.tables.Transport(), w.tables.Faults
	case oss:
		return w.objects.Transport(), w.objects.Faults
	case model:
		return w.model.Transport(), w.model.Faults
	default:
		return w.targets.Transport(), w.targets.Faults
	}
}

func (w *world) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.logs.Write(p)
}

// newWorker starts an instance with an empty cache and a clock of its own.
func (w *world) newWorker() *worker {
	w.made++
	k := &worker{world: w, id: w.made, dead: make(chan struct{})}
	set := w.releases.on
	if !w.calm {
		if w.chance(w.style.skewed) {
			k.skew = time.Duration(w.rnd.IntN(2*int(w.style.skew.Milliseconds())+1))*time.Millisecond - w.style.skew
		}
		switch n := w.rnd.IntN(100); {
		case n < 4:
			set = w.releases.off
			w.faults["flows turned off"]++
		case n < 10:
			set = w.releases.next
			w.faults["another version deployed"]++
		}
	}
	if k.skew != 0 {
		w.faults["clock skewed"]++
	}
	now := func() time.Time { return time.Now().Add(k.skew) }
	skew := new(aliyun.Skew)
	o := aliyun.Options{Credentials: credentialsOf, Transport: gate{w, k, tablestore}, OSSTransport: gate{w, k, oss}, Now: now, Skew: skew}
	store, err := aliyun.NewTablestore("http://tables.example", "oncegate", o)
	bucket, bucketErr := aliyun.NewBucket("http://127.0.0.1", bucketName, o)
	objects := artifacts.NewStore(bucket, "AES256")
	to := func(name, path string) flows.Target {
		return flows.Target{Name: name, URL: w.targets.Endpoint() + path}
	}
	tools := flows.Tools{
		Model:  flows.NewModel(flows.ModelOptions{BaseURL: w.model.Endpoint(), Name: "qwen-sim", APIKey: modelKey, Transport: gate{w, k, model}, Now: now}),
		Drafts: objects, Notify: to("notify", "/notify"), Robot: to("robot", "/robot"), Records: to("records", "/records"),
		Transport: gate{w, k, target}, Now: now,
	}
	h, handlerErr := handler.New(handler.Options{
		Flows: set, Processors: flows.Processors(tools), Effects: flows.Effects(tools),
		Tasks: idempotency.NewTable(store, policy), Ledger: idempotency.NewLedger(store, policy), Reviews: idempotency.NewReviews(store),
		Letters: letter.NewTable(store), Artifacts: objects, Plans: plan.NewStore(store), Environment: environment, KeySecret: []byte(keySecret), Policy: policy,
		Impact:     plan.Impact{Count: 1000}, // so that approvals alone hold a replay back, for the mutants
		ReserveMin: 2 * time.Second, ReserveMax: 10 * time.Second,
		Now: now, Skew: skew.Value, Log: slog.New(slog.NewJSONHandler(w, nil)), CacheSize: 100, BatchConcurrency: 4,
		NewOwner: func() string {
			w.mu.Lock()
			defer w.mu.Unlock()
			k.owners++
			return fmt.Sprintf("w%03d-%06d-of-a-run", k.id, k.owners)
		},
	})
	if err := errors.Join(err, bucketErr, handlerErr); err != nil {
		panic(err)
	}
	k.h = h
	w.workers = append(w.workers, k)
	return k
}

func (w *world) chance(percent int) bool { return w.rnd.IntN(100) < percent }

func (w *world) note(format string, args ...any) {
	w.trace = append(w.trace, fmt.Sprintf("%4d %10s ", w.steps, time.Since(start).Round(time.Millisecond))+fmt.Sprintf(format, args...))
}

// hash is the same for two runs that went the same way.
func (w *world) hash() uint64 {
	sum := fnv.New64a()
	for _, line := range w.trace {
		_, _ = io.WriteString(sum, line+"\n")
	}
	return sum.Sum64()
}
