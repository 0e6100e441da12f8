package otstest

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"
)

// plainReader walks over a PlainBuffer. It fails with what the service answers
// to a broken one.
type plainReader struct{ rest []byte }

func broken(format string, args ...any) error {
	return invalid("Cell data broken, "+format, args...)
}

// decodeRows reads a whole PlainBuffer. It accepts exactly what encodeRows
// writes: every length, every tag order and every checksum is verified.
func decodeRows(b []byte) ([]wireRow, error) {
	r := &plainReader{b}
	if err := r.header(); err != nil {
		return nil, err
	}
	var rows []wireRow
	for len(r.rest) > 0 {
		row, err := r.row()
		if err != nil {
			return nil, err
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// decodeRow reads a PlainBuffer that must hold exactly one row. Zeros may follow
// it: the Node.js client counts one byte too many for INF_MIN, INF_MAX and the
// placeholder and more for a deleted column, and sends the rest of its buffer.
func decodeRow(b []byte) (wireRow, error) {
	r := &plainReader{b}
	if err := r.header(); err != nil {
		return wireRow{}, err
	}
	row, err := r.row()
	if err == nil && len(bytes.Trim(r.rest, "\x00")) > 0 {
		err = broken("expect one row, %d bytes follow it.", len(r.rest))
	}
	return row, err
}

func (r *plainReader) header() error {
	b, err := r.take(4)
	if err != nil {
		return err
	}
	if got := binary.LittleEndian.Uint32(b); got != plainHeader {
		return broken("mismatch header, actual: %#x , expect: %#x.", got, plainHeader)
	}
	return nil
}

func (r *plainReader) row() (wireRow, error) {
	var row wireRow
	var crc byte
	if err := r.expect(tagPrimaryKey); err != nil {
		return row, err
	}
	pk, crc, err := r.cells(crc)
	if err != nil {
		return row, err
	}
	if len(pk) == 0 {
		return row, broken("no PK follow PKTag.")
	}
	row.pk = pk
	if r.skip(tagData) {
		if row.attrs, crc, err = r.cells(crc); err != nil {
			return row, err
		}
		if len(row.attrs) == 0 {
			return row, broken("no Cells follow CellTag.")
		}
	}
	row.deleted = r.skip(tagDeleteMarker)
	if !r.skip(tagRowCRC) {
		return row, broken("row is not end with checksum tag.")
	}
	var marker byte
	if row.deleted {
		marker = 1
	}
	return row, r.checksum(crc8(crc, marker))
}

func (r *plainReader) cells(crc byte) ([]cell, byte, error) {
	var cells []cell
	for r.skip(tagCell) {
		c, sum, err := r.cell()
		if err != nil {
			return nil, 0, err
		}
		cells = append(cells, c)
		crc = crc8(crc, sum)
	}
	return cells, crc, nil
}

// cell returns the cell and its checksum, which goes into that of the row.
func (r *plainReader) cell() (cell, byte, error) {
	var c cell
	if !r.skip(tagName) {
		return c, 0, broken("attr has no name.")
	}
	name, err := r.sized()
	if err != nil {
		return c, 0, err
	}
	c.name = string(name)
	if r.skip(tagValue) {
		c.hasValue = true
		if c.val, err = r.prefixedValue(); err != nil {
			return c, 0, err
		}
	}
	if r.skip(tagOp) {
		b, err := r.take(1)
		if err != nil {
			return c, 0, err
		}
		switch b[0] {
		case opDeleteAll, opDeleteOne, opIncrement:
			c.op = b[0]
		default:
			return c, 0, invalid("Invalid op type of cell: %d.", b[0])
		}
	}
	if r.skip(tagTimestamp) {
		b, err := r.take(8)
		if err != nil {
			return c, 0, err
		}
		c.hasAt, c.at = true, int64(binary.LittleEndian.Uint64(b))
	}
	if !r.skip(tagCellCRC) {
		return c, 0, broken("cell is not end with checksum[%#x] tag.", tagCellCRC)
	}
	crc := c.crc()
	return c, crc, r.checksum(crc)
}

func (r *plainReader) prefixedValue() (value, error) {
	body, err := r.sized()
	if err != nil {
		return value{}, err
	}
	return decodeValue(body)
}

// decodeValue reads a type and a value that fill b, as filters carry them.
func decodeValue(b []byte) (value, error) {
	r := &plainReader{b}
	kind, err := r.take(1)
	if err != nil {
		return value{}, err
	}
	v := value{kind: kind[0]}
	switch v.kind {
	case kindInteger, kindDouble:
		b, err := r.take(8)
		if err != nil {
			return value{}, err
		}
		v.num = int64(binary.LittleEndian.Uint64(b))
	case kindBoolean:
		b, err := r.take(1)
		if err != nil {
			return value{}, err
		}
		if b[0] > 1 {
			return value{}, invalid("Invalid boolean real value, value: %d.", b[0])
		}
		v.num = int64(b[0])
	case kindString, kindBlob:
		b, err := r.sized()
		if err != nil {
			return value{}, err
		}
		v.str = string(b)
	case kindInfMin, kindInfMax, kindAutoInc:
	default:
		return value{}, invalid("data format is invalid, unknown variant type occured.")
	}
	if len(r.rest) > 0 {
		return value{}, broken("has more data in cell, but they can't be parsed.")
	}
	return v, nil
}

func (r *plainReader) expect(tag byte) error {
	if len(r.rest) == 0 {
		return errShort()
	}
	if r.rest[0] != tag {
		return broken("mismatch tag, actual tag(%#x), expect(%#x).", r.rest[0], tag)
	}
	r.rest = r.rest[1:]
	return nil
}

func (r *plainReader) skip(tag byte) bool {
	if len(r.rest) == 0 || r.rest[0] != tag {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

func (r *plainReader) take(n int) ([]byte, error) {
	if n > len(r.rest) {
		return nil, errShort()
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b, nil
}

func (r *plainReader) sized() ([]byte, error) {
	b, err := r.take(4)
	if err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(b)
	if uint64(n) > uint64(len(r.rest)) {
		return nil, broken("wrong string format, size: %d.", n)
	}
	return r.take(int(n))
}

func (r *plainReader) checksum(want byte) error {
	b, err := r.take(1)
	if err != nil {
		return err
	}
	if b[0] != want {
		return broken("checksum is mismatch, %d : %d.", b[0], want)
	}
	return nil
}

func errShort() error {
	return invalid("Input encoded PK broken, length is shorter than expect.")
}

// checkText refuses what is no value of a column.
func (v value) checkText(column string) error {
	switch {
	case v.kind == kindString && !utf8.ValidString(v.str):
		return invalid("Value of column `%s` must be UTF8 encoding.", column)
	case isBadDouble(v):
		if v.double() != v.double() {
			return invalid("NaN can't be set to double value.")
		}
		return invalid("Infinity can't be set to double value.")
	}
	return nil
}
