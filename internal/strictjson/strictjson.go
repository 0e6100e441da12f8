// Package strictjson reads JSON the way a ledger must: in one pass, refusing
// what lenient decoders guess about. Duplicate object names, invalid UTF-8,
// unpaired surrogates, trailing bytes and nesting past MaxDepth are errors, and
// numbers keep their exact spelling.
//
// A document becomes map[string]any, []any, string, json.Number, bool or nil.
package strictjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/go-json-experiment/json/jsontext"
)

// MaxDepth is how deep arrays and objects may nest.
const MaxDepth = 64

// SyntaxError says what is wrong and at which byte; it never quotes the input.
type SyntaxError struct {
	Reason string // one of a fixed set, fit for a log
	Offset int64  // bytes from the start
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("parse json: %s at byte %d", e.Reason, e.Offset)
}

// Parse reads exactly one JSON value. The error is a *SyntaxError.
func Parse(raw []byte) (any, error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw))
	v, err := value(d, 0)
	if err != nil {
		return nil, explain(d, err)
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return nil, &SyntaxError{"trailing data", d.InputOffset()}
	}
	return v, nil
}

// ParseObject reads exactly one JSON object and also returns the raw text of
// each top-level member, sub-slices of raw. A value that is no object is a
// *SyntaxError with the reason NotObject.
func ParseObject(raw []byte) (tree map[string]any, members map[string][]byte, err error) {
	d := jsontext.NewDecoder(bytes.NewBuffer(raw))
	switch d.PeekKind() {
	case '{':
	case '[', '"', '0', 't', 'f', 'n':
		return nil, nil, &SyntaxError{NotObject, d.InputOffset()}
	default:
		_, err := d.ReadToken()
		return nil, nil, explain(d, err)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, nil, explain(d, err)
	}
	tree, members = map[string]any{}, map[string][]byte{}
	for d.PeekKind() != '}' {
		name, err := d.ReadToken()
		if err != nil {
			return nil, nil, explain(d, err)
		}
		key, start := name.String(), d.InputOffset()
		if tree[key], err = value(d, 1); err != nil {
			return nil, nil, explain(d, err)
		}
		members[key] = bytes.TrimLeft(raw[start:d.InputOffset()], ": \t\r\n")
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, nil, explain(d, err)
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return nil, nil, &SyntaxError{"trailing data", d.InputOffset()}
	}
	return tree, members, nil
}

// Members cuts an array into its members: the raw text of each, and for a member
// that is a text, what it holds. The whole array must be valid; what its members
// are is the caller's business.
func Members(raw []byte) ([][]byte, error) {
	var members [][]byte
	err := eachMember(bytes.NewBuffer(raw), func() {}, func(member []byte) error {
		members = append(members, bytes.Clone(member))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return members, nil
}

// ErrLong says that a member is longer than its reader would hold.
var ErrLong = errors.New("a member of the array is too long")

// EachMember is Members for an array that is not held in memory: each is called
// with one member after the other, of at most limit bytes, which it must not keep.
// Members before a broken one have been handed on by then. The error is a
// *SyntaxError, ErrLong, the reader's, or that of each.
func EachMember(r io.Reader, limit int, each func(member []byte) error) error {
	b := &boundedReader{r: r, limit: limit + 4096} // what comes behind a member is read with it
	err := eachMember(b, b.begin, func(member []byte) error {
		if len(member) > limit {
			return ErrLong
		}
		return each(member)
	})
	var syntax *SyntaxError
	if b.failed != nil && errors.As(err, &syntax) {
		return b.failed
	}
	return err
}

// boundedReader ends the reading of a member that is too long.
type boundedReader struct {
	r           io.Reader
	limit, left int
	failed      error
}

func (b *boundedReader) begin() { b.left = b.limit }

func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.failed = ErrLong
		return 0, b.failed
	}
	n, err := b.r.Read(p[:min(len(p), b.left)])
	b.left -= n
	if err != nil && err != io.EOF {
		b.failed = err
	}
	return n, err
}

func eachMember(r io.Reader, begin func(), each func(member []byte) error) error {
	d := jsontext.NewDecoder(r, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	begin()
	if d.PeekKind() != '[' {
		if _, err := d.ReadToken(); err != nil {
			return explain(d, err)
		}
		return &SyntaxError{"not an array", 0}
	}
	if _, err := d.ReadToken(); err != nil {
		return explain(d, err)
	}
	for begin(); d.PeekKind() != ']'; begin() {
		text, err := d.ReadValue()
		if err != nil {
			return explain(d, err)
		}
		if text.Kind() == '"' {
			if inside, err := jsontext.AppendUnquote(nil, text); err == nil {
				text = inside
			}
		}
		if err := each(text); err != nil {
			return err
		}
	}
	if _, err := d.ReadToken(); err != nil {
		return explain(d, err)
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return &SyntaxError{"trailing data", d.InputOffset()}
	}
	return nil
}

// NotObject is the reason of a document that is JSON and not an object.
const NotObject = "not an object"

var errDepth = errors.New("nesting too deep")

func value(d *jsontext.Decoder, depth int) (any, error) {
	tok, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch tok.Kind() {
	case '{':
		if depth == MaxDepth {
			return nil, errDepth
		}
		obj := map[string]any{}
		for d.PeekKind() != '}' {
			name, err := d.ReadToken()
			if err != nil {
				return nil, err
			}
			key := name.String()
			if obj[key], err = value(d, depth+1); err != nil {
				return nil, err
			}
		}
		_, err = d.ReadToken()
		return obj, err
	case '[':
		if depth == MaxDepth {
			return nil, errDepth
		}
		arr := []any{}
		for d.PeekKind() != ']' {
			v, err := value(d, depth+1)
			if err != nil {
				return nil, err
			}
			arr = append(arr, v)
		}
		_, err = d.ReadToken()
		return arr, err
	case '"':
		return tok.String(), nil
	case '0':
		return json.Number(tok.String()), nil
	case 't', 'f':
		return tok.Bool(), nil
	default:
		return nil, nil
	}
}

func explain(d *jsontext.Decoder, err error) error {
	at := d.InputOffset()
	var syn *jsontext.SyntacticError
	if errors.As(err, &syn) {
		at = syn.ByteOffset
	}
	switch {
	case errors.Is(err, errDepth):
		return &SyntaxError{fmt.Sprintf("nested deeper than %d levels", MaxDepth), at}
	case errors.Is(err, jsontext.ErrDuplicateName):
		return &SyntaxError{"duplicate object name", at}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return &SyntaxError{"unexpected end", at}
	case syn != nil && syn.Err != nil && syn.Err.Error() == "invalid UTF-8":
		return &SyntaxError{"invalid UTF-8", at}
	default:
		return &SyntaxError{"invalid syntax", at}
	}
}
