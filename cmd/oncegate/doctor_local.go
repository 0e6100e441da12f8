package main

import (
	"cmp"
	"context"
	"net/http"

	"github.com/oncegate/oncegate/events/ebtest"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
	"github.com/oncegate/oncegate/scripts/ram"
)

// localQueue is what the local bus's dead-letter queue is called.
const localQueue = "oncegate-dead-letters"

// deployed says what the local bus delivers to.
func (s *stack) deployed() ebtest.Deployed {
	return ebtest.Deployed{
		Function: localFunctionName, Intake: localIntakeName, Qualifier: liveQualifier, Queue: localQueue,
		Region: cloudtest.Region, AccountID: cloudtest.AccountID,
	}
}

// plane is the control plane of the local bus.
func (s *stack) plane(o stackOptions) (*ebtest.Plane, error) {
	return ebtest.NewPlane(&s.creds, nil, s.busOptions(o, func(error) {}).Describe(s.deployed()))
}

// onLocal looks at the local cloud, which it makes as `local deliver` does. The
// bus does not run: nothing is delivered, and no letter is taken in.
func (a *app) onLocal(ctx context.Context, o *stackOptions) (*examination, func(), error) {
	if err := a.completeStack(o); err != nil {
		return nil, nil, err
	}
	if err := a.newestFunction(ctx, o); err != nil {
		return nil, nil, err
	}
	s, err := startStack(*o)
	if err != nil {
		return nil, nil, err
	}
	e, err := a.lookLocally(ctx, s, *o)
	if err != nil {
		s.Close()
		return nil, nil, err
	}
	return e, s.Close, nil
}

// newestFunction takes the version that was published last, so that looking does
// not publish another one; where there is none, the function is built.
func (a *app) newestFunction(ctx context.Context, o *stackOptions) error {
	all, err := published(o.stateDir)
	if err != nil {
		return err
	}
	if len(all) > 0 && o.binary == "" {
		last := all[len(all)-1]
		o.binary, o.flowsFile = last.binary(o.stateDir), cmp.Or(o.flowsFile, last.flows(o.stateDir))
	}
	return a.needFunction(ctx, o)
}

func (a *app) lookLocally(ctx context.Context, s *stack, o stackOptions) (*examination, error) {
	if _, err := s.setup(ctx); err != nil {
		return nil, err
	}
	id, err := a.doctorIdentity()
	if err != nil {
		return nil, err
	}
	front, err := s.front()
	if err != nil {
		return nil, err
	}
	plane, err := s.plane(o)
	if err != nil {
		return nil, err
	}
	sts, err := cloudtest.NewSTS(&s.creds, nil)
	if err != nil {
		return nil, err
	}
	set, err := loadFlows(o.flowsFile)
	if err != nil {
		return nil, err
	}
	e := &examination{
		// The one rule retries too little on purpose, for sample 10.
		local: true, ignored: []string{impatientRule}, environment: localEnvironment, bus: localEnvironment, instance: localInstance, bucketName: localBucket,
		function: localFunctionName, intake: localIntakeName, secret: o.keySecret, flows: set, ownFlows: true,
	}
	creds := fixed(issueTo(&s.creds, id))
	over := func(t http.RoundTripper) aliyun.Options { return aliyun.Options{Credentials: creds, Transport: t} }
	e.identity = sourceAt[identityReader]("sts", "", "http://sts.local", over(sts.Transport()), aliyun.NewSTS)
	e.tables = sourceAt[tableReader]("tablestore", "", "http://tablestore.local", over(s.ots.Transport()), func(at string, o aliyun.Options) (*aliyun.Tablestore, error) {
		return aliyun.NewTablestore(at, localInstance, o)
	})
	e.bucket = sourceAt[bucketReader]("oss", "", "http://127.0.0.1", over(s.oss.Transport()), func(at string, o aliyun.Options) (*aliyun.Bucket, error) {
		return aliyun.NewBucket(at, localBucket, o)
	})
	e.functions = sourceAt[functionReader]("fc", "", "http://fc.local", over(front.Transport()), aliyun.NewFunctions)
	e.rules = sourceAt[busReader]("eventbridge", "", "http://eventbridge.local", over(plane.Transport()), aliyun.NewEventBridge)
	e.queues = sourceAt[queueReader]("mns", "", "http://mns.local", over(plane.Transport()), aliyun.NewMNS)
	return e, nil
}

// doctorIdentity is the role deployer unless another one is named: looking at
// everything is its right alone.
func (a *app) doctorIdentity() (*cloudtest.Identity, error) {
	if a.getenv(localIdentityVariable) != "" {
		return a.localIdentity()
	}
	a.who = ram.Deployer.RoleName() + "/local"
	return identityOf(ram.Deployer)
}
