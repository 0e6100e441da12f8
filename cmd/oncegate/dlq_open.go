package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/deadletter/plan"
	"github.com/oncegate/oncegate/handler"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/messages"
)

// openReplays reaches what commands about plans work with. changing says what the
// command changes, for the audit of a refusal; "" for one that only reads.
func (a *app) openReplays(ctx context.Context, flowsFile, changing string) (*replays, func(), error) {
	desk, store, done, err := a.openDeskStore(flowsFile)
	if err != nil {
		return nil, nil, err
	}
	r, err := a.newReplays(ctx, desk, store, changing)
	if err != nil {
		done()
		return nil, nil, err
	}
	if target, err := a.chosenTarget(); err == nil && target == targetCloud {
		r.current = a.deployedVersion
	} else {
		r.current = a.currentVersion
	}
	return r, done, nil
}

// currentVersion is the version that the function's alias points to.
func (a *app) currentVersion(context.Context) (string, error) {
	all, err := published(a.stateDir)
	if err != nil || len(all) == 0 {
		return "", err
	}
	return all[len(all)-1].qualifier(), nil
}

// liveQualifier is the alias that rules deliver to.
const liveQualifier = "live"

// deployedVersion is the version that the deployed function's alias points to.
func (a *app) deployedVersion(ctx context.Context) (string, error) {
	client, function, err := a.cloudFunctions()
	if err != nil {
		return "", err
	}
	return client.AliasVersion(ctx, function, liveQualifier)
}

// openCaller reaches the function. On the local cloud it starts the stack.
func (a *app) openCaller(ctx context.Context, o *stackOptions) (caller, func(), error) {
	target, err := a.chosenTarget()
	if err != nil {
		return nil, nil, err
	}
	if target == targetCloud {
		client, function, err := a.cloudFunctions()
		if err != nil {
			return nil, nil, err
		}
		return callerOf(client, function), func() {}, nil
	}
	s, err := a.openStack(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	call, err := a.localCaller(s)
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	return call, s.Close, nil
}

// openStack starts the local cloud with the function on it, for commands that
// need state that is there.
func (a *app) openStack(ctx context.Context, o *stackOptions) (*stack, error) {
	if err := a.needLocalState(); err != nil {
		return nil, err
	}
	if err := a.completeStack(o); err != nil {
		return nil, err
	}
	if err := a.needFunction(ctx, o); err != nil {
		return nil, err
	}
	s, err := startStack(*o)
	if err != nil {
		return nil, err
	}
	if _, err = s.setup(ctx); err == nil {
		err = a.actOn(s.cloud)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// openReplayer reaches what a replay works with: the function as well, at every
// version that the plan names.
func (a *app) openReplayer(ctx context.Context, o *stackOptions, execute bool) (*runner, func(), error) {
	target, err := a.chosenTarget()
	if err != nil {
		return nil, nil, err
	}
	if target == targetCloud || !execute {
		r, done, err := a.openReplays(ctx, o.flowsFile, "replay")
		if err != nil {
			return nil, nil, err
		}
		run := &runner{replays: r, permission: a.permission(r.by)}
		if execute {
			client, function, err := a.cloudFunctions()
			if err != nil {
				done()
				return nil, nil, err
			}
			run.invoker = invoker{callerOf(client, function)}
		}
		return run, done, nil
	}
	s, err := a.openStack(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	set, err := loadFlows(o.flowsFile)
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	st := newState(target, s.store, s.Close)
	desk := &deadletter.Desk{
		Flows: set, Environment: localEnvironment, KeySecret: []byte(o.keySecret), Target: "fc:" + localFunctionName,
		Keys: func() (artifacts.PrivateKeys, error) { return a.privateKeys() }, Retention: idempotency.DefaultPolicy().Retention, Now: time.Now,
		Tasks: st.tasks, Reviews: st.reviews, Letters: st.letters, Artifacts: artifacts.NewStore(s.bucket, a.encryption()).Sealing(o.sealKey),
	}
	r, err := a.newReplays(ctx, desk, s.store, "replay")
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	r.current = func(context.Context) (string, error) { return s.version.qualifier(), nil }
	r.rules.CallTimeout = o.timeout + 5*time.Second
	call, err := a.localCaller(s)
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	return &runner{replays: r, invoker: invoker{call}, permission: a.permission(r.by)}, s.Close, nil
}

// permission asks again who runs a replay as it begins: it must be told, and be
// the one that the command began with.
func (a *app) permission(by string) func(context.Context) error {
	return func(ctx context.Context) error {
		who, err := a.identity(ctx)
		if err == nil && who.Name() != by {
			err = messages.Errorf("the identity is %s now, and was %s when the command began", who.Name(), by)
		}
		return err
	}
}

// caller calls the function at a version, once. Its error is a
// *deadletter.CallError where the function did not run.
type caller func(ctx context.Context, qualifier string, payload []byte) (answer []byte, failed bool, err error)

// localCaller calls the local functions through their signed front, with the
// rights of the command's identity. Former versions start when they are called.
func (a *app) localCaller(s *stack) (caller, error) {
	client, err := a.localFunctions(s)
	if err != nil {
		return nil, err
	}
	call := callerOf(client, localFunctionName)
	return func(ctx context.Context, qualifier string, payload []byte) ([]byte, bool, error) {
		if _, err := s.at(a.stateDir, qualifier); err != nil {
			return nil, false, &deadletter.CallError{Reason: "the version does not start"}
		}
		return call(ctx, qualifier, payload)
	}, nil
}

// callerOf calls a deployed function.
func callerOf(client *aliyun.Functions, function string) caller {
	return func(ctx context.Context, qualifier string, payload []byte) ([]byte, bool, error) {
		answer, err := client.Invoke(ctx, function, qualifier, payload)
		var call *aliyun.Error
		if err == nil {
			return answer.Payload, answer.FunctionError != "", nil
		}
		if !errors.As(err, &call) {
			return nil, false, err
		}
		switch call.Kind {
		case aliyun.KindThrottled:
			return nil, false, &deadletter.CallError{Reason: "throttled", Throttled: true, RetryAfter: call.RetryAfter}
		case aliyun.KindDenied:
			if denied, ok := deniedError(err); ok {
				err = denied
			}
			return nil, false, &deadletter.CallError{Reason: err.Error(), Denied: true, Err: err}
		case aliyun.KindNotFound:
			return nil, false, &deadletter.CallError{Reason: "the function has no version " + qualifier + " any more"}
		case aliyun.KindInvalid:
			return nil, false, &deadletter.CallError{Reason: call.Error()}
		}
		return nil, false, err
	}
}

// invoker sends replays.
type invoker struct{ call caller }

func (i invoker) Invoke(ctx context.Context, qualifier string, e plan.Envelope) (deadletter.Answer, error) {
	payload, err := json.Marshal(e)
	if err != nil {
		return deadletter.Answer{}, fmt.Errorf("invoke function: %w", err)
	}
	answer, failed, err := i.call(ctx, qualifier, payload)
	if err != nil || failed {
		return deadletter.Answer{Failed: failed}, err
	}
	var r handler.Result
	if err := json.Unmarshal(answer, &r); err != nil {
		return deadletter.Answer{}, errors.New("invoke function: its answer cannot be read")
	}
	return deadletter.Answer{Refused: r.Decision == handler.DecisionReplayRefused, Reason: r.Reason}, nil
}
