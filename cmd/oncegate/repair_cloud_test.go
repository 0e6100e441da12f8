package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/deadletter/letter"
	"github.com/oncegate/oncegate/flows/modeltest"
	"github.com/oncegate/oncegate/flows/targettest"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// The services behind endpoints are what is asked, with the settings that the function has.
func TestRepairVerifyAsksTheServicesWhoseEndpointsAreSet(t *testing.T) {
	c, err := openCloud(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	model := modeltest.New(modeltest.Options{APIKey: "key-of-the-model"})
	targets, err := targettest.New(targettest.Options{Token: "token-of-the-target"})
	if err != nil {
		t.Fatal(err)
	}
	for _, start := range []func() error{c.ots.Start, c.oss.Start, model.Start, targets.Start} {
		if err := start(); err != nil {
			t.Fatal(err)
		}
	}
	defer model.Close()
	defer targets.Close()
	sts, err := cloudtest.NewSTS(&c.creds, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := sts.Start(); err != nil {
		t.Fatal(err)
	}
	defer sts.Close()
	// A probe shows what its caller may do, so it runs as somebody with the function's rights.
	everything, err := cloudtest.ParsePolicy([]byte(`{"Version":"1","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	creds := issueTo(&c.creds, cloudtest.AssumedRole("oncegate-function", "amy", everything))
	env := map[string]string{
		"ONCEGATE_TABLESTORE_ENDPOINT": c.ots.Endpoint(), "ONCEGATE_TABLESTORE_INSTANCE": localInstance,
		"ONCEGATE_OSS_ENDPOINT": c.oss.Endpoint(), "ONCEGATE_OSS_BUCKET": localBucket, "ONCEGATE_ENVIRONMENT": "prod", "ONCEGATE_STS_ENDPOINT": sts.Endpoint(),
		"ALIBABA_CLOUD_ACCESS_KEY_ID": creds.AccessKeyID, "ALIBABA_CLOUD_ACCESS_KEY_SECRET": creds.AccessKeySecret, "ALIBABA_CLOUD_SECURITY_TOKEN": creds.SecurityToken,
	}
	call := func(args ...string) (code int, out string) {
		var stdout, stderr bytes.Buffer
		code = run(args, strings.NewReader(""), &stdout, &stderr, func(name string) string { return env[name] })
		return code, stdout.String() + stderr.String()
	}
	records := filepath.Join(t.TempDir(), "letters.jsonl")
	lines := ""
	for id, target := range map[string]string{"m1": "model:qwen", "r1": "effect:records", "o1": "oss:", "t1": "ots:"} {
		lines += `{"event_id":"` + id + `","flow":"order.create","payload":{"source_system":"erp-1","number":"` + id + `","amount":1},"error_code":"ACCESS_DENIED","target":"` + target + `"}` + "\n"
	}
	if err := os.WriteFile(records, []byte(lines), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out := call("dlq", "ingest", records, "--execute", "--yes"); code != 0 {
		t.Fatal(out)
	}
	verify := func(target string, want int, says string) {
		t.Helper()
		code, out := call("dlq", "repair", "verify", deniedAt(target), "--execute", "--yes")
		if code != want || !strings.Contains(out, says) || strings.Contains(out, "key-of") || strings.Contains(out, "token-of") {
			t.Errorf("%s: exit code %d\n%s", target, code, out)
		}
	}
	verify("oss:", 0, "NoSuchKey")
	verify("ots:", 0, "no row")
	verify("model:qwen", exitUsage, "ONCEGATE_MODEL_BASE_URL is not set")
	verify("effect:records", exitUsage, "ONCEGATE_RECORDS_URL is not set")
	env["ONCEGATE_MODEL_BASE_URL"], env["ONCEGATE_RECORDS_URL"] = model.Endpoint(), targets.Endpoint()+"/records"
	verify("model:qwen", exitRefused, "HTTP 401")
	verify("effect:records", exitRefused, "HTTP 401")
	env["ONCEGATE_MODEL_API_KEY"], env["ONCEGATE_RECORDS_TOKEN"] = "key-of-the-model", "token-of-the-target"
	verify("model:qwen", 0, "HTTP 200")
	verify("effect:records", 0, "HTTP 200")
	c.creds.Revoke(creds.AccessKeyID)
	if code, _ := call("dlq", "repair", "verify", deniedAt("oss:")); code == 0 {
		t.Error("credentials that are no more show access")
	}
	if model.Calls() != 0 || len(targets.Records()) != 0 {
		t.Error("a probe has changed something")
	}
}

func deniedAt(target string) string { return letter.Fingerprint(letter.CodeAccessDenied, target) }
