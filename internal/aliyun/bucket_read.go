package aliyun

import (
	"context"
	"slices"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"
)

// BucketSettings are how a bucket is set up.
type BucketSettings struct {
	Location   string
	Elsewhere  bool   // the endpoint names another region
	ACL        string // private, public-read or public-read-write
	Versioning string // Enabled, Suspended, or "" where it never was
	Encryption string // of objects that ask for none: AES256, KMS, or "" for none
}

// Settings reads how the bucket is set up.
func (b *Bucket) Settings(ctx context.Context) (BucketSettings, error) {
	var s BucketSettings
	err := b.call(ctx, "GetBucketInfo", func(c *oss.Client, _ *oss.Bucket) error {
		info, err := c.GetBucketInfo(b.name, oss.WithContext(ctx))
		if err != nil {
			return err
		}
		i := info.BucketInfo
		s = BucketSettings{Location: safeToken(i.Location), ACL: safeToken(i.ACL), Versioning: safeToken(i.Versioning), Encryption: safeToken(i.SseRule.SSEAlgorithm)}
		return nil
	})
	if s.Encryption == "None" {
		s.Encryption = ""
	}
	m := regionOf.FindStringSubmatch(b.endpoint)
	s.Elsewhere = m != nil && m[1] != s.Location
	return s, err
}

// MissingExpiry are the ids of those rules that the bucket does not have just as
// they are, whatever they are called there.
func (b *Bucket) MissingExpiry(ctx context.Context, rules []ExpiryRule) ([]string, error) {
	var current []oss.LifecycleRule
	err := b.call(ctx, "GetBucketLifecycle", func(c *oss.Client, _ *oss.Bucket) error {
		got, err := c.GetBucketLifecycle(b.name, oss.WithContext(ctx))
		if err != nil && ossError("GetBucketLifecycle", err).(*Error).Code != "NoSuchLifecycle" {
			return err
		}
		current = got.Rules
		return nil
	})
	if err != nil {
		return nil, err
	}
	var missing []string
	for _, r := range rules {
		want := r.rule()
		if !slices.ContainsFunc(current, func(have oss.LifecycleRule) bool {
			have.ID = want.ID
			return sameRule(have, want)
		}) {
			missing = append(missing, r.ID)
		}
	}
	return missing, nil
}
