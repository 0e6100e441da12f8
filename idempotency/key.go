package idempotency

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/unicode/norm"
)

// Field is one named part of a business key.
type Field struct {
	Name string
	// Value is a string, json.Number, bool or nil as package strictjson reads
	// them. nil stands for a missing value.
	Value any
	// Sensitive fields enter the key as an HMAC, so that neither the key nor
	// the record shows them.
	Sensitive bool
}

// FieldError names the key field that makes a key impossible. It never quotes the value.
type FieldError struct {
	Field  string
	Reason string
}

func (e *FieldError) Error() string {
	return fmt.Sprintf("derive key: field %s: %s", strconv.Quote(e.Field), e.Reason)
}

// Key is a derived idempotency key.
type Key struct {
	Hex       string // 64 lower-case hex digits: SHA-256 of Canonical
	Canonical string // RFC 8785 JSON of the named fields, all values strings
}

var errNoFields = errors.New("derive key: no fields")

// DeriveKey makes the idempotency key of named fields. Strings are
// NFC-normalised; an integer becomes its exact decimal text; booleans become
// text. Missing, null, empty, blank, fractional, exponential, minus zero, array
// and object values are a *FieldError, as is a sensitive field without a secret.
func DeriveKey(fields []Field, secret []byte) (Key, error) {
	if len(fields) == 0 {
		return Key{}, errNoFields
	}
	object := make(map[string]string, len(fields))
	for _, f := range fields {
		if _, twice := object[f.Name]; twice {
			return Key{}, &FieldError{f.Name, "named twice"}
		}
		text, reason := fieldText(f.Value)
		if reason != "" {
			return Key{}, &FieldError{f.Name, reason}
		}
		if f.Sensitive {
			if len(secret) == 0 {
				return Key{}, &FieldError{f.Name, "is sensitive, and no key secret is set (ONCEGATE_KEY_SECRET)"}
			}
			mac := hmac.New(sha256.New, secret)
			mac.Write([]byte(text))
			text = hex.EncodeToString(mac.Sum(nil))
		}
		object[f.Name] = text
	}
	canonical, err := canonicalStrings(object)
	if err != nil {
		return Key{}, fmt.Errorf("derive key: %w", err)
	}
	return Key{DigestBinary(canonical), string(canonical)}, nil
}

// HashOf is the hex SHA-256 of the canonical JSON of named strings: the one way
// ids are derived from parts, so that no separator can be forged.
func HashOf(parts map[string]string) string {
	canonical, err := canonicalStrings(parts)
	if err != nil {
		// Only invalid UTF-8 gets here; quoting it keeps ids distinct.
		quoted := make(map[string]string, len(parts))
		for k, v := range parts {
			quoted[k] = strconv.QuoteToASCII(v)
		}
		canonical, _ = canonicalStrings(quoted)
	}
	return DigestBinary(canonical)
}

func canonicalStrings(object map[string]string) ([]byte, error) {
	names, size, plain := make([]string, 0, len(object)), 2, true
	for name, text := range object {
		names = append(names, name)
		size += len(name) + len(text) + len(`"":"",`)
		plain = plain && isASCII(name)
	}
	slices.Sort(names)
	raw := append(make([]byte, 0, size), '{')
	for i, name := range names {
		if i > 0 {
			raw = append(raw, ',')
		}
		var err error
		if raw, err = jsontext.AppendQuote(raw, name); err != nil {
			return nil, err
		}
		raw = append(raw, ':')
		if raw, err = jsontext.AppendQuote(raw, object[name]); err != nil {
			return nil, err
		}
	}
	v := jsontext.Value(append(raw, '}'))
	if !plain {
		// RFC 8785 sorts by UTF-16 code units, which is byte order for ASCII alone.
		if err := v.Canonicalize(); err != nil {
			return nil, err
		}
	}
	return v, nil
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

func fieldText(v any) (text, reason string) {
	switch v := v.(type) {
	case nil:
		return "", "is missing or null"
	case string:
		if v == "" {
			return "", "is empty"
		}
		if strings.TrimFunc(v, unicode.IsSpace) == "" {
			return "", "is blank"
		}
		return norm.NFC.String(v), ""
	case bool:
		return strconv.FormatBool(v), ""
	case json.Number:
		if strings.ContainsAny(string(v), ".eE") {
			return "", "is a number with a fraction or an exponent"
		}
		if v == "-0" {
			return "", "is minus zero"
		}
		return string(v), ""
	case []any:
		return "", "is an array"
	case map[string]any:
		return "", "is an object"
	default:
		return "", "is of an unknown type"
	}
}
