package osstest

import (
	"strings"
	"testing"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"
)

func TestLifecycle(t *testing.T) {
	yes, no := true, false
	tagged := []oss.Tag{{Key: "class", Value: "input"}, {Key: "kind", Value: "a"}}
	days := func(n int) *oss.LifecycleExpiration { return &oss.LifecycleExpiration{Days: n} }
	abort := &oss.LifecycleAbortMultipartUpload{Days: 3}
	overlap := oss.AllowSameActionOverLap(true)
	each(t, map[string]func(*testing.T, *env){
		"rules are kept, replaced as a whole and removed": func(t *testing.T, e *env) {
			c := e.client()
			_, err := c.GetBucketLifecycle("room")
			want(t, verdict(err), "404 NoSuchLifecycle")
			must(t, c.SetBucketLifecycle("room", []oss.LifecycleRule{
				{
					ID: "input", Prefix: "tasks/", Status: "Enabled", Tags: tagged, Expiration: days(30),
					NonVersionExpiration: &oss.LifecycleVersionExpiration{NoncurrentDays: 7},
				},
				{ID: "markers", Status: "Enabled", Expiration: &oss.LifecycleExpiration{ExpiredObjectDeleteMarker: &yes}, AbortMultipartUpload: abort},
				{ID: "old", Prefix: "old/", Status: "Disabled", Expiration: &oss.LifecycleExpiration{CreatedBeforeDate: "2026-01-01T00:00:00.000Z", ExpiredObjectDeleteMarker: &no}},
			}, overlap))
			l, err := c.GetBucketLifecycle("room")
			must(t, err)
			want(t, len(l.Rules), 3)
			want(t, l.Rules[0].Tags[1].Value, "a")
			want(t, l.Rules[0].Expiration.Days, 30)
			want(t, l.Rules[0].NonVersionExpiration.NoncurrentDays, 7)
			want(t, l.Rules[0].AbortMultipartUpload == nil, true)
			want(t, *l.Rules[1].Expiration.ExpiredObjectDeleteMarker, true)
			want(t, l.Rules[1].AbortMultipartUpload.Days, 3)
			want(t, l.Rules[2].Status, "Disabled")
			want(t, l.Rules[2].Expiration.CreatedBeforeDate, "2026-01-01T00:00:00.000Z")
			must(t, c.SetBucketLifecycle("room", []oss.LifecycleRule{{ID: "only", Status: "Enabled", AbortMultipartUpload: &oss.LifecycleAbortMultipartUpload{CreatedBeforeDate: "2026-01-01T00:00:00.000Z"}}}))
			l, err = c.GetBucketLifecycle("room")
			must(t, err)
			want(t, len(l.Rules), 1)
			want(t, l.Rules[0].AbortMultipartUpload.CreatedBeforeDate, "2026-01-01T00:00:00.000Z")
			must(t, c.DeleteBucketLifecycle("room"))
			_, err = c.GetBucketLifecycle("room")
			want(t, verdict(err), "404 NoSuchLifecycle")
		},
		"a rule without an id gets one of its own": func(t *testing.T, e *env) {
			c := e.client()
			must(t, c.SetBucketLifecycle("room", []oss.LifecycleRule{
				{Prefix: "a/", Status: "Enabled", Expiration: days(1)}, {Prefix: "b/", Status: "Enabled", Expiration: days(1)},
			}))
			l, err := c.GetBucketLifecycle("room")
			must(t, err)
			want(t, l.Rules[0].ID != "" && l.Rules[1].ID != "" && l.Rules[0].ID != l.Rules[1].ID, true)
		},
		"what is no rule is refused": func(t *testing.T, e *env) {
			c := e.client()
			for want, rules := range map[string][]oss.LifecycleRule{
				"400 MalformedXML": {
					{Status: "Enabled", ID: strings.Repeat("x", 256), Expiration: days(1)},
					{Status: "Enabled", Expiration: days(-1)},
					{Status: "Enabled", Expiration: &oss.LifecycleExpiration{}},
					{Status: "Enabled", Expiration: &oss.LifecycleExpiration{Days: 1, CreatedBeforeDate: "2026-01-01T00:00:00.000Z"}},
					{Status: "Enabled", Expiration: &oss.LifecycleExpiration{Days: 1, ExpiredObjectDeleteMarker: &yes}},
					{Status: "Enabled", Expiration: &oss.LifecycleExpiration{CreatedBeforeDate: "2026-01-01T08:00:00.000Z"}},
					{Status: "Enabled", Expiration: &oss.LifecycleExpiration{ExpiredObjectDeleteMarker: &no}},
					{Status: "Enabled", Expiration: &oss.LifecycleExpiration{Date: "2026-01-01T00:00:00.000Z"}},
					{Status: "Enabled", NonVersionExpiration: &oss.LifecycleVersionExpiration{}},
				},
				"400 InvalidArgument": {
					{Status: "Enabled"},
					{Status: "Enabled", Tags: tagged, AbortMultipartUpload: abort},
					{Status: "Enabled", Tags: tagged, Expiration: &oss.LifecycleExpiration{ExpiredObjectDeleteMarker: &yes}},
				},
				"400 InvalidTag":     {{Status: "Enabled", Tags: []oss.Tag{tagged[0], tagged[0]}, Expiration: days(1)}},
				"501 NotImplemented": {{Status: "Enabled", Transitions: []oss.LifecycleTransition{{Days: 1, StorageClass: oss.StorageIA}}}},
			} {
				for _, rule := range rules {
					if got := verdict(c.SetBucketLifecycle("room", []oss.LifecycleRule{rule})); got != want {
						t.Errorf("%+v: got %s, want %s", rule, got, want)
					}
				}
			}
			for _, rule := range []string{ // what the SDK would not send
				"<Status>On</Status><Expiration><Days>1</Days></Expiration>",
				"<Status>Enabled</Status><AbortMultipartUpload/>",
				"<Status>Enabled</Status><AbortMultipartUpload><Days>1</Days><CreatedBeforeDate>2026-01-01T00:00:00.000Z</CreatedBeforeDate></AbortMultipartUpload>",
				"<Status>Enabled</Status><Expiration><Days>1</Days><ExpiredObjectDeleteMarker>TRUE</ExpiredObjectDeleteMarker></Expiration>",
			} {
				want(t, verdict(c.SetBucketLifecycleXml("room", "<LifecycleConfiguration><Rule>"+rule+"</Rule></LifecycleConfiguration>")), "400 MalformedXML")
			}
			twice := oss.LifecycleRule{ID: "same", Prefix: "a/", Status: "Enabled", Expiration: days(1)}
			other := twice
			other.Prefix = "b/"
			want(t, verdict(c.SetBucketLifecycle("room", []oss.LifecycleRule{twice, other})), "400 InvalidArgument")
			want(t, verdict(c.SetBucketLifecycle("room", []oss.LifecycleRule{twice}, oss.SetHeader("x-oss-allow-same-action-overlap", "yes"))), "400 InvalidArgument")
			_, err := c.GetBucketLifecycle("room")
			want(t, verdict(err), "404 NoSuchLifecycle")
		},
		"one action over overlapping prefixes must be allowed": func(t *testing.T, e *env) {
			whole := oss.LifecycleRule{ID: "whole", Status: "Enabled", Expiration: &oss.LifecycleExpiration{ExpiredObjectDeleteMarker: &yes}}
			part := oss.LifecycleRule{ID: "part", Prefix: "a/", Status: "Enabled", Expiration: days(1)}
			inner := oss.LifecycleRule{ID: "inner", Prefix: "a/b/", Status: "Enabled", Tags: tagged, NonVersionExpiration: &oss.LifecycleVersionExpiration{NoncurrentDays: 1}}
			old := oss.LifecycleRule{ID: "old", Prefix: "a/b", Status: "Enabled", NonVersionExpiration: &oss.LifecycleVersionExpiration{NoncurrentDays: 9}}
			beside := oss.LifecycleRule{ID: "beside", Prefix: "b/", Status: "Enabled", Expiration: days(1)}
			parts := oss.LifecycleRule{ID: "parts", Prefix: "a/", Status: "Enabled", AbortMultipartUpload: abort}
			all := oss.LifecycleRule{ID: "all", Status: "Enabled", AbortMultipartUpload: abort}
			c := e.client()
			for _, tt := range []struct {
				a, b          oss.LifecycleRule
				plain, opened string
			}{
				{whole, part, "400 InvalidRequest", "ok"},
				{part, whole, "400 InvalidRequest", "ok"},
				{inner, old, "400 InvalidRequest", "ok"},
				{parts, all, "400 InvalidRequest", "400 InvalidRequest"},
				{part, inner, "ok", "ok"},
				{part, beside, "ok", "ok"},
			} {
				rules := []oss.LifecycleRule{tt.a, tt.b}
				if got := verdict(c.SetBucketLifecycle("room", rules)); got != tt.plain {
					t.Errorf("%s and %s: got %s, want %s", tt.a.ID, tt.b.ID, got, tt.plain)
				}
				if got := verdict(c.SetBucketLifecycle("room", rules, overlap)); got != tt.opened {
					t.Errorf("%s and %s, allowed: got %s, want %s", tt.a.ID, tt.b.ID, got, tt.opened)
				}
			}
		},
	})
}
