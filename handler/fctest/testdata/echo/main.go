// Command echo is a function that does what its payload says.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aliyun/fc-runtime-go-sdk/fc"
	"github.com/aliyun/fc-runtime-go-sdk/fc/messages"
	"github.com/aliyun/fc-runtime-go-sdk/fccontext"
)

type order struct {
	Do    string
	Value string
	URL   string
}

type report struct {
	PID      int
	Context  fccontext.FcContext
	Deadline time.Time
	Env      []string
	Dir      string
}

func main() {
	switch os.Getenv("ECHO_START") {
	case "exit":
		for i := range 1000 {
			fmt.Fprintf(os.Stderr, "line %d\n", i)
		}
		fmt.Fprintln(os.Stderr, "can't read the configuration")
		os.Exit(3)
	case "gate":
		_ = wait(os.Getenv("ECHO_GATE"))
		return
	case "wait":
		_ = wait(os.Getenv("ECHO_GATE"))
	}
	var running atomic.Int32
	fc.Start(func(ctx context.Context, o order) (any, error) {
		if running.Add(1) > 1 {
			return nil, errors.New("two invocations at once")
		}
		defer running.Add(-1)
		return handle(ctx, o)
	})
}

func handle(ctx context.Context, o order) (any, error) {
	switch o.Do {
	case "echo":
		return o.Value, nil
	case "report":
		c, _ := fccontext.FromContext(ctx)
		deadline, _ := ctx.Deadline()
		dir, err := os.Getwd()
		return report{os.Getpid(), *c, deadline, os.Environ(), dir}, err
	case "succeed at retry":
		c, _ := fccontext.FromContext(ctx)
		if err := wait(fmt.Sprintf("%s%s/%d", o.URL, c.RequestID, c.RetryCount)); err != nil {
			return nil, err
		}
		if strconv.Itoa(c.RetryCount) != o.Value {
			return nil, messages.InvokeResponse_Error{Type: "timeout", Message: "timeout"}
		}
		return o.Value, nil
	case "typed error":
		return nil, messages.InvokeResponse_Error{Type: "rate_limited", Message: o.Value}
	case "plain error":
		return nil, errors.New(o.Value)
	case "panic":
		panic(o.Value)
	case "panic elsewhere":
		go panic(o.Value)
		select {}
	case "exit":
		os.Exit(1)
	case "hang":
		<-make(chan struct{})
	case "gate":
		return o.Value, wait(o.URL)
	case "gate, then linger":
		go wait(o.URL + "-linger")
		return o.Value, wait(o.URL)
	case "spawn":
		cmd := exec.Command(os.Args[0])
		cmd.Env = []string{"ECHO_START=gate", "ECHO_GATE=" + o.URL}
		cmd.Stdout = os.Stdout
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		return nil, wait(o.URL + "-parent")
	case "mutter":
		fmt.Fprint(os.Stderr, o.Value)
		return nil, nil
	case "shout":
		line := strings.Repeat("x", 99) + "\n"
		for range 3000 {
			fmt.Fprint(os.Stderr, line)
		}
		return nil, nil
	case "large":
		return strings.Repeat("x", 33<<20), nil
	}
	return nil, fmt.Errorf("can't %q", o.Do)
}

func wait(url string) error {
	resp, err := http.Get(url)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}
