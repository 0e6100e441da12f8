package otstest

import (
	"encoding/binary"
	"math"
)

// Tags of the PlainBuffer format.
const (
	plainHeader     = 0x75
	tagPrimaryKey   = 0x1
	tagData         = 0x2
	tagCell         = 0x3
	tagName         = 0x4
	tagValue        = 0x5
	tagOp           = 0x6
	tagTimestamp    = 0x7
	tagDeleteMarker = 0x8
	tagRowCRC       = 0x9
	tagCellCRC      = 0xa
)

// Operations of a cell.
const (
	opPut       = 0x0 // never on the wire
	opDeleteAll = 0x1
	opDeleteOne = 0x3
	opIncrement = 0x4
)

// cell is one cell on the wire.
type cell struct {
	name     string
	val      value
	hasValue bool
	op       byte
	at       int64 // milliseconds
	hasAt    bool
}

// wireRow is one row on the wire.
type wireRow struct {
	pk      []cell
	attrs   []cell
	deleted bool
}

// encodeRows is the inverse of decodeRows.
func encodeRows(rows ...wireRow) []byte {
	b := binary.LittleEndian.AppendUint32(nil, plainHeader)
	for _, r := range rows {
		b = r.append(b)
	}
	return b
}

func (r wireRow) append(b []byte) []byte {
	var crc byte
	b = append(b, tagPrimaryKey)
	for _, c := range r.pk {
		b = c.append(b)
		crc = crc8(crc, b[len(b)-1])
	}
	if len(r.attrs) > 0 {
		b = append(b, tagData)
	}
	for _, c := range r.attrs {
		b = c.append(b)
		crc = crc8(crc, b[len(b)-1])
	}
	var marker byte
	if r.deleted {
		b = append(b, tagDeleteMarker)
		marker = 1
	}
	return append(b, tagRowCRC, crc8(crc, marker))
}

func (c cell) append(b []byte) []byte {
	b = append(b, tagCell, tagName)
	b = binary.LittleEndian.AppendUint32(b, uint32(len(c.name)))
	b = append(b, c.name...)
	if c.hasValue {
		b = append(b, tagValue)
		at := len(b)
		b = c.val.append(append(b, 0, 0, 0, 0))
		binary.LittleEndian.PutUint32(b[at:], uint32(len(b)-at-4))
	}
	if c.op != opPut {
		b = append(b, tagOp, c.op)
	}
	if c.hasAt {
		b = append(b, tagTimestamp)
		b = binary.LittleEndian.AppendUint64(b, uint64(c.at))
	}
	return append(b, tagCellCRC, c.crc())
}

// append writes the type and the value, as filters carry it; a cell puts the
// length of both in front.
func (v value) append(b []byte) []byte {
	b = append(b, v.kind)
	switch v.kind {
	case kindInteger, kindDouble:
		b = binary.LittleEndian.AppendUint64(b, uint64(v.num))
	case kindBoolean:
		b = append(b, byte(v.num))
	case kindString, kindBlob:
		b = binary.LittleEndian.AppendUint32(b, uint32(len(v.str)))
		b = append(b, v.str...)
	}
	return b
}

// crc sums in the order name, value, timestamp, operation, which is not the
// order of the bytes.
func (c cell) crc() byte {
	crc := crc8String(0, c.name)
	if c.hasValue {
		var head [13]byte
		b := value{c.val.kind, c.val.num, ""}.append(head[:0])
		if c.val.kind == kindString || c.val.kind == kindBlob {
			binary.LittleEndian.PutUint32(b[1:], uint32(len(c.val.str)))
		}
		for _, x := range b {
			crc = crc8(crc, x)
		}
		crc = crc8String(crc, c.val.str)
	}
	if c.hasAt {
		for shift := 0; shift < 64; shift += 8 {
			crc = crc8(crc, byte(c.at>>shift))
		}
	}
	if c.op != opPut {
		crc = crc8(crc, c.op)
	}
	return crc
}

// crc8 shifts one byte into a CRC-8 with the polynomial t^8+t^2+t+1. Modulo that
// t^8 is t^2+t+1, so it takes one multiplication and one fold, and no table.
func crc8(crc, in byte) byte {
	x := uint16(crc ^ in)
	x = x ^ x<<1 ^ x<<2 // up to 10 bits
	hi := x >> 8
	return byte(x ^ hi ^ hi<<1 ^ hi<<2)
}

func crc8String(crc byte, s string) byte {
	for i := range len(s) {
		crc = crc8(crc, s[i])
	}
	return crc
}

func isBadDouble(v value) bool {
	return v.kind == kindDouble && (math.IsNaN(v.double()) || math.IsInf(v.double(), 0))
}
