package artifacts

import (
	"context"
	"fmt"
	"strings"

	"github.com/oncegate/oncegate/idempotency"
	"github.com/oncegate/oncegate/internal/aliyun"
)

// Names of the metadata of a sealed letter; its oncegate-sha256 is that of the
// raw bytes.
const (
	metaSealKey      = "oncegate-seal-key"
	metaSealSuite    = "oncegate-seal-suite"
	metaSealedSHA256 = "oncegate-sealed-sha256"
)

// LetterName is the object name of a dead letter's raw event.
func LetterName(id string) string { return "dead-letters/" + id + "/event.bin" }

// Sealing returns a store that seals the letters it writes, or one that does not
// for a nil key. Whoever loses the private key loses what was sealed.
func (s *Store) Sealing(key *SealKey) *Store {
	sealing := *s
	sealing.seal = key
	return &sealing
}

// PutLetter stores the raw bytes of an event that becomes a dead letter, sealed
// where the store seals. The reference names the version that was written, since
// two deliveries of one event may differ in their bytes, and the hash of the raw
// bytes.
func (s *Store) PutLetter(ctx context.Context, id string, raw []byte) (idempotency.Ref, error) {
	name, body := LetterName(id), raw
	meta := map[string]string{metaSHA256: sum(raw)}
	if s.seal != nil {
		var err error
		if body, err = s.seal.seal(name, raw); err != nil {
			return idempotency.Ref{}, fmt.Errorf("store letter: seal to key %s: %w", s.seal.ID(), err)
		}
		meta[metaSealKey], meta[metaSealSuite], meta[metaSealedSHA256] = s.seal.ID(), suiteX25519, sum(body)
	}
	version, err := s.bucket.Put(ctx, name, aliyun.Object{
		Body: body, ContentType: "application/octet-stream", Metadata: meta,
		Tags: map[string]string{"class": "letter"}, Encryption: s.encryption,
	})
	if err != nil {
		return idempotency.Ref{}, fmt.Errorf("store letter: %w", err)
	}
	return idempotency.Ref{Object: name, VersionID: version, SHA256: sum(raw)}, nil
}

// DropLetter removes the version of a letter's object that a reference names.
// Former versions, and all of a bucket that keeps none, are left to the lifecycle
// rules: dropped is false there.
func (s *Store) DropLetter(ctx context.Context, id string, ref idempotency.Ref) (dropped bool, err error) {
	if ref.Object != LetterName(id) || ref.VersionID == "" {
		return false, nil
	}
	if err := s.bucket.DeleteVersion(ctx, ref.Object, ref.VersionID); err != nil {
		return false, fmt.Errorf("drop letter %s: %w", id, err)
	}
	return true, nil
}

// ReadLetter returns the raw bytes that a letter's reference names, opened with
// the key they are sealed to and checked against the reference's hash. Bytes that
// were stored before sealing was turned on need no key. Errors wrap ErrSealed
// where the key is not among keys, ErrAltered where the object is not what was
// stored, and an *aliyun.Error of KindNotFound where there is none.
func (s *Store) ReadLetter(ctx context.Context, id string, ref idempotency.Ref, keys PrivateKeys) ([]byte, error) {
	name := LetterName(id)
	if ref.Object != name {
		return nil, fmt.Errorf("read letter %s: %w: its reference names another object", id, ErrAltered)
	}
	o, err := s.bucket.Get(ctx, name, ref.VersionID)
	if err != nil {
		return nil, fmt.Errorf("read letter %s: %w", id, err)
	}
	raw := o.Body
	if keyID, sealed := o.Metadata[metaSealKey]; sealed {
		if raw, err = unseal(o, name, keyID, keys); err != nil {
			return nil, fmt.Errorf("read letter %s: %w", id, err)
		}
	}
	if sum(raw) != ref.SHA256 {
		return nil, fmt.Errorf("read letter %s: %w: its hash is another one", id, ErrAltered)
	}
	return raw, nil
}

func unseal(o aliyun.Object, name, keyID string, keys PrivateKeys) ([]byte, error) {
	if suite := o.Metadata[metaSealSuite]; suite != suiteX25519 {
		return nil, fmt.Errorf("%w by a suite that this version does not know: use a newer oncegate", ErrSealed)
	}
	if sum(o.Body) != o.Metadata[metaSealedSHA256] {
		return nil, fmt.Errorf("%w: its sealed bytes were changed or cut", ErrAltered)
	}
	key := keys.find(keyID)
	if key == nil {
		held := "no private key is given"
		if len(keys) > 0 {
			held = "given is " + strings.Join(keys.IDs(), ", ")
		}
		return nil, fmt.Errorf("%w to key %.16q and %s: name the file that holds its private key in ONCEGATE_SEAL_PRIVATE_KEY_FILE", ErrSealed, keyID, held)
	}
	raw, err := key.open(name, o.Body)
	if err != nil {
		return nil, fmt.Errorf("%w: key %s does not open it in this place: %w", ErrAltered, keyID, err)
	}
	return raw, nil
}
