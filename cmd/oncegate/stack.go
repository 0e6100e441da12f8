package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/artifacts/osstest"
	"github.com/oncegate/oncegate/flows/modeltest"
	"github.com/oncegate/oncegate/flows/targettest"
	"github.com/oncegate/oncegate/handler/fctest"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/idempotency/otstest"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
	"github.com/oncegate/oncegate/internal/messages"
)

// What the local cloud is called.
const (
	localInstance     = "oncegate"
	localBucket       = "oncegate-local"
	localEnvironment  = "oncegate-local"
	localFunctionName = "oncegate-tasks"
	localIntakeName   = "oncegate-intake"
	localModel        = "local-model"
	localModelKey     = "local-model-key"
	// localKeySecret serves sample events alone: it is public.
	localKeySecret = "local-key-secret-that-is-no-secret"
)

// stateFiles are what the local cloud keeps; --fresh removes just these.
var stateFiles = []string{"tablestore.db", "oss.db", "eventbridge.db", "targets.db", "function", "function.log", versionsFolder, scanFile}

// cloud is the durable half of the local cloud: records and objects.
type cloud struct {
	creds  cloudtest.Credentials
	ots    *otstest.Server
	oss    *osstest.Server
	store  *aliyun.Tablestore
	bucket *aliyun.Bucket
}

func openCloud(stateDir string) (*cloud, error) {
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return nil, fmt.Errorf("open local state: %w", err)
	}
	c := new(cloud)
	var err error
	if c.ots, err = otstest.New(otstest.Options{Dir: stateDir, Instance: localInstance, Credentials: &c.creds}); err != nil {
		return nil, inUse(stateDir, err)
	}
	if c.oss, err = osstest.New(osstest.Options{Dir: stateDir, Credentials: &c.creds}); err != nil {
		c.ots.Close()
		return nil, inUse(stateDir, err)
	}
	if c.store, err = localTablestore(c.ots, &c.creds, nil); err != nil {
		c.Close()
		return nil, err
	}
	if c.bucket, err = localBucketOf(c.oss, &c.creds, nil); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// inUse says what to do where another command holds the state.
func inUse(stateDir string, err error) error {
	return messages.Errorf("%w\nIf `oncegate local up` or another command is working on %s: wait for it, stop it, or use what `local up --output env` prints and --target cloud", err, stateDir)
}

// localTablestore is the command's own client of a local Tablestore, in process,
// with the rights of an identity; nil for all of them.
func localTablestore(server *otstest.Server, creds *cloudtest.Credentials, id *cloudtest.Identity) (*aliyun.Tablestore, error) {
	return aliyun.NewTablestore("http://tablestore.local", localInstance, aliyun.Options{
		Credentials: fixed(issueTo(creds, id)), Transport: server.Transport(),
	})
}

// localBucketOf is the same for the local bucket.
func localBucketOf(server *osstest.Server, creds *cloudtest.Credentials, id *cloudtest.Identity) (*aliyun.Bucket, error) {
	return aliyun.NewBucket("http://127.0.0.1", localBucket, aliyun.Options{
		Credentials: fixed(issueTo(creds, id)), Transport: server.Transport(),
	})
}

func issueTo(creds *cloudtest.Credentials, id *cloudtest.Identity) aliyun.Credentials {
	c := creds.IssueTo(id, time.Time{})
	return aliyun.Credentials{AccessKeyID: c.AccessKeyID, AccessKeySecret: c.AccessKeySecret, SecurityToken: c.SecurityToken}
}

// setup creates tables and bucket where they are missing.
func (c *cloud) setup(ctx context.Context) (created []string, err error) {
	if created, err = createTables(ctx, c.store); err != nil {
		return created, err
	}
	fresh, err := c.bucket.Create(ctx)
	if err != nil {
		return created, err
	}
	if fresh {
		created = append(created, "bucket "+localBucket)
	}
	return setExpiry(ctx, c.bucket, retentionDays, created)
}

// setExpiry writes the bucket's lifecycle rules where they are not there yet.
func setExpiry(ctx context.Context, bucket *aliyun.Bucket, days int, created []string) ([]string, error) {
	changed, err := bucket.SetExpiry(ctx, artifacts.Expiry(days))
	if err == nil && changed {
		created = append(created, "lifecycle rules")
	}
	return created, err
}

// retentionDays is how long records are kept by default.
var retentionDays = daysOf(idempotency.DefaultPolicy().Retention)

// daysOf are the whole days that hold a duration.
func daysOf(d time.Duration) int { return int((d + 24*time.Hour - 1) / (24 * time.Hour)) }

// upload puts content that events refer to into the bucket.
func (c *cloud) upload(ctx context.Context, objects []objectFile) error {
	for _, o := range objects {
		body, err := os.ReadFile(o.path)
		if err != nil {
			return fmt.Errorf("read objects: %w", err)
		}
		if _, err := c.bucket.Put(ctx, o.key, aliyun.Object{Body: body, ContentType: "application/octet-stream"}); err != nil {
			return fmt.Errorf("put object %s: %w", o.key, err)
		}
	}
	return nil
}

// Close releases the state.
func (c *cloud) Close() {
	c.ots.Close()
	c.oss.Close()
}

// stackOptions say how the local stack runs the function.
type stackOptions struct {
	stateDir     string
	binary       string
	flowsFile    string
	timeScale    float64
	instances    int
	timeout      time.Duration // of the function
	modelTimeout time.Duration
	keySecret    string
	sealKey      *artifacts.SealKey // nil: letters are stored as they are
	objects      []objectFile
	keepLog      bool // the function's log goes on where the last run ended
}

// stack is the whole local cloud with the function on it.
type stack struct {
	*cloud
	model    *modeltest.Server
	targets  *targettest.Server // what side effects go to
	version  version
	function *fctest.Function
	intake   *fctest.Function // takes the dead-letter queue in
	logs     *os.File

	options fctest.Options
	mu      sync.Mutex
	older   map[string]*fctest.Function // former versions, started when a replay needs them

	functions *fctest.Front // their endpoint, where a command has asked for it
}

func startStack(o stackOptions) (_ *stack, err error) {
	c, err := openCloud(o.stateDir)
	if err != nil {
		return nil, err
	}
	s := &stack{cloud: c, model: modeltest.New(modeltest.Options{APIKey: localModelKey})}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	if s.targets, err = targettest.New(targettest.Options{Dir: o.stateDir}); err != nil {
		return nil, err
	}
	for _, start := range []func() error{c.ots.Start, c.oss.Start, s.model.Start, s.targets.Start} {
		if err := start(); err != nil {
			return nil, fmt.Errorf("start local cloud: %w", err)
		}
	}
	mode := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	if o.keepLog {
		mode = os.O_CREATE | os.O_WRONLY | os.O_APPEND
	}
	if s.logs, err = os.OpenFile(filepath.Join(o.stateDir, "function.log"), mode, 0o644); err != nil {
		return nil, fmt.Errorf("start local cloud: %w", err)
	}
	env := []string{
		"ONCEGATE_ENVIRONMENT=" + localEnvironment,
		"ONCEGATE_TABLESTORE_ENDPOINT=" + c.ots.Endpoint(),
		"ONCEGATE_TABLESTORE_INSTANCE=" + localInstance,
		"ONCEGATE_OSS_ENDPOINT=" + c.oss.Endpoint(),
		"ONCEGATE_OSS_BUCKET=" + localBucket,
		"ONCEGATE_MODEL_BASE_URL=" + s.model.Endpoint(),
		"ONCEGATE_MODEL_NAME=" + localModel,
		"ONCEGATE_MODEL_API_KEY=" + localModelKey,
		"ONCEGATE_MODEL_TIMEOUT=" + o.modelTimeout.String(),
		"ONCEGATE_KEY_SECRET=" + o.keySecret,
		"ONCEGATE_NOTIFY_URL=" + s.targets.Endpoint() + "/notify",
		"ONCEGATE_ROBOT_URL=" + s.targets.Endpoint() + "/robot",
		"ONCEGATE_RECORDS_URL=" + s.targets.Endpoint() + "/records",
		fmt.Sprintf("ONCEGATE_TIME_SCALE=%g", o.timeScale),
	}
	if s.version, err = publishVersion(o.stateDir, o.binary, o.flowsFile, time.Now()); err != nil {
		return nil, err
	}
	if o.sealKey != nil {
		env = append(env, "ONCEGATE_SEAL_KEY="+o.sealKey.String())
	}
	binary, err := filepath.Abs(s.version.binary(o.stateDir))
	if err != nil {
		return nil, fmt.Errorf("start local cloud: %w", err)
	}
	options := fctest.Options{
		Binary: binary, Env: env, FunctionName: localFunctionName, Qualifier: liveQualifier, VersionID: s.version.qualifier(),
		Instances: o.instances, Timeout: o.timeout, Stdout: s.logs, Stderr: s.logs,
		Credentials: func() cloudtest.Credential { return c.creds.Issue(time.Now().Add(time.Hour)) },
	}
	s.options, s.older = options, map[string]*fctest.Function{}
	if options.Env, err = withFlows(env, s.version, o.stateDir); err != nil {
		return nil, err
	}
	if s.function, err = fctest.Start(options); err != nil {
		return nil, fmt.Errorf("start local cloud: %w", err)
	}
	env = options.Env
	options.FunctionName, options.Instances = localIntakeName, 1
	options.Env = append(slices.Clone(env), "ONCEGATE_ROLE=intake", "ONCEGATE_DEAD_LETTER_TARGET=fc:"+localFunctionName)
	if s.intake, err = fctest.Start(options); err != nil {
		return nil, fmt.Errorf("start local cloud: %w", err)
	}
	return s, nil
}

// withFlows adds a version's own flows file to an environment.
func withFlows(env []string, v version, stateDir string) ([]string, error) {
	name := v.flows(stateDir)
	if name == "" {
		return env, nil
	}
	name, err := filepath.Abs(name)
	if err != nil {
		return nil, fmt.Errorf("start local cloud: %w", err)
	}
	return append(slices.Clone(env), "ONCEGATE_FLOWS_FILE="+name), nil
}

// at makes sure that the function runs at a version, side by side with the others;
// ok is false where the local cloud does not have it.
func (s *stack) at(stateDir, qualifier string) (ok bool, err error) {
	if qualifier == s.version.qualifier() || qualifier == s.options.Qualifier {
		return true, nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.older[qualifier] != nil {
		return true, nil
	}
	all, err := published(stateDir)
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(all, func(v version) bool { return v.qualifier() == qualifier })
	if i < 0 {
		return false, nil
	}
	options := s.options
	options.VersionID, options.Qualifier = qualifier, qualifier
	if options.Binary, err = filepath.Abs(all[i].binary(stateDir)); err != nil {
		return false, fmt.Errorf("start version: %w", err)
	}
	if options.Env, err = withFlows(options.Env, all[i], stateDir); err != nil {
		return false, err
	}
	f, err := fctest.Start(options)
	if err != nil {
		return false, fmt.Errorf("start version %s: %w", qualifier, err)
	}
	s.older[qualifier] = f
	if s.functions != nil {
		s.functions.Deploy(f)
	}
	return true, nil
}

// Close stops everything that was started.
func (s *stack) Close() {
	for _, f := range slices.Concat([]*fctest.Function{s.function, s.intake}, slices.Collect(maps.Values(s.older))) {
		if f != nil {
			f.Close()
		}
	}
	s.model.Close()
	if s.targets != nil {
		s.targets.Close()
	}
	s.cloud.Close()
	if s.logs != nil {
		s.logs.Close()
	}
}

// functionPackage is what `local` builds and runs.
const functionPackage = "github.com/oncegate/oncegate/cmd/function"

// buildFunction builds the function binary into the state folder.
func buildFunction(ctx context.Context, stateDir string) (string, error) {
	binary := filepath.Join(stateDir, "function")
	if err := os.MkdirAll(stateDir, 0o700); err != nil {
		return "", fmt.Errorf("build function: %w", err)
	}
	goTool, err := exec.LookPath("go")
	if err != nil {
		return "", messages.Errorf("build function: there is no go command; install Go, or give a built binary with --function")
	}
	var built bytes.Buffer
	cmd := exec.CommandContext(ctx, goTool, "build", "-buildvcs=false", "-o", binary, functionPackage)
	cmd.Stdout, cmd.Stderr = &built, &built
	if err := cmd.Run(); err != nil {
		return "", messages.Errorf("build function: %w\n%s\nOutside a clone of oncegate there is nothing to build: run this inside one, or give a built binary with --function", err, bytes.TrimSpace(built.Bytes()))
	}
	return binary, nil
}
