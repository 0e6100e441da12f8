package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

func (a *app) dlqCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dlq",
		Short: "Inspect dead letters and decide about them",
		Long: `Inspect dead letters and decide about them.

Reading changes nothing. A changing command prints what it would do, and does it
only with --execute; without a terminal it needs --yes as well. Payloads are not
shown.`,
		Example: `  oncegate dlq ingest events/dead-letters/three.jsonl --execute --yes
  oncegate dlq groups
  oncegate dlq explain evt-1008`,
	}
	cmd.AddCommand(a.dlqIngestCommand(), a.dlqStatusCommand(), a.dlqGroupsCommand(), a.dlqEventsCommand(), a.dlqExplainCommand(),
		a.dlqReportCommand(), a.dlqReclassifyCommand(), a.dlqResolveCommand(), a.dlqSweepCommand(),
		a.dlqPlanCommand(), a.dlqShowCommand(), a.dlqApproveCommand(), a.dlqRejectCommand(), a.dlqReplayCommand(), a.dlqResumeCommand(),
		a.dlqPauseCommand(), a.dlqStopCommand())
	cmd.AddCommand(a.dlqRepairCommand())
	cmd.AddCommand(a.dlqMigrateCommand())
	cmd.AddCommand(a.dlqSampleCommand())
	cmd.AddCommand(a.dlqAuditCommand())
	cmd.AddCommand(a.dlqPurgeCommand())
	cmd.AddCommand(a.dlqMetricsCommand())
	return parent(cmd)
}

// deskFlags are what every dlq command takes.
func (a *app) deskFlags(cmd *cobra.Command, flowsFile *string) {
	cmd.Flags().StringVar(flowsFile, "flows", "", "a flows.yaml in place of the built-in one")
	a.targetFlags(cmd)
}

// openDesk reaches letters, records and objects of the chosen target.
func (a *app) openDesk(flowsFile string) (*deadletter.Desk, func(), error) {
	d, _, done, err := a.openDeskStore(flowsFile)
	return d, done, err
}

// openDeskStore is openDesk with the tables that it stands on.
func (a *app) openDeskStore(flowsFile string) (*deadletter.Desk, *aliyun.Tablestore, func(), error) {
	set, err := loadFlows(flowsFile)
	if err != nil {
		return nil, nil, nil, err
	}
	target, err := a.chosenTarget()
	if err != nil {
		return nil, nil, nil, err
	}
	sealing, err := a.sealing()
	if err != nil {
		return nil, nil, nil, err
	}
	d := &deadletter.Desk{
		Flows: set, Environment: localEnvironment, KeySecret: []byte(a.keySecret(target)), Target: "fc:" + localFunctionName,
		Keys: func() (artifacts.PrivateKeys, error) { return a.privateKeys() }, Retention: idempotency.DefaultPolicy().Retention, Now: time.Now,
	}
	if target == targetCloud {
		store, bucket, err := a.cloudStore()
		if err != nil {
			return nil, nil, nil, err
		}
		s := newState(target, store, func() {})
		d.Environment = a.getenv("ONCEGATE_ENVIRONMENT")
		d.Tasks, d.Reviews, d.Letters, d.Artifacts = s.tasks, s.reviews, s.letters, artifacts.NewStore(bucket, a.encryption()).Sealing(sealing)
		return d, store, func() {}, nil
	}
	c, err := openCloud(a.stateDir)
	if err != nil {
		return nil, nil, nil, err
	}
	if _, err := c.setup(context.Background()); err != nil {
		c.Close()
		return nil, nil, nil, err
	}
	if err := a.actOn(c); err != nil {
		c.Close()
		return nil, nil, nil, err
	}
	s := newState(target, c.store, c.Close)
	d.Tasks, d.Reviews, d.Letters, d.Artifacts = s.tasks, s.reviews, s.letters, artifacts.NewStore(c.bucket, a.encryption()).Sealing(sealing)
	return d, c.store, c.Close, nil
}

// letterView is a letter and its judgement as they are printed.
type letterView struct {
	ID           string              `json:"id"`
	EventID      string              `json:"event_id"`
	EventSource  string              `json:"event_source"`
	Flow         string              `json:"flow"`
	Key          string              `json:"idempotency_key"`
	Fingerprint  string              `json:"fingerprint"`
	ErrorCode    letter.Code         `json:"error_code"`
	Class        letter.Class        `json:"class"`
	Target       string              `json:"target"`
	Decision     deadletter.Decision `json:"decision"`
	Rule         string              `json:"rule"`
	RecordStatus idempotency.Status  `json:"record_status"`
	FinalStatus  letter.FinalStatus  `json:"final_status"`
	ClosedBy     string              `json:"closed_by"`
	CloseReason  string              `json:"close_reason"`
	Reason       string              `json:"reason"`
	Origin       string              `json:"origin"`
	Sightings    int64               `json:"sightings"`
	Generation   int64               `json:"generation"`
	FirstFailed  string              `json:"first_failed_at"`
	LastFailed   string              `json:"last_failed_at"`
	ExpiresAt    string              `json:"expires_at"`
}

func letterOf(j deadletter.Judgement) letterView {
	l := j.Letter
	v := letterView{
		ID: l.ID, EventID: l.EventID, EventSource: l.EventSource, Flow: l.Flow, Key: l.Key, Fingerprint: j.Fingerprint,
		ErrorCode: j.Code, Class: j.Code.Class(), Target: j.Target, Decision: j.Decision, Rule: j.Rule.String(),
		FinalStatus: l.FinalStatus, ClosedBy: l.ClosedBy, CloseReason: l.CloseReason, Reason: l.Reason, Origin: l.Origin,
		Sightings: l.DeliveryAttempts, Generation: l.Generation,
		FirstFailed: utc(l.FirstFailedAt), LastFailed: utc(l.LastFailedAt), ExpiresAt: utc(l.ExpiresAt),
	}
	if j.Record != nil {
		v.RecordStatus = j.Record.Status
	}
	return v
}

// changeFlags are what every changing command takes.
type changeFlags struct{ execute, yes bool }

func (f *changeFlags) add(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.execute, "execute", false, "do it; without this only what would be done is shown")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "do not ask; needed where there is no terminal")
}

// confirm reports whether a change may be made. JSON output never prompts.
func (a *app) confirm(f changeFlags, what string) (bool, error) {
	if !f.execute {
		fmt.Fprintf(a.err, "would %s; nothing was changed (--execute does it)\n", what)
		return false, nil
	}
	if f.yes {
		return true, nil
	}
	file, ok := a.in.(*os.File)
	info, err := os.Stdin.Stat()
	if !ok || err != nil || info.Mode()&os.ModeCharDevice == 0 || a.output != outputTable {
		return false, refusedf("there is nobody to ask whether to %s: give --yes", what)
	}
	fmt.Fprintf(a.err, "%s? [y/N] ", what)
	answer, _ := bufio.NewReader(file).ReadString('\n')
	if strings.ToLower(strings.TrimSpace(answer)) != "y" {
		return false, refusedf("not confirmed; nothing was changed")
	}
	return true, nil
}
