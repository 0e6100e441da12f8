package artifacts

import (
	"fmt"
	"testing"

	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

// upload stores a user's object and returns its version.
func (s *stand) upload(bucket, name, body string) string {
	s.t.Helper()
	b := s.bucket.Named(bucket)
	if _, err := b.Create(s.t.Context()); err != nil {
		s.t.Fatal(err)
	}
	version, err := b.Put(s.t.Context(), name, aliyun.Object{Body: []byte(body), ContentType: "text/plain"})
	if err != nil {
		s.t.Fatal(err)
	}
	return version
}

func TestContentIsReadByNameOrByVersion(t *testing.T) {
	s := newStand(t, "")
	first := s.upload("room", "a b/你好.txt", "one")
	second := s.upload("room", "a b/你好.txt", "two")
	s.upload("elsewhere", "a b/你好.txt", "elsewhere")
	s.upload("room", "empty", "")
	if first == second {
		t.Fatal("two versions are one")
	}
	for _, c := range []struct{ name, bucket, object, version, want string }{
		{"the current version", "", "a b/你好.txt", "", "two"},
		{"the own bucket by its name", "room", "a b/你好.txt", "", "two"},
		{"S27 an older version after an overwrite", "", "a b/你好.txt", first, "one"},
		{"another bucket", "elsewhere", "a b/你好.txt", "", "elsewhere"},
		{"an empty object", "", "empty", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			body, err := s.store.ReadContent(t.Context(), c.bucket, c.object, c.version)
			if err != nil || string(body) != c.want || body == nil {
				t.Errorf("got %q %v, want %q", body, err, c.want)
			}
		})
	}
	if body, err := s.store.ReadContent(t.Context(), "", "a b/你好.txt", ""); err != nil || string(body) != "two" {
		t.Errorf("another bucket's read moved the store: %q %v", body, err)
	}
}

func TestContentThatIsNotThereIsNotFound(t *testing.T) {
	s := newStand(t, "")
	version := s.upload("room", "a", "one")
	for _, c := range []struct{ name, bucket, object, version string }{
		{"no object", "", "nothing", ""},
		{"no bucket", "nowhere", "a", ""},
		{"no version", "", "a", version[:len(version)-1] + "F"},
		{"another object's version", "", "b", version},
	} {
		t.Run(c.name, func(t *testing.T) {
			body, err := s.store.ReadContent(t.Context(), c.bucket, c.object, c.version)
			if aliyun.KindOf(err) != aliyun.KindNotFound || body != nil {
				t.Errorf("got %q %v", body, err)
			}
		})
	}
}

func TestContentThatCannotBeReadIsAnErrorOfItsKind(t *testing.T) {
	for _, c := range []struct {
		fault cloudtest.Fault
		want  aliyun.Kind
	}{
		{cloudtest.Fault{Kind: cloudtest.Drop}, aliyun.KindUnknown},
		{cloudtest.Fault{Kind: cloudtest.Truncate, Phase: cloudtest.After}, aliyun.KindUnknown},
		{cloudtest.Fault{Kind: cloudtest.Status, Status: 503, Code: "InternalError"}, aliyun.KindUnknown},
		{cloudtest.Fault{Kind: cloudtest.Status, Status: 403, Code: "AccessDenied"}, aliyun.KindDenied},
		{cloudtest.Fault{Kind: cloudtest.Status, Status: 404, Code: "NoSuchKey"}, aliyun.KindNotFound},
		{cloudtest.Fault{Kind: cloudtest.Status, Status: 429, Code: "QpsLimitExceeded"}, aliyun.KindThrottled},
	} {
		t.Run(fmt.Sprint(c.fault.Kind, " ", c.fault.Code), func(t *testing.T) {
			s := newStand(t, "")
			s.upload("room", "a", "a body that can be cut")
			s.srv.Faults.ResetCalls()
			c.fault.Op, c.fault.Times = "GetObject", -1
			s.srv.Faults.Add(c.fault)
			body, err := s.store.ReadContent(t.Context(), "", "a", "")
			if err == nil || body != nil || aliyun.KindOf(err) != c.want {
				t.Errorf("got %q %v, want %s", body, err, c.want)
			}
			if n := s.srv.Faults.Calls()["GetObject"]; n != 1 {
				t.Errorf("%d calls: the platform alone tries again", n)
			}
		})
	}
}
