package osstest

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"
	"github.com/google/go-cmp/cmp"

	"github.com/oncegate/oncegate/internal/cloudtest"
)

const childDir = "OSSTEST_CHILD_DIR"

func childCredential() cloudtest.Credential {
	return cloudtest.Credential{AccessKeyID: "LTAIchild", AccessKeySecret: "secret"}
}

// TestChild is the process that TestKill starts and kills.
func TestChild(t *testing.T) {
	dir := os.Getenv(childDir)
	if dir == "" {
		t.Skip("runs as a child of TestKill")
	}
	creds := &cloudtest.Credentials{}
	creds.Add(childCredential())
	s, err := New(Options{Dir: dir, Credentials: creds})
	must(t, err)
	must(t, s.Start())
	fmt.Println(s.Endpoint())
	select {}
}

func TestKill(t *testing.T) {
	t.Run("a server killed under load loses no acknowledged write", func(t *testing.T) {
		dir := t.TempDir()
		acked := map[string]string{}   // key -> version id
		deleted := map[string]string{} // key -> marker id
		lastID := ""
		for round := range 3 {
			ids := killUnderLoad(t, dir, round, acked, deleted)
			for _, id := range ids {
				if id <= lastID {
					t.Fatalf("version id %s of round %d is not above %s", id, round, lastID)
				}
			}
			for _, id := range ids {
				lastID = max(lastID, id)
			}
			s, err := New(Options{Dir: dir, Credentials: &cloudtest.Credentials{}})
			must(t, err)
			stored := map[string]Object{}
			for _, o := range s.Objects("room") {
				stored[o.Key+" "+o.VersionID] = o
			}
			must(t, s.Close())
			for key, id := range acked {
				o, ok := stored[key+" "+id]
				if !ok || string(o.Body) != "body of "+key || o.Tags["class"] != "input" || o.Metadata["k"] != key {
					t.Errorf("object %s %s is lost or damaged: %+v", key, id, o)
				}
			}
			for key, id := range deleted {
				if !stored[key+" "+id].DeleteMarker {
					t.Errorf("marker %s %s is lost", key, id)
				}
			}
		}
		t.Logf("%d puts and %d deletes were acknowledged", len(acked), len(deleted))
	})
}

// killUnderLoad runs a server in a process of its own, writes to it from four
// goroutines, kills it in the middle and returns the ids that it gave out.
func killUnderLoad(t *testing.T, dir string, round int, acked, deleted map[string]string) (ids []string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	sc := bufio.NewScanner(out)
	if !sc.Scan() {
		t.Fatal("the child printed no endpoint")
	}
	tr := &http.Transport{}
	defer tr.CloseIdleConnections()
	cred := childCredential()
	client, err := oss.New(sc.Text(), cred.AccessKeyID, cred.AccessKeySecret, oss.HTTPClient(&http.Client{Transport: tr}))
	must(t, err)
	if round == 0 {
		must(t, client.CreateBucket("room"))
		must(t, client.SetBucketVersioning("room", oss.VersioningConfig{Status: "Enabled"}))
	}
	bucket, err := client.Bucket("room")
	must(t, err)

	var mu sync.Mutex
	var wg sync.WaitGroup
	for worker := range 4 {
		wg.Go(func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("r%d/w%d/%d", round, worker, i)
				var h http.Header
				err := bucket.PutObject(key, strings.NewReader("body of "+key), oss.Meta("k", key), oss.GetResponseHeader(&h),
					oss.SetTagging(oss.Tagging{Tags: []oss.Tag{{Key: "class", Value: "input"}}}))
				if err != nil {
					return
				}
				mu.Lock()
				ids = append(ids, h.Get("x-oss-version-id"))
				acked[key] = h.Get("x-oss-version-id")
				enough := len(ids) > 300
				mu.Unlock()
				if enough {
					_ = cmd.Process.Kill()
				}
				if i%5 == 0 {
					if bucket.DeleteObject(key, oss.GetResponseHeader(&h)) != nil {
						return
					}
					mu.Lock()
					ids = append(ids, h.Get("x-oss-version-id"))
					deleted[key] = h.Get("x-oss-version-id")
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	return ids
}

func TestDisk(t *testing.T) {
	open := func(t *testing.T, dir string) (*Server, *oss.Client) {
		creds := &cloudtest.Credentials{}
		creds.Add(childCredential())
		s, err := New(Options{Dir: dir, Credentials: creds})
		must(t, err)
		c, err := oss.New("http://127.0.0.1", childCredential().AccessKeyID, childCredential().AccessKeySecret,
			oss.HTTPClient(&http.Client{Transport: s.Transport()}))
		must(t, err)
		return s, c
	}
	t.Run("a reopened store is the store that was closed", func(t *testing.T) {
		dir := t.TempDir() + "/new/folder"
		s, c := open(t, dir)
		must(t, c.CreateBucket("room"))
		must(t, c.CreateBucket("gone"))
		must(t, c.DeleteBucket("gone"))
		b, err := c.Bucket("room")
		must(t, err)
		must(t, b.PutObject("old", strings.NewReader("0")))
		must(t, b.PutObject("old", strings.NewReader("1"), oss.ServerSideEncryption("AES256")))
		must(t, b.PutObject("removed", strings.NewReader("1")))
		must(t, b.DeleteObject("removed"))
		must(t, c.SetBucketLifecycle("room", []oss.LifecycleRule{oss.BuildLifecycleRuleByDays("r", "p", true, 3)}))
		must(t, c.SetBucketVersioning("room", oss.VersioningConfig{Status: "Enabled"}))
		for _, body := range []string{"2", "3"} {
			must(t, b.PutObject("old", strings.NewReader(body)))
		}
		must(t, b.PutObjectTagging("old", oss.Tagging{Tags: []oss.Tag{{Key: "a", Value: "b"}}}, oss.VersionId("null")))
		must(t, b.DeleteObject("marked"))
		var h http.Header
		must(t, b.PutObject("dropped", strings.NewReader("x"), oss.GetResponseHeader(&h)))
		last := h.Get("x-oss-version-id")
		must(t, b.DeleteObject("dropped", oss.VersionId(last)))
		before := s.Objects("room")
		want(t, len(before), 4)
		must(t, s.Close())

		s, c = open(t, dir)
		defer func() { must(t, s.Close()) }()
		if d := cmp.Diff(before, s.Objects("room")); d != "" {
			t.Error(d)
		}
		v, err := c.GetBucketVersioning("room")
		must(t, err)
		want(t, v.Status, "Enabled")
		l, err := c.GetBucketLifecycle("room")
		must(t, err)
		want(t, l.Rules[0].ID, "r")
		_, err = c.GetBucketInfo("gone")
		want(t, verdict(err), "404 NoSuchBucket")
		b, err = c.Bucket("room")
		must(t, err)
		must(t, b.PutObject("dropped", strings.NewReader("x"), oss.GetResponseHeader(&h)))
		want(t, h.Get("x-oss-version-id") > last, true)
	})
	t.Run("a database that is held elsewhere is a clear error", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			dir := t.TempDir()
			s, _ := open(t, dir)
			defer func() { must(t, s.Close()) }()
			start := time.Now()
			_, err := New(Options{Dir: dir, Credentials: &cloudtest.Credentials{}})
			if err == nil || !strings.Contains(err.Error(), "another process holds it") {
				t.Fatalf("got %v", err)
			}
			want(t, time.Since(start) <= 2*time.Second, true)
		})
	})
	t.Run("a file that is no database is an error", func(t *testing.T) {
		dir := t.TempDir()
		must(t, os.WriteFile(dir+"/oss.db", []byte(strings.Repeat("nonsense", 1000)), 0o600))
		if _, err := New(Options{Dir: dir, Credentials: &cloudtest.Credentials{}}); err == nil {
			t.Fatal("got no error")
		}
	})
}
