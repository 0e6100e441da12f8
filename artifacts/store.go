// Package artifacts stores what runs read and write as OSS objects.
//
//	tasks/<key>/input.json                   the claim's input
//	tasks/<key>/attempt-001/output.json      one output an attempt
//	dead-letters/<id>/event.bin              the raw bytes of an event
//
// Object names carry the attempt, a number that only one owner ever holds, and
// that is what keeps owners apart: OSS ignores forbid-overwrite on a bucket with
// versions, so nothing here decides ownership.
package artifacts

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

// Names of the metadata that every object carries.
const (
	metaKey              = "oncegate-key"
	metaAttempt          = "oncegate-attempt"
	metaInputDigest      = "oncegate-input-digest"
	metaProcessorVersion = "oncegate-processor-version"
	metaSHA256           = "oncegate-sha256"
)

// Label is what an object says about itself.
type Label struct {
	Key              string
	Attempt          int64
	InputDigest      string
	ProcessorVersion string
}

func (l Label) metadata(bodySHA256 string) map[string]string {
	return map[string]string{
		metaKey: l.Key, metaAttempt: strconv.FormatInt(l.Attempt, 10), metaInputDigest: l.InputDigest,
		metaProcessorVersion: l.ProcessorVersion, metaSHA256: bodySHA256,
	}
}

func sum(body []byte) string {
	s := sha256.Sum256(body)
	return hex.EncodeToString(s[:])
}

// InputName is the object name of a task's input.
func InputName(key string) string { return "tasks/" + key + "/input.json" }

// OutputName is the object name of an attempt's output.
func OutputName(key string, attempt int64) string {
	return fmt.Sprintf("tasks/%s/attempt-%03d/output.json", key, attempt)
}

// attemptOf reads the attempt from an output's name.
func attemptOf(key, name string) (int64, bool) {
	rest, ok := strings.CutPrefix(name, "tasks/"+key+"/attempt-")
	if !ok {
		return 0, false
	}
	digits, ok := strings.CutSuffix(rest, "/output.json")
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	return n, err == nil && n > 0 && OutputName(key, n) == name
}

// Expiry is how long objects are kept, by their class tag, in days. A result
// outlives its record; approved results are kept until somebody removes them.
// Former versions, which only a second writer of one name leaves behind, go
// after a month; those of letters are kept as long as letters are, because a
// letter may name one of them.
func Expiry(retentionDays int) []aliyun.ExpiryRule {
	rule := func(class, prefix string, days int) aliyun.ExpiryRule {
		noncurrent := 30
		if class == "letter" {
			noncurrent = days
		}
		return aliyun.ExpiryRule{
			ID: aliyun.LifecyclePrefix + class, Prefix: prefix, TagKey: "class", TagValue: class, Days: days, NoncurrentDays: noncurrent,
		}
	}
	return []aliyun.ExpiryRule{
		rule("input", "tasks/", retentionDays+30),
		rule("output", "tasks/", 2*retentionDays+30),
		rule("approved", "tasks/", 0),
		rule("letter", "dead-letters/", retentionDays+30),
		{ID: aliyun.LifecyclePrefix + "task-markers", Prefix: "tasks/", DeleteMarkers: true},
		{ID: aliyun.LifecyclePrefix + "letter-markers", Prefix: "dead-letters/", DeleteMarkers: true},
	}
}

// Store writes and reads objects of one bucket.
type Store struct {
	bucket     *aliyun.Bucket
	encryption string
	seal       *SealKey // nil: letters are stored as they are
}

// NewStore returns a store; it makes no call. encryption is the server-side
// encryption that objects ask for: AES256, KMS, or "" for the bucket's setting.
func NewStore(bucket *aliyun.Bucket, encryption string) *Store {
	return &Store{bucket: bucket, encryption: encryption}
}

func (s *Store) put(ctx context.Context, name, class string, label Label, contentType string, body []byte) (idempotency.Ref, error) {
	hash := sum(body)
	version, err := s.bucket.Put(ctx, name, aliyun.Object{
		Body: body, ContentType: contentType, Metadata: label.metadata(hash),
		Tags: map[string]string{"class": class}, Encryption: s.encryption,
	})
	if err != nil {
		return idempotency.Ref{}, err
	}
	return idempotency.Ref{Object: name, VersionID: version, SHA256: hash}, nil
}

// PutInput stores the input of a run.
func (s *Store) PutInput(ctx context.Context, l Label, body []byte) error {
	if _, err := s.put(ctx, InputName(l.Key), "input", l, "application/json", body); err != nil {
		return fmt.Errorf("store input: %w", err)
	}
	return nil
}

// PutAttemptInput stores the input of a run that works on another input than the
// task's first one, beside the attempt's output.
func (s *Store) PutAttemptInput(ctx context.Context, l Label, body []byte) error {
	if _, err := s.put(ctx, AttemptInputName(l.Key, l.Attempt), "input", l, "application/json", body); err != nil {
		return fmt.Errorf("store input: %w", err)
	}
	return nil
}

// PutOutput stores the output of an attempt.
func (s *Store) PutOutput(ctx context.Context, l Label, body []byte) (idempotency.Ref, error) {
	ref, err := s.put(ctx, OutputName(l.Key, l.Attempt), "output", l, "application/json", body)
	if err != nil {
		return idempotency.Ref{}, fmt.Errorf("store output: %w", err)
	}
	return ref, nil
}

// DraftName is the object name of a draft: it follows from task and effect, so
// that saving a draft twice leaves one.
func DraftName(taskKey, effectKey string) string {
	return "tasks/" + taskKey + "/draft-" + effectKey[:min(12, len(effectKey))] + ".json"
}

// SaveDraft stores a draft for people to work on.
func (s *Store) SaveDraft(ctx context.Context, taskKey, effectKey string, body []byte) (string, error) {
	name := DraftName(taskKey, effectKey)
	if _, err := s.put(ctx, name, "output", Label{Key: taskKey}, "application/json", body); err != nil {
		return "", fmt.Errorf("save draft: %w", err)
	}
	return name, nil
}

// AttemptInputName is the object name of the input of an attempt that works on
// another input than the task's first one.
func AttemptInputName(key string, attempt int64) string {
	return fmt.Sprintf("tasks/%s/attempt-%03d/input.json", key, attempt)
}

// ApprovedName is the object name of a task's approved result.
func ApprovedName(key string) string { return "tasks/" + key + "/approved/result.md" }

// PutApproved stores a result as a person has approved it.
func (s *Store) PutApproved(ctx context.Context, key string, body []byte) (string, error) {
	name := ApprovedName(key)
	if _, err := s.put(ctx, name, "approved", Label{Key: key}, "text/markdown; charset=utf-8", body); err != nil {
		return "", fmt.Errorf("store approved result: %w", err)
	}
	return name, nil
}

// Stored is an output that an earlier attempt left behind.
type Stored struct {
	Ref     idempotency.Ref
	Attempt int64
	Body    []byte
}

// maxAttempts bounds how many names a look for outputs reads.
const maxAttempts = 10000

// Adopt finds the newest output of attempts before l.Attempt that was made from
// the same input by the same processor version, and whose bytes are whole; ok is
// false where there is none.
func (s *Store) Adopt(ctx context.Context, l Label) (found Stored, ok bool, err error) {
	names, err := s.bucket.List(ctx, "tasks/"+l.Key+"/attempt-", maxAttempts)
	if err != nil {
		return Stored{}, false, fmt.Errorf("look for outputs: %w", err)
	}
	var attempts []int64
	for _, name := range names {
		if n, ok := attemptOf(l.Key, name); ok && n < l.Attempt {
			attempts = append(attempts, n)
		}
	}
	slices.Sort(attempts)
	for _, n := range slices.Backward(attempts) {
		name := OutputName(l.Key, n)
		o, err := s.bucket.Get(ctx, name, "")
		if aliyun.KindOf(err) == aliyun.KindNotFound {
			continue
		}
		if err != nil {
			return Stored{}, false, fmt.Errorf("read stored output: %w", err)
		}
		if o.Metadata[metaInputDigest] != l.InputDigest || o.Metadata[metaProcessorVersion] != l.ProcessorVersion ||
			o.Metadata[metaKey] != l.Key || o.Metadata[metaSHA256] != sum(o.Body) {
			continue
		}
		return Stored{idempotency.Ref{Object: name, VersionID: o.VersionID, SHA256: sum(o.Body)}, n, o.Body}, true, nil
	}
	return Stored{}, false, nil
}

// Read returns the bytes that a reference names, checked against its hash.
func (s *Store) Read(ctx context.Context, ref idempotency.Ref) ([]byte, error) {
	o, err := s.bucket.Get(ctx, ref.Object, ref.VersionID)
	if err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	if sum(o.Body) != ref.SHA256 {
		return nil, fmt.Errorf("read object %s: its bytes are not the ones that were stored", ref.Object)
	}
	return o.Body, nil
}

// ReadContent reads an object of a user, the current version for versionID "".
// bucket "" is the store's own. A missing object is an *aliyun.Error of
// KindNotFound.
func (s *Store) ReadContent(ctx context.Context, bucket, object, versionID string) ([]byte, error) {
	b := s.bucket
	if bucket != "" {
		b = b.Named(bucket)
	}
	o, err := b.Get(ctx, object, versionID)
	if err != nil {
		return nil, fmt.Errorf("read content: %w", err)
	}
	return o.Body, nil
}
