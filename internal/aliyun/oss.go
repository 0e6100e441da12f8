package aliyun

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"
)

// maxObject bounds what is read of one object, in bytes.
const maxObject = 32 << 20

// Bucket reaches one OSS bucket. It is safe for concurrent use.
type Bucket struct {
	endpoint, name string
	o              Options
	http           *http.Client
}

// NewBucket returns a client for a bucket; it makes no call.
func NewBucket(endpoint, name string, o Options) (*Bucket, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Bucket{endpoint, name, o, &http.Client{
		Transport:     watched{o.OSSTransport, o.Now, o.Skew},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Named returns a client for another bucket behind the same endpoint.
func (b *Bucket) Named(name string) *Bucket {
	other := *b
	other.name = name
	return &other
}

func (b *Bucket) call(ctx context.Context, op string, fn func(*oss.Client, *oss.Bucket) error) error {
	creds, err := b.o.Credentials(ctx)
	if err != nil {
		return fmt.Errorf("call oss %s: %w", op, err)
	}
	client, err := oss.New(b.endpoint, creds.AccessKeyID, creds.AccessKeySecret, oss.SecurityToken(creds.SecurityToken), oss.HTTPClient(b.http))
	if err != nil {
		return fmt.Errorf("call oss %s: %w", op, err)
	}
	bucket, err := client.Bucket(b.name)
	if err != nil {
		return fmt.Errorf("call oss %s: %w", op, err)
	}
	countObjects(ctx)
	if err := fn(client, bucket); err != nil {
		return about(b.name, ossError(op, err))
	}
	return nil
}

// Object is what is stored under a name.
type Object struct {
	Body        []byte
	ContentType string
	Metadata    map[string]string // names in lower case, without x-oss-meta-
	Tags        map[string]string // written, not read back
	Encryption  string            // AES256, KMS or "" for the bucket's own setting
	VersionID   string            // set by reads
}

// Put stores an object and returns its version id, "" where the bucket keeps none.
func (b *Bucket) Put(ctx context.Context, key string, o Object) (versionID string, err error) {
	var header http.Header
	options := []oss.Option{oss.WithContext(ctx), oss.ContentType(o.ContentType), oss.GetResponseHeader(&header)}
	for name, value := range o.Metadata {
		options = append(options, oss.Meta(name, value))
	}
	if len(o.Tags) > 0 {
		var tagging oss.Tagging
		for name, value := range o.Tags {
			tagging.Tags = append(tagging.Tags, oss.Tag{Key: name, Value: value})
		}
		options = append(options, oss.SetTagging(tagging))
	}
	if o.Encryption != "" {
		options = append(options, oss.ServerSideEncryption(o.Encryption))
	}
	err = about(b.name+"/"+key, b.call(ctx, "PutObject", func(_ *oss.Client, bucket *oss.Bucket) error {
		return bucket.PutObject(key, bytes.NewReader(o.Body), options...)
	}))
	return header.Get("X-Oss-Version-Id"), err
}

// Get reads an object, the current version for versionID "". A missing object
// is an *Error of KindNotFound.
func (b *Bucket) Get(ctx context.Context, key, versionID string) (Object, error) {
	options := []oss.Option{oss.WithContext(ctx)}
	if versionID != "" {
		options = append(options, oss.VersionId(versionID))
	}
	var o Object
	err := about(b.name+"/"+key, b.call(ctx, "GetObject", func(_ *oss.Client, bucket *oss.Bucket) error {
		result, err := bucket.DoGetObject(&oss.GetObjectRequest{ObjectKey: key}, options)
		if err != nil {
			return err
		}
		defer result.Response.Close()
		o.Body, err = io.ReadAll(io.LimitReader(result.Response, maxObject+1))
		if err != nil {
			return err
		}
		if len(o.Body) > maxObject {
			return fmt.Errorf("object is larger than %d bytes", maxObject)
		}
		// DoGetObject computes the sum and leaves the comparison to its caller.
		if result.ClientCRC != nil && result.Response.Headers.Get(oss.HTTPHeaderOssCRC64) != "" {
			if err := oss.CheckDownloadCRC(result.ClientCRC.Sum64(), result.ServerCRC); err != nil {
				return err
			}
		}
		o.describe(result.Response.Headers)
		return nil
	}))
	if err != nil {
		return Object{}, err
	}
	return o, nil
}

func (o *Object) describe(h http.Header) {
	o.ContentType, o.VersionID = h.Get("Content-Type"), h.Get("X-Oss-Version-Id")
	o.Metadata = map[string]string{}
	for name := range h {
		if short, ok := strings.CutPrefix(strings.ToLower(name), "x-oss-meta-"); ok {
			o.Metadata[short] = h.Get(name)
		}
	}
}

// List returns the names under a prefix in rising order, limit at most.
func (b *Bucket) List(ctx context.Context, prefix string, limit int) ([]string, error) {
	var names []string
	err := b.call(ctx, "ListObjects", func(_ *oss.Client, bucket *oss.Bucket) error {
		token := ""
		for {
			page, err := bucket.ListObjectsV2(oss.WithContext(ctx), oss.Prefix(prefix), oss.MaxKeys(min(limit-len(names), 1000)),
				oss.ContinuationToken(token))
			if err != nil {
				return err
			}
			for _, o := range page.Objects {
				names = append(names, o.Key)
			}
			if !page.IsTruncated || len(names) >= limit {
				return nil
			}
			token = page.NextContinuationToken
		}
	})
	return names, err
}

// DeleteVersion removes one version of an object for good; one that is not there
// is no error. It never removes by name alone: that would hit a newer version.
func (b *Bucket) DeleteVersion(ctx context.Context, key, versionID string) error {
	if versionID == "" {
		return fmt.Errorf("delete object %s: no version is named", key)
	}
	return about(b.name+"/"+key, b.call(ctx, "DeleteObject", func(_ *oss.Client, bucket *oss.Bucket) error {
		return bucket.DeleteObject(key, oss.VersionId(versionID), oss.WithContext(ctx))
	}))
}

// Create creates the bucket with versioning enabled; created is false for a
// bucket that is there already, which is left as it is.
func (b *Bucket) Create(ctx context.Context) (created bool, err error) {
	err = b.call(ctx, "CreateBucket", func(client *oss.Client, _ *oss.Bucket) error {
		exists, err := client.IsBucketExist(b.name)
		if err != nil || exists {
			return err
		}
		if err := client.CreateBucket(b.name, oss.WithContext(ctx)); err != nil {
			return err
		}
		created = true
		return client.SetBucketVersioning(b.name, oss.VersioningConfig{Status: "Enabled"}, oss.WithContext(ctx))
	})
	return created, err
}

// regionOf reads the region from a public or internal endpoint of the service.
var regionOf = regexp.MustCompile(`//(oss-[a-z0-9-]+?)(?:-internal)?\.aliyuncs\.com`)

// Location is the region that the bucket is in. elsewhere is true where the
// endpoint names another one; an endpoint that names none is not compared.
func (b *Bucket) Location(ctx context.Context) (location string, elsewhere bool, err error) {
	err = b.call(ctx, "GetBucketInfo", func(c *oss.Client, _ *oss.Bucket) error {
		info, err := c.GetBucketInfo(b.name, oss.WithContext(ctx))
		location = safeToken(info.BucketInfo.Location)
		return err
	})
	if err != nil {
		return "", false, err
	}
	m := regionOf.FindStringSubmatch(b.endpoint)
	return location, m != nil && m[1] != location, nil
}
