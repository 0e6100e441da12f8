package messages

import (
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
)

// used are the constant formats that the code hands to T and to a Printer, with
// where it does.
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
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || filepath.Base(filepath.Dir(path)) == "messages" {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(file.Imports, func(s *ast.ImportSpec) bool {
			return strings.HasSuffix(strings.Trim(s.Path.Value, `"`), "/internal/messages")
		}) {
			return nil
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || len(call.Args) == 0 {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if x, ok := sel.X.(*ast.Ident); !ok || x.Name != "messages" || sel.Sel.Name != "T" {
				return true
			}
			at := set.Position(call.Pos()).String()
			format, ok := constant(call.Args[0])
			if !ok {
				t.Errorf("%s: the format of messages.T must be a constant", at)
				return true
			}
			formats[format] = at
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return formats
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

func TestNoTranslationIsLeftOver(t *testing.T) {
	p, err := chinese()
	if err != nil {
		t.Fatal(err)
	}
	formats := used(t)
	for en := range p.formats {
		if _, ok := formats[en]; !ok {
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
