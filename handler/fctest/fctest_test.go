package fctest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

// patience is how long a test waits for what must come.
const patience = time.Minute

func TestMain(m *testing.M) {
	if url := os.Getenv("FCTEST_PARENT"); url != "" {
		parent(url)
	}
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "fctest")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		binary := filepath.Join(dir, "echo")
		build := exec.Command("go", "build", "-o", binary, "./testdata/echo")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			fmt.Fprintln(os.Stderr, "build testdata/echo:", err)
			return 1
		}
		os.Setenv("FCTEST_BINARY", binary)
		code := m.Run()
		if err := goleak.Find(); err != nil && code == 0 {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return code
	}())
}

// parent is another process that runs a function, to be killed. The function
// waits before it comes to the SDK: that one would write into a broken pipe and
// die of it.
func parent(url string) {
	f, err := Start(Options{
		Binary: os.Getenv("FCTEST_BINARY"), Credentials: someone,
		Env: []string{"ECHO_START=gate", "ECHO_GATE=" + url},
	})
	if err == nil {
		_, err = f.Invoke(context.Background(), Request{})
	}
	fmt.Fprintln(os.Stderr, "parent came to an end:", err)
	os.Exit(1)
}

func someone() cloudtest.Credential {
	return cloudtest.Credential{AccessKeyID: "STS.id", AccessKeySecret: "secret", SecurityToken: "token"}
}

func start(t *testing.T, o Options) *Function {
	t.Helper()
	o.Binary = os.Getenv("FCTEST_BINARY")
	if o.Credentials == nil {
		o.Credentials = someone
	}
	f, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func order(do, value, url string) []byte {
	b, _ := json.Marshal(map[string]string{"Do": do, "Value": value, "URL": url})
	return b
}

func invoke(t *testing.T, f *Function, do, value string) Response {
	t.Helper()
	resp, err := f.Invoke(t.Context(), Request{Payload: order(do, value, "")})
	if err != nil {
		t.Fatal(err)
	}
	return resp
}

// mustReturn invokes until it gets a result: with a short Options.Timeout a
// slow machine may need more than one try.
func mustReturn(t *testing.T, f *Function) Response {
	t.Helper()
	for {
		resp := invoke(t, f, "echo", "hello")
		if resp.Ending == TimedOut {
			continue
		}
		if resp.Ending != Returned || string(resp.Payload) != `"hello"` {
			t.Fatalf("got %+v, payload %s", resp, resp.Payload)
		}
		return resp
	}
}

func onlyPID(t *testing.T, f *Function) int {
	t.Helper()
	s := f.Stats()
	if len(s.Instances) != 1 {
		t.Fatalf("%d instances, want 1", len(s.Instances))
	}
	return s.Instances[0].PID
}

type seen struct {
	PID     int
	Context struct {
		RequestID   string
		Credentials struct{ AccessKeyId, AccessKeySecret, SecurityToken string }
		Function    struct {
			Name, Handler, Memory string
			Timeout               int
		}
		Service           struct{ LogProject, LogStore, Qualifier, VersionId string }
		Region, AccountId string
		RetryCount        int
	}
	Deadline time.Time
	Env      []string
	Dir      string
}

func ask(t *testing.T, f *Function, r Request) (seen, Response) {
	t.Helper()
	r.Payload = order("report", "", "")
	resp, err := f.Invoke(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	var s seen
	if err := json.Unmarshal(resp.Payload, &s); err != nil {
		t.Fatalf("%v in %s", err, resp.Payload)
	}
	return s, resp
}

// gate is a service that functions call: it tells when a call arrives, holds
// it, and tells when the caller is cut off.
type gate struct {
	url     string
	close   func()
	arrived chan string
	open    chan struct{}
	gone    chan string
}

func newGate(t *testing.T, onArrival func(name string)) *gate {
	g := &gate{arrived: make(chan string, 100), open: make(chan struct{}), gone: make(chan string, 100)}
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		name := r.URL.Path[1:]
		if onArrival != nil {
			onArrival(name)
		}
		g.arrived <- name
		select {
		case <-g.open:
		case <-r.Context().Done():
			g.gone <- name
		}
	}))
	g.url, g.close = srv.URL+"/", srv.Close
	t.Cleanup(srv.Close)
	return g
}

func await[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(patience):
		t.Fatal("waited in vain for " + what)
		panic("unreachable")
	}
}

type result struct {
	resp Response
	err  error
}

// inBackground invokes from another goroutine.
func inBackground(ctx context.Context, f *Function, payload []byte) <-chan result {
	c := make(chan result, 1)
	go func() {
		resp, err := f.Invoke(ctx, Request{Payload: payload})
		c <- result{resp, err}
	}()
	return c
}

func TestStart(t *testing.T) {
	binary := os.Getenv("FCTEST_BINARY")
	for name, o := range map[string]Options{
		"no credentials":       {Binary: binary},
		"a missing binary":     {Binary: binary + "-missing", Credentials: someone},
		"a folder":             {Binary: filepath.Dir(binary), Credentials: someone},
		"a reserved variable":  {Binary: binary, Credentials: someone, Env: []string{"FC_REGION=x"}},
		"a variable without =": {Binary: binary, Credentials: someone, Env: []string{"REGION"}},
		"4 KB of environment":  {Binary: binary, Credentials: someone, Env: []string{"A=" + strings.Repeat("x", MaxEnvironment)}},
		"a negative time-out":  {Binary: binary, Credentials: someone, Timeout: -1},
	} {
		t.Run("refuses "+name, func(t *testing.T) {
			if _, err := Start(o); err == nil {
				t.Error("it was taken")
			}
		})
	}
	if _, err := Start(Options{Binary: binary, Credentials: func() cloudtest.Credential { return cloudtest.Credential{} }}); err != nil {
		t.Error(err)
	}
}
