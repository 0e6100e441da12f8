package osstest

import (
	"encoding/xml"
	"maps"
	"net/http"
	"slices"
	"strings"
)

const (
	xmlTime  = "2006-01-02T15:04:05.000Z"
	location = "oss-local"

	maxBuckets = 100
)

type owner struct {
	ID          string `xml:"ID"`
	DisplayName string `xml:"DisplayName"`
}

func theOwner() owner { return owner{"osstest", "osstest"} }

func (e *engine) createBucket(c *call, b *bucket) (reply, error) {
	var conf struct {
		XMLName    xml.Name `xml:"CreateBucketConfiguration"`
		Class      string   `xml:"StorageClass"`
		Redundancy string   `xml:"DataRedundancyType"`
		Others     []other  `xml:",any"`
	}
	if len(c.body) > 0 && xml.Unmarshal(c.body, &conf) != nil {
		return reply{}, malformedXML()
	}
	acl := c.header("x-oss-acl")
	switch {
	case acl != "" && acl != "private":
		return reply{}, notImplemented("the bucket ACL " + acl)
	case conf.Class != "" && conf.Class != "Standard":
		return reply{}, notImplemented("the storage class " + conf.Class)
	case conf.Redundancy != "" && conf.Redundancy != "LRS":
		return reply{}, notImplemented("the redundancy type " + conf.Redundancy)
	case len(conf.Others) > 0:
		return reply{}, notImplemented(conf.Others[0].XMLName.Local)
	case b != nil:
		return reply{}, refuse(http.StatusConflict, "BucketAlreadyExists", "The requested bucket name is not available. Please select a different name and try again.")
	}
	if len(e.store.buckets) >= maxBuckets {
		return reply{}, refuse(http.StatusBadRequest, "TooManyBuckets", "You have attempted to create more buckets than allowed.")
	}
	set := &settings{Name: c.bucket, Created: c.now}
	return reply{header: http.Header{"Location": {"/" + c.bucket}}}, e.store.commit(change{settings: set})
}

func (e *engine) deleteBucket(_ *call, b *bucket) (reply, error) {
	if len(b.keys) > 0 {
		return reply{}, refuse(http.StatusConflict, "BucketNotEmpty", "The bucket you tried to delete is not empty.")
	}
	return reply{status: http.StatusNoContent}, e.store.commit(change{drop: b.Name})
}

type bucketInfo struct {
	XMLName xml.Name `xml:"BucketInfo"`
	Bucket  struct {
		Name             string `xml:"Name"`
		CreationDate     string `xml:"CreationDate"`
		ExtranetEndpoint string `xml:"ExtranetEndpoint"`
		IntranetEndpoint string `xml:"IntranetEndpoint"`
		Location         string `xml:"Location"`
		StorageClass     string `xml:"StorageClass"`
		Redundancy       string `xml:"DataRedundancyType"`
		Owner            owner  `xml:"Owner"`
		ACL              string `xml:"AccessControlList>Grant"`
		SSE              string `xml:"ServerSideEncryptionRule>SSEAlgorithm"`
		SSEKeyID         string `xml:"ServerSideEncryptionRule>KMSMasterKeyID,omitempty"`
		Versioning       string `xml:"Versioning,omitempty"`
	} `xml:"Bucket"`
}

func (e *engine) getBucketInfo(c *call, b *bucket) (reply, error) {
	var info bucketInfo
	info.Bucket.Name, info.Bucket.CreationDate = b.Name, b.Created.UTC().Format(xmlTime)
	info.Bucket.ExtranetEndpoint, info.Bucket.IntranetEndpoint = c.request.Host, c.request.Host
	info.Bucket.Location, info.Bucket.StorageClass, info.Bucket.Redundancy = location, "Standard", "LRS"
	info.Bucket.Owner, info.Bucket.ACL, info.Bucket.SSE = theOwner(), "private", "None"
	if b.Encryption != nil {
		info.Bucket.SSE, info.Bucket.SSEKeyID = b.Encryption.Default.Algorithm, b.Encryption.Default.KeyID
	}
	info.Bucket.Versioning = b.Versioning
	return xmlReply(info), nil
}

type bucketEntry struct {
	Name         string `xml:"Name"`
	Location     string `xml:"Location"`
	CreationDate string `xml:"CreationDate"`
	StorageClass string `xml:"StorageClass"`
}

type bucketList struct {
	XMLName     xml.Name      `xml:"ListAllMyBucketsResult"`
	Prefix      string        `xml:"Prefix"`
	Marker      string        `xml:"Marker"`
	MaxKeys     int           `xml:"MaxKeys"`
	IsTruncated bool          `xml:"IsTruncated"`
	NextMarker  string        `xml:"NextMarker,omitempty"`
	Owner       owner         `xml:"Owner"`
	Buckets     []bucketEntry `xml:"Buckets>Bucket"`
}

func (e *engine) listBuckets(c *call, _ *bucket) (reply, error) {
	limit, err := c.maxKeys()
	if err != nil {
		return reply{}, err
	}
	out := bucketList{Prefix: c.query["prefix"], Marker: c.query["marker"], MaxKeys: limit, Owner: theOwner()}
	for _, name := range slices.Sorted(maps.Keys(e.store.buckets)) {
		if !strings.HasPrefix(name, out.Prefix) || name <= out.Marker {
			continue
		}
		if len(out.Buckets) == limit {
			out.IsTruncated, out.NextMarker = true, out.Buckets[limit-1].Name
			break
		}
		created := e.store.buckets[name].Created.UTC().Format(xmlTime)
		out.Buckets = append(out.Buckets, bucketEntry{name, location, created, "Standard"})
	}
	return xmlReply(out), nil
}

type versioningConfiguration struct {
	XMLName xml.Name `xml:"VersioningConfiguration"`
	Status  string   `xml:"Status,omitempty"`
}

func (e *engine) putBucketVersioning(c *call, b *bucket) (reply, error) {
	var conf versioningConfiguration
	if xml.Unmarshal(c.body, &conf) != nil {
		return reply{}, malformedXML()
	}
	if conf.Status != enabled && conf.Status != suspended {
		return reply{}, invalidArgument("The versioning status must be Enabled or Suspended.")
	}
	set := b.settings
	set.Versioning = conf.Status
	return reply{}, e.store.commit(change{settings: &set})
}

func (e *engine) getBucketVersioning(_ *call, b *bucket) (reply, error) {
	return xmlReply(versioningConfiguration{Status: b.Versioning}), nil
}
