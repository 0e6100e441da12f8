package importtest

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// read parses the imports of every Go file below the module's root, programs in
// testdata included.
func read(t *testing.T) []Import {
	t.Helper()
	const root = "../.."
	var imports []Import
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && name != root && (strings.HasPrefix(d.Name(), ".") || d.Name() == "vendor"):
			return fs.SkipDir
		case d.IsDir() || filepath.Ext(name) != ".go":
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(name))
		if err != nil {
			return err
		}
		for _, s := range f.Imports {
			path, err := strconv.Unquote(s.Path.Value)
			if err != nil {
				return err
			}
			imports = append(imports, Import{filepath.ToSlash(dir), strings.HasSuffix(name, "_test.go"), d.Name(), path})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return imports
}

func TestImportsKeepTheRules(t *testing.T) {
	imports := read(t)
	rooms := map[string]bool{}
	for _, i := range imports {
		rooms[i.From] = true
	}
	for _, room := range []string{"events", "flows", "idempotency", "artifacts", "handler", "deadletter/letter", "cmd/function", "cmd/oncegate", "internal/aliyun"} {
		if !rooms[room] {
			t.Errorf("nothing was read of %s", room)
		}
	}
	for _, broken := range Check(imports) {
		t.Error(broken)
	}
	raw, err := os.ReadFile("../../go.mod")
	if err != nil || !strings.HasPrefix(string(raw), "module "+module+"\n") {
		t.Errorf("the module is not %s", module)
	}
}

func TestRulesRefuseWhatTheyAreFor(t *testing.T) {
	const (
		ots = "github.com/aliyun/aliyun-tablestore-go-sdk/tablestore"
		oss = "github.com/aliyun/aliyun-oss-go-sdk/oss"
		fc  = "github.com/aliyun/fc-runtime-go-sdk/fccontext"
		ce  = "github.com/cloudevents/sdk-go/v2/event"
		ai  = "github.com/sashabaranov/go-openai"
	)
	in := func(dir string) string { return module + "/" + dir }
	for _, c := range []struct {
		name string
		i    Import
		want string // in the reason; "" for allowed
	}{
		{"handler uses the letter", Import{From: "handler", Path: in("deadletter/letter")}, ""},
		{"handler uses intake", Import{From: "handler", Path: in("deadletter")}, "letter and the plan alone"},
		{"handler uses a room below the letter", Import{From: "handler", Path: in("deadletter/letter/x")}, "letter and the plan alone"},
		{"a test of handler uses intake", Import{From: "handler", Test: true, Path: in("deadletter")}, "letter and the plan alone"},
		{"deadletter uses handler", Import{From: "deadletter", Path: in("handler")}, "never imports handler"},
		{"the letter uses handler", Import{From: "deadletter/letter", Path: in("handler")}, "never imports handler"},
		{"handler reads the process", Import{From: "handler", Path: "os"}, "process"},
		{"handler runs programs", Import{From: "handler", Path: "os/exec"}, "process"},
		{"deadletter reads the process", Import{From: "deadletter/letter", Path: "os"}, "process"},
		{"a test of deadletter reads a file", Import{From: "deadletter/letter", Test: true, Path: "os"}, ""},
		{"a stand-in of handler runs programs", Import{From: "handler/fctest", Path: "os/exec"}, ""},
		{"handler uses Tablestore", Import{From: "handler", Path: ots}, "no SDK"},
		{"handler uses FC", Import{From: "handler", Path: fc}, "no SDK"},
		{"handler uses CloudEvents", Import{From: "handler", Path: ce}, "no SDK"},
		{"deadletter uses OSS", Import{From: "deadletter", Path: oss}, "no SDK"},
		{"deadletter uses the model", Import{From: "deadletter", Path: ai}, "no SDK"},
		{"idempotency uses events", Import{From: "idempotency", Path: in("events")}, "does not know events"},
		{"idempotency uses artifacts", Import{From: "idempotency", Path: in("artifacts")}, "does not know artifacts"},
		{"idempotency uses flows", Import{From: "idempotency", Path: in("flows")}, "does not know flows"},
		{"idempotency uses aliyun", Import{From: "idempotency", Path: in("internal/aliyun")}, ""},
		{"handler uses a stand-in", Import{From: "handler", Path: in("idempotency/otstest")}, "stand-ins"},
		{"cmd/function uses a stand-in", Import{From: "cmd/function", Path: in("flows/modeltest")}, "stand-ins"},
		{"internal/aliyun uses cloudtest", Import{From: "internal/aliyun", Path: in("internal/cloudtest")}, "stand-ins"},
		{"idempotency uses its stand-in", Import{From: "idempotency", Path: in("idempotency/otstest")}, "stand-ins"},
		{"a test uses a stand-in", Import{From: "idempotency", Test: true, Path: in("idempotency/otstest")}, ""},
		{"a stand-in uses another", Import{From: "artifacts/osstest", Path: in("internal/cloudtest")}, ""},
		{"cmd/oncegate uses a stand-in", Import{From: "cmd/oncegate", Path: in("events/ebtest")}, ""},
		{"handler uses cmd", Import{From: "handler", Path: in("cmd/function")}, "nothing imports cmd"},
		{"cmd/oncegate uses cmd/function", Import{From: "cmd/oncegate", Path: in("cmd/function")}, "nothing imports cmd"},
		{"a test uses cmd", Import{From: "handler", Test: true, Path: in("cmd/oncegate")}, "nothing imports cmd"},
		{"an outer test of cmd uses it", Import{From: "cmd/function", Test: true, Path: in("cmd/function")}, ""},
		{"artifacts uses OSS", Import{From: "artifacts", Path: oss}, "cloud SDKs"},
		{"flows uses FC", Import{From: "flows", Path: fc}, "cloud SDKs"},
		{"events uses an OpenAPI client", Import{From: "events", Path: "github.com/alibabacloud-go/darabonba-openapi/v2/client"}, "cloud SDKs"},
		{"a room below aliyun uses OSS", Import{From: "internal/aliyun/x", Path: oss}, "cloud SDKs"},
		{"aliyun uses Tablestore", Import{From: "internal/aliyun", Path: ots}, ""},
		{"cmd/function uses FC", Import{From: "cmd/function", Path: fc}, ""},
		{"a stand-in uses the wire types", Import{From: "idempotency/otstest", Path: ots + "/otsprotocol"}, ""},
		{"events uses CloudEvents", Import{From: "events", Path: ce}, ""},
		{"flows uses the model", Import{From: "flows", Path: ai}, ""},
		{"another module of the same name", Import{From: "handler", Path: "example.org/deadletter"}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.i.File = "x.go"
			broken := Check([]Import{c.i})
			if c.want == "" && len(broken) > 0 {
				t.Errorf("refused: %v", broken)
			}
			if c.want != "" && (len(broken) == 0 || !strings.Contains(strings.Join(broken, "\n"), c.want)) {
				t.Errorf("got %v, want %q", broken, c.want)
			}
		})
	}
}
