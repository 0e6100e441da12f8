package ebtest_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/events/ebtest"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

var place = ebtest.Deployed{Function: "tasks", Qualifier: "live", Intake: "intake", Queue: "letters", Region: cloudtest.Region, AccountID: cloudtest.AccountID}

// options are a bus with one rule of each kind and the stream of its queue.
func options() ebtest.Options {
	never := func(context.Context, ebtest.Delivery) ebtest.Result { return ebtest.Result{} }
	return ebtest.Options{
		Bus: "prod",
		Rules: []ebtest.Rule{
			{Name: "main", Pattern: json.RawMessage(`{"source":["a"]}`), Policy: ebtest.ExponentialDecayRetry, Target: never, DeadLetter: true},
			{Name: "many", Targets: []ebtest.RuleTarget{{ID: "x", Target: never}, {ID: "y", Target: never, ErrorsTolerance: ebtest.TolerateNone}}},
		},
		Streams: []ebtest.Stream{
			{Name: "in", Target: never, Policy: ebtest.ExponentialDecayRetry, ErrorsTolerance: ebtest.TolerateNone, BatchCount: 10, BatchWait: 2 * time.Second, FromDeadLetters: true},
			{Name: "pushed", Target: never},
		},
	}
}

func newPlane(t *testing.T) (*ebtest.Plane, *cloudtest.Credentials) {
	t.Helper()
	creds := new(cloudtest.Credentials)
	p, err := ebtest.NewPlane(creds, nil, options().Describe(place))
	if err != nil {
		t.Fatal(err)
	}
	return p, creds
}

func optionsOf(p *ebtest.Plane, c cloudtest.Credential) aliyun.Options {
	return aliyun.Options{Transport: p.Transport(), Credentials: func(context.Context) (aliyun.Credentials, error) {
		return aliyun.Credentials{AccessKeyID: c.AccessKeyID, AccessKeySecret: c.AccessKeySecret, SecurityToken: c.SecurityToken}, nil
	}}
}

func clients(t *testing.T, p *ebtest.Plane, c cloudtest.Credential) (*aliyun.EventBridge, *aliyun.MNS) {
	t.Helper()
	eb, err := aliyun.NewEventBridge("http://eb.local", optionsOf(p, c))
	if err != nil {
		t.Fatal(err)
	}
	mns, err := aliyun.NewMNS("http://mns.local", optionsOf(p, c))
	if err != nil {
		t.Fatal(err)
	}
	return eb, mns
}

func TestAControlPlaneShowsTheBusAsItRuns(t *testing.T) {
	p, creds := newPlane(t)
	p.PageSize = 1
	eb, mns := clients(t, p, creds.Issue(time.Time{}))
	buses, err := eb.Buses(t.Context())
	if err != nil || !cmp.Equal(buses, []string{"prod"}) {
		t.Errorf("%v %v", buses, err)
	}
	rules, err := eb.Rules(t.Context(), "prod")
	if err != nil {
		t.Fatal(err)
	}
	of := func(id, retry, tolerance, queue string) aliyun.RuleTarget {
		return aliyun.RuleTarget{
			ID: id, Type: "acs.fc.function", Function: "tasks", Qualifier: "live", Form: "ORIGINAL", Retry: retry, Tolerance: tolerance, DeadLetterQueue: queue,
		}
	}
	queue := fmt.Sprintf("acs:mns:%s:%s:/queues/letters", cloudtest.Region, cloudtest.AccountID)
	want := []aliyun.Rule{
		{Bus: "prod", Name: "main", Pattern: `{"source":["a"]}`, Enabled: true, Targets: []aliyun.RuleTarget{of("target", "EXPONENTIAL_DECAY_RETRY", "ALL", queue)}},
		{Bus: "prod", Name: "many", Pattern: `{}`, Enabled: true, Targets: []aliyun.RuleTarget{of("x", "BACKOFF_RETRY", "ALL", ""), of("y", "BACKOFF_RETRY", "NONE", "")}},
	}
	if diff := cmp.Diff(want, rules); diff != "" {
		t.Error(diff)
	}
	streams, err := eb.Streams(t.Context())
	stream := aliyun.Stream{
		Name: "in", Status: "RUNNING", Queue: "letters", Function: "intake", Qualifier: "live", Tolerance: "NONE", Retry: "EXPONENTIAL_DECAY_RETRY",
		Batch: 10, Window: 2 * time.Second,
	}
	if diff := cmp.Diff([]aliyun.Stream{stream}, streams); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	q, err := mns.Queue(t.Context(), "letters")
	if err != nil || q != (aliyun.Queue{Name: "letters", Retention: 7 * 24 * time.Hour, MaxMessage: ebtest.MaxQueueMessage}) {
		t.Errorf("%+v %v", q, err)
	}
}

func TestWhatIsNotThereIsNotFound(t *testing.T) {
	p, creds := newPlane(t)
	eb, mns := clients(t, p, creds.Issue(time.Time{}))
	if _, err := eb.Rules(t.Context(), "nowhere"); aliyun.KindOf(err) != aliyun.KindNotFound {
		t.Errorf("%v", err)
	}
	if _, err := mns.Queue(t.Context(), "nowhere"); aliyun.KindOf(err) != aliyun.KindNotFound {
		t.Errorf("%v", err)
	}
}

func TestEachCallNeedsItsRightOnItsResource(t *testing.T) {
	p, creds := newPlane(t)
	root := "acs:eventbridge:" + cloudtest.Region + ":" + cloudtest.AccountID + ":"
	for _, tt := range []struct {
		action, resource string
		call             func(*aliyun.EventBridge, *aliyun.MNS) error
	}{
		{"eventbridge:ListEventBuses", root + "eventbus/*", func(eb *aliyun.EventBridge, _ *aliyun.MNS) error { _, err := eb.Buses(t.Context()); return err }},
		{"eventbridge:List* and GetRule", root + "eventbus/prod*", func(eb *aliyun.EventBridge, _ *aliyun.MNS) error { _, err := eb.Rules(t.Context(), "prod"); return err }},
		{"eventbridge:ListEventStreamings", "*", func(eb *aliyun.EventBridge, _ *aliyun.MNS) error { _, err := eb.Streams(t.Context()); return err }},
		{
			"mns:GetQueueAttributes", "acs:mns:" + cloudtest.Region + ":" + cloudtest.AccountID + ":/queues/letters",
			func(_ *aliyun.EventBridge, mns *aliyun.MNS) error {
				_, err := mns.Queue(t.Context(), "letters")
				return err
			},
		},
	} {
		doc := fmt.Sprintf(`{"Version":"1","Statement":[{"Effect":"Allow","Action":%s,"Resource":%q}]}`,
			map[bool]string{true: `["eventbridge:ListRules","eventbridge:GetRule"]`, false: `"` + tt.action + `"`}[strings.Contains(tt.action, " ")], tt.resource)
		for name, doc := range map[string]string{"with": doc, "without": strings.ReplaceAll(strings.ReplaceAll(doc, "List", "Create"), "Get", "Create")} {
			policy, err := cloudtest.ParsePolicy([]byte(doc))
			if err != nil {
				t.Fatal(err)
			}
			err = tt.call(clients(t, p, creds.IssueTo(cloudtest.RAMUser("amy", policy), time.Time{})))
			if denied := aliyun.KindOf(err) == aliyun.KindDenied; denied != (name == "without") || (err != nil) != denied {
				t.Errorf("%s %s: %v", name, tt.action, err)
			}
		}
	}
}

func TestAListWithoutAResourceIsNotAllowedByOne(t *testing.T) {
	p, creds := newPlane(t)
	policy, err := cloudtest.ParsePolicy([]byte(`{"Version":"1","Statement":[{"Effect":"Allow","Action":"eventbridge:*","Resource":"acs:eventbridge:*:*:*"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	eb, _ := clients(t, p, creds.IssueTo(cloudtest.RAMUser("amy", policy), time.Time{}))
	if _, err := eb.Streams(t.Context()); aliyun.KindOf(err) != aliyun.KindDenied {
		t.Errorf("%v", err)
	}
	if _, err := eb.Buses(t.Context()); err != nil {
		t.Errorf("%v", err)
	}
}

func TestAControlPlaneTakesOnlySignedCallsItKnows(t *testing.T) {
	p, creds := newPlane(t)
	good := creds.Issue(time.Time{})
	bad := good
	bad.AccessKeySecret = "another"
	eb, _ := clients(t, p, bad)
	if _, err := eb.Buses(t.Context()); aliyun.KindOf(err) != aliyun.KindDenied {
		t.Errorf("%v", err)
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://eb.local/", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := p.Transport().RoundTrip(req)
	if err != nil || resp.StatusCode != http.StatusBadRequest {
		t.Errorf("%v %v", resp, err)
	}
	resp.Body.Close()
	// A call of the other service, and of none.
	o := optionsOf(p, good)
	sts, err := aliyun.NewSTS("http://eb.local", o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sts.CallerIdentity(t.Context()); aliyun.KindOf(err) != aliyun.KindNotFound {
		t.Errorf("%v", err)
	}
	p.Faults.Add(cloudtest.Fault{Op: "GetRule", Target: "prod/many", Kind: cloudtest.Status, Status: 429, Code: "Throttling.User"})
	eb, _ = clients(t, p, good)
	if _, err := eb.Rules(t.Context(), "prod"); aliyun.KindOf(err) != aliyun.KindThrottled {
		t.Errorf("%v", err)
	}
}

func TestPatternsMatchAsTheBusMatchesThem(t *testing.T) {
	for pattern, want := range map[string]bool{`{}`: true, `{"source":["app.test"]}`: true, `{"source":["x"]}`: false, `{"type":[{"prefix":"app:"}]}`: true} {
		if got, err := ebtest.PatternMatches(json.RawMessage(pattern), event("1")); err != nil || got != want {
			t.Errorf("%s: %v %v", pattern, got, err)
		}
	}
	if _, err := ebtest.PatternMatches(json.RawMessage(`{"source":[{"resembles":"x"}]}`), event("1")); err == nil {
		t.Error("an operator that nobody knows is taken")
	}
	if _, err := ebtest.PatternMatches(json.RawMessage(`{}`), []byte(`{}`)); err == nil {
		t.Error("what is no event is taken")
	}
}
