package idempotency

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync"

	"github.com/oncegate/oncegate/internal/strictjson"
)

// Digest is the hex SHA-256 of the canonical form of a payload. Two payloads
// that mean the same have one digest: names are sorted by code point, numbers
// compare by exact decimal value. What the paths in without lead to does not
// count: members of objects are left out, elements of arrays stand as null, so
// that their neighbours keep their places. A missing payload counts as null.
func Digest(payload strictjson.Value, without ...strictjson.Path) string {
	w := writers.Get().(*canonical)
	w.out = slices.Grow(w.out[:0], len(payload.Raw())+64)
	w.whole(payload, without)
	digest := DigestBinary(w.out)
	writers.Put(w) // not where it panicked: its members would be half of an object's
	return digest
}

// writers keep their room from one digest to the next: an event's is as large as
// the event, and is not needed once it was hashed.
var writers = sync.Pool{New: func() any { return new(canonical) }}

// DigestBinary is the hex SHA-256 of bytes: the digest of binary data.
func DigestBinary(data []byte) string {
	sum := sha256.Sum256(data)
	var text [2 * sha256.Size]byte
	hex.Encode(text[:], sum[:])
	return string(text[:])
}
