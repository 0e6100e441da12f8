package otstest

import (
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"
	"github.com/golang/protobuf/proto"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

const maxBody = 5 << 20

// engine is the service without its network; it implements cloudtest.Engine.
type engine struct {
	instance string
	creds    *cloudtest.Credentials
	now      func() time.Time
	seq      atomic.Int64

	mu     sync.RWMutex
	tables map[string]*table
	store  *store // nil: memory only
}

// Name implements cloudtest.Engine.
func (e *engine) Name(r *http.Request, body []byte) (op, about string) {
	op = strings.TrimPrefix(r.URL.Path, "/")
	return op, target(op, body)
}

// ServeHTTP implements cloudtest.Engine.
func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	answer, err := e.serve(r)
	if err != nil {
		ce := asCallError(err)
		e.write(w, ce.status, ce.pb())
		return
	}
	e.write(w, http.StatusOK, answer)
}

// Fail implements cloudtest.Engine. Status 0 means the documented one of the
// code. An empty code makes an answer that is not the service's own: a page of
// a gateway, or an empty 2xx.
func (e *engine) Fail(w http.ResponseWriter, status int, code string) {
	if code == "" {
		if status >= http.StatusMultipleChoices {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(status)
			fmt.Fprintf(w, "<html><body>%d %s</body></html>", status, http.StatusText(status))
			return
		}
		w.WriteHeader(max(status, http.StatusOK))
		return
	}
	ce := asCallError(documented(code))
	if status == 0 {
		status = ce.status
	}
	e.write(w, status, ce.pb())
}

func (e *engine) write(w http.ResponseWriter, status int, m proto.Message) {
	body, err := proto.Marshal(m)
	if err != nil {
		status = http.StatusInternalServerError
		body, _ = proto.Marshal(asCallError(documented(codeInternal)).pb())
	}
	h := w.Header()
	now := e.now().UTC()
	h.Set(headerRequestID, fmt.Sprintf("%08x-0000-4000-8000-%012x", uint32(now.Unix()), e.seq.Add(1)))
	h.Set(headerDate, now.Format("2006-01-02T15:04:05.000Z"))
	h.Set("x-ots-contenttype", "protocol buffer")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func (e *engine) serve(r *http.Request) (proto.Message, error) {
	if r.Method != http.MethodPost {
		return nil, documented(codeMethod)
	}
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	now := e.now()
	cred, err := e.authenticate(r, body, now)
	if err != nil {
		return nil, err
	}
	if r.URL.RawQuery != "" {
		return nil, invalid("Unsupported query string: `%s`.", r.URL.RawQuery)
	}
	if r.Header.Get("x-ots-request-compress-type") != "" || r.Header.Get("x-ots-response-compress-type") != "" {
		return nil, unsupported("compression")
	}
	action := strings.TrimPrefix(r.URL.Path, "/")
	if !e.permits(cred, action, body) {
		return nil, documented(codeNoPermission)
	}
	return e.call(action, body, now.UnixMilli())
}

func readBody(r *http.Request) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
	if err != nil {
		return nil, err
	}
	if len(body) > maxBody {
		return nil, documented(codeBodyTooLarge)
	}
	return body, nil
}

// call carries out one authenticated action at now, in milliseconds.
func (e *engine) call(action string, body []byte, now int64) (proto.Message, error) {
	switch action {
	case "CreateTable":
		return e.createTable(body, now)
	case "DescribeTable":
		return e.describeTable(body)
	case "ListTable":
		return e.listTable(body)
	case "UpdateTable":
		return e.updateTable(body, now)
	case "DeleteTable":
		return e.deleteTable(body)
	case "PutRow":
		return e.putRow(body, now)
	case "UpdateRow":
		return e.updateRow(body, now)
	case "DeleteRow":
		return e.deleteRow(body, now)
	case "GetRow":
		return e.getRow(body, now)
	case "GetRange":
		return e.getRange(body, now)
	case "BatchGetRow":
		return e.batchGetRow(body, now)
	case "BatchWriteRow":
		return e.batchWriteRow(body, now)
	case "StartLocalTransaction", "CommitTransaction", "AbortTransaction",
		"CreateIndex", "DropIndex", "AddDefinedColumn", "DeleteDefinedColumn",
		"ListStream", "DescribeStream", "GetShardIterator", "GetStreamRecord",
		"ComputeSplitPointsBySize", "ComputeSplits", "ParallelScan", "SQLQuery",
		"Search", "CreateSearchIndex", "UpdateSearchIndex", "ListSearchIndex", "DeleteSearchIndex", "DescribeSearchIndex":
		return nil, unsupported(action)
	}
	return nil, invalid("Unsupported operation: `%s`.", action)
}

// unsupported refuses what the service offers and this stand-in does not.
func unsupported(what string) error {
	return refuse(http.StatusBadRequest, codeUnsupported, "The operation is not supported: `%s`.", what)
}

func capacity(read, write int) *otsprotocol.ConsumedCapacity {
	return &otsprotocol.ConsumedCapacity{CapacityUnit: &otsprotocol.CapacityUnit{
		Read: proto.Int32(int32(read)), Write: proto.Int32(int32(write)),
	}}
}

// units is how many capacity units of 4 KB a size costs, at least one.
func units(size int) int { return max(1, (size+4095)/4096) }
