package fctest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// shown is a function that nobody invokes: it has no process.
func shown(version, qualifier string) *Function {
	return &Function{o: Options{
		FunctionName: "tasks", VersionID: version, Qualifier: qualifier, Env: []string{"A=b=c", "EMPTY="}, Timeout: 90 * time.Second, MemoryMB: 512,
	}}
}

func TestAFrontShowsHowAVersionIsDeployed(t *testing.T) {
	a := newAccount(t, FrontOptions{})
	a.Deploy(shown("10", "live"))
	a.Deploy(shown("9", "9"))
	a.Deploy(shown("LATEST", "LATEST"))
	c := a.client(t, a.creds.Issue(time.Time{}), nil)
	for _, qualifier := range []string{"live", "9", ""} {
		got, err := c.Config(t.Context(), "tasks", qualifier)
		want := aliyun.FunctionConfig{Name: "tasks", Timeout: 90 * time.Second, Env: map[string]string{"A": "b=c", "EMPTY": ""}}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: %v %s", qualifier, err, diff)
		}
	}
	versions, err := c.Versions(t.Context(), "tasks")
	if err != nil || !cmp.Equal(versions, []string{"9", "10"}) {
		t.Errorf("%v %v", versions, err)
	}
	for _, qualifier := range []string{"canary", "8"} {
		if _, err := c.Config(t.Context(), "tasks", qualifier); aliyun.KindOf(err) != aliyun.KindNotFound {
			t.Errorf("%s: %v", qualifier, err)
		}
	}
	if _, err := c.Versions(t.Context(), "nobody"); aliyun.KindOf(err) != aliyun.KindNotFound {
		t.Errorf("%v", err)
	}
	a.Redeploy("tasks", map[string]string{"A": "", "NEW": "1"}, time.Minute)
	got, err := c.Config(t.Context(), "tasks", "live")
	if err != nil || got.Timeout != time.Minute || !cmp.Equal(got.Env, map[string]string{"EMPTY": "", "NEW": "1"}) {
		t.Errorf("%+v %v", got, err)
	}
	a.Unalias("tasks", "live")
	if _, err := c.AliasVersion(t.Context(), "tasks", "live"); aliyun.KindOf(err) != aliyun.KindNotFound {
		t.Errorf("%v", err)
	}
}

func TestReadingAFunctionNeedsItsRight(t *testing.T) {
	a := newAccount(t, FrontOptions{})
	a.Deploy(shown("1", "live"))
	policy, err := cloudtest.ParsePolicy([]byte(`{"Version":"1","Statement":[{"Effect":"Allow","Action":"fc:InvokeFunction","Resource":"*"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	c := a.client(t, a.creds.IssueTo(cloudtest.RAMUser("amy", policy), time.Time{}), nil)
	if _, err := c.Config(t.Context(), "tasks", "live"); aliyun.KindOf(err) != aliyun.KindDenied {
		t.Errorf("%v", err)
	}
	if _, err := c.Versions(t.Context(), "tasks"); aliyun.KindOf(err) != aliyun.KindDenied {
		t.Errorf("%v", err)
	}
}
