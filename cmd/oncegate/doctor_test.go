package main

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/handler/fctest"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
	"github.com/oncegate/oncegate/scripts/ram"
)

func TestAHealthyDeploymentPassesEveryCheck(t *testing.T) {
	w := newWard(t)
	e := w.examine()
	if e.code != 0 || e.ill() != "" || !e.report.Complete || !e.report.Healthy || e.report.SchemaVersion != 1 {
		t.Fatalf("exit code %d: %s\n%s%s", e.code, e.ill(), e.stdout, e.stderr)
	}
	var ids []string
	for _, c := range e.report.Checks {
		ids = append(ids, c.ID)
		if c.Found == "" || c.Want == "" || (c.Do == "") != (c.Verdict == "pass") {
			t.Errorf("%+v", c)
		}
	}
	slices.Sort(ids)
	want := strings.Fields(`attempts backoff batch bucket clock conditional-write copies credentials dead-letter-queue effect-targets encryption env
		event-size intake-stream key-secret lease lifecycle model one-flow retention rule-form tables versioning versions`)
	if !slices.Equal(ids, want) {
		t.Errorf("checks are %v", ids)
	}
	if rows := w.ots.Rows(probeTable.Name); len(rows) != 0 {
		t.Errorf("the probe leaves %d rows", len(rows))
	}
}

func TestEachSicknessTurnsItsChecksRedAndNoOther(t *testing.T) {
	for _, s := range sicknesses {
		t.Run(s.name, func(t *testing.T) {
			w := newWard(t)
			s.make(w)
			e := w.examine()
			if got := e.ill(); got != s.ill {
				t.Errorf("ill are %s\nwant     %s\n%s%s", got, s.ill, e.stdout, e.stderr)
			}
			if !strings.Contains(e.stdout, jsonText(s.says)) {
				t.Errorf("nobody says %q:\n%s", s.says, e.stdout)
			}
			fails := strings.Contains(s.ill, "fail")
			if (e.code == exitFailed) != fails || e.report.Healthy == fails || e.report.Complete == strings.Contains(s.ill, "unknown") {
				t.Errorf("exit code %d, healthy %v, complete %v", e.code, e.report.Healthy, e.report.Complete)
			}
			if secret := w.env["ONCEGATE_KEY_SECRET"]; strings.Contains(e.stdout+e.stderr, secret) || strings.Contains(e.stdout+e.stderr, localKeySecret) {
				t.Error("a secret is said")
			}
		})
	}
}

func jsonText(s string) string { return strings.ReplaceAll(s, `"`, `\"`) }

func TestARoleWithoutRightsIsToldWhichAreMissing(t *testing.T) {
	w := newWard(t)
	w.as(ram.Reviewer)
	e := w.examine()
	if e.code != exitRefused || e.report.Complete {
		t.Fatalf("exit code %d, complete %v", e.code, e.report.Complete)
	}
	for _, right := range []string{
		"ots:DescribeTable on acs:ots:*:*:instance/*/table/task_records", "ots:PutRow on acs:ots:*:*:instance/*/table/oncegate_doctor_probe",
		"oss:GetBucketInfo on acs:oss:*:*:oncegate-local", "oss:GetBucketLifecycle", "fc:GetFunction on acs:fc:*:*:functions/oncegate-tasks/live",
		"fc:ListFunctionVersions", "eventbridge:ListRules on acs:eventbridge:*:*:eventbus/oncegate-local", "eventbridge:ListEventStreamings on *",
	} {
		if !strings.Contains(e.stdout, right) {
			t.Errorf("nobody names the right %s:\n%s", right, e.stdout)
		}
	}
}

func TestTheAccountsOwnKeysAreWarnedOf(t *testing.T) {
	w := newWard(t)
	c := issueTo(&w.creds, nil)
	w.env["ALIBABA_CLOUD_ACCESS_KEY_ID"], w.env["ALIBABA_CLOUD_ACCESS_KEY_SECRET"], w.env["ALIBABA_CLOUD_SECURITY_TOKEN"] = c.AccessKeyID, c.AccessKeySecret, c.SecurityToken
	if e := w.examine(); e.code != 0 || e.ill() != "credentials warn" {
		t.Errorf("exit code %d, ill are %s", e.code, e.ill())
	}
}

func TestAFlowsFileOfTheFunctionMustBeGiven(t *testing.T) {
	w := newWard(t)
	w.function(map[string]string{"ONCEGATE_FLOWS_FILE": "flows.yaml"})
	if e := w.examine(); e.code != exitFailed || !strings.Contains(e.ill(), "one-flow unknown/fail") {
		t.Errorf("exit code %d, ill are %s", e.code, e.ill())
	}
	if e := w.examine("--flows", "../../flows/flows.yaml"); e.code != 0 || e.ill() != "" {
		t.Errorf("exit code %d, ill are %s", e.code, e.ill())
	}
}

func TestAVersionThatIsGoneIsSeen(t *testing.T) {
	w := newWard(t)
	f, err := fctest.Start(fctest.Options{
		Binary: functionBinary, Env: w.functionVariables(), FunctionName: localFunctionName, Qualifier: "LATEST", VersionID: "LATEST", Timeout: 2 * time.Minute,
		Credentials: func() cloudtest.Credential { return w.creds.Issue(time.Time{}) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w.front.Deploy(f)
	if err := w.front.Alias(localFunctionName, liveQualifier, "LATEST"); err != nil {
		t.Fatal(err)
	}
	if e := w.examine(); e.code != exitFailed || e.ill() != "versions fail" {
		t.Errorf("exit code %d, ill are %s", e.code, e.ill())
	}
}

func TestSetupWritesTheRulesOfALongerRetention(t *testing.T) {
	w := newWard(t)
	w.function(map[string]string{"ONCEGATE_RETENTION": "4320h"})
	if e := w.examine(); e.ill() != "lifecycle fail" {
		t.Fatalf("ill are %s", e.ill())
	}
	w.env["ONCEGATE_RETENTION"] = "4320h"
	var out, errOut bytes.Buffer
	if code := run([]string{"setup", "--target", "cloud"}, strings.NewReader(""), &out, &errOut, func(name string) string { return w.env[name] }); code != 0 {
		t.Fatalf("exit code %d: %s", code, errOut.String())
	}
	if e := w.examine(); e.code != 0 || e.ill() != "" {
		t.Errorf("exit code %d, ill are %s", e.code, e.ill())
	}
}

func TestEndpointsFollowFromRegionAndAccount(t *testing.T) {
	const pattern = "https://ACCOUNT.REGION.fc.aliyuncs.com"
	for _, tt := range []struct {
		env             map[string]string
		account, region string
		want            string
	}{
		{nil, "1", "", ""},
		{map[string]string{"ONCEGATE_REGION": "cn-beijing"}, "1", "cn-beijing", "https://1.cn-beijing.fc.aliyuncs.com"},
		{map[string]string{"ONCEGATE_REGION": "cn-beijing"}, "", "cn-beijing", ""},
		{map[string]string{"ONCEGATE_TABLESTORE_ENDPOINT": "https://i.cn-hangzhou.ots.aliyuncs.com"}, "1", "cn-hangzhou", "https://1.cn-hangzhou.fc.aliyuncs.com"},
		{map[string]string{"ONCEGATE_TABLESTORE_ENDPOINT": "https://i.ap-southeast-1.vpc.tablestore.aliyuncs.com"}, "1", "ap-southeast-1", "https://1.ap-southeast-1.fc.aliyuncs.com"},
		{map[string]string{"ONCEGATE_OSS_ENDPOINT": "https://oss-cn-shanghai-internal.aliyuncs.com"}, "1", "cn-shanghai", "https://1.cn-shanghai.fc.aliyuncs.com"},
		{map[string]string{"ONCEGATE_TABLESTORE_ENDPOINT": "http://127.0.0.1:1", "ONCEGATE_OSS_ENDPOINT": "https://oss.example"}, "1", "", ""},
		{map[string]string{"ONCEGATE_FC_ENDPOINT": "http://127.0.0.1:2"}, "", "", "http://127.0.0.1:2"},
	} {
		env := aliyun.NewEnv(func(name string) string { return tt.env[name] })
		region := regionOf(env)
		if at := endpoint(env, "ONCEGATE_FC_ENDPOINT", region, pattern, tt.account); region != tt.region || at != tt.want {
			t.Errorf("%v: region %q, endpoint %q", tt.env, region, at)
		}
	}
}

func TestTheDoctorKnowsEveryVariableThatTheFunctionReads(t *testing.T) {
	asked := map[string]bool{}
	source, err := os.ReadFile("doctor_function.go")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`ONCEGATE_[A-Z_]*[A-Z]`)
	for _, file := range []string{"../../internal/aliyun/env.go", "../../internal/doctor/flow.go"} {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source = append(source, raw...)
	}
	for _, name := range names.FindAllString(string(source), -1) {
		asked[strings.TrimSuffix(name, "_URL")] = true
	}
	raw, err := os.ReadFile("../function/config.go")
	if err != nil {
		t.Fatal(err)
	}
	found := names.FindAllString(string(raw), -1)
	if len(found) < 20 {
		t.Fatalf("found %v alone", found)
	}
	for _, name := range found {
		if !asked[strings.TrimSuffix(name, "_URL")] {
			t.Errorf("the doctor does not know %s", name)
		}
	}
}
