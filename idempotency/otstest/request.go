package otstest

import (
	"encoding/binary"
	"iter"
	"reflect"

	"github.com/golang/protobuf/proto"
)

// parse reads a request and refuses options that this package has never heard
// of: an option that is ignored tests nothing.
func parse(body []byte, m proto.Message) error {
	if err := proto.Unmarshal(body, m); err != nil {
		return invalid("Parse PBMessage from RawString failed.")
	}
	if hasUnknown(m) {
		return invalid("Unknown field in the request.")
	}
	return nil
}

// hasUnknown says whether a message holds fields that its definition lacks.
func hasUnknown(m proto.Message) bool { return unknownIn(reflect.ValueOf(m)) }

func unknownIn(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return !v.IsNil() && v.Elem().Kind() == reflect.Struct && unknownIn(v.Elem())
	case reflect.Slice:
		if v.Type().Elem().Kind() != reflect.Pointer {
			return false
		}
		for i := range v.Len() {
			if unknownIn(v.Index(i)) {
				return true
			}
		}
	case reflect.Struct:
		if raw := v.FieldByName("XXX_unrecognized"); raw.IsValid() && raw.Len() > 0 {
			return true
		}
		for i := range v.NumField() {
			if unknownIn(v.Field(i)) {
				return true
			}
		}
	}
	return false
}

// field returns the first length-delimited field of a message without reading
// the rest; nil if there is none.
func field(b []byte, number uint64) []byte {
	for one := range fields(b, number) {
		return one
	}
	return nil
}

// fields are all length-delimited fields of one number, as far as the message
// can be read.
func fields(b []byte, number uint64) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) { walkFields(b, number, yield) }
}

func walkFields(b []byte, number uint64, yield func([]byte) bool) {
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		if n <= 0 {
			return
		}
		b = b[n:]
		size, n := uint64(0), 0
		switch tag & 7 {
		case 0:
			_, n = binary.Uvarint(b)
		case 1:
			n, size = 0, 8
		case 2:
			size, n = binary.Uvarint(b)
		case 5:
			n, size = 0, 4
		default:
			return
		}
		if n < 0 || n == 0 && size == 0 || size > uint64(len(b)-n) {
			return
		}
		if tag>>3 == number && tag&7 == 2 && !yield(b[n:n+int(size)]) {
			return
		}
		b = b[n+int(size):]
	}
}

// target names what a call is about: table/key for one row, else the table.
func target(action string, body []byte) string {
	first := field(body, 1)
	switch action {
	case "CreateTable", "BatchGetRow", "BatchWriteRow":
		return string(field(first, 1))
	case "PutRow", "GetRow", "UpdateRow", "DeleteRow":
		r := &plainReader{field(body, 2)}
		if r.header() != nil || !r.skip(tagPrimaryKey) || !r.skip(tagCell) {
			return string(first)
		}
		c, _, err := r.cell()
		if err != nil {
			return string(first)
		}
		return string(first) + "/" + c.val.text()
	}
	return string(first)
}
