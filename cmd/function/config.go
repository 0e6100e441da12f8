package main

import (
	"log/slog"
	"math"
	"time"

	"github.com/oncegate/oncegate/artifacts"
	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

// config is everything that the environment says, read once at start.
type config struct {
	role      string
	cloud     aliyun.Cloud
	flowsFile string // "" for the flows.yaml that is built in
	queueFor  string // target of dead letters whose messages name none
	keySecret []byte
	sealKey   *artifacts.SealKey // nil: letters are stored as they are
	model     flows.ModelOptions
	policy    idempotency.Policy

	notify, robot, records flows.Target

	reserveMin, reserveMax time.Duration
	logLevel               slog.Level
}

// target reads a system that effects send to. A flow that uses one without a URL
// fails with target_not_found.
func target(env *aliyun.Env, name, prefix string) flows.Target {
	t := flows.Target{Name: name, Token: env.Text(prefix+"_TOKEN", "")}
	if env.Text(prefix+"_URL", "") != "" {
		t.URL = env.URL(prefix + "_URL")
	}
	return t
}

// The roles of the one binary.
const (
	roleTask   = "task"   // handles events
	roleIntake = "intake" // takes dead letters in
)

// minKeySecret is the least length of the key secret, in bytes: a short one can
// be guessed from the keys of known phone numbers.
const minKeySecret = 32

// readConfig reads and checks the environment. The error lists every problem by
// variable and shows no value.
func readConfig(getenv func(string) string) (config, error) {
	env := aliyun.NewEnv(getenv)
	c := config{
		role:      env.OneOf("ONCEGATE_ROLE", roleTask, roleIntake),
		cloud:     env.Cloud(),
		flowsFile: env.Text("ONCEGATE_FLOWS_FILE", ""),
		queueFor:  env.Text("ONCEGATE_DEAD_LETTER_TARGET", "fc:oncegate-tasks"),
		keySecret: []byte(env.Text("ONCEGATE_KEY_SECRET", "")),
		notify:    target(env, "notify", "ONCEGATE_NOTIFY"),
		robot:     target(env, "robot", "ONCEGATE_ROBOT"),
		records:   target(env, "records", "ONCEGATE_RECORDS"),
	}
	if c.role == roleTask {
		c.model = flows.ModelOptions{
			BaseURL: env.URL("ONCEGATE_MODEL_BASE_URL"),
			Name:    env.Need("ONCEGATE_MODEL_NAME"),
			APIKey:  env.Need("ONCEGATE_MODEL_API_KEY"),
			Timeout: env.Duration("ONCEGATE_MODEL_TIMEOUT", 0),
		}
	}
	if n := len(c.keySecret); n > 0 && n < minKeySecret {
		env.Reject("ONCEGATE_KEY_SECRET", "must have at least 32 characters")
	}
	if text := c.cloud.SealKey; text != "" {
		var err error
		if c.sealKey, err = artifacts.ParseSealKey(text); err != nil {
			env.Reject("ONCEGATE_SEAL_KEY", err.Error())
		}
	}
	p := idempotency.DefaultPolicy()
	scale := env.Factor("ONCEGATE_TIME_SCALE", 1)
	scaled := func(name string, fallback time.Duration) time.Duration {
		d := float64(env.Duration(name, fallback)) / scale
		if d < 1 || d > math.MaxInt64/2 {
			env.Reject("ONCEGATE_TIME_SCALE", "leaves no usable duration of "+name)
			return fallback
		}
		return time.Duration(d)
	}
	p.Lease = scaled("ONCEGATE_LEASE", p.Lease)
	p.Margin = scaled("ONCEGATE_LEASE_MARGIN", p.Margin)
	p.BackoffBase = scaled("ONCEGATE_BACKOFF_BASE", p.BackoffBase)
	p.BackoffMax = scaled("ONCEGATE_BACKOFF_MAX", p.BackoffMax)
	p.RetryAfterMax = scaled("ONCEGATE_RETRY_AFTER_MAX", p.RetryAfterMax)
	p.Retention = env.Duration("ONCEGATE_RETENTION", p.Retention)
	c.policy = p
	c.reserveMin = scaled("ONCEGATE_RESERVE_MIN", 2*time.Second)
	c.reserveMax = scaled("ONCEGATE_RESERVE_MAX", 10*time.Second)
	if c.reserveMax < c.reserveMin {
		env.Reject("ONCEGATE_RESERVE_MAX", "must not be less than ONCEGATE_RESERVE_MIN")
	}
	if err := c.logLevel.UnmarshalText([]byte(env.Text("ONCEGATE_LOG_LEVEL", "info"))); err != nil {
		env.Reject("ONCEGATE_LOG_LEVEL", "must be debug, info, warn or error")
	}
	return c, env.Err()
}
