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
	d := jsontext.NewDecoder(bytes.NewBuffer(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if d.PeekKind() != '[' {
		return nil, &SyntaxError{"not an array", d.InputOffset()}
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, explain(d, err)
	}
	var members [][]byte
	for d.PeekKind() != ']' {
		text, err := d.ReadValue()
		if err != nil {
			return nil, explain(d, err)
		}
		member := bytes.Clone(text)
		if text.Kind() == '"' {
			if inside, err := jsontext.AppendUnquote(nil, text); err == nil {
				member = inside
			}
		}
		members = append(members, member)
	}
	if _, err := d.ReadToken(); err != nil {
		return nil, explain(d, err)
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return nil, &SyntaxError{"trailing data", d.InputOffset()}
	}
	return members, nil
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
