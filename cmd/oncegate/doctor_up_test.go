package main

import (
	"strings"
	"testing"
)

func TestTheDoctorLooksAtTheLocalCloudThatIsUp(t *testing.T) {
	state := t.TempDir()
	at := servedCloud(t, state)
	keys := at.Roles["deployer"]
	w := &ward{t: t, env: map[string]string{
		"ONCEGATE_ENVIRONMENT": localEnvironment, "ONCEGATE_TABLESTORE_ENDPOINT": at.Tablestore.Endpoint, "ONCEGATE_TABLESTORE_INSTANCE": at.Tablestore.Instance,
		"ONCEGATE_OSS_ENDPOINT": at.OSS.Endpoint, "ONCEGATE_OSS_BUCKET": at.OSS.Bucket, "ONCEGATE_FC_ENDPOINT": at.FC.Endpoint,
		"ONCEGATE_STS_ENDPOINT": at.STS.Endpoint, "ONCEGATE_EVENTBRIDGE_API_ENDPOINT": at.EventBridge.APIEndpoint, "ONCEGATE_MNS_ENDPOINT": at.MNS.Endpoint,
		"ALIBABA_CLOUD_ACCESS_KEY_ID": keys.AccessKeyID, "ALIBABA_CLOUD_ACCESS_KEY_SECRET": keys.AccessKeySecret, "ALIBABA_CLOUD_SECURITY_TOKEN": keys.SecurityToken,
		"ONCEGATE_KEY_SECRET": localKeySecret,
	}}
	if e := w.examine("--ignore-rule", impatientRule); e.code != 0 || e.ill() != "" {
		t.Errorf("exit code %d: %s\n%s%s", e.code, e.ill(), e.stdout, e.stderr)
	}
	// The rule of sample 10 is found out: its retries are shorter than a lease.
	e := w.examine()
	if want := "rule-form fail, backoff fail, lease fail, attempts fail"; e.code != exitFailed || e.ill() != want || !strings.Contains(e.stdout, impatientRule) {
		t.Errorf("exit code %d: %s\n%s", e.code, e.ill(), e.stdout)
	}
}
