// Package messages says sentences to people in their language. The English
// format in the code is the key; zh.yaml beside this file holds the Chinese
// ones, all in one place. What machines read (JSON, codes, logs) stays English.
package messages

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"

	"github.com/goccy/go-yaml"
)

// Text is a sentence for a person: an English format, as of package fmt, and
// what fills it in. An argument that is a Text itself is said in the same
// language.
type Text struct {
	Format string
	Args   []any
}

// T makes a Text. Its format must be a constant that zh.yaml knows; a test
// looks through the code for those that are missing.
func T(format string, args ...any) Text { return Text{format, args} }

// String says it in English.
func (t Text) String() string { return (*Printer)(nil).Text(t) }

// MarshalText keeps JSON English.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// IsZero reports whether nothing is said.
func (t Text) IsZero() bool { return t.Format == "" }

// Error makes a Text an error; its Error method is English. An error among its
// arguments is what it wraps.
type Error struct{ Text }

// Errorf is fmt.Errorf for people: its format is one of T. Two of its errors are
// never equal, so that it also makes sentinels.
func Errorf(format string, args ...any) error { return &Error{Text{format, args}} }

// Of is what an error says.
func Of(err error) Text { return Text{"%v", []any{err}} }

// Error implements error.
func (e Error) Error() string { return e.String() }

// Unwrap returns the errors among the arguments.
func (e Error) Unwrap() []error {
	var all []error
	for _, a := range e.Args {
		if err, ok := a.(error); ok {
			all = append(all, err)
		}
	}
	return all
}

// Said is the sentence itself.
func (e Error) Said() Text { return e.Text }

// Printer says Texts in one language. A nil *Printer says them in English.
type Printer struct{ formats map[string]string }

//go:embed zh.yaml
var zhFile []byte

var chinese = sync.OnceValues(func() (*Printer, error) {
	var formats map[string]string
	if err := yaml.Unmarshal(zhFile, &formats); err != nil {
		return nil, fmt.Errorf("read zh.yaml: %w", err)
	}
	return &Printer{formats}, nil
})

// For returns the Printer of a locale as LC_ALL, LC_MESSAGES and LANG name it,
// the first that is set: zh_CN.UTF-8 and every other zh is Chinese, all else
// English.
func For(getenv func(string) string) *Printer {
	for _, name := range []string{"LC_ALL", "LC_MESSAGES", "LANG"} {
		locale := getenv(name)
		if locale == "" {
			continue
		}
		if language, _, _ := strings.Cut(strings.ReplaceAll(locale, "-", "_"), "_"); strings.EqualFold(language, "zh") {
			p, err := chinese()
			if err != nil {
				return nil // the file is built in, and a test reads it
			}
			return p
		}
		return nil
	}
	return nil
}

// Text says one sentence.
func (p *Printer) Text(t Text) string { return p.Sprintf(t.Format, t.Args...) }

// Error says an error. One that has a method Said() Text is said by it; within any
// other, whose own words stay English, those that it wraps are.
func (p *Printer) Error(err error) string {
	text := err.Error()
	if p == nil {
		return text
	}
	if e, ok := err.(interface{ Said() Text }); ok {
		return p.Text(e.Said())
	}
	if t, ok := file(err); ok {
		return p.Text(t)
	}
	var inner []error
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		inner = []error{e.Unwrap()}
	case interface{ Unwrap() []error }:
		inner = e.Unwrap()
	}
	for _, one := range inner {
		if one != nil && one.Error() != "" {
			text = strings.Replace(text, one.Error(), p.Error(one), 1)
		}
	}
	return text
}

// Sprintf is fmt.Sprintf with the format in the printer's language. A format
// without translation is said in English rather than not at all.
func (p *Printer) Sprintf(format string, args ...any) string {
	said := format
	if p != nil {
		if f, ok := p.formats[format]; ok {
			said = f
		}
	}
	if len(args) == 0 {
		return said
	}
	filled := make([]any, len(args))
	for i, a := range args {
		switch a := a.(type) {
		case Text:
			filled[i] = p.Text(a)
		case error:
			filled[i] = p.Error(a)
		default:
			filled[i] = a
		}
	}
	return fmt.Sprintf(strings.ReplaceAll(said, "%w", "%v"), filled...)
}
