package otstest

import (
	"bytes"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/common"
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"
	"github.com/golang/protobuf/proto"
	"go.uber.org/goleak"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		runChild(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

// clock is a service's time that moves when it is told to.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// stand is a server and what reaches it.
type stand struct {
	*Server
	t         *testing.T
	clock     *clock
	creds     *cloudtest.Credentials
	cred      cloudtest.Credential
	endpoint  string
	transport http.RoundTripper
	client    *tablestore.TableStoreClient
}

// twice runs a test over a socket and over the in-process transport.
func twice(t *testing.T, test func(t *testing.T, s *stand)) {
	t.Helper()
	for name, socket := range map[string]bool{"over a socket": true, "in process": false} {
		t.Run(name, func(t *testing.T) { test(t, newStand(t, Options{}, socket)) })
	}
}

func newStand(t *testing.T, o Options, socket bool) *stand {
	t.Helper()
	s := &stand{t: t, clock: &clock{at: time.Now()}, creds: &cloudtest.Credentials{}}
	s.cred = s.creds.Issue(time.Time{})
	o.Credentials = s.creds
	if o.Now == nil {
		o.Now = s.clock.now
	}
	srv, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	s.Server = srv
	s.endpoint, s.transport = "http://in-process", srv.Transport()
	if socket {
		if err := srv.Start(); err != nil {
			t.Fatal(err)
		}
		tr := &http.Transport{}
		t.Cleanup(tr.CloseIdleConnections)
		s.endpoint, s.transport = srv.Endpoint(), tr
	}
	t.Cleanup(func() { _ = srv.Close() })
	s.client = s.dial(10)
	return s
}

// dial makes a client with the stand's credential.
func (s *stand) dial(retries uint) *tablestore.TableStoreClient {
	return s.dialAs(s.cred, s.transport, retries)
}

func (s *stand) dialAs(c cloudtest.Credential, tr http.RoundTripper, retries uint) *tablestore.TableStoreClient {
	cfg := tablestore.NewDefaultTableStoreConfig()
	cfg.Transport, cfg.RetryTimes = tr, retries
	return tablestore.NewClientWithConfig(s.endpoint, "oncegate", c.AccessKeyID, c.AccessKeySecret, c.SecurityToken, cfg)
}

// table creates a table with one string key "k".
func (s *stand) table(name string, versions int) {
	s.t.Helper()
	if err := s.create(name, versions, -1, "k"); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stand) create(name string, versions, ttl int, keys ...string) error {
	meta := &tablestore.TableMeta{TableName: name}
	for _, k := range keys {
		meta.AddPrimaryKeyColumn(k, tablestore.PrimaryKeyType_STRING)
	}
	_, err := s.client.CreateTable(&tablestore.CreateTableRequest{
		TableMeta:          meta,
		TableOption:        &tablestore.TableOption{TimeToAlive: ttl, MaxVersion: versions},
		ReservedThroughput: &tablestore.ReservedThroughput{},
	})
	return err
}

func pk(values ...any) *tablestore.PrimaryKey {
	p := &tablestore.PrimaryKey{}
	names := []string{"k", "n", "b"}
	for i, v := range values {
		p.AddPrimaryKeyColumn(names[i], v)
	}
	return p
}

type cols map[string]any

const (
	ignore = tablestore.RowExistenceExpectation_IGNORE
	exist  = tablestore.RowExistenceExpectation_EXPECT_EXIST
	absent = tablestore.RowExistenceExpectation_EXPECT_NOT_EXIST
)

func putChange(table, key string, expect tablestore.RowExistenceExpectation, c cols) *tablestore.PutRowChange {
	change := &tablestore.PutRowChange{TableName: table, PrimaryKey: pk(key)}
	for name, v := range c {
		change.AddColumn(name, v)
	}
	change.SetCondition(expect)
	return change
}

func updateChange(table, key string, expect tablestore.RowExistenceExpectation) *tablestore.UpdateRowChange {
	change := &tablestore.UpdateRowChange{TableName: table, PrimaryKey: pk(key)}
	change.SetCondition(expect)
	return change
}

func deleteChange(table, key string, expect tablestore.RowExistenceExpectation) *tablestore.DeleteRowChange {
	change := &tablestore.DeleteRowChange{TableName: table, PrimaryKey: pk(key)}
	change.SetCondition(expect)
	return change
}

// do sends one change of any sort.
func (s *stand) do(change any) error {
	var err error
	switch c := change.(type) {
	case *tablestore.PutRowChange:
		_, err = s.client.PutRow(&tablestore.PutRowRequest{PutRowChange: c})
	case *tablestore.UpdateRowChange:
		_, err = s.client.UpdateRow(&tablestore.UpdateRowRequest{UpdateRowChange: c})
	case *tablestore.DeleteRowChange:
		_, err = s.client.DeleteRow(&tablestore.DeleteRowRequest{DeleteRowChange: c})
	default:
		s.t.Fatalf("no such change: %T", change)
	}
	return err
}

func (s *stand) must(change any) {
	s.t.Helper()
	if err := s.do(change); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stand) put(table, key string, c cols) {
	s.t.Helper()
	s.must(putChange(table, key, ignore, c))
}

// get reads the newest version of every column; ok is whether there is a row.
func (s *stand) get(table, key string) (c cols, ok bool) {
	s.t.Helper()
	r, err := s.client.GetRow(&tablestore.GetRowRequest{SingleRowQueryCriteria: &tablestore.SingleRowQueryCriteria{
		TableName: table, PrimaryKey: pk(key), MaxVersion: 1,
	}})
	if err != nil {
		s.t.Fatal(err)
	}
	c = cols{}
	for _, a := range r.Columns {
		c[a.ColumnName] = a.Value
	}
	return c, len(r.PrimaryKey.PrimaryKeys) > 0
}

// code is the service's code in an error, "" without an error.
func code(err error) string {
	if err == nil {
		return ""
	}
	if e, ok := errors.AsType[*tablestore.OtsError](err); ok {
		return e.Code
	}
	return err.Error()
}

// expect fails the test unless err is the service's code and message.
func expect(t *testing.T, err error, status int, wantCode, wantMessage string) {
	t.Helper()
	e, ok := errors.AsType[*tablestore.OtsError](err)
	if !ok {
		t.Fatalf("got %v, want %s", err, wantCode)
	}
	if e.HttpStatusCode != status || e.Code != wantCode || e.Message != wantMessage {
		t.Fatalf("got %d %s %q, want %d %s %q", e.HttpStatusCode, e.Code, e.Message, status, wantCode, wantMessage)
	}
	if e.RequestId == "" {
		t.Fatal("answer without a request id")
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// send posts a hand-made request, signed with the SDK's own code.
func (s *stand) send(action string, m proto.Message) error {
	s.t.Helper()
	body, err := proto.Marshal(m)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.sendRaw(action, body)
}

func (s *stand) sendRaw(action string, body []byte) error {
	s.t.Helper()
	r, err := http.NewRequest(http.MethodPost, s.endpoint+"/"+action, bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	sum := md5.Sum(body)
	for name, v := range map[string]string{
		headerDate:       time.Now().UTC().Format("2006-01-02T15:04:05.000Z"),
		headerAPIVersion: apiVersion,
		headerKeyID:      s.cred.AccessKeyID,
		headerInstance:   "oncegate",
		headerMD5:        base64.StdEncoding.EncodeToString(sum[:]),
		headerToken:      s.cred.SecurityToken,
	} {
		r.Header.Set(name, v)
	}
	sign, err := tablestore.GetSignature("/"+action, http.MethodPost,
		&common.DefaultCredentials{AccessKeyID: s.cred.AccessKeyID, AccessKeySecret: s.cred.AccessKeySecret}, r.Header)
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set(headerSignature, sign)
	resp, err := s.transport.RoundTrip(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	pe := new(otsprotocol.Error)
	if err := proto.Unmarshal(answer, pe); err != nil {
		s.t.Fatalf("decode %q: %v", answer, err)
	}
	return &tablestore.OtsError{
		Code: pe.GetCode(), Message: pe.GetMessage(),
		HttpStatusCode: resp.StatusCode, RequestId: resp.Header.Get(headerRequestID),
	}
}

func cloudKey(id, secret string) cloudtest.Credential {
	return cloudtest.Credential{AccessKeyID: id, AccessKeySecret: secret}
}
