package idempotency

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Digest is the hex SHA-256 of the canonical form of a payload as package
// strictjson reads it. Two payloads that mean the same have one digest: names
// are sorted by code point, numbers compare by exact decimal value.
func Digest(payload any) (string, error) {
	canonical, err := AppendCanonical(nil, payload)
	if err != nil {
		return "", err
	}
	return DigestBinary(canonical), nil
}

// DigestBinary is the hex SHA-256 of bytes: the digest of binary data.
func DigestBinary(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

var errCanonical = errors.New("canonicalise payload: not a JSON value")

// AppendCanonical appends the canonical form that Digest hashes. It differs
// from RFC 8785 where that would lose value: numbers are decimal digits without
// trailing zeros, "e" and the exponent (12.5 is 125e-1), never a float64.
func AppendCanonical(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case string:
		return jsontext.AppendQuote(dst, v)
	case json.Number:
		return appendNumber(dst, string(v))
	case []any:
		dst = append(dst, '[')
		var err error
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = AppendCanonical(dst, e); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case map[string]any:
		dst = append(dst, '{')
		var err error
		// Byte order of UTF-8 is code point order.
		for i, name := range slices.Sorted(maps.Keys(v)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = jsontext.AppendQuote(dst, name); err != nil {
				return nil, err
			}
			dst = append(dst, ':')
			if dst, err = AppendCanonical(dst, v[name]); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	default:
		return nil, errCanonical
	}
}

func appendNumber(dst []byte, text string) ([]byte, error) {
	mantissa, expText := text, ""
	if i := strings.IndexAny(text, "eE"); i >= 0 {
		mantissa, expText = text[:i], text[i+1:]
	}
	mantissa, negative := strings.CutPrefix(mantissa, "-")
	whole, frac, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(whole+frac, "0")
	if digits == "" {
		if strings.Trim(mantissa, "0.") != "" || mantissa == "" {
			return nil, errCanonical
		}
		return append(dst, "0e0"...), nil
	}
	significant := strings.TrimRight(digits, "0")
	exp := big.NewInt(0)
	if expText != "" {
		if _, ok := exp.SetString(strings.TrimPrefix(expText, "+"), 10); !ok {
			return nil, errCanonical
		}
	}
	exp.Add(exp, big.NewInt(int64(len(digits)-len(significant)-len(frac))))
	if negative {
		dst = append(dst, '-')
	}
	dst = append(dst, significant...)
	dst = append(dst, 'e')
	return exp.Append(dst, 10), nil
}
