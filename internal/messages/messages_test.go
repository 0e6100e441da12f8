package messages

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"
)

// sayers are the functions whose first argument is a format for people.
var sayers = map[string]bool{
	"messages.T": true, "messages.Errorf": true, // everywhere
	"T":           true,                                      // in this package
	"usageErrorf": true, "notFoundf": true, "refusedf": true, // of cmd/oncegate
}

// used are the constant formats that the code says to people, with where it does.
func used(t *testing.T) map[string]string {
	t.Helper()
	root := filepath.Join("..", "..")
	formats := map[string]string{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name == "testdata" || name == "target" || strings.HasPrefix(name, ".") && name != ".." && name != "." {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		own := file.Name.Name == "messages"
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			name := called(call.Fun)
			if !sayers[name] || (name == "T" && !own) {
				return true
			}
			at := set.Position(call.Pos()).String()
			format, ok := constant(call.Args[0])
			if !ok {
				t.Errorf("%s: the format of %s must be a constant", at, name)
				return true
			}
			if wordy(format) {
				formats[format] = at
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return formats
}

// called is the name of a function as it is called: T, or messages.T.
func called(fun ast.Expr) string {
	switch fun := fun.(type) {
	case *ast.Ident:
		return fun.Name
	case *ast.SelectorExpr:
		if x, ok := fun.X.(*ast.Ident); ok {
			return x.Name + "." + fun.Sel.Name
		}
	}
	return ""
}

// constant is the value of a string literal, or of literals joined by +.
func constant(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		s, err := strconv.Unquote(e.Value)
		return s, err == nil
	case *ast.BinaryExpr:
		a, ok := constant(e.X)
		b, ok2 := constant(e.Y)
		return a + b, ok && ok2
	}
	return "", false
}

var verb = regexp.MustCompile(`%(\[(\d+)\])?[-+# 0]*\d*(?:\.\d+)?([a-zA-Z])`)

// verbs are the argument numbers of a format with the verb that each is said with.
func verbs(format string) []string {
	var out []string
	next := 1
	for _, m := range verb.FindAllStringSubmatch(strings.ReplaceAll(format, "%%", ""), -1) {
		if m[2] != "" {
			next, _ = strconv.Atoi(m[2])
		}
		out = append(out, strconv.Itoa(next)+m[3])
		next++
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// wordy reports whether a format says anything itself: one of signs alone may
// have its Chinese, for the punctuation, and need not.
func wordy(format string) bool {
	return strings.ContainsFunc(verb.ReplaceAllString(format, ""), unicode.IsLetter)
}

func TestEverySentenceHasItsChinese(t *testing.T) {
	p, err := chinese()
	if err != nil {
		t.Fatal(err)
	}
	for format, at := range used(t) {
		if p.formats[format] == "" {
			t.Errorf("%s: zh.yaml has no %q", at, format)
		}
	}
}

func TestTranslationsTakeTheSameArguments(t *testing.T) {
	p, err := chinese()
	if err != nil {
		t.Fatal(err)
	}
	for en, zh := range p.formats {
		if !slices.Equal(verbs(en), verbs(zh)) {
			t.Errorf("%q takes %v, its Chinese %q takes %v", en, verbs(en), zh, verbs(zh))
		}
	}
}

// typed is what a person types or looks for, whatever the language: flags,
// variables, codes, placeholders and commands.
var typed = regexp.MustCompile(`--[a-z][a-z-]*|[A-Z][A-Z0-9_]{2,}|oncegate (dlq|task|review|local|key|setup)( [a-z]+)?|local up|scripts/ram|enabled: true|keep_old|confirmed_done`)

func TestTranslationsKeepWhatIsTyped(t *testing.T) {
	p, err := chinese()
	if err != nil {
		t.Fatal(err)
	}
	for en, zh := range p.formats {
		for _, word := range typed.FindAllString(en, -1) {
			if en != word && !strings.Contains(zh, word) {
				t.Errorf("%q has %q, its Chinese %q has not", en, word, zh)
			}
		}
	}
}

func TestNoTranslationIsLeftOver(t *testing.T) {
	p, err := chinese()
	if err != nil {
		t.Fatal(err)
	}
	formats := used(t)
	for en := range p.formats {
		if _, ok := formats[en]; !ok && wordy(en) {
			t.Errorf("zh.yaml has %q, which nothing says", en)
		}
	}
}

func TestTheLocaleDecides(t *testing.T) {
	for _, tt := range []struct {
		env  map[string]string
		want bool
	}{
		{nil, false},
		{map[string]string{"LANG": "C.UTF-8"}, false},
		{map[string]string{"LANG": "zh_CN.UTF-8"}, true},
		{map[string]string{"LANG": "zh-CN"}, true},
		{map[string]string{"LANG": "zh"}, true},
		{map[string]string{"LANG": "zhx_ZZ"}, false},
		{map[string]string{"LANG": "zh_CN.UTF-8", "LC_ALL": "en_US.UTF-8"}, false},
		{map[string]string{"LANG": "en_US.UTF-8", "LC_MESSAGES": "zh_TW"}, true},
	} {
		got := For(func(name string) string { return tt.env[name] }) != nil
		if got != tt.want {
			t.Errorf("%v: Chinese = %v", tt.env, got)
		}
	}
}

func TestAnErrorIsSaidWithinWhatWrapsIt(t *testing.T) {
	p := &Printer{map[string]string{
		"gate %s refuses": "关卡 %s 拒绝", "%w; ask somebody": "%w；请问别人", "there is no file or folder %s": "没有 %s",
	}}
	sentinel := Errorf("gate %s refuses", "repair")
	missing := &fs.PathError{Op: "open", Path: "a.json", Err: fs.ErrNotExist}
	for _, c := range []struct {
		err    error
		zh, en string
	}{
		{sentinel, "关卡 repair 拒绝", "gate repair refuses"},
		{fmt.Errorf("explain: %w", sentinel), "explain: 关卡 repair 拒绝", "explain: gate repair refuses"},
		{Errorf("%w; ask somebody", fmt.Errorf("run: %w", sentinel)), "run: 关卡 repair 拒绝；请问别人", "run: gate repair refuses; ask somebody"},
		{errors.Join(errors.New("other"), sentinel), "other\n关卡 repair 拒绝", "other\ngate repair refuses"},
		{Error{Of(sentinel)}, "关卡 repair 拒绝", "gate repair refuses"},
		{fmt.Errorf("read events: %w", missing), "read events: 没有 a.json", "read events: open a.json: file does not exist"},
	} {
		if got := p.Error(c.err); got != c.zh {
			t.Errorf("said %q, want %q", got, c.zh)
		}
		if c.err.Error() != c.en || (*Printer)(nil).Error(c.err) != c.en {
			t.Errorf("in English %q, want %q", c.err, c.en)
		}
		if !errors.Is(c.err, sentinel) && !errors.Is(c.err, fs.ErrNotExist) {
			t.Errorf("%q has lost what it wraps", c.err)
		}
	}
	if errors.Is(Errorf("gate %s refuses", "repair"), sentinel) {
		t.Error("two errors of one text are one")
	}
}

func TestATextInsideATextIsSaidInTheSameLanguage(t *testing.T) {
	p := &Printer{map[string]string{"%s needs %s": "%[2]s 是 %[1]s 所需", "a reason": "一个理由"}}
	if got := p.Text(T("%s needs %s", "replay", T("a reason"))); got != "一个理由 是 replay 所需" {
		t.Errorf("said %q", got)
	}
	if got := T("%s needs %s", "replay", Error{T("a reason")}).String(); got != "replay needs a reason" {
		t.Errorf("said %q", got)
	}
	if got := p.Text(T("no translation %d", 1)); got != "no translation 1" {
		t.Errorf("said %q", got)
	}
}
