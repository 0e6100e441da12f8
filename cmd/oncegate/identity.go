package main

import (
	"cmp"
	"context"
	"time"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/handler/fctest"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
	"github.com/oncegate/oncegate/internal/messages"
	"github.com/oncegate/oncegate/scripts/ram"
)

// localIdentityVariable names the role that commands act as on the local cloud.
const localIdentityVariable = "ONCEGATE_LOCAL_IDENTITY"

// localValues are what the local cloud's policies are rendered for.
var localValues = ram.Values{
	Region: cloudtest.Region, Account: cloudtest.AccountID, Instance: localInstance, Bucket: localBucket, Function: localFunctionName,
	Bus: localEnvironment,
}

// identity is who the cloud says that this command is. An identity that cannot
// be told, and one that has every right by nature, is refused: see changer.
func (a *app) identity(ctx context.Context) (aliyun.Identity, error) {
	who, err := a.lookUp(ctx)
	if err == nil && who.Type == "Account" {
		err = messages.Errorf("these are credentials of the account itself, for which no policy holds: use a role")
	}
	if err != nil {
		return aliyun.Identity{}, &exitError{exitRefused, messages.Errorf("find out who you are: %w", err)}
	}
	a.who = who.Name()
	return who, nil
}

func (a *app) lookUp(ctx context.Context) (aliyun.Identity, error) {
	target, err := a.chosenTarget()
	if err != nil {
		return aliyun.Identity{}, err
	}
	if target == targetLocal {
		id, err := a.localIdentity()
		if err != nil {
			return aliyun.Identity{}, err
		}
		return aliyun.Identity{ARN: id.ARN, AccountID: id.AccountID, Type: id.Type, PrincipalID: id.PrincipalID}, nil
	}
	env := aliyun.NewEnv(a.getenv)
	options := cloudOptions(env)
	if err := env.Err(); err != nil {
		return aliyun.Identity{}, err
	}
	sts, err := aliyun.NewSTS(env.Text("ONCEGATE_STS_ENDPOINT", "https://sts.aliyuncs.com"), options)
	if err != nil {
		return aliyun.Identity{}, err
	}
	return sts.CallerIdentity(ctx)
}

// changer is the identity that a changing command acts as. Where nobody can tell
// it, the command is refused, and the audit says that it was.
func (a *app) changer(ctx context.Context, audit *deadletter.AuditLog, what string, now time.Time) (aliyun.Identity, error) {
	who, err := a.identity(ctx)
	if err == nil {
		return who, nil
	}
	refused := deadletter.Audit{
		ID: deadletter.AuditID(deadletter.ActionRefused, what, utc(now)), At: now, Action: deadletter.ActionRefused,
		OperatorOrRule: "unknown", Reason: "no identity could be told for: " + what,
	}
	if auditErr := audit.Add(ctx, refused); auditErr != nil {
		err = &exitError{exitRefused, messages.Errorf("%w\nnor could the audit be written: %w", err, auditErr)}
	}
	return aliyun.Identity{}, err
}

// localIdentity is the role that commands act as on the local cloud, with its
// policy.
func (a *app) localIdentity() (*cloudtest.Identity, error) {
	role := ram.Role(cmp.Or(a.getenv(localIdentityVariable), string(ram.Operator)))
	if !role.Known() {
		return nil, refusedf("%s %q is no role; use one of %v", localIdentityVariable, string(role), ram.Roles)
	}
	a.who = role.RoleName() + "/local"
	return identityOf(role)
}

// identityOf is a session of a role on the local cloud.
func identityOf(role ram.Role) (*cloudtest.Identity, error) {
	doc, err := ram.Document(role, localValues)
	if err != nil {
		return nil, err
	}
	policy, err := cloudtest.ParsePolicy(doc)
	if err != nil {
		return nil, err
	}
	return cloudtest.AssumedRole(role.RoleName(), "local", policy), nil
}

// actOn gives the command's own clients of a local cloud the rights of its
// identity, and no more.
func (a *app) actOn(c *cloud) error {
	id, err := a.localIdentity()
	if err != nil {
		return err
	}
	store, err := localTablestore(c.ots, &c.creds, id)
	if err != nil {
		return err
	}
	bucket, err := localBucketOf(c.oss, &c.creds, id)
	if err != nil {
		return err
	}
	c.store, c.bucket = store, bucket
	return nil
}

// localFunctions is a client of functions on the local cloud for the command's
// identity; their front asks its policy.
func (a *app) localFunctions(s *stack) (*aliyun.Functions, error) {
	id, err := a.localIdentity()
	if err != nil {
		return nil, err
	}
	front, err := s.front()
	if err != nil {
		return nil, err
	}
	return aliyun.NewFunctions("http://fc.local", aliyun.Options{Credentials: fixed(issueTo(&s.creds, id)), Transport: front.Transport()})
}

// front is the endpoint of the stack's functions.
func (s *stack) front() (*fctest.Front, error) {
	front, err := fctest.NewFront(fctest.FrontOptions{Credentials: &s.creds})
	if err != nil {
		return nil, err
	}
	front.Deploy(s.function)
	front.Deploy(s.intake)
	s.functions = front
	return front, nil
}

// cloudFunctions is a client of the deployed function, and its name.
func (a *app) cloudFunctions() (client *aliyun.Functions, function string, err error) {
	env := aliyun.NewEnv(a.getenv)
	options, endpoint := cloudOptions(env), env.URL("ONCEGATE_FC_ENDPOINT")
	function = env.Text("ONCEGATE_FUNCTION", localFunctionName)
	if err := env.Err(); err != nil {
		return nil, "", messages.Errorf("%w\nset them for the cloud, or use --target local", err)
	}
	client, err = aliyun.NewFunctions(endpoint, options)
	return client, function, err
}

// cloudOptions reads the credentials of a command on the cloud.
func cloudOptions(env *aliyun.Env) aliyun.Options {
	return aliyun.Options{Credentials: fixed(aliyun.Credentials{
		AccessKeyID:     env.Need("ALIBABA_CLOUD_ACCESS_KEY_ID"),
		AccessKeySecret: env.Need("ALIBABA_CLOUD_ACCESS_KEY_SECRET"),
		SecurityToken:   env.Text("ALIBABA_CLOUD_SECURITY_TOKEN", ""),
	})}
}
