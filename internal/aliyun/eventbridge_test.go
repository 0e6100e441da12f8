package aliyun

import (
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// control answers each operation with the next of its bodies, and keeps what was asked.
type control struct {
	t       *testing.T
	answers map[string][]string
	asked   []string // operation, version, query and form of each call
}

func (c *control) RoundTrip(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	op := r.Header.Get("x-acs-action")
	if r.Method != http.MethodPost || r.URL.Path != "/" || r.Header.Get("Authorization") == "" || r.Header.Get("Accept") != "application/json" {
		c.t.Errorf("%s %s %v", r.Method, r.URL, r.Header)
	}
	if (len(body) > 0) != (r.Header.Get("Content-Type") == "application/x-www-form-urlencoded") {
		c.t.Errorf("%s: a body of %d bytes with Content-Type %q", op, len(body), r.Header.Get("Content-Type"))
	}
	c.asked = append(c.asked, op+" "+r.Header.Get("x-acs-version")+" ?"+r.URL.RawQuery+" "+string(body))
	next := c.answers[op]
	if len(next) == 0 {
		c.t.Fatalf("%s is asked once too often", op)
	}
	c.answers[op] = next[1:]
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(next[0]))}, nil
}

func newControl(t *testing.T, answers map[string][]string) (*control, *EventBridge, *MNS) {
	t.Helper()
	c := &control{t: t, answers: answers}
	o := Options{Credentials: someone, Transport: c}
	eb, err := NewEventBridge("https://eventbridge-console.cn-hangzhou.aliyuncs.com", o)
	if err != nil {
		t.Fatal(err)
	}
	mns, err := NewMNS("https://mns-open.cn-hangzhou.aliyuncs.com/", o)
	if err != nil {
		t.Fatal(err)
	}
	return c, eb, mns
}

func TestRulesAreReadPageByPageWithTheirTargets(t *testing.T) {
	c, eb, _ := newControl(t, map[string][]string{
		"ListRules": {
			`{"Code":"Success","Success":true,"Data":{"NextToken":"2","Total":2,"Rules":[{"RuleName":"main","EventBusName":"prod","Status":"ENABLE","Targets":[{"Id":"1"}]}]}}`,
			`{"Code":"Success","Success":true,"Data":{"Total":2,"Rules":[{"RuleName":"old","EventBusName":"prod","Status":"DISABLE"}]}}`,
		},
		"GetRule": {
			`{"Code":"Success","Message":"Operation success","RequestId":"2BC1857D","Success":true,"Data":{"CreatedTimestamp":1607071602000,"EventBusName":"prod",
			  "FilterPattern":"{\"source\":[\"acs.oss\"]}","RuleARN":"acs:eventbridge:cn-hangzhou:1:eventbus/prod/rule/main","RuleName":"main","Status":"ENABLE","Targets":[
			   {"Id":"t1","Type":"acs.fc.function","Endpoint":"acs:fc:cn-hangzhou:1:functions/tasks","PushRetryStrategy":"EXPONENTIAL_DECAY_RETRY","ErrorsTolerance":"ALL",
			    "DeadLetterQueue":{"Arn":"acs:mns:cn-hangzhou:1:/queues/letters"},"ParamList":[
			     {"ResourceKey":"functionName","Form":"CONSTANT","Value":"tasks"},{"ResourceKey":"Qualifier","Form":"CONSTANT","Value":"live"},
			     {"ResourceKey":"Body","Form":"ORIGINAL"},{"ResourceKey":"InvocationType","Form":"CONSTANT","Value":"Sync"}]},
			   {"Id":"t2","Type":"acs.fc.function","Endpoint":"acs:fc:cn-hangzhou:1:services/s.canary/functions/f","ParamList":[{"ResourceKey":"Body","Form":"JSONPATH","Value":"$.data"},
			    {"ResourceKey":"InvocationType","Form":"CONSTANT","Value":"Async"}]},
			   {"Id":"t3","Type":"acs.mns.queue","Endpoint":"acs:mns:cn-hangzhou:1:queues/q"}]}}`,
			`{"Success":true,"Data":{"RuleName":"old","Status":"DISABLE","FilterPattern":"{}"}}`,
		},
	})
	rules, err := eb.Rules(t.Context(), "prod")
	if err != nil {
		t.Fatal(err)
	}
	want := []Rule{
		{Bus: "prod", Name: "main", Pattern: `{"source":["acs.oss"]}`, Enabled: true, Targets: []RuleTarget{
			{ID: "t1", Type: "acs.fc.function", Function: "tasks", Qualifier: "live", Form: "ORIGINAL", Retry: "EXPONENTIAL_DECAY_RETRY", Tolerance: "ALL", DeadLetterQueue: "acs:mns:cn-hangzhou:1:/queues/letters"},
			{ID: "t2", Type: "acs.fc.function", Function: "f", Qualifier: "canary", Form: "JSONPATH", Async: true},
			{ID: "t3", Type: "acs.mns.queue"},
		}},
		{Bus: "prod", Name: "old", Pattern: "{}"},
	}
	if diff := cmp.Diff(want, rules); diff != "" {
		t.Error(diff)
	}
	asked := []string{
		"ListRules 2020-04-01 ?EventBusName=prod&Limit=100 ", "ListRules 2020-04-01 ?EventBusName=prod&Limit=100&NextToken=2 ",
		"GetRule 2020-04-01 ?EventBusName=prod&RuleName=main ", "GetRule 2020-04-01 ?EventBusName=prod&RuleName=old ",
	}
	if diff := cmp.Diff(asked, c.asked); diff != "" {
		t.Error(diff)
	}
}

func TestStreamsAreReadWithAForm(t *testing.T) {
	c, eb, _ := newControl(t, map[string][]string{"ListEventStreamings": {
		`{"Code":"Success","Success":true,"Data":{"NextToken":"","EventStreamings":[
		  {"EventStreamingName":"in","Status":"RUNNING","Source":{"SourceMNSParameters":{"RegionId":"cn-hangzhou","QueueName":"letters","IsBase64Decode":true}},
		   "Sink":{"SinkFcParameters":{"FunctionName":{"Form":"CONSTANT","Value":"intake"},"Qualifier":{"Value":"live"},"Body":{"Form":"ORIGINAL"}}},
		   "RunOptions":{"ErrorsTolerance":"NONE","RetryStrategy":{"PushRetryStrategy":"EXPONENTIAL_DECAY_RETRY","MaximumEventAgeInSeconds":0.5},"BatchWindow":{"CountBasedWindow":10,"TimeBasedWindow":5}}},
		  {"EventStreamingName":"other","Status":"PAUSED","Source":{"SourceKafkaParameters":{}},"Sink":{"SinkMNSParameters":{}}}]}}`,
	}})
	streams, err := eb.Streams(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := []Stream{
		{Name: "in", Status: "RUNNING", Queue: "letters", Function: "intake", Qualifier: "live", Tolerance: "NONE", Retry: "EXPONENTIAL_DECAY_RETRY", Batch: 10, Window: 5 * time.Second},
		{Name: "other", Status: "PAUSED", Batch: 1},
	}
	if diff := cmp.Diff(want, streams); diff != "" {
		t.Error(diff)
	}
	if c.asked[0] != "ListEventStreamings 2020-04-01 ? Limit=100" {
		t.Errorf("asked %q", c.asked)
	}
}

func TestAQueueIsReadWithItsLimits(t *testing.T) {
	c, _, mns := newControl(t, map[string][]string{"GetQueueAttributes": {
		`{"Code":200,"Status":"Success","Success":true,"Data":{"QueueName":"letters","MessageRetentionPeriod":604800,"MaximumMessageSize":65536,"ActiveMessages":3}}`,
		`{"Code":404,"Status":"QueueNotExist","Success":false,"Message":"secret","RequestId":"R1"}`,
	}})
	q, err := mns.Queue(t.Context(), "letters")
	if err != nil || q != (Queue{"letters", 7 * 24 * time.Hour, 65536, 3}) {
		t.Errorf("%+v %v", q, err)
	}
	if c.asked[0] != "GetQueueAttributes 2022-01-19 ?QueueName=letters " {
		t.Errorf("asked %q", c.asked)
	}
	_, err = mns.Queue(t.Context(), "gone")
	var refused *Error
	if !errors.As(err, &refused) || refused.Kind != KindNotFound || refused.Resource != "gone" || refused.RequestID != "R1" || strings.Contains(err.Error(), "secret") {
		t.Errorf("%v", err)
	}
}

func TestA200ThatSaysNoIsAnError(t *testing.T) {
	for body, want := range map[string]Kind{
		`{"Success":false,"Code":"EventBusNotExist"}`:    KindNotFound,
		`{"Success":false,"Code":"EventRuleNotExisted"}`: KindNotFound,
		`{"Success":false,"Code":"NoPermission"}`:        KindDenied,
		`{"Success":false,"Code":"Throttling.User"}`:     KindThrottled,
		`{"Success":false,"Code":"InvalidArgument"}`:     KindInvalid,
		`{"Success":false}`:                              KindUnknown,
		`{"Success":true}`:                               KindUnknown,
		`{"Success":true,"Data":null}`:                   KindUnknown,
		`{"Success":true,"Data":[]}`:                     KindUnknown,
		`no JSON`:                                        KindUnknown,
		``:                                               KindUnknown,
	} {
		_, eb, _ := newControl(t, map[string][]string{"ListEventBuses": {body}})
		names, err := eb.Buses(t.Context())
		if err == nil || KindOf(err) != want || names != nil {
			t.Errorf("%s: %v %v, want %s", body, names, err, want)
		}
	}
}

func TestAListWithoutEndIsAnError(t *testing.T) {
	pages := make([]string, maxPages)
	for i := range pages {
		pages[i] = `{"Success":true,"Data":{"NextToken":"again","EventBuses":[{"EventBusName":"b"}]}}`
	}
	_, eb, _ := newControl(t, map[string][]string{"ListEventBuses": pages})
	if _, err := eb.Buses(t.Context()); !errors.Is(err, errPages) {
		t.Errorf("%v", err)
	}
}

func TestFunctionsAndQueuesAreToldFromTheirARN(t *testing.T) {
	for arn, want := range map[string][2]string{
		"acs:fc:cn-hangzhou:1:functions/f":                   {"f", ""},
		"acs:fc:cn-hangzhou:1:functions/f/live":              {"f", "live"},
		"acs:fc:cn-hangzhou:1:services/s.LATEST/functions/f": {"f", "LATEST"},
		"acs:fc:cn-hangzhou:1:services/s/functions/f":        {"f", ""},
		"acs:fc:cn-hangzhou:1:triggers/f":                    {"", ""},
		"acs:mns:cn-hangzhou:1:queues/f":                     {"", ""},
		"https://example":                                    {"", ""},
		"":                                                   {"", ""},
	} {
		if f, q := functionOf(arn); f != want[0] || q != want[1] {
			t.Errorf("%s: %s %s", arn, f, q)
		}
	}
	for arn, want := range map[string]string{
		"acs:mns:cn-hangzhou:1:/queues/q": "q", "acs:mns:cn-hangzhou:1:queues/q": "q", "acs:mns:cn-hangzhou:1:/queues/q/messages": "",
		"acs:mns:cn-hangzhou:1:/topics/q": "", "acs:mq:cn-hangzhou:1:/queues/q": "", "": "",
	} {
		if got := QueueOf(arn); got != want {
			t.Errorf("%s: %q", arn, got)
		}
	}
}

func TestAFunctionsConfigurationIsReadAtAQualifier(t *testing.T) {
	var asked []string
	f := functions(t, "https://1.cn-hangzhou.fc.aliyuncs.com", roundTrip(func(r *http.Request) (*http.Response, error) {
		asked = append(asked, r.Method+" "+r.URL.RequestURI()+" "+r.Header.Get("x-acs-action"))
		body := `{"functionName":"tasks","timeout":120,"role":"acs:ram::1:role/r","runtime":"go1","environmentVariables":{"A":"b"},"logConfig":{"project":"p"}}`
		if strings.Contains(r.URL.Path, "/versions") {
			body = `{"versions":[{"versionId":"2","description":""}],"nextToken":"n","direction":"BACKWARD"}`
			if v, _ := url.ParseQuery(r.URL.RawQuery); v.Get("nextToken") != "" {
				body = `{"versions":[{"versionId":"1"}]}`
			}
		}
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body))}, nil
	}))
	c, err := f.Config(t.Context(), "tasks", "live")
	if diff := cmp.Diff(FunctionConfig{"tasks", 2 * time.Minute, "acs:ram::1:role/r", map[string]string{"A": "b"}}, c); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	versions, err := f.Versions(t.Context(), "tasks")
	if diff := cmp.Diff([]string{"2", "1"}, versions); diff != "" || err != nil {
		t.Errorf("%v %s", err, diff)
	}
	want := []string{
		"GET /2023-03-30/functions/tasks?qualifier=live GetFunction", "GET /2023-03-30/functions/tasks/versions?limit=100 ListFunctionVersions",
		"GET /2023-03-30/functions/tasks/versions?limit=100&nextToken=n ListFunctionVersions",
	}
	if diff := cmp.Diff(want, asked); diff != "" {
		t.Error(diff)
	}
}

func TestAConfigurationThatCannotBeReadIsNotRepeated(t *testing.T) {
	var calls int
	f := functions(t, "https://fc.local", answering(&calls, 200, nil, []byte(`{"timeout":"SECRET"}`)))
	if _, err := f.Config(t.Context(), "tasks", ""); err == nil || strings.Contains(err.Error(), "SECRET") || KindOf(err) != KindUnknown {
		t.Errorf("%v", err)
	}
}

func TestSettingsAndExpiryOfABucketAreRead(t *testing.T) {
	_, b := newOSS(t, nil)
	s, err := b.Settings(t.Context())
	if err != nil || s.ACL != "private" || s.Versioning != "Enabled" || s.Encryption != "" || s.Elsewhere {
		t.Errorf("%+v %v", s, err)
	}
	rules := []ExpiryRule{
		{ID: "oncegate-a", Prefix: "a/", TagKey: "class", TagValue: "input", Days: 3, NoncurrentDays: 4},
		{ID: "oncegate-b", Prefix: "b/", TagKey: "class", TagValue: "input", Days: 5},
	}
	if missing, err := b.MissingExpiry(t.Context(), rules); err != nil || !cmp.Equal(missing, []string{"oncegate-a", "oncegate-b"}) {
		t.Errorf("%v %v", missing, err)
	}
	if _, err := b.SetExpiry(t.Context(), rules[:1]); err != nil {
		t.Fatal(err)
	}
	called := rules[0]
	called.ID = "made by hand"
	if missing, err := b.MissingExpiry(t.Context(), []ExpiryRule{called, rules[1]}); err != nil || !cmp.Equal(missing, []string{"oncegate-b"}) {
		t.Errorf("%v %v", missing, err)
	}
	longer := rules[0]
	longer.Days = 4
	if missing, err := b.MissingExpiry(t.Context(), []ExpiryRule{longer}); err != nil || len(missing) != 1 {
		t.Errorf("%v %v", missing, err)
	}
	if _, err := b.Named("nobody-has-it").Settings(t.Context()); KindOf(err) != KindNotFound {
		t.Errorf("%v", err)
	}
}
