package main

import (
	"errors"
	"io"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/flows"
	"github.com/oncegate/oncegate/handler/fctest"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

func required() map[string]string {
	return map[string]string{
		"ONCEGATE_ENVIRONMENT":         "prod",
		"ONCEGATE_TABLESTORE_ENDPOINT": "https://tasks.cn-hangzhou.ots.aliyuncs.com",
		"ONCEGATE_TABLESTORE_INSTANCE": "tasks",
		"ONCEGATE_OSS_ENDPOINT":        "https://oss-cn-hangzhou.aliyuncs.com",
		"ONCEGATE_OSS_BUCKET":          "outputs",
		"ONCEGATE_MODEL_BASE_URL":      "https://dashscope.aliyuncs.com/compatible-mode/v1",
		"ONCEGATE_MODEL_NAME":          "qwen-plus",
		"ONCEGATE_MODEL_API_KEY":       "sk-1",
	}
}

// with is the required environment and a few variables more.
func with(more map[string]string) func(string) string {
	env := required()
	maps.Copy(env, more)
	return func(name string) string { return env[name] }
}

func TestConfigDefaults(t *testing.T) {
	got, err := readConfig(with(nil))
	if err != nil {
		t.Fatal(err)
	}
	want := config{
		role: roleTask, queueFor: "fc:oncegate-tasks",
		cloud: aliyun.Cloud{
			Environment: "prod", Endpoint: "https://tasks.cn-hangzhou.ots.aliyuncs.com", Instance: "tasks",
			OSSEndpoint: "https://oss-cn-hangzhou.aliyuncs.com", Bucket: "outputs", Encryption: "AES256",
		},
		model: flows.ModelOptions{BaseURL: "https://dashscope.aliyuncs.com/compatible-mode/v1", Name: "qwen-plus", APIKey: "sk-1"},
		policy: idempotency.Policy{
			Lease: time.Minute, Margin: 30 * time.Second, BackoffBase: 10 * time.Second, BackoffMax: time.Hour,
			RetryAfterMax: 24 * time.Hour, Retention: 90 * 24 * time.Hour,
		},
		keySecret: []byte{},
		notify:    flows.Target{Name: "notify"}, robot: flows.Target{Name: "robot"}, records: flows.Target{Name: "records"},
		reserveMin: 2 * time.Second, reserveMax: 10 * time.Second, logLevel: slog.LevelInfo,
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(config{})); diff != "" {
		t.Error(diff)
	}
}

func TestConfigNamesEverythingThatIsMissing(t *testing.T) {
	_, err := readConfig(func(string) string { return " " })
	if err == nil {
		t.Fatal("an empty environment was accepted")
	}
	for name := range required() {
		if strings.Count(err.Error(), name) != 1 {
			t.Errorf("%s is not named once in: %v", name, err)
		}
	}
	if n := strings.Count(err.Error(), "\n"); n != 0 {
		t.Errorf("what is missing takes %d lines: %v", n+1, err)
	}
}

func TestConfigRefusesBadValuesByName(t *testing.T) {
	bad := map[string][]string{
		"ONCEGATE_ROLE":                {"planted-value"},
		"ONCEGATE_TABLESTORE_ENDPOINT": {"planted-value", "ftp://planted-value", "https://", "http://planted value/%zz"},
		"ONCEGATE_OSS_ENDPOINT":        {"planted-value"},
		"ONCEGATE_OSS_ENCRYPTION":      {"planted-value", "aes256"},
		"ONCEGATE_MODEL_BASE_URL":      {"planted-value"},
		"ONCEGATE_MODEL_TIMEOUT":       {"planted-value", "30", "0s", "-1s"},
		"ONCEGATE_KEY_SECRET":          {"planted-value", strings.Repeat("p", 31)},
		"ONCEGATE_SEAL_KEY":            {"planted-value", "oncegate-seal-v1:planted-value", "oncegate-seal-private-v1:planted-value"},
		"ONCEGATE_TIME_SCALE":          {"planted-value", "0", "-1", "NaN", "Inf", "1e7"},
		"ONCEGATE_LEASE":               {"planted-value", "60", "0s"},
		"ONCEGATE_LEASE_MARGIN":        {"planted-value"},
		"ONCEGATE_BACKOFF_BASE":        {"planted-value"},
		"ONCEGATE_BACKOFF_MAX":         {"planted-value"},
		"ONCEGATE_RETRY_AFTER_MAX":     {"planted-value"},
		"ONCEGATE_RETENTION":           {"planted-value", "90"},
		"ONCEGATE_NOTIFY_URL":          {"planted-value"},
		"ONCEGATE_ROBOT_URL":           {"ftp://planted-value"},
		"ONCEGATE_RECORDS_URL":         {"planted-value"},
		"ONCEGATE_RESERVE_MIN":         {"planted-value"},
		"ONCEGATE_RESERVE_MAX":         {"planted-value", "1s"}, // below the default of the other
		"ONCEGATE_LOG_LEVEL":           {"planted-value"},
	}
	for name, values := range bad {
		for _, v := range values {
			_, err := readConfig(with(map[string]string{name: v}))
			if err == nil {
				t.Errorf("%s=%s was accepted", name, v)
				continue
			}
			if !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "planted") || strings.Contains(err.Error(), strings.Repeat("p", 31)) {
				t.Errorf("%s=%s: %v", name, v, err)
			}
		}
	}

	t.Run("all of them at once", func(t *testing.T) {
		all := map[string]string{}
		for name, values := range bad {
			all[name] = values[0]
		}
		_, err := readConfig(with(all))
		if err == nil {
			t.Fatal("accepted")
		}
		for name := range bad {
			if name != "ONCEGATE_RESERVE_MAX" && !strings.Contains(err.Error(), name+" ") {
				t.Errorf("%s is not named in: %v", name, err)
			}
		}
	})
}

func TestTimeScaleDividesWaitsAndNothingElse(t *testing.T) {
	one, err := readConfig(with(map[string]string{"ONCEGATE_LEASE": "90s", "ONCEGATE_MODEL_TIMEOUT": "20s"}))
	if err != nil {
		t.Fatal(err)
	}
	got, err := readConfig(with(map[string]string{"ONCEGATE_LEASE": "90s", "ONCEGATE_MODEL_TIMEOUT": "20s", "ONCEGATE_TIME_SCALE": "100"}))
	if err != nil {
		t.Fatal(err)
	}
	want := one
	for _, d := range []*time.Duration{
		&want.policy.Lease, &want.policy.Margin, &want.policy.BackoffBase, &want.policy.BackoffMax, &want.policy.RetryAfterMax,
		&want.reserveMin, &want.reserveMax,
	} {
		*d /= 100
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(config{})); diff != "" {
		t.Error(diff)
	}
	if got.policy.Lease != 900*time.Millisecond {
		t.Errorf("lease %v", got.policy.Lease)
	}
}

func TestTimeScaleThatLeavesNoUsableDurationIsRefusedByName(t *testing.T) {
	for _, more := range []map[string]string{
		{"ONCEGATE_TIME_SCALE": "1e6", "ONCEGATE_LEASE": "1us"},
		{"ONCEGATE_TIME_SCALE": "1e6", "ONCEGATE_RESERVE_MIN": "1us"},
		{"ONCEGATE_TIME_SCALE": "1e6", "ONCEGATE_BACKOFF_MAX": "1us"},
		{"ONCEGATE_TIME_SCALE": "1e6", "ONCEGATE_RETRY_AFTER_MAX": "1us"},
		{"ONCEGATE_TIME_SCALE": "1e-300"},
	} {
		if _, err := readConfig(with(more)); err == nil || !strings.Contains(err.Error(), "ONCEGATE_TIME_SCALE") {
			t.Errorf("%v: %v", more, err)
		}
	}
}

func TestBuildRefusesFlowsThatAreNotThere(t *testing.T) {
	secret := map[string]string{"ONCEGATE_KEY_SECRET": keySecret} // a flow that is built in has a sensitive field
	if _, err := build(with(secret), io.Discard); err != nil {
		t.Fatal(err)
	}
	_, err := build(with(map[string]string{"ONCEGATE_FLOWS_FILE": t.TempDir() + "/none.yaml"}), io.Discard)
	if err == nil || !strings.HasPrefix(err.Error(), "load flows: ") {
		t.Errorf("got %v", err)
	}
}

func TestBinarySaysWhatKeepsItFromStarting(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		env  []string
		want []string
	}{
		{"an empty environment", nil, []string{
			"ONCEGATE_ENVIRONMENT", "ONCEGATE_TABLESTORE_ENDPOINT", "ONCEGATE_TABLESTORE_INSTANCE", "ONCEGATE_OSS_ENDPOINT",
			"ONCEGATE_OSS_BUCKET", "ONCEGATE_MODEL_BASE_URL", "ONCEGATE_MODEL_NAME", "ONCEGATE_MODEL_API_KEY",
		}},
		{"a short secret", []string{"ONCEGATE_KEY_SECRET=planted-value"}, []string{"ONCEGATE_KEY_SECRET must have at least 32 characters"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out lockedBuffer
			f, err := fctest.Start(fctest.Options{
				Binary: binary, Env: c.env, Stdout: &out, Stderr: &out, Credentials: func() cloudtest.Credential { return cloudtest.Credential{} },
			})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			_, err = f.Invoke(t.Context(), fctest.Request{Payload: []byte("{}")})
			var start *fctest.StartError
			if !errors.As(err, &start) {
				t.Fatalf("got %v", err)
			}
			if start.Reason != "exit status 1" || !strings.HasPrefix(start.Stderr, "oncegate function cannot start:\n") {
				t.Errorf("%s: %s", start.Reason, start.Stderr)
			}
			for _, want := range c.want {
				if !strings.Contains(start.Stderr, want) {
					t.Errorf("%s is not in: %s", want, start.Stderr)
				}
			}
			if strings.Contains(out.String(), "planted") || strings.Contains(out.String(), "goroutine") {
				t.Errorf("printed %s", out.String())
			}
		})
	}
}
