// Command oncegate works on tasks and events: it runs the whole path on a local
// cloud, shows what key an event gets, and reads the records.
//
// stdout is data, stderr is progress. Exit codes: 0 done, 1 failed, 2 usage, 3
// refused, 4 nothing found, 130 interrupted.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/internal/messages"
)

// Exit codes.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitRefused     = 3 // a rule or a missing confirmation refuses
	exitNotFound    = 4
	exitPartial     = 4 // something is left: stopped, failed again or unresolved
	exitInterrupted = 130
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv))
}

// exitError ends the command with a code; its text may be empty where all has
// been said.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

func notFoundf(format string, args ...any) error {
	return &exitError{exitNotFound, sentence(format, args)}
}

func refusedf(format string, args ...any) error {
	return &exitError{exitRefused, sentence(format, args)}
}

// sentence is an error for people: its format has its Chinese.
func sentence(format string, args []any) error {
	return &messages.Error{Text: messages.Text{Format: format, Args: args}}
}

// parent makes a command that only holds others refuse what is none of them.
func parent(cmd *cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) > 0 {
			return usageErrorf("%q is no command of %q", args[0], cmd.CommandPath())
		}
		return nil
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		_ = cmd.Help()
		return usageErrorf("%s needs a command", cmd.CommandPath())
	}
	return cmd
}

func usageErrorf(format string, args ...any) error {
	return &exitError{exitUsage, sentence(format, args)}
}

// app is what every subcommand shares.
type app struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	say      *messages.Printer // for people; what machines read is English

	output   string
	stateDir string
	target   string
	who      string // the identity that the command acts as, once it is known
}

func run(args []string, in io.Reader, out, errOut io.Writer, getenv func(string) string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	a := &app{in: in, out: out, err: errOut, getenv: getenv, say: messages.For(getenv)}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(in)
	root.SetOut(out)
	root.SetErr(errOut)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	var exit *exitError
	if !errors.As(err, &exit) {
		// Cobra's own errors are about the command line.
		exit = &exitError{exitUsage, commandLine(root, args, err)}
	}
	if ctx.Err() != nil && exit.code != exitInterrupted {
		exit = &exitError{exitInterrupted, messages.Errorf("interrupted; what was stored stays")}
	}
	if text := a.say.Error(exit); text != "" {
		fmt.Fprintf(errOut, "oncegate: %s\n", text)
	}
	if text := a.actingAs(err); !text.IsZero() {
		fmt.Fprintln(errOut, a.say.Text(text))
	}
	if exit.code == exitUsage {
		fmt.Fprintln(errOut, a.say.Text(messages.T("Run 'oncegate --help' or 'oncegate COMMAND --help' for usage.")))
	}
	return exit.code
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "oncegate",
		Short: "Make one business action happen once, however often its event arrives",
		Example: `  oncegate local deliver events/samples      run every sample on a local cloud
  oncegate key events/samples/01-summary.json  show the key that an event gets
  oncegate task list --status FAILED_FINAL     list the tasks that failed for good`,
		Version:       buildVersion(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(a.localCommand(), a.keyCommand(), a.publishCommand(), a.drillCommand(), a.preflightCommand(), a.taskCommand(), a.reviewCommand(), a.dlqCommand(), a.flowsCommand(), a.sealKeyCommand(), a.setupCommand(), a.doctorCommand(), a.metricsCommand())
	return root
}

func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// runE wraps a command's work so that only errors marked as usage count as such.
func runE(fn func(ctx context.Context, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		err := fn(cmd.Context(), args)
		var exit *exitError
		if err == nil || errors.As(err, &exit) {
			return err
		}
		if denied, ok := deniedError(err); ok {
			return denied
		}
		return &exitError{exitFailed, err}
	}
}
