package ram

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/artifacts/osstest"
	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/events/ebtest"
	"github.com/oncegate/oncegate/handler/fctest"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/idempotency/otstest"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

var tables = []aliyun.Table{
	idempotency.TaskTable, idempotency.ReviewTable, letter.LetterTable,
	plan.PlanTable, plan.ItemTable, plan.ApprovalTable, deadletter.EvidenceTable, deadletter.AuditTable,
	{Name: "oncegate_doctor_probe", Key: "probe"},
	{Name: "foreign", Key: "id"}, // of somebody else in the same instance
}

// room is the services that enforce policies, with all tables and a bucket.
type room struct {
	creds *cloudtest.Credentials
	ots   *otstest.Server
	oss   *osstest.Server
	fc    *fctest.Front
	bus   *ebtest.Bus
}

func newRoom(t *testing.T) *room {
	t.Helper()
	r := &room{creds: new(cloudtest.Credentials)}
	var err error
	if r.ots, err = otstest.New(otstest.Options{Credentials: r.creds}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.ots.Close() })
	if r.oss, err = osstest.New(osstest.Options{Credentials: r.creds}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.oss.Close() })
	if r.fc, err = fctest.NewFront(fctest.FrontOptions{Credentials: r.creds}); err != nil {
		t.Fatal(err)
	}
	if r.bus, err = ebtest.New(ebtest.Options{Bus: values.Bus}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.bus.Close() })
	c := r.as(t, nil)
	for _, table := range tables {
		if err := c.store.CreateTable(t.Context(), table); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.bucket.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.bucket.Named(otherBucket).Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{outputName, letterName, contentName} {
		if _, err := c.bucket.Put(t.Context(), name, aliyun.Object{Body: []byte("x")}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// caller is the clients of one identity.
type caller struct {
	store     *aliyun.Tablestore
	raw       *tablestore.TableStoreClient
	bucket    *aliyun.Bucket
	rawBucket *oss.Bucket
	functions *aliyun.Functions
	events    *aliyun.Publisher
}

func (r *room) as(t *testing.T, id *cloudtest.Identity) *caller {
	t.Helper()
	c := r.creds.IssueTo(id, time.Time{})
	creds := aliyun.Credentials{AccessKeyID: c.AccessKeyID, AccessKeySecret: c.AccessKeySecret, SecurityToken: c.SecurityToken}
	o := aliyun.Options{
		Credentials: func(context.Context) (aliyun.Credentials, error) { return creds, nil },
		Transport:   r.ots.Transport(), OSSTransport: r.oss.Transport(),
	}
	out := new(caller)
	var err error
	if out.store, err = aliyun.NewTablestore("http://ots.local", values.Instance, o); err != nil {
		t.Fatal(err)
	}
	if out.bucket, err = aliyun.NewBucket("http://127.0.0.1", values.Bucket, o); err != nil {
		t.Fatal(err)
	}
	o.Transport = r.fc.Transport()
	if out.functions, err = aliyun.NewFunctions("http://fc.local", o); err != nil {
		t.Fatal(err)
	}
	o.Transport = handlerTransport{r.bus.PutEventsHandler(r.bus.Signed(r.creds))}
	if out.events, err = aliyun.NewPublisher("http://bus.local", o); err != nil {
		t.Fatal(err)
	}
	out.raw = tablestore.NewClientWithConfig("http://ots.local", values.Instance, c.AccessKeyID, c.AccessKeySecret, c.SecurityToken,
		&tablestore.TableStoreConfig{Transport: r.ots.Transport()})
	client, err := oss.New("http://127.0.0.1", c.AccessKeyID, c.AccessKeySecret, oss.SecurityToken(c.SecurityToken), oss.HTTPClient(httpClient(r.oss)))
	if err != nil {
		t.Fatal(err)
	}
	if out.rawBucket, err = client.Bucket(values.Bucket); err != nil {
		t.Fatal(err)
	}
	return out
}

const (
	key         = "0123456789abcdef"
	otherBucket = "somebody-elses"
)

var (
	outputName   = artifacts.OutputName(key, 1)
	letterName   = artifacts.LetterName(key)
	approvedName = artifacts.ApprovedName(key)
	contentName  = "content/article-1.txt"
)

// operation is one call through the SDK that the code itself uses.
type operation struct {
	name string
	call func(context.Context, *caller) error
}

func operations() []operation {
	var all []operation
	add := func(name string, call func(context.Context, *caller) error) { all = append(all, operation{name, call}) }
	for _, t := range tables {
		add("get "+t.Name, func(ctx context.Context, c *caller) error { _, _, err := c.store.Get(ctx, t, key); return err })
		add("scan "+t.Name, func(ctx context.Context, c *caller) error {
			_, err := c.store.Scan(ctx, t, "", "", 10, nil)
			return err
		})
		add("insert "+t.Name, func(ctx context.Context, c *caller) error {
			return c.store.Insert(ctx, t, key, aliyun.Row{"revision": int64(1)})
		})
		add("update "+t.Name, func(ctx context.Context, c *caller) error {
			return c.store.Update(ctx, t, key, aliyun.Row{"revision": int64(1)}, 1)
		})
		add("delete "+t.Name, func(_ context.Context, c *caller) error { return rawDelete(c.raw, t) })
	}
	add("batch write", func(_ context.Context, c *caller) error { return rawBatch(c.raw, idempotency.TaskTable) })
	add("create table", func(ctx context.Context, c *caller) error { return c.store.CreateTable(ctx, idempotency.TaskTable) })
	add("describe table", func(ctx context.Context, c *caller) error { return c.store.CheckTable(ctx, idempotency.TaskTable) })
	for what, object := range map[string]string{
		"output": outputName, "approved": artifacts.ApprovedName(key), "letter": letterName, "content": contentName,
		"elsewhere": "elsewhere/x.txt",
	} {
		add("read "+what, func(ctx context.Context, c *caller) error { _, err := c.bucket.Get(ctx, object, ""); return err })
		add("write "+what, func(ctx context.Context, c *caller) error {
			_, err := c.bucket.Put(ctx, object, aliyun.Object{Body: []byte("x"), Tags: map[string]string{"class": "letter"}})
			return err
		})
	}
	add("read other bucket", func(ctx context.Context, c *caller) error {
		_, err := c.bucket.Named(otherBucket).Get(ctx, "content/x", "")
		return err
	})
	add("write other bucket", func(ctx context.Context, c *caller) error {
		_, err := c.bucket.Named(otherBucket).Put(ctx, "dead-letters/x", aliyun.Object{Body: []byte("x")})
		return err
	})
	add("set expiry of other bucket", func(ctx context.Context, c *caller) error {
		_, err := c.bucket.Named(otherBucket).SetExpiry(ctx, artifacts.Expiry(90))
		return err
	})
	add("read letter version", func(ctx context.Context, c *caller) error { _, err := c.bucket.Get(ctx, letterName, "v"); return err })
	add("delete letter", func(_ context.Context, c *caller) error { return c.rawBucket.DeleteObject(letterName) })
	add("drop letter version", func(ctx context.Context, c *caller) error { return c.bucket.DeleteVersion(ctx, letterName, "v") })
	add("drop output version", func(ctx context.Context, c *caller) error {
		return c.bucket.DeleteVersion(ctx, artifacts.OutputName(key, 1), "v")
	})
	add("list outputs", func(ctx context.Context, c *caller) error {
		_, err := c.bucket.List(ctx, "tasks/"+key+"/attempt-", 10)
		return err
	})
	add("list letters", func(ctx context.Context, c *caller) error {
		_, err := c.bucket.List(ctx, "dead-letters/", 10)
		return err
	})
	add("list all", func(ctx context.Context, c *caller) error { _, err := c.bucket.List(ctx, "", 10); return err })
	add("set expiry", func(ctx context.Context, c *caller) error {
		_, err := c.bucket.SetExpiry(ctx, artifacts.Expiry(90))
		return err
	})
	for what, target := range map[string][2]string{
		"alias": {values.Function, "live"}, "version": {values.Function, "7"}, "latest": {values.Function, ""}, "other function": {"other", "live"},
	} {
		add("invoke "+what, func(ctx context.Context, c *caller) error {
			_, err := c.functions.Invoke(ctx, target[0], target[1], nil)
			return err
		})
	}
	for what, function := range map[string]string{"alias": values.Function, "alias of other function": "other"} {
		add("read "+what, func(ctx context.Context, c *caller) error {
			_, err := c.functions.AliasVersion(ctx, function, "live")
			return err
		})
	}
	for what, bus := range map[string]string{"publish": values.Bus, "publish on another bus": "payroll"} {
		add(what, func(ctx context.Context, c *caller) error {
			_, err := c.events.PutEvents(ctx, bus, [][]byte{[]byte(`{"specversion":"1.0","id":"e","source":"s","type":"t","aliyuneventbusname":"` + bus + `"}`)})
			return err
		})
	}
	return all
}

// handlerTransport reaches a handler without a socket.
type handlerTransport struct{ h http.Handler }

func (t handlerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	t.h.ServeHTTP(w, r.Clone(r.Context()))
	return w.Result(), nil
}

func rawDelete(c *tablestore.TableStoreClient, t aliyun.Table) error {
	change := &tablestore.DeleteRowChange{TableName: t.Name, PrimaryKey: rawKey(t, "nobody")}
	change.SetCondition(tablestore.RowExistenceExpectation_IGNORE)
	_, err := c.DeleteRow(&tablestore.DeleteRowRequest{DeleteRowChange: change})
	return err
}

func rawBatch(c *tablestore.TableStoreClient, t aliyun.Table) error {
	change := &tablestore.PutRowChange{TableName: t.Name, PrimaryKey: rawKey(t, "batch")}
	change.AddColumn("revision", int64(1))
	change.SetCondition(tablestore.RowExistenceExpectation_IGNORE)
	req := new(tablestore.BatchWriteRowRequest)
	req.AddRowChange(change)
	_, err := c.BatchWriteRow(req)
	return err
}

func rawKey(t aliyun.Table, value string) *tablestore.PrimaryKey {
	pk := new(tablestore.PrimaryKey)
	pk.AddPrimaryKeyColumn(t.Key, value)
	return pk
}

// refused says whether a call ended in the service's own refusal.
func refused(err error) bool {
	if aliyun.KindOf(err) == aliyun.KindDenied {
		return true
	}
	return err != nil && (bytes.Contains([]byte(err.Error()), []byte("OTSNoPermissionAccess")) || bytes.Contains([]byte(err.Error()), []byte("AccessDenied")))
}

// verdicts are what an identity is refused, by the name of the operation.
func (r *room) verdicts(t *testing.T, ops []operation, policies ...cloudtest.Policy) map[string]bool {
	t.Helper()
	c := r.as(t, cloudtest.AssumedRole("oncegate-test", "amy", policies...))
	out := map[string]bool{}
	for _, op := range ops {
		out[op.name] = refused(op.call(t.Context(), c))
	}
	if len(out) != len(ops) {
		t.Fatal(fmt.Errorf("%d operations have %d names", len(ops), len(out)))
	}
	return out
}
