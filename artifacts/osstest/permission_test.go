package osstest

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

// allowing is an identity that may do these: "oss:GetObject room/a*".
func allowing(t *testing.T, rights ...string) *cloudtest.Identity {
	t.Helper()
	var statements []string
	for _, r := range rights {
		action, resource, _ := strings.Cut(r, " ")
		statements = append(statements, fmt.Sprintf(`{"Effect":"Allow","Action":%q,"Resource":"acs:oss:*:%s:%s"}`, action, cloudtest.AccountID, resource))
	}
	p, err := cloudtest.ParsePolicy([]byte(`{"Version":"1","Statement":[` + strings.Join(statements, ",") + `]}`))
	must(t, err)
	return cloudtest.AssumedRole("r", "amy", p)
}

// TestEachCallNeedsAllOfItsRights takes the rights of a call away one by one.
func TestEachCallNeedsAllOfItsRights(t *testing.T) {
	ignore := func(rc io.ReadCloser, err error) error {
		if err == nil {
			rc.Close()
		}
		return err
	}
	for name, c := range map[string]struct {
		rights []string
		call   func(c *oss.Client, b *oss.Bucket) error
	}{
		"put": {[]string{"oss:PutObject room/a"}, func(_ *oss.Client, b *oss.Bucket) error { return b.PutObject("a", strings.NewReader("x")) }},
		"put with a tag": {[]string{"oss:PutObject room/a", "oss:PutObjectTagging room/a"}, func(_ *oss.Client, b *oss.Bucket) error {
			return b.PutObject("a", strings.NewReader("x"), oss.SetTagging(oss.Tagging{Tags: []oss.Tag{{Key: "class", Value: "x"}}}))
		}},
		"get":       {[]string{"oss:GetObject room/old"}, func(_ *oss.Client, b *oss.Bucket) error { return ignore(b.GetObject("old")) }},
		"head":      {[]string{"oss:GetObject room/old"}, func(_ *oss.Client, b *oss.Bucket) error { _, err := b.GetObjectDetailedMeta("old"); return err }},
		"a version": {[]string{"oss:GetObjectVersion room/old"}, func(_ *oss.Client, b *oss.Bucket) error { return ignore(b.GetObject("old", oss.VersionId("null"))) }},
		"copy": {[]string{"oss:GetObject room/old", "oss:PutObject room/b"}, func(_ *oss.Client, b *oss.Bucket) error {
			_, err := b.CopyObject("old", "b")
			return err
		}},
		"delete": {[]string{"oss:DeleteObject room/x"}, func(_ *oss.Client, b *oss.Bucket) error { return b.DeleteObject("x") }},
		"delete several": {[]string{"oss:DeleteObject room/x", "oss:DeleteObject room/y"}, func(_ *oss.Client, b *oss.Bucket) error {
			_, err := b.DeleteObjects([]string{"x", "y"})
			return err
		}},
		"list":          {[]string{"oss:ListObjects room"}, func(_ *oss.Client, b *oss.Bucket) error { _, err := b.ListObjectsV2(); return err }},
		"list buckets":  {[]string{"oss:ListBuckets *"}, func(c *oss.Client, _ *oss.Bucket) error { _, err := c.ListBuckets(); return err }},
		"make a bucket": {[]string{"oss:PutBucket other"}, func(c *oss.Client, _ *oss.Bucket) error { return c.CreateBucket("other") }},
		"tag": {[]string{"oss:PutObjectTagging room/old"}, func(_ *oss.Client, b *oss.Bucket) error {
			return b.PutObjectTagging("old", oss.Tagging{Tags: []oss.Tag{{Key: "a", Value: "b"}}})
		}},
		"remove expiry":        {[]string{"oss:PutBucketLifecycle room"}, func(c *oss.Client, _ *oss.Bucket) error { return c.DeleteBucketLifecycle("room") }},
		"ask about the bucket": {[]string{"oss:GetBucketInfo room"}, func(c *oss.Client, _ *oss.Bucket) error { _, err := c.GetBucketInfo("room"); return err }},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, false)
			must(t, e.bucket.PutObject("old", strings.NewReader("x")))
			try := func(rights ...string) error {
				id := allowing(t, append([]string{"oss:GetBucketLocation none"}, rights...)...)
				client := e.clientOf(e.creds.IssueTo(id, time.Time{}))
				bucket, err := client.Bucket("room")
				must(t, err)
				return c.call(client, bucket)
			}
			for i := range c.rights {
				err := try(append(append([]string{}, c.rights[:i]...), c.rights[i+1:]...)...)
				var se oss.ServiceError
				if !errors.As(err, &se) || se.StatusCode != http.StatusForbidden || (se.Code != "AccessDenied" && name != "head") {
					t.Errorf("without %s: %v", c.rights[i], err)
				}
			}
			if err := try(c.rights...); err != nil {
				t.Errorf("with %v: %v", c.rights, err)
			}
		})
	}
}
