package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/deadletter"
)

// progress says lines from many goroutines.
type progress struct {
	mu sync.Mutex
	w  io.Writer
}

func (p *progress) sayf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.w, format+"\n", args...)
}

func (a *app) dlqIngestCommand() *cobra.Command {
	var flowsFile, flowName string
	var skip int
	var change changeFlags
	cmd := &cobra.Command{
		Use:   "ingest FILE|-",
		Short: "Take dead letters in: raw events, arrays, base64, FC's on-failure messages, plain records",
		Long: fmt.Sprintf(`Take dead letters in. FILE holds one message, or one JSON value a line:
  an event, an array of events, either as base64 text
  FC's on-failure message
  a plain record {"event_id","payload","error_code","target"}, of the flow that
  --flow names or that its own field "flow" names
Lines and the members of one array are read one by one: such a file may have any
size, anything else %d MiB.

The raw bytes are stored first, then the letter. The same event again is one
letter with one more sighting. What can't be read is kept as it is.

Several events are taken in at a time; letters are printed in the order of the
file. A service that asks for fewer calls is waited for, about a minute. Where it
is stopped, or a service refuses, it says which --skip goes on: an event that is
taken in again is one more sighting, and none is left out.`, maxFile>>20),
		Example: `  oncegate dlq ingest events/dead-letters/three.jsonl --execute --yes
  oncegate dlq ingest export.jsonl --flow order.create`,
		Args: cobra.ExactArgs(1),
		RunE: runE(func(ctx context.Context, args []string) error {
			if skip < 0 {
				return usageErrorf("--skip must not be negative")
			}
			teller := &progress{w: a.err}
			each := (&letterFile{name: args[0], stdin: a.in, limit: maxFile}).each
			total := 0
			if err := each(func(m []byte) error {
				for range deadletter.Split(m) {
					if total++; total%100_000 == 0 {
						teller.sayf("%d events read ...", total)
					}
				}
				return nil
			}); err != nil {
				return err
			}
			if total == 0 {
				return usageErrorf("%s holds nothing", args[0])
			}
			d, done, err := a.openDesk(flowsFile)
			if err != nil {
				return err
			}
			defer done()
			do, err := a.confirm(change, fmt.Sprintf("take in %d dead-lettered events", max(total-skip, 0)))
			if err != nil {
				return err
			}
			if skip > total {
				return usageErrorf("--skip %d: %s holds %d events", skip, args[0], total)
			}
			p := letterPrinter{a: a, inOrder: true}
			items := func(fn func(deadletter.Item) error) error {
				return each(func(m []byte) error {
					// Items outlive the call, the line does not.
					for _, item := range deadletter.Split(bytes.Clone(m)) {
						if err := fn(item); err != nil {
							return err
						}
					}
					return nil
				})
			}
			err = d.IngestAll(ctx, items, deadletter.IntakeOptions{
				Flow: flowName, Preview: !do, Skip: skip, Sleep: sleep, Jitter: rand.Float64,
				Throttled: func(n int, wait time.Duration) {
					if wait >= time.Second { // shorter ones pass by unseen
						teller.sayf("event %d of %d: a service asks for fewer calls; again in %s", n, total, wait.Round(time.Millisecond))
					}
				},
			}, func(n int, j deadletter.Judgement) error {
				if n%1000 == 0 {
					teller.sayf("%d of %d events ...", n, total)
				}
				v := letterOf(j)
				v.Sightings = max(v.Sightings, 1)
				return p.add(v)
			})
			var stopped *deadletter.StoppedError
			if errors.As(err, &stopped) {
				err = fmt.Errorf("event %d of %d: %w", stopped.Item, total, stopped.Err)
				if do {
					fmt.Fprintf(a.err, "%d of %d events are in; the rest: the same command with --skip %d\n", stopped.Item-1, total, stopped.Item-1)
				}
			}
			if printed := p.end(err == nil); err == nil {
				err = printed
			}
			return err
		}),
	}
	cmd.Flags().IntVar(&skip, "skip", 0, "pass over so many events at the beginning, that a run which was stopped has taken in")
	cmd.Flags().StringVar(&flowName, "flow", "", "the flow of plain records that name none")
	change.add(cmd)
	a.deskFlags(cmd, &flowsFile)
	a.outputFlag(cmd, outputTable, outputJSON, outputJSONL)
	return cmd
}
