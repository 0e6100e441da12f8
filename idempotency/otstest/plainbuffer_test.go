package otstest

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
	"pgregory.net/rapid"
)

// reference is one row, key k = "v" and column a = 1, as two of the service's
// SDKs write it.
const reference = "75000000 01 03 04 01000000 6b 05 06000000 03 01000000 76 0a34" +
	" 02 03 04 01000000 61 05 09000000 00 0100000000000000 0a1e 09cb"

func referenceBytes(t testing.TB) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(reference, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func text(name, v string) cell {
	return cell{name: name, val: value{kind: kindString, str: v}, hasValue: true}
}

func integer(name string, n int64) cell {
	return cell{name: name, val: value{kind: kindInteger, num: n}, hasValue: true}
}

func TestPlainBuffer(t *testing.T) {
	t.Run("the reference row is written to the byte", func(t *testing.T) {
		got := encodeRows(wireRow{pk: []cell{text("k", "v")}, attrs: []cell{integer("a", 1)}})
		if want := referenceBytes(t); !bytes.Equal(got, want) {
			t.Fatalf("got  %x\nwant %x", got, want)
		}
	})
	t.Run("what the SDK writes is written to the byte", func(t *testing.T) {
		u := updateChange("claims", "v", ignore)
		u.PutColumn("s", "text")
		u.PutColumn("b", []byte{0, 1})
		u.PutColumn("f", -1.5)
		u.PutColumn("yes", true)
		u.PutColumnWithTimestamp("at", int64(-2), 1700000000000)
		u.DeleteColumn("all")
		u.DeleteColumnWithTimestamp("one", 1700000000001)
		u.IncrementColumn("n", 3)
		low, high := lowest(), highest()
		for name, want := range map[string][]byte{
			"update": u.Serialize(), "delete": deleteChange("claims", "v", ignore).Serialize(),
			"key": pk("v").Build(false), "low": low.Build(false), "high": high.Build(false),
		} {
			row, err := decodeRow(want)
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if got := encodeRows(row); !bytes.Equal(got, want) {
				t.Errorf("%s:\ngot  %x\nwant %x", name, got, want)
			}
		}
	})
	t.Run("every changed byte is noticed", func(t *testing.T) {
		good := referenceBytes(t)
		for i := range good {
			bad := bytes.Clone(good)
			bad[i] ^= 0x40
			if _, err := decodeRows(bad); err == nil {
				t.Errorf("byte %d may change", i)
			}
		}
	})
	t.Run("zeros may follow a row and nothing else may", func(t *testing.T) {
		good := referenceBytes(t)
		if row, err := decodeRow(append(bytes.Clone(good), 0, 0, 0)); err != nil || !bytes.Equal(encodeRows(row), good) {
			t.Error(row, err)
		}
		for name, more := range map[string][]byte{"another row": good[4:], "a byte": {1}, "a byte behind zeros": {0, 0, 9}} {
			if _, err := decodeRow(append(bytes.Clone(good), more...)); err == nil {
				t.Errorf("%s may follow", name)
			}
		}
	})
	t.Run("every shortened row is noticed", func(t *testing.T) {
		good := referenceBytes(t)
		for n := range good {
			if _, err := decodeRow(good[:n]); err == nil {
				t.Errorf("%d bytes are taken for a row", n)
			}
		}
	})
}

func TestBrokenPlainBufferIsRefused(t *testing.T) {
	twice(t, func(t *testing.T, s *stand) {
		s.table("claims", 1)
		good := encodeRows(wireRow{pk: []cell{text("k", "v")}, attrs: []cell{integer("a", 1)}})
		cellCRC, rowCRC := bytes.Clone(good), bytes.Clone(good)
		cellCRC[len(cellCRC)-3] ^= 1
		rowCRC[len(rowCRC)-1] ^= 1
		for name, raw := range map[string][]byte{"cell checksum": cellCRC, "row checksum": rowCRC, "no header": good[4:], "cut": good[:len(good)-1], "empty": {}} {
			err := s.send("PutRow", putRequest(raw))
			if code(err) != "OTSParameterInvalid" {
				t.Errorf("%s: %v", name, err)
			}
		}
		expect(t, s.send("PutRow", putRequest(cellCRC)), 400, "OTSParameterInvalid", "Cell data broken, checksum is mismatch, 31 : 30.")
		if err := s.send("PutRow", putRequest(good)); err != nil {
			t.Error(err)
		}
		if n := len(s.Rows("claims")); n != 1 {
			t.Errorf("%d rows", n)
		}
	})
}

func drawValue(t *rapid.T, kinds ...byte) value {
	v := value{kind: rapid.SampledFrom(kinds).Draw(t, "kind")}
	switch v.kind {
	case kindInteger, kindDouble:
		v.num = rapid.Int64().Draw(t, "number")
	case kindBoolean:
		v.num = rapid.Int64Range(0, 1).Draw(t, "boolean")
	case kindString, kindBlob:
		v.str = string(rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "text"))
	}
	return v
}

func drawRow(t *rapid.T) wireRow {
	var r wireRow
	for range rapid.IntRange(1, 4).Draw(t, "keys") {
		name := string(rapid.SliceOfN(rapid.Byte(), 0, 8).Draw(t, "name"))
		r.pk = append(r.pk, cell{name: name, hasValue: true, val: drawValue(t, kindInteger, kindString, kindBlob, kindInfMin, kindInfMax, kindAutoInc)})
	}
	for range rapid.IntRange(0, 5).Draw(t, "columns") {
		c := cell{name: rapid.String().Draw(t, "name"), op: rapid.SampledFrom([]byte{opPut, opDeleteAll, opDeleteOne, opIncrement}).Draw(t, "op")}
		if c.hasValue = rapid.Bool().Draw(t, "has value"); c.hasValue {
			c.val = drawValue(t, kindInteger, kindDouble, kindBoolean, kindString, kindBlob)
		}
		if c.hasAt = rapid.Bool().Draw(t, "has time"); c.hasAt {
			c.at = rapid.Int64().Draw(t, "time")
		}
		r.attrs = append(r.attrs, c)
	}
	r.deleted = rapid.Bool().Draw(t, "deleted")
	return r
}

func TestDecodeIsTheInverseOfEncode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.SliceOfN(rapid.Custom(drawRow), 1, 3).Draw(t, "rows")
		got, err := decodeRows(encodeRows(want...))
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("got %v, %v, want %v", got, err, want)
		}
	})
}

func FuzzPlainBuffer(f *testing.F) {
	f.Add(referenceBytes(f))
	f.Add(deleteChange("claims", "v", ignore).Serialize())
	f.Add(pk("v", int64(1), []byte{2}).Build(false))
	u := updateChange("claims", "v", tablestore.RowExistenceExpectation_IGNORE)
	u.DeleteColumnWithTimestamp("one", 1)
	u.IncrementColumn("n", 3)
	f.Add(u.Serialize())
	f.Add([]byte{0x75, 0, 0, 0})
	f.Add([]byte{0x75, 0, 0, 0, 1, 3, 4, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		rows, err := decodeRows(b)
		if err != nil {
			return
		}
		if again := encodeRows(rows...); !bytes.Equal(again, b) {
			t.Fatalf("decoded %x, encoded %x", b, again)
		}
		for _, r := range rows {
			pk := make([]value, len(r.pk))
			for i, c := range r.pk {
				pk[i] = c.val
			}
			_ = keyOf(pk)
		}
	})
}

func FuzzTarget(f *testing.F) {
	f.Add("PutRow", []byte{0x0a, 1, 'a', 0x12, 2, 0x75, 0})
	f.Fuzz(func(t *testing.T, action string, body []byte) { _ = target(action, body) })
}
