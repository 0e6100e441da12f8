// Package fctest stands in for Alibaba Cloud Function Compute (FC 3.0, runtime
// go1). It runs the real binary of a function, built on the real FC runtime
// SDK, as child processes, and speaks the Runtime API with them:
//
//	GET  /2020-11-11/runtime/invocation/next            waits for work
//	POST /2020-11-11/runtime/invocation/{id}/response   the result
//	POST /2020-11-11/runtime/invocation/{id}/error      a returned error, or a panic
//
// What a caller sees is a synchronous invocation. It ends in one of four ways,
// and a function's fault is a Response, not an error:
//
//	Returned   200
//	Failed     200 and X-Fc-Error-Type: UnhandledInvocationError, with the function's error JSON
//	Crashed    the same header; the process ended before it answered
//	TimedOut   the same header; the function's time was up
//
// An asynchronous invocation is only enqueued. FC runs it, and runs it again
// when the function fails, whatever the caller does meanwhile:
//
//	enqueued -> run, x-fc-retry-count 0, 1, 2 .. -> succeeded  on-success message
//	                                             -> failed     on-failure message
//	                                             -> pending    the function was closed first
//
// Handler offers both over HTTP, as InvokeFunction does.
//
// An instance is one process and one listener. It begins with the invocation
// that finds no idle one, runs one invocation at a time, and is never brought
// back: whoever comes after a dead process gets a new one, with a new id, a
// new address in FC_RUNTIME_API and an empty queue. The SDK asks for its next
// invocation while it still works on the last one, so every process leaves a
// pending GET behind when it dies; with a queue of its own it can swallow
// nothing.
//
//	start -> starting -> busy <-> idle
//	             |         |        |
//	             v         v        v
//	            dead <-- killed, crashed, time-out
//
// The SDK retries a refused Runtime API without any pause and logs each try.
// So a process always dies before its listener closes, it dies with the
// process that called Start (on Linux), and its output is passed on only up to
// a limit.
//
// Headers are the ones that the SDK reads, variables the ones that FC's manual
// lists for a built-in runtime; nothing here was compared with the service
// itself. What FC refuses (a reserved variable, 4 KB of environment, a payload
// above 32 MB) is refused here.
package fctest

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

// Limits of FC for a synchronous invocation and a function's own environment.
const (
	MaxPayload     = 32 << 20
	MaxEnvironment = 4 << 10
)

// Options describe a function. Only Binary and Credentials are required.
type Options struct {
	Binary       string   // path of the function's binary; its folder is the code path and the working folder
	Env          []string // KEY=value; beside it the process gets what FC sets, and PATH, HOME and TMPDIR
	FunctionName string   // default oncegate-tasks
	Qualifier    string   // default LATEST
	VersionID    string   // default LATEST
	Region       string   // default cn-hangzhou
	AccountID    string   // default 1234567890123456
	LogProject   string
	LogStore     string
	MemoryMB     int           // only told to the function, not enforced; default 512
	Instances    int           // processes at most, default 1; each runs one invocation at a time
	Timeout      time.Duration // of one invocation, counted from its delivery; default 60 s
	StartTimeout time.Duration // from a process's start to its first request for work; default 30 s

	// Wait is how long an invocation waits while all instances are busy: 0 until
	// its ctx ends, below 0 not at all, which is nearest to FC's 429.
	Wait time.Duration

	// Abandon lets a process live on when its invocation times out: nobody waits
	// for it any more, another instance takes its place at once, and its late
	// answer is refused, after which it is removed. Without it the process is killed.
	Abandon bool

	// Credentials is asked for each invocation (the x-fc-access-key headers), and
	// once more for each process, whose ALIBABA_CLOUD_* variables keep what they
	// were at its start. It must be safe for concurrent use, and not call Kill,
	// KillAll or Close.
	Credentials func() cloudtest.Credential

	Stdout, Stderr io.Writer // whole lines of all processes, written one at a time; nil discards
	OutputLimit    int       // bytes passed on of each stream of each process, then a notice; default 1 MiB

	Async Async // of InvokeAsync

	Now func() time.Time // source of the deadline header, request ids and asynchronous ages; nil means time.Now
}

// Start checks the options. Processes begin with the invocations that need them.
func Start(o Options) (*Function, error) {
	if err := o.complete(); err != nil {
		return nil, fmt.Errorf("start function: %w", err)
	}
	var b [4]byte
	_, _ = rand.Read(b[:])
	return &Function{
		o:         o,
		slots:     make(chan struct{}, o.Instances),
		closing:   make(chan struct{}),
		async:     newAsyncCalls(),
		alive:     map[string]*instance{},
		instances: "c-" + hex.EncodeToString(b[:]),
	}, nil
}

func (o *Options) complete() error {
	if o.Credentials == nil {
		return errors.New("no credentials")
	}
	path, err := filepath.Abs(o.Binary)
	if err != nil {
		return err
	}
	if info, err := os.Stat(path); err != nil {
		return err
	} else if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file", path)
	}
	o.Binary = path
	if err := checkEnv(o.Env); err != nil {
		return err
	}
	setDefault(&o.FunctionName, "oncegate-tasks")
	setDefault(&o.Qualifier, "LATEST")
	setDefault(&o.VersionID, "LATEST")
	setDefault(&o.Region, "cn-hangzhou")
	setDefault(&o.AccountID, "1234567890123456")
	setDefault(&o.MemoryMB, 512)
	setDefault(&o.Instances, 1)
	setDefault(&o.Timeout, time.Minute)
	setDefault(&o.StartTimeout, 30*time.Second)
	setDefault(&o.OutputLimit, 1<<20)
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Instances < 0 || o.Timeout < 0 || o.StartTimeout < 0 || o.OutputLimit < 0 {
		return errors.New("a number is below zero")
	}
	return o.Async.complete()
}

func setDefault[T comparable](v *T, def T) {
	if *v == *new(T) {
		*v = def
	}
}

var envKey = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_]*$`)

// checkEnv holds FC's rules for the variables of a function.
func checkEnv(env []string) error {
	size := 0
	for _, kv := range env {
		key, value, ok := strings.Cut(kv, "=")
		switch {
		case !ok || !envKey.MatchString(key):
			return fmt.Errorf("environment variable %q is not KEY=value", key)
		case strings.HasPrefix(key, "FC_"):
			return fmt.Errorf("environment variable %s has the reserved prefix FC_", key)
		}
		size += len(key) + len(value)
	}
	if size > MaxEnvironment {
		return fmt.Errorf("environment has %d bytes, above %d", size, MaxEnvironment)
	}
	return nil
}

// seconds is the time-out as FC states it, in whole seconds.
func (o *Options) seconds() int {
	return int((o.Timeout + time.Second - 1) / time.Second)
}
