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
	"github.com/oncegate/oncegate/handler/fctest"
	"github.com/oncegate/oncegate/idempotency"
)

// who is the identity that a changing command acts as.
func (a *app) who(context.Context) (string, error) {
	if name := a.getenv("ONCEGATE_LOCAL_IDENTITY"); name != "" {
		return name, nil
	}
	return "operator", nil
}

// openReplays reaches what commands about plans work with.
func (a *app) openReplays(ctx context.Context, flowsFile string) (*replays, func(), error) {
	desk, store, done, err := a.openDeskStore(flowsFile)
	if err != nil {
		return nil, nil, err
	}
	r, err := a.newReplays(ctx, desk, store)
	if err != nil {
		done()
		return nil, nil, err
	}
	r.current = a.currentVersion
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

// openCaller reaches the function. On the local cloud it starts the stack.
func (a *app) openCaller(ctx context.Context, o *stackOptions) (caller, func(), error) {
	target, err := a.chosenTarget()
	if err != nil {
		return nil, nil, err
	}
	if target == targetCloud {
		call, err := a.cloudCaller()
		return call, func() {}, err
	}
	s, err := a.openStack(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	return s.call(a.stateDir), s.Close, nil
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
	if _, err := s.setup(ctx); err != nil {
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
		r, done, err := a.openReplays(ctx, o.flowsFile)
		if err != nil {
			return nil, nil, err
		}
		run := &runner{replays: r}
		if execute {
			call, err := a.cloudCaller()
			if err != nil {
				done()
				return nil, nil, err
			}
			run.invoker = invoker{call}
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
	r, err := a.newReplays(ctx, desk, s.store)
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	r.current = func(context.Context) (string, error) { return s.version.qualifier(), nil }
	r.rules.CallTimeout = o.timeout + 5*time.Second
	return &runner{replays: r, invoker: invoker{s.call(a.stateDir)}}, s.Close, nil
}

// caller calls the function at a version, once. Its error is a
// *deadletter.CallError where the function did not run.
type caller func(ctx context.Context, qualifier string, payload []byte) (answer []byte, failed bool, err error)

// call is the caller of the local function.
func (s *stack) call(stateDir string) caller {
	return func(ctx context.Context, qualifier string, payload []byte) ([]byte, bool, error) {
		f, ok, err := s.at(stateDir, qualifier)
		if err != nil {
			return nil, false, &deadletter.CallError{Reason: "the version does not start"}
		}
		if !ok {
			return nil, false, &deadletter.CallError{Reason: "the function has no version " + qualifier + " any more"}
		}
		resp, err := f.Invoke(ctx, fctest.Request{Payload: payload})
		if errors.Is(err, fctest.ErrResourceExhausted) {
			return nil, false, &deadletter.CallError{Reason: "throttled", Throttled: true}
		}
		return resp.Payload, resp.FunctionError != "", err
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

// cloudCaller is the caller of the deployed function.
func (a *app) cloudCaller() (caller, error) {
	return nil, refusedf("calling the deployed function needs its endpoint")
}
