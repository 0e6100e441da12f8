package main

import (
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/doctor"
)

// minKeySecret is the least length of the key secret in bytes, as the function
// demands it.
const minKeySecret = 32

// deployedFunction reads a function's variables as the function itself does, so
// that what would keep it from starting is seen before. ownSecret is the key
// secret of this command. Nothing of a value that may be secret is kept.
func deployedFunction(cfg aliyun.FunctionConfig, ownSecret string) doctor.Function {
	env := aliyun.NewEnv(func(name string) string { return cfg.Env[name] })
	cloud := env.Cloud()
	d := doctor.Function{
		Environment: cloud.Environment, Instance: cloud.Instance, Bucket: cloud.Bucket, Encryption: cloud.Encryption,
		Timeout: cfg.Timeout, TimeScale: env.Factor("ONCEGATE_TIME_SCALE", 1), OwnFlows: env.Text("ONCEGATE_FLOWS_FILE", "") != "",
		Local: loopback(cloud.Endpoint), Policy: idempotency.DefaultPolicy(), Targets: map[string]bool{},
	}
	if env.OneOf("ONCEGATE_ROLE", "task", "intake") != "task" {
		env.Reject("ONCEGATE_ROLE", "must be task for the function that handles events")
	}
	_ = env.Text("ONCEGATE_DEAD_LETTER_TARGET", "") // of the intake alone
	if text := cloud.SealKey; text != "" {
		if _, err := artifacts.ParseSealKey(text); err != nil {
			env.Reject("ONCEGATE_SEAL_KEY", err.Error())
		}
	}
	p := &d.Policy
	p.Lease = env.Duration("ONCEGATE_LEASE", p.Lease)
	p.Margin = env.Duration("ONCEGATE_LEASE_MARGIN", p.Margin)
	p.BackoffBase = env.Duration("ONCEGATE_BACKOFF_BASE", p.BackoffBase)
	p.BackoffMax = env.Duration("ONCEGATE_BACKOFF_MAX", p.BackoffMax)
	p.RetryAfterMax = env.Duration("ONCEGATE_RETRY_AFTER_MAX", p.RetryAfterMax)
	p.Retention = env.Duration("ONCEGATE_RETENTION", p.Retention)
	d.ReserveMin = env.Duration("ONCEGATE_RESERVE_MIN", 2*time.Second)
	d.ReserveMax = env.Duration("ONCEGATE_RESERVE_MAX", 10*time.Second)
	if d.ReserveMax < d.ReserveMin {
		env.Reject("ONCEGATE_RESERVE_MAX", "must not be less than ONCEGATE_RESERVE_MIN")
	}
	env.OneOf("ONCEGATE_LOG_LEVEL", "info", "debug", "warn", "error")
	readSecret(env, &d, ownSecret)
	readModel(env, &d)
	for _, uses := range []string{"artifact.save", "notify", "robot", "record.create"} {
		name := doctor.TargetVariable(uses)
		d.Targets[uses] = name == "" || env.Text(name, "") != ""
		if name != "" && d.Targets[uses] {
			env.URL(name)
			_ = env.Text(strings.TrimSuffix(name, "_URL")+"_TOKEN", "")
		}
	}
	if err := env.Err(); err != nil {
		d.Problems = strings.Split(err.Error(), "\n")
	}
	return d
}

func readSecret(env *aliyun.Env, d *doctor.Function, own string) {
	secret := env.Text("ONCEGATE_KEY_SECRET", "")
	if n := len(secret); n > 0 && n < minKeySecret {
		env.Reject("ONCEGATE_KEY_SECRET", "must have at least 32 characters")
	}
	d.KeySecret, d.OtherSecret = len(secret) >= minKeySecret, secret != strings.TrimSpace(own)
}

// deployedIntake is the same for the function that takes dead letters in; secret
// is that of the one that handles events.
func deployedIntake(cfg aliyun.FunctionConfig, secret string) doctor.Intake {
	env := aliyun.NewEnv(func(name string) string { return cfg.Env[name] })
	cloud := env.Cloud()
	if env.OneOf("ONCEGATE_ROLE", "task", "intake") != "intake" {
		env.Reject("ONCEGATE_ROLE", "must be intake for the function that takes dead letters in")
	}
	var d doctor.Function
	readSecret(env, &d, secret)
	in := doctor.Intake{
		Environment: cloud.Environment, Instance: cloud.Instance, Bucket: cloud.Bucket, Timeout: cfg.Timeout, KeySecret: d.KeySecret, OtherSecret: d.OtherSecret,
	}
	if err := env.Err(); err != nil {
		in.Problems = strings.Split(err.Error(), "\n")
	}
	return in
}

func readModel(env *aliyun.Env, d *doctor.Function) {
	address := env.URL("ONCEGATE_MODEL_BASE_URL")
	name, key := env.Need("ONCEGATE_MODEL_NAME"), env.Need("ONCEGATE_MODEL_API_KEY")
	d.Model = address != "" && name != "" && key != ""
	d.ModelTimeout = env.Duration("ONCEGATE_MODEL_TIMEOUT", 0)
	d.ModelPlain = strings.HasPrefix(strings.ToLower(address), "http:") && !loopback(address)
}

// loopback reports whether an address is on the machine itself.
func loopback(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || (ip != nil && ip.IsLoopback())
}
