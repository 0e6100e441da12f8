package otstest

import (
	"cmp"
	"encoding/hex"
	"math"
	"strconv"
	"strings"
)

// Kinds of value, numbered as on the wire.
const (
	kindInteger = 0x0
	kindDouble  = 0x1
	kindBoolean = 0x2
	kindString  = 0x3
	kindNull    = 0x6
	kindBlob    = 0x7
	kindInfMin  = 0x9
	kindInfMax  = 0xa
	kindAutoInc = 0xb
)

// value is one typed value. num holds integers, booleans and the bits of
// doubles; str holds strings and blobs. The unused half stays zero, so ==
// compares values.
type value struct {
	kind byte
	num  int64
	str  string
}

func (v value) double() float64 { return math.Float64frombits(uint64(v.num)) }

// plain is the value as the client SDK spells it.
func (v value) plain() any {
	switch v.kind {
	case kindInteger:
		return v.num
	case kindDouble:
		return v.double()
	case kindBoolean:
		return v.num != 0
	case kindString:
		return v.str
	case kindBlob:
		return []byte(v.str)
	}
	return nil
}

// text names a primary key value in a cloudtest.Call.
func (v value) text() string {
	switch v.kind {
	case kindInteger:
		return strconv.FormatInt(v.num, 10)
	case kindString:
		return v.str
	case kindBlob:
		return hex.EncodeToString([]byte(v.str))
	}
	return variant(v.kind)
}

// size is what the service bills a value as.
func (v value) size() int {
	switch v.kind {
	case kindString, kindBlob:
		return len(v.str)
	case kindBoolean:
		return 1
	}
	return 8
}

// compare orders two values of one kind; ok is false where the kinds differ.
func (v value) compare(w value) (order int, ok bool) {
	if v.kind != w.kind {
		return 0, false
	}
	switch v.kind {
	case kindDouble:
		return cmp.Compare(v.double(), w.double()), true
	case kindString, kindBlob:
		return strings.Compare(v.str, w.str), true
	}
	return cmp.Compare(v.num, w.num), true
}

// variant names a kind as the service's messages do.
func variant(kind byte) string {
	switch kind {
	case kindInteger:
		return "VT_INTEGER"
	case kindDouble:
		return "VT_DOUBLE"
	case kindBoolean:
		return "VT_BOOLEAN"
	case kindString:
		return "VT_STRING"
	case kindNull:
		return "VT_NULL"
	case kindBlob:
		return "VT_BLOB"
	case kindInfMin:
		return "VT_INF_MIN"
	case kindInfMax:
		return "VT_INF_MAX"
	case kindAutoInc:
		return "VT_AUTO_INCREMENT"
	}
	return "VT_" + strconv.Itoa(int(kind))
}
