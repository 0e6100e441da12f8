package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/oncegate/oncegate/artifacts/osstest"
	"github.com/oncegate/oncegate/events/ebtest"
	"github.com/oncegate/oncegate/handler/fctest"
	"github.com/oncegate/oncegate/idempotency/otstest"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
	"github.com/oncegate/oncegate/scripts/ram"
)

// ward is a whole deployment on stand-ins, reached as a cloud is: over sockets,
// with signed calls of the role deployer.
type ward struct {
	t     *testing.T
	creds cloudtest.Credentials
	ots   *otstest.Server
	oss   *osstest.Server
	front *fctest.Front
	plane *ebtest.Plane
	sts   *cloudtest.STS
	ahead atomic.Int64 // how far Tablestore's clock is ahead
	env   map[string]string
	args  []string
}

// functionVariables are a function's own, as s.yaml sets them.
func (w *ward) functionVariables() []string {
	return []string{
		"ONCEGATE_ROLE=task", "ONCEGATE_ENVIRONMENT=" + localEnvironment,
		"ONCEGATE_TABLESTORE_ENDPOINT=" + w.ots.Endpoint(), "ONCEGATE_TABLESTORE_INSTANCE=" + localInstance,
		"ONCEGATE_OSS_ENDPOINT=" + w.oss.Endpoint(), "ONCEGATE_OSS_BUCKET=" + localBucket,
		"ONCEGATE_MODEL_BASE_URL=https://model.example/v1", "ONCEGATE_MODEL_NAME=m", "ONCEGATE_MODEL_API_KEY=k",
		"ONCEGATE_KEY_SECRET=" + localKeySecret,
		"ONCEGATE_NOTIFY_URL=https://target.example/notify", "ONCEGATE_ROBOT_URL=https://target.example/robot",
		"ONCEGATE_RECORDS_URL=https://target.example/records",
	}
}

func newWard(t *testing.T) *ward {
	t.Helper()
	w := &ward{t: t}
	try := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	var err error
	w.ots, err = otstest.New(otstest.Options{
		Instance: localInstance, Credentials: &w.creds, Now: func() time.Time { return time.Now().Add(time.Duration(w.ahead.Load())) },
	})
	try(err)
	t.Cleanup(func() { _ = w.ots.Close() })
	w.oss, err = osstest.New(osstest.Options{Credentials: &w.creds})
	try(err)
	t.Cleanup(func() { _ = w.oss.Close() })
	w.front, err = fctest.NewFront(fctest.FrontOptions{Credentials: &w.creds})
	try(err)
	t.Cleanup(func() { _ = w.front.Close() })
	w.sts, err = cloudtest.NewSTS(&w.creds, nil)
	try(err)
	t.Cleanup(func() { _ = w.sts.Close() })
	never := func(context.Context, ebtest.Delivery) ebtest.Result { return ebtest.Result{} }
	w.plane, err = ebtest.NewPlane(&w.creds, nil, ebtest.Options{
		Bus:   localEnvironment,
		Rules: []ebtest.Rule{{Name: "tasks", Policy: ebtest.ExponentialDecayRetry, Target: never, DeadLetter: true}},
		Streams: []ebtest.Stream{{
			Name: "dead-letters", Target: never, Policy: ebtest.ExponentialDecayRetry, ErrorsTolerance: ebtest.TolerateNone, BatchCount: 10, FromDeadLetters: true,
		}},
	}.Describe((*stack)(nil).deployed()))
	try(err)
	t.Cleanup(func() { _ = w.plane.Close() })
	for _, start := range []func() error{w.ots.Start, w.oss.Start, w.front.Start, w.sts.Start, w.plane.Start} {
		try(start())
	}
	for _, name := range []string{localFunctionName, localIntakeName} {
		env := w.functionVariables()
		if name == localIntakeName {
			env[0] = "ONCEGATE_ROLE=intake"
		}
		f, err := fctest.Start(fctest.Options{
			Binary: functionBinary, Env: env, FunctionName: name, Qualifier: liveQualifier, VersionID: "3", Timeout: 2 * time.Minute,
			Credentials: func() cloudtest.Credential { return w.creds.Issue(time.Time{}) },
		})
		try(err)
		t.Cleanup(func() { f.Close() })
		w.front.Deploy(f)
	}
	_, err = createTables(t.Context(), w.store())
	try(err)
	bucket, err := localBucketOf(w.oss, &w.creds, nil)
	try(err)
	_, err = bucket.Create(t.Context())
	try(err)
	_, err = setExpiry(t.Context(), bucket, retentionDays, nil)
	try(err)
	w.env = map[string]string{
		"ONCEGATE_ENVIRONMENT":         localEnvironment,
		"ONCEGATE_TABLESTORE_ENDPOINT": w.ots.Endpoint(), "ONCEGATE_TABLESTORE_INSTANCE": localInstance,
		"ONCEGATE_OSS_ENDPOINT": w.oss.Endpoint(), "ONCEGATE_OSS_BUCKET": localBucket,
		"ONCEGATE_FC_ENDPOINT": w.front.Endpoint(), "ONCEGATE_STS_ENDPOINT": w.sts.Endpoint(),
		"ONCEGATE_EVENTBRIDGE_API_ENDPOINT": w.plane.Endpoint(), "ONCEGATE_MNS_ENDPOINT": w.plane.Endpoint(),
		"ONCEGATE_KEY_SECRET": localKeySecret,
	}
	w.as(ram.Deployer)
	return w
}

// as gives the command the keys of a role.
func (w *ward) as(role ram.Role) {
	w.t.Helper()
	id, err := identityOf(role)
	if err != nil {
		w.t.Fatal(err)
	}
	c := issueTo(&w.creds, id)
	w.env["ALIBABA_CLOUD_ACCESS_KEY_ID"], w.env["ALIBABA_CLOUD_ACCESS_KEY_SECRET"] = c.AccessKeyID, c.AccessKeySecret
	w.env["ALIBABA_CLOUD_SECURITY_TOKEN"] = c.SecurityToken
}

// store is the account's own client, with every right.
func (w *ward) store() *aliyun.Tablestore {
	w.t.Helper()
	store, err := localTablestore(w.ots, &w.creds, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	return store
}

func (w *ward) rawStore() *tablestore.TableStoreClient {
	c := issueTo(&w.creds, nil)
	return tablestore.NewClientWithConfig(w.ots.Endpoint(), localInstance, c.AccessKeyID, c.AccessKeySecret, c.SecurityToken, nil)
}

func (w *ward) rawBucket() *oss.Client {
	w.t.Helper()
	c := issueTo(&w.creds, nil)
	client, err := oss.New(w.oss.Endpoint(), c.AccessKeyID, c.AccessKeySecret, oss.SecurityToken(c.SecurityToken))
	if err != nil {
		w.t.Fatal(err)
	}
	return client
}

// rule changes the rule's one target.
func (w *ward) rule(change func(*ebtest.TargetSetup)) {
	w.plane.Change(func(s *ebtest.Setup) { change(&s.Rules[0].Targets[0]) })
}

// function changes variables of the deployed function; "" removes one.
func (w *ward) function(env map[string]string) { w.front.Redeploy(localFunctionName, env, 0) }

func (w *ward) do(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// examined is what the command says.
type examined struct {
	code   int
	stdout string
	stderr string
	report struct {
		SchemaVersion int `json:"schema_version"`
		Checks        []struct {
			ID       string `json:"id"`
			Verdict  string `json:"verdict"`
			CountsAs string `json:"counts_as"`
			Found    string `json:"found"`
			Want     string `json:"want"`
			Do       string `json:"do"`
		} `json:"checks"`
		Complete bool `json:"complete"`
		Healthy  bool `json:"healthy"`
	}
}

func (w *ward) examine(args ...string) examined {
	w.t.Helper()
	var out, errOut bytes.Buffer
	args = append([]string{"doctor", "--target", "cloud", "--output", "json"}, append(w.args, args...)...)
	e := examined{code: run(args, strings.NewReader(""), &out, &errOut, func(name string) string { return w.env[name] })}
	e.stdout, e.stderr = out.String(), errOut.String()
	if err := json.Unmarshal(out.Bytes(), &e.report); err != nil {
		w.t.Fatalf("%v: %s%s", err, e.stdout, e.stderr)
	}
	return e
}

// ill are the checks that do not pass, as "id verdict", unknown ones as
// "id unknown/counts_as"; the warn of event-size, which every queue of 64 KB has,
// is left out.
func (e examined) ill() string {
	var all []string
	for _, c := range e.report.Checks {
		switch {
		case c.Verdict == "pass", c.ID == "event-size" && c.Verdict == "warn":
		case c.Verdict == "unknown":
			all = append(all, c.ID+" unknown/"+c.CountsAs)
		default:
			all = append(all, c.ID+" "+c.Verdict)
		}
	}
	return strings.Join(all, ", ")
}
