package osstest

import (
	"cmp"
	"crypto/md5"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

// engine carries out calls. One mutex around the state makes every operation
// atomic and every read strong.
type engine struct {
	credentials *cloudtest.Credentials
	now         func() time.Time
	routes      []route
	requests    atomic.Uint64

	mu    sync.Mutex
	store *store
}

var _ cloudtest.Engine = (*engine)(nil)

// reply is what a successful operation answers with.
type reply struct {
	status int // 0 means 200
	header http.Header
	body   []byte
}

func xmlReply(v any) reply {
	return reply{header: http.Header{"Content-Type": {"application/xml"}}, body: marshal(v)}
}

// Name says which operation a request is; its target is bucket/key.
func (e *engine) Name(r *http.Request, _ []byte) (op, target string) {
	bucket, key := locate(r.Host, r.URL.Path)
	target = bucket
	if key != "" {
		target += "/" + key
	}
	c, err := newCall(r, nil)
	if err != nil {
		return "Unknown", target
	}
	rt := e.find(c)
	if rt == nil {
		return "Unknown", target
	}
	return rt.op, target
}

// ServeHTTP carries out one call.
func (e *engine) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := e.requestID()
	rep, err := e.serve(r)
	if err != nil {
		ref, ok := errors.AsType[*refusal](err)
		if !ok {
			ref = refuse(http.StatusInternalServerError, "InternalError", "We encountered an internal error. Please try again.")
		}
		if ref.status == http.StatusNotModified {
			rep = reply{status: ref.status, header: ref.header}
		} else {
			rep = ref.answer(id, r.Host)
		}
	}
	h := w.Header()
	maps.Copy(h, rep.header)
	h.Set("Server", "AliyunOSS")
	h.Set("x-oss-request-id", id)
	if r.Method == http.MethodHead && err != nil {
		h.Del("Content-Type")
		h.Set("Content-Length", "0")
		rep.body = nil
	}
	w.WriteHeader(cmp.Or(rep.status, http.StatusOK))
	_, _ = w.Write(rep.body)
}

// Fail answers with a planned error.
func (e *engine) Fail(w http.ResponseWriter, status int, code string) {
	id := e.requestID()
	rep := refuse(status, code, "A planned fault.").answer(id, "oss")
	maps.Copy(w.Header(), rep.header)
	w.Header().Set("Server", "AliyunOSS")
	w.Header().Set("x-oss-request-id", id)
	w.WriteHeader(status)
	_, _ = w.Write(rep.body)
}

func (e *engine) requestID() string { return fmt.Sprintf("%024X", e.requests.Add(1)) }

func (e *engine) serve(r *http.Request) (reply, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return reply{}, err
	}
	c, err := newCall(r, body)
	if err != nil {
		return reply{}, err
	}
	c.now = e.now()
	cred, err := e.authorize(c)
	if err != nil {
		return reply{}, err
	}
	rt := e.find(c)
	if rt == nil {
		return reply{}, notImplemented(r.Method + " with these sub-resources or parameters")
	}
	if name := rt.unsupported(r.Header); name != "" {
		return reply{}, notImplemented("the header " + name + " for " + rt.op)
	}
	if err := c.check(rt.level); err != nil {
		return reply{}, err
	}
	if !permits(cred, c, rt.op) {
		return reply{}, refuse(http.StatusForbidden, "AccessDenied", "You have no right to access this object.")
	}
	if err := checkDigest(r.Header, body); err != nil {
		return reply{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	var b *bucket
	if rt.level != serviceLevel {
		b = e.store.buckets[c.bucket]
		if b == nil && rt.op != "CreateBucket" {
			return reply{}, noSuchBucket()
		}
	}
	return rt.run(c, b)
}

func (e *refusal) answer(id, host string) reply {
	h := http.Header{}
	maps.Copy(h, e.header)
	h.Set("Content-Type", "application/xml")
	return reply{status: e.status, header: h, body: marshal(errorBody{
		Code: e.code, Message: e.message, RequestID: id, HostID: host,
	})}
}

// checkDigest verifies Content-MD5 where the caller sent one.
func checkDigest(h http.Header, body []byte) error {
	sent := h.Values("Content-MD5")
	if len(sent) == 0 {
		return nil
	}
	if sum := md5.Sum(body); strings.TrimSpace(sent[0]) != base64.StdEncoding.EncodeToString(sum[:]) {
		return refuse(http.StatusBadRequest, "InvalidDigest", "The Content-MD5 you specified did not match what we received.")
	}
	return nil
}
