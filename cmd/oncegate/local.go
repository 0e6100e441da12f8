package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) localCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "local",
		Short: "Run oncegate on a local cloud: real SDKs and the real function, no account",
	}
	cmd.AddCommand(a.localDeliverCommand(), a.localUpCommand())
	return parent(cmd)
}

func (a *app) localDeliverCommand() *cobra.Command {
	o := stackOptions{}
	var fresh bool
	cmd := &cobra.Command{
		Use:   "deliver FILE|FOLDER...",
		Short: "Deliver events to the function as EventBridge would, and show what became of each",
		Long: `Deliver events to the function as EventBridge would, and show what became of each.

It builds the function, starts stand-ins for Tablestore, OSS, Function Compute,
EventBridge and a model, publishes every event in order, waits until each is
acknowledged or dead-lettered, and prints a table. A folder stands for its .json
files in name order; the files below its objects/ are put into the bucket first,
for events that refer to content. A file that holds an array is delivered as an
event stream does, and shown as one row a member.

State stays in the state folder: run it again, and every finished event is a
duplicate that calls no model. Waits are shortened by --time-scale; with 1 they
are as on the cloud.

Events from source demo.impatient meet a rule with BACKOFF_RETRY (3 retries);
all others one with EXPONENTIAL_DECAY_RETRY (176 retries).`,
		Example: `  oncegate local deliver events/samples
  oncegate local deliver --fresh --output json event.json`,
		Args: cobra.MinimumNArgs(1),
		RunE: runE(func(ctx context.Context, args []string) error {
			if err := a.completeStack(&o); err != nil {
				return err
			}
			set, err := loadFlows(o.flowsFile)
			if err != nil {
				return err
			}
			files, err := readEvents(args, a.in)
			if err != nil {
				return err
			}
			if o.objects, err = findObjects(args); err != nil {
				return err
			}
			if fresh {
				if err := removeState(a.stateDir); err != nil {
					return err
				}
			}
			if err := a.needFunction(ctx, &o); err != nil {
				return err
			}
			report, err := a.deliver(ctx, o, set, files)
			if err != nil {
				return err
			}
			if a.output == outputJSON {
				return printJSON(a.out, report, true)
			}
			report.print(a)
			return nil
		}),
	}
	cmd.Flags().BoolVar(&fresh, "fresh", false, "start with empty state")
	a.stackFlags(cmd, &o)
	a.outputFlag(cmd, outputTable, outputJSON)
	return cmd
}

// localTimeScale is how much faster the local cloud's waits are by default.
const localTimeScale = 100

// stackFlags are what every command that runs the local stack takes.
func (a *app) stackFlags(cmd *cobra.Command, o *stackOptions) {
	cmd.Flags().Float64Var(&o.timeScale, "time-scale", localTimeScale, "how much shorter retry waits, back-off, margin and reserve are")
	cmd.Flags().IntVar(&o.instances, "instances", 2, "function processes at most")
	cmd.Flags().DurationVar(&o.timeout, "timeout", 30*time.Second, "time-out of one invocation, not scaled")
	cmd.Flags().DurationVar(&o.modelTimeout, "model-timeout", 3*time.Second, "time-out of one model call, not scaled")
	cmd.Flags().StringVar(&o.binary, "function", "", "a built function binary (default: build it)")
	cmd.Flags().StringVar(&o.flowsFile, "flows", "", "a flows.yaml in place of the built-in one")
	a.stateFlag(cmd)
}

// completeStack checks the options and fills in what the flags leave open.
func (a *app) completeStack(o *stackOptions) error {
	switch {
	case !(o.timeScale > 0) || o.timeScale > 100000:
		return usageErrorf("--time-scale must be more than 0 and at most 100000")
	case o.instances < 1 || o.instances > 100:
		return usageErrorf("--instances must be from 1 to 100")
	case o.timeout < time.Second || o.modelTimeout < time.Millisecond:
		return usageErrorf("--timeout must be at least 1s and --model-timeout at least 1ms")
	}
	o.stateDir, o.keySecret = a.stateDir, a.keySecret(targetLocal)
	var err error
	if o.sealKey, err = a.sealing(); err != nil {
		return err
	}
	if o.flowsFile != "" {
		if o.flowsFile, err = filepath.Abs(o.flowsFile); err != nil {
			return err
		}
	}
	return nil
}

// needFunction builds the function unless a binary was given.
func (a *app) needFunction(ctx context.Context, o *stackOptions) (err error) {
	if o.binary == "" {
		fmt.Fprintln(a.err, "building the function ...")
		o.binary, err = buildFunction(ctx, o.stateDir)
	}
	return err
}

// removeState removes what the local cloud keeps, and nothing else that may be
// in the folder: not while another command uses it, and nothing at all where
// nothing tells that the folder is a local cloud's.
func removeState(stateDir string) error {
	if _, err := os.Stat(filepath.Join(stateDir, "tablestore.db")); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	c, err := openCloud(stateDir)
	if err != nil {
		return err
	}
	c.Close()
	for _, name := range stateFiles {
		if err := os.RemoveAll(filepath.Join(stateDir, name)); err != nil {
			return fmt.Errorf("remove local state: %w", err)
		}
	}
	return nil
}
