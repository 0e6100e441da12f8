// Command function is the binary that runs on Function Compute (runtime go1):
// it reads its configuration from the environment once, and handles one event an
// invocation with the credentials of that invocation.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/aliyun/fc-runtime-go-sdk/fc"
	"github.com/aliyun/fc-runtime-go-sdk/fc/messages"
	"github.com/aliyun/fc-runtime-go-sdk/fccontext"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/logline"
)

func main() {
	handle, err := build(os.Getenv, os.Stderr)
	if err != nil {
		fmt.Fprintf(os.Stderr, "oncegate function cannot start:\n%v\n", err)
		os.Exit(1)
	}
	fc.Start(func(ctx context.Context, raw []byte) (any, error) { return invoke(ctx, handle, raw) })
}

// handleFunc handles one invocation. Its only errors are *handler.RetryError.
type handleFunc func(ctx context.Context, raw []byte, d handler.Delivery) (any, error)

// parts are what both roles work with.
type parts struct {
	c       config
	log     *slog.Logger
	skew    *aliyun.Skew
	flows   *flows.Set
	tools   flows.Tools
	works   map[string]flows.Processor
	store   *aliyun.Tablestore
	objects *artifacts.Store
}

// build wires the function from the environment.
func build(getenv func(string) string, logs io.Writer) (handleFunc, error) {
	c, err := readConfig(getenv)
	if err != nil {
		return nil, err
	}
	p := parts{c: c, log: logline.NewLogger(logs, c.logLevel), skew: new(aliyun.Skew)}
	transport := aliyun.NewTransport(64)
	shared := aliyun.Options{Credentials: invocationCredentials, Transport: transport, Skew: p.skew}
	if p.store, err = aliyun.NewTablestore(c.cloud.Endpoint, c.cloud.Instance, shared); err != nil {
		return nil, err
	}
	bucket, err := aliyun.NewBucket(c.cloud.OSSEndpoint, c.cloud.Bucket, shared)
	if err != nil {
		return nil, err
	}
	p.c.model.Transport = transport
	p.objects = artifacts.NewStore(bucket, c.cloud.Encryption).Sealing(c.sealKey)
	p.tools = flows.Tools{
		Model: flows.NewModel(p.c.model), Drafts: p.objects,
		Notify: c.notify, Robot: c.robot, Records: c.records, Transport: transport, Now: time.Now,
	}
	p.works = flows.Processors(p.tools)
	if p.flows, err = loadFlows(c.flowsFile, p.works); err != nil {
		return nil, err
	}
	if c.role == roleIntake {
		return p.intake()
	}
	return p.task()
}

// task is the role that handles events.
func (p parts) task() (handleFunc, error) {
	c := p.c
	replays, err := deadletter.RulesOf(p.flows.Replay)
	if err != nil {
		return nil, err
	}
	h, err := handler.New(handler.Options{
		Flows: p.flows, Processors: p.works, Effects: flows.Effects(p.tools), Ledger: idempotency.NewLedger(p.store, c.policy),
		Tasks: idempotency.NewTable(p.store, c.policy), Reviews: idempotency.NewReviews(p.store),
		Letters: letter.NewTable(p.store), Artifacts: p.objects, Plans: plan.NewStore(p.store), Impact: replays.High,
		Environment: c.cloud.Environment, KeySecret: c.keySecret, Policy: c.policy,
		ReserveMin: c.reserveMin, ReserveMax: c.reserveMax,
		Now: time.Now, NewOwner: newOwner, Skew: p.skew.Value, Log: p.log,
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, raw []byte, d handler.Delivery) (any, error) {
		if e, ok := handler.ParseEnvelope(raw); ok {
			return h.Call(ctx, e, d)
		}
		if handler.IsBatch(raw) {
			return h.HandleBatch(ctx, raw, d)
		}
		return h.Handle(ctx, raw, d)
	}, nil
}

func loadFlows(file string, processors map[string]flows.Processor) (*flows.Set, error) {
	if file == "" {
		return flows.Embedded(processors)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("load flows: %w", err)
	}
	return flows.Load(raw, processors)
}

// newOwner is a random token: the platform's request id may repeat on redelivery.
func newOwner() string {
	var b [16]byte
	_, _ = rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// invoke handles one invocation. The answer's error is a fixed text whose type
// is the code: the runtime prints it and sends it to the caller.
func invoke(ctx context.Context, handle handleFunc, raw []byte) (any, error) {
	var d handler.Delivery
	if lc, ok := fccontext.FromContext(ctx); ok {
		d = handler.Delivery{
			RequestID: lc.RequestID, RetryCount: lc.RetryCount, FunctionName: lc.Function.Name, Version: version(lc.Service),
		}
		ctx = withCredentials(ctx, lc.Credentials)
	}
	result, err := handle(ctx, raw, d)
	var retry *handler.RetryError
	switch {
	case errors.As(err, &retry):
		// By value: a pointer or a wrapped error loses its type on the wire.
		return nil, messages.InvokeResponse_Error{Type: string(retry.Code), Message: retry.Error()}
	case err != nil:
		return nil, messages.InvokeResponse_Error{Type: string(idempotency.CodeTemporaryUnavailable), Message: "not done yet; deliver again"}
	}
	return result, nil
}

func version(s fccontext.Service) string {
	if s.VersionId != "" {
		return s.VersionId
	}
	if s.Qualifier != "" {
		return s.Qualifier
	}
	return "LATEST"
}

var errNoInvocation = errors.New("no credentials: the call belongs to no invocation, or the function has no role")

type credentialsKey struct{}

// withCredentials hands an invocation's credentials to its calls. The SDK's own
// FromContext writes to what it returns, so it must not run in two goroutines of
// one invocation.
func withCredentials(ctx context.Context, c fccontext.Credentials) context.Context {
	return context.WithValue(ctx, credentialsKey{}, aliyun.Credentials{
		AccessKeyID: c.AccessKeyId, AccessKeySecret: c.AccessKeySecret, SecurityToken: c.SecurityToken,
	})
}

// invocationCredentials are those of the invocation that ctx belongs to. They
// rotate, so they live no longer than ctx.
func invocationCredentials(ctx context.Context) (aliyun.Credentials, error) {
	c, _ := ctx.Value(credentialsKey{}).(aliyun.Credentials)
	if c.AccessKeyID == "" {
		return aliyun.Credentials{}, errNoInvocation
	}
	return c, nil
}
