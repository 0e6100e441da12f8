package osstest

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	maxRules   = 1000
	maxRuleID  = 255
	sameAction = "X-Oss-Allow-Same-Action-Overlap"
)

// other catches the elements that a document should not have.
type other struct{ XMLName xml.Name }

type lifecycle struct {
	XMLName xml.Name        `xml:"LifecycleConfiguration"`
	Rules   []lifecycleRule `xml:"Rule"`
	Others  []other         `xml:",any"`
}

type lifecycleRule struct {
	ID         string `xml:"ID"`
	Prefix     string `xml:"Prefix"`
	Status     string `xml:"Status"`
	Tags       []tag  `xml:"Tag"`
	Expiration *struct {
		lifecycleDays
		DeleteMarker string  `xml:"ExpiredObjectDeleteMarker,omitempty"`
		Others       []other `xml:",any"`
	} `xml:"Expiration"`
	Noncurrent *struct {
		Days   int     `xml:"NoncurrentDays"`
		Others []other `xml:",any"`
	} `xml:"NoncurrentVersionExpiration"`
	Abort *struct {
		lifecycleDays
		Others []other `xml:",any"`
	} `xml:"AbortMultipartUpload"`
	Others []other `xml:",any"`
}

// lifecycleDays says when: so long after the last change, or if it is older than a day.
type lifecycleDays struct {
	Days          int    `xml:"Days,omitempty"`
	CreatedBefore string `xml:"CreatedBeforeDate,omitempty"`
}

// given counts the ways in which a time is given, -1 where one is out of bounds.
func (d lifecycleDays) given() int {
	n := 0
	if d.CreatedBefore != "" {
		t, err := time.Parse(time.RFC3339, d.CreatedBefore)
		if err != nil || !t.Equal(t.UTC().Truncate(24*time.Hour)) {
			return -1
		}
		n++
	}
	switch {
	case d.Days < 0:
		return -1
	case d.Days > 0:
		n++
	}
	return n
}

func (e *engine) putBucketLifecycle(c *call, b *bucket) (reply, error) {
	var conf lifecycle
	if xml.Unmarshal(c.body, &conf) != nil || len(conf.Rules) == 0 || len(conf.Rules) > maxRules || len(conf.Others) > 0 {
		return reply{}, malformedXML()
	}
	allow := c.header(sameAction)
	if allow != "" && allow != "true" && allow != "false" {
		return reply{}, invalidArgument(sameAction + " must be true or false.")
	}
	ids := map[string]bool{}
	for i := range conf.Rules {
		r := &conf.Rules[i]
		if err := r.check(); err != nil {
			return reply{}, err
		}
		if r.ID == "" {
			r.ID = fmt.Sprintf("rule-%016x", e.store.next())
		}
		if ids[r.ID] {
			return reply{}, invalidArgument("Two rules have the same ID.")
		}
		ids[r.ID] = true
		for _, earlier := range conf.Rules[:i] {
			if action := r.overlap(earlier, allow == "true"); action != "" {
				return reply{}, refuse(http.StatusBadRequest, "InvalidRequest", "Overlap for same action type "+action)
			}
		}
	}
	set := b.settings
	set.Lifecycle = marshal(conf)
	return reply{}, e.store.commit(change{settings: &set})
}

func (r lifecycleRule) check() error {
	switch {
	case r.Status != enabled && r.Status != "Disabled", len(r.ID) > maxRuleID:
		return malformedXML()
	case len(r.Others) > 0:
		return notImplemented("the lifecycle element " + r.Others[0].XMLName.Local)
	case r.Expiration == nil && r.Noncurrent == nil && r.Abort == nil:
		return invalidArgument("A lifecycle rule needs an action.")
	case len(r.Tags) > 0 && r.Abort != nil:
		return invalidArgument("A rule with tags can't abort multipart uploads.")
	case r.Noncurrent != nil && (r.Noncurrent.Days < 1 || len(r.Noncurrent.Others) > 0),
		r.Abort != nil && (r.Abort.given() != 1 || len(r.Abort.Others) > 0):
		return malformedXML()
	}
	if x := r.Expiration; x != nil {
		marker := x.DeleteMarker == "true"
		ways := x.given()
		if marker && ways >= 0 {
			ways++
		}
		switch {
		case ways != 1, len(x.Others) > 0, x.DeleteMarker != "" && x.DeleteMarker != "true" && x.DeleteMarker != "false":
			return malformedXML()
		case marker && len(r.Tags) > 0:
			return invalidArgument("ExpiredObjectDeleteMarker can't be combined with tags.")
		}
	}
	return checkTags(r.Tags)
}

// overlap returns the action that two rules share over prefixes of which one
// holds the other, "" for none. The removal of markers counts as Expiration, and
// only the abortion of uploads can't be allowed to overlap. Whether tags keep
// rules apart is not documented, so here they don't.
func (r lifecycleRule) overlap(s lifecycleRule, allowed bool) string {
	if !strings.HasPrefix(r.Prefix, s.Prefix) && !strings.HasPrefix(s.Prefix, r.Prefix) {
		return ""
	}
	switch {
	case r.Abort != nil && s.Abort != nil:
		return "AbortMultipartUpload"
	case allowed:
		return ""
	case r.Expiration != nil && s.Expiration != nil:
		return "Expiration"
	case r.Noncurrent != nil && s.Noncurrent != nil:
		return "NoncurrentVersionExpiration"
	}
	return ""
}

func (e *engine) getBucketLifecycle(_ *call, b *bucket) (reply, error) {
	if b.Lifecycle == nil {
		return reply{}, refuse(http.StatusNotFound, "NoSuchLifecycle", "No Row found in Lifecycle Table.")
	}
	return reply{header: http.Header{"Content-Type": {"application/xml"}}, body: b.Lifecycle}, nil
}

func (e *engine) deleteBucketLifecycle(_ *call, b *bucket) (reply, error) {
	set := b.settings
	set.Lifecycle = nil
	return reply{status: http.StatusNoContent}, e.store.commit(change{settings: &set})
}
