package ebtest_test

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/oncegate/oncegate/events/ebtest"
)

// front is a bus behind HTTP with one target, which fails nothing.
type front struct {
	t   *testing.T
	h   http.Handler
	bus *ebtest.Bus
	tg  *target
}

func newFront(t *testing.T, accept func(*http.Request) error) front {
	tg := &target{}
	// No extensions of the service's own: what is delivered is what was sent.
	b := newBus(t, ebtest.Options{Bus: "orders", Concurrency: 1, Rules: []ebtest.Rule{{Name: "r", Target: tg.invoke}}})
	return front{t, b.PutEventsHandler(accept), b, tg}
}

type answer struct {
	FailedEntryCount int
	RequestID        string `json:"RequestId"`
	EntryList        []struct {
		EventID      string `json:"EventId"`
		TraceID      string `json:"TraceId"`
		ErrorCode    string
		ErrorMessage string
	}
	Code, Message string
}

func (f front) do(r *http.Request) (int, answer) {
	f.t.Helper()
	w := httptest.NewRecorder()
	f.h.ServeHTTP(w, r)
	var a answer
	if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
		f.t.Fatalf("%v in %d %s", err, w.Code, w.Body)
	}
	if a.RequestID == "" || w.Header().Get("Content-Type") != "application/json" {
		f.t.Errorf("got %s, %v", w.Body, w.Header())
	}
	return w.Code, a
}

func (f front) post(contentType, body string, headers ...string) (int, answer) {
	f.t.Helper()
	r := httptest.NewRequest("POST", "/openapi/putEvents", strings.NewReader(body))
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return f.do(r)
}

// delivered returns the events' bytes, sorted: deliveries have no order.
func (f front) delivered() []string {
	drain(f.t, f.bus)
	all := payloads(f.tg)
	slices.Sort(all)
	return all
}

const (
	batch  = "application/cloudevents-batch+json"
	single = "application/cloudevents+json"
)

// full is an event that has all that the bus would add.
func full(id string) string {
	return `{ "aliyunaccountid":"1","aliyunpublishtime":"t","aliyunregionid":"r","aliyuneventbusname":"orders",` +
		`"specversion" : "1.0","id":"` + id + `","source":"s","type":"t","data":{"b":1.50,"a":1e2,"z":"\u00e9<&>\/","n":12345678901234567890} }`
}

func TestPutEventsKeepsEveryByteOfABatch(t *testing.T) {
	f := newFront(t, nil)
	status, a := f.post(batch+"; charset=UTF-8", " [\n"+full("1")+" ,\t"+full("2")+","+full("3")+"\r\n] ")
	if status != 200 || a.FailedEntryCount != 0 || len(a.EntryList) != 3 {
		t.Fatalf("got %d %+v", status, a)
	}
	traces := map[string]bool{}
	for i, e := range a.EntryList {
		if e.EventID != []string{"1", "2", "3"}[i] || e.TraceID == "" || traces[e.TraceID] || e.ErrorCode != "" || e.ErrorMessage != "" {
			t.Errorf("entry %d: %+v", i, e)
		}
		traces[e.TraceID] = true
	}
	if got, want := f.delivered(), []string{full("1"), full("2"), full("3")}; !slices.Equal(got, want) {
		t.Errorf("delivered\n%q\nwant\n%q", got, want)
	}
}

func TestPutEventsFailsOneEntryAndKeepsItsNeighbours(t *testing.T) {
	elsewhere := strings.Replace(full("x"), `"orders"`, `"others"`, 1)
	for _, c := range []struct{ name, raw, id, code string }{
		{"another bus", elsewhere, "x", ebtest.CodeNoBus},
		{"a bus that is no string", strings.Replace(full("x"), `"orders"`, `null`, 1), "x", ebtest.CodeNoBus},
		{"no event", `{}`, "", ebtest.CodeNotEvent},
		{"a number", `1`, "", ebtest.CodeNotEvent},
		{"a name twice", `{"id":"x","id":"y"}`, "", ebtest.CodeNotJSON},
		{"bad UTF-8", "{\"id\":\"\xff\"}", "", ebtest.CodeNotJSON},
		{"over 256 KB", strings.Replace(full("x"), `"data"`, `"pad":"`+strings.Repeat("x", ebtest.MaxEvent)+`","data"`, 1), "", ebtest.CodeTooLarge},
		{"a type over 64 characters", strings.Replace(full("x"), `"type":"t"`, `"type":"`+strings.Repeat("t", 65)+`"`, 1), "", ebtest.CodeTooLong},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFront(t, nil)
			status, a := f.post(batch, "["+full("1")+","+c.raw+","+full("2")+"]")
			if status != 200 || a.FailedEntryCount != 1 || len(a.EntryList) != 3 {
				t.Fatalf("got %d %+v", status, a)
			}
			if e := a.EntryList[1]; e.ErrorCode != c.code || e.ErrorMessage == "" || e.EventID != c.id || e.TraceID == "" {
				t.Errorf("entry %+v, want code %s and id %q", e, c.code, c.id)
			}
			if got, want := f.delivered(), []string{full("1"), full("2")}; !slices.Equal(got, want) {
				t.Errorf("delivered %q", got)
			}
		})
	}
}

func TestPutEventsRefusesWholeCalls(t *testing.T) {
	many := func(n int) string { return "[" + strings.Repeat(full("1")+",", n-1) + full("1") + "]" }
	pad := func(n int) string { return strings.Repeat(" ", n-len(many(1))) + many(1) }
	for _, c := range []struct {
		name, contentType, body string
		headers                 []string
		status                  int
		code                    string
	}{
		{"16 events", batch, many(16), nil, 200, ""},
		{"17 events", batch, many(17), nil, 400, "InvalidArgument"},
		{"no events", batch, "[]", nil, 400, "InvalidArgument"},
		{"1 MB", batch, pad(ebtest.MaxCallBytes), nil, 200, ""},
		{"a byte over 1 MB", batch, pad(ebtest.MaxCallBytes + 1), nil, 413, "EntityTooLarge"},
		{"nothing", batch, "", nil, 400, "InvalidArgument"},
		{"an object as a batch", batch, full("1"), nil, 400, "InvalidArgument"},
		{"half a batch", batch, "[" + full("1") + ",", nil, 400, "InvalidArgument"},
		{"a batch without its end", batch, "[" + full("1"), nil, 400, "InvalidArgument"},
		{"a comma too many", batch, "[" + full("1") + ",]", nil, 400, "InvalidArgument"},
		{"a missing comma", batch, "[" + full("1") + full("2") + "]", nil, 400, "InvalidArgument"},
		{"something behind", batch, many(1) + "[]", nil, 400, "InvalidArgument"},
		{"half an event", single, full("1")[:20], nil, 400, "InvalidArgument"},
		{"no form at all", "application/json", full("1"), nil, 415, "InvalidContentType"},
		{"no content type", "", full("1"), nil, 415, "InvalidContentType"},
		{"another charset", batch + "; charset=gbk", many(1), nil, 415, "InvalidContentType"},
		{"an attribute twice", "text/plain", "x", []string{"ce-specversion", "1.0", "ce-id", "1", "ce-id", "2"}, 400, "InvalidArgument"},
		{"an attribute that is none", "text/plain", "x", []string{"ce-specversion", "1.0", "ce-a-b", "1"}, 400, "InvalidArgument"},
		{"an attribute with bad UTF-8", "text/plain", "x", []string{"ce-specversion", "1.0", "ce-id", "%ff"}, 400, "InvalidArgument"},
		{"the data's type as an attribute", "text/plain", "x", []string{"ce-specversion", "1.0", "ce-datacontenttype", "x"}, 400, "InvalidArgument"},
		{"the data as an attribute", "", "", []string{"ce-specversion", "1.0", "ce-data", "x"}, 400, "InvalidArgument"},
		{"JSON data that is none", "application/json", "{", []string{"ce-specversion", "1.0", "ce-id", "1"}, 400, "InvalidArgument"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFront(t, nil)
			status, a := f.post(c.contentType, c.body, c.headers...)
			if status != c.status || a.Code != c.code || (c.code != "") != (a.Message != "") {
				t.Errorf("got %d %+v", status, a)
			}
			if n := len(f.delivered()); (n > 0) != (c.code == "") {
				t.Errorf("%d deliveries", n)
			}
		})
	}
}

func TestPutEventsAsksAcceptBeforeAnythingElse(t *testing.T) {
	var body string
	refuse := true
	f := newFront(t, func(r *http.Request) error {
		raw, err := io.ReadAll(r.Body)
		body = string(raw)
		if refuse {
			return errors.New("signature mismatch")
		}
		return err
	})
	call := "[" + full("1") + "]"
	if status, a := f.post(batch, call); status != 403 || a.Code != "AccessDenied" || a.Message != "signature mismatch" || len(f.delivered()) != 0 {
		t.Errorf("got %d %+v", status, a)
	}
	refuse = false
	if status, a := f.post(batch, call); status != 200 || len(a.EntryList) != 1 || body != call {
		t.Errorf("got %d %+v, accept saw %q", status, a, body)
	}
}

func TestPutEventsOnAClosedBusIsUnavailable(t *testing.T) {
	f := newFront(t, nil)
	_ = f.bus.Close()
	if status, a := f.post(batch, "["+full("1")+"]"); status != 503 || a.Code != "ServiceUnavailable" {
		t.Errorf("got %d %+v", status, a)
	}
}

func TestPutEventsIsAPostToOnePath(t *testing.T) {
	f := newFront(t, nil)
	for path, r := range map[string]*http.Request{
		"GET":          httptest.NewRequest("GET", "/openapi/putEvents", nil),
		"another path": httptest.NewRequest("POST", "/openapi/other", nil),
	} {
		w := httptest.NewRecorder()
		f.h.ServeHTTP(w, r)
		if w.Code < 400 {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

func TestPutEventsTakesOneStructuredEvent(t *testing.T) {
	f := newFront(t, nil)
	if status, a := f.post(single, full("1")); status != 200 || a.FailedEntryCount != 0 || a.EntryList[0].EventID != "1" {
		t.Errorf("got %d %+v", status, a)
	}
	status, a := f.post(single, strings.Replace(full("2"), `"orders"`, `"others"`, 1))
	if status != 400 || a.FailedEntryCount != 1 || a.EntryList[0].ErrorCode != ebtest.CodeNoBus {
		t.Errorf("a refused one: got %d %+v", status, a)
	}
	if got := f.delivered(); !slices.Equal(got, []string{full("1")}) {
		t.Errorf("delivered %q", got)
	}
}

func TestManyCallersOfPutEventsLoseNothing(t *testing.T) {
	f := newFront(t, nil)
	srv := httptest.NewServer(f.h)
	defer srv.Close()
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for range 10 {
				resp, err := srv.Client().Post(srv.URL+"/openapi/putEvents", batch, strings.NewReader("["+full("1")+","+full("2")+"]"))
				if err != nil {
					t.Error(err)
					return
				}
				_ = resp.Body.Close()
			}
		})
	}
	callers.Wait()
	if n := len(f.delivered()); n != 160 {
		t.Errorf("%d deliveries, want 160", n)
	}
}
