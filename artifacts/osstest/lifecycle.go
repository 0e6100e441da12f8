package osstest

import (
	"encoding/xml"
	"net/http"
	"strconv"
	"time"
)

const maxRules = 1000

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
		Days          int     `xml:"Days"`
		CreatedBefore string  `xml:"CreatedBeforeDate"`
		DeleteMarker  string  `xml:"ExpiredObjectDeleteMarker"`
		Others        []other `xml:",any"`
	} `xml:"Expiration"`
	Noncurrent *struct {
		Days   int     `xml:"NoncurrentDays"`
		Others []other `xml:",any"`
	} `xml:"NoncurrentVersionExpiration"`
	Abort *struct {
		Days int `xml:"Days"`
	} `xml:"AbortMultipartUpload"`
	Others []other `xml:",any"`
}

func (e *engine) putBucketLifecycle(c *call, b *bucket) (reply, error) {
	var conf lifecycle
	if xml.Unmarshal(c.body, &conf) != nil || len(conf.Rules) == 0 || len(conf.Rules) > maxRules || len(conf.Others) > 0 {
		return reply{}, malformedXML()
	}
	ids := map[string]bool{}
	for _, r := range conf.Rules {
		if err := r.check(); err != nil {
			return reply{}, err
		}
		if r.ID != "" && ids[r.ID] {
			return reply{}, invalidArgument("Two rules have the same ID.")
		}
		ids[r.ID] = true
	}
	set := b.settings
	set.Lifecycle = c.body
	return reply{}, e.store.commit(change{settings: &set})
}

func (r lifecycleRule) check() error {
	switch {
	case r.Status != enabled && r.Status != "Disabled":
		return malformedXML()
	case len(r.Others) > 0:
		return notImplemented("the lifecycle element " + r.Others[0].XMLName.Local)
	case r.Expiration == nil && r.Noncurrent == nil && r.Abort == nil:
		return invalidArgument("A lifecycle rule needs an action.")
	case len(r.Tags) > 0 && r.Abort != nil:
		return invalidArgument("A rule with tags can't abort multipart uploads.")
	case r.Noncurrent != nil && (r.Noncurrent.Days < 1 || len(r.Noncurrent.Others) > 0):
		return malformedXML()
	}
	if x := r.Expiration; x != nil {
		marker := x.DeleteMarker == "true"
		ways := 0
		for _, set := range []bool{x.Days > 0, x.CreatedBefore != "", marker} {
			if set {
				ways++
			}
		}
		if _, err := strconv.ParseBool(x.DeleteMarker); x.DeleteMarker != "" && err != nil {
			return malformedXML()
		}
		if _, err := time.Parse(time.RFC3339, x.CreatedBefore); x.CreatedBefore != "" && err != nil {
			return malformedXML()
		}
		switch {
		case ways != 1 || x.Days < 0 || len(x.Others) > 0:
			return malformedXML()
		case marker && len(r.Tags) > 0:
			return invalidArgument("ExpiredObjectDeleteMarker can't be combined with tags.")
		}
	}
	return checkTags(r.Tags)
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
