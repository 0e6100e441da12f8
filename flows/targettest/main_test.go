package targettest_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/oncegate/oncegate/flows/targettest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// stand is a server and one way to reach it.
type stand struct {
	*targettest.Server
	client *http.Client
	header http.Header // of every call
}

// twice runs a test over a socket and over the in-process transport: what a
// caller sees must not differ.
func twice(t *testing.T, o targettest.Options, run func(*testing.T, *stand)) {
	t.Helper()
	for name, open := range map[string]func(*testing.T, targettest.Options) *stand{"over a socket": socket, "in process": inProcess} {
		t.Run(name, func(t *testing.T) { run(t, open(t, o)) })
	}
}

func inProcess(t *testing.T, o targettest.Options) *stand {
	t.Helper()
	s, err := targettest.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return &stand{Server: s, client: &http.Client{Transport: s.Transport()}}
}

func socket(t *testing.T, o targettest.Options) *stand {
	t.Helper()
	s := inProcess(t, o)
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{}
	t.Cleanup(tr.CloseIdleConnections)
	s.client = &http.Client{Transport: tr}
	return s
}

// answer is what a caller sees; status 0 is no answer.
type answer struct {
	status int
	header http.Header
	body   string
}

// code is the error's code, empty where there is none.
func (a answer) code(t *testing.T) string {
	t.Helper()
	var got struct {
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal([]byte(a.body), &got); err != nil {
		t.Errorf("answer %q: %v", a.body, err)
	}
	return got.Error.Code
}

func (s *stand) do(ctx context.Context, method, path, key, body string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, s.Endpoint()+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	// With a key and a body that it can rewind, net/http itself sends a call
	// again whose reused connection was cut.
	req.GetBody = nil
	req.Header = s.header.Clone()
	if req.Header == nil {
		req.Header = http.Header{}
	}
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, strings.TrimSuffix(string(raw), "\n")}, err
}

// call is do for calls that end with an answer or are cut.
func (s *stand) call(t *testing.T, method, path, key, body string) answer {
	t.Helper()
	got, err := s.do(t.Context(), method, path, key, body)
	if err != nil && !errors.Is(err, io.EOF) {
		t.Fatal(err)
	}
	return got
}

func (s *stand) post(t *testing.T, path, key, body string) answer {
	t.Helper()
	return s.call(t, http.MethodPost, path, key, body)
}

func (s *stand) get(t *testing.T, path string) answer {
	t.Helper()
	return s.call(t, http.MethodGet, path, "", "")
}

// want checks an answer's status and whole body.
func (a answer) want(t *testing.T, status int, body string) {
	t.Helper()
	if a.status != status || a.body != body {
		t.Errorf("got %d %s, want %d %s", a.status, a.body, status, body)
	}
}

// refused checks an answer's status and error code.
func (a answer) refused(t *testing.T, status int, code string) {
	t.Helper()
	if a.status != status || a.code(t) != code {
		t.Errorf("got %d %s, want %d %s", a.status, a.body, status, code)
	}
}

// effects is how much of each the targets have.
func (s *stand) effects(t *testing.T, notifications, messages, records int) {
	t.Helper()
	n, m, r := len(s.Notifications()), len(s.RobotMessages()), len(s.Records())
	if n != notifications || m != messages || r != records {
		t.Errorf("%d notifications, %d messages, %d records, want %d, %d, %d", n, m, r, notifications, messages, records)
	}
}

// clock is a clock that stands until it is moved.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock {
	return &clock{at: time.Date(2026, 3, 1, 18, 0, 0, 5, time.FixedZone("CST", 8*3600))}
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

func sha(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}
