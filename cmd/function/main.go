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
	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

func main() {
	h, err := build(os.Getenv, os.Stderr)
	if err != nil {
		fmt.Fprintf(os.Stderr, "oncegate function cannot start:\n%v\n", err)
		os.Exit(1)
	}
	fc.Start(func(ctx context.Context, raw []byte) (any, error) { return invoke(ctx, h, raw) })
}

// build wires the handler from the environment.
func build(getenv func(string) string, logs io.Writer) (*handler.Handler, error) {
	c, err := readConfig(getenv)
	if err != nil {
		return nil, err
	}
	skew := new(aliyun.Skew)
	transport := aliyun.NewTransport(64)
	shared := aliyun.Options{Credentials: invocationCredentials, Transport: transport, Skew: skew}
	store, err := aliyun.NewTablestore(c.cloud.Endpoint, c.cloud.Instance, shared)
	if err != nil {
		return nil, err
	}
	bucket, err := aliyun.NewBucket(c.cloud.OSSEndpoint, c.cloud.Bucket, shared)
	if err != nil {
		return nil, err
	}
	c.model.Transport = transport
	objects := artifacts.NewStore(bucket, c.cloud.Encryption)
	tools := flows.Tools{
		Model: flows.NewModel(c.model), Drafts: objects,
		Notify: c.notify, Robot: c.robot, Records: c.records, Transport: transport, Now: time.Now,
	}
	processors := flows.Processors(tools)
	set, err := loadFlows(c.flowsFile, processors)
	if err != nil {
		return nil, err
	}
	return handler.New(handler.Options{
		Flows: set, Processors: processors, Effects: flows.Effects(tools), Ledger: idempotency.NewLedger(store, c.policy),
		Tasks: idempotency.NewTable(store, c.policy), Reviews: idempotency.NewReviews(store),
		Letters: letter.NewTable(store), Artifacts: objects,
		Environment: c.cloud.Environment, KeySecret: c.keySecret, Policy: c.policy,
		ReserveMin: c.reserveMin, ReserveMax: c.reserveMax,
		Now: time.Now, NewOwner: newOwner, Skew: skew.Value,
		Log: slog.New(slog.NewJSONHandler(logs, &slog.HandlerOptions{Level: c.logLevel})),
	})
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
func invoke(ctx context.Context, h *handler.Handler, raw []byte) (any, error) {
	var d handler.Delivery
	if lc, ok := fccontext.FromContext(ctx); ok {
		d = handler.Delivery{
			RequestID: lc.RequestID, RetryCount: lc.RetryCount, FunctionName: lc.Function.Name, Version: version(lc.Service),
		}
		ctx = withCredentials(ctx, lc.Credentials)
	}
	var result any
	var err error
	if e, ok := handler.ParseEnvelope(raw); ok {
		result, err = h.Resolve(ctx, e, d)
	} else if handler.IsBatch(raw) {
		result, err = h.HandleBatch(ctx, raw, d)
	} else {
		result, err = h.Handle(ctx, raw, d)
	}
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
