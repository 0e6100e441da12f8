package main

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/oncegate/oncegate/events/ebtest"
	"github.com/oncegate/oncegate/handler/fctest"
	"github.com/oncegate/oncegate/idempotency"
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

// sickness is one thing that is set up wrongly, and every check that must see it.
type sickness struct {
	name string
	make func(*ward)
	ill  string
	says string // in the first of these checks
}

var sicknesses = []sickness{
	{
		"a rule that retries three times", func(w *ward) {
			w.rule(func(t *ebtest.TargetSetup) { t.PushRetryStrategy = ebtest.BackoffRetry })
		}, "rule-form fail, backoff fail, lease fail, attempts fail", "retries with BACKOFF_RETRY",
	},
	{
		"a rule that names no retries", func(w *ward) {
			w.rule(func(t *ebtest.TargetSetup) { t.PushRetryStrategy = "" })
		}, "rule-form fail, backoff fail, lease fail, attempts fail", "retries with BACKOFF_RETRY",
	},
	{
		"a rule with retries that nobody knows", func(w *ward) {
			w.rule(func(t *ebtest.TargetSetup) { t.PushRetryStrategy = "SOMETIMES" })
		}, "rule-form fail, batch unknown/fail, backoff unknown/fail, lease unknown/fail, attempts unknown/fail", "SOMETIMES",
	},
	{
		"a rule that hands over a part of the event", func(w *ward) {
			w.rule(func(t *ebtest.TargetSetup) { t.ParamList[2].Form = "JSONPATH" })
		}, "rule-form fail", "form JSONPATH",
	},
	{
		"a rule that stops at an error", func(w *ward) {
			w.rule(func(t *ebtest.TargetSetup) { t.ErrorsTolerance = "NONE" })
		}, "rule-form fail", "errors tolerance",
	},
	{
		"a rule that delivers to LATEST", func(w *ward) {
			w.rule(func(t *ebtest.TargetSetup) { t.ParamList[1].Value = "LATEST" })
		}, "rule-form fail", "delivers to LATEST",
	},
	{
		"a rule that names no qualifier", func(w *ward) {
			w.rule(func(t *ebtest.TargetSetup) { t.ParamList[1].Value = "" })
		}, "rule-form fail", "delivers to LATEST",
	},
	{
		"a rule that delivers to a version", func(w *ward) {
			w.rule(func(t *ebtest.TargetSetup) { t.ParamList[1].Value = "3" })
		}, "rule-form fail", "delivers to 3",
	},
	{
		"an asynchronous rule", func(w *ward) {
			w.rule(func(t *ebtest.TargetSetup) {
				t.ParamList = append(t.ParamList, ebtest.ParamSetup{ResourceKey: "InvocationType", Form: "CONSTANT", Value: "Async"})
			})
		}, "rule-form fail", "asynchronously",
	},
	{
		"a disabled rule", func(w *ward) {
			w.plane.Change(func(s *ebtest.Setup) { s.Rules[0].Status = "DISABLE" })
		},
		"rule-form fail, dead-letter-queue unknown/fail, event-size unknown/fail, intake-stream unknown/fail, batch unknown/fail, " +
			"backoff unknown/fail, lease unknown/fail, attempts unknown/fail, one-flow warn", "no enabled rule",
	},
	{
		"no bus", func(w *ward) { w.plane.Change(func(s *ebtest.Setup) { s.Buses = nil }) },
		"rule-form fail, dead-letter-queue unknown/fail, event-size unknown/fail, intake-stream unknown/fail, batch unknown/fail, " +
			"backoff unknown/fail, lease unknown/fail, attempts unknown/fail, one-flow warn", "no enabled rule",
	},
	{
		"a rule without a dead-letter queue", func(w *ward) {
			w.rule(func(t *ebtest.TargetSetup) { t.DeadLetterQueue.Arn = "" })
		}, "dead-letter-queue fail, event-size unknown/fail, intake-stream unknown/fail", "has none",
	},
	{
		"a dead-letter queue of another kind", func(w *ward) {
			w.rule(func(t *ebtest.TargetSetup) { t.DeadLetterQueue.Arn = "acs:eventbridge:cn-hangzhou:1:eventbus/x" })
		}, "dead-letter-queue fail, event-size unknown/fail, intake-stream unknown/fail", "no queue of SMQ",
	},
	{
		"a dead-letter queue that is not there", func(w *ward) { w.plane.Change(func(s *ebtest.Setup) { s.Queues = nil }) },
		"dead-letter-queue fail, event-size unknown/fail", "does not exist",
	},
	{
		"a queue that forgets after four days", func(w *ward) {
			w.plane.Change(func(s *ebtest.Setup) { s.Queues[0].MessageRetentionPeriod = 345600 })
		}, "dead-letter-queue fail", "for 4d",
	},
	{
		"a queue of small messages", func(w *ward) {
			w.plane.Change(func(s *ebtest.Setup) { s.Queues[0].MaximumMessageSize = 32 << 10 })
		}, "event-size fail", "takes 32 KB",
	},
	{
		"no stream into the intake", func(w *ward) { w.plane.Change(func(s *ebtest.Setup) { s.Streams = nil }) },
		"intake-stream fail", "nothing takes the letters",
	},
	{
		"a stream that stands still", func(w *ward) { w.plane.Change(func(s *ebtest.Setup) { s.Streams[0].Status = "PAUSED" }) },
		"intake-stream fail", "is PAUSED",
	},
	{
		"a stream that throws letters away", func(w *ward) {
			w.plane.Change(func(s *ebtest.Setup) { s.Streams[0].RunOptions.ErrorsTolerance = "ALL" })
		}, "intake-stream fail", "errors tolerance",
	},
	{
		"a stream of large batches", func(w *ward) {
			w.plane.Change(func(s *ebtest.Setup) { s.Streams[0].RunOptions.BatchWindow.CountBasedWindow = 1000 })
		}, "batch fail", "1000 letters at once",
	},
	{
		"a second rule for the same events", func(w *ward) {
			w.plane.Change(func(s *ebtest.Setup) {
				again := s.Rules[0]
				again.RuleName, again.FilterPattern = "again", `{"source":["demo.producer"]}`
				s.Rules = append(s.Rules, again)
			})
		}, "one-flow fail", "tasks, again",
	},
	{
		"a rule that leaves events out", func(w *ward) {
			w.plane.Change(func(s *ebtest.Setup) { s.Rules[0].FilterPattern = `{"source":["nobody"]}` })
		}, "one-flow warn", "no rule brings",
	},
	{
		"a pattern that is not understood", func(w *ward) {
			w.plane.Change(func(s *ebtest.Setup) { s.Rules[0].FilterPattern = `{"source":[{"resembles":"x"}]}` })
		}, "one-flow unknown/fail", "is not understood",
	},
	{
		"a rule of another bus", func(w *ward) {
			w.plane.Change(func(s *ebtest.Setup) {
				other := s.Rules[0]
				other.EventBusName = "staging"
				s.Buses, s.Rules = append(s.Buses, "staging"), append(s.Rules, other)
			})
		}, "copies fail", "of bus staging",
	},
	{
		"another function for the same events", func(w *ward) {
			w.plane.Change(func(s *ebtest.Setup) {
				other := s.Rules[0]
				other.RuleName, other.Targets = "copy", slices.Clone(other.Targets)
				other.Targets[0].Endpoint = "acs:fc:cn-hangzhou:1:functions/oncegate-copy"
				s.Rules = append(s.Rules, other)
			})
		}, "copies warn", "oncegate-copy",
	},
	{
		"a function of another environment", func(w *ward) { w.function(map[string]string{"ONCEGATE_ENVIRONMENT": "staging"}) },
		"copies fail", `"staging" in the function`,
	},
	{
		"a function with tables elsewhere", func(w *ward) { w.function(map[string]string{"ONCEGATE_TABLESTORE_INSTANCE": "elsewhere"}) },
		"copies fail", `"elsewhere" in the function`,
	},
	{
		"a function without its bucket", func(w *ward) { w.function(map[string]string{"ONCEGATE_OSS_BUCKET": ""}) },
		"env fail, copies fail", "in the function: environment variables are not set: ONCEGATE_OSS_BUCKET",
	},
	{
		"a function on the local cloud's time", func(w *ward) { w.function(map[string]string{"ONCEGATE_TIME_SCALE": "100"}) },
		"env fail", "ONCEGATE_TIME_SCALE 100",
	},
	{
		"a function without a key secret", func(w *ward) { w.function(map[string]string{"ONCEGATE_KEY_SECRET": ""}) },
		"key-secret fail", "content_review.publish needs one",
	},
	{
		"another key secret here", func(w *ward) { w.env["ONCEGATE_KEY_SECRET"] = strings.Repeat("x", 40) },
		"key-secret warn", "another key secret",
	},
	{
		"no model key", func(w *ward) { w.function(map[string]string{"ONCEGATE_MODEL_API_KEY": ""}) },
		"env fail, model fail", "ONCEGATE_MODEL_API_KEY",
	},
	{
		"a model in the clear", func(w *ward) { w.function(map[string]string{"ONCEGATE_MODEL_BASE_URL": "http://model.example/v1"}) },
		"model warn", "over http",
	},
	{
		"a model that may think too long", func(w *ward) { w.function(map[string]string{"ONCEGATE_MODEL_TIMEOUT": "5m"}) },
		"batch warn, model fail", "may take",
	},
	{
		"no place for notifications", func(w *ward) { w.function(map[string]string{"ONCEGATE_NOTIFY_URL": ""}) },
		"effect-targets fail", "uses notify",
	},
	{
		"records that end too soon", func(w *ward) { w.function(map[string]string{"ONCEGATE_RETENTION": "720h"}) },
		"retention fail, lifecycle fail", "kept for 30d",
	},
	{
		"a time-out that EventBridge does not wait for", func(w *ward) { w.front.Redeploy(localFunctionName, nil, 10*time.Minute) },
		"lease fail", "is 10m",
	},
	{
		"a time-out shorter than an effect", func(w *ward) { w.front.Redeploy(localFunctionName, nil, 8*time.Second) },
		"batch fail", "effect",
	},
	{
		"back-off that outlasts the platform", func(w *ward) {
			w.function(map[string]string{"ONCEGATE_BACKOFF_BASE": "12h", "ONCEGATE_BACKOFF_MAX": "24h"})
		}, "backoff fail", "between its",
	},
	{
		"no alias", func(w *ward) { w.front.Unalias(localFunctionName, liveQualifier) },
		"env unknown/fail, retention unknown/fail, encryption unknown/fail, versions fail, batch unknown/fail, backoff unknown/fail, lease unknown/fail, attempts unknown/fail, " +
			"key-secret unknown/fail, effect-targets unknown/fail, model unknown/fail, copies unknown/fail", "no function oncegate-tasks at alias live",
	},
	{
		"a table with a time to live", func(w *ward) {
			_, err := w.rawStore().UpdateTable(&tablestore.UpdateTableRequest{
				TableName: idempotency.TaskTable.Name, TableOption: &tablestore.TableOption{TimeToAlive: 86400 * 30, MaxVersion: 1},
			})
			w.do(err)
		}, "tables fail", "time to live is 2592000 s",
	},
	{
		"a table with versions", func(w *ward) {
			_, err := w.rawStore().UpdateTable(&tablestore.UpdateTableRequest{
				TableName: idempotency.TaskTable.Name, TableOption: &tablestore.TableOption{TimeToAlive: -1, MaxVersion: 3},
			})
			w.do(err)
		}, "tables fail", "max versions is 3",
	},
	{
		"a table with another key", func(w *ward) {
			_, err := w.rawStore().DeleteTable(&tablestore.DeleteTableRequest{TableName: idempotency.TaskTable.Name})
			w.do(err)
			w.do(w.store().CreateTable(w.t.Context(), aliyun.Table{Name: idempotency.TaskTable.Name, Key: "id"}))
		}, "tables fail", "primary key is not",
	},
	{
		"a table that is not there", func(w *ward) {
			_, err := w.rawStore().DeleteTable(&tablestore.DeleteTableRequest{TableName: idempotency.ReviewTable.Name})
			w.do(err)
		}, "tables fail", "reviews is not there",
	},
	{
		"no probe table", func(w *ward) {
			_, err := w.rawStore().DeleteTable(&tablestore.DeleteTableRequest{TableName: probeTable.Name})
			w.do(err)
		}, "conditional-write unknown/fail", "there is no table oncegate_doctor_probe",
	},
	{
		"a store that does not keep its conditions", func(w *ward) {
			puts, side := 0, w.store()
			w.ots.Faults.Hook(func(c cloudtest.Call, p cloudtest.Phase) {
				key, isProbe := strings.CutPrefix(c.Target, probeTable.Name+"/")
				if !isProbe || c.Op != "PutRow" || p != cloudtest.Before {
					return
				}
				if puts++; puts == 2 {
					_ = side.DeleteFixed(context.Background(), probeTable, key)
				}
			})
		}, "conditional-write fail", "the second put was taken",
	},
	{
		"a store that loses the second answer", func(w *ward) {
			w.ots.Faults.Add(cloudtest.Fault{Op: "PutRow", Target: probeTable.Name, Skip: 1, Phase: cloudtest.After, Kind: cloudtest.Drop})
		}, "conditional-write unknown/fail", "tablestore did not answer",
	},
	{
		"versioning that was suspended", func(w *ward) {
			w.do(w.rawBucket().SetBucketVersioning(localBucket, oss.VersioningConfig{Status: "Suspended"}))
		}, "versioning fail", "Suspended",
	},
	{
		"no lifecycle rules", func(w *ward) { w.do(w.rawBucket().DeleteBucketLifecycle(localBucket)) },
		"lifecycle fail", "oncegate-input",
	},
	{
		"objects that nobody encrypts", func(w *ward) { w.function(map[string]string{"ONCEGATE_OSS_ENCRYPTION": "bucket"}) },
		"encryption fail", "no encryption of its own",
	},
	{"a clock that is off", func(w *ward) { w.ahead.Store(int64(time.Minute)) }, "clock fail", "clock of tablestore"},
	{
		"a variable that is not set here", func(w *ward) { delete(w.env, "ONCEGATE_OSS_BUCKET") },
		"env fail, bucket unknown/fail, versioning unknown/fail, lifecycle unknown/warn, copies fail", "here: environment variables are not set: ONCEGATE_OSS_BUCKET",
	},
	{
		"nobody says where queues are", func(w *ward) { delete(w.env, "ONCEGATE_MNS_ENDPOINT") },
		"dead-letter-queue unknown/fail, event-size unknown/fail", "ONCEGATE_REGION or ONCEGATE_MNS_ENDPOINT is not set",
	},
	{
		"a control plane that is down", func(w *ward) { _ = w.plane.Close() },
		"rule-form unknown/fail, dead-letter-queue unknown/fail, event-size unknown/fail, intake-stream unknown/fail, batch unknown/fail, backoff unknown/fail, " +
			"lease unknown/fail, attempts unknown/fail, one-flow unknown/fail, copies unknown/warn", "eventbridge did not answer",
	},
	{
		"an endpoint of functions that is down", func(w *ward) { _ = w.front.Close() },
		"env unknown/fail, retention unknown/fail, encryption unknown/fail, versions unknown/fail, batch unknown/fail, backoff unknown/fail, lease unknown/fail, attempts unknown/fail, " +
			"key-secret unknown/fail, effect-targets unknown/fail, model unknown/fail, copies unknown/fail", "fc did not answer",
	},
	{
		"keys that are not valid", func(w *ward) { w.env["ALIBABA_CLOUD_ACCESS_KEY_SECRET"] = "another" },
		"env unknown/fail, credentials unknown/fail, tables unknown/fail, retention unknown/fail, conditional-write unknown/fail, bucket unknown/fail, versioning unknown/fail, " +
			"lifecycle unknown/warn, encryption unknown/fail, versions unknown/fail, rule-form unknown/fail, dead-letter-queue unknown/fail, event-size unknown/fail, intake-stream unknown/fail, " +
			"batch unknown/fail, backoff unknown/fail, lease unknown/fail, attempts unknown/fail, one-flow unknown/fail, key-secret unknown/fail, " +
			"effect-targets unknown/fail, model unknown/fail, copies unknown/fail", "fc does not accept the credentials",
	},
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
	if e.code != exitFailed || e.report.Complete {
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
