package fctest

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestInvoke(t *testing.T) {
	t.Run("a result is the payload of a 200 without an error type", func(t *testing.T) {
		f := start(t, Options{VersionID: "7"})
		resp := invoke(t, f, "echo", "x")
		if resp.StatusCode != 200 || resp.FunctionError != "" || resp.Ending != Returned || string(resp.Payload) != `"x"` {
			t.Errorf("got %+v, payload %s", resp, resp.Payload)
		}
		if resp.Version != "7" || resp.RequestID == "" || resp.Instance != f.Stats().Instances[0].ID {
			t.Errorf("got %+v", resp)
		}
	})

	t.Run("errors and panics come as the SDK writes them, and the process lives on", func(t *testing.T) {
		f := start(t, Options{})
		invoke(t, f, "echo", "")
		pid := onlyPID(t, f)
		for _, c := range []struct{ do, errorType string }{
			{"typed error", "rate_limited"},
			{"plain error", "errorString"},
			{"panic", "string"},
		} {
			resp := invoke(t, f, c.do, "words")
			if resp.StatusCode != 200 || resp.FunctionError != UnhandledInvocationError || resp.Ending != Failed ||
				resp.ErrorType != c.errorType || resp.ErrorMessage != "words" {
				t.Errorf("%s: got %+v, payload %s", c.do, resp, resp.Payload)
			}
		}
		if got := onlyPID(t, f); got != pid {
			t.Errorf("pid %d became %d", pid, got)
		}
		if s := f.Stats(); s.Starts != 1 || s.Invocations != 4 || s.Failures != 3 || s.Instances[0].Runs != 4 {
			t.Errorf("got %+v", s)
		}
	})

	t.Run("the function sees its context", func(t *testing.T) {
		now := time.Date(2099, 1, 2, 3, 4, 5, 678e6, time.UTC)
		f := start(t, Options{
			FunctionName: "name", Qualifier: "prod", VersionID: "3", Region: "cn-test", AccountID: "42",
			LogProject: "project", LogStore: "store", MemoryMB: 128, Timeout: 90500 * time.Millisecond,
			Now: func() time.Time { return now },
		})
		s, _ := ask(t, f, Request{RequestID: "request-1", RetryCount: 2})
		var want seen
		c := &want.Context
		c.RequestID, c.RetryCount, c.Region, c.AccountId = "request-1", 2, "cn-test", "42"
		c.Credentials.AccessKeyId, c.Credentials.AccessKeySecret, c.Credentials.SecurityToken = "STS.id", "secret", "token"
		c.Function.Name, c.Function.Handler, c.Function.Memory, c.Function.Timeout = "name", "echo", "128", 91
		c.Service.LogProject, c.Service.LogStore, c.Service.Qualifier, c.Service.VersionId = "project", "store", "prod", "3"
		if s.Context != want.Context {
			t.Errorf("got  %+v\nwant %+v", s.Context, want.Context)
		}
		if want := now.Add(f.o.Timeout); !s.Deadline.Equal(want) {
			t.Errorf("deadline %v, want %v", s.Deadline, want)
		}
	})

	t.Run("the process gets FC's variables, its own and nothing else", func(t *testing.T) {
		t.Setenv("PATH", "/bin")
		t.Setenv("HOME", "/home/nobody")
		t.Setenv("TMPDIR", "/tmp")
		t.Setenv("NOT_FOR_FUNCTIONS", "1")
		f := start(t, Options{Env: []string{"BUS=orders", "ALIBABA_CLOUD_ACCESS_KEY_ID=mine"}})
		s, resp := ask(t, f, Request{})
		code := filepath.Dir(f.o.Binary)
		want := []string{
			"ALIBABA_CLOUD_ACCESS_KEY_ID=STS.id", "ALIBABA_CLOUD_ACCESS_KEY_SECRET=secret", "ALIBABA_CLOUD_SECURITY_TOKEN=token",
			"BUS=orders", "FC_ACCOUNT_ID=1234567890123456", "FC_FUNCTION_HANDLER=echo", "FC_FUNCTION_MEMORY_SIZE=512",
			"FC_FUNCTION_NAME=oncegate-tasks", "FC_FUNC_CODE_PATH=" + code, "FC_INSTANCE_ID=" + resp.Instance,
			"FC_REGION=cn-hangzhou", "FC_VER_ID=LATEST", "HOME=/home/nobody", "PATH=/bin", "TMPDIR=/tmp",
		}
		got := slices.DeleteFunc(s.Env, func(kv string) bool { return strings.HasPrefix(kv, "FC_RUNTIME_API=127.0.0.1:") })
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
		if s.Dir != code {
			t.Errorf("working folder %s, want %s", s.Dir, code)
		}
	})

	t.Run("each invocation gets the credential of its time, the environment keeps the first", func(t *testing.T) {
		var mu sync.Mutex
		current := "STS.first"
		f := start(t, Options{Credentials: func() cloudtest.Credential {
			mu.Lock()
			defer mu.Unlock()
			return cloudtest.Credential{AccessKeyID: current}
		}})
		for _, key := range []string{"STS.first", "STS.second", "STS.third"} {
			mu.Lock()
			current = key
			mu.Unlock()
			s, _ := ask(t, f, Request{})
			if got := s.Context.Credentials.AccessKeyId; got != key {
				t.Errorf("credential %s, want %s", got, key)
			}
			if !slices.Contains(s.Env, "ALIBABA_CLOUD_ACCESS_KEY_ID=STS.first") {
				t.Errorf("environment changed: %q", s.Env)
			}
		}
		if n := f.Stats().Starts; n != 1 {
			t.Errorf("%d starts, want 1", n)
		}
	})

	t.Run("a payload or a result above 32 MB is refused", func(t *testing.T) {
		f := start(t, Options{})
		_, err := f.Invoke(t.Context(), Request{Payload: make([]byte, MaxPayload+1)})
		if !errors.Is(err, ErrEntityTooLarge) {
			t.Errorf("got %v", err)
		}
		resp := invoke(t, f, "large", "")
		if resp.Ending != Failed || !strings.Contains(resp.ErrorMessage, "33554432") {
			t.Errorf("got %s %s", resp.Ending, resp.ErrorMessage)
		}
		mustReturn(t, f)
	})

	t.Run("a request id that would break a header or a path is refused", func(t *testing.T) {
		f := start(t, Options{})
		for _, id := range []string{"a/b", "a b", "a\nb", strings.Repeat("a", 129)} {
			if _, err := f.Invoke(t.Context(), Request{RequestID: id}); err == nil {
				t.Errorf("%q was taken", id)
			}
		}
	})
}

func TestConcurrency(t *testing.T) {
	t.Run("20 instances run 20 invocations at once, one each, and the next one is refused", func(t *testing.T) {
		const n = 20
		f := start(t, Options{Instances: n, Wait: -1})
		for round := range 2 {
			g := newGate(t, nil)
			var running []<-chan result
			for range n {
				running = append(running, inBackground(t.Context(), f, order("gate", "", g.url)))
			}
			for range n {
				await(t, g.arrived, "20 calls at the gate")
			}
			if _, err := f.Invoke(t.Context(), Request{}); !errors.Is(err, ErrResourceExhausted) {
				t.Errorf("round %d: got %v", round, err)
			}
			close(g.open)
			used := map[string]bool{}
			for _, c := range running {
				r := await(t, c, "a result")
				if r.err != nil || r.resp.Ending != Returned {
					t.Errorf("got %+v", r)
				}
				used[r.resp.Instance] = true
			}
			if len(used) != n {
				t.Errorf("round %d: %d instances used, want %d", round, len(used), n)
			}
		}
		if s := f.Stats(); s.Starts != n || len(s.Instances) != n {
			t.Errorf("got %d starts, %d instances", s.Starts, len(s.Instances))
		}
	})

	t.Run("more invocations than instances wait for their turn", func(t *testing.T) {
		f := start(t, Options{Instances: 3})
		var running []<-chan result
		for range 60 {
			running = append(running, inBackground(t.Context(), f, order("echo", "x", "")))
		}
		for _, c := range running {
			// the function itself fails where it is given two at once
			if r := await(t, c, "a result"); r.err != nil || r.resp.Ending != Returned {
				t.Errorf("got %+v, payload %s", r, r.resp.Payload)
			}
		}
		if n := f.Stats().Starts; n > 3 {
			t.Errorf("%d starts, want 3 at most", n)
		}
	})

	t.Run("waiting ends with the caller's ctx or with Wait", func(t *testing.T) {
		for name, o := range map[string]Options{"ctx": {}, "wait": {Wait: time.Millisecond}} {
			g := newGate(t, nil)
			f := start(t, o)
			running := inBackground(t.Context(), f, order("gate", "", g.url))
			await(t, g.arrived, "the first call")
			ctx := t.Context()
			if name == "ctx" {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, time.Millisecond)
				defer cancel()
			}
			if _, err := f.Invoke(ctx, Request{}); !errors.Is(err, ErrResourceExhausted) {
				t.Errorf("%s: got %v", name, err)
			}
			close(g.open)
			if r := await(t, running, "the first result"); r.resp.Ending != Returned {
				t.Errorf("%s: got %+v", name, r)
			}
		}
	})

	t.Run("a caller that gives up leaves the invocation running", func(t *testing.T) {
		g := newGate(t, nil)
		f := start(t, Options{})
		ctx, cancel := context.WithCancel(t.Context())
		running := inBackground(ctx, f, order("gate", "", g.url))
		await(t, g.arrived, "the call")
		cancel()
		if r := await(t, running, "the caller"); !errors.Is(r.err, context.Canceled) {
			t.Errorf("got %+v", r)
		}
		if s := f.Stats(); len(s.Instances) != 1 || s.Instances[0].State != Busy {
			t.Errorf("got %+v", s)
		}
		next := inBackground(t.Context(), f, order("echo", "x", ""))
		close(g.open)
		if r := await(t, next, "the next result"); r.err != nil || r.resp.Ending != Returned {
			t.Errorf("got %+v", r)
		}
		if s := f.Stats(); s.Starts != 1 || s.Instances[0].Runs != 2 {
			t.Errorf("got %+v", s)
		}
	})
}

func TestOutput(t *testing.T) {
	t.Run("what the process writes is passed on", func(t *testing.T) {
		var out, errs bytes.Buffer
		f := start(t, Options{Stdout: &out, Stderr: &errs})
		invoke(t, f, "plain error", "some words")
		_ = f.Close()
		if !strings.Contains(out.String(), "FC Invoke Start RequestId: ") || !strings.Contains(errs.String(), "some words") {
			t.Errorf("stdout %q, stderr %q", out.String(), errs.String())
		}
	})

	t.Run("a last line without its end is passed on too", func(t *testing.T) {
		var errs bytes.Buffer
		f := start(t, Options{Stderr: &errs})
		invoke(t, f, "mutter", "no newline")
		_ = f.Close()
		if errs.String() != "no newline\n" {
			t.Errorf("got %q", errs.String())
		}
	})

	t.Run("above the limit it is read, counted out and dropped", func(t *testing.T) {
		const limit = 1000
		var errs bytes.Buffer
		f := start(t, Options{Stderr: &errs, OutputLimit: limit})
		if resp := invoke(t, f, "shout", ""); resp.Ending != Returned { // 300 KB: more than a pipe holds
			t.Errorf("got %+v", resp)
		}
		_ = f.Close()
		text, notice, cut := strings.Cut(errs.String(), "\n[instance ")
		if !cut || len(text) != limit || notice != f.instances+"-1: output cut after 1000 bytes]\n" {
			t.Errorf("%d bytes, then %q", len(text), notice)
		}
	})
}
