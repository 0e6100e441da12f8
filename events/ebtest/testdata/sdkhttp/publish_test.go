// Package sdkhttp publishes to ebtest with the HTTP client of the CloudEvents
// SDK itself. It is a module of its own because that client needs more modules
// than the rest of the repository. With -record it writes what the client sends
// to ../sdk, where the tests of ebtest replay it.
package sdkhttp

import (
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/client"
	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/protocol"
	cehttp "github.com/cloudevents/sdk-go/v2/protocol/http"

	"github.com/oncegate/oncegate/events/ebtest"
)

var record = flag.Bool("record", false, "write the client's requests to ../sdk")

// server is a bus behind HTTP that keeps what was delivered.
func server(t *testing.T, name string) (url string, got chan []byte) {
	got = make(chan []byte, 100)
	b, err := ebtest.New(ebtest.Options{Rules: []ebtest.Rule{{Name: "r", Target: func(_ context.Context, d ebtest.Delivery) ebtest.Result {
		got <- d.EventRaw
		return ebtest.Result{OK: true}
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	h := b.PutEventsHandler(nil)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if *record && name != "" {
			r.Host = "bus"
			dump, err := httputil.DumpRequest(r, true)
			if err == nil {
				err = os.WriteFile("../sdk/"+name+".http", dump, 0o644)
			}
			if err != nil {
				t.Error(err)
			}
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { srv.Close(); _ = b.Close() })
	return srv.URL + "/openapi/putEvents", got
}

func newClient(t *testing.T, url string) client.Client {
	c, err := client.NewHTTP(cehttp.WithTarget(url))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func sample(id, contentType string, data any) event.Event {
	e := event.New()
	e.SetID(id)
	e.SetSource("app.test")
	e.SetType("app:Order:Paid")
	e.SetSubject("100% ü")
	e.SetTime(time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC))
	e.SetExtension("tenant", "t1")
	if err := e.SetData(contentType, data); err != nil {
		panic(err)
	}
	return e
}

func check(t *testing.T, raw []byte, want event.Event) {
	t.Helper()
	var got event.Event
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatalf("%v in %s", err, raw)
	}
	if got.ID() != want.ID() || got.Source() != want.Source() || got.Type() != want.Type() || got.Subject() != want.Subject() ||
		!got.Time().Equal(want.Time()) || got.Extensions()["tenant"] != "t1" || got.DataContentType() != want.DataContentType() ||
		string(got.Data()) != string(want.Data()) {
		t.Errorf("delivered %s\nwant %s", raw, want)
	}
}

func TestTheClientPublishesInEveryForm(t *testing.T) {
	orders := map[string]any{"order": 9007199254740993, "text": "<é&>"}
	for _, c := range []struct {
		name string
		e    event.Event
		mode func(context.Context) context.Context
	}{
		{"structured", sample("1", event.ApplicationJSON, orders), binding.WithForceStructured},
		{"binary", sample("2", event.ApplicationJSON, orders), binding.WithForceBinary},
		{"binary-text", sample("3", event.TextPlain, "a \"word\" <é>"), binding.WithForceBinary},
		{"binary-bytes", sample("4", "application/octet-stream", []byte{0xff, 0, 0xfe}), binding.WithForceBinary},
	} {
		t.Run(c.name, func(t *testing.T) {
			url, got := server(t, c.name)
			if err := newClient(t, url).Send(c.mode(t.Context()), c.e); !protocol.IsACK(err) {
				t.Fatal(err)
			}
			check(t, <-got, c.e)
		})
	}
	t.Run("batch", func(t *testing.T) {
		url, got := server(t, "batch")
		events := map[string]event.Event{"5": sample("5", event.ApplicationJSON, orders), "6": sample("6", event.ApplicationJSON, orders)}
		req, err := cehttp.NewHTTPRequestFromEvents(t.Context(), url, []event.Event{events["5"], events["6"]})
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v", resp, err)
		}
		resp.Body.Close()
		for range events {
			raw := <-got
			var e event.Event
			if err := json.Unmarshal(raw, &e); err != nil {
				t.Fatal(err)
			}
			check(t, raw, events[e.ID()])
		}
	})
}

func TestTheClientSeesARefusedEventAsNotAcknowledged(t *testing.T) {
	e := sample(strings.Repeat("x", 129), event.ApplicationJSON, 1)
	for name, mode := range map[string]func(context.Context) context.Context{
		"structured": binding.WithForceStructured, "binary": binding.WithForceBinary,
	} {
		url, got := server(t, "")
		var status *cehttp.Result
		if err := newClient(t, url).Send(mode(t.Context()), e); protocol.IsACK(err) || !protocol.ResultAs(err, &status) || status.StatusCode != 400 {
			t.Errorf("%s: %v", name, err)
		}
		if len(got) != 0 {
			t.Errorf("%s: it was delivered", name)
		}
	}
}
