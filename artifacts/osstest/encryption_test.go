package osstest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"
)

func TestBucketEncryption(t *testing.T) {
	rule := func(algorithm, key string) oss.ServerEncryptionRule {
		return oss.ServerEncryptionRule{SSEDefault: oss.SSEDefaultRule{SSEAlgorithm: algorithm, KMSMasterKeyID: key}}
	}
	each(t, map[string]func(*testing.T, *env){
		"a default is set, read, shown and removed": func(t *testing.T, e *env) {
			c := e.client()
			_, err := c.GetBucketEncryption("room")
			want(t, verdict(err), "404 NoSuchServerSideEncryptionRule")
			must(t, c.SetBucketEncryption("room", rule("KMS", "key-1")))
			r, err := c.GetBucketEncryption("room")
			must(t, err)
			want(t, r.SSEDefault.SSEAlgorithm, "KMS")
			want(t, r.SSEDefault.KMSMasterKeyID, "key-1")
			info, err := c.GetBucketInfo("room")
			must(t, err)
			want(t, info.BucketInfo.SseRule.SSEAlgorithm, "KMS")
			want(t, info.BucketInfo.SseRule.KMSMasterKeyID, "key-1")
			must(t, c.DeleteBucketEncryption("room"))
			must(t, c.DeleteBucketEncryption("room"))
			_, err = c.GetBucketEncryption("room")
			want(t, verdict(err), "404 NoSuchServerSideEncryptionRule")
			info, err = c.GetBucketInfo("room")
			must(t, err)
			want(t, info.BucketInfo.SseRule.SSEAlgorithm, "")
		},
		"an upload takes the default unless it says otherwise": func(t *testing.T, e *env) {
			sse := func(key string, opts ...oss.Option) (on, id string) {
				t.Helper()
				var put http.Header
				must(t, e.bucket.PutObject(key, strings.NewReader("x"), append(opts, oss.GetResponseHeader(&put))...))
				head, err := e.bucket.GetObjectDetailedMeta(key)
				must(t, err)
				for _, name := range []string{"x-oss-server-side-encryption", "x-oss-server-side-encryption-key-id"} {
					want(t, head.Get(name), put.Get(name))
				}
				return put.Get("x-oss-server-side-encryption"), put.Get("x-oss-server-side-encryption-key-id")
			}
			on, _ := sse("before")
			want(t, on, "")
			must(t, e.client().SetBucketEncryption("room", rule("KMS", "key-1")))
			on, id := sse("default")
			want(t, on+id, "KMSkey-1")
			on, id = sse("own", oss.ServerSideEncryption("AES256"))
			want(t, on+id, "AES256")
			on, id = sse("own key", oss.ServerSideEncryption("KMS"), oss.ServerSideEncryptionKeyID("key-2"))
			want(t, on+id, "KMSkey-2")
			h, err := e.bucket.GetObjectDetailedMeta("before")
			must(t, err)
			want(t, h.Get("x-oss-server-side-encryption"), "")
		},
		"what is no default is refused": func(t *testing.T, e *env) {
			c := e.client()
			want(t, verdict(c.SetBucketEncryption("room", rule("ROT13", ""))), "400 InvalidEncryptionAlgorithmError")
			want(t, verdict(c.SetBucketEncryption("room", rule("", ""))), "400 InvalidEncryptionAlgorithmError")
			want(t, verdict(c.SetBucketEncryption("room", rule("AES256", "key-1"))), "400 InvalidArgument")
			want(t, verdict(c.SetBucketEncryption("room", rule("SM4", ""))), "501 NotImplemented")
			sm4 := rule("KMS", "")
			sm4.SSEDefault.KMSDataEncryption = "SM4"
			want(t, verdict(c.SetBucketEncryption("room", sm4)), "501 NotImplemented")
			want(t, e.call("PUT", "", map[string]any{"encryption": nil}, "<nonsense"), "400 MalformedXML")
			_, err := c.GetBucketEncryption("room")
			want(t, verdict(err), "404 NoSuchServerSideEncryptionRule")
		},
	})
}

func TestBucketSettingsSurviveARestart(t *testing.T) {
	dir := t.TempDir()
	e := newEnv(t, false)
	for round := range 2 {
		s, err := New(Options{Dir: dir, Credentials: e.creds})
		must(t, err)
		e.rt = s.Transport()
		c := e.client()
		if round == 0 {
			must(t, c.CreateBucket("room"))
			must(t, c.SetBucketEncryption("room", oss.ServerEncryptionRule{SSEDefault: oss.SSEDefaultRule{SSEAlgorithm: "KMS", KMSMasterKeyID: "key-1"}}))
			must(t, c.SetBucketLifecycle("room", []oss.LifecycleRule{{ID: "a", Status: "Enabled", Expiration: &oss.LifecycleExpiration{Days: 5}}}))
		}
		r, err := c.GetBucketEncryption("room")
		must(t, err)
		want(t, r.SSEDefault.SSEAlgorithm+r.SSEDefault.KMSMasterKeyID, "KMSkey-1")
		l, err := c.GetBucketLifecycle("room")
		must(t, err)
		want(t, l.Rules[0].Expiration.Days, 5)
		must(t, s.Close())
	}
}
