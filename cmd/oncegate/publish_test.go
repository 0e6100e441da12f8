package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/events"
	"github.com/oncegate/oncegate/events/ebtest"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// lossy reaches a bus and loses the answers of its first calls.
type lossy struct {
	handlerTransport
	lose, calls int
	sizes       []int64
}

func (l *lossy) RoundTrip(r *http.Request) (*http.Response, error) {
	l.calls++
	l.sizes = append(l.sizes, r.ContentLength)
	resp, err := l.handlerTransport.RoundTrip(r)
	if l.calls <= l.lose {
		return nil, io.ErrUnexpectedEOF
	}
	return resp, err
}

// publishRoom is a bus of its own that counts what it delivers.
func publishRoom(t *testing.T, lose int) (*ebtest.Bus, *lossy, publisher, *[]time.Duration) {
	t.Helper()
	bus, err := ebtest.New(ebtest.Options{Bus: "orders"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bus.Close() })
	var creds cloudtest.Credentials
	way := &lossy{handlerTransport: handlerTransport{bus.PutEventsHandler(bus.Signed(&creds))}, lose: lose}
	client, err := aliyun.NewPublisher("http://bus.local", aliyun.Options{Credentials: fixed(issueTo(&creds, nil)), Transport: way})
	if err != nil {
		t.Fatal(err)
	}
	waits := new([]time.Duration)
	return bus, way, publisher{client, func(_ context.Context, d time.Duration) error { *waits = append(*waits, d); return nil }, func(string, ...any) {}}, waits
}

func outgoingEvents(t *testing.T, bus string, n, size int) (all []*publishing) {
	t.Helper()
	for i := range n {
		raw := fmt.Sprintf(`{"specversion":"1.0","id":"e%d","source":"s","type":"t","data":%q}`, i, strings.Repeat("x", size))
		out, err := events.ReadOutgoing([]byte(raw), bus)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &publishing{Outgoing: out})
	}
	return all
}

func TestEventsArePublishedInCallsOfTheSizeThatTheBusTakes(t *testing.T) {
	for _, c := range []struct{ n, size, calls int }{{1, 1, 1}, {16, 1, 1}, {17, 1, 2}, {9, 200 << 10, 2}, {4, 255 << 10, 1}, {5, 255 << 10, 2}} {
		bus, way, p, _ := publishRoom(t, 0)
		all := outgoingEvents(t, "orders", c.n, c.size)
		if err := p.send(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		if way.calls != c.calls || bus.Counts()["published"] != c.n {
			t.Errorf("%+v: %d calls, %d published", c, way.calls, bus.Counts()["published"])
		}
		for _, one := range all {
			if one.outcome != publishAccepted || one.traceID == "" {
				t.Errorf("%+v: %s %s", c, one.outcome, one.code)
			}
		}
		for _, size := range way.sizes {
			if size > aliyun.MaxPutEventsBytes {
				t.Errorf("%+v: a call of %d bytes", c, size)
			}
		}
	}
}

func TestALostAnswerIsAskedForAgainUnderTheSameIDsAndNotForEver(t *testing.T) {
	bus, way, p, waits := publishRoom(t, 2)
	all := outgoingEvents(t, "orders", 2, 1)
	if err := p.send(t.Context(), all); err != nil || all[0].outcome != publishAccepted {
		t.Fatalf("%s %v", all[0].outcome, err)
	}
	if way.calls != 3 || bus.Counts()["published"] != 6 || fmt.Sprint(*waits) != "[500ms 1s]" {
		t.Errorf("%d calls, %d published, waits %v", way.calls, bus.Counts()["published"], *waits)
	}
	_, way, p, _ = publishRoom(t, 100)
	all = outgoingEvents(t, "orders", 17, 1)
	err := p.send(t.Context(), all)
	if err == nil || way.calls != 4 || all[0].outcome != publishUnknown || all[16].outcome != publishNotSent {
		t.Errorf("%v after %d calls: %s %s", err, way.calls, all[0].outcome, all[16].outcome)
	}
	var exit *exitError
	if verdict := publishVerdict(all, err); !errors.As(verdict, &exit) || exit.code != exitPartial || !strings.Contains(verdict.Error(), "16 may have been accepted, 1 were not sent") {
		t.Errorf("got %v", verdict)
	}
}

func TestEventsThatTheBusRefusesAreNamedAndTheOthersAreDone(t *testing.T) {
	bus, way, p, _ := publishRoom(t, 0)
	all := append(outgoingEvents(t, "orders", 1, 1), outgoingEvents(t, "payroll", 1, 1)...)
	if err := p.send(t.Context(), all); err != nil {
		t.Fatal(err)
	}
	if all[0].outcome != publishAccepted || all[1].outcome != publishRefused || all[1].code != ebtest.CodeNoBus || way.calls != 2 || bus.Counts()["published"] != 1 {
		t.Errorf("%s, %s %s", all[0].outcome, all[1].outcome, all[1].code)
	}
	var exit *exitError
	if err := publishVerdict(all, nil); !errors.As(err, &exit) || exit.code != exitPartial || !strings.Contains(err.Error(), "1 were refused") {
		t.Errorf("got %v", err)
	}
}

func TestTheBusIsThatOfTheFunctionsAccountAndRegion(t *testing.T) {
	for functions, want := range map[string]string{
		"https://1234.cn-hangzhou.fc.aliyuncs.com":          "https://1234.eventbridge.cn-hangzhou.aliyuncs.com",
		"https://1234.cn-hangzhou-internal.fc.aliyuncs.com": "https://1234.eventbridge.cn-hangzhou.aliyuncs.com",
		"https://fcv3.cn-hangzhou.aliyuncs.com":             "",
		"http://127.0.0.1:80":                               "", "": "", "%": "",
	} {
		if got := busEndpoint(functions); got != want {
			t.Errorf("%q: %q, want %q", functions, got, want)
		}
	}
}

// cloudStandIn is a bus on a socket, reached by the command as the cloud's.
func cloudStandIn(t *testing.T, id *cloudtest.Identity) (*ebtest.Bus, map[string]string) {
	t.Helper()
	bus, err := ebtest.New(ebtest.Options{Bus: localEnvironment})
	if err != nil {
		t.Fatal(err)
	}
	var creds cloudtest.Credentials
	l, err := cloudtest.Listen(bus.PutEventsHandler(bus.Signed(&creds)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(l.Close(), bus.Close()) })
	keys := issueTo(&creds, id)
	return bus, map[string]string{
		"ONCEGATE_EVENTBRIDGE_ENDPOINT": l.URL, "ONCEGATE_ENVIRONMENT": localEnvironment, "ALIBABA_CLOUD_ACCESS_KEY_ID": keys.AccessKeyID,
		"ALIBABA_CLOUD_ACCESS_KEY_SECRET": keys.AccessKeySecret, "ALIBABA_CLOUD_SECURITY_TOKEN": keys.SecurityToken,
	}
}

func TestPublishOnTheCloudIsForTheRolePublisher(t *testing.T) {
	for role, want := range map[string]int{"publisher": 0, "replayer": exitRefused, "function": exitRefused} {
		t.Run(role, func(t *testing.T) {
			id, err := (&app{getenv: func(string) string { return role }}).localIdentity()
			if err != nil {
				t.Fatal(err)
			}
			bus, env := cloudStandIn(t, id)
			var out, errOut bytes.Buffer
			code := run([]string{"publish", "--output", "jsonl", "../../events/samples/01-summary.json", "../../events/samples/25-order.json"},
				strings.NewReader(""), &out, &errOut, func(name string) string { return env[name] })
			if code != want {
				t.Fatalf("exit code %d, want %d\n%s", code, want, errOut.String())
			}
			if want != 0 {
				if text := errOut.String(); !strings.Contains(text, "missing right: eventbridge:PutEvents on acs:eventbridge:*:*:eventbus/oncegate-local") ||
					!strings.Contains(text, "publisher") || strings.Contains(text, env["ALIBABA_CLOUD_ACCESS_KEY_SECRET"]) {
					t.Errorf("got %s", text)
				}
				return
			}
			d := json.NewDecoder(&out)
			for d.More() {
				var l publishLine
				if err := d.Decode(&l); err != nil || l.Outcome != publishAccepted || l.TraceID == "" || l.EventID == "" {
					t.Errorf("%+v %v", l, err)
				}
			}
			if n := bus.Counts()["published"]; n != 2 {
				t.Errorf("%d published", n)
			}
		})
	}
}
