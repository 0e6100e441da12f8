package idempotency

import (
	"bytes"
	"math/big"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/oncegate/oncegate/internal/strictjson"
)

// AppendCanonical appends the canonical form that Digest hashes. It differs
// from RFC 8785 where that would lose value: numbers are decimal digits without
// trailing zeros, "e" and the exponent (12.5 is 125e-1), never a float64.
func AppendCanonical(dst []byte, v strictjson.Value, without ...strictjson.Path) []byte {
	w := canonical{out: dst}
	w.whole(v, without)
	return w.out
}

func (w *canonical) whole(v strictjson.Value, without []strictjson.Path) {
	if !v.Exists() || slices.ContainsFunc(without, func(p strictjson.Path) bool { return len(p) == 0 }) {
		w.out = append(w.out, "null"...)
		return
	}
	c := v.Cursor()
	w.value(&c, without)
}

// canonical rewrites one value, straight from its text.
type canonical struct {
	out     []byte
	members []written // of the objects that are open, the innermost last
	names   []byte    // theirs, one behind the other
	scratch []byte
}

// written is a member of an object: where its name stands in names,
// and where it stands in out. Numbers alone, so that sorting moves no pointers.
type written struct{ name, nameEnd, start, end int }

func compareNames(names []byte, a, b written) int {
	return bytes.Compare(names[a.name:a.nameEnd], names[b.name:b.nameEnd])
}

func (w *canonical) value(c *strictjson.Cursor, without []strictjson.Path) {
	switch c.Kind() {
	case '{':
		w.object(c, without)
	case '[':
		w.array(c, without)
	case '"':
		quoted := c.Skip()
		w.text(quoted, strictjson.Unquote(quoted))
	case '0':
		w.out = appendNumber(w.out, c.Skip())
	default:
		w.out = append(w.out, c.Skip()...)
	}
}

func (w *canonical) object(c *strictjson.Cursor, without []strictjson.Path) {
	w.out = append(w.out, '{')
	first, names, start, sorted := len(w.members), len(w.names), len(w.out), true
	for c.Open(); c.More(); {
		quoted := c.Name()
		name := strictjson.Unquote(quoted)
		inside, gone := beyondName(without, name)
		if gone {
			c.Skip()
			continue
		}
		m := written{name: len(w.names), nameEnd: len(w.names) + len(name), start: len(w.out)}
		w.names = append(w.names, name...)
		w.text(quoted, name)
		w.out = append(w.out, ':')
		w.value(c, inside)
		w.out = append(w.out, ',')
		m.end = len(w.out)
		// Byte order of UTF-8 is code point order.
		if n := len(w.members); n > first && compareNames(w.names, w.members[n-1], m) > 0 {
			sorted = false
		}
		w.members = append(w.members, m)
	}
	if !sorted {
		w.sort(w.members[first:], start)
	}
	if len(w.members) > first {
		w.out = w.out[:len(w.out)-1] // the last comma
	}
	w.members, w.names = w.members[:first], w.names[:names]
	w.out = append(w.out, '}')
}

// sort puts the members of one object, which stand in out from start on, in the
// order of their names.
func (w *canonical) sort(members []written, start int) {
	names := w.names
	slices.SortFunc(members, func(a, b written) int { return compareNames(names, a, b) })
	w.scratch = append(w.scratch[:0], w.out[start:]...)
	w.out = w.out[:start]
	for _, m := range members {
		w.out = append(w.out, w.scratch[m.start-start:m.end-start]...)
	}
}

func (w *canonical) array(c *strictjson.Cursor, without []strictjson.Path) {
	length := 0
	if fromEnd(without) {
		ahead := *c
		for ahead.Open(); ahead.More(); ahead.Skip() {
			length++
		}
	}
	w.out = append(w.out, '[')
	n := 0
	for c.Open(); c.More(); n++ {
		if n > 0 {
			w.out = append(w.out, ',')
		}
		inside, gone := beyondElement(without, n, length)
		if gone {
			c.Skip()
			w.out = append(w.out, "null"...)
			continue
		}
		w.value(c, inside)
	}
	w.out = append(w.out, ']')
}

// text appends a string with no more escapes than JSON asks for.
func (w *canonical) text(quoted, inside []byte) {
	if len(inside)+2 == len(quoted) { // each escape is longer than what it stands for
		w.out = append(w.out, quoted...)
		return
	}
	w.out, _ = jsontext.AppendQuote(w.out, inside) // checked text is UTF-8
}

// beyondName returns what is left of the paths behind a member; gone says that
// one of them leads to the member itself.
func beyondName(paths []strictjson.Path, name []byte) (inside []strictjson.Path, gone bool) {
	for _, p := range paths {
		if p[0].Element || string(name) != p[0].Name {
			continue
		}
		if len(p) == 1 {
			return nil, true
		}
		inside = append(inside, p[1:])
	}
	return inside, false
}

// beyondElement is beyondName for element n of an array. Its length counts only
// where a path is from the end.
func beyondElement(paths []strictjson.Path, n, length int) (inside []strictjson.Path, gone bool) {
	for _, p := range paths {
		if !p[0].Element || p[0].Index != n && p[0].Index != n-length {
			continue
		}
		if len(p) == 1 {
			return nil, true
		}
		inside = append(inside, p[1:])
	}
	return inside, false
}

func fromEnd(paths []strictjson.Path) bool {
	return slices.ContainsFunc(paths, func(p strictjson.Path) bool { return p[0].Element && p[0].Index < 0 })
}

// appendNumber appends the exact decimal value of a JSON number.
func appendNumber(dst, text []byte) []byte {
	if isNatural(text) {
		significant := bytes.TrimRight(text, "0")
		return strconv.AppendInt(append(append(dst, significant...), 'e'), int64(len(text)-len(significant)), 10)
	}
	mantissa, exponent := text, []byte(nil)
	if i := bytes.IndexAny(text, "eE"); i >= 0 {
		mantissa, exponent = text[:i], bytes.TrimPrefix(text[i+1:], []byte("+"))
	}
	mantissa, negative := bytes.CutPrefix(mantissa, []byte("-"))
	whole, fraction, _ := bytes.Cut(mantissa, []byte("."))
	digits := whole
	if len(fraction) > 0 {
		digits = slices.Concat(whole, fraction)
	}
	digits = bytes.TrimLeft(digits, "0")
	if len(digits) == 0 {
		return append(dst, "0e0"...)
	}
	significant := bytes.TrimRight(digits, "0")
	shift := int64(len(digits) - len(significant) - len(fraction))
	if negative {
		dst = append(dst, '-')
	}
	dst = append(append(dst, significant...), 'e')
	if len(exponent) == 0 {
		return strconv.AppendInt(dst, shift, 10)
	}
	exp, _ := new(big.Int).SetString(string(exponent), 10) // as long as it likes
	return exp.Add(exp, big.NewInt(shift)).Append(dst, 10)
}

// isNatural reports whether a number is digits alone, and not zero: most are.
func isNatural(text []byte) bool {
	for _, b := range text {
		if b < '0' || b > '9' {
			return false
		}
	}
	return text[0] != '0'
}
