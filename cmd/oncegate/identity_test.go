package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/deadletter"
	"github.com/oncegate/oncegate/idempotency/otstest"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
	"github.com/oncegate/oncegate/scripts/ram"
)

func newApp(env map[string]string) *app {
	return &app{out: io.Discard, err: io.Discard, getenv: func(name string) string { return env[name] }}
}

// wantExit holds an error against an exit code and texts.
func wantExit(t *testing.T, err error, code int, texts ...string) {
	t.Helper()
	var exit *exitError
	if !errors.As(err, &exit) || exit.code != code {
		t.Fatalf("got %v, want exit code %d", err, code)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q is not in %q", text, err)
		}
	}
}

func TestLocalIdentityIsTheOperatorUnlessARoleIsNamed(t *testing.T) {
	for set, want := range map[string]string{"": "oncegate-operator/local", "approver": "oncegate-approver/local", "replayer": "oncegate-replayer/local"} {
		a := newApp(map[string]string{localIdentityVariable: set})
		who, err := a.identity(t.Context())
		if err != nil || who.Name() != want || a.who != want || who.Type != "AssumedRoleUser" {
			t.Errorf("%q: got %+v, %v", set, who, err)
		}
	}
	_, err := newApp(map[string]string{localIdentityVariable: "admin"}).identity(t.Context())
	wantExit(t, err, exitRefused, `"admin" is no role`, "operator")
}

// cloudEnv is the environment of a command on a cloud whose STS is at an endpoint.
func cloudEnv(sts string, c cloudtest.Credential) map[string]string {
	return map[string]string{
		"ONCEGATE_TABLESTORE_ENDPOINT": "http://ots", "ONCEGATE_STS_ENDPOINT": sts, "ONCEGATE_FC_ENDPOINT": "http://127.0.0.1:1",
		"ALIBABA_CLOUD_ACCESS_KEY_ID": c.AccessKeyID, "ALIBABA_CLOUD_ACCESS_KEY_SECRET": c.AccessKeySecret, "ALIBABA_CLOUD_SECURITY_TOKEN": c.SecurityToken,
	}
}

func TestAChangeByAnIdentityThatNobodyCanTellIsRefusedAndAudited(t *testing.T) {
	creds := new(cloudtest.Credentials)
	sts, err := cloudtest.NewSTS(creds, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := sts.Start(); err != nil {
		t.Fatal(err)
	}
	defer sts.Close()
	ots, err := otstest.New(otstest.Options{Credentials: creds, Instance: localInstance})
	if err != nil {
		t.Fatal(err)
	}
	defer ots.Close()
	store, err := localTablestore(ots, creds, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := createTables(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	amy := creds.IssueTo(cloudtest.AssumedRole("oncegate-operator", "amy"), time.Time{})
	for i, c := range []struct {
		name  string
		env   map[string]string
		fault bool
		want  string // of the error; "" for none
	}{
		{"S50 a role of the cloud", cloudEnv(sts.Endpoint(), amy), false, ""},
		{"S50 a RAM user of the cloud", cloudEnv(sts.Endpoint(), creds.IssueTo(cloudtest.RAMUser("amy"), time.Time{})), false, ""},
		{"S50 a look-up that fails", cloudEnv(sts.Endpoint(), amy), true, "outcome_unknown"},
		{"S50 nobody answers", cloudEnv("http://127.0.0.1:1", amy), false, "NoConnection"},
		{"S50 a key that nobody knows", cloudEnv(sts.Endpoint(), cloudtest.Credential{AccessKeyID: "x", AccessKeySecret: "y"}), false, "InvalidAccessKeyId.NotFound"},
		{"S50 no key", cloudEnv(sts.Endpoint(), cloudtest.Credential{}), false, "ALIBABA_CLOUD_ACCESS_KEY_ID"},
		{"S50 the account itself", cloudEnv(sts.Endpoint(), creds.Issue(time.Time{})), false, "use a role"},
		{"S50 no such local role", map[string]string{localIdentityVariable: "boss"}, false, "is no role"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.fault {
				sts.Faults.Add(cloudtest.Fault{Phase: cloudtest.After, Kind: cloudtest.Drop})
			}
			before := len(ots.Rows(deadletter.AuditTable.Name))
			what := fmt.Sprintf("dlq approve p%d", i)
			who, err := newApp(c.env).changer(t.Context(), deadletter.NewAuditLog(store), what, now)
			rows := ots.Rows(deadletter.AuditTable.Name)
			if c.want == "" {
				if err != nil || !strings.HasSuffix(who.Name(), "amy") || len(rows) != before {
					t.Errorf("got %+v, %v, %d rows", who, err, len(rows)-before)
				}
				return
			}
			wantExit(t, err, exitRefused, "find out who you are", c.want)
			if who != (aliyun.Identity{}) || len(rows) != before+1 {
				t.Errorf("got %+v, %d rows", who, len(rows)-before)
			}
			id := deadletter.AuditID(deadletter.ActionRefused, what, utc(now))
			for _, r := range rows {
				if r.PrimaryKey[0].Value == id && r.Columns["action"] == "refused" && r.Columns["operator_or_rule"] == "unknown" {
					return
				}
			}
			t.Errorf("no audit row says so: %v", rows)
		})
	}
}

func TestARefusalWhoseAuditCannotBeWrittenIsARefusal(t *testing.T) {
	store, err := aliyun.NewTablestore("http://ots", localInstance, aliyun.Options{Credentials: fixed(aliyun.Credentials{AccessKeyID: "id", AccessKeySecret: "s"}), Transport: noNetwork{}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = newApp(map[string]string{localIdentityVariable: "boss"}).changer(t.Context(), deadletter.NewAuditLog(store), "dlq approve p", time.Now())
	wantExit(t, err, exitRefused, "is no role", "nor could the audit be written")
}

type noNetwork struct{}

func (noNetwork) RoundTrip(*http.Request) (*http.Response, error) { return nil, io.EOF }

func TestFunctionOfTheCloudIsReadFromTheEnvironment(t *testing.T) {
	env := cloudEnv("", cloudtest.Credential{AccessKeyID: "id", AccessKeySecret: "s"})
	client, name, err := newApp(env).cloudFunctions()
	if err != nil || client == nil || name != localFunctionName {
		t.Errorf("got %q, %v", name, err)
	}
	env["ONCEGATE_FUNCTION"] = "mine"
	if _, name, err := newApp(env).cloudFunctions(); err != nil || name != "mine" {
		t.Errorf("got %q, %v", name, err)
	}
	if _, _, err := newApp(nil).cloudFunctions(); err == nil || !strings.Contains(err.Error(), "ONCEGATE_FC_ENDPOINT") {
		t.Errorf("got %v", err)
	}
}

func TestOnlyRolesThatMayInvokeReachALocalFunction(t *testing.T) {
	s, err := startStack(stackOptions{
		stateDir: t.TempDir(), binary: functionBinary, timeScale: 1, instances: 1, timeout: time.Minute, modelTimeout: time.Second, keySecret: localKeySecret,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.setup(t.Context()); err != nil {
		t.Fatal(err)
	}
	for role, may := range map[string]bool{"operator": true, "replayer": true, "approver": false, "reviewer": false, "repairer": false, "deployer": false} {
		client, err := newApp(map[string]string{localIdentityVariable: role}).localFunctions(s)
		if err != nil {
			t.Fatal(err)
		}
		for _, qualifier := range []string{"live", "1"} {
			out, err := client.Invoke(t.Context(), localFunctionName, qualifier, []byte(`{"oncegate":"resolve","review":"x"}`))
			if may {
				if err != nil || len(out.Payload) == 0 || out.VersionID != "1" {
					t.Errorf("%s: %+v, %v", role, out, err)
				}
				continue
			}
			denied, ok := deniedError(err)
			if !ok {
				t.Fatalf("%s: %v", role, err)
			}
			wantExit(t, denied, exitRefused, "missing right: fc:InvokeFunction on acs:fc:*:*:functions/oncegate-tasks/"+qualifier, "these roles have it: replayer, operator")
		}
	}
}

func TestUpHasAnIdentityOfEveryRole(t *testing.T) {
	at := servedCloud(t, t.TempDir())
	as := func(k keyPair) *app {
		env := cloudEnv(at.STS.Endpoint, cloudtest.Credential{AccessKeyID: k.AccessKeyID, AccessKeySecret: k.AccessKeySecret, SecurityToken: k.SecurityToken})
		env["ONCEGATE_FC_ENDPOINT"], env["ONCEGATE_FUNCTION"] = at.FC.Endpoint, at.FC.Function
		return newApp(env)
	}
	if who, err := as(at.Tablestore.keyPair).identity(t.Context()); err != nil || who.User() != "local" {
		t.Errorf("got %+v, %v", who, err)
	}
	for _, role := range ram.Roles {
		a := as(at.Roles[string(role)])
		if who, err := a.identity(t.Context()); err != nil || who.Role() != role.RoleName() {
			t.Errorf("%s: got %+v, %v", role, who, err)
		}
		client, function, err := a.cloudFunctions()
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.Invoke(t.Context(), function, "live", []byte(`{"oncegate":"resolve","review":"x"}`))
		if may := role == ram.Operator || role == ram.Replayer; may != (err == nil) {
			t.Errorf("%s: %v", role, err)
		}
	}
}

func TestADeniedCallNamesTheMissingRight(t *testing.T) {
	for _, c := range []struct {
		call             aliyun.Error
		action, resource string
		roles            []string
	}{
		{
			aliyun.Error{Service: "tablestore", Op: "PutRow", Resource: "replay_approvals", Code: "OTSNoPermissionAccess"},
			"ots:PutRow", "acs:ots:*:*:instance/*/table/replay_approvals",
			[]string{"approver"},
		},
		{
			aliyun.Error{Service: "tablestore", Op: "DeleteRow", Resource: "task_records", Code: "OTSNoPermissionAccess"},
			"ots:DeleteRow", "acs:ots:*:*:instance/*/table/task_records",
			[]string{"cleaner"},
		},
		{
			aliyun.Error{Service: "oss", Op: "GetObject", Resource: "room/dead-letters/ab12/event.bin", Code: "AccessDenied"},
			"oss:GetObject and oss:GetObjectVersion", "acs:oss:*:*:room/dead-letters/*",
			[]string{"function", "repairer", "replayer", "operator"},
		},
		{
			aliyun.Error{Service: "oss", Op: "DeleteObject", Resource: "room/dead-letters/ab12/event.bin", Code: "AccessDenied"},
			"oss:DeleteObjectVersion", "acs:oss:*:*:room/dead-letters/*",
			[]string{"cleaner"},
		},
		{
			aliyun.Error{Service: "oss", Op: "CreateBucket", Resource: "room", Code: "AccessDenied"},
			"oss:ListBuckets, oss:PutBucket and oss:PutBucketVersioning", "acs:oss:*:*:room", nil,
		},
		{
			aliyun.Error{Service: "oss", Op: "PutBucketLifecycle", Resource: "room", Code: "AccessDenied"},
			"oss:PutBucketLifecycle", "acs:oss:*:*:room", nil,
		},
		{
			aliyun.Error{Service: "fc", Op: "InvokeFunction", Resource: "other/7", Code: "AccessDenied"},
			"fc:InvokeFunction", "acs:fc:*:*:functions/other/7",
			[]string{"replayer", "operator"},
		},
		{aliyun.Error{Service: "tablestore", Op: "GetRow", Resource: "reviews", Code: "OTSAuthFailed"}, "", "", nil},
		{aliyun.Error{Service: "oss", Op: "GetObject", Resource: "room/x", Code: "SecurityTokenExpired"}, "", "", nil},
		{aliyun.Error{Service: "sts", Op: "GetCallerIdentity", Code: "InvalidAccessKeyId.NotFound"}, "", "", nil},
	} {
		c.call.Kind = aliyun.KindDenied
		wrapped := fmt.Errorf("store approval: %w", &c.call)
		denied, ok := deniedError(wrapped)
		if !ok {
			t.Fatalf("%+v is not denied", c.call)
		}
		if action, resource := missingRight(&c.call); action != c.action || resource != c.resource {
			t.Errorf("%+v: %s on %s", c.call, action, resource)
		}
		if c.action == "" {
			wantExit(t, denied, exitRefused, "store approval", c.call.Service+" does not accept the credentials")
			continue
		}
		wantExit(t, denied, exitRefused, "store approval", "missing right: "+c.action+" on "+c.resource)
		if diff := cmp.Diff(c.roles, rolesWith(&c.call)); diff != "" {
			t.Errorf("%+v: %s", c.call, diff)
		}
	}
	for _, err := range []error{nil, errors.New("x"), &aliyun.Error{Service: "tablestore", Kind: aliyun.KindUnknown}} {
		if _, ok := deniedError(err); ok {
			t.Errorf("%v is denied", err)
		}
	}
}
