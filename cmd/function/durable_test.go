package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/idempotency/otstest"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// tablesEnv makes the test binary a Tablestore stand-in; its value is JSON.
const tablesEnv = "ONCEGATE_TEST_TABLES"

// tablesProcess is a Tablestore stand-in in a process of its own.
type tablesProcess struct {
	Dir        string
	Address    string // where it listens, the same after every restart
	Credential cloudtest.Credential
	cmd        *exec.Cmd
}

// serveTables serves until its parent is gone or kills it.
func serveTables() int {
	var p tablesProcess
	err := json.Unmarshal([]byte(os.Getenv(tablesEnv)), &p)
	accepted := new(cloudtest.Credentials)
	accepted.Add(p.Credential)
	if err == nil {
		err = p.serve(accepted)
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func (p *tablesProcess) serve(accepted *cloudtest.Credentials) error {
	tables, err := otstest.New(otstest.Options{Dir: p.Dir, Credentials: accepted})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", p.Address)
	for end := time.Now().Add(limit); err != nil && time.Now().Before(end); waitABit() {
		l, err = net.Listen("tcp", p.Address) // a passing connection may have the port
	}
	if err != nil {
		return err
	}
	front := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: p.Address}) },
		Transport: tables.Transport(),
	}
	fmt.Println(l.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return (&http.Server{Handler: front, ReadHeaderTimeout: time.Minute}).Serve(l)
}

// start runs the process until kill.
func (p *tablesProcess) start(t *testing.T) {
	t.Helper()
	setup, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	p.cmd = exec.Command(os.Args[0])
	p.cmd.Env = append(os.Environ(), tablesEnv+"="+string(setup))
	p.cmd.Stderr = os.Stderr
	if _, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the stand-in does not start: %v", err)
	}
	p.Address = strings.TrimSpace(line)
}

// kill is SIGKILL; it returns once the process is gone.
func (p *tablesProcess) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

func TestTablestoreStandInKilledWhileProcessesWorkLosesNothing(t *testing.T) {
	t.Parallel()
	const businesses, copies, kills, processes = 60, 4, 6, 4
	var own cloudtest.Credentials
	p := &tablesProcess{Dir: t.TempDir(), Address: "127.0.0.1:0", Credential: own.Issue(time.Time{})}
	p.start(t)
	t.Cleanup(func() { p.kill() })
	w := newWorld(t, options{
		instances: processes, timeout: short, flows: strings.ReplaceAll(effectFlows, "max_attempts: 30", "max_attempts: 100"),
		issue: func() *cloudtest.Credential { return &p.Credential },
		env:   map[string]string{"ONCEGATE_TABLESTORE_ENDPOINT": "http://" + p.Address},
	})
	w.accepted.Add(p.Credential)
	transport := aliyun.NewTransport(1)
	defer transport.CloseIdleConnections()
	createTables(t, "http://"+p.Address, as(p.Credential, transport))

	var all []work
	for i := range businesses {
		all = append(all, work{[]string{"plain", "notice", "record"}[i%3], fmt.Sprintf("N-%d", i), fmt.Sprintf("Order %d", i)})
	}
	var mu sync.Mutex
	answered := map[string]handler.Result{} // the first acknowledgement of each business
	failed := 0
	work := make(chan int)
	var workers sync.WaitGroup
	for range 2 * processes {
		workers.Go(func() {
			for i := range work {
				k := all[i%businesses]
				r, ok := w.patient(k.event(fmt.Sprintf("evt-%d", i)), 200*time.Millisecond, func(string) {
					mu.Lock()
					defer mu.Unlock()
					failed++
				})
				if !ok {
					continue
				}
				mu.Lock()
				if before, known := answered[k.key()]; known && before.ResultRef != r.ResultRef {
					t.Errorf("%s is answered with %q, and with %q before", k.number, r.ResultRef, before.ResultRef)
				}
				answered[k.key()] = r
				mu.Unlock()
			}
		})
	}
	go func() {
		for i := range businesses * copies {
			work <- i
		}
		close(work)
	}()
	for n := range kills {
		until(t, "progress", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return len(answered) > (n+1)*businesses/(kills+2)
		})
		p.kill()
		waitABit()
		p.start(t)
	}
	workers.Wait()
	if err := w.fn.Close(); err != nil {
		t.Error(err)
	}
	p.kill()
	if failed == 0 {
		t.Error("no delivery failed: nothing was disturbed")
	}
	t.Logf("%d kills, %d deliveries, %d times to be delivered again", kills, businesses*copies, failed)

	// What the file holds now is what the process had when it died.
	stored, err := otstest.New(otstest.Options{Dir: p.Dir, Credentials: &own})
	if err != nil {
		t.Fatal(err)
	}
	w.tables = stored
	t.Cleanup(func() {
		if err := stored.Close(); err != nil {
			t.Error(err)
		}
	})
	w.checkRecords()
	for _, k := range all {
		rec, r := w.recordOf(k), answered[k.key()]
		if r.Status != idempotency.StatusSucceeded || rec.ResultRef.Object != r.ResultRef || rec.Status != idempotency.StatusSucceeded {
			t.Errorf("%s was answered with %+v, and the record says %s %s", k.number, r, rec.Status, rec.ResultRef)
		}
		if k.flow != "plain" {
			w.checkDone(t, k)
		}
	}
	if n := len(w.letters()); n != 0 {
		t.Errorf("%d letters", n)
	}
	w.checkLoggedTransitions(t)
}

// checkLoggedTransitions holds the log against the records: a transition is
// logged once its write is acknowledged, and must be in the history then.
func (w *world) checkLoggedTransitions(t *testing.T) {
	t.Helper()
	histories := map[string][]idempotency.Step{}
	for _, r := range w.records() {
		histories[r.Key] = r.History
	}
	logged := 0
	for line := range strings.Lines(w.output.String()) {
		var entry struct {
			Msg      string             `json:"msg"`
			Key      string             `json:"idempotency_key"`
			Status   idempotency.Status `json:"status"`
			Revision int64              `json:"revision"`
			Attempt  int64              `json:"attempt"`
		}
		if json.Unmarshal([]byte(line), &entry) != nil || entry.Msg != "transition" {
			continue
		}
		logged++
		if !slices.ContainsFunc(histories[entry.Key], func(s idempotency.Step) bool {
			return s.Revision == entry.Revision && s.Status == entry.Status && s.Attempt == entry.Attempt
		}) {
			t.Errorf("an acknowledged write was lost: %s", line)
		}
	}
	if logged < 2*len(histories) {
		t.Errorf("%d transitions logged of %d records", logged, len(histories))
	}
}
