package fctest

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

// outputGrace bounds the wait for output after a process ended: a descendant
// that left the process group can hold the pipe open.
const outputGrace = 2 * time.Second

// instance is one process generation with its listener and its queue.
type instance struct {
	fn  *Function
	id  string
	seq int

	state State // both guarded by fn.mu
	runs  int

	started chan struct{} // the process is there, or can't be started
	asked   chan struct{} // it asked for work for the first time
	exited  chan struct{} // it is gone, with its process group
	done    chan struct{} // so are its output and its listener

	byHand atomic.Bool // killed through Kill, KillAll or Close
	stuck  bool        // of the invocation that started it: StartTimeout passed

	// written before started and exited are closed, read after
	process  *os.Process
	pid      int
	startErr error
	exit     string
	stderr   *output

	once    sync.Once // asked
	queue   chan *invocation
	mu      sync.Mutex
	current *invocation
}

// invocation is a request on its way through one instance; all but the
// channel is guarded by instance.mu.
type invocation struct {
	Request
	header  map[string]string
	taken   bool
	outcome outcome
	ended   chan struct{}
}

func newInstance(f *Function, id string, seq int) *instance {
	return &instance{
		fn: f, id: id, seq: seq, state: Starting,
		started: make(chan struct{}),
		asked:   make(chan struct{}),
		exited:  make(chan struct{}),
		done:    make(chan struct{}),
		queue:   make(chan *invocation, 1),
	}
}

// live is the instance's life, from its listener's start to its end.
func (in *instance) live() {
	defer in.fn.work.Done()
	defer close(in.done)
	defer in.fn.forget(in)
	api, err := cloudtest.Listen(in.runtimeAPI())
	if err != nil {
		in.startErr = err
		close(in.started)
		close(in.exited)
		return
	}
	in.execute(strings.TrimPrefix(api.URL, "http://"))
	_ = api.Close()
}

// execute starts the process and returns when it and its output are gone.
func (in *instance) execute(address string) {
	// The parent's death signal comes when the thread that forked ends, so the
	// thread must last as long as the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	o := &in.fn.o
	cmd := exec.Command(o.Binary)
	cmd.Dir = filepath.Dir(o.Binary)
	cmd.Env = in.environment(address)
	cmd.SysProcAttr = ownGroup()

	// Pipes of our own: with exec's, Wait would last until the last descendant lets go of them.
	var readers sync.WaitGroup
	var ends []*os.File
	pipe := func(dst io.Writer) (*os.File, *output) {
		r, w, err := os.Pipe()
		if err != nil {
			in.startErr = err
			return nil, nil
		}
		out := &output{mu: &in.fn.out, w: dst, left: o.OutputLimit, limit: o.OutputLimit, instance: in.id}
		ends = append(ends, r)
		readers.Go(func() {
			_, _ = io.Copy(out, r)
			out.finish()
			_ = r.Close()
		})
		return w, out
	}
	stdout, _ := pipe(o.Stdout)
	stderr, tail := pipe(o.Stderr)
	in.stderr = tail
	if in.startErr == nil {
		cmd.Stdout, cmd.Stderr = stdout, stderr
		in.startErr = cmd.Start()
	}
	_ = stdout.Close()
	_ = stderr.Close()
	if in.startErr == nil {
		in.process, in.pid = cmd.Process, cmd.Process.Pid
	}
	close(in.started)
	if in.startErr == nil {
		_ = cmd.Wait()
		killGroup(in.pid)
		in.exit = cmd.ProcessState.String()
	}
	close(in.exited)
	for _, r := range ends {
		_ = r.SetReadDeadline(time.Now().Add(outputGrace))
	}
	readers.Wait()
}

// startParts divides StartTimeout: a machine that is suspended for a while, or
// a clock that jumps, uses up one part and not the whole.
const startParts = 10

// ready waits until the process asks for work; else it says why it never will.
func (in *instance) ready() string {
	limit := in.fn.o.StartTimeout
	tick := time.NewTicker(max(limit/startParts, 1))
	defer tick.Stop()
	for part, asked := 0, false; !asked; {
		select {
		case <-in.asked:
			asked = true
		case <-in.exited:
			if in.startErr != nil {
				return in.startErr.Error()
			}
			return in.exit
		case <-tick.C:
			if part++; part == startParts {
				in.stuck = true
				in.kill()
				return fmt.Sprintf("no request for an invocation within %v", limit)
			}
		}
	}
	in.fn.mu.Lock()
	in.state = Busy
	in.fn.mu.Unlock()
	return ""
}

func (in *instance) startError(attempts int, reason string) error {
	<-in.done
	e := &StartError{Attempts: attempts, Reason: reason, Err: in.startErr}
	if in.stderr != nil {
		e.Stderr = lastLines(in.stderr.tail, in.stderr.forgot)
	}
	return e
}

// invoke runs one invocation; delivered is false where the process ended
// before it took it.
func (in *instance) invoke(r Request) (end outcome, delivered bool) {
	inv := &invocation{Request: r, header: in.header(r), ended: make(chan struct{})}
	in.mu.Lock()
	in.current = inv
	in.mu.Unlock()
	t := time.NewTimer(in.fn.o.Timeout)
	defer t.Stop()
	in.queue <- inv
	select {
	case <-inv.ended:
	case <-in.exited:
		in.end(inv, crashed())
	case <-t.C:
		in.end(inv, timedOut(in.fn.o.seconds()))
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	return inv.outcome, inv.taken || inv.outcome.ending != Crashed
}

// end gives an invocation its outcome; only the first one counts.
func (in *instance) end(inv *invocation, o outcome) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.current != inv {
		return false
	}
	in.current = nil
	inv.outcome = o
	close(inv.ended)
	return true
}

// strike sends SIGKILL, as soon as the process has been started.
func (in *instance) strike() {
	<-in.started
	if in.process != nil {
		_ = in.process.Kill()
	}
}

// kill sends SIGKILL and waits until the process is gone.
func (in *instance) kill() {
	in.strike()
	<-in.exited
}

func (in *instance) ended() bool {
	select {
	case <-in.exited:
		return true
	default:
		return false
	}
}
