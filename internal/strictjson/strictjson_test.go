package strictjson

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	got, err := Parse([]byte(` {"n":9007199254740993,"e":1e999999999,"a":[true,null,"é"]} `))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"n": json.Number("9007199254740993"), "e": json.Number("1e999999999"),
		"a": []any{true, nil, "é"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, in, reason string }{
		{"a duplicate name", `{"a":1,"a":2}`, "duplicate object name"},
		{"a duplicate name spelt with an escape", `{"a":1,"\u0061":2}`, "duplicate object name"},
		{"a nested duplicate name", `{"x":[{"a":1,"a":2}]}`, "duplicate object name"},
		{"invalid UTF-8", "\"\xff\"", "invalid UTF-8"},
		{"an unpaired surrogate", `"\ud800"`, "invalid syntax"},
		{"NaN", `{"a":NaN}`, "invalid syntax"},
		{"a second value", `1 2`, "trailing data"},
		{"nothing", ``, "unexpected end"},
		{"half an object", `{"a":`, "unexpected end"},
		{"deep nesting", strings.Repeat("[", 65) + strings.Repeat("]", 65), "nested deeper than 64 levels"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse([]byte(c.in))
			var syn *SyntaxError
			if !errors.As(err, &syn) || syn.Reason != c.reason {
				t.Fatalf("got %v, want %s", err, c.reason)
			}
		})
	}
	if _, err := Parse([]byte(strings.Repeat("[", 64) + strings.Repeat("]", 64))); err != nil {
		t.Errorf("64 levels: %v", err)
	}
}

func TestParseObjectKeepsEachMembersText(t *testing.T) {
	tree, members, err := ParseObject([]byte(` {"a" : {"n": 1.0} , "b":[ 1 ],"c":"x"} `))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for k, v := range members {
		got[k] = string(v)
	}
	if d := cmp.Diff(map[string]string{"a": `{"n": 1.0}`, "b": `[ 1 ]`, "c": `"x"`}, got); d != "" {
		t.Error(d)
	}
	if len(tree) != 3 {
		t.Error(tree)
	}
	for _, in := range []string{`[]`, `1`, `null`, `{"a":1,"a":2}`, `{"a":1}x`, `{`, ``, `x`, `{"a":{"b":1,"b":1}}`} {
		if _, _, err := ParseObject([]byte(in)); err == nil {
			t.Errorf("%s was accepted", in)
		}
	}
}

func TestParseErrorNeverQuotesTheInput(t *testing.T) {
	for _, in := range []string{`{"13800001111":1,"13800001111":2}`, `{"13800001111":x}`, `"13800001111`} {
		if _, err := Parse([]byte(in)); err == nil || strings.Contains(err.Error(), "13800001111") {
			t.Errorf("%s: %v", in, err)
		}
	}
}

func TestMembers(t *testing.T) {
	got, err := Members([]byte(" [ {\"n\": 1.0}, \"{\\\"n\\\": 2.0}\",3,{\"a\":1,\"a\":2},\"\xff\", null ] "))
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, m := range got {
		texts = append(texts, string(m))
	}
	want := []string{`{"n": 1.0}`, `{"n": 2.0}`, `3`, `{"a":1,"a":2}`, "\"\xff\"", `null`}
	if d := cmp.Diff(want, texts); d != "" {
		t.Error(d)
	}
	for _, in := range []string{``, `{}`, `[`, `[1`, `[1,]`, `[1] 2`, `"x"`, `[x]`} {
		if _, err := Members([]byte(in)); err == nil {
			t.Errorf("%s was accepted", in)
		}
	}
	if got, err := Members([]byte(`[]`)); err != nil || len(got) != 0 {
		t.Errorf("empty array: %v %v", got, err)
	}
}

func TestAnArrayIsReadMemberByMember(t *testing.T) {
	read := func(r io.Reader, limit int) (texts []string, err error) {
		err = EachMember(r, limit, func(m []byte) error { texts = append(texts, string(m)); return nil })
		return texts, err
	}
	long := strings.Repeat("x", 100_000)
	in := ` [ {"n": 1.0}, "{\"n\": 2.0}" ,"` + long + `",3]` + "\n"
	texts, err := read(iotest.OneByteReader(strings.NewReader(in)), 200_000)
	if d := cmp.Diff([]string{`{"n": 1.0}`, `{"n": 2.0}`, long, `3`}, texts); d != "" || err != nil {
		t.Error(err, d)
	}
	if texts, err := read(strings.NewReader(in), 50_000); err != ErrLong || len(texts) != 2 {
		t.Errorf("a long member: %v after %d", err, len(texts))
	}
	if _, err := read(strings.NewReader("[1,"+strings.Repeat(" ", 100_000)), 50_000); err != ErrLong {
		t.Errorf("much white space: %v", err)
	}
	for _, in := range []string{``, `{}`, `[1`, `[1,]`, `[1] 2`} {
		var syntax *SyntaxError
		if _, err := read(strings.NewReader(in), 100); !errors.As(err, &syntax) {
			t.Errorf("%s: %v", in, err)
		}
	}
	broken := errors.New("the disk is broken")
	if texts, err := read(io.MultiReader(strings.NewReader("[1,2"), iotest.ErrReader(broken)), 100); err != broken || len(texts) != 1 {
		t.Errorf("a reader that fails: %v after %d", err, len(texts))
	}
	if err := EachMember(strings.NewReader("[1,2]"), 10, func([]byte) error { return broken }); err != broken {
		t.Errorf("the caller's own: %v", err)
	}
}
