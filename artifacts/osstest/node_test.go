package osstest

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/internal/npmtest"
)

// TestNodeClient holds the stand-in against a client that shares no code with
// the Go SDK, under both versions of the signature.
func TestNodeClient(t *testing.T) {
	modules := npmtest.Modules(t)
	for name, v4 := range map[string]bool{"V1": false, "V4": true} {
		t.Run(name, func(t *testing.T) {
			e := newEnv(t, true)
			must(t, e.client().DeleteBucket("room"))
			at, err := json.Marshal(map[string]any{
				"endpoint": e.endpoint, "v4": v4,
				"id": e.cred.AccessKeyID, "secret": e.cred.AccessKeySecret, "token": e.cred.SecurityToken,
			})
			must(t, err)
			if d := cmp.Diff(nodeWant(), npmtest.Run(t, modules, string(at))); d != "" {
				t.Fatal(d)
			}
		})
	}
}

// nodeWant is what the client must see, in the order of client.cjs.
func nodeWant() []string {
	return []string{
		`create a bucket: "room"`,
		`create it again: "409 BucketAlreadyExists"`,
		`describe it: ["room","Standard"]`,
		`a bucket that is not there: "404 NoSuchBucket"`,
		`put: [200,"\"5D41402ABC4B2A76B9719D911017C592\"","11177612005948864433"]`,
		`get: "hello"`,
		`head: [{"digest":"ab cd","owner":"me"},"text/plain","5","no-store","AES256","2"]`,
		`head of the little meta: [200,"5"]`,
		`a put that would overwrite: "409 FileAlreadyExists"`,
		`a get of nothing: "404 NoSuchKey"`,
		`a head of nothing: "404 NoSuchKey"`,
		`a range: [206,"ell","bytes 1-3/5"]`,
		`a range over the end: "llo"`,
		`a get of what did not change: 304`,
		`a get of another state: "412 PreconditionFailed"`,
		`tags: [{"class":"input","k":"a b"},{"class":"output"},{}]`,
		`delete: "404 NoSuchKey"`,
		`copy: ["\"5D41402ABC4B2A76B9719D911017C592\"","hello","me"]`,
		`copy with other meta: [{"owner":"you"},"text/css"]`,
		`copy from a bucket by name: 200`,
		`copy under a condition: [200,304]`,
		`copy of another state: "412 PreconditionFailed"`,
		`copy of nothing: "404 NoSuchKey"`,
		`set meta: {"attempt":"2"}`,
		`list: ["l/1 l/2;","l/3;l/d/"]`,
		`list, second version: ["l/1 l/2 l/3;3","l/d/4;1"]`,
		`delete several: [["l/1","l/2","l/none","a/ü 1+%?#~*!'()\u0026=.txt"],"l/3 l/d/4"]`,
		`delete several quietly: []`,
		`versioning: ["unset","Enabled"]`,
		`several versions: ["two","one",true]`,
		`an old version on top: ["one",true]`,
		`a delete marker: "true"`,
		`a get behind the marker: "404 NoSuchKey"`,
		`list versions: [3,1,[false,false,false],true]`,
		`delete versions: ["one",2]`,
		`suspended: "null"`,
		`no lifecycle: "404 NoSuchLifecycle"`,
		`lifecycle: [[{"expiration":{"days":"30"},"id":"input","noncurrentVersionExpiration":{"noncurrentDays":"7"},"prefix":"tasks/","status":"Enabled","tag":[{"key":"class","value":"input"}]},{"abortMultipartUpload":{"days":"3"},"prefix":"parts/","status":"Disabled"}],true]`,
		`overlapping rules: "400 InvalidRequest"`,
		`no encryption: "404 NoSuchServerSideEncryptionRule"`,
		`encryption: [{"KMSMasterKeyID":"key-1","SSEAlgorithm":"KMS"},"KMS","key-1"]`,
		`an STS token: 200`,
		`a wrong secret: "403 SignatureDoesNotMatch"`,
		`an unknown key: "403 InvalidAccessKeyId"`,
		`a wrong token: "403 InvalidSecurityToken"`,
		`no token: "403 InvalidAccessKeyId"`,
		`a bucket that is not empty: "409 BucketNotEmpty"`,
		`an empty bucket: 204`,
	}
}
