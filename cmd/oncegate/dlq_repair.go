package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/flows/modeltest"
	"github.com/oncegate/oncegate/flows/targettest"
)

func (a *app) dlqRepairCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "repair", Short: "Find out whether the cause of a group is repaired, and keep the evidence"}
	cmd.AddCommand(a.dlqRepairVerifyCommand())
	return parent(cmd)
}

// lookView is one look as it is printed.
type lookView struct {
	Probe     string   `json:"probe"`
	Answer    string   `json:"answer"` // yes, no, or nothing to read
	Result    string   `json:"result"`
	LetterIDs []string `json:"letter_ids"`
}

func lookOf(l deadletter.Look) lookView {
	answer := map[bool]string{true: "yes", false: "no"}[l.OK]
	if l.NoRead {
		answer = "nothing to read"
	}
	return lookView{l.Probe, answer, l.Result, l.LetterIDs}
}

func (a *app) dlqRepairVerifyCommand() *cobra.Command {
	var flowsFile string
	var sample int
	var confirmed bool
	var by author
	var change changeFlags
	cmd := &cobra.Command{
		Use:   "verify FINGERPRINT",
		Short: "Probe the cause of a group by read-only calls, and keep what they show",
		Long: `Probe the cause of a group by read-only calls, and keep what they show.

  ACCESS_DENIED     a least-privilege call to the target
  TARGET_NOT_FOUND  the target is looked up, region and id compared; an event
                    without a flow is looked up in today's flows.yaml
  INVALID_SCHEMA    each letter's event is checked as today's code would

The other codes need no probe; a refusal by policy ends by migration or discard.
With --execute the answers become repair evidence, under your name: a no is kept
too, and voids what stood before. A failed replay or attempt voids it as well.
Evidence about schemas and flows holds for the letters looked at alone; migrated
ones are looked at first.

The calls are made with the function's settings (ONCEGATE_MODEL_*,
ONCEGATE_RECORDS_*) and these credentials: run it under the function's role, or it
shows what another identity may do. Without an endpoint the local stand-ins
answer. Where a target offers nothing to read, --confirm with --reason keeps your
word in its place; who approves a plan sees that.

Exit code 3: a probe says no.`,
		Example: `  oncegate dlq repair verify b36dd252a8bd
  oncegate dlq repair verify b36dd252a8bd --sample 0 --execute --yes`,
		Args: cobra.ExactArgs(1),
		RunE: runE(func(ctx context.Context, args []string) error {
			switch {
			case confirmed && strings.TrimSpace(by.why) == "":
				return usageErrorf("--confirm needs --reason: it stands in place of a probe")
			case sample < 0:
				return usageErrorf("--sample must not be negative")
			}
			d, store, done, err := a.openDeskStore(flowsFile)
			if err != nil {
				return err
			}
			defer done()
			if err := by.identify(ctx, a, store, "repair verify"); err != nil {
				return err
			}
			picked, total, err := sampleOf(ctx, d, args[0], sample)
			if err != nil {
				return err
			}
			probes, stop, err := a.probes(d, picked)
			if err != nil {
				return err
			}
			defer stop()
			r := &deadletter.Repairs{
				Desk: d, Evidence: deadletter.NewEvidenceLog(store), Audit: deadletter.NewAuditLog(store), Probes: probes, Now: time.Now,
			}
			looks, err := r.Look(ctx, picked)
			switch {
			case errors.Is(err, deadletter.ErrNeedsNoProbe):
				fmt.Fprintf(a.err, "%s: %v\n", picked[0].Code, err)
				return nil
			case errors.Is(err, deadletter.ErrNoRepair):
				return refusedf("%v", err)
			case err != nil:
				return err
			}
			if confirmed {
				if looks, err = deadletter.Confirm(looks, by.why); err != nil {
					return refusedf("%v", err)
				}
			}
			if err := a.printLooks(args[0], total, picked, looks); err != nil {
				return err
			}
			return a.keepLooks(ctx, r, args[0], looks, by, change)
		}),
	}
	cmd.Flags().IntVar(&sample, "sample", deadletter.DefaultSample, "how many letters are looked at, 0 for all")
	cmd.Flags().BoolVar(&confirmed, "confirm", false, "you have looked yourself, where nothing can be asked")
	by.add(cmd)
	cmd.Flags().Lookup("reason").Usage = "why; needed with --confirm"
	change.add(cmd)
	a.deskFlags(cmd, &flowsFile)
	a.outputFlag(cmd, outputTable, outputJSON)
	return cmd
}

// sampleOf returns the letters of a group to look at, and how many open ones it has.
func sampleOf(ctx context.Context, d *deadletter.Desk, fingerprint string, n int) (picked []deadletter.Judgement, total int, err error) {
	_, err = d.Each(ctx, deadletter.EachOptions{Open: true, Fingerprint: fingerprint, Anew: true}, func(j deadletter.Judgement) error {
		if j.Fingerprint != fingerprint || j.Decision == deadletter.SkipCompleted {
			return nil
		}
		total++
		if picked = append(picked, j); n > 0 && len(picked) > 100*n {
			picked = deadletter.Sample(picked, n)
		}
		return nil
	})
	if err == nil && total == 0 {
		err = notFoundf("no open letter has the fingerprint %q: oncegate dlq groups lists them", fingerprint)
	}
	return deadletter.Sample(picked, n), total, err
}

func (a *app) printLooks(fingerprint string, total int, picked []deadletter.Judgement, looks []deadletter.Look) error {
	if a.output == outputJSON {
		views := []lookView{}
		for _, l := range looks {
			views = append(views, lookOf(l))
		}
		return printJSON(a.out, struct {
			SchemaVersion int         `json:"schema_version"`
			Fingerprint   string      `json:"fingerprint"`
			ErrorCode     letter.Code `json:"error_code"`
			Target        string      `json:"target"`
			Letters       int         `json:"letters"`
			LookedAt      int         `json:"looked_at"`
			Looks         []lookView  `json:"looks"`
		}{1, fingerprint, picked[0].Code, picked[0].Target, total, len(picked), views}, true)
	}
	var rows [][]string
	for _, l := range looks {
		v := lookOf(l)
		var ids []string
		for _, id := range v.LetterIDs {
			i := slices.IndexFunc(picked, func(j deadletter.Judgement) bool { return j.Letter.ID == id })
			ids = append(ids, short(id)+" "+picked[i].Letter.EventID)
		}
		rows = append(rows, []string{v.Probe, v.Answer, strings.Join(ids, ", "), v.Result})
	}
	printTable(a.out, []string{"probe", "answer", "letters", "result"}, rows)
	fmt.Fprintf(a.err, "%s of %s: %d of %d letters looked at\n", picked[0].Code, picked[0].Target, len(picked), total)
	return nil
}

// keepLooks stores what was found, and says no where a probe does.
func (a *app) keepLooks(ctx context.Context, r *deadletter.Repairs, fingerprint string, looks []deadletter.Look, by author, change changeFlags) error {
	kept := slices.DeleteFunc(slices.Clone(looks), func(l deadletter.Look) bool { return l.NoRead })
	if len(kept) > 0 {
		do, err := a.confirm(change, "keep the answers of "+strconv.Itoa(len(kept))+" probes as evidence")
		if err != nil {
			return err
		}
		if do {
			rows, err := r.Store(ctx, fingerprint, looks, by.who, by.why)
			if err != nil {
				return err
			}
			for _, e := range rows {
				fmt.Fprintf(a.err, "kept evidence %s: %s %s, %d letters\n", e.ID, e.Probe, map[bool]string{true: "yes", false: "no"}[e.OK], len(e.LetterIDs))
			}
		}
	}
	for _, l := range looks {
		switch {
		case l.NoRead:
			return refusedf("the target offers nothing to read: look yourself, then --confirm with --reason")
		case !l.OK:
			return refusedf("a probe says no: the cause is not repaired")
		}
	}
	return nil
}

// probes are what the targets of the picked letters can be asked by: the services
// where an endpoint is set, else the local stand-ins.
func (a *app) probes(d *deadletter.Desk, picked []deadletter.Judgement) (deadletter.Probes, func(), error) {
	target, err := a.chosenTarget()
	if err != nil {
		return deadletter.Probes{}, nil, err
	}
	text := func(name, fallback string) string {
		if v := a.getenv(name); v != "" {
			return v
		}
		return fallback
	}
	stop := func() {}
	model := flows.ModelOptions{BaseURL: a.getenv("ONCEGATE_MODEL_BASE_URL"), APIKey: text("ONCEGATE_MODEL_API_KEY", ""), Timeout: 0}
	records := flows.Target{Name: "records", URL: a.getenv("ONCEGATE_RECORDS_URL"), Token: a.getenv("ONCEGATE_RECORDS_TOKEN")}
	var transport http.RoundTripper
	wants := func(kind, uses string) bool {
		return slices.ContainsFunc(picked, func(j deadletter.Judgement) bool {
			of, name, _ := strings.Cut(j.Target, ":")
			return of == kind && (uses == "" || d.Flows.Uses(j.Letter.Flow, name) == uses)
		})
	}
	if model.BaseURL == "" && wants("model", "") {
		if target != targetLocal {
			return deadletter.Probes{}, nil, usageErrorf("ONCEGATE_MODEL_BASE_URL is not set: the probe asks the model that the function uses")
		}
		server := modeltest.New(modeltest.Options{APIKey: localModelKey, Models: []string{localModel}})
		model.BaseURL, model.Transport, model.APIKey = server.Endpoint(), server.Transport(), text("ONCEGATE_MODEL_API_KEY", localModelKey)
	}
	if records.URL == "" && wants("effect", "record.create") {
		if target != targetLocal {
			return deadletter.Probes{}, nil, usageErrorf("ONCEGATE_RECORDS_URL is not set: the probe asks the target that the function uses")
		}
		server, err := targettest.New(targettest.Options{Dir: a.stateDir})
		if err != nil {
			return deadletter.Probes{}, nil, inUse(a.stateDir, err)
		}
		stop = func() { server.Close() }
		records.URL, transport = server.Endpoint()+"/records", server.Transport()
	}
	return deadletter.Probes{
		Model: func(name string) deadletter.Prober {
			one := model
			one.Name = name
			return flows.NewModel(one)
		},
		Effects: flows.Effects(flows.Tools{Records: records, Robot: flows.Target{Name: "robot"}, Notify: flows.Target{Name: "notify"}, Drafts: d.Artifacts, Transport: transport}),
	}, stop, nil
}
