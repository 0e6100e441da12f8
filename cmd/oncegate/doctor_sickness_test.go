package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/oncegate/oncegate/events/ebtest"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

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
		"a bad rule that is left out on purpose", func(w *ward) {
			w.plane.Change(func(s *ebtest.Setup) {
				other := s.Rules[0]
				other.RuleName, other.Targets = "impatient", slices.Clone(other.Targets)
				other.Targets[0].PushRetryStrategy = ebtest.BackoffRetry
				s.Rules = append(s.Rules, other)
			})
			w.args = []string{"--ignore-rule", "impatient"}
		}, "", "impatient",
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
		"a function that takes dead letters in", func(w *ward) { w.function(map[string]string{"ONCEGATE_ROLE": "intake"}) },
		"env fail", "in the function: environment variable ONCEGATE_ROLE must be task",
	},
	{
		"an intake that handles events", func(w *ward) {
			w.front.Redeploy(localIntakeName, map[string]string{"ONCEGATE_ROLE": "task"}, 0)
		}, "env fail", "in the intake: environment variable ONCEGATE_ROLE must be intake",
	},
	{
		"an intake without the key secret", func(w *ward) {
			w.front.Redeploy(localIntakeName, map[string]string{"ONCEGATE_KEY_SECRET": ""}, 0)
		}, "key-secret fail", "the intake has another key secret",
	},
	{
		"an intake with another key secret", func(w *ward) {
			w.front.Redeploy(localIntakeName, map[string]string{"ONCEGATE_KEY_SECRET": strings.Repeat("y", 32)}, 0)
		}, "key-secret fail", "the intake has another key secret",
	},
	{
		"an intake of another environment", func(w *ward) {
			w.front.Redeploy(localIntakeName, map[string]string{"ONCEGATE_ENVIRONMENT": "staging"}, 0)
		}, "copies fail", "staging",
	},
	{
		"no intake", func(w *ward) { w.front.Unalias(localIntakeName, liveQualifier) },
		"env unknown/fail, batch unknown/fail, key-secret unknown/fail, copies unknown/fail", "no function oncegate-intake at alias live",
	},
	{
		"a bus of another name", func(w *ward) {
			w.plane.Change(func(s *ebtest.Setup) {
				s.Buses, s.Rules[0].EventBusName = []string{"orders"}, "orders"
			})
			w.args = []string{"--bus", "orders"}
		}, "copies fail", "name the bus orders as their environment",
	},
	{
		"a function on the local cloud's time", func(w *ward) {
			w.function(map[string]string{"ONCEGATE_TIME_SCALE": "100", "ONCEGATE_TABLESTORE_ENDPOINT": "https://oncegate.cn-hangzhou.ots.aliyuncs.com"})
		},
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
		"a store that does not get the first put", func(w *ward) {
			w.ots.Faults.Add(cloudtest.Fault{Op: "PutRow", Target: probeTable.Name, Kind: cloudtest.Drop})
		}, "conditional-write unknown/fail", "tablestore did not answer",
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
