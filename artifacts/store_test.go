package artifacts

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/oncegate/oncegate/artifacts/osstest"
	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
	"github.com/oncegate/oncegate/internal/cloudtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "k1"

func label(attempt int64) Label {
	return Label{Key: key, Attempt: attempt, InputDigest: "d1", ProcessorVersion: "p1.m"}
}

type stand struct {
	t      *testing.T
	srv    *osstest.Server
	bucket *aliyun.Bucket
	store  *Store
	creds  aliyun.Credentials
}

func newStand(t *testing.T, encryption string) *stand {
	t.Helper()
	creds := new(cloudtest.Credentials)
	cred := creds.Issue(time.Time{})
	srv, err := osstest.New(osstest.Options{Credentials: creds})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Close() })
	own := aliyun.Credentials{AccessKeyID: cred.AccessKeyID, AccessKeySecret: cred.AccessKeySecret, SecurityToken: cred.SecurityToken}
	bucket, err := aliyun.NewBucket("http://127.0.0.1", "room", aliyun.Options{
		Credentials: func(context.Context) (aliyun.Credentials, error) { return own, nil },
		Transport:   srv.Transport(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := bucket.Create(t.Context()); err != nil {
		t.Fatal(err)
	}
	srv.Faults.ResetCalls()
	return &stand{t, srv, bucket, NewStore(bucket, encryption), own}
}

func (s *stand) put(l Label, body string) idempotency.Ref {
	s.t.Helper()
	ref, err := s.store.PutOutput(s.t.Context(), l, []byte(body))
	if err != nil {
		s.t.Fatal(err)
	}
	return ref
}

func TestObjectsSayWhatTheyAre(t *testing.T) {
	meta := func(l Label, body string) map[string]string {
		return map[string]string{
			"oncegate-key": l.Key, "oncegate-attempt": fmt.Sprint(l.Attempt), "oncegate-input-digest": l.InputDigest,
			"oncegate-processor-version": l.ProcessorVersion, "oncegate-sha256": sum([]byte(body)),
		}
	}
	for _, encryption := range []string{"AES256", "KMS", ""} {
		t.Run("encryption "+encryption, func(t *testing.T) {
			s := newStand(t, encryption)
			if err := s.store.PutInput(t.Context(), label(1), []byte("in")); err != nil {
				t.Fatal(err)
			}
			ref := s.put(label(12), "out")
			letter, err := s.store.PutLetter(t.Context(), "l1", []byte{0, 255, 1})
			if err != nil || letter.Object != "dead-letters/l1/event.bin" || letter.SHA256 != sum([]byte{0, 255, 1}) {
				t.Fatal(letter, err)
			}
			got := s.srv.Objects("room")
			for i := range got {
				if got[i].VersionID == "" || got[i].VersionID == "null" {
					t.Errorf("%s has version %q", got[i].Key, got[i].VersionID)
				}
				if got[i].Key == ref.Object && got[i].VersionID != ref.VersionID {
					t.Errorf("the reference names version %q, stored is %q", ref.VersionID, got[i].VersionID)
				}
				if got[i].Key == letter.Object && got[i].VersionID != letter.VersionID {
					t.Errorf("the letter's reference names version %q, stored is %q", letter.VersionID, got[i].VersionID)
				}
				got[i].VersionID = ""
			}
			want := []osstest.Object{
				{
					Key: "dead-letters/l1/event.bin", Body: []byte{0, 255, 1}, ContentType: "application/octet-stream", SSE: encryption,
					Metadata: map[string]string{"oncegate-sha256": sum([]byte{0, 255, 1})}, Tags: map[string]string{"class": "letter"},
				},
				{
					Key: "tasks/k1/attempt-012/output.json", Body: []byte("out"), ContentType: "application/json", SSE: encryption,
					Metadata: meta(label(12), "out"), Tags: map[string]string{"class": "output"},
				},
				{
					Key: "tasks/k1/input.json", Body: []byte("in"), ContentType: "application/json", SSE: encryption,
					Metadata: meta(label(1), "in"), Tags: map[string]string{"class": "input"},
				},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if ref.Object != "tasks/k1/attempt-012/output.json" || ref.SHA256 != sum([]byte("out")) {
				t.Errorf("reference %+v", ref)
			}
		})
	}
}

func TestNamesCarryTheAttemptInThreeDigitsAtLeast(t *testing.T) {
	for attempt, want := range map[int64]string{1: "001", 42: "042", 999: "999", 1000: "1000", 123456: "123456"} {
		name := OutputName(key, attempt)
		if name != "tasks/k1/attempt-"+want+"/output.json" {
			t.Errorf("attempt %d: %s", attempt, name)
		}
		if got, ok := attemptOf(key, name); !ok || got != attempt {
			t.Errorf("%s: got %d %v", name, got, ok)
		}
	}
	for _, name := range []string{
		"", "tasks/k1/input.json", "tasks/k1/attempt-1/output.json", "tasks/k1/attempt-01/output.json", "tasks/k1/attempt-0001/output.json",
		"tasks/k1/attempt-000/output.json", "tasks/k1/attempt--01/output.json", "tasks/k1/attempt-+01/output.json", "tasks/k1/attempt-001/output.json.bak",
		"tasks/k1/attempt-001/input.json", "tasks/k1/attempt-001/x/output.json", "tasks/k2/attempt-001/output.json", "tasks/k1/attempt-0x1/output.json",
		"tasks/k1/attempt-99999999999999999999/output.json", "x/tasks/k1/attempt-001/output.json", "tasks/k1/attempt-001/output.json/",
	} {
		if n, ok := attemptOf(key, name); ok {
			t.Errorf("%q was read as attempt %d", name, n)
		}
	}
}

func TestAdoptTakesTheNewestThatFits(t *testing.T) {
	other := func(edit func(*Label)) Label { l := label(4); edit(&l); return l }
	for _, c := range []struct {
		name string
		put  func(*stand)
		own  int64
		want int64 // 0: none
	}{
		{"S8 nothing is stored", func(*stand) {}, 2, 0},
		{"S8 the newest of several", func(s *stand) { s.put(label(1), "1"); s.put(label(3), "3"); s.put(label(2), "2") }, 5, 3},
		{"the 1000th after the 999th", func(s *stand) { s.put(label(1000), "a"); s.put(label(999), "b") }, 1001, 1000},
		{"not the own attempt, nor later ones", func(s *stand) { s.put(label(1), "1"); s.put(label(5), "5"); s.put(label(6), "6") }, 5, 1},
		{"only later ones", func(s *stand) { s.put(label(5), "5") }, 5, 0},
		{"not another input's", func(s *stand) { s.put(label(1), "1"); s.put(other(func(l *Label) { l.InputDigest = "d2" }), "4") }, 5, 1},
		{"not another processor version's", func(s *stand) { s.put(label(1), "1"); s.put(other(func(l *Label) { l.ProcessorVersion = "p2" }), "4") }, 5, 1},
		{"not another task's", func(s *stand) { s.put(other(func(l *Label) { l.Key = "k1x" }), "4") }, 5, 0},
		{"not one whose bytes are not whole", func(s *stand) { s.put(label(1), "1"); s.broken(4) }, 5, 1},
		{"not one that says another key", func(s *stand) { s.renamed(4) }, 5, 0},
		{"not an odd name", func(s *stand) { s.raw("tasks/k1/attempt-3/output.json"); s.raw("tasks/k1/attempt-003/input.json") }, 5, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStand(t, "")
			c.put(s)
			got, ok, err := s.store.Adopt(t.Context(), label(c.own))
			if err != nil || ok != (c.want != 0) || got.Attempt != c.want {
				t.Fatalf("got attempt %d %v %v, want %d", got.Attempt, ok, err, c.want)
			}
			if !ok {
				return
			}
			body, err := s.store.Read(t.Context(), got.Ref)
			if err != nil || string(body) != string(got.Body) || got.Ref.Object != OutputName(key, c.want) || got.Ref.VersionID == "" {
				t.Errorf("the reference reads as %q %v", body, err)
			}
		})
	}
}

// object stores bytes under a name with a right label and a hash of other bytes.
func (s *stand) object(name string, l Label, body, hashed string) {
	s.t.Helper()
	if _, err := s.bucket.Put(s.t.Context(), name, aliyun.Object{Body: []byte(body), ContentType: "application/json", Metadata: l.metadata(sum([]byte(hashed)))}); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stand) broken(n int64)  { s.object(OutputName(key, n), label(n), "broken", "whole") }
func (s *stand) raw(name string) { s.object(name, label(3), "x", "x") }

func (s *stand) renamed(n int64) {
	l := label(n)
	l.Key = "k2"
	s.object(OutputName(key, n), l, "x", "x")
}

func TestAdoptLooksBeyondOnePageOfNames(t *testing.T) {
	s := newStand(t, "")
	for n := range int64(1005) {
		s.put(label(n+1), "x")
	}
	s.srv.Faults.ResetCalls()
	got, ok, err := s.store.Adopt(t.Context(), label(2000))
	if err != nil || !ok || got.Attempt != 1005 {
		t.Errorf("got %d %v %v", got.Attempt, ok, err)
	}
	if calls := s.srv.Faults.Calls(); calls["ListObjects"] != 2 || calls["GetObject"] != 1 {
		t.Errorf("calls %v", calls)
	}
}

func TestAdoptFailsWhereItCannotLook(t *testing.T) {
	for _, op := range []string{"ListObjects", "GetObject"} {
		for _, kind := range []cloudtest.Kind{cloudtest.Drop, cloudtest.Truncate, cloudtest.Status} {
			t.Run(fmt.Sprintf("%s %s", op, kind), func(t *testing.T) {
				s := newStand(t, "")
				s.put(label(1), strings.Repeat("x", 100))
				s.srv.Faults.ResetCalls()
				s.srv.Faults.Add(cloudtest.Fault{Op: op, Phase: cloudtest.After, Kind: kind, Status: 503, Code: "InternalError"})
				if got, ok, err := s.store.Adopt(t.Context(), label(2)); err == nil || ok {
					t.Errorf("got %v %v", got, ok)
				}
				if n := s.srv.Faults.Calls()[op]; n != 1 {
					t.Errorf("%d calls", n)
				}
			})
		}
	}
}

func TestAdoptPassesOverAnObjectThatIsGone(t *testing.T) {
	s := newStand(t, "")
	s.put(label(1), "1")
	s.put(label(2), "2")
	s.srv.Faults.Add(cloudtest.Fault{Op: "GetObject", Kind: cloudtest.Status, Status: 404, Code: "NoSuchKey"})
	if got, ok, err := s.store.Adopt(t.Context(), label(3)); err != nil || !ok || got.Attempt != 1 {
		t.Errorf("got %d %v %v", got.Attempt, ok, err)
	}
}

func TestReadChecksTheHash(t *testing.T) {
	s := newStand(t, "")
	ref := s.put(label(1), "one")
	s.put(label(1), "two") // another version under the same name
	if body, err := s.store.Read(t.Context(), ref); err != nil || string(body) != "one" {
		t.Errorf("the version that was stored: %q %v", body, err)
	}
	for name, edit := range map[string]func(*idempotency.Ref){
		"S27 the current version is another": func(r *idempotency.Ref) { r.VersionID = "" },
		"another hash":                       func(r *idempotency.Ref) { r.SHA256 = sum([]byte("three")) },
		"no hash":                            func(r *idempotency.Ref) { r.SHA256 = "" },
		"another object":                     func(r *idempotency.Ref) { r.Object = "nothing" },
	} {
		t.Run(name, func(t *testing.T) {
			wrong := ref
			edit(&wrong)
			if body, err := s.store.Read(t.Context(), wrong); err == nil || body != nil {
				t.Errorf("got %q", body)
			}
		})
	}
}

func TestPutsThatFailAreErrors(t *testing.T) {
	s := newStand(t, "")
	s.srv.Faults.Add(cloudtest.Fault{Op: "PutObject", Kind: cloudtest.Drop, Times: -1})
	_, outputErr := s.store.PutOutput(t.Context(), label(1), nil)
	_, letterErr := s.store.PutLetter(t.Context(), "l", nil)
	for verb, err := range map[string]error{"input": s.store.PutInput(t.Context(), label(1), nil), "output": outputErr, "letter": letterErr} {
		if err == nil || !strings.HasPrefix(err.Error(), "store "+verb) {
			t.Errorf("%s: %v", verb, err)
		}
	}
	if n := s.srv.Faults.Calls()["PutObject"]; n != 3 || len(s.srv.Objects("room")) != 0 {
		t.Errorf("%d calls", n)
	}
}

func TestALettersFormerVersionsLiveAsLongAsTheLetterMayNameThem(t *testing.T) {
	for _, r := range Expiry(90) {
		if want := map[bool]int{true: 120, false: 30}[r.TagValue == "letter"]; r.TagValue != "" && r.NoncurrentDays != want {
			t.Errorf("%s: former versions go after %d days, want %d", r.ID, r.NoncurrentDays, want)
		}
	}
}
