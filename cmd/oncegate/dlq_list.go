package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/letter"
)

// maxSorted bounds how many letters are held, to be shown in order of time or to
// be changed by one command.
const maxSorted = 10000

// errEnough ends a walk that has shown what was asked for.
var errEnough = errors.New("enough")

func isHex(s string) bool { return strings.Trim(s, "0123456789abcdef") == "" }

// pick returns the letters that an argument names, judged now, in order of first
// failure: its event id, its fingerprint, or at least four digits of its id. The
// service looks for them; complete is false where there are more than maxSorted.
func pick(ctx context.Context, d *deadletter.Desk, arg string, open bool) (found []deadletter.Judgement, complete bool, err error) {
	if strings.TrimSpace(arg) == "" {
		return nil, false, usageErrorf("an empty name would mean every letter without an event id: give an event id, a fingerprint, or at least 4 digits of a letter's id")
	}
	looks := []deadletter.EachOptions{{EventID: arg}}
	if len(arg) >= 4 && isHex(arg) {
		looks = append(looks, deadletter.EachOptions{Prefix: arg})
	}
	if len(arg) == 12 && isHex(arg) {
		looks = append(looks, deadletter.EachOptions{Fingerprint: arg})
	}
	seen := map[string]bool{}
	complete = true
	for _, o := range looks {
		o.Open, o.Anew = open, true
		_, err := d.Each(ctx, o, func(j deadletter.Judgement) error {
			if seen[j.Letter.ID] {
				return nil
			}
			if len(found) == maxSorted {
				complete = false
				return errEnough
			}
			seen[j.Letter.ID] = true
			found = append(found, j)
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			return nil, false, err
		}
	}
	slices.SortStableFunc(found, func(x, y deadletter.Judgement) int {
		return cmp.Or(x.Letter.FirstFailedAt.Compare(y.Letter.FirstFailedAt), cmp.Compare(x.Letter.EventID, y.Letter.EventID), cmp.Compare(x.Letter.ID, y.Letter.ID))
	})
	if len(found) > 0 {
		return found, complete, nil
	}
	if open {
		return nil, false, notFoundf("no open letter is named by %q: give an event id, a fingerprint, or at least 4 digits of a letter's id; oncegate dlq explain shows letters that have ended", arg)
	}
	return nil, false, notFoundf("no letter is named by %q: give an event id, a fingerprint, or at least 4 digits of a letter's id", arg)
}

// letterPrinter prints letters as they come: in order of first failure while they
// are few enough to hold, else by id.
type letterPrinter struct {
	a     *app
	limit int // 0: all
	// inOrder prints them in the order in which they come.
	inOrder bool
	held    []letterView
	passed  bool // too many to hold: what came first is printed already
	shown   int
	cut     bool
}

func (p *letterPrinter) add(v letterView) error {
	if p.passed && p.limit > 0 && p.shown+len(p.held) >= p.limit {
		p.cut = true
		return errEnough
	}
	p.held = append(p.held, v)
	if len(p.held) <= maxSorted && (!p.passed && !p.inOrder || len(p.held) < 1000) {
		return nil
	}
	p.passed = true
	return p.flush()
}

func (p *letterPrinter) flush() error {
	if p.limit > 0 && p.shown+len(p.held) > p.limit {
		p.held, p.cut = p.held[:p.limit-p.shown], true
	}
	var rows [][]string
	for _, v := range p.held {
		switch p.a.output {
		case outputJSON:
			lead := ",\n"
			if p.shown == 0 {
				lead = "{\n\"schema_version\": 1,\n\"letters\": [\n"
			}
			fmt.Fprint(p.a.out, lead)
			fallthrough
		case outputJSONL:
			if err := printJSON(p.a.out, v, false); err != nil {
				return err
			}
		default:
			rows = append(rows, []string{
				short(v.ID), v.EventID, v.Fingerprint, string(v.ErrorCode), v.Target, string(v.Decision), string(v.RecordStatus), string(v.FinalStatus),
				strconv.FormatInt(v.Sightings, 10), v.LastFailed,
			})
		}
		p.shown++
	}
	if p.a.output == outputTable {
		printTable(p.a.out, []string{"letter", "event", "fingerprint", "code", "target", "decision", "record", "ended", "seen", "last failed"}, rows)
	}
	p.held = p.held[:0]
	return nil
}

// end prints what is held, and whether that was all.
func (p *letterPrinter) end(complete bool) error {
	order := "by id: too many to sort"
	switch {
	case p.inOrder:
		order = "in the order of the input"
	case !p.passed:
		order = "by first failure"
		slices.SortStableFunc(p.held, func(x, y letterView) int {
			return cmp.Or(cmp.Compare(x.FirstFailed, y.FirstFailed), cmp.Compare(x.EventID, y.EventID), cmp.Compare(x.ID, y.ID))
		})
	}
	if len(p.held) > 0 || (p.shown == 0 && p.a.output == outputTable) {
		if err := p.flush(); err != nil {
			return err
		}
	}
	complete = complete && !p.cut
	if p.a.output == outputJSON {
		if p.shown == 0 {
			fmt.Fprint(p.a.out, "{\n\"schema_version\": 1,\n\"letters\": [\n")
		}
		fmt.Fprintf(p.a.out, "],\n\"complete\": %t\n}\n", complete)
	}
	all := "complete"
	if !complete {
		all = "not complete: there are more"
	}
	fmt.Fprintf(p.a.err, "%d letters, %s, %s\n", p.shown, all, order)
	return nil
}

func (a *app) printLetters(views []letterView, complete bool) error {
	p := letterPrinter{a: a}
	for _, v := range views {
		if err := p.add(v); err != nil {
			return err
		}
	}
	return p.end(complete)
}

// basis says on stderr what decisions rest on.
func (a *app) basis(b deadletter.Basis) {
	if b.Stored > 0 {
		fmt.Fprintf(a.err, "more than %d letters are open: %d decisions are as stored, the oldest %s ago; --fresh reads every record, dlq sweep --execute stores them anew\n",
			deadletter.MaxFresh, b.Stored, ago(time.Since(b.Oldest)))
	}
}

func ago(d time.Duration) string { return max(d, 0).Round(time.Second).String() }

// progress tells on stderr how far a walk is.
func (a *app) progress() func(int) {
	next := 50_000
	return func(n int) {
		if n >= next {
			fmt.Fprintf(a.err, "%d letters so far ...\n", n)
			next = n - n%50_000 + 50_000
		}
	}
}

func (a *app) dlqEventsCommand() *cobra.Command {
	var flowsFile string
	var open, fresh bool
	var limit int
	cmd := &cobra.Command{
		Use:   "events [FINGERPRINT]",
		Short: "List dead letters with the decision about each",
		Long: `List dead letters with the decision about each, as they are read: by first failure
where there are at most 10,000, else by id. Where more than 2,000 are open, their
stored decisions are shown; --fresh reads every record.`,
		Args: cobra.MaximumNArgs(1),
		RunE: runE(func(ctx context.Context, args []string) error {
			if limit < 0 {
				return usageErrorf("--limit must not be negative")
			}
			d, done, err := a.openDesk(flowsFile)
			if err != nil {
				return err
			}
			defer done()
			fmt.Fprintf(a.err, "scanning table %s ...\n", letter.LetterTable.Name)
			p := letterPrinter{a: a, limit: limit}
			o := deadletter.EachOptions{Open: open, Fresh: fresh, Progress: a.progress()}
			if len(args) > 0 {
				o.Fingerprint = args[0]
			}
			basis, err := d.Each(ctx, o, func(j deadletter.Judgement) error { return p.add(letterOf(j)) })
			if err != nil && !errors.Is(err, errEnough) {
				return err
			}
			a.basis(basis)
			return p.end(true)
		}),
	}
	cmd.Flags().BoolVar(&open, "open", false, "open letters only")
	cmd.Flags().BoolVar(&fresh, "fresh", false, "read the record of every letter, however many there are")
	cmd.Flags().IntVar(&limit, "limit", 0, "letters shown at most (default: all)")
	a.deskFlags(cmd, &flowsFile)
	a.outputFlag(cmd, outputTable, outputJSON, outputJSONL)
	return cmd
}
