package idempotency

import (
	"crypto/sha256"
	"encoding/hex"

	"github.com/oncegate/oncegate/internal/strictjson"
)

// Digest is the hex SHA-256 of the canonical form of a payload. Two payloads
// that mean the same have one digest: names are sorted by code point, numbers
// compare by exact decimal value. What the paths in without lead to does not
// count: members of objects are left out, elements of arrays stand as null, so
// that their neighbours keep their places. A missing payload counts as null.
func Digest(payload strictjson.Value, without ...strictjson.Path) string {
	return DigestBinary(AppendCanonical(make([]byte, 0, len(payload.Raw())+64), payload, without...))
}

// DigestBinary is the hex SHA-256 of bytes: the digest of binary data.
func DigestBinary(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
