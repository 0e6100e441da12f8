package strictjson

import (
	"bytes"
	"encoding/binary"
	"math/bits"

	"github.com/go-json-experiment/json/jsontext"
)

// Cursor walks the text of a checked value. It checks nothing again, so it must
// never see a text that Check has not passed.
//
//	for c.Open(); c.More(); {
//		name := c.Name() // in an object
//		text := c.Skip()
//	}
type Cursor struct {
	raw []byte
	at  int
}

// Kind is the kind of the value that comes next, as Value.Kind says it.
func (c *Cursor) Kind() byte { return kind(c.raw[c.at]) }

func kind(first byte) byte {
	if first == '-' || '0' <= first && first <= '9' {
		return '0'
	}
	return first
}

// Open enters the object or array that comes next.
func (c *Cursor) Open() { c.at++ }

// More reports whether the object or array that was entered has another member,
// and leaves it where it has none.
func (c *Cursor) More() bool {
	c.blank()
	if c.raw[c.at] == ',' {
		c.at++
		c.blank()
	}
	if b := c.raw[c.at]; b == '}' || b == ']' {
		c.at++
		return false
	}
	return true
}

// Name reads the name of an object's member: its text, quotes included.
func (c *Cursor) Name() []byte {
	start := c.at
	c.at = stringEnd(c.raw, c.at)
	name := c.raw[start:c.at]
	c.blank()
	c.at++ // the colon
	c.blank()
	return name
}

// Skip reads the value that comes next, whatever it is, and returns its text.
func (c *Cursor) Skip() []byte {
	start := c.at
	switch c.raw[c.at] {
	case '"':
		c.at = stringEnd(c.raw, c.at)
	case '{', '[':
		c.at = containerEnd(c.raw, c.at)
	default:
		for c.at < len(c.raw) && !ends[c.raw[c.at]] {
			c.at++
		}
	}
	return c.raw[start:c.at:c.at]
}

// Value reads the value that comes next.
func (c *Cursor) Value() Value { return Value{c.Skip()} }

// Until is the value from here to where a later cursor has read it.
func (c *Cursor) Until(end Cursor) Value { return Value{c.raw[c.at:end.at:end.at]} }

// ends are the bytes that end a number or a word.
var ends = [256]bool{',': true, '}': true, ']': true, ' ': true, '\t': true, '\r': true, '\n': true}

func (c *Cursor) blank() {
	for c.at < len(c.raw) {
		switch c.raw[c.at] {
		case ' ', '\t', '\r', '\n':
			c.at++
		default:
			return
		}
	}
}

// stringEnd is the place after the string that begins at a quote. It looks at
// eight bytes at once, and where a string is long, at as many as the machine can.
func stringEnd(raw []byte, at int) int {
	at++
	clean := 0 // times eight bytes without a quote or an escape
	for {
		if at+8 <= len(raw) {
			eight := binary.LittleEndian.Uint64(raw[at:])
			special := zeroes(eight^quotes) | zeroes(eight^escapes)
			if special == 0 {
				at += 8
				if clean++; clean%longAfter == 0 {
					at += plain(raw[at:min(at+longWindow, len(raw))])
				}
				continue
			}
			at += bits.TrailingZeros64(special) / 8
		}
		switch raw[at] {
		case '"':
			return at + 1
		case '\\':
			at++
		}
		at++
		clean = 0
	}
}

// A string is long after so many times eight bytes; then so many bytes are searched
// at once. The window is bounded, or a text of many escapes would be searched to its
// end for each of them.
const (
	longAfter  = 8
	longWindow = 4096
)

// plain is how many bytes come before the first quote or escape.
func plain(window []byte) int {
	if i := bytes.IndexByte(window, '"'); i >= 0 {
		window = window[:i]
	}
	if i := bytes.IndexByte(window, '\\'); i >= 0 {
		return i
	}
	return len(window)
}

const (
	ones    = 0x0101010101010101
	quotes  = '"' * ones
	escapes = '\\' * ones
)

// zeroes marks the zero bytes of eight; the lowest mark is never wrong.
func zeroes(eight uint64) uint64 { return (eight - ones) &^ eight & (0x80 * ones) }

func containerEnd(raw []byte, at int) int {
	for open := 0; ; {
		switch raw[at] {
		case '"':
			at = stringEnd(raw, at)
			continue
		case '{', '[':
			open++
		case '}', ']':
			open--
			if open == 0 {
				return at + 1
			}
		}
		at++
	}
}

// depth is how deep arrays and objects of a valid text nest.
func depth(raw []byte) (deepest int) {
	if bytes.Count(raw, []byte{'{'})+bytes.Count(raw, []byte{'['}) <= MaxDepth {
		return 0 // deep enough for nobody
	}
	open := 0
	for at := 0; at < len(raw); {
		switch raw[at] {
		case '"':
			at = stringEnd(raw, at)
			continue
		case '{', '[':
			open++
			deepest = max(deepest, open)
		case '}', ']':
			open--
		}
		at++
	}
	return deepest
}

// Unquote is what the text of a checked string holds: a part of the text itself
// where nothing in it is escaped.
func Unquote(text []byte) []byte {
	inside := text[1 : len(text)-1]
	if bytes.IndexByte(inside, '\\') < 0 {
		return inside
	}
	plain, _ := jsontext.AppendUnquote(nil, text)
	return plain
}

// NameIs reports whether the text of a checked string holds a name.
func NameIs(text []byte, name string) bool { return string(Unquote(text)) == name }
