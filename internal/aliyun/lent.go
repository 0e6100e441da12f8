package aliyun

import (
	"net/http"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"
	"github.com/aliyun/aliyun-tablestore-go-sdk/common"
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
)

// lent is an SDK client with what one call puts into it. It is handed from call
// to call and never shared: two calls at once would race, and building one for
// each call costs more than building the request, most of it for the seed of a
// random number that is never drawn.
type lent struct {
	client *tablestore.TableStoreClient
	creds  Credentials
	way    bound
}

// GetCredentials is asked by the SDK once a request.
func (l *lent) GetCredentials() common.Credentials {
	return &common.DefaultCredentials{
		AccessKeyID: l.creds.AccessKeyID, AccessKeySecret: l.creds.AccessKeySecret, SecurityToken: l.creds.SecurityToken,
	}
}

// RoundTrip is where the SDK's requests leave.
func (l *lent) RoundTrip(req *http.Request) (*http.Response, error) { return l.way.RoundTrip(req) }

// borrow returns a client that nobody else uses.
func (t *Tablestore) borrow(creds Credentials, way bound) *lent {
	l, ok := t.clients.Get().(*lent)
	if !ok {
		l = new(lent)
		l.client = tablestore.NewClientWithCredentialsProvider(t.endpoint, t.instance, l, &tablestore.TableStoreConfig{RetryTimes: 0, Transport: l})
	}
	l.creds, l.way = creds, way
	return l
}

// giveBack takes a client whose call has returned. Nothing of the invocation
// stays in it.
func (t *Tablestore) giveBack(l *lent) {
	l.creds, l.way = Credentials{}, bound{}
	t.clients.Put(l)
}

// lentBucket is lent for OSS: a client with the credentials of one call. To build
// one takes as long as to build the request.
type lentBucket struct {
	client *oss.Client
	creds  Credentials
}

// GetCredentials is asked by the SDK once a request.
func (l *lentBucket) GetCredentials() oss.Credentials { return l }

// GetAccessKeyID, GetAccessKeySecret and GetSecurityToken are how the SDK reads them.
func (l *lentBucket) GetAccessKeyID() string     { return l.creds.AccessKeyID }
func (l *lentBucket) GetAccessKeySecret() string { return l.creds.AccessKeySecret }
func (l *lentBucket) GetSecurityToken() string   { return l.creds.SecurityToken }

// borrow returns a client that nobody else uses.
func (b *Bucket) borrow(creds Credentials) (*lentBucket, error) {
	l, ok := b.clients.Get().(*lentBucket)
	if !ok {
		l = new(lentBucket)
		var err error
		if l.client, err = oss.New(b.endpoint, "", "", oss.SetCredentialsProvider(l), oss.HTTPClient(b.http)); err != nil {
			return nil, err
		}
	}
	l.creds = creds
	return l, nil
}

// giveBack takes a client whose call has returned.
func (b *Bucket) giveBack(l *lentBucket) {
	l.creds = Credentials{}
	b.clients.Put(l)
}
