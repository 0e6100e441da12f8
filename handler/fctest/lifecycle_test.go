package fctest

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const crashText = "Process exited unexpectedly before completing request"

func checkCrash(t *testing.T, resp Response) {
	t.Helper()
	if resp.StatusCode != 200 || resp.FunctionError != UnhandledInvocationError || resp.Ending != Crashed ||
		resp.ErrorType != "" || resp.ErrorMessage != crashText {
		t.Errorf("got %+v, payload %s", resp, resp.Payload)
	}
}

func TestEndOfProcess(t *testing.T) {
	for _, do := range []string{"exit", "panic elsewhere"} {
		t.Run(do+" ends the invocation, and the next one has a new process", func(t *testing.T) {
			f := start(t, Options{})
			invoke(t, f, "echo", "")
			pid := onlyPID(t, f)
			checkCrash(t, invoke(t, f, do, "words"))
			mustReturn(t, f)
			if onlyPID(t, f) == pid {
				t.Error("the process came back")
			}
			if s := f.Stats(); s.Starts != 2 || s.Crashes != 1 {
				t.Errorf("got %+v", s)
			}
		})
	}

	t.Run("kill from the service that the function is calling", func(t *testing.T) {
		var f *Function
		g := newGate(t, func(string) {
			id := f.Stats().Instances[0].ID
			f.Kill(id)
			for _, in := range f.Stats().Instances { // perhaps the next one already
				if in.ID == id {
					t.Errorf("still there after Kill: %+v", in)
				}
			}
		})
		f = start(t, Options{})
		running := inBackground(t.Context(), f, order("gate", "", g.url))
		r := await(t, running, "the crash")
		if r.err != nil {
			t.Fatal(r.err)
		}
		checkCrash(t, r.resp)
		f.Kill(r.resp.Instance)
		f.Kill("never there")
		mustReturn(t, f)
	})

	t.Run("killed while idle, its pending request swallows nothing", func(t *testing.T) {
		f := start(t, Options{})
		for range 20 {
			mustReturn(t, f)
			f.KillAll()
		}
		if s := f.Stats(); s.Starts != 20 || s.Crashes != 0 || s.Invocations != 20 {
			t.Errorf("got %+v", s)
		}
	})

	t.Run("killed while it starts, it is replaced as often as it takes", func(t *testing.T) {
		g := newGate(t, nil)
		f := start(t, Options{Env: []string{"ECHO_START=wait", "ECHO_GATE=" + g.url}})
		running := inBackground(t.Context(), f, order("echo", "x", ""))
		for range startAttempts + 2 {
			await(t, g.arrived, "a process that starts")
			f.KillAll()
		}
		close(g.open)
		if r := await(t, running, "the result"); r.err != nil || r.resp.Ending != Returned {
			t.Errorf("got %+v", r)
		}
		if s := f.Stats(); s.Starts != startAttempts+3 || s.Crashes != 0 {
			t.Errorf("got %+v", s)
		}
	})

	t.Run("an idle process that ends unnoticed costs the next invocation nothing", func(t *testing.T) {
		f := start(t, Options{})
		for range 20 {
			resp := mustReturn(t, f)
			f.mu.Lock()
			in := f.alive[resp.Instance]
			f.mu.Unlock()
			in.strike() // not waited for: the next invocation may find it alive, dying or dead
			resp = invoke(t, f, "echo", "hello")
			if resp.Ending == Crashed {
				if resp.Instance != in.id { // only one that had taken it may fail it
					t.Errorf("crashed on %s, killed was %s", resp.Instance, in.id)
				}
				mustReturn(t, f)
			}
		}
	})

	t.Run("however many died while idle, they cost the next invocation nothing", func(t *testing.T) {
		const n = startAttempts + 1
		g := newGate(t, nil)
		f := start(t, Options{Instances: n})
		var running []<-chan result
		for range n {
			running = append(running, inBackground(t.Context(), f, order("gate", "", g.url)))
		}
		for range n {
			await(t, g.arrived, "the calls")
		}
		close(g.open)
		for _, c := range running {
			await(t, c, "a result")
		}
		f.mu.Lock()
		idle := slices.Clone(f.idle)
		f.mu.Unlock()
		for _, in := range idle {
			in.kill() // not through Kill: as if by itself
		}
		mustReturn(t, f)
		if s := f.Stats(); s.Starts != n+1 || s.Crashes != 0 {
			t.Errorf("got %+v", s)
		}
	})

	t.Run("what a process started dies with it", func(t *testing.T) {
		g := newGate(t, nil)
		f := start(t, Options{})
		running := inBackground(t.Context(), f, order("spawn", "", g.url+"x"))
		await(t, g.arrived, "parent or child")
		await(t, g.arrived, "child or parent")
		f.KillAll()
		gone := await(t, g.gone, "the end of both") + " " + await(t, g.gone, "the end of both")
		if gone != "x x-parent" && gone != "x-parent x" {
			t.Errorf("gone: %s", gone)
		}
		checkCrash(t, await(t, running, "the crash").resp)
	})

	t.Run("a binary that exits at its start is an error with its last words", func(t *testing.T) {
		f := start(t, Options{Env: []string{"ECHO_START=exit"}})
		_, err := f.Invoke(t.Context(), Request{})
		var broken *StartError
		if !errors.As(err, &broken) {
			t.Fatalf("got %v", err)
		}
		if broken.Attempts != 3 || broken.Reason != "exit status 3" ||
			!strings.HasPrefix(broken.Stderr, "line ") || !strings.HasSuffix(broken.Stderr, "line 999\ncan't read the configuration") ||
			len(broken.Stderr) > tailBytes {
			t.Errorf("got %+v", broken)
		}
		if s := f.Stats(); s.Starts != 3 {
			t.Errorf("got %+v", s)
		}
	})

	t.Run("a binary that never asks for work is an error", func(t *testing.T) {
		f := start(t, Options{Env: []string{"ECHO_START=gate", "ECHO_GATE=" + newGate(t, nil).url}, StartTimeout: 300 * time.Millisecond})
		_, err := f.Invoke(t.Context(), Request{})
		var broken *StartError
		if !errors.As(err, &broken) || broken.Attempts != 1 || !strings.Contains(broken.Reason, "within 300ms") {
			t.Errorf("got %v", err)
		}
		if s := f.Stats(); len(s.Instances) != 0 {
			t.Errorf("left behind: %+v", s.Instances)
		}
	})

	t.Run("a file that can't be run is an error", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "main")
		if err := os.WriteFile(path, []byte("text"), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := Start(Options{Binary: path, Credentials: someone})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.Invoke(t.Context(), Request{}); !errors.Is(err, os.ErrPermission) {
			t.Errorf("got %v", err)
		}
	})
}

func TestTimeout(t *testing.T) {
	t.Run("a time-out kills the process, and the next invocation works", func(t *testing.T) {
		f := start(t, Options{Timeout: 300 * time.Millisecond})
		resp := invoke(t, f, "hang", "")
		if resp.StatusCode != 200 || resp.FunctionError != UnhandledInvocationError || resp.Ending != TimedOut ||
			resp.ErrorType != "" || resp.ErrorMessage != "Function timed out after 1 seconds" {
			t.Errorf("got %+v, payload %s", resp, resp.Payload)
		}
		if s := f.Stats(); s.Timeouts != 1 || len(s.Instances) != 0 {
			t.Errorf("got %+v", s)
		}
		if next := mustReturn(t, f); next.Instance == resp.Instance {
			t.Error("the instance came back")
		}
	})

	t.Run("abandoned, the process lives on until its late answer is refused", func(t *testing.T) {
		g := newGate(t, nil)
		f := start(t, Options{Timeout: 300 * time.Millisecond, Abandon: true})
		resp, err := f.Invoke(t.Context(), Request{Payload: order("gate, then linger", "late", g.url+"x")})
		if err != nil || resp.Ending != TimedOut {
			t.Fatalf("got %+v, %v", resp, err)
		}
		await(t, g.arrived, "the call or its companion")
		await(t, g.arrived, "the call or its companion")
		if s := f.Stats(); s.Instances[0].ID != resp.Instance || s.Instances[0].State != Abandoned {
			t.Errorf("got %+v", s)
		}
		if next := mustReturn(t, f); next.Instance == resp.Instance {
			t.Error("an abandoned instance was used")
		}
		g.open <- struct{}{} // to either: the companion has no answer to give
		select {
		case g.open <- struct{}{}:
		case <-g.gone:
		}
		mustReturn(t, f)
		f.mu.Lock()
		in := f.alive[resp.Instance]
		f.mu.Unlock()
		if in != nil {
			await(t, in.done, "the end of the abandoned instance")
		}
		if s := f.Stats(); s.LateAnswers == 0 {
			t.Errorf("got %+v", s)
		}
	})
}

func TestClose(t *testing.T) {
	t.Run("leaves no process, no goroutine and no invocation", func(t *testing.T) {
		before := goleak.IgnoreCurrent()
		g := newGate(t, nil)
		f := start(t, Options{Instances: 3})
		var running []<-chan result
		for range 3 {
			running = append(running, inBackground(t.Context(), f, order("gate", "", g.url)))
		}
		for range 3 {
			await(t, g.arrived, "three calls")
		}
		waiting := inBackground(t.Context(), f, order("echo", "", ""))
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		for _, c := range append(running, waiting) {
			if r := await(t, c, "an end"); !errors.Is(r.err, ErrClosed) {
				t.Errorf("got %+v", r)
			}
		}
		for range 3 {
			await(t, g.gone, "three cut calls")
		}
		if s := f.Stats(); len(s.Instances) != 0 {
			t.Errorf("left behind: %+v", s.Instances)
		}
		if _, err := f.Invoke(t.Context(), Request{}); !errors.Is(err, ErrClosed) {
			t.Errorf("got %v", err)
		}
		if err := f.Close(); err != nil {
			t.Errorf("second Close: %v", err)
		}
		close(g.open)
		g.close()
		goleak.VerifyNone(t, before)
	})
}
