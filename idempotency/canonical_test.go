package idempotency

import (
	"encoding/json"
	"errors"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/oncegate/oncegate/internal/strictjson"
)

var errCanonical = errors.New("not a JSON value")

// plainCanonical is the canonical form as it is defined, over a tree: what
// AppendCanonical makes straight from the text must be the same.
func plainCanonical(dst []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, v), nil
	case string:
		return jsontext.AppendQuote(dst, v)
	case json.Number:
		return plainNumber(dst, string(v))
	case []any:
		dst = append(dst, '[')
		var err error
		for i, e := range v {
			if i > 0 {
				dst = append(dst, ',')
			}
			if dst, err = plainCanonical(dst, e); err != nil {
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
			if dst, err = plainCanonical(dst, v[name]); err != nil {
				return nil, err
			}
		}
		return append(dst, '}'), nil
	default:
		return nil, errCanonical
	}
}

func plainNumber(dst []byte, text string) ([]byte, error) {
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

// leaveOut is the tree without what a path leads to, as it is defined.
func leaveOut(v any, p strictjson.Path) any {
	switch step := p[0]; v := v.(type) {
	case map[string]any:
		if child, ok := v[step.Name]; ok && !step.Element {
			v = maps.Clone(v)
			delete(v, step.Name)
			if len(p) > 1 {
				v[step.Name] = leaveOut(child, p[1:])
			}
			return v
		}
	case []any:
		i := step.Index
		if i < 0 {
			i += len(v)
		}
		if step.Element && i >= 0 && i < len(v) {
			v = slices.Clone(v)
			if len(p) == 1 {
				v[i] = nil
			} else {
				v[i] = leaveOut(v[i], p[1:])
			}
			return v
		}
	}
	return v
}

func FuzzTheCanonicalFormOfATextIsTheOneOfItsTree(f *testing.F) {
	for _, text := range []string{
		`null`, `{"b":1,"a":[{"d":1.50,"c":"x"},[]],"":{}}`, `{"\u0062":1,"a\"":2,"a!":3,"a":{"z":0,"y":-0.0}}`, ` { "b" : [ 1e3 , 10 , 12.5E-2 ] , "a" : true } `,
		`{"é":1,"z":2,"\ud83d\ude00":3,"\uffff":4}`, `"\u0000\/\u001f\u2028"`, `[[{"b":{"b":1,"a":2},"a":3}],{"b":false}]`, `{"a":[{"b":1},{"b":2},{"b":3}],"b":{"a":{"b":1}}}`,
	} {
		f.Add([]byte(text), "b", 0, -1)
		f.Add([]byte(text), "a", -2, 1)
	}
	f.Fuzz(func(t *testing.T, raw []byte, name string, i, j int) {
		tree, err := strictjson.Parse(raw)
		if err != nil {
			return
		}
		v, err := strictjson.Check(raw)
		if err != nil {
			t.Fatal(err)
		}
		step, first, second := strictjson.Step{Name: name}, strictjson.Step{Index: i, Element: true}, strictjson.Step{Index: j, Element: true}
		for _, paths := range [][]strictjson.Path{
			nil, {{step}}, {{first}}, {{step, step}, {{Name: "a"}}}, {{{Name: "a"}, first, {Name: "b"}}, {step, second}}, {{first}, {second, step}, {step, first, second}},
		} {
			rest := tree
			for _, p := range paths {
				rest = leaveOut(rest, p)
			}
			want, err := plainCanonical(nil, rest)
			if err != nil {
				t.Fatal(err)
			}
			if got := AppendCanonical([]byte("kept "), v, paths...); string(got) != "kept "+string(want) {
				t.Errorf("%s without %v is %s, want %s", raw, paths, got, want)
			}
		}
	})
}
