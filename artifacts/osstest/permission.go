package osstest

import (
	"encoding/xml"
	"net/url"
	"strings"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

// rights are the actions of operations whose action has another name:
// https://www.alibabacloud.com/help/en/oss/user-guide/ram-policy-overview
var rights = map[string]string{
	"HeadObject":             "GetObject",
	"GetObjectMeta":          "GetObject",
	"CopyObject":             "PutObject",
	"DeleteMultipleObjects":  "DeleteObject",
	"CreateBucket":           "PutBucket",
	"DeleteBucketLifecycle":  "PutBucketLifecycle",
	"DeleteBucketEncryption": "PutBucketEncryption",
}

// permits says whether a credential's policies allow a call: all of the rights
// that it needs, also those on the tags it writes and on the source it copies.
func permits(cred cloudtest.Credential, c *call, op string) bool {
	if cred.Identity == nil {
		return true
	}
	context := map[string]string{}
	if op == "ListObjects" || op == "ListObjectVersions" {
		context["oss:Prefix"], context["oss:Delimiter"] = c.query["prefix"], c.query["delimiter"]
	}
	allowed := func(action, bucket, key string) bool {
		resource := bucket
		if key != "" {
			resource += "/" + key
		}
		return cred.Allows(cloudtest.Access{
			Action: "oss:" + action, Resource: "acs:oss:oss-" + cloudtest.Region + ":" + cloudtest.AccountID + ":" + resource, Context: context,
		})
	}
	action := op
	if other := rights[op]; other != "" {
		action = other
	}
	switch {
	case op == "ListBuckets":
		return allowed(action, "*", "")
	case op == "DeleteMultipleObjects":
		return deletes(c, allowed)
	case op == "CopyObject" && !copies(c, allowed):
		return false
	case (op == "PutObject" || op == "CopyObject") && c.header("x-oss-tagging") != "" && !allowed("PutObjectTagging", c.bucket, c.key):
		return false
	}
	return allowed(versioned(action, c.query["versionId"]), c.bucket, c.key)
}

// versioned is the action on one version of an object: GetObjectVersion,
// PutObjectVersionTagging.
func versioned(action, version string) string {
	if version == "" {
		return action
	}
	return strings.Replace(action, "Object", "ObjectVersion", 1)
}

func copies(c *call, allowed func(action, bucket, key string) bool) bool {
	raw, query, _ := strings.Cut(c.header(copySource), "?")
	name, err := url.QueryUnescape(raw)
	bucket, key, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	return err == nil && allowed(versioned("GetObject", strings.TrimPrefix(query, "versionId=")), bucket, key)
}

func deletes(c *call, allowed func(action, bucket, key string) bool) bool {
	var req deleteRequest
	if xml.Unmarshal(c.body, &req) != nil {
		return false
	}
	for _, o := range req.Objects {
		version := ""
		if o.VersionID != nil {
			version = *o.VersionID
		}
		if !allowed(versioned("DeleteObject", version), c.bucket, o.Key) {
			return false
		}
	}
	return len(req.Objects) > 0
}
