package report

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Bounds of a page.
const (
	maxRows = 500
	maxPage = 1 << 20 // bytes
)

//go:embed style.css
var style string

//go:embed templates/*.html
var templates embed.FS

// writer renders pages into the files of a report.
type writer struct {
	Options
	pages *template.Template
	words words
	// kept while groups are written
	byGroup map[string][]string // plans of a fingerprint
	repairs *pager[Evidence]
	asked   int
}

func newWriter(o Options) (*writer, error) {
	w := &writer{Options: o, byGroup: map[string][]string{}}
	var err error
	if w.words, err = wordsOf(o.Lang); err != nil {
		return nil, err
	}
	w.pages = template.New("").Funcs(w.funcs())
	for _, name := range []string{"layout", "overview", "group", "batch"} {
		raw, err := templates.ReadFile("templates/" + name + ".html")
		if err == nil {
			_, err = w.pages.Parse(w.translate(string(raw)))
		}
		if err != nil {
			return nil, fmt.Errorf("parse pages: %w", err)
		}
	}
	return w, nil
}

var word = regexp.MustCompile(`\{\{t "([^"]+)"\}\}`)

// translate puts the words of the language into a template once, and not for each row.
func (w *writer) translate(page string) string {
	return word.ReplaceAllStringFunc(page, func(call string) string {
		return template.HTMLEscapeString(w.words.say(word.FindStringSubmatch(call)[1]))
	})
}

func (w *writer) progress(step string, done int64) {
	if w.Progress != nil {
		w.Progress(step, done)
	}
}

// page is what the layout needs.
type page struct {
	Title string
	Here  string // entry of the navigation
	Root  string // path from the page to the folder
	Lang  string
	Made  time.Time
	Env   string
	CSP   string
	Style template.CSS
	Data  any
}

// policy lets a page use its own style and nothing else, from anywhere.
func policy() string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'"
}

var errPageSize = errors.New("the page is larger than 1 MB")

func (w *writer) render(name, from, title, here string, data any) error {
	p := page{
		Title: title, Here: here, Root: strings.Repeat("../", strings.Count(name, "/")), Lang: w.words.tag, Made: w.Now, Env: visible(w.Environment, cutName),
		CSP: policy(), Style: template.CSS(style), Data: data,
	}
	var b bytes.Buffer
	if err := w.pages.ExecuteTemplate(&b, from, p); err != nil {
		return fmt.Errorf("render %s: %w", name, err)
	}
	if b.Len() > maxPage {
		return fmt.Errorf("render %s: %w", name, errPageSize)
	}
	return w.file(name, b.Bytes())
}

func (w *writer) file(name string, body []byte) error {
	out, err := w.Out(name)
	if err != nil {
		return fmt.Errorf("open %s: %w", name, err)
	}
	_, err = out.Write(body)
	if err = errors.Join(err, out.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// listPage is one page of a long list.
type listPage[T any] struct {
	Rows     []T
	From     int64 // place of the first row, from 1
	Page     int
	Total    int64 // 0 while nobody knows
	Known    bool  // Total is said
	Index    []link
	Previous string // file names beside this page
	Next     string
	About    any
}

// To is the place of the last row.
func (l listPage[T]) To() int64 { return l.From + int64(len(l.Rows)) - 1 }

// pager cuts a stream of rows into pages of maxRows. A page is written when the next
// row comes, so that it knows whether there is one.
type pager[T any] struct {
	name  string // of the first page, without .html
	held  []T
	pages int
	rows  int64
	known bool // total is set beforehand
	total int64
	put   func(name string, p listPage[T]) error
}

// link leads to a page of a list.
type link struct {
	Page int
	File string
	Here bool
}

// index is all pages of the list, once their number is known.
func (p *pager[T]) index() []link {
	n := max(p.pages, int((p.total+maxRows-1)/maxRows))
	if n < 2 {
		return nil
	}
	all := make([]link, n)
	for i := range all {
		all[i] = link{i + 1, p.file(i + 1), i+1 == p.pages}
	}
	return all
}

func (p *pager[T]) file(n int) string {
	base := p.name[strings.LastIndex(p.name, "/")+1:]
	if n > 1 {
		base += "-" + strconv.Itoa(n)
	}
	return base + ".html"
}

func (p *pager[T]) add(row T) error {
	if len(p.held) == maxRows {
		if err := p.flush(true); err != nil {
			return err
		}
	}
	p.held = append(p.held, row)
	p.rows++
	return nil
}

// end writes the last page, which may be empty where it is the only one.
func (p *pager[T]) end() error { return p.flush(false) }

func (p *pager[T]) flush(more bool) error {
	p.pages++
	l := listPage[T]{Rows: p.held, Page: p.pages, From: p.rows - int64(len(p.held)) + 1}
	if p.pages > 1 {
		l.Previous = p.file(p.pages - 1)
	}
	if more {
		l.Next = p.file(p.pages + 1)
	}
	if !more {
		p.known, p.total = true, p.rows
	}
	if p.known {
		l.Known, l.Total, l.Index = true, p.total, p.index()
	}
	folder := p.name[:strings.LastIndex(p.name, "/")+1]
	err := p.put(folder+p.file(p.pages), l)
	clear(p.held)
	p.held = p.held[:0]
	return err
}
