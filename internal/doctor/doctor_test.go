package doctor

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/messages"
)

const queueARN = "acs:mns:cn-hangzhou:1:/queues/letters"

// healthy are facts of a deployment that keeps every promise.
func healthy() Facts {
	return Facts{
		Environment: "prod", Bus: "prod", Instance: "i", Bucket: "b", Function: "tasks", Intake: "intake", Alias: "live",
		Identity: See(Identity{Name: "oncegate-deployer/amy", Account: "1"}),
		Deployed: See(Function{
			TimeScale: 1, Environment: "prod", Instance: "i", Bucket: "b", Encryption: "AES256",
			Timeout: 120 * time.Second, Policy: idempotency.DefaultPolicy(), ReserveMin: 2 * time.Second, ReserveMax: 10 * time.Second,
			ModelTimeout: 60 * time.Second, Model: true, KeySecret: true, Targets: map[string]bool{"notify": true},
		}),
		TakesIn:   See(Intake{Timeout: 120 * time.Second, Environment: "prod", Instance: "i", Bucket: "b", KeySecret: true}),
		Versions:  See(Versions{Published: []string{"1", "2"}, AliasTo: "2"}),
		Tables:    []Table{{"task_records", See(TableShape{})}, {"reviews", See(TableShape{})}},
		Probe:     See(Probe{Second: "OTSConditionCheckFail"}),
		Settings:  See(aliyun.BucketSettings{Location: "oss-cn-hangzhou", ACL: "private", Versioning: "Enabled"}),
		Lifecycle: See[[]string](nil),
		Clock:     See([]Skew{{"oss", time.Second}, {"tablestore", -2 * time.Second}}),
		Rules: See([]aliyun.Rule{
			{Bus: "prod", Name: "main", Enabled: true, Targets: []aliyun.RuleTarget{
				{Function: "tasks", Qualifier: "live", Form: "ORIGINAL", Retry: decayRetry, Tolerance: "ALL", DeadLetterQueue: queueARN},
				{Type: "https"},
			}},
			{Bus: "prod", Name: "off", Targets: []aliyun.RuleTarget{{Function: "tasks", Retry: backoffRetry}}},
		}),
		Foreign: See([]aliyun.Rule{{Bus: "staging", Name: "other", Enabled: true, Targets: []aliyun.RuleTarget{{Function: "other"}}}}),
		Queues:  map[string]Seen[Queue]{"letters": See(Queue{Queue: aliyun.Queue{Name: "letters", Retention: 7 * 24 * time.Hour, MaxMessage: 64 << 10}})},
		Streams: See([]aliyun.Stream{
			{Name: "in", Status: "RUNNING", Queue: "letters", Function: "intake", Qualifier: "live", Tolerance: "NONE", Retry: decayRetry, Batch: 10},
			{Name: "somebody else's", Status: "PAUSED", Queue: "theirs", Function: "theirs", Batch: 10000},
		}),
		Flows: See([]Flow{
			{Name: "a", Enabled: true, MaxAttempts: 6, NeedsSecret: true, UsesModel: true, NamedByBus: true, Effects: []Effect{{"tell", "notify", 10 * time.Second}}, Routes: See([]string{"main"})},
			{Name: "off", MaxAttempts: 100, Effects: []Effect{{"x", "robot", time.Hour}}, AlsoWantedBy: []string{"a"}},
		}),
	}
}

// nobody is why a fact is missing in these tests.
var nobody = Missing{Reason: NoAnswer, What: "x", Where: "y"}

func target(f *Facts) *aliyun.RuleTarget { return &f.Rules.Value[0].Targets[0] }

// setQueue changes the dead-letter queue.
func setQueue(f *Facts, change func(*Queue)) {
	q := f.Queues["letters"]
	change(&q.Value)
	f.Queues["letters"] = q
}

const (
	unknownFail = "unknown/fail"
	unknownWarn = "unknown/warn"
)

func verdictOf(c Check) string {
	if c.Verdict == Unknown {
		return "unknown/" + string(c.CountsAs)
	}
	return string(c.Verdict)
}

var cases = []struct {
	id     string
	want   string
	name   string
	change func(*Facts)
}{
	{"env", "fail", "a variable is missing here", func(f *Facts) { f.Problems = []string{"X is not set"} }},
	{"env", "fail", "a variable is missing in the function", func(f *Facts) { f.Deployed.Value.Problems = []string{"X is not set"} }},
	{"env", "fail", "time is scaled", func(f *Facts) { f.Deployed.Value.TimeScale = 100 }},
	{"env", "pass", "time is scaled on the local cloud", func(f *Facts) { f.Deployed.Value.Local, f.Deployed.Value.TimeScale = true, 100 }},
	{"env", unknownFail, "nobody saw the function", func(f *Facts) { f.Deployed.Missing = &nobody }},
	{"env", "fail", "a variable is missing here, and nobody saw the function", func(f *Facts) { f.Problems, f.Deployed.Missing = []string{"X"}, &nobody }},

	{"env", "fail", "a variable is missing in the intake", func(f *Facts) { f.TakesIn.Value.Problems = []string{"X is not set"} }},
	{"env", unknownFail, "nobody saw the intake", func(f *Facts) { f.TakesIn.Missing = &nobody }},

	{"credentials", "warn", "the account's own", func(f *Facts) { f.Identity.Value.Owner = true }},
	{"credentials", unknownFail, "nobody says whose", func(f *Facts) { f.Identity.Missing = &nobody }},

	{"tables", "fail", "one is not there", func(f *Facts) { f.Tables[1].Shape.Value.Absent = true }},
	{"tables", "fail", "one does not fit", func(f *Facts) { f.Tables[0].Shape.Value.Wrong = "time to live is 86400 s" }},
	{"tables", unknownFail, "nobody saw one", func(f *Facts) { f.Tables[0].Shape.Missing = &nobody }},
	{"tables", "fail", "one does not fit, and nobody saw the other", func(f *Facts) { f.Tables[0].Shape.Missing, f.Tables[1].Shape.Value.Absent = &nobody, true }},
	{"tables", unknownFail, "nobody looked at any", func(f *Facts) { f.Tables = nil }},

	{"retention", "pass", "just enough", func(f *Facts) { f.Deployed.Value.Policy.Retention = 45 * 24 * time.Hour }},
	{"retention", "fail", "a second too short", func(f *Facts) { f.Deployed.Value.Policy.Retention = 45*24*time.Hour - time.Second }},
	{"retention", unknownFail, "nobody saw the function", func(f *Facts) { f.Deployed.Missing = &nobody }},

	{"conditional-write", "fail", "the second was taken", func(f *Facts) { f.Probe.Value.Second = "" }},
	{"conditional-write", unknownFail, "nobody tried", func(f *Facts) { f.Probe.Missing = &nobody }},

	{"bucket", "fail", "elsewhere", func(f *Facts) { f.Settings.Value.Elsewhere = true }},
	{"bucket", "fail", "open to read", func(f *Facts) { f.Settings.Value.ACL = "public-read" }},
	{"bucket", "fail", "no word of who may read", func(f *Facts) { f.Settings.Value.ACL = "" }},
	{"bucket", unknownFail, "nobody saw it", func(f *Facts) { f.Settings.Missing = &nobody }},

	{"versioning", "fail", "never", func(f *Facts) { f.Settings.Value.Versioning = "" }},
	{"versioning", "fail", "suspended", func(f *Facts) { f.Settings.Value.Versioning = "Suspended" }},
	{"versioning", unknownFail, "nobody saw it", func(f *Facts) { f.Settings.Missing = &nobody }},

	{"lifecycle", "fail", "a rule is missing", func(f *Facts) { f.Lifecycle.Value = []string{"oncegate-input"} }},
	{"lifecycle", unknownWarn, "nobody saw them", func(f *Facts) { f.Lifecycle.Missing = &nobody }},

	{"encryption", "fail", "neither asks nor does", func(f *Facts) { f.Deployed.Value.Encryption = "" }},
	{"encryption", "pass", "the bucket does", func(f *Facts) { f.Deployed.Value.Encryption, f.Settings.Value.Encryption = "", "KMS" }},
	{"encryption", "pass", "the bucket does, and nobody saw the function", func(f *Facts) { f.Deployed.Missing, f.Settings.Value.Encryption = &nobody, "KMS" }},
	{"encryption", unknownFail, "nobody saw the function", func(f *Facts) { f.Deployed.Missing = &nobody }},
	{"encryption", unknownFail, "objects ask for nothing, and nobody saw the bucket", func(f *Facts) { f.Deployed.Value.Encryption, f.Settings.Missing = "", &nobody }},

	{"clock", "pass", "half the margin behind", func(f *Facts) { f.Clock.Value[0].By = -15 * time.Second }},
	{"clock", "fail", "more than half the margin behind", func(f *Facts) { f.Clock.Value[0].By = -15*time.Second - 1 }},
	{"clock", "fail", "more than half the margin ahead", func(f *Facts) { f.Clock.Value[1].By = 15*time.Second + 1 }},
	{"clock", "fail", "more than half of the default margin, and nobody saw the function", func(f *Facts) { f.Clock.Value[1].By, f.Deployed.Missing = 16*time.Second, &nobody }},
	{"clock", unknownFail, "no service said what time it is", func(f *Facts) { f.Clock.Value = nil }},
	{"clock", unknownFail, "nobody looked", func(f *Facts) { f.Clock.Missing = &nobody }},

	{"versions", "fail", "none", func(f *Facts) { f.Versions.Value.Published = nil }},
	{"versions", "fail", "no alias", func(f *Facts) { f.Versions.Value.AliasTo = "" }},
	{"versions", "fail", "the alias points to LATEST", func(f *Facts) { f.Versions.Value.AliasTo = "LATEST" }},
	{"versions", "fail", "the alias points to LATEST, which is listed", func(f *Facts) { f.Versions.Value = Versions{[]string{"1", "LATEST"}, "LATEST"} }},
	{"versions", "fail", "the alias points to what is gone", func(f *Facts) { f.Versions.Value.AliasTo = "9" }},
	{"versions", unknownFail, "nobody saw them", func(f *Facts) { f.Versions.Missing = &nobody }},

	{"rule-form", "fail", "none", func(f *Facts) { f.Rules.Value = nil }},
	{"rule-form", "fail", "disabled", func(f *Facts) { f.Rules.Value[0].Enabled = false }},
	{"rule-form", "fail", "form", func(f *Facts) { target(f).Form = "TEMPLATE" }},
	{"rule-form", "fail", "no form", func(f *Facts) { target(f).Form = "" }},
	{"rule-form", "fail", "tolerance", func(f *Facts) { target(f).Tolerance = "" }},
	{"rule-form", "fail", "retries", func(f *Facts) { target(f).Retry = "" }},
	{"rule-form", "fail", "asynchronous", func(f *Facts) { target(f).Async = true }},
	{"rule-form", "fail", "no qualifier", func(f *Facts) { target(f).Qualifier = "" }},
	{"rule-form", "fail", "another alias", func(f *Facts) { target(f).Qualifier = "canary" }},
	{"rule-form", unknownFail, "nobody saw them", func(f *Facts) { f.Rules.Missing = &nobody }},

	{"dead-letter-queue", "fail", "none", func(f *Facts) { target(f).DeadLetterQueue = "" }},
	{"dead-letter-queue", "fail", "of another kind", func(f *Facts) { target(f).DeadLetterQueue = "acs:mq:cn-hangzhou:1:/instances/i/topic/t" }},
	{"dead-letter-queue", "fail", "not there", func(f *Facts) { setQueue(f, func(q *Queue) { q.Absent = true }) }},
	{"dead-letter-queue", "fail", "a second too short", func(f *Facts) { setQueue(f, func(q *Queue) { q.Retention -= time.Second }) }},
	{"dead-letter-queue", unknownFail, "nobody asked for the queue", func(f *Facts) { f.Queues = nil }},
	{"dead-letter-queue", unknownFail, "nobody saw the queue", func(f *Facts) { f.Queues["letters"] = Unseen[Queue](nobody) }},
	{"dead-letter-queue", unknownFail, "nobody saw the rules", func(f *Facts) { f.Rules.Missing = &nobody }},
	{"dead-letter-queue", unknownFail, "there is no rule", func(f *Facts) { f.Rules.Value = nil }},

	{"event-size", "warn", "64 KB", func(*Facts) {}},
	{"event-size", "pass", "256 KB", func(f *Facts) { setQueue(f, func(q *Queue) { q.MaxMessage = 256 << 10 }) }},
	{"event-size", "warn", "just what the function leaves to it", func(f *Facts) { setQueue(f, func(q *Queue) { q.MaxMessage = 48 << 10 }) }},
	{"event-size", "fail", "a gap", func(f *Facts) { setQueue(f, func(q *Queue) { q.MaxMessage = 48<<10 - 1 }) }},
	{"event-size", unknownFail, "nobody saw the queue", func(f *Facts) { f.Queues["letters"] = Unseen[Queue](nobody) }},
	{"event-size", unknownFail, "no queue", func(f *Facts) { target(f).DeadLetterQueue = "" }},

	{"intake-stream", "pass", "a status in small letters", func(f *Facts) { f.Streams.Value[0].Status = "running" }},
	{"intake-stream", "fail", "none", func(f *Facts) { f.Streams.Value = nil }},
	{"intake-stream", "fail", "of another queue", func(f *Facts) { f.Streams.Value[0].Queue = "other" }},
	{"intake-stream", "fail", "into another function", func(f *Facts) { f.Streams.Value[0].Function = "other" }},
	{"intake-stream", "fail", "stopped", func(f *Facts) { f.Streams.Value[0].Status = "READY" }},
	{"intake-stream", "fail", "throws away", func(f *Facts) { f.Streams.Value[0].Tolerance = "" }},
	{"intake-stream", "fail", "retries", func(f *Facts) { f.Streams.Value[0].Retry = backoffRetry }},
	{"intake-stream", unknownFail, "nobody saw them", func(f *Facts) { f.Streams.Missing = &nobody }},
	{"intake-stream", unknownFail, "no queue", func(f *Facts) { target(f).DeadLetterQueue = "" }},

	{"batch", "pass", "the intake's batch just fits", func(f *Facts) { f.TakesIn.Value.Timeout = 20 * time.Second }},
	{"batch", "fail", "the intake's batch does not fit", func(f *Facts) { f.TakesIn.Value.Timeout = 20*time.Second - 1 }},
	{"batch", unknownFail, "nobody saw the intake", func(f *Facts) { f.TakesIn.Missing = &nobody }},
	{"batch", "fail", "an effect that never starts", func(f *Facts) { f.Flows.Value[0].Effects[0].Timeout = 110 * time.Second }},
	{"batch", "pass", "a run that just fits", func(f *Facts) { f.Flows.Value[0].Effects[0].Timeout = 50 * time.Second }},
	{"batch", "warn", "a run that does not", func(f *Facts) { f.Flows.Value[0].Effects[0].Timeout = 50*time.Second + 1 }},
	{"batch", "pass", "16 at once", func(f *Facts) {
		f.Streams.Value[1] = aliyun.Stream{Function: "tasks", Batch: 16, Retry: decayRetry}
	}},
	{"batch", "warn", "one more than at once", func(f *Facts) {
		f.Streams.Value[1] = aliyun.Stream{Function: "tasks", Batch: 17, Retry: decayRetry}
	}},
	{"batch", "warn", "all that four deliveries do", func(f *Facts) {
		f.Streams.Value[1] = aliyun.Stream{Function: "tasks", Batch: 64}
	}},
	{"batch", "fail", "more than four deliveries do", func(f *Facts) {
		f.Streams.Value[1] = aliyun.Stream{Function: "tasks", Batch: 65}
	}},
	{"batch", "warn", "a model without a time-out of its own takes the whole run", func(f *Facts) {
		f.Deployed.Value.ModelTimeout = 0
		f.Streams.Value[1] = aliyun.Stream{Function: "tasks", Batch: 17, Retry: decayRetry}
	}},
	{"batch", unknownFail, "nobody saw the flows", func(f *Facts) { f.Flows.Missing = &nobody }},

	{"backoff", "fail", "three retries", func(f *Facts) { target(f).Retry = "" }},
	{"backoff", "fail", "too many attempts", func(f *Facts) { f.Flows.Value[0].MaxAttempts = 40 }},
	{"backoff", "pass", "one attempt", func(f *Facts) { f.Flows.Value[0].MaxAttempts, target(f).Retry = 1, "" }},
	{"backoff", "pass", "two attempts have one wait", func(f *Facts) { f.Flows.Value[0].MaxAttempts, target(f).Retry = 2, "" }},
	{"backoff", "fail", "three attempts have two", func(f *Facts) { f.Flows.Value[0].MaxAttempts, target(f).Retry = 3, "" }},
	{"backoff", unknownFail, "retries that nobody knows", func(f *Facts) { target(f).Retry = "SOMETIMES" }},
	{"backoff", unknownFail, "nobody saw the function", func(f *Facts) { f.Deployed.Missing = &nobody }},

	{"lease", "fail", "three retries", func(f *Facts) { target(f).Retry = backoffRetry }},
	{"lease", "fail", "longer than EventBridge waits", func(f *Facts) { f.Deployed.Value.Timeout = 301 * time.Second }},
	{"lease", "pass", "as long as EventBridge waits", func(f *Facts) { f.Deployed.Value.Timeout = 300 * time.Second }},
	{"lease", "fail", "no time for the work", func(f *Facts) { f.Deployed.Value.Timeout = 2 * time.Second }},
	{"lease", "fail", "as long as three retries", func(f *Facts) {
		f.Deployed.Value.Timeout, f.Deployed.Value.Policy.Margin, target(f).Retry = 25*time.Second, 5*time.Second, ""
	}},
	{"lease", "pass", "shorter than three retries", func(f *Facts) {
		f.Deployed.Value.Timeout, f.Deployed.Value.Policy.Margin, target(f).Retry = 25*time.Second-1, 5*time.Second, ""
	}},
	{"lease", unknownFail, "retries that nobody knows", func(f *Facts) { target(f).Retry = "SOMETIMES" }},
	{"lease", unknownFail, "no rule", func(f *Facts) { f.Rules.Value = nil }},

	{"attempts", "pass", "four of four", func(f *Facts) { target(f).Retry, f.Flows.Value[0].MaxAttempts = "", 4 }},
	{"attempts", "fail", "five of four", func(f *Facts) { target(f).Retry, f.Flows.Value[0].MaxAttempts = "", 5 }},
	{"attempts", unknownFail, "retries that nobody knows", func(f *Facts) { target(f).Retry = "SOMETIMES" }},

	{"one-flow", "fail", "two want it", func(f *Facts) { f.Flows.Value[0].AlsoWantedBy = []string{"b"} }},
	{"one-flow", "fail", "two rules bring it", func(f *Facts) { f.Flows.Value[0].Routes = See([]string{"main", "again"}) }},
	{"one-flow", "warn", "no rule brings it", func(f *Facts) { f.Flows.Value[0].Routes = See[[]string](nil) }},
	{"one-flow", unknownFail, "a pattern that nobody understands", func(f *Facts) { f.Flows.Value[0].Routes = Unseen[[]string](nobody) }},
	{"one-flow", unknownFail, "nobody saw the flows", func(f *Facts) { f.Flows.Missing = &nobody }},

	{"key-secret", "fail", "none", func(f *Facts) { f.Deployed.Value.KeySecret = false }},
	{"key-secret", "pass", "none, and none is needed", func(f *Facts) { f.Deployed.Value.KeySecret, f.Flows.Value[0].NeedsSecret = false, false }},
	{"key-secret", "fail", "none in the intake", func(f *Facts) { f.TakesIn.Value.KeySecret = false }},
	{"key-secret", "fail", "another one in the intake", func(f *Facts) { f.TakesIn.Value.OtherSecret = true }},
	{"key-secret", unknownFail, "another one in the intake than nobody knows", func(f *Facts) { f.TakesIn.Value.OtherSecret, f.Deployed.Missing = true, &nobody }},
	{"key-secret", unknownFail, "nobody saw the intake", func(f *Facts) { f.TakesIn.Missing = &nobody }},
	{"key-secret", "warn", "another one here", func(f *Facts) { f.Deployed.Value.OtherSecret = true }},
	{"key-secret", unknownFail, "nobody saw the function", func(f *Facts) { f.Deployed.Missing = &nobody }},
	{"key-secret", "pass", "nobody saw the function, and none is needed", func(f *Facts) { f.Deployed.Missing, f.Flows.Value[0].NeedsSecret = &nobody, false }},
	{"key-secret", unknownFail, "nobody saw the flows", func(f *Facts) { f.Flows.Missing = &nobody }},

	{"effect-targets", "fail", "no URL", func(f *Facts) { f.Deployed.Value.Targets = nil }},
	{"effect-targets", unknownFail, "nobody saw the function", func(f *Facts) { f.Deployed.Missing = &nobody }},
	{"effect-targets", unknownFail, "nobody saw the flows", func(f *Facts) { f.Flows.Missing = &nobody }},

	{"model", "fail", "not set", func(f *Facts) { f.Deployed.Value.Model = false }},
	{"model", "warn", "in the clear", func(f *Facts) { f.Deployed.Value.ModelPlain = true }},
	{"model", "pass", "as long as a run", func(f *Facts) { f.Deployed.Value.ModelTimeout = 110 * time.Second }},
	{"model", "fail", "longer than a run", func(f *Facts) { f.Deployed.Value.ModelTimeout = 110*time.Second + 1 }},
	{"model", "pass", "no time-out of its own", func(f *Facts) { f.Deployed.Value.ModelTimeout = 0 }},
	{"model", unknownFail, "nobody saw the function", func(f *Facts) { f.Deployed.Missing = &nobody }},

	{"copies", "fail", "another environment", func(f *Facts) { f.Deployed.Value.Environment = "staging" }},
	{"copies", "fail", "another instance", func(f *Facts) { f.Deployed.Value.Instance = "x" }},
	{"copies", "fail", "another bucket", func(f *Facts) { f.Deployed.Value.Bucket = "x" }},
	{"copies", "fail", "an intake of another environment", func(f *Facts) { f.TakesIn.Value.Environment = "staging" }},
	{"copies", "fail", "an intake of another instance", func(f *Facts) { f.TakesIn.Value.Instance = "x" }},
	{"copies", "fail", "an intake of another bucket", func(f *Facts) { f.TakesIn.Value.Bucket = "x" }},
	{"copies", unknownFail, "nobody saw the intake", func(f *Facts) { f.TakesIn.Missing = &nobody }},
	{"copies", "fail", "a bus of another name", func(f *Facts) { f.Bus = "other" }},
	{"copies", "pass", "a bus of another name, and events that name their environment", func(f *Facts) { f.Bus, f.Flows.Value[0].NamedByBus = "other", false }},
	{"copies", "fail", "another bus", func(f *Facts) { f.Foreign.Value[0].Targets[0].Function = "tasks" }},
	{"copies", "pass", "another bus, whose rule is off", func(f *Facts) {
		f.Foreign.Value[0].Targets[0].Function, f.Foreign.Value[0].Enabled = "tasks", false
	}},
	{"copies", "warn", "another function", func(f *Facts) { f.Flows.Value[0].Others = []string{"copy"} }},
	{"copies", unknownWarn, "nobody saw the other buses", func(f *Facts) { f.Foreign.Missing = &nobody }},
	{"copies", unknownFail, "nobody saw the function", func(f *Facts) { f.Deployed.Missing = &nobody }},
}

func find(checks []Check, id string) Check {
	return checks[slices.IndexFunc(checks, func(c Check) bool { return c.ID == id })]
}

func TestEachVerdictOfEachCheck(t *testing.T) {
	for _, tt := range cases {
		t.Run(tt.id+" "+tt.name, func(t *testing.T) {
			f := healthy()
			tt.change(&f)
			checks := Judge(f)
			c := find(checks, tt.id)
			if got := verdictOf(c); got != tt.want {
				t.Fatalf("%s: %s", got, c.Found)
			}
			if c.Verdict == Pass && (!c.Do.IsZero() || c.Found.IsZero()) {
				t.Errorf("it passes with %q, and to do is %q", c.Found, c.Do)
			}
			if c.Verdict != Pass && (c.Do.IsZero() || c.Found.IsZero()) {
				t.Errorf("it does not pass, found is %q, to do is %q", c.Found, c.Do)
			}
			if strings.Contains(tt.want, "unknown") && Complete(checks) {
				t.Error("it is complete")
			}
			if strings.Contains(tt.want, "fail") && !Failed(checks) {
				t.Error("nothing counts as a fail")
			}
		})
	}
}

func TestAHealthyDeploymentHasOneWarnThatEveryQueueHas(t *testing.T) {
	for _, c := range Judge(healthy()) {
		want := "pass"
		if c.ID == "event-size" {
			want = "warn"
		}
		if got := verdictOf(c); got != want {
			t.Errorf("%s: %s: %s", c.ID, got, c.Found)
		}
	}
}

func TestEveryCheckIsSeenToPassAndToFail(t *testing.T) {
	seen := map[string]map[string]bool{}
	for _, tt := range cases {
		if seen[tt.id] == nil {
			seen[tt.id] = map[string]bool{}
		}
		seen[tt.id][tt.want] = true
	}
	for _, c := range Judge(healthy()) {
		if !seen[c.ID]["fail"] && c.ID != "credentials" {
			t.Errorf("%s never fails", c.ID)
		}
		if !seen[c.ID][unknownFail] && !seen[c.ID][unknownWarn] {
			t.Errorf("%s is never unknown", c.ID)
		}
	}
}

func TestACheckOfWhichAPartWasNotSeenIsNotComplete(t *testing.T) {
	f := healthy()
	f.Tables[0].Shape.Missing, f.Tables[1].Shape.Value.Absent = &nobody, true
	if checks := Judge(f); Complete(checks) || find(checks, "tables").Verdict != Fail {
		t.Errorf("complete is %v: %+v", Complete(checks), find(checks, "tables"))
	}
	if !Complete(Judge(healthy())) {
		t.Error("a healthy deployment is not complete")
	}
}

func TestNothingSeenPassesNothing(t *testing.T) {
	f := Facts{
		Identity: Unseen[Identity](nobody), Deployed: Unseen[Function](nobody), TakesIn: Unseen[Intake](nobody), Versions: Unseen[Versions](nobody),
		Probe: Unseen[Probe](nobody), Settings: Unseen[aliyun.BucketSettings](nobody), Lifecycle: Unseen[[]string](nobody), Clock: Unseen[[]Skew](nobody),
		Rules: Unseen[[]aliyun.Rule](nobody), Foreign: Unseen[[]aliyun.Rule](nobody), Streams: Unseen[[]aliyun.Stream](nobody), Flows: Unseen[[]Flow](nobody),
	}
	for _, facts := range []Facts{f, {}} {
		for _, c := range Judge(facts) {
			if facts.Rules.Missing != nil && c.Verdict != Unknown {
				t.Errorf("%s: %s", c.ID, c.Verdict)
			}
		}
		if !Failed(Judge(facts)) {
			t.Error("nothing counts as a fail")
		}
	}
}

func TestEveryReasonSaysWhatIsMissingAndWhatToDo(t *testing.T) {
	said := map[string]bool{}
	for _, r := range []Reason{Unset, Denied, Refused, Absent, NoAnswer, Unreadable, DependsOn, OtherRunner, Undeployed} {
		m := Missing{r, "WHAT", "WHERE"}
		found, do := m.found().String(), m.Do().String()
		if said[found] || said[do] || strings.Contains(found+do, "%!") {
			t.Errorf("%s: %s / %s", r, found, do)
		}
		said[found], said[do] = true, true
	}
}

func TestJSONIsEnglishAndEveryProblemIsSaidOnce(t *testing.T) {
	f := healthy()
	f.Rules.Value = append(f.Rules.Value, f.Rules.Value[0])
	target(&f).Retry = ""
	f.Rules.Value[2].Name = "second"
	f.Problems = []string{"X is not set"}
	raw, err := json.Marshal(find(Judge(f), "rule-form"))
	if err != nil {
		t.Fatal(err)
	}
	var c map[string]string
	if err := json.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	if c["found"] != "rule main: retries with BACKOFF_RETRY; rule second: retries with BACKOFF_RETRY" || c["do"] != "set PushRetryStrategy to EXPONENTIAL_DECAY_RETRY" ||
		c["verdict"] != "fail" || c["counts_as"] != "fail" {
		t.Errorf("%s", raw)
	}
	chinese := messages.For(func(string) string { return "zh_CN.UTF-8" })
	for _, one := range Judge(f) {
		for _, text := range []messages.Text{one.Want, one.Do} {
			if said := chinese.Text(text); !text.IsZero() && said == text.String() {
				t.Errorf("%s is not said in Chinese: %s", one.ID, said)
			}
		}
	}
}

func TestDurationsAreSaidShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		90 * 24 * time.Hour: "90d", 24 * time.Hour: "24h", time.Minute: "1m", 150 * time.Second: "2m30s", 86_015 * time.Second: "23h53m35s", 0: "0s",
	} {
		if got := span(d); got != want {
			t.Errorf("%v is %s, want %s", d, got, want)
		}
	}
}

func TestOnlyMissingRightsAreToldFromFaults(t *testing.T) {
	right := Missing{Reason: Denied, What: "ots:DescribeTable", Where: "acs:ots:*:*:instance/*/table/x"}
	seen := Check{Verdict: Pass, CountsAs: Pass}
	denied := Check{Verdict: Unknown, CountsAs: Fail, missing: []*Missing{&right}}
	for name, c := range map[string]struct {
		checks []Check
		want   *Missing
	}{
		"all passes":                      {[]Check{seen}, nil},
		"a right is missing":              {[]Check{seen, denied}, &right},
		"and what depends on it":          {[]Check{{Verdict: Unknown, CountsAs: Fail, missing: []*Missing{{Reason: DependsOn}}}, denied}, &right},
		"something is wrong as well":      {[]Check{denied, {Verdict: Fail, CountsAs: Fail}}, nil},
		"a service does not answer":       {[]Check{denied, {Verdict: Unknown, CountsAs: Fail, missing: []*Missing{{Reason: NoAnswer}}}}, nil},
		"a right that only warns":         {[]Check{{Verdict: Unknown, CountsAs: Warn}}, nil},
		"nothing was seen for want of it": {[]Check{{Verdict: Unknown, CountsAs: Fail, missing: []*Missing{{Reason: DependsOn}}}}, nil},
	} {
		if got := MissingRight(c.checks); got != c.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
