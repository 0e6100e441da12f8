package handler_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/artifacts/osstest"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/idempotency/otstest"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// plant is a cloud on sockets of this machine, and a handler beside the bare SDKs
// that reach it over transports of one kind.
type plant struct {
	tb      testing.TB
	tables  *otstest.Server
	objects *osstest.Server
	handler *handler.Handler
	fresh   func() *handler.Handler // one that has seen nothing yet
	set     *flows.Set
	number  atomic.Int64

	dials  atomic.Int64
	rows   *tablestore.TableStoreClient
	bucket *oss.Bucket
	inside effects // time that the stand-ins themselves took
}

// networkDelay is what a call takes longer where a plant stands for a network.
const networkDelay = 5 * time.Millisecond

func newPlant(tb testing.TB, delay time.Duration) *plant {
	tb.Helper()
	p := &plant{tb: tb}
	check := func(err error) {
		tb.Helper()
		if err != nil {
			tb.Fatal(err)
		}
	}
	var held cloudtest.Credentials
	cred := held.Issue(time.Time{})
	var err error
	p.tables, err = otstest.New(otstest.Options{Credentials: &held})
	check(err)
	check(p.tables.Start())
	p.objects, err = osstest.New(osstest.Options{Credentials: &held})
	check(err)
	check(p.objects.Start())
	transport := aliyun.NewTransport(64)
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		p.dials.Add(1)
		return dial(ctx, network, address)
	}
	tb.Cleanup(func() {
		transport.CloseIdleConnections()
		_ = p.tables.Close()
		_ = p.objects.Close()
	})
	o := aliyun.Options{Transport: transport, Credentials: func(context.Context) (aliyun.Credentials, error) {
		return aliyun.Credentials{AccessKeyID: cred.AccessKeyID, AccessKeySecret: cred.AccessKeySecret, SecurityToken: cred.SecurityToken}, nil
	}}
	store, err := aliyun.NewTablestore(p.tables.Endpoint(), "oncegate", o)
	check(err)
	for _, table := range []aliyun.Table{idempotency.TaskTable, idempotency.ReviewTable, letter.LetterTable} {
		check(store.CreateTable(tb.Context(), table))
	}
	bucket, err := aliyun.NewBucket(p.objects.Endpoint(), bucketName, o)
	check(err)
	_, err = bucket.Create(tb.Context())
	check(err)

	processors := map[string]flows.Processor{"work": idle{}, "summary": idle{}}
	p.set, err = flows.Load([]byte(flowsText), processors)
	check(err)
	p.fresh = func() *handler.Handler {
		h, err := handler.New(handler.Options{
			Flows: p.set, Processors: processors, Ledger: idempotency.NewLedger(store, policy), Tasks: idempotency.NewTable(store, policy),
			Reviews: idempotency.NewReviews(store), Letters: letter.NewTable(store), Artifacts: artifacts.NewStore(bucket, "AES256"),
			Environment: environment, KeySecret: []byte(keySecret), Policy: policy, ReserveMin: 2 * time.Second, ReserveMax: 10 * time.Second,
			Now: time.Now, NewOwner: func() string { return fmt.Sprintf("%032x", p.number.Add(1)) }, Skew: func() time.Duration { return 0 },
			Log: slog.New(slog.NewJSONHandler(discard{}, nil)),
		})
		check(err)
		return h
	}
	p.handler = p.fresh()

	p.rows = tablestore.NewClientWithConfig(p.tables.Endpoint(), "oncegate", cred.AccessKeyID, cred.AccessKeySecret, cred.SecurityToken,
		&tablestore.TableStoreConfig{Transport: transport})
	client, err := oss.New(p.objects.Endpoint(), cred.AccessKeyID, cred.AccessKeySecret, oss.SecurityToken(cred.SecurityToken),
		oss.HTTPClient(&http.Client{Transport: transport}))
	check(err)
	p.bucket, err = client.Bucket(bucketName)
	check(err)

	for _, faults := range []*cloudtest.Faults{p.tables.Faults, p.objects.Faults} {
		faults.Hook(p.inside.watch)
		if delay > 0 {
			faults.Add(cloudtest.Fault{Kind: cloudtest.Delay, Phase: cloudtest.After, Times: -1, Delay: delay})
		}
	}
	return p
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

type idle struct{}

func (idle) Version() string { return "w1" }

func (idle) Process(context.Context, flows.Task) (map[string]any, error) {
	return map[string]any{"answer": "done"}, nil
}

// effects adds up the time between the two sides of the stand-ins' effects.
type effects struct {
	mu    sync.Mutex
	began map[string]time.Time
	took  time.Duration
}

func (e *effects) watch(c cloudtest.Call, phase cloudtest.Phase) {
	now := time.Now()
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.began == nil {
		e.began = map[string]time.Time{}
	}
	call := fmt.Sprint(c.Service, c.Seq)
	if phase == cloudtest.Before {
		e.began[call] = now
		return
	}
	e.took += now.Sub(e.began[call])
	delete(e.began, call)
}

func (e *effects) sum() time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.took
}

func (p *plant) order() []byte {
	return order(fmt.Sprintf("evt-%d", p.number.Add(1)), fmt.Sprintf("no-%d", p.number.Add(1)), 5)
}

func (p *plant) deliver(h *handler.Handler, raw []byte, want handler.Decision) {
	p.tb.Helper()
	r, err := h.Handle(p.tb.Context(), raw, handler.Delivery{RequestID: "request", FunctionName: "gate", Version: "7"})
	if err != nil || r.Decision != want {
		p.tb.Fatalf("%+v %v, want %s", r, err, want)
	}
}

// bare are the three calls that a business event cannot do without, as the SDKs
// make them: what is written is what a handler would write. Where there is an
// input, it is stored as well, beside the output.
func (p *plant) bare(claim, settle aliyun.Row, key string, output, input []byte) {
	p.tb.Helper()
	put := &tablestore.PutRowChange{TableName: idempotency.TaskTable.Name, PrimaryKey: keyed(key)}
	for _, name := range slices.Sorted(maps.Keys(claim)) {
		put.AddColumn(name, claim[name])
	}
	put.SetCondition(tablestore.RowExistenceExpectation_EXPECT_NOT_EXIST)
	if _, err := p.rows.PutRow(&tablestore.PutRowRequest{PutRowChange: put}); err != nil {
		p.tb.Fatal(err)
	}
	stored := make(chan error, 1)
	go func() {
		var err error
		if input != nil {
			err = p.bucket.PutObject("bare/"+key+"/input.json", bytes.NewReader(input), oss.ContentType("application/json"))
		}
		stored <- err
	}()
	if err := p.bucket.PutObject("bare/"+key+"/output.json", bytes.NewReader(output), oss.ContentType("application/json")); err != nil {
		p.tb.Fatal(err)
	}
	if err := <-stored; err != nil {
		p.tb.Fatal(err)
	}
	change := &tablestore.UpdateRowChange{TableName: idempotency.TaskTable.Name, PrimaryKey: keyed(key)}
	for _, name := range slices.Sorted(maps.Keys(settle)) {
		change.PutColumn(name, settle[name])
	}
	change.SetCondition(tablestore.RowExistenceExpectation_EXPECT_EXIST)
	condition := tablestore.NewSingleColumnCondition("revision", tablestore.CT_EQUAL, int64(1))
	condition.FilterIfMissing, condition.LatestVersionOnly = true, true
	change.SetColumnCondition(condition)
	if _, err := p.rows.UpdateRow(&tablestore.UpdateRowRequest{UpdateRowChange: change}); err != nil {
		p.tb.Fatal(err)
	}
}

func keyed(key string) *tablestore.PrimaryKey {
	pk := new(tablestore.PrimaryKey)
	pk.AddPrimaryKeyColumn(idempotency.TaskTable.Key, key)
	return pk
}

// sample are a claim's columns, those that settling changes, and an output.
func (p *plant) sample() (claim, settle aliyun.Row, output []byte) {
	p.tb.Helper()
	raw := p.order()
	p.deliver(p.handler, raw, handler.DecisionExecuted)
	rows := p.tables.Rows(idempotency.TaskTable.Name)
	settled := rows[len(rows)-1]
	done, err := idempotency.ParseRecord(settled.PrimaryKey[0].Value.(string), settled.Columns)
	if err != nil {
		p.tb.Fatal(err)
	}
	began := done
	began.Status, began.Revision, began.History = idempotency.StatusRunning, 1, done.History[:1]
	began.OutputRef, began.ResultRef, began.LeaseUntil = idempotency.Ref{}, idempotency.Ref{}, time.Now().Add(time.Minute)
	if claim, err = began.Columns(); err != nil {
		p.tb.Fatal(err)
	}
	settle = aliyun.Row{}
	for name, v := range settled.Columns {
		if claim[name] != v {
			settle[name] = v
		}
	}
	for _, o := range p.objects.Objects(bucketName) {
		if o.Key == done.ResultRef.Object {
			output = o.Body
		}
	}
	return claim, settle, output
}
