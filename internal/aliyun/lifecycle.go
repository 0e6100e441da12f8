package aliyun

import (
	"context"
	"slices"
	"strings"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"
)

// ExpiryRule lets objects with a tag end, and their former versions.
type ExpiryRule struct {
	ID             string // begins with LifecyclePrefix
	Prefix         string // of object names
	TagKey         string // "" for a rule without a tag
	TagValue       string
	Days           int  // after which an object expires; 0 for never
	NoncurrentDays int  // after which a former version goes; 0 for never
	DeleteMarkers  bool // remove markers that hide nothing; not together with a tag
}

// LifecyclePrefix begins the ids of the rules that oncegate owns.
const LifecyclePrefix = "oncegate-"

// SetExpiry puts rules in place of oncegate's former ones and keeps all others.
// changed is false where they are there already. The service replaces the whole
// set at once, so a rule that somebody adds in the same moment may be lost.
func (b *Bucket) SetExpiry(ctx context.Context, rules []ExpiryRule) (changed bool, err error) {
	err = b.call(ctx, "PutBucketLifecycle", func(client *oss.Client, _ *oss.Bucket) error {
		var kept, own []oss.LifecycleRule
		current, err := client.GetBucketLifecycle(b.name, oss.WithContext(ctx))
		if err != nil && ossError("GetBucketLifecycle", err).(*Error).Code != "NoSuchLifecycle" {
			return err
		}
		for _, r := range current.Rules {
			if strings.HasPrefix(r.ID, LifecyclePrefix) {
				own = append(own, r)
			} else {
				kept = append(kept, r)
			}
		}
		wanted := make([]oss.LifecycleRule, len(rules))
		for i, r := range rules {
			wanted[i] = r.rule()
		}
		if slices.EqualFunc(own, wanted, sameRule) {
			return nil
		}
		changed = true
		// The rules for delete markers can have no tag, so they overlap the tagged ones.
		return client.SetBucketLifecycle(b.name, append(kept, wanted...), oss.WithContext(ctx), oss.AllowSameActionOverLap(true))
	})
	return changed && err == nil, err
}

func (r ExpiryRule) rule() oss.LifecycleRule {
	out := oss.LifecycleRule{ID: r.ID, Prefix: r.Prefix, Status: "Enabled"}
	if r.TagKey != "" {
		out.Tags = []oss.Tag{{Key: r.TagKey, Value: r.TagValue}}
	}
	if r.Days > 0 {
		out.Expiration = &oss.LifecycleExpiration{Days: r.Days}
	}
	if r.DeleteMarkers {
		out.Expiration = &oss.LifecycleExpiration{ExpiredObjectDeleteMarker: &r.DeleteMarkers}
	}
	if r.NoncurrentDays > 0 {
		out.NonVersionExpiration = &oss.LifecycleVersionExpiration{NoncurrentDays: r.NoncurrentDays}
	}
	return out
}

func sameRule(a, b oss.LifecycleRule) bool {
	days := func(r oss.LifecycleRule) (current, former int, markers bool) {
		if r.Expiration != nil {
			current = r.Expiration.Days
			markers = r.Expiration.ExpiredObjectDeleteMarker != nil && *r.Expiration.ExpiredObjectDeleteMarker
		}
		if r.NonVersionExpiration != nil {
			former = r.NonVersionExpiration.NoncurrentDays
		}
		return current, former, markers
	}
	ac, af, am := days(a)
	bc, bf, bm := days(b)
	sameTags := slices.EqualFunc(a.Tags, b.Tags, func(x, y oss.Tag) bool { return x.Key == y.Key && x.Value == y.Value })
	return a.ID == b.ID && a.Prefix == b.Prefix && a.Status == b.Status && sameTags && ac == bc && af == bf && am == bm
}
