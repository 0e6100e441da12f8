package otstest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
	"github.com/aliyun/aliyun-tablestore-go-sdk/tablestore/otsprotocol"
	"github.com/golang/protobuf/proto"
)

func putRequest(row []byte) *otsprotocol.PutRowRequest {
	return &otsprotocol.PutRowRequest{
		TableName: proto.String("claims"), Row: row,
		Condition: &otsprotocol.Condition{RowExistence: ignoreExpectation()},
	}
}

func TestWriteLimits(t *testing.T) {
	wide := func(n int) cols {
		c := cols{}
		for i := range n {
			c[fmt.Sprintf("c%d", i)] = int64(i)
		}
		return c
	}
	mega := func(n int) []byte { return make([]byte, n<<20) }
	tests := []struct {
		name string
		key  string
		cols cols
		want string // message of OTSParameterInvalid, "" for none
	}{
		{"a key of 1 KB", strings.Repeat("k", 1024), nil, ""},
		{"a key of 1 KB and a byte", strings.Repeat("k", 1025), nil, "The length of primary key column: `k` exceeds the MaxLength: `1024` with CurrentLength: `1025`."},
		{"a column of 2 MB", "k", cols{"a": mega(2)}, ""},
		{"a column of 2 MB and a byte", "k", cols{"a": append(mega(2), 0)}, "The length of attribute column: `a` exceeded the MaxLength:`2097152` with CurrentLength:`2097153`."},
		{"1024 columns", "k", wide(1024), ""},
		{"1025 columns", "k", wide(1025), "The number of attribute columns exceeds the limit, limit count:`1024`, column count: `1025`."},
		{"a column name of 255 bytes", "k", cols{strings.Repeat("n", 255): "x"}, ""},
		{"a column name of 256 bytes", "k", cols{strings.Repeat("n", 256): "x"}, "Invalid column name: `" + strings.Repeat("n", 256) + "`."},
		{"a column name with a dash", "k", cols{"a-b": "x"}, "Invalid column name: `a-b`."},
		{"a column without a name", "k", cols{"": "x"}, "Invalid column name: ``."},
		{"a column named like the key", "k", cols{"k": "x"}, "Duplicated attribute column name with primary key column: `k`."},
		{"more than 4 MB in one row", "k", cols{"a": mega(2), "b": mega(2)}, "The total data size of PutRow request exceeds the limit, limit size: `4194304` , data size: `4194308`."},
		{"text that is no UTF-8", "k", cols{"a": "\xff"}, "Value of column `a` must be UTF8 encoding."},
		{"a key that is no UTF-8", "\xff", nil, "Value of column `k` must be UTF8 encoding."},
		{"a double that is no number", "k", cols{"a": math.NaN()}, "NaN can't be set to double value."},
		{"an infinite double", "k", cols{"a": math.Inf(1)}, "Infinity can't be set to double value."},
		{"a row of its key alone", "k", nil, ""},
	}
	twice(t, func(t *testing.T, s *stand) {
		s.table("claims", 1)
		for _, tt := range tests {
			t.Run(tt.name+map[bool]string{true: " is stored", false: " is refused"}[tt.want == ""], func(t *testing.T) {
				err := s.do(putChange("claims", tt.key, ignore, tt.cols))
				if tt.want == "" && err != nil {
					t.Fatal(err)
				}
				if tt.want != "" {
					expect(t, err, 400, "OTSParameterInvalid", tt.want)
				}
			})
		}
		t.Run("a body of more than 5 MB is refused", func(t *testing.T) {
			err := s.do(putChange("claims", "k", ignore, cols{"a": mega(3), "b": mega(3)}))
			expect(t, err, 413, "OTSRequestBodyTooLarge", "The size of POST data is too large.")
		})
	})
}

func TestRequestsThatAreRefused(t *testing.T) {
	key := []cell{text("k", "x")}
	request := func(change func(*otsprotocol.PutRowRequest)) *otsprotocol.PutRowRequest {
		m := putRequest(encodeRows(wireRow{pk: key, attrs: []cell{text("a", "1")}}))
		change(m)
		return m
	}
	row := func(r wireRow) *otsprotocol.PutRowRequest { return putRequest(encodeRows(r)) }
	update := func(cells ...cell) *otsprotocol.UpdateRowRequest {
		return &otsprotocol.UpdateRowRequest{
			TableName: proto.String("claims"), RowChange: encodeRows(wireRow{pk: key, attrs: cells}),
			Condition: &otsprotocol.Condition{RowExistence: ignoreExpectation()},
		}
	}
	get := func(change func(*otsprotocol.GetRowRequest)) *otsprotocol.GetRowRequest {
		m := &otsprotocol.GetRowRequest{TableName: proto.String("claims"), PrimaryKey: encodeRows(wireRow{pk: key}), MaxVersions: proto.Int32(1)}
		change(m)
		return m
	}
	op := func(c cell, op byte, at int64) cell {
		c.op, c.at, c.hasAt = op, at, at != 0
		return c
	}
	tests := []struct {
		name, action string
		m            proto.Message
		code         string // "" means OTSParameterInvalid
		want         string
	}{
		{"a transaction", "PutRow", request(func(m *otsprotocol.PutRowRequest) { m.TransactionId = proto.String("t") }), "", "Try to call method using explicit transaction on explicit-transaction-disabled table"},
		{"a transaction in a read", "GetRow", get(func(m *otsprotocol.GetRowRequest) { m.TransactionId = proto.String("t") }), "", "Try to call method using explicit transaction on explicit-transaction-disabled table"},
		{"a token", "GetRow", get(func(m *otsprotocol.GetRowRequest) { m.Token = []byte("t") }), "", "Token is not supported here."},
		{"an unknown expectation", "PutRow", request(func(m *otsprotocol.PutRowRequest) {
			m.Condition.RowExistence = otsprotocol.RowExistenceExpectation(7).Enum()
		}), "", "Invalid row-existence expectation: `7`."},
		{"a put that asks for what it modified", "PutRow", request(func(m *otsprotocol.PutRowRequest) {
			m.ReturnContent = &otsprotocol.ReturnContent{ReturnType: otsprotocol.ReturnType_RT_AFTER_MODIFY.Enum()}
		}), "", "Invalid return type: `2`."},
		{"an unknown table", "PutRow", request(func(m *otsprotocol.PutRowRequest) { m.TableName = proto.String("other") }), codeNotExist, "Requested table does not exist."},
		{"a table that has no name", "PutRow", request(func(m *otsprotocol.PutRowRequest) { m.TableName = proto.String("") }), "", "Invalid table name: ``."},
		{"a key of another name", "PutRow", row(wireRow{pk: []cell{text("id", "x")}}), codeInvalidPK, "Validate PK name fail. Input: id, Meta: k."},
		{"a key of another type", "PutRow", row(wireRow{pk: []cell{integer("k", 1)}}), codeInvalidPK, "Validate PK type fail. Input: VT_INTEGER, Meta: VT_STRING."},
		{"a key of two columns", "PutRow", row(wireRow{pk: []cell{text("k", "x"), text("n", "x")}}), codeInvalidPK, "Validate PK size fail. Input: 2, Meta: 1."},
		{"a key without an end", "PutRow", row(wireRow{pk: []cell{{name: "k", val: value{kind: kindInfMax}, hasValue: true}}}), codeInvalidPK, "Validate PK type fail. Input: VT_INF_MAX, Meta: VT_STRING."},
		{"an auto-increment key in a read", "GetRow", get(func(m *otsprotocol.GetRowRequest) {
			m.PrimaryKey = encodeRows(wireRow{pk: []cell{{name: "k", val: value{kind: kindAutoInc}, hasValue: true}}})
		}), "", "PKAutoIncr can't be used for read operations."},
		{"a key with a time stamp", "PutRow", row(wireRow{pk: []cell{op(text("k", "x"), opPut, 5)}}), "", "Timestamp cannot be given for primary key name: `k`."},
		{"a key without a value", "PutRow", row(wireRow{pk: []cell{{name: "k"}}}), "", "No value is given for primary key name: `k`."},
		{"a read with columns", "GetRow", get(func(m *otsprotocol.GetRowRequest) {
			m.PrimaryKey = encodeRows(wireRow{pk: key, attrs: []cell{text("a", "1")}})
		}), "", "Attribute column cannot be given while reading data."},
		{"a read without versions", "GetRow", get(func(m *otsprotocol.GetRowRequest) { m.MaxVersions = nil }), "", "No version condition is specified while querying row."},
		{"a read of half a time range", "GetRow", get(func(m *otsprotocol.GetRowRequest) {
			m.TimeRange = &otsprotocol.TimeRange{StartTime: proto.Int64(1)}
		}), "", "Start and end time must be given at the same time."},
		{"a read of 129 columns", "GetRow", get(func(m *otsprotocol.GetRowRequest) {
			m.ColumnsToGet = strings.Split(strings.Repeat("a,", 128)+"a", ",")
		}), "", "The number of columns from the request exceeds the limit, limit count: `128` , column count:`129`."},
		{"a put that deletes", "PutRow", row(wireRow{pk: key, attrs: []cell{{name: "a", op: opDeleteAll}}}), "", "OpType cannot be given for column name:`a` in PutRow."},
		{"a put with a delete marker", "PutRow", row(wireRow{pk: key, deleted: true}), "", "Invalid request of put/update row: unexpected RowDeleteMarker in request."},
		{"a delete without its marker", "DeleteRow", &otsprotocol.DeleteRowRequest{
			TableName: proto.String("claims"), PrimaryKey: encodeRows(wireRow{pk: key}), Condition: &otsprotocol.Condition{RowExistence: ignoreExpectation()},
		}, "", "Invalid request of delete row: missing RowDeleteMarker in request"},
		{"an update of nothing", "UpdateRow", update(), "", "Invalid update row request: missing cells in request"},
		{"a delete of a version without its time", "UpdateRow", update(cell{name: "a", op: opDeleteOne}), "", "Timestamp must be given when type is DELETE_ONE_VERSION."},
		{"a delete of all versions with a time", "UpdateRow", update(cell{name: "a", op: opDeleteAll, at: 1, hasAt: true}), "", "Timestamp cannot be given when type is DELETE_ALL_VERSION."},
		{"a delete with a value", "UpdateRow", update(op(text("a", "1"), opDeleteAll, 0)), "", "Column value cannot be given when type is DELETE_ONE_VERSION,DELETE_ALL_VERSION."},
		{"an increment of text", "UpdateRow", update(op(text("a", "1"), opIncrement, 0)), "", "INCREMENT takes an integer value and no timestamp, column: `a`."},
		{"a column twice", "UpdateRow", update(text("a", "1"), text("a", "2")), "", "Duplicated attribute column name: `a`."},
		{"a column without a value", "PutRow", row(wireRow{pk: key, attrs: []cell{{name: "a"}}}), "", "No value is given for column name: `a`."},
		{"a column without an end", "PutRow", row(wireRow{pk: key, attrs: []cell{{name: "a", val: value{kind: kindInfMin}, hasValue: true}}}), "", "VT_INF_MIN is an invalid type for the attribute column."},
		{"a time stamp before the epoch", "PutRow", row(wireRow{pk: key, attrs: []cell{op(text("a", "1"), opPut, -1)}}), "", "Timestamp must be in range [0, INT64_MAX/1000)."},
	}
	twice(t, func(t *testing.T, s *stand) {
		s.table("claims", 1)
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) {
				status, code := 400, codeParameter
				if tt.code != "" {
					code = tt.code
				}
				if code == codeNotExist {
					status = 404
				}
				expect(t, s.send(tt.action, tt.m), status, code, tt.want)
				if n := len(s.Rows("claims")); n != 0 {
					t.Fatalf("a refused call left %d rows", n)
				}
			})
		}
	})
}

func TestRangePages(t *testing.T) {
	s := newStand(t, Options{}, false)
	s.table("claims", 1)
	for i := range 5003 {
		s.put("claims", fmt.Sprintf("key-%05d", i), nil)
	}
	t.Run("a page holds 5000 rows", func(t *testing.T) {
		for _, limit := range []int32{0, 9000} {
			if keys, pages := s.scan(&tablestore.RangeRowQueryCriteria{Limit: limit}); len(keys) != 5003 || pages != 2 {
				t.Fatal(len(keys), pages)
			}
		}
	})
	t.Run("a page holds 4 MB", func(t *testing.T) {
		for i := range 5 {
			s.put("claims", fmt.Sprintf("zz-%d", i), cols{"a": make([]byte, 1500<<10)})
		}
		keys, pages := s.scan(&tablestore.RangeRowQueryCriteria{StartPrimaryKey: pk("zz"), EndPrimaryKey: highest()})
		if len(keys) != 5 || pages != 3 {
			t.Fatal(len(keys), pages)
		}
	})
}

func TestKeyListAgainstSorting(t *testing.T) {
	var l keyList
	for i := range 3000 {
		l.insert(fmt.Sprintf("%05d", i*7919%3000))
	}
	for i := 0; i < 3000; i += 3 {
		l.remove(fmt.Sprintf("%05d", i))
	}
	var got bytes.Buffer
	for key := range l.all() {
		fmt.Fprintln(&got, key)
	}
	var want, back strings.Builder
	for i := range 3000 {
		if i%3 != 0 {
			fmt.Fprintf(&want, "%05d\n", i)
		}
	}
	if got.String() != want.String() {
		t.Fatal("forward is not in order")
	}
	got.Reset()
	for key := range l.backward("02000", "01000") {
		fmt.Fprintln(&got, key)
	}
	for i := 2000; i > 1000; i-- {
		if i%3 != 0 {
			fmt.Fprintf(&back, "%05d\n", i)
		}
	}
	if got.String() != back.String() {
		t.Fatal("backward is not in order")
	}
}

func TestErrorsOfThisPackageAreCallErrors(t *testing.T) {
	if e := asCallError(errors.New("disk is full")); e.status != 500 || e.code != codeInternal {
		t.Fatal(e)
	}
}
