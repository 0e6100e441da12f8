package aliyun

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"
)

// maxObject bounds what is read of one object, in bytes.
const maxObject = 32 << 20

// Bucket reaches one OSS bucket. It is safe for concurrent use.
type Bucket struct {
	endpoint, name string
	o              Options
	http           *http.Client
	clients        *sync.Pool // of *lentBucket
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
	}, new(sync.Pool)}, nil
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
	l, err := b.borrow(creds)
	if err != nil {
		return fmt.Errorf("call oss %s: %w", op, err)
	}
	defer b.giveBack(l)
	bucket, err := l.client.Bucket(b.name)
	if err != nil {
		return fmt.Errorf("call oss %s: %w", op, err)
	}
	countObjects(ctx)
	if err := fn(l.client, bucket); err != nil {
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
	headers := make(map[string]string, len(o.Metadata)+3)
	headers[oss.HTTPHeaderContentType] = o.ContentType
	for name, value := range o.Metadata {
		headers[oss.HTTPHeaderOssMetaPrefix+name] = value
	}
	if len(o.Tags) > 0 {
		tags := make(url.Values, len(o.Tags))
		for name, value := range o.Tags {
			tags.Set(name, value)
		}
		headers[oss.HTTPHeaderOssTagging] = tags.Encode()
	}
	if o.Encryption != "" {
		headers[oss.HTTPHeaderOssServerSideEncryption] = o.Encryption
	}
	err = about(b.name+"/"+key, b.call(ctx, "PutObject", func(client *oss.Client, _ *oss.Bucket) error {
		header, err := putObject(ctx, client, b.name, key, headers, o.Body)
		versionID = header.Get("X-Oss-Version-Id")
		return err
	}))
	return versionID, err
}

// putObject is the SDK's PutObject without its options, which it applies anew for
// each question that it asks of them: with the eight headers that an object has here,
// that takes as long as all the rest of the call.
func putObject(ctx context.Context, client *oss.Client, bucket, key string, headers map[string]string, body []byte) (http.Header, error) {
	if err := oss.CheckObjectName(key); err != nil {
		return nil, err
	}
	resp, err := client.Conn.DoWithContext(ctx, http.MethodPut, bucket, key, nil, headers, bytes.NewReader(body), 0, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if err := oss.CheckCRC(resp, "PutObject"); err != nil {
		return nil, err
	}
	if err := oss.CheckRespCode(resp.StatusCode, []int{http.StatusOK}); err != nil {
		return nil, err
	}
	// A connection is used again once its answer was read.
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return nil, err
	}
	return resp.Headers, nil
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
