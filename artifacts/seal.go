package artifacts

import (
	"bytes"
	"crypto/ecdh"
	"crypto/hpke"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

// The one suite of today, RFC 9180: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256,
// AES-256-GCM. A key's text begins with its KEM, so that a later suite is
// another number and not another format.
const (
	kemX25519   = 0x0020
	suiteX25519 = "hpke-0020-0001-0002"
)

// How the two keys are written: a prefix, then base64 of the KEM's two bytes
// and the key's.
const (
	sealPrefix    = "oncegate-seal-v1:"
	privatePrefix = "oncegate-seal-private-v1:"
)

// sealInfo binds sealed bytes to what they are and to the object they lie in.
func sealInfo(object string) []byte { return []byte("oncegate/dead-letter/v1\x00" + object) }

// ErrSealed says that a letter is sealed to a key that is not at hand; the error
// around it names the key.
var ErrSealed = errors.New("the raw event is sealed")

// ErrAltered says that an object does not hold the bytes that were stored.
var ErrAltered = errors.New("the raw event is not the one that was stored")

// SealKey is the public key that letters are sealed to. It opens nothing.
type SealKey struct{ public hpke.PublicKey }

// ParseSealKey reads a public key's one line. Errors never quote it.
func ParseSealKey(text string) (*SealKey, error) {
	text = strings.TrimSpace(text)
	if strings.HasPrefix(text, privatePrefix) {
		return nil, errors.New("is a private key, which belongs in a file of its own: take it out, and make a new pair with oncegate seal-key new")
	}
	raw, err := keyBytes(text, sealPrefix)
	if err != nil {
		return nil, err
	}
	public, err := hpke.DHKEM(ecdh.X25519()).NewPublicKey(raw)
	if err != nil {
		return nil, errNoSealKey
	}
	// A point of low order is a key by form and seals nothing.
	if _, err := hpke.Seal(public, hpke.HKDFSHA256(), hpke.AES256GCM(), nil, nil); err != nil {
		return nil, errNoSealKey
	}
	return &SealKey{public}, nil
}

var errNoSealKey = errors.New("is no key of oncegate seal-key: it must be one whole line as oncegate seal-key new printed it")

func keyBytes(text, prefix string) ([]byte, error) {
	encoded, ok := strings.CutPrefix(text, prefix)
	if !ok {
		return nil, errNoSealKey
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if err != nil || len(raw) < 2 {
		return nil, errNoSealKey
	}
	if binary.BigEndian.Uint16(raw) != kemX25519 {
		return nil, errors.New("is a key of a suite that this version does not know: use a newer oncegate")
	}
	return raw[2:], nil
}

func keyText(prefix string, key []byte) string {
	return prefix + base64.StdEncoding.EncodeToString(append([]byte{kemX25519 >> 8, kemX25519 & 0xff}, key...))
}

// String is the key's one line.
func (k *SealKey) String() string { return keyText(sealPrefix, k.public.Bytes()) }

// ID names the key: the first 16 hex digits of the SHA-256 of its bytes.
func (k *SealKey) ID() string { return sum(k.public.Bytes())[:16] }

func (k *SealKey) seal(object string, raw []byte) ([]byte, error) {
	return hpke.Seal(k.public, hpke.HKDFSHA256(), hpke.AES256GCM(), sealInfo(object), raw)
}

// PrivateKey opens what was sealed to its public key. It prints as its id.
type PrivateKey struct {
	private hpke.PrivateKey
	public  SealKey
}

// NewPrivateKey makes a key out of the system's randomness, which crypto/hpke
// takes from nowhere else.
func NewPrivateKey() (*PrivateKey, error) {
	private, err := hpke.DHKEM(ecdh.X25519()).GenerateKey()
	if err != nil {
		return nil, fmt.Errorf("make seal key: %w", err)
	}
	return &PrivateKey{private, SealKey{private.PublicKey()}}, nil
}

// Public is the key that letters are sealed to.
func (k *PrivateKey) Public() *SealKey { return &k.public }

// Text is the secret line that ParsePrivateKeys reads.
func (k *PrivateKey) Text() (string, error) {
	raw, err := k.private.Bytes()
	if err != nil {
		return "", fmt.Errorf("write private key: %w", err)
	}
	return keyText(privatePrefix, raw), nil
}

func (k PrivateKey) String() string { return "private key " + k.public.ID() }

// Format keeps every verb from reaching the key's bytes.
func (k PrivateKey) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(k.String())) }

func (k *PrivateKey) open(object string, sealed []byte) ([]byte, error) {
	return hpke.Open(k.private, hpke.HKDFSHA256(), hpke.AES256GCM(), sealInfo(object), sealed)
}

// PrivateKeys are today's key and those of before a rotation.
type PrivateKeys []*PrivateKey

// ParsePrivateKeys reads one key a line; blank lines and lines that begin with #
// are skipped. Errors name lines and never quote them.
func ParsePrivateKeys(text []byte) (PrivateKeys, error) {
	var keys PrivateKeys
	for i, line := range bytes.Split(text, []byte("\n")) {
		s := strings.TrimSpace(string(line))
		if s == "" || strings.HasPrefix(s, "#") {
			continue
		}
		if strings.HasPrefix(s, sealPrefix) {
			return nil, fmt.Errorf("read private keys: line %d is a public key, which opens nothing", i+1)
		}
		raw, err := keyBytes(s, privatePrefix)
		if err != nil {
			return nil, fmt.Errorf("read private keys: line %d %w", i+1, err)
		}
		private, err := hpke.DHKEM(ecdh.X25519()).NewPrivateKey(raw)
		if err != nil {
			return nil, fmt.Errorf("read private keys: line %d %w", i+1, errNoSealKey)
		}
		keys = append(keys, &PrivateKey{private, SealKey{private.PublicKey()}})
	}
	if len(keys) == 0 {
		return nil, errors.New("read private keys: there is no key")
	}
	return keys, nil
}

// IDs are the keys' ids, in order.
func (ks PrivateKeys) IDs() []string {
	ids := make([]string, len(ks))
	for i, k := range ks {
		ids[i] = k.public.ID()
	}
	return ids
}

func (ks PrivateKeys) find(id string) *PrivateKey {
	for _, k := range ks {
		if k.public.ID() == id {
			return k
		}
	}
	return nil
}
