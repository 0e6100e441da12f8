package ram

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/aliyun/aliyun-oss-go-sdk/oss"
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"

	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// probe is one call through an SDK, and all cells of the matrix that it needs: on
// the name of a row, an action.
type probe struct {
	service string
	needs   [][2]string
	call    func(context.Context, *caller) error
}

func (p probe) String() string {
	text := p.service
	for _, n := range p.needs {
		text += ", " + n[1] + " " + n[0]
	}
	return text
}

const foreignRow = "a table of somebody else"

// probes call every operation of the stand-ins that policies are asked about:
// operations on rows for every table, others once for every kind of resource.
func probes() []probe {
	var all []probe
	add := func(service, resource, action string, call func(context.Context, *caller) error) {
		all = append(all, probe{service, [][2]string{{resource, action}}, call})
	}
	rowOf := func(t aliyun.Table) string {
		if t.Name == "foreign" {
			return foreignRow
		}
		return t.Name
	}
	for _, t := range tables {
		add("ots", rowOf(t), "GetRow", func(ctx context.Context, c *caller) error { _, _, err := c.store.Get(ctx, t, key); return err })
		add("ots", rowOf(t), "GetRange", func(ctx context.Context, c *caller) error {
			_, err := c.store.Scan(ctx, t, "", "", 10, nil)
			return err
		})
		add("ots", rowOf(t), "PutRow", func(ctx context.Context, c *caller) error {
			return c.store.Insert(ctx, t, key, aliyun.Row{"revision": int64(1)})
		})
		add("ots", rowOf(t), "UpdateRow", func(ctx context.Context, c *caller) error {
			return c.store.Update(ctx, t, key, aliyun.Row{"revision": int64(1)}, 1)
		})
		add("ots", rowOf(t), "DeleteRow", func(_ context.Context, c *caller) error { return rawDelete(c.raw, t) })
		add("ots", rowOf(t), "BatchGetRow", func(_ context.Context, c *caller) error { return rawBatchGet(c.raw, t) })
		add("ots", rowOf(t), "BatchWriteRow", func(_ context.Context, c *caller) error { return rawBatch(c.raw, t) })
		add("ots", rowOf(t), "DescribeTable", func(ctx context.Context, c *caller) error { return c.store.CheckTable(ctx, t) })
		add("ots", rowOf(t), "CreateTable", func(ctx context.Context, c *caller) error { return c.store.CreateTable(ctx, t) })
		add("ots", rowOf(t), "UpdateTable", func(_ context.Context, c *caller) error {
			_, err := c.raw.UpdateTable(&tablestore.UpdateTableRequest{TableName: t.Name, TableOption: &tablestore.TableOption{TimeToAlive: -1, MaxVersion: 1}})
			return err
		})
		add("ots", rowOf(t), "DeleteTable", func(_ context.Context, c *caller) error {
			_, err := c.raw.DeleteTable(&tablestore.DeleteTableRequest{TableName: t.Name})
			return err
		})
	}
	add("ots", "the list of tables", "ListTable", func(_ context.Context, c *caller) error { _, err := c.raw.ListTable(); return err })

	v := oss.VersionId("v")
	tagging := oss.Tagging{Tags: []oss.Tag{{Key: "class", Value: "letter"}}}
	for _, o := range [][2]string{
		{"tasks/: outputs", outputName}, {"tasks/*/approved/", approvedName}, {"dead-letters/", letterName}, {"content", contentName}, {"another object", "elsewhere/x.txt"},
	} {
		at, object := o[0], o[1]
		add("oss", at, "GetObject", func(ctx context.Context, c *caller) error { _, err := c.bucket.Get(ctx, object, ""); return err })
		add("oss", at, "GetObject", func(_ context.Context, c *caller) error {
			_, err := c.rawBucket.GetObjectDetailedMeta(object)
			return err
		})
		add("oss", at, "GetObjectVersion", func(ctx context.Context, c *caller) error { _, err := c.bucket.Get(ctx, object, "v"); return err })
		add("oss", at, "PutObject", func(_ context.Context, c *caller) error { return c.rawBucket.PutObject(object, strings.NewReader("x")) })
		all = append(all, probe{"oss", [][2]string{{at, "PutObject"}, {at, "PutObjectTagging"}}, func(ctx context.Context, c *caller) error {
			_, err := c.bucket.Put(ctx, object, aliyun.Object{Body: []byte("x"), Tags: map[string]string{"class": "letter"}})
			return err
		}}, probe{"oss", [][2]string{{"content", "GetObject"}, {at, "PutObject"}}, func(_ context.Context, c *caller) error {
			_, err := c.rawBucket.CopyObject(contentName, object)
			return err
		}})
		add("oss", at, "DeleteObject", func(_ context.Context, c *caller) error { return c.rawBucket.DeleteObject(object) })
		add("oss", at, "DeleteObjectVersion", func(ctx context.Context, c *caller) error { return c.bucket.DeleteVersion(ctx, object, "v") })
		add("oss", at, "GetObjectTagging", func(_ context.Context, c *caller) error { _, err := c.rawBucket.GetObjectTagging(object); return err })
		add("oss", at, "GetObjectVersionTagging", func(_ context.Context, c *caller) error {
			_, err := c.rawBucket.GetObjectTagging(object, v)
			return err
		})
		add("oss", at, "PutObjectTagging", func(_ context.Context, c *caller) error { return c.rawBucket.PutObjectTagging(object, tagging) })
		add("oss", at, "PutObjectVersionTagging", func(_ context.Context, c *caller) error { return c.rawBucket.PutObjectTagging(object, tagging, v) })
		add("oss", at, "DeleteObjectTagging", func(_ context.Context, c *caller) error { return c.rawBucket.DeleteObjectTagging(object) })
		add("oss", at, "DeleteObjectVersionTagging", func(_ context.Context, c *caller) error { return c.rawBucket.DeleteObjectTagging(object, v) })
	}
	// Several at once: one refused name refuses all.
	all = append(all, probe{"oss", [][2]string{{"tasks/: outputs", "DeleteObject"}, {"dead-letters/", "DeleteObject"}}, func(_ context.Context, c *caller) error {
		_, err := c.rawBucket.DeleteObjects([]string{outputName, letterName})
		return err
	}})
	add("oss", "dead-letters/ of another bucket", "PutObject", func(ctx context.Context, c *caller) error {
		_, err := c.bucket.Named(otherBucket).Put(ctx, letterName, aliyun.Object{Body: []byte("x")})
		return err
	})
	for at, prefix := range map[string]string{"the names below tasks/": "tasks/k/", "the names below dead-letters/": "dead-letters/", "all names": ""} {
		add("oss", at, "ListObjects", func(_ context.Context, c *caller) error {
			_, err := c.rawBucket.ListObjectsV2(oss.Prefix(prefix))
			return err
		})
		add("oss", at, "ListObjectVersions", func(_ context.Context, c *caller) error {
			_, err := c.rawBucket.ListObjectVersions(oss.Prefix(prefix))
			return err
		})
	}
	add("oss", "the list of buckets", "ListBuckets", func(_ context.Context, c *caller) error { _, err := c.rawBucket.Client.ListBuckets(); return err })
	for at, name := range map[string]string{"the bucket": values.Bucket, "another bucket": otherBucket} {
		do := func(action string, call func(*oss.Client) error) {
			add("oss", at, action, func(_ context.Context, c *caller) error { return call(&c.rawBucket.Client) })
		}
		do("PutBucket", func(c *oss.Client) error { return c.CreateBucket(name) })
		do("DeleteBucket", func(c *oss.Client) error { return c.DeleteBucket(name) })
		do("GetBucketInfo", func(c *oss.Client) error { _, err := c.GetBucketInfo(name); return err })
		do("PutBucketVersioning", func(c *oss.Client) error { return c.SetBucketVersioning(name, oss.VersioningConfig{Status: "Enabled"}) })
		do("GetBucketVersioning", func(c *oss.Client) error { _, err := c.GetBucketVersioning(name); return err })
		do("PutBucketEncryption", func(c *oss.Client) error {
			return c.SetBucketEncryption(name, oss.ServerEncryptionRule{SSEDefault: oss.SSEDefaultRule{SSEAlgorithm: "AES256"}})
		})
		do("PutBucketEncryption", func(c *oss.Client) error { return c.DeleteBucketEncryption(name) })
		do("GetBucketEncryption", func(c *oss.Client) error { _, err := c.GetBucketEncryption(name); return err })
		do("PutBucketLifecycle", func(c *oss.Client) error {
			return c.SetBucketLifecycle(name, []oss.LifecycleRule{oss.BuildLifecycleRuleByDays("r", "x/", true, 1)})
		})
		do("PutBucketLifecycle", func(c *oss.Client) error { return c.DeleteBucketLifecycle(name) })
		do("GetBucketLifecycle", func(c *oss.Client) error { _, err := c.GetBucketLifecycle(name); return err })
	}
	for at, target := range map[string][2]string{
		"the function, no qualifier": {values.Function, ""}, "its alias live": {values.Function, "live"}, "its version 7": {values.Function, "7"},
		"the intake function": {"oncegate-intake", ""}, "a function of somebody else": {"other", ""}, "its alias": {"other", "live"},
	} {
		add("fc", at, "InvokeFunction", func(ctx context.Context, c *caller) error {
			_, err := c.functions.Invoke(ctx, target[0], target[1], nil)
			return err
		})
	}
	add("fc", "what its alias points to", "GetAlias", func(ctx context.Context, c *caller) error {
		_, err := c.functions.AliasVersion(ctx, values.Function, "live")
		return err
	})
	return all
}

func rawBatchGet(c *tablestore.TableStoreClient, all ...aliyun.Table) error {
	req := new(tablestore.BatchGetRowRequest)
	for _, t := range all {
		criteria := &tablestore.MultiRowQueryCriteria{TableName: t.Name, MaxVersion: 1}
		criteria.AddRow(rawKey(t, "batch"))
		req.MultiRowQueryCriteria = append(req.MultiRowQueryCriteria, criteria)
	}
	_, err := c.BatchGetRow(req)
	return err
}

// turnedAway is refused, for HEAD as well, whose refusal has no body and no code.
func turnedAway(err error) bool {
	var se oss.ServiceError
	return refused(err) || (errors.As(err, &se) && se.StatusCode == http.StatusForbidden)
}

// cell finds what the matrix asks about an action on a row.
func cell(t *testing.T, service string, need [2]string) cloudtest.Access {
	t.Helper()
	for _, p := range matrix() {
		for _, r := range p.rows {
			if p.service == service && r.name == need[0] && slices.Contains(r.actions, need[1]) {
				return p.access(r, need[1])
			}
		}
	}
	t.Fatalf("the matrix has no cell for %s %v", service, need)
	return cloudtest.Access{}
}

func TestTheServicesRefuseWhatTheMatrixRefusesAndNothingElse(t *testing.T) {
	all := probes()
	needs := make([][]cloudtest.Access, len(all))
	for i, p := range all {
		for _, n := range p.needs {
			needs[i] = append(needs[i], cell(t, p.service, n))
		}
	}
	for _, role := range Roles {
		t.Run(string(role), func(t *testing.T) {
			t.Parallel()
			r := newRoom(t)
			policies := []cloudtest.Policy{parse(t, render(t, role))}
			c := r.as(t, cloudtest.AssumedRole("oncegate-test", "amy", policies...))
			for i, p := range all {
				want := slices.ContainsFunc(needs[i], func(a cloudtest.Access) bool { return cloudtest.Evaluate(policies, a) != cloudtest.Allow })
				if err := p.call(t.Context(), c); turnedAway(err) != want {
					t.Errorf("%s: refused: %v, want %v: %v", p, turnedAway(err), want, err)
				}
			}
		})
	}
}

func TestEveryActionOfTheMatrixThatAStandInServesIsProved(t *testing.T) {
	proved := map[string]bool{}
	for _, p := range probes() {
		for _, n := range p.needs {
			proved[p.service+" "+n[0]+" "+n[1]] = true
		}
	}
	for _, p := range matrix() {
		for _, r := range p.rows {
			for _, a := range r.actions {
				served := p.service == "oss" && r.name != "dead-letters/ of another bucket" && (r.name != "another bucket" || !slices.Contains(listActions, a)) ||
					p.service == "ots" && strings.HasPrefix(r.resource, "instance/"+values.Instance+"/") && !strings.HasPrefix(r.name, "a table to come") || a == "InvokeFunction"
				if served && !proved[p.service+" "+r.name+" "+a] {
					t.Errorf("%s: nobody calls %s through the SDK", r.name, a)
				}
			}
		}
	}
}
