package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// texts are documents that readers disagree about, if about any.
var texts = []string{
	`{}`, `[]`, `""`, `0`, `-1.5e+3`, `true`, `false`, `null`, " \t\r\n{ } \n", ` [ 1 , 2 ] `,
	`{"a":1,"b":[true,null,{"c":"d"}],"":""}`, `{ "a" : { "b" : [ ] } , "c" : -0 }`,
	`{"a\"b":"\\","\u0061c":"\ud83d\ude00","x\\":"\\\""}`, `["\\","\\\\\"","` + strings.Repeat("x", 40) + `\"","` + strings.Repeat("y", 31) + `\\"]`,
	`{"long":"` + strings.Repeat("z", 200) + `","then":[[[]]]}`, `"` + strings.Repeat(`\"`, 40) + `"`,
	`{"a":1,"a":2}`, `{"a":1,"\u0061":2}`, "\"\xff\"", `"\ud800"`, `{"a":NaN}`, `1 2`, ``, `{"a":`, `[1,]`, `{"a":1,}`, `"` + "\n" + `"`,
	strings.Repeat("[", 64) + strings.Repeat("]", 64), strings.Repeat("[", 65) + strings.Repeat("]", 65),
	strings.Repeat(`{"a":`, 65) + "1" + strings.Repeat("}", 65), `[` + strings.Repeat(`"[",`, 70) + `[]]`, `[` + strings.Repeat("[],", 70) + `{}]`,
}

func FuzzAValueReadOnDemandIsTheOneThatParseBuilds(f *testing.F) {
	for _, text := range texts {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		tree, parseErr := Parse(raw)
		v, err := Check(raw)
		if (err == nil) != (parseErr == nil) || err != nil && err.Error() != parseErr.Error() {
			t.Fatalf("Check says %v, Parse %v", err, parseErr)
		}
		_, _, parseErr = ParseObject(raw)
		if o, err := CheckObject(raw); (err == nil) != (parseErr == nil) || err != nil && err.Error() != parseErr.Error() || err == nil && o.Kind() != '{' {
			t.Fatalf("CheckObject says %v, ParseObject %v", err, parseErr)
		}
		if err != nil {
			return
		}
		if !reflect.DeepEqual(tree, v.Any()) {
			t.Errorf("%s is built as %v, want %v", raw, v.Any(), tree)
		}
		descend(t, tree, v)
	})
}

// descend compares each member and element, reached one by one.
func descend(t *testing.T, tree any, v Value) {
	t.Helper()
	switch tree := tree.(type) {
	case map[string]any:
		n := 0
		v.Members(func(name []byte, member Value) {
			n++
			if want, ok := tree[string(Unquote(name))]; !ok || !reflect.DeepEqual(want, member.Any()) {
				t.Errorf("member %s is %s, want %v", name, member.Raw(), want)
			}
		})
		if n != len(tree) {
			t.Errorf("%d members, want %d", n, len(tree))
		}
		for name, want := range tree {
			descend(t, want, v.Member(name))
		}
	case []any:
		for i, want := range tree {
			if !reflect.DeepEqual(want, v.Element(i-len(tree)).Any()) {
				t.Errorf("element %d from the end is another one", i-len(tree))
			}
			descend(t, want, v.Element(i))
		}
		if v.Element(len(tree)).Exists() || v.Element(-len(tree)-1).Exists() {
			t.Error("an element beyond the array exists")
		}
	case string:
		if text, ok := v.Text(); !ok || text != tree {
			t.Errorf("text %q, want %q", text, tree)
		}
	default:
		if _, ok := v.Text(); ok || !v.Exists() {
			t.Errorf("%s is a text or missing", v.Raw())
		}
	}
}

func TestWhatIsMissingHoldsNothing(t *testing.T) {
	v, err := Check([]byte(`{"a":[1],"n":null}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, missing := range map[string]Value{
		"no member": v.Member("b"), "a member of an array": v.Member("a").Member("a"), "an element of an object": v.Element(0),
		"a member of nothing": Value{}.Member("a"), "an element of nothing": Value{}.Element(0), "a part of a number": v.Member("a").Element(0).Element(0),
	} {
		if _, ok := missing.Text(); ok || missing.Exists() || missing.Any() != nil || missing.Raw() != nil {
			t.Errorf("%s: %s", name, missing.Raw())
		}
	}
	if n := v.Member("n"); !n.Exists() || n.Any() != nil || n.Kind() != 'n' {
		t.Error("null is not there")
	}
	if one := v.Member("a").Element(0); one.Kind() != '0' || one.Any() != json.Number("1") {
		t.Errorf("the number is %v", one.Any())
	}
}

func TestCheckSaysWhatParseSays(t *testing.T) {
	_, err := Check([]byte(`{"a":[1,2,{"b":1,"b":2}]}`))
	var syn *SyntaxError
	if !errors.As(err, &syn) || syn.Reason != "duplicate object name" || syn.Offset == 0 {
		t.Errorf("got %v", err)
	}
}

// slowEnd is stringEnd a byte at a time.
func slowEnd(raw []byte, at int) int {
	for at++; raw[at] != '"'; at++ {
		if raw[at] == '\\' {
			at++
		}
	}
	return at + 1
}

func TestTheEndOfAStringIsFoundWhateverItsLength(t *testing.T) {
	for length := range 300 {
		for _, escape := range []int{-1, 0, 7, 8, 63, 64, 65, 71, 72, 127, 128, 200} {
			inside := bytes.Repeat([]byte("x"), length)
			if escape >= 0 && escape+1 < length {
				copy(inside[escape:], `\"`)
			}
			raw := slices.Concat([]byte(`"`), inside, []byte(`", "next"]`))
			if got, want := stringEnd(raw, 0), slowEnd(raw, 0); got != want {
				t.Fatalf("length %d, escape at %d: %d, want %d", length, escape, got, want)
			}
		}
	}
	for _, length := range []int{longWindow - 1, longWindow, longWindow + 64, longWindow + 65, 5 * longWindow} {
		for _, tail := range []string{`"`, `\\"`, `\""`, `\\\"x"`} {
			raw := slices.Concat([]byte(`"`), bytes.Repeat([]byte("y"), length), []byte(tail), []byte(`,"z"`))
			if got, want := stringEnd(raw, 0), slowEnd(raw, 0); got != want {
				t.Fatalf("length %d, %s: %d, want %d", length, tail, got, want)
			}
		}
	}
}
