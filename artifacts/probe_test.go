package artifacts

import (
	"context"
	"strings"
	"testing"

	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestABucketIsProbedByReadsAlone(t *testing.T) {
	for name, c := range map[string]struct {
		fault          cloudtest.Fault
		access, target string // "" for yes
	}{
		"lets us in":         {},
		"refuses to read":    {fault: cloudtest.Fault{Op: "GetObject", Kind: cloudtest.Status, Status: 403, Code: "AccessDenied", Times: -1}, access: "AccessDenied", target: "AccessDenied"},
		"refuses to tell":    {fault: cloudtest.Fault{Op: "GetBucketInfo", Kind: cloudtest.Status, Status: 403, Code: "AccessDenied", Times: -1}, target: "GetBucketInfo: HTTP 403 AccessDenied"},
		"is not there":       {fault: cloudtest.Fault{Op: "GetObject", Kind: cloudtest.Status, Status: 404, Code: "NoSuchBucket", Times: -1}, access: "NoSuchBucket", target: "NoSuchBucket"},
		"does not answer":    {fault: cloudtest.Fault{Op: "GetObject", Kind: cloudtest.Drop, Times: -1}, access: "no answer", target: "no answer"},
		"answers with a 500": {fault: cloudtest.Fault{Op: "GetObject", Kind: cloudtest.Status, Status: 500, Code: "InternalError", Times: -1}, access: "500", target: "500"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStand(t, "")
			if c.fault.Op != "" {
				s.srv.Faults.Add(c.fault)
			}
			for ask, want := range map[string]string{"access": c.access, "target": c.target} {
				ok, result, err := s.store.Probe(t.Context(), ask)
				if err != nil || ok != (want == "") || !strings.Contains(result, want) {
					t.Errorf("%s: %v %q %v", ask, ok, result, err)
				}
			}
			if len(s.srv.Objects("room")) != 0 {
				t.Error("something was written")
			}
		})
	}
	t.Run("stands in another region than its endpoint", func(t *testing.T) {
		s := newStand(t, "")
		bucket, err := aliyun.NewBucket("https://oss-cn-hangzhou-internal.aliyuncs.com", "room", aliyun.Options{
			Credentials: func(context.Context) (aliyun.Credentials, error) { return s.creds, nil }, Transport: s.srv.Transport(),
		})
		if err != nil {
			t.Fatal(err)
		}
		if ok, result, _ := NewStore(bucket, "").Probe(t.Context(), "target"); ok || !strings.Contains(result, "oss-local") {
			t.Errorf("%v %q", ok, result)
		}
	})
}
