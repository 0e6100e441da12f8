package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/idempotency/otstest"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
	"github.com/oncegate/oncegate/internal/messages"
)

// Where records live.
const (
	targetLocal = "local"
	targetCloud = "cloud"
)

// tables are all tables of one environment.
var tables = []aliyun.Table{
	idempotency.TaskTable, idempotency.ReviewTable, letter.LetterTable,
	plan.PlanTable, plan.ItemTable, plan.ApprovalTable, deadletter.EvidenceTable, deadletter.AuditTable,
}

func (a *app) targetFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.target, "target", "", "local or cloud (default: cloud where ONCEGATE_TABLESTORE_ENDPOINT is set, else local)")
	a.stateFlag(cmd)
}

func (a *app) stateFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.stateDir, "state-dir", ".oncegate", "folder of the local cloud's state")
}

func (a *app) chosenTarget() (string, error) {
	switch a.target {
	case targetLocal, targetCloud:
		return a.target, nil
	case "":
		if a.getenv("ONCEGATE_TABLESTORE_ENDPOINT") != "" {
			return targetCloud, nil
		}
		return targetLocal, nil
	}
	return "", usageErrorf("--target %q is not known; use local or cloud", a.target)
}

// state is what the chosen target remembers.
type state struct {
	target  string
	tasks   *idempotency.Table
	reviews *idempotency.Reviews
	letters *letter.Table
	done    func()
}

func newState(target string, store *aliyun.Tablestore, done func()) *state {
	return &state{
		target, idempotency.NewTable(store, idempotency.DefaultPolicy()), idempotency.NewReviews(store), letter.NewTable(store), done,
	}
}

// openState reaches the tables of the chosen target; done releases them.
func (a *app) openState() (*state, error) {
	target, err := a.chosenTarget()
	if err != nil {
		return nil, err
	}
	if target == targetCloud {
		store, _, err := a.cloudStore()
		if err != nil {
			return nil, err
		}
		return newState(target, store, func() {}), nil
	}
	if err := a.needLocalState(); err != nil {
		return nil, err
	}
	id, err := a.localIdentity()
	if err != nil {
		return nil, err
	}
	var creds cloudtest.Credentials
	server, err := otstest.New(otstest.Options{Dir: a.stateDir, Credentials: &creds})
	if err != nil {
		return nil, inUse(a.stateDir, err)
	}
	store, err := localTablestore(server, &creds, id)
	if err != nil {
		server.Close()
		return nil, err
	}
	return newState(target, store, func() { server.Close() }), nil
}

// needLocalState says what to do where nothing has run locally yet.
func (a *app) needLocalState() error {
	if _, err := os.Stat(filepath.Join(a.stateDir, "tablestore.db")); err != nil {
		return messages.Errorf("there is no local state in %s: run `oncegate local deliver events/samples` first, or use --target cloud", a.stateDir)
	}
	return nil
}

// cloudStore reads the environment and returns clients of the real services.
func (a *app) cloudStore() (*aliyun.Tablestore, *aliyun.Bucket, error) {
	env := aliyun.NewEnv(a.getenv)
	cloud := env.Cloud()
	options := cloudOptions(env)
	if err := env.Err(); err != nil {
		return nil, nil, messages.Errorf("%w\nset them for the cloud, or use --target local", err)
	}
	store, err := aliyun.NewTablestore(cloud.Endpoint, cloud.Instance, options)
	if err != nil {
		return nil, nil, err
	}
	bucket, err := aliyun.NewBucket(cloud.OSSEndpoint, cloud.Bucket, options)
	return store, bucket, err
}

func fixed(c aliyun.Credentials) func(context.Context) (aliyun.Credentials, error) {
	return func(context.Context) (aliyun.Credentials, error) { return c, nil }
}

// createTables creates what is missing and checks what is there.
func createTables(ctx context.Context, store *aliyun.Tablestore) (created []string, err error) {
	for _, t := range setupTables {
		err := store.CreateTable(ctx, t)
		var call *aliyun.Error
		switch {
		case err == nil:
			created = append(created, t.Name)
		case errors.As(err, &call) && call.Kind == aliyun.KindExists:
			if err := store.CheckTable(ctx, t); err != nil {
				return created, err
			}
		default:
			return created, fmt.Errorf("create table %s: %w", t.Name, err)
		}
	}
	return created, nil
}
